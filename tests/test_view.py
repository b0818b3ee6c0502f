"""The live view of a run: that a model works for long is said, on a terminal and in a pipe."""

from __future__ import annotations

import asyncio
import io

import pytest
from rich.console import Console

from atc.cli import view
from atc.cli.view import RunView
from atc.traces.events import Event

STARTED = Event("model_started", {"purpose": "program"})
ENDED = Event("model_ended", {
    "purpose": "program", "cached": False, "prompt_tokens": 1, "completion_tokens": 2, "seconds": 0.1,
})  # fmt: skip


def pipe() -> tuple[RunView, io.StringIO]:
    file = io.StringIO()
    return RunView(Console(file=file, highlight=False, soft_wrap=True)), file


def test_a_pipe_hears_again_and_again_that_the_model_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_PATIENCE_S", 0.001)
    shown, file = pipe()

    async def go() -> str:
        shown(STARTED)
        while file.getvalue().count("\n") < 3:  # noqa: ASYNC110 - the console tells nobody
            await asyncio.sleep(0.001)
        shown(ENDED)
        before = file.getvalue()
        await asyncio.sleep(0.01)
        assert file.getvalue() == before  # it has ended: nothing more is said
        return before

    lines = asyncio.run(go()).splitlines()
    assert set(lines[:-1]) == {"writing a program: 0 s so far …"}
    assert lines[-1].startswith("writing a program: 1+2 tokens")


def test_what_the_run_tells_of_waiting_is_shown_once() -> None:
    shown, file = pipe()

    async def go() -> None:
        shown(STARTED)
        shown(Event("model_waiting", {"purpose": "program", "seconds": 10.2}))
        first = shown._later
        shown(Event("model_waiting", {"purpose": "program", "seconds": 20.2, "silent": 20.1}))
        assert first is not None
        assert first.cancelled()  # the own clock begins anew, and is one
        shown.close()
        assert shown._later is None

    asyncio.run(go())
    assert file.getvalue().splitlines() == [
        "writing a program: 10 s so far …",
        "writing a program: 20 s so far, nothing from the model for 20 s …",
    ]


def test_a_quick_reply_says_nothing_of_waiting() -> None:
    shown, file = pipe()

    async def go() -> None:
        shown(STARTED)
        shown(ENDED)

    asyncio.run(go())
    shown(STARTED)  # and without an event loop nobody waits
    assert "so far" not in file.getvalue()


def test_a_terminal_gets_it_beside_the_spinner() -> None:
    file = io.StringIO()
    shown = RunView(Console(file=file, force_terminal=True, width=80))
    shown(STARTED)
    shown(Event("model_waiting", {"purpose": "program", "seconds": 10.2}))
    assert shown._status is not None
    assert str(shown._status.status) == "writing a program: 10 s so far …"
    shown.close()
