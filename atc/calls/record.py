"""The record of one call while the broker handles it, from its beginning to the :class:`Call` of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atc.calls.contract import CallReply
from atc.calls.entry import Entry, RepairedFor, Unread, same_tool
from atc.calls.journal import CallKey, Journal
from atc.calls.redact import Redactor
from atc.errors import CallRefused, Cause
from atc.packing import as_text, pack
from atc.records import ArgumentRepair, BodyError, Drift, Feed, SameCall
from atc.result import Call, CallStatus, Effect, RefusedBy
from atc.tools.names import tool_name
from atc.tools.protocol import SourceKey
from atc.tools.tool import NextPage
from atc.traces.events import CallStarted

_VALUES = {"arguments", "original", "value"}
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
    refused_by: RefusedBy | None = None
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    original: dict[str, Any] | None = None
    repairs: tuple[ArgumentRepair, ...] = ()
    drift: list[Drift] = field(default_factory=list)
    body_error: BodyError | None = None
    service_message: str | None = None
    traceback: str | None = None
    next_page: NextPage = None
    page: int = 0
    stage: int = 0
    awaits: list[Feed] = field(default_factory=list)
    unknown: Mapping[str, Sequence[tuple[int, tuple[str | int, ...]]]] = field(default_factory=dict)
    repaired_for: RepairedFor = ""
    repaired_by: int = 0
    unread: Unread | None = None
    source: SourceKey | None = None

    def reply(self, value: Any) -> CallReply:
        """Return the reply of a call that was not refused and did not fail."""
        if self.unread is not None:
            return CallReply(error=self.unread.message, status=self.unread.status, done=True)
        return CallReply(value=value, planned=self.status == "planned")

    def started(self, arguments: dict[str, Any]) -> CallStarted:
        """Return the data of the event ``call_started``.

        Args:
            arguments: the call's own, masked and packed.
        """
        return {
            "index": self.number,
            "tool": self.tool,
            "arguments": arguments,
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
            refused_by=self.refused_by,
            line=self.line,
            seconds=round(self.seconds, 6),
            notes=tuple(map(redactor.text, self.notes)),
            original=redactor.value(self.original) if self.original is not None else None,
            repairs=tuple(_masked(each, redactor) for each in self.repairs),
            drift=tuple(Drift(path=each.path, what=redactor.text(each.what)) for each in self.drift),
            body_error=self.body_error,
            service_message=self.service_message,
            traceback=self.traceback,
            page=self.page,
            stage=self.stage,
            awaits=tuple(self.awaits),
            repaired_by=self.repaired_by,
        )


def _masked(repair: ArgumentRepair, redactor: Redactor) -> ArgumentRepair:
    path = tuple(redactor.value(step) for step in repair.path)
    given, sent, name = (redactor.value(each) for each in (repair.given, repair.sent, repair.name))
    return repair.model_copy(update={"path": path, "given": given, "sent": sent, "name": name})


def as_json(call: Call) -> dict[str, Any]:
    """Return a call as JSON values: what :meth:`Call.model_dump` gives, which copies each value in it twice."""
    made = call.model_dump(mode="json", exclude=_VALUES)
    given = {name: pack(getattr(call, name)) for name in _VALUES}
    return {name: given[name] if name in given else made[name] for name in Call.model_fields}


def cut_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a refused call as its record keeps them: a program may be refused any number of times."""
    text = as_text(arguments)
    return arguments if len(text) <= KEPT_OF_REFUSED else {"(cut)": text[:KEPT_OF_REFUSED]}


# ----------------------------------------------------------------------------------------------------------------------
# At most once: which calls with effects are not made again.


NameNow = Callable[[str, SourceKey | None], str | None]
"""The name that a tool has now, by the old one and by what it is known by at its source; ``None``: it has none."""


def refuse_repetition(journal: Journal, record: CallRecord, key: CallKey) -> None:
    """Refuse a call that could do the same thing twice. What the journal holds as a write is one, whatever its tool is
    said to do now.

    Args:
        journal: of the run.
        record: of the call, which the journal cannot answer.
        key: of the call.

    Raises:
        CallRefused: the call is in doubt, an earlier stage did it, or an earlier program made it with other arguments.
    """
    if journal.doubtful(key) is not None:
        raise CallRefused(
            "the same call was begun before and its outcome is unknown; it is not made again",
            status="in_doubt",
            cause="in_doubt",
        )
    if (done := journal.committed(key)) is not None:
        raise CallRefused(
            f"an earlier stage already did {record.tool} with {as_text(done.arguments)[:500]}, and it is not done "
            "again. Leave this call out, and use the values that the earlier stage left",
            status="already_done",
        )
    if (done := journal.left(key)) is not None:
        raise CallRefused(
            f"an earlier task of this conversation already did {record.tool} with {as_text(done.arguments)[:500]} and "
            "ended without an answer, and it is not done again. Leave this call out",
            status="already_done",
        )
    if (earlier := journal.unasked(record.tool, record.source)) is None:
        return
    arguments = as_text(earlier.arguments)[:500]
    if earlier.in_doubt:
        raise CallRefused(
            f"an earlier program began {record.tool} with {arguments} and its outcome is unknown; calling it with "
            "others might do it twice. If this is another matter, first call it with exactly those and catch the "
            "ToolError",
            status="in_doubt",
        )
    raise CallRefused(
        f"an earlier program already did {record.tool} with {arguments}; call it with exactly these arguments "
        "to get its recorded answer before you call it with others",
        status="already_done",
    )


def same_call(journal: Journal, key: CallKey, name_now: NameNow) -> SameCall | None:
    """A call of the run that did, or may have done, what a write asks for, and that did not keep it from being made.

    One of a tool of which nobody can tell that it is another one comes first, and one that was made as a read.

    Args:
        journal: of the run.
        key: of the write.
        name_now: of the tools that are there now.
    """
    own: SameCall | None = None
    for entry in journal.equal_writes(key):
        if entry.effect is Effect.READ:
            return SameCall(number=entry.number, tool=entry.tool, in_doubt=True, own=True, was_read=True)
        if same_tool(entry.key, key):
            own = own or SameCall(number=entry.number, tool=entry.tool, in_doubt=entry.state != "done", own=True)
        elif _may_be_renamed(entry, key) or name_now(entry.tool, entry.key.source) is None:
            return SameCall(number=entry.number, tool=entry.tool, in_doubt=entry.state != "done")
    return own


def _may_be_renamed(entry: Entry, key: CallKey) -> bool:
    """Whether a call had this name, or was written down by its name alone and a tool is called so at its source."""
    if entry.tool == key.tool:
        return True
    return entry.key.source is None and key.source is not None and tool_name(key.source.operation) == entry.tool
