"""What a path through the tool graph costs: its prices, and the evidence that they are put on.

Runs that were seen say best what supplies what. Where there are none, equal names leave many suppliers alike; then the
one is likeliest that is about the thing itself: ``search_movie`` for a ``movie_id``, not ``get_movie_credits``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from math import log

from atc.errors import UsageError
from atc.graph.edges import Feed
from atc.graph.identifiers import words_of
from atc.graph.name_affinity import GENERIC, VERBS
from atc.result import Effect
from atc.tools.protocol import Protocol

UNIT = 1_000
"""A cost of one, in the whole numbers that are summed."""
MOST = 1_000_000
"""Calls that a price may be worth."""
_LEAST_WEIGHT = 1e-6
_METHODS = frozenset({"get", "post", "put", "delete", "patch"})


@dataclass(frozen=True)
class Prices:
    """What a path pays; the price of one call is the unit. Chosen on the known solutions of five sources.

    Attributes:
        call: one more tool. ``write``: as much more if it is known to write.
        given: a parameter that tools hand out and none here supplies, so that the task has to state it.
        open: a supplier's parameter that some tool could supply, and that is left to the task.
        target: the same for a parameter of the target, which is what is asked about.
        detour: of a feed that is known by names alone, each word of the supplier's name that is not about the thing.

    Raises:
        UsageError: a price is negative or no number.
    """

    call: float = 1.0
    write: float = 1.0
    given: float = 0.5
    open: float = 6.0
    target: float = 12.0
    detour: float = 0.25

    def __post_init__(self) -> None:
        for each in fields(self):
            if not 0 <= getattr(self, each.name) < MOST:
                raise UsageError(f"the price {each.name!r} is from 0 to below {MOST:,}, not {getattr(self, each.name)}")

    def of_feed(self, feed: Feed, supplier: Protocol, consumer: Protocol) -> int:
        """What a feed costs: ``-log(weight)`` and more."""
        price = -log(min(1.0, max(feed.weight, _LEAST_WEIGHT)))
        if feed.evidence in ("names", "predicted"):
            name = feed.supplier.inside[-1] if feed.supplier.inside else feed.parameter
            price += self.detour * _words_aside(name, supplier, consumer)
        return whole(price)

    def of_open(self, feeds: Iterable[Feed], of_target: bool) -> float:
        """What it costs to leave a parameter open that these could supply.

        Where runs were seen, it is as much less as they had the value from elsewhere: most often from the task.
        """
        seen = [feed.weight for feed in feeds if feed.evidence == "seen"]
        return (self.target if of_target else self.open) * (min(1.0, sum(seen)) if seen else 1.0)

    def of_tool(self, protocol: Protocol, given: int) -> int:
        """What a call of a tool costs beside :attr:`call`, with so many parameters that the task has to state."""
        return whole(self.write * (protocol.effect is Effect.WRITE) + self.given * given)


PRICES = Prices()


def whole(price: float) -> int:
    """A price in the whole numbers that are summed."""
    return round(price * UNIT)


def _words_aside(parameter: str, supplier: Protocol, consumer: Protocol) -> int:
    """How far a supplier's name is from that of a look-up of the thing: ``search_movie`` 0, ``get_movie_credits`` 1."""
    about = {word for word in words_of(parameter) if word not in GENERIC} or _subject(consumer)
    subject = _subject(supplier)
    return len(subject - about) + (not subject & about)


def _subject(protocol: Protocol) -> set[str]:
    return {word for word in words_of(protocol.name) if not word.isdigit()} - VERBS - _METHODS
