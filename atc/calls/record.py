"""The record of one call while the broker handles it, from its beginning to the :class:`Call` of the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atc.calls.contract import CallReply
from atc.calls.redact import Redactor
from atc.dry_run_facts import Feed
from atc.errors import Cause
from atc.facts import Drift
from atc.packing import as_text
from atc.result import Call, CallStatus, Effect
from atc.tools.tool import NextPage
from atc.traces.events import CallStarted

KEPT_OF_REFUSED = 4_000
"""Characters of a refused call's arguments."""


@dataclass(frozen=True)
class Handled:
    """A call that the broker handled: its reply, its number in the run, and what is known of a next page."""

    reply: CallReply
    number: int
    next_page: NextPage = None


@dataclass
class CallRecord:
    """A call's record while it is made."""

    number: int
    attempt: int
    tool: str
    arguments: dict[str, Any]
    line: int
    effect: Effect = Effect.UNKNOWN
    status: CallStatus = "ok"
    cause: Cause | None = None
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    drift: list[Drift] = field(default_factory=list)
    awaits: list[Feed] = field(default_factory=list)
    unknown: Mapping[str, Sequence[tuple[int, tuple[str | int, ...]]]] = field(default_factory=dict)
    service_message: str | None = None
    traceback: str | None = None
    next_page: NextPage = None
    page: int = 0
    stage: int = 0

    def started(self) -> CallStarted:
        """Return the data of the event ``call_started``; the caller masks it."""
        return {
            "index": self.number,
            "tool": self.tool,
            "arguments": self.arguments,
            "effect": self.effect.value,
            "line": self.line,
        }

    def finish(self, reply: CallReply, redactor: Redactor) -> Call:
        """Return the finished call as the run's result holds it, credentials masked."""
        return Call(
            index=self.number,
            attempt=self.attempt,
            tool=redactor.text(self.tool),
            arguments=redactor.value(self.arguments),
            effect=self.effect,
            status=self.status,
            value=reply.value,
            error=reply.error,
            error_status=reply.status,
            cause=self.cause,
            line=self.line,
            seconds=round(self.seconds, 6),
            notes=tuple(map(redactor.text, self.notes)),
            drift=tuple(Drift(path=each.path, what=redactor.text(each.what)) for each in self.drift),
            awaits=tuple(self.awaits),
            service_message=self.service_message,
            traceback=self.traceback,
            page=self.page,
            stage=self.stage,
        )


def cut_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a refused call as its record keeps them: a program may be refused any number of times."""
    text = as_text(arguments)
    return arguments if len(text) <= KEPT_OF_REFUSED else {"(cut)": text[:KEPT_OF_REFUSED]}
