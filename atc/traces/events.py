"""Events: what happens in a run, in order, as it happens. A trace is a file of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

EventKind = Literal[
    "run_started",  # task, tools, settings, model, endpoint, strategy, strategy_given: what opens it; null of an object
    "tools_chosen",  # tools, of, how they were found; again with found, where a program looked for more
    "model_started",  # purpose
    "model_waiting",  # purpose, seconds, silent: nothing came for so many seconds
    "model_ended",  # purpose, seconds, prompt_tokens, completion_tokens, finish_reason, cached, problem
    "stage_started",  # stage, new_request, inputs: the last program succeeded, and what it did is committed
    "program_written",  # attempt, program, mended
    "findings",  # attempt, findings
    "program_started",  # attempt, warnings: what the check warned about and the program does not resolve
    "approval_asked",  # index, tool, arguments, effect, line, warnings: the user is asked whether to make this call
    "call_started",  # index, tool, arguments, effect, line
    "call_sent",  # index: a call with effects is handed to its tool now
    "call_ended",  # the whole Call
    "program_ended",  # attempt, kind, seconds, stdout, stderr, detail
    "fault",  # attempt, fault
    "answered",  # value, answer
    "run_ended",  # the whole Result, less its calls and revisions; raised: the caller got an exception instead
]


@dataclass(frozen=True)
class Event:
    """One thing that happened. ``at`` is in seconds since the epoch; ``data`` is plain JSON values."""

    kind: EventKind
    data: dict[str, Any]
    at: float = field(default_factory=time.time)

    def record(self) -> dict[str, Any]:
        return asdict(self)


Emit = Callable[[EventKind, dict[str, Any]], None]
"""How a part of a run tells what happens in it."""
