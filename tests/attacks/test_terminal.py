"""What a program says is shown as text: it moves no cursor, sets no title, and forges no line of ours."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from atc._records.events import Event
from atc.cli.view import RunView

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x1b]52;c;cm0gLXJm\x07\x9b31m\x08\x08\r\x00\u202e[red]bold[/red]"
EVENTS: dict[str, dict[str, Any]] = {
    "program_started": {"attempt": 0, "warnings": [HOSTILE]},
    "approval_asked": {"tool": HOSTILE, "index": 1, "arguments": {HOSTILE: HOSTILE}, "warnings": [HOSTILE]},
    "question_asked": {"question": HOSTILE, "number": 1},
    "program_ended": {"stdout": HOSTILE, "stderr": HOSTILE},
    "program_written": {"attempt": 0, "program": f"answer = '{HOSTILE}'", "rewrites": [HOSTILE]},
    "findings": {"findings": [{"message": HOSTILE, "line": 1, "kind": "syntax"}]},
    "stage_started": {"stage": HOSTILE, "new_request": False, "inputs": {HOSTILE: HOSTILE}},
    "call_started": {"tool": HOSTILE, "index": 1},
    "call_ended": {
        "index": 1, "tool": HOSTILE, "arguments": {HOSTILE: HOSTILE}, "status": "refused", "error": HOSTILE,
        "value": None, "seconds": 0.1, "notes": [HOSTILE],
    },
    "fault": {
        "fault": {
            "tool": HOSTILE, "kind": "tool_error", "message": HOSTILE, "source_line": HOSTILE, "evidence": HOSTILE,
        }
    },
}  # fmt: skip


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("kind", EVENTS)
def test_no_escape_of_a_program_reaches_a_terminal(kind: str, terminal: bool) -> None:
    file = io.StringIO()
    view = RunView(
        Console(file=file, force_terminal=terminal, width=200, color_system="standard" if terminal else None)
    )
    view(Event(kind, EVENTS[kind]))  # type: ignore[arg-type]
    view.close()
    shown = file.getvalue()
    for escape in ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\x08", "\x00", "\u202e"):
        assert escape not in shown
    assert terminal or "\x1b" not in shown
