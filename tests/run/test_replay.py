"""A run that was answered is read back and replayed: its program in the jail, its calls answered as they were."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, ToolError, Toolset, UsageError, tool
from atc._records.recording import Change, RecordedCall, Recording
from atc.result import Effect
from atc.run.recording import recorded_tool, recording_of
from atc.run.replay import MAX_CHANGES, MAX_DIFFERENCES, Replayed, changes, replay, tool_changes
from atc.sandboxes.contract import Sandbox
from atc.schemas.protocol import Protocol
from atc.settings import Settings
from tests.support.agent import agent, code
from tests.support.kept import TEXT, kept
from tests.support.pages import THINGS, paged_service
from tests.support.tools import make_tool

MADE: list[str] = []


@tool(effect="read")
def stock_of(product: str) -> int:
    """Return how many pieces of a product are in stock."""
    MADE.append(product)
    if product == "sofa":
        raise ToolError("no such product")
    return {"lamp": 4, "chair": 2}[product]


@tool(effect="write")
def order(product: str, pieces: int) -> dict[str, str]:
    """Order pieces of a product."""
    MADE.append(f"{product} {pieces}")
    return {"id": f"A-{pieces}"}


PROGRAM = """\
import random, time, uuid
n = parallel(lambda: stock_of("lamp"), lambda: stock_of("chair"))
try:
    stock_of("sofa")
except ToolError as error:
    said = str(error)
