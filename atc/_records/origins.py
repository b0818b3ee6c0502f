"""Say where a value of a program came from, as plain data: the user, the program's own text, or a tool's response."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import get_args

from atc._records.records import DataFlow, How, Origin, OriginKind, RecordedSession

__all__ = ["TASK", "UNKNOWN", "CallOrigins", "How", "Origin", "OriginKind", "Origins", "data_flow", "is_within"]

Origins = frozenset[Origin]
"""All origins of one value."""
CallOrigins = Mapping[str, Origins]
"""The origins of a call's arguments: by name, and by the way to a part of one (``message.to``) where that is known.
Those of a whole argument hold those of its parts."""
UNKNOWN: Origins = frozenset({Origin(kind="unknown")})
TASK: Origins = frozenset({Origin(kind="task")})

MAX_NAMES, MAX_ORIGINS = 100, 50
"""Arguments and parts of a call, and origins of one, that a record names: whoever wrote the program sized them."""


def data_flow(
    origins: CallOrigins,
    untrusted: Sequence[str] = (),
    author_saw: Sequence[str] = (),
    strangers: Collection[str] = (),
    session: RecordedSession | None = None,
) -> DataFlow | None:
    """Return the record of where a call's arguments came from, in one order; ``None`` where there is nothing to say.

    Args:
        origins: of the call's arguments.
        untrusted, author_saw: as :class:`DataFlow` has them.
        strangers: the tools whose text strangers write; the record keeps those that the origins name.
        session: the recorded login that goes with the call.
    """
    if not (origins or untrusted or author_saw or session):
        return None
    first = [name for name in untrusted if name in origins]
    names = list(islice(dict.fromkeys([*first, *origins]), MAX_NAMES))
    ranked = {name: sorted(origins[name], key=lambda each: _rank(each, strangers)) for name in names}
    kept = {name: tuple(found[:MAX_ORIGINS]) for name, found in ranked.items()}
    named = {each.tool for found in kept.values() for each in found if each.kind == "tool"}
    return DataFlow(
        origins=kept,
        untrusted=tuple(untrusted[:MAX_NAMES]),
        author_saw=tuple(author_saw[:MAX_NAMES]),
        strangers=tuple(sorted(named & {*strangers}))[:MAX_NAMES],
        left_out=sum(map(len, origins.values())) - sum(map(len, kept.values())),
        session=session,
    )


def is_within(flow: DataFlow | None, shown: DataFlow | None) -> bool:
    """Return whether a yes to what was shown holds for a call of this data flow: it has no origin that was not shown.

    It holds where nobody needed to know the origins, and where they were not known then, unless text of strangers may
    have had a say.
    """
    if flow is None or (shown is None and not (flow.untrusted or flow.author_saw)):
        return True
    if shown is None or flow.left_out > shown.left_out:
        return False
    parts = ((flow.untrusted, shown.untrusted), (flow.author_saw, shown.author_saw))
    if not all({*now} <= {*then} for now, then in parts):
        return False
    return all({*found} <= {*shown.origins.get(name, ())} for name, found in flow.origins.items())


def _rank(found: Origin, strangers: Collection[str]) -> tuple[bool, bool, int, str, tuple[str, ...], str]:
    """Return where an origin stands: what strangers write is first, then what cannot be followed; what the value is
    comes before what chose it, so that many of these push it out of no question."""
    how = get_args(How).index(found.how)
    return (found.tool not in strangers, found.kind != "unknown", how, found.tool, found.path, found.kind)
