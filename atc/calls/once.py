"""At most once: which calls with effects are not made again."""

from __future__ import annotations

from atc.calls.journal import CallKey, Journal
from atc.calls.record import CallRecord
from atc.errors import CallRefused
from atc.packing import as_text
from atc.result import Effect


def refuse_repetition(journal: Journal, record: CallRecord, key: CallKey) -> None:
    """Refuse a call with effects that could do the same thing twice.

    Args:
        journal: of the run.
        record: of the call, which the journal cannot answer.
        key: of the call.

    Raises:
        CallRefused: the call is in doubt, an earlier stage did it, or an earlier program made it with other arguments.
    """
    if record.effect is Effect.READ:
        return
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
    if (earlier := journal.unasked(record.tool)) is None:
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
