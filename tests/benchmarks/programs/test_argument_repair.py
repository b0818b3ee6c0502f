"""Corruptions of arguments, what a repair of one came to, and the loader that undoes a recorder's renaming."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from atc._records.records import ArgumentRepair
from atc.schemas.repair import Repaired
from atc.schemas.validate import Problem
from benchmarks.programs.argument_repair import main, outcome_of, same
from benchmarks.programs.argument_repair_data import (
    agents_errors,
    listed_in,
    recorded_calls,
    renamed,
    renaming_undone,
    tool_of,
)
from benchmarks.programs.argument_repair_mistakes import KINDS, Corrupted, corruptions

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ferryRoute": {"type": "string", "description": "Route to sail."},
        "max_distance": {"type": "number", "description": "Farthest harbour, in miles."},
        "seats": {"type": "integer"},
        "berth": {"type": "boolean"},
        "sailing": {"type": "string", "format": "date"},
        "cabin-class": {"type": "string"},
        "decks": {"type": "array", "items": {"type": "string"}},
        "code": {"type": "string"},
        "harbours": {"type": "string", "description": "A comma-separated list of harbours to call at."},
        "note": {"type": "string"},
    },
    "required": ["ferryRoute", "seats"],
}
ENUMERATED = {
    **SCHEMA,
    "properties": {**SCHEMA["properties"], "cabin-class": {"type": "string", "enum": ["inside", "balcony"]}},
}
CALL: dict[str, Any] = {
    "ferryRoute": "Harwich",
    "max_distance": 12.5,
    "seats": 3,
    "berth": True,
    "sailing": "2031-05-04",
    "cabin-class": "balcony",
    "decks": ["upper"],
    "code": "4410",
    "harbours": "Hull,Esbjerg",
}
LOSSLESS = ("key: case", "key: sep", "key: camel", "type: number as text", "null")


def corrupted(**more: Any) -> dict[str, Corrupted]:
    call = {**CALL, **more}
    return {made.kind: made for made in corruptions(SCHEMA, call, ENUMERATED, [("purser", "Ada"), ("ferry_route", 1)])}


def test_each_kind_of_mistake_is_made_once_and_the_same_again() -> None:
    found = corrupted()
    assert set(found) == set(KINDS)
    assert list(corrupted()) == list(found)
    assert corrupted() == found
    assert all(not same(made.arguments, CALL) for made in found.values())


def test_what_was_meant_stays_known() -> None:
    found = corrupted()
    unclear = {kind for kind, made in found.items() if made.meant is None}
    assert unclear == {
        "required one dropped",
        "a sister tool's for a required one",
        "type: words for a number",
        "nest: list of two",
        "nest: object, two fields alike",
        "nest: object of something else",
        "enum: another word",
        "unit: another than documented",
        "date: day or month first",
    }
    assert all(made.meant in (None, CALL) for made in found.values())
    assert {kind for kind in found if kind.startswith(LOSSLESS)} <= {
        kind for kind, made in found.items() if made.lossless
    }
    assert not found["extra: a plausible one"].lossless
    assert {kind for kind, made in found.items() if made.enumerated} == {k for k in KINDS if k.startswith("enum")}


def test_mistakes_are_what_their_names_say() -> None:
    found = {kind: made.arguments for kind, made in corrupted().items()}
    assert len(found["required one dropped"]) == len(CALL) - 1
    assert found["extra: of a sister tool"]["purser"] == "Ada"
    assert found["unit: another than documented"]["max_distance"] == "12.5 km"
    assert found["date: day or month first"]["sailing"] == "04/05/2031"
    assert found["type: text as number"]["code"] == 4410
    assert found["nest: a list for a text of several"]["harbours"] == ["Hull", "Esbjerg"]
    assert found["null for an optional one"] == {**CALL, "note": None}
    assert "currency" in found["extra: a plausible one"] or len(found["extra: a plausible one"]) == len(CALL) + 1
    for kind, made in found.items():
        if kind.startswith("key:"):
            assert set(made) != set(CALL), kind
            assert list(made.values()) == list(CALL.values())


def test_a_mistake_never_takes_the_place_of_another_argument() -> None:
    schema = {"type": "object", "properties": {"tag": {"type": "string"}, "tags": {"type": "string"}}}
    made = [each for each in corruptions(schema, {"tag": "a", "tags": "b"}) if each.kind == "key: plural"]
    assert not made


def outcome(given: dict[str, Any], sent: dict[str, Any], *repairs: str, meant: Any = None, **more: Any) -> str:
    made = Corrupted("any", given, meant, more.get("lossless", True))
    facts = tuple(ArgumentRepair(kind=kind, path=()) for kind in repairs)  # type: ignore[arg-type]
    return outcome_of(made, Repaired(sent, facts, more.get("problems", ())), writes=more.get("writes", False))


def test_outcomes() -> None:
    meant = {"seats": 3}
    assert outcome({"seats": "3"}, {"seats": 3}, "format", meant=meant) == "restored"
    assert outcome({"seats": "3"}, {"seats": 3.0}, "format", meant=meant) == "restored"
    assert outcome({"seats": "3"}, {"seats": 4}, "format", meant=meant) == "wrong"
    assert outcome({"seats": "3"}, {"seats": True}, meant={"seats": 1}) == "wrong"
    assert outcome({"seats": "3"}, {"seats": "3"}, meant=meant) == "as given"
    assert outcome({"seats": "3"}, {}, "dropped") == "wrong"
    assert outcome({}, {}, problems=(Problem((), "missing", "required"),), meant=meant) == "refused"


def test_a_write_may_be_respelt_and_written_otherwise_and_no_more() -> None:
    meant = {"seats": 3}
    assert outcome({"seat": 3}, meant, "respelt", meant=meant, writes=True) == "restored"
    assert outcome({"seats": 3, "currency": "EUR"}, meant, "dropped", meant=meant, writes=True) == "beyond"
    assert outcome({"seats": 3, "currency": "EUR"}, meant, meant=meant, lossless=False, writes=True) == "beyond"
    assert outcome({"seats": 3, "currency": "EUR"}, meant, "dropped", meant=meant, lossless=False) == "restored"


def test_the_recorder_s_renaming_is_undone() -> None:
    assert [renamed(name) for name in ("id", "taskId", "as-number", "From", "2nd", "_x__y_")] == [
        "is_id",
        "taskid",
        "as_number",
        "is_from",
        "get_2nd",
        "x_y",
    ]
    known = {"id": {}, "taskId": {}, "is_open": {}}
    assert renaming_undone({"is_id": 1, "taskid": 2, "is_open": 3, "more": 4}, known) == {
        "id": 1,
        "taskId": 2,
        "is_open": 3,
        "more": 4,
    }
    assert renaming_undone({"userid": 1}, {"userId": {}, "userID": {}}) == {"userid": 1}
    assert renaming_undone({"taskid": 1, "taskId": 2}, known) == {"taskid": 1, "taskId": 2}


@pytest.mark.parametrize(
    ("description", "values"),
    [
        ("One of: ferry|tram|bus", ["ferry", "tram", "bus"]),
        ("Allowed values are `ferry`, `tram`.", ["ferry", "tram"]),
        ("Ferry or tram", []),
        ("Possible values: any text that you like, or a long one", []),
        ("One of: ferry", []),
    ],
)
def test_values_that_a_description_lists(description: str, values: list[str]) -> None:
    assert listed_in({"type": "string", "description": description}) == values
    assert listed_in({"type": "number", "description": description}) == []


def document(**parameters: dict[str, Any]) -> dict[str, Any]:
    return {"id": "toolbench/Sea/ferries/sail", "name": "sail", "parameters": parameters, "method": "GET"}


def test_a_document_as_a_tool() -> None:
    vessel = {"type": "STRING", "description": "One of: ferry|tram", "required": True}
    day = {"type": "date (yyyy-mm-dd)", "description": "", "required": False, "example": "2031-05-04"}
    key = {"type": "string", "description": "", "required": True}
    made = tool_of(document(vessel=vessel, day=day, Authorization=key))
    assert made.documented["required"] == ["vessel", "Authorization"]
    assert made.schema["required"] == ["vessel"]
    assert "Authorization" not in made.properties
    assert made.properties["day"] == {"type": "string", "format": "date", "description": "", "examples": ["2031-05-04"]}
    assert made.enumerated["properties"]["vessel"]["enum"] == ["ferry", "tram"]
    answered = tool_of(document(vessel=vessel), [{"vessel": "canoe"}])
    assert "enum" not in answered.enumerated["properties"]["vessel"]


def write(directory: Path) -> None:
    sail = document(taskId={"type": "number", "description": "", "required": True})
    mcp = {"id": "livemcp/sea/sail", "name": "sail", "parameters": {"deck": {"type": "string", "required": True}}}
    cache = [
        {"tool": sail["id"], "args": {"taskid": 3}, "response": "sailed", "label": "ok"},
        {"tool": sail["id"], "args": {"taskid": -1}, "response": "Invalid value", "label": "error"},
        {"tool": sail["id"], "args": {"taskid": 4}, "response": "storm", "label": "error"},
    ]
    calls = [
        {"tool": mcp["id"], "args": {"Deck": "upper"}, "error": "1 validation error"},
        {"tool": mcp["id"], "args": {"deck": "upper"}, "output": "sailed"},
    ]
    files = {
        "retrieval/corpus_toolbench.jsonl.gz": [sail],
        "retrieval/corpus_other.jsonl.gz": [mcp],
        "failures/toolbench_response_cache.jsonl.gz": cache,
        "trajectories/livemcp_agents.jsonl.gz": [{"calls": calls}, {"calls": calls}],
    }
    for name, records in files.items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress("".join(json.dumps(record) + "\n" for record in records).encode()))


def test_from_the_files_to_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    calls = recorded_calls(tmp_path)
    assert [(call.answered, call.of_arguments, call.arguments["taskId"]) for call in calls] == [
        (True, False, 3),
        (False, True, -1),
        (False, False, 4),
    ]
    assert calls[1].mended == ({"taskId": 3},)
    errors, made = agents_errors(tmp_path)
    assert made == 2
    assert [(call.given, call.mended) for call in errors] == [({"Deck": "upper"}, ({"deck": "upper"},))]
    main(tmp_path, half="all", as_json=True)
    figures = json.loads(capsys.readouterr().out)
    assert [row["calls"] for row in figures["refusals"]] == [1] * 8
    assert {row["kind"]: row["restored"] for row in figures["corruptions"]["read"]}["valid"] == 1
    assert figures["real"]["recorded"]["calls"] == 1
    main(tmp_path, half="all", shown="valid")
    assert "Refused of 1 answered" in capsys.readouterr().out
