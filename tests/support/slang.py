"""Tools, and queries for them in words that none of their documents has."""

from __future__ import annotations

from typing import NamedTuple

from atc.schemas.protocol import Protocol
from tests.support.retrieval import protocol, some


class Pair(NamedTuple):
    """A query and the ids of its tools."""

    query: str
    gold: tuple[str, ...]


SLANG = {"drizzle": "get_weather", "wheels": "rentVehicle", "dues": "list_invoices", "flick": "search_movies"}
"""Words that no document has."""
EXTRA = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda omicron sigma upsilon omega phi psi chi".split()
)


def tools() -> list[Protocol]:
    """Some that queries are for, some that none is for."""
    return [*some(), *(protocol(f"thing_{name}", f"Thing of {name} kind.") for name in EXTRA)]


def pairs() -> list[Pair]:
    """Queries by slang, and by the words of other tools."""
    slang = [Pair(f"{word} {one} {other}", (id,)) for word, id in SLANG.items() for one in EXTRA for other in EXTRA[:2]]
    return slang + [Pair(f"thing of {name} kind {other}", (f"thing_{name}",)) for name in EXTRA for other in EXTRA[:2]]
