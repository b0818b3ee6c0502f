"""The live view of a run: a pipe is told of a model that is silent."""

from __future__ import annotations

import io

from rich.console import Console

from atc.cli.view import RunView
from atc.traces.events import Event

STARTED = Event("model_started", {"purpose": "program"})
ENDED = Event("model_ended", {
    "purpose": "program", "cached": False, "prompt_tokens": 1, "completion_tokens": 2, "seconds": 0.1,
})  # fmt: skip


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
