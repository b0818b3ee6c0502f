"""What probed documents and demonstrations are worth: which environments are chosen, and how tries are paired."""

from __future__ import annotations

from pathlib import Path

import pytest

from atc.errors import UsageError
from atc.schemas.protocol import Example, Protocol
from benchmarks.probing.demonstration_audit import audit
from benchmarks.probing.help import environments


def test_documents_are_chosen_by_their_kind() -> None:
    assert [each.name for each in environments("atlas", "none", None)] == ["atlas", "atlas-probed", "atlas-bare"]
    assert [each.name for each in environments("atlas", "none", None, ["probed"])] == ["atlas-probed"]
    with pytest.raises(UsageError, match="cannot be probed"):
        environments("bfcl", "none", Path())


def shown(name: str, program: str, question: str = "How deep is it?", **arguments: object) -> Protocol:
    parameters = {"type": "object", "properties": {key: {} for key in arguments}}
    example = Example(arguments=arguments, response=1, description=question, program=program)
    return Protocol(name=name, parameters=parameters, examples=(example,))


HELPERS = [
    Protocol(name="find_lakes", parameters={"type": "object", "properties": {"name": {}, "lake_id": {}}}),
    Protocol(name="list_lakes"),
]


@pytest.mark.parametrize(
    ("mistake", "made"),
    [
        ("naming", shown("get_lake", "answer = get_lake()", "What does get_lake() return?")),
        (
            "tautologies",
            shown("get_lake", "x = find_lakes(lake_id='L7')\nanswer = get_lake(lake=x[0]['id'])", lake="L7"),
        ),
        ("backwards", shown("search", "x = list_lakes()\nanswer = search(query=x[0]['name'])", query="Inari")),
        ("unknowable", shown("get_lake", "answer = get_lake(lake_id='L7')", lake_id="L7")),
    ],
    ids=["naming", "tautology", "backwards", "unknowable"],
)
def test_each_mistake_is_found_and_no_other(mistake: str, made: Protocol) -> None:
    found = audit([made, *HELPERS])
    assert getattr(found, mistake) == (made.name,)
    others = {"naming", "tautologies", "backwards", "unknowable"} - {mistake}
    if mistake != "tautologies":  # it writes an identifier out, too
        assert not any(getattr(found, each) for each in others)


def test_a_good_demonstration_has_no_mistake() -> None:
    made = shown("get_lake", "x = find_lakes(name='Inari')\nanswer = get_lake(lake_id=x[0]['lake_id'])", lake_id="L7")
    found = audit([made, *HELPERS])
    assert (found.documented, found.demonstrated, found.chained) == (3, 1, 1)
    assert not any((found.naming, found.tautologies, found.backwards, found.unknowable))