made = order(product="lamp", pieces=sum(n))
answer = [n, made["id"], said, random.random(), time.time(), str(uuid.uuid4())]
"""


@pytest.fixture
def sandbox(_sandbox_of_all: Any) -> Sandbox:
    return _sandbox_of_all.open(Settings())


def replayed(recorded: Recording, sandbox: Sandbox, **options: Any) -> Replayed:
    return asyncio.run(replay(recorded, sandbox=sandbox, **options))


def recorded(*programs: str, tools: Any = (stock_of, order), **settings: Any) -> Recording:
    """Run these programs, one a revision of the other, and read the run back."""
    made = agent(*map(code, programs), tools=tools, **settings)
    result = made.run("Order lamps")
    assert result.status == "answered", result.fault
    return recording_of(made.store.find("last"))


def test_a_program_that_runs_again_gets_the_same_answers_the_same_clock_and_the_same_chance(sandbox: Sandbox) -> None:
    made = recorded(PROGRAM)
    assert [(each.tool, each.error) for each in made.calls] == [
        ("stock_of", None), ("stock_of", None), ("stock_of", "no such product"), ("order", None),
    ]  # fmt: skip
    assert (made.task, made.tools["order"].effect) == ("Order lamps", Effect.WRITE)
    MADE.clear()
    again = replayed(made, sandbox)
    assert again.same
    assert again.value == made.value
    assert MADE == [], "no tool is called"


def test_a_recording_survives_its_file() -> None:
    made = recorded(PROGRAM)
    assert Recording.model_validate_json(made.model_dump_json()) == made


def test_what_an_earlier_program_did_is_in_the_recording_of_the_last_one(sandbox: Sandbox) -> None:
    first = "order(product='lamp', pieces=1)\nstock_of('chair')\nraise ValueError('no')"
    made = recorded(first, "answer = order(product='lamp', pieces=1)['id']")
    assert [(each.tool, each.arguments) for each in made.calls] == [("order", {"product": "lamp", "pieces": 1})]
    assert replayed(made, sandbox).same


def test_a_call_that_is_not_recorded_is_told_beside_the_nearest_one(sandbox: Sandbox) -> None:
    made = recorded("answer = [stock_of('lamp'), stock_of('chair')]")
    other = (
        "got = [stock_of('lamp')]\ntry:\n    stock_of('table')\nexcept ToolError as error:\n    pass\nanswer = [4, 3]"
    )
    again = replayed(made, sandbox, program=other)
    asked, left, value = again.differences
    assert (asked.kind, asked.arguments, asked.line, asked.nearest) == ("not_recorded", {"product": "table"}, 3, 2)
    assert asked.changes == (Change(path=("product",), recorded='"chair"', now='"table"'),)
    assert (left.kind, left.tool, left.arguments) == ("not_made", "stock_of", {"product": "chair"})
    assert (value.kind, value.changes) == ("value", (Change(path=(1,), recorded="2", now="3"),))
    assert again.value == [4, 3]


def test_equal_calls_are_answered_in_their_order_and_no_more_of_them_than_were_made(sandbox: Sandbox) -> None:
    numbers = iter(range(100))
    count = make_tool("count", lambda _: next(numbers), Effect.WRITE)
    made = recorded("answer = [count(n=1), count(n=1)]", tools=Toolset([count]))
    assert replayed(made, sandbox).value == [0, 1]
    again = replayed(made, sandbox, program="answer = [count(n=1) for _ in range(3)]")
    first = again.differences[0]
    assert (first.kind, first.nearest, first.changes) == ("not_recorded", 1, ())
    assert again.differences[-1].kind == "ended"
    assert again.differences[-1].reason.startswith("ToolError: ")


def test_a_program_that_ends_otherwise_says_how(sandbox: Sandbox) -> None:
    made = recorded("answer = stock_of('lamp')")
    (ended,) = replayed(made, sandbox, program="stock_of('lamp')\nanswer = 1 / 0").differences
    assert (ended.kind, ended.line) == ("ended", 2)
    assert ended.reason.startswith("ZeroDivisionError")
    (silent,) = replayed(made, sandbox, program="stock_of('lamp')").differences
    assert (silent.kind, silent.reason) == ("ended", "finished")


def test_the_inputs_of_a_given_program_are_recorded_and_others_may_stand_there(sandbox: Sandbox) -> None:
    with Agent([stock_of], approve="never") as made:
        result = made.run_program(
            "answer = stock_of(product=what) + len(blob)", inputs={"what": "lamp", "blob": b"\x00\xff"}
        )
        assert result.value == 6
        found = recording_of(made.store.find(result.run_id))
    assert found.inputs == {"what": "lamp", "blob": b"\x00\xff"}
    assert replayed(found, sandbox).same
    again = replayed(found, sandbox, inputs={"what": "chair", "blob": b""})
    assert [each.kind for each in again.differences] == ["not_recorded", "not_made", "ended"]


def test_bytes_and_names_that_python_has_taken_come_back(sandbox: Sandbox) -> None:
    image = base64.b64decode("iVBORw0KGgo=")
    tools = Toolset(
        [make_tool("picture", lambda a: {"data": image, "of": a}, required=("class",), **{"class": {"type": "string"}})]
    )
    made = recorded("got = picture('x')\nanswer = [got, picture(class_='y')['of']]", tools=tools)
    assert [each.arguments for each in made.calls] == [{"class": "x"}, {"class": "y"}]
    assert made.calls[0].value["data"] == image
    assert replayed(Recording.model_validate_json(made.model_dump_json()), sandbox).same


@pytest.mark.parametrize("kind", ["linked", "by_cursor", "by_page", "by_offset", "by_last"])
def test_an_all_pages_is_one_answer_whatever_the_pages_were(sandbox: Sandbox, kind: str) -> None:
    with paged_service() as (_, tools):
        made = recorded(f"answer = [t['id'] for t in all_pages({kind})]", tools=tools)
    (call,) = made.calls
    assert (call.tool, call.value) == (kind, THINGS)
    assert call.pages >= 5
    assert replayed(made, sandbox).same
    (asked, *_) = replayed(made, sandbox, program=f"answer = {kind}()").differences
    assert (asked.kind, asked.nearest) == ("not_recorded", 1), "a page by itself is another call"


def test_an_all_pages_that_fails_fails_again(sandbox: Sandbox) -> None:
    failing = "try:\n    all_pages(by_cursor, page_token='cx')\nexcept ToolError as error:\n    said = str(error)"
    with paged_service() as (_, tools):
        made = recorded(f"{failing}\nanswer = [said, len(all_pages(by_cursor))]", tools=tools)
    failed, read = made.calls
    assert (failed.pages, failed.value, failed.status) == (1, None, 500)
    assert (read.pages, len(read.value)) == (5, len(THINGS))
    assert replayed(made, sandbox).same


def test_a_call_that_was_repaired_is_the_call_that_the_program_made(sandbox: Sandbox) -> None:
    films = make_tool(
        "films", lambda given: {"title": f"of {given['year']}"}, required=("year",), year={"type": "integer"}
    )
    made = agent(code("answer = films(year='2000')['title']"), tools=Toolset([films]))
    assert made.run("films").value == "of 2000"
    found = recording_of(made.store.find("last"))
    (call,) = found.calls
    assert (call.arguments, call.sent, call.error) == ({"year": "2000"}, {"year": 2000}, None)
    assert replayed(found, sandbox).same


def test_a_program_that_goes_on_after_a_look_has_what_was_looked_at(sandbox: Sandbox) -> None:
    tools = Toolset([make_tool("find", lambda a: {"rows": [a["n"]]})])
    made = recorded("found = find(n=7)\nlook(found=found)", "answer = [found['rows'], find(n=8)]", tools=tools)
    assert (made.inputs, [each.arguments for each in made.calls]) == ({"found": {"rows": [7]}}, [{"n": 8}])
    assert replayed(made, sandbox).same


def test_kept_programs_run_with_the_program_that_calls_them(sandbox: Sandbox) -> None:
    inner = Toolset.from_functions(stock_of)["stock_of"]
    twice = kept("twice", "answer = 2 * stock_of(product)", inner, parameters={"product": TEXT})
    made = recorded("answer = twice(product='lamp') + stock_of('chair')", tools=Toolset([inner, twice]))
    assert made.program == "answer = twice(product='lamp') + stock_of('chair')\n"
    assert [(each.tool, each.within) for each in made.calls] == [("stock_of", "twice"), ("stock_of", "")]
    assert made.hoisted == 1
    assert replayed(made, sandbox).value == 10
    assert replayed(made, sandbox).same


def test_a_typed_answer_is_held_against_what_the_program_set(sandbox: Sandbox) -> None:
    made = agent(code("answer = {'n': stock_of('lamp')}"), tools=(stock_of,))
    from pydantic import BaseModel

    class Stock(BaseModel):
        n: int
        unit: str = "pieces"

    assert made.run("count", answer=Stock).unwrap() == Stock(n=4)
    found = recording_of(made.store.find("last"))
    assert found.value == {"n": 4}
    assert (found.answer or {})["title"] == "Stock"
    assert replayed(found, sandbox).same


def test_a_program_that_asks_the_user_gets_the_same_reply(sandbox: Sandbox) -> None:
    made = agent(code("answer = stock_of(ask_user('Which?'))"), tools=(stock_of,), ask_user=lambda _: "lamp")
    assert made.run("count").value == 4
    found = recording_of(made.store.find("last"))
    assert [each.tool for each in found.calls] == ["ask_user", "stock_of"]
    assert replayed(found, sandbox).same


def test_the_last_task_of_a_conversation_has_the_answers_of_the_earlier_ones(sandbox: Sandbox) -> None:
    made = agent(code("answer = stock_of('lamp')"), code("answer = answer_1 + stock_of('chair')"), tools=(stock_of,))
    with made, made.conversation() as talk:
        talk.run("How many lamps?")
        assert talk.run("and with the chairs?").value == 6
    found = recording_of(made.store.find("last"))
    assert (found.inputs["answer_1"], [each.arguments for each in found.calls]) == (4, [{"product": "chair"}])
    assert found.task == "and with the chairs?"
    assert replayed(found, sandbox).same


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "read-back"])
def test_a_run_that_waited_for_a_yes_is_recorded_with_its_answer(sandbox: Sandbox, cut: bool) -> None:
    program = code("n = stock_of('lamp')\nanswer = [order('lamp', n)['id'], stock_of('chair')]")
    made = agent(program, tools=(stock_of, order), approve="park")
    waits = made.run("order")
    assert waits.status == "waiting"
    with pytest.raises(UsageError, match="has no answer"):
        recording_of(made.store.run(waits.run_id))
    made.approve(waits.run_id)
    assert made.resume(waits.run_id).value == ["A-4", 2]
    found = recording_of(made.store.run(waits.run_id))
    assert [each.tool for each in found.calls] == ["stock_of", "order", "stock_of"]
    assert replayed(found if not cut else Recording.model_validate_json(found.model_dump_json()), sandbox).same


# -- what cannot be replayed -------------------------------------------------------------------------------------------


def test_a_run_without_an_answer_and_a_dry_run_are_refused() -> None:
    made = agent(*[code("answer = 1 / 0")] * 5, tools=(stock_of,), max_revisions=1)
    made.run("count")
    with pytest.raises(UsageError, match="has no answer \\(it is unsolved\\)"):
        recording_of(made.store.find("last"))
    planned = agent(code("answer = order('lamp', 1)"), tools=(order,))
    dry = planned.run("order", dry_run=True)
    with pytest.raises(UsageError, match="was a dry run"):
        recording_of(planned.store.run(dry.run_id))


def edited(path: Path, kind: str, edit: Any) -> None:
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for event in events:
        if event["kind"] == kind:
            edit(event["data"])
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


def trace_of_one() -> tuple[Any, Path]:
    made = agent(code("answer = stock_of('lamp')"), tools=(stock_of,))
    made.run("count")
    stored = made.store.find("last")
    return stored, stored.trace  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "edit"),
    [
        ("program_started", lambda data: data.update(tools=["stock_of"])),
        ("program_started", lambda data: data["tools"]["stock_of"].update(parameters=7)),
        ("call_ended", lambda data: data.update(value={"$bytes": 7})),
        ("call_ended", lambda data: data.update(effect="magic")),
        (
            "program_ended",
            lambda data: data.update(all_pages=[{"tool": "stock_of", "arguments": {}, "calls": [[9, [], 1]]}]),
        ),
        ("program_written", lambda data: data.pop("program")),
    ],
    ids=["tools", "parameters", "value", "effect", "pages", "program"],
)
def test_a_trace_that_somebody_damaged_is_an_error_of_ours(kind: str, edit: Any) -> None:
    from atc.errors import TraceError

    stored, path = trace_of_one()
    edited(path, kind, edit)
    with pytest.raises((UsageError, TraceError)):
        recording_of(stored)


def test_a_credential_in_the_program_is_told_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "lamp-with-a-very-long-name")
    tools = Toolset([make_tool("find", lambda a: 1, of={"type": "string"})])
    made = agent(code("answer = find(of='lamp-with-a-very-long-name')"), tools=tools)
    made.run("count")
    with pytest.raises(UsageError, match="a credential stands in its program"):
        recording_of(made.store.find("last"))


# -- bounds ------------------------------------------------------------------------------------------------------------


F = {"f": {"parameters": ["n"]}}
HOSTILE: dict[str, dict[str, Any]] = {
    "hoists-none": {"linked": "answer = 1\ndef f():\n    return 1", "hoisted": -3},
    "hoists-all": {"linked": "answer = 1", "hoisted": 10**9},
    "late": {"program": "import time\nf(n=1)\nanswer = time.time()", "tools": F, "at": 1e9, "seed": "0" * 64,
             "passed_s": {"1": 1e300}, "calls": [{"tool": "f", "arguments": {"n": 1}}]},
    "no-seed": {"at": 1.0, "seed": "zz"},
    "names": {"tools": dict.fromkeys(("print", "answer", "__builtins__", "../x", "", "parallel", "class"), F["f"])},
    "parameters": {"program": "answer = f(1)", "tools": {"f": {"parameters": ["a b", "__x__", "", "n" * 100_000]}}},
    "inputs": {"inputs": {"a b": 1}},
    "nested": {"program": "answer = " + "(" * 5_000},
}  # fmt: skip


@pytest.mark.parametrize("form", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_recording_is_an_outcome_or_an_error_of_ours(sandbox: Sandbox, form: dict[str, Any]) -> None:
    made = Recording.model_validate_json(json.dumps({"program": "answer = 1", **form}))
    try:
        kind = replayed(made, sandbox).outcome.kind
    except UsageError:
        kind = "refused"
    assert kind in ("finished", "raised", "refused")


def test_differences_are_bounded_and_counted(sandbox: Sandbox) -> None:
    calls = tuple(RecordedCall(index=n + 1, tool="f", arguments={"n": n}) for n in range(200))
    made = Recording(
        program="answer = 1", tools={"f": recorded_tool(make_tool("f", None).protocol)}, calls=calls, value=1
    )
    again = replayed(made, sandbox)
    assert (len(again.differences), again.left_out) == (MAX_DIFFERENCES, 200 - MAX_DIFFERENCES)
    asking = "for n in range(1000, 1200):\n    try:\n        f(n=n)\n    except ToolError:\n        pass\nanswer = 1"
    many = replayed(made, sandbox, program=asking)
    assert len(many.differences) + many.left_out == 400


def test_a_recording_of_a_newer_form_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(UsageError, match="use a newer ATC"):
        replayed(Recording(program="answer = 1", form=99), sandbox)


def test_a_program_that_would_get_out_stays_in_the_jail(sandbox: Sandbox, tmp_path: Path) -> None:
    made = Recording(program=f"open({str(tmp_path / 'x')!r}, 'w').write('x')\nanswer = 1", value=1)
    (ended,) = replayed(made, sandbox).differences
    assert ended.kind == "ended"
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("recorded", "now", "found"),
    [
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, [(("a",), "1", "true")]),
        ([1, 2], [1], [((1,), "2", "")]),
        ({}, {"b": None}, [(("b",), "", "null")]),
        ([[1], "x"], [{"1": 1}, "x"], [((0,), "[1]", '{"1": 1}')]),
        ("é", "e\u0301", []),
    ],
    ids=["whole", "bool", "shorter", "null", "kind", "form"],
)
def test_two_values_differ_where_a_reader_would_look(recorded: Any, now: Any, found: list[Any]) -> None:
    assert [(each.path, each.recorded, each.now) for each in changes(recorded, now)] == found


def test_changes_are_bounded() -> None:
    assert len(changes([*range(1_000)], [*range(1, 1_001)])) == MAX_CHANGES


def test_a_tool_that_is_not_what_it_was_is_told_by_its_schema() -> None:
    before = Protocol(name="f", parameters={"type": "object", "properties": {"n": {"type": "integer"}}})
    after = before.model_copy(update={"parameters": {"type": "object", "properties": {"n": {"type": "string"}}}})
    there = {"f": recorded_tool(before)}
    assert tool_changes(there, there) == []
    (found,) = tool_changes(there, {"f": recorded_tool(after)})
    assert found.changes == (
        Change(path=("parameters", "properties", "n", "type"), recorded='"integer"', now='"string"'),
    )
    (effect,) = tool_changes(there, {"f": recorded_tool(before.model_copy(update={"effect": Effect.WRITE}))})
    assert [each.path for each in effect.changes] == [("effect",)]
    (gone,) = tool_changes(there, {})
    assert gone.reason == "gone"
