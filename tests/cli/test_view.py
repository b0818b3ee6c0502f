"""The live view of a run: a pipe is told of a model that is silent."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from atc.cli.view import RunView
from atc.facts import Drift
from atc.result import Call, Effect
from atc.traces.events import Event
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
