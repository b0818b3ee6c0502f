"""What probing writes down as a tool's demonstrations."""

from __future__ import annotations

from atc.probing.document import protocol_of
from atc.probing.record import Instance, Record
from atc.schemas.protocol import Example, Protocol

PROGRAM = "answer = get_lake(lake_id=3)"


def documented(instance: Instance, *declared: Example) -> tuple[Example, ...]:
    record = Record("get_lake")
    record.instances.append(instance)
    return protocol_of(Protocol(name="get_lake", examples=declared), record).examples


def test_a_demonstration_stands_beside_the_examples_of_the_source() -> None:
    instance = Instance("What is known of lake 3?", PROGRAM, {"lake_id": 3}, {"id": 3})
    declared = Example(response={"id": 1})
    first, probed = documented(instance, declared)
    assert (first, probed.program, probed.description) == (declared, PROGRAM, "What is known of lake 3?")
    assert documented(instance, own := Example(program=PROGRAM, response=1)) == (own,)


def test_a_program_with_a_secret_is_not_written_down() -> None:
    masked = Instance("q", "answer = get_lake(pin='4711')", {"pin": "***"}, 1)
    token = Instance("q", "answer = get_lake(key='ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0bC3dE6'" + ")", {}, 1)
    assert [documented(each)[0].program for each in (masked, token)] == ["", ""]
