"""What probing writes down as a tool's demonstrations."""

from __future__ import annotations

from atc.probing.document import protocol_of
from atc.probing.record import Demonstration, Instance, Record
from atc.schemas.protocol import Example, Protocol

PROGRAM = "answer = get_lake(lake_id=3)"
SHOWN = Demonstration("What is known of lake 3?", PROGRAM, {"lake_id": 3})


def documented(*declared: Example) -> tuple[Example, ...]:
    record = Record("get_lake", demonstration=SHOWN)
    record.instances += [Instance({"lake_id": number}, {"id": number}) for number in (1, 2, 3)]
    return protocol_of(Protocol(name="get_lake", examples=declared), record).examples


def test_a_demonstration_stands_beside_the_examples_of_the_source() -> None:
    declared = Example(response={"id": 1})
    first, probed, other = documented(declared)
    assert (first, probed.program, probed.description) == (declared, PROGRAM, "What is known of lake 3?")
    assert (probed.response, other) == ({"id": 3}, Example(arguments={"lake_id": 1}, response={"id": 1}))
    assert documented(own := Example(program=PROGRAM, response=1)) == (own,)
