"""Decides, for at most once, which calls with effects are not made again, and which are made once more."""

from __future__ import annotations

from collections.abc import Callable

from atc._records.packing import as_text
from atc._records.records import SameCall
from atc.calls.attempt import Attempt
from atc.calls.entry import CallEntry, CallKey, same_tool
from atc.calls.journal import Journal
from atc.errors import CallRefused, ToolError
from atc.result import Effect
from atc.schemas.names import tool_name
from atc.schemas.protocol import SourceKey

NameNow = Callable[[str, SourceKey | None], str | None]
"""The name that a tool has now, by the old one and by what it is known by at its source; ``None``: it has none."""


def refuse_repetition(journal: Journal, attempt: Attempt) -> None:
    """Refuse a call that could do the same thing twice. What the journal holds as a write is one, whatever its tool is
    said to do now.

    Args:
        journal: of the run.
        attempt: the call, which the journal cannot answer.

    Raises:
        CallRefused: the call is in doubt, an earlier stage did it, or an earlier program made it with other arguments.
    """
    if not journal.has_acted:
        return
    if attempt.again is None and journal.doubtful(attempt.key) is not None:
        raise CallRefused(
            "the same call was begun before and its outcome is unknown; it is not made again",
            status="in_doubt",
            cause="in_doubt",
        )
    if (done := journal.committed(attempt.key)) is not None:
        raise CallRefused(
            f"an earlier stage already did {attempt.tool} with {as_text(done.arguments)[:500]}, and it is not done "
            "again. Leave this call out, and use the values that the earlier stage left",
            status="already_done",
        )
    if (done := journal.left(attempt.key)) is not None:
        raise CallRefused(
            f"an earlier task of this conversation already did {attempt.tool} with {as_text(done.arguments)[:500]} and "
            "ended without an answer, and it is not done again. Leave this call out",
            status="already_done",
        )
    if (earlier := journal.unasked(attempt.tool, attempt.source)) is None:
        return
    arguments = as_text(earlier.arguments)[:500]
    if earlier.in_doubt:
        raise CallRefused(
            f"an earlier program began {attempt.tool} with {arguments} and its outcome is unknown; calling it with "
            "others might do it twice. If this is another matter, first call it with exactly those and catch the "
            "ToolError",
            status="in_doubt",
        )
    raise CallRefused(
        f"an earlier program already did {attempt.tool} with {arguments}; call it with exactly these arguments "
        "to get its recorded answer before you call it with others",
        status="already_done",
    )


def still_in_doubt(attempt: Attempt, failure: ToolError) -> ToolError:
    """Return the failure of a call in doubt that was sent again: whatever it is, the call may have been done before.

    A service that says that the key is in use, or belongs to another request, has not said what came of the call.
    """
    attempt.status = "in_doubt"
    message = f"the same call was begun before and its outcome is unknown; sent again with its key: {failure.message}"
    return ToolError(message, status="in_doubt", outcome="unknown", cause="in_doubt")


def same_call(journal: Journal, key: CallKey, name_now: NameNow) -> SameCall | None:
    """Return a call of the run that did, or may have done, what a write asks for, and that did not hold it back.

    One of a tool of which nobody can tell that it is another one comes first, and one that was made as a read, or was
    in doubt until somebody said that it was not done.

    Args:
        journal: of the run.
        key: of the write.
        name_now: of the tools that are there now.
    """
    own: SameCall | None = None
    for entry in journal.equal_writes(key):
        if entry.is_settled_as_not_done:
            if same_tool(entry.key, key) or _may_be_renamed(entry, key):
                return SameCall(number=entry.number, tool=entry.tool, own=True, settled=True)
            continue
        if entry.effect is Effect.READ:
            return SameCall(number=entry.number, tool=entry.tool, in_doubt=True, own=True, was_read=True)
        if same_tool(entry.key, key):
            own = own or SameCall(number=entry.number, tool=entry.tool, in_doubt=entry.state != "done", own=True)
        elif _may_be_renamed(entry, key) or name_now(entry.tool, entry.key.source) is None:
            return SameCall(number=entry.number, tool=entry.tool, in_doubt=entry.state != "done")
    return own


def _may_be_renamed(entry: CallEntry, key: CallKey) -> bool:
    if entry.tool == key.tool:
        return True
    return entry.key.source is None and key.source is not None and tool_name(key.source.operation) == entry.tool
