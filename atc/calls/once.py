"""At most once: which calls with effects are not made again."""

from __future__ import annotations

from collections.abc import Callable

from atc.calls.entry import Entry, same_tool
from atc.calls.journal import CallKey, Journal
from atc.calls.record import CallRecord
from atc.errors import CallRefused
from atc.facts import SameCall
from atc.packing import as_text
from atc.result import Effect
from atc.tools.names import tool_name
from atc.tools.protocol import SourceKey

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
