"""Queries with the tools that answered them: what ranking is learnt from, out of a file or of the user's own runs."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from atc.errors import UsageError

MAX_PAIRS = 20_000
"""Queries that are learnt from; of more those that a hash puts first."""
MAX_A_TOOL = 500
"""Queries of one tool: a tool that is used all day must not be the only one that is learnt."""
MAX_QUERY = 4_000
"""Characters of a query that are read."""
MAX_GOLD = 50
"""Tools of one query: a query with more says nothing of any."""
PARTS = 5
"""Parts that queries are held out in, one after the other, and tools too."""


@dataclass(frozen=True)
class Pair:
    """A query and its tools.

    Attributes:
        query: the user's words.
        gold: the ids of the tools that answered it.
    """

    query: str
    gold: tuple[str, ...]

    @property
    def part(self) -> int:
        """The part that it is held out in: the same for the same words, so that no query is asked and learnt from."""
        return part_of(_normal(self.query))


class TooLittle(UsageError):
    """There is too little to learn from."""


def usable(pairs: Iterable[Pair], ids: Collection[str]) -> list[Pair]:
    """The pairs that something can be learnt from, each once, in the order of a hash.

    Args:
        pairs: in any order.
        ids: the tools that there are; others count for nothing.
    """
    found: dict[tuple[str, tuple[str, ...]], Pair] = {}
    for pair in pairs:
        gold = tuple(sorted({id for id in pair.gold if id in ids}))
        if 0 < len(gold) <= MAX_GOLD and (query := pair.query.strip()[:MAX_QUERY]):
            found.setdefault((_normal(query), gold), Pair(query, gold))
    kept: list[Pair] = []
    used: Counter[str] = Counter()
    for key in sorted(found, key=lambda key: hashlib.sha256(repr(key).encode("utf-8", "replace")).digest()):
        pair = found[key]
        if len(kept) < MAX_PAIRS and min(used[id] for id in pair.gold) < MAX_A_TOOL:
            kept.append(pair)
            used.update(pair.gold)
    return kept


def part_of(name: str) -> int:
    """The part, from 0 to 4, that a name falls into by its hash."""
    return hashlib.sha256(name.encode("utf-8", "replace")).digest()[0] % PARTS


def _normal(query: str) -> str:
    return " ".join(query.casefold().split())
