"""The live view of a run: a pipe is told of a model that is silent."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from atc._records.events import Event
from atc._records.records import Drift
from atc.cli.view import RunView
from atc.result import Call, Effect
from atc.wording.outcomes import NO_VALUE

STARTED = Event("model_started", {"purpose": "program"})
ENDED = Event(
    "model_ended",
    {
        "purpose": "program",
        "cached": False,
        "prompt_tokens": 1,
        "completion_tokens": 2,
        "seconds": 0.1,
    },
)


def pipe() -> tuple[RunView, io.StringIO]:
    file = io.StringIO()
    return RunView(Console(file=file, highlight=False, soft_wrap=True)), file


def test_a_pipe_is_told_of_a_model_that_is_silent() -> None:
    shown, file = pipe()
    for event in (STARTED, Event("model_waiting", {"purpose": "program", "seconds": 20.2, "silent": 10.1}), ENDED):
        shown(event)
    assert file.getvalue().splitlines() == [
        "writing a program: 20 s so far, nothing from the model for 10 s",
        "writing a program: 1+2 tokens, 0.1 s",
    ]


def test_a_pipe_is_told_of_a_journal_that_is_waited_for() -> None:
    shown, file = pipe()
    shown(Event("store_waiting", {"journal": "/runs/1/journal.jsonl"}))
    where = "waits for the journal /runs/1/journal.jsonl to be written"
    assert file.getvalue() == f"{where}: its disk or its database takes long, and nothing is sent before\n"


def test_a_response_that_is_not_what_its_schema_says_is_noted_beside_its_call() -> None:
    call = Call(
        index=1,
        attempt=0,
        tool="f",
        arguments={},
        effect=Effect.READ,
        status="ok",
        notes=("took 3 as '3' for a",),
        drift=(Drift(path=("a", 0), what="3 is no text"),),
    )
    shown, file = pipe()
    shown(Event("call_ended", call.model_dump(mode="json")))
    assert file.getvalue().splitlines()[-2:] == [
        "      note: took 3 as '3' for a",
        "      note: response differs from its schema: $.a[0]: 3 is no text",
    ]
    old = call.model_dump(mode="json", exclude={"drift", "service_message"})
    shown(Event("call_ended", old))
    assert file.getvalue().splitlines()[-1] == "      note: took 3 as '3' for a"


@pytest.mark.parametrize(
    ("effect", "status", "said", "shown"),
    [
        (Effect.WRITE, "ok", "null", [NO_VALUE]),
        (Effect.UNKNOWN, "replayed", "", [NO_VALUE]),
        (Effect.WRITE, "ok", "Order 7 is deleted.", ["Order 7 is deleted."]),
        (Effect.WRITE, "failed", "null", ["null", "value: null"]),
        (Effect.READ, "ok", "null", ["null", "value: null"]),
    ],
)
def test_a_write_that_returns_nothing_is_told_as_done(effect: Effect, status: Any, said: str, shown: list[str]) -> None:
    view, file = pipe()
    call = Call(index=1, attempt=0, tool="delete_order", arguments={}, effect=effect, status=status)
    view(Event("call_ended", call.model_dump(mode="json")))
    view(Event("answered", {"value": None, "answer": said}))
    lines = file.getvalue().splitlines()
    assert lines[lines.index("── answer ──") + 1 :] == shown


def test_the_next_task_of_a_conversation_has_done_nothing_yet() -> None:
    view, file = pipe()
    call = Call(index=1, attempt=0, tool="delete_order", arguments={}, effect=Effect.WRITE, status="ok")
    view(Event("call_ended", call.model_dump(mode="json")))
    view(Event("stage_started", {"stage": 1, "new_request": True, "inputs": {}}))
    view(Event("answered", {"value": None, "answer": "null"}))
    assert file.getvalue().splitlines()[-2:] == ["null", "value: null"]


def a_call(index: int, **more: Any) -> dict[str, Any]:
    return Call(index=index, attempt=0, tool="f", arguments={}, effect=Effect.READ, status="ok").model_dump(
        mode="json"
    ) | {"error": None, **more}


def numbers(text: str) -> list[str]:
    return re.findall(r"^  . (\d+)\. f", text, re.MULTILINE)


def test_calls_that_are_made_together_are_shown_by_their_numbers() -> None:
    shown, file = pipe()
    begun = [Event("call_started", {"index": n, "tool": "f", "arguments": {}}) for n in (1, 2, 3)]
    for event in (
        *begun,
        Event("call_ended", a_call(3)),
        Event("call_ended", a_call(4)),
        Event("call_ended", a_call(1)),
    ):
        shown(event)
    assert numbers(file.getvalue()) == ["1"], "2 has not ended"
    shown(Event("call_ended", a_call(2)))
    assert numbers(file.getvalue()) == ["1", "2", "3", "4"]
    shown(Event("call_started", {"index": 5, "tool": "f", "arguments": {}}))
    shown(Event("call_ended", a_call(6)))
    shown.close()
    assert numbers(file.getvalue()) == ["1", "2", "3", "4", "6"], "what ended is shown, whatever comes"


def test_a_run_that_was_cut_off_and_resumed_is_read_back_as_one() -> None:
    file = io.StringIO()
    shown = RunView(Console(file=file, highlight=False, soft_wrap=True), stored=True)
    started = Event("run_started", {"run_id": "r", "model": "m", "task": "t"})
    usage = {"seconds": 2.0, "model_calls": 1, "prompt_tokens": 1, "completion_tokens": 2}
    ended = {"status": "answered", "usage": usage | {"model_seconds": 0.1, "tool_calls": 1, "tool_seconds": 0.1}}
    for event in (
        started,
        Event("program_written", {"attempt": 0, "program": "a"}),
        Event("program_written", {"attempt": 1, "program": "b"}),
        Event("call_started", {"index": 1, "tool": "f", "arguments": {"n": 1}}),
        Event("call_started", {"index": 3, "tool": "pay", "arguments": {}}),
        Event("call_sent", {"index": 3}),
        Event("approval_asked", {"index": 4, "tool": "pay", "arguments": {}}),
        started,
        Event("call_ended", a_call(2)),
        Event("program_written", {"attempt": 1, "program": "c"}),
        Event("run_ended", ended | {"fault": None, "value": 1, "isolation": "process/N"}),
    ):
        shown(event)
    lines = file.getvalue().splitlines()
    assert [line.split(",")[0].strip("─ ") for line in lines if "program" in line] == [
        f"program {n}" for n in (1, 2, 3)
    ]
    at = lines.index("  … 1. f(n=1)  not ended")
    assert lines[at + 1 : at + 3] == [
        "  … 3. pay()  sent, and its outcome is not known (`atc runs settle`)",
        "  … 4. pay()  asked about, and not made",
    ]
    assert lines[at + 3] == "── resumed: what succeeded is not done again ──"
    assert lines[-1].startswith("since the resume, 2.0 s: ")
