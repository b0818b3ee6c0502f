"""The services of a task: behind the first tools, those come first whose services the first tools are of.

A task needs several tools of the same service more often than one each of many, and its words name but some of them.
In a catalogue of many services, tools of others that have a few of its words crowd the rest out. So a tool gains by
what the first tools of its service scored, as far as places behind the first ones go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Sequence

from atc.plugins.learning import Hit

Services = Callable[[Sequence[str]], Sequence[str | None]]
"""Gives the service of each tool; ``None`` where it is not known."""
FIRST = 6
"""Tools that keep their places: the likeliest."""
NAMING = 10
"""Tools that name the services of a task: the likeliest."""
DEPTH = 100
"""Tools that are found at least, to choose among."""
GAIN = 0.5
"""What a tool gains at most, if all that the first tools scored is of its service; the best tool has 1. Chosen by
a benchmark of what is offered, on the half of its tasks that was set apart for choosing."""


def by_services(hits: Sequence[Hit], services: Services, offered: Container[str]) -> list[str]:
    """Return the ids of hits, the first ones in their order, the others by their score and that of their service.

    Args:
        hits: of one search, best first.
        services: of tools by id.
        offered: the ids that count. The others come last.
    """
    others = [hit.id for hit in hits if hit.id not in offered]
    hits = [hit for hit in hits if hit.id in offered]
    ids = [hit.id for hit in hits]
    best = max((hit.score for hit in hits), default=0.0)
    if len(hits) <= FIRST or best <= 0:
        return ids + others
    of = services(ids)
    scored: dict[str, float] = defaultdict(float)
    for hit, service in zip(hits[:NAMING], of, strict=False):
        if service is not None:
            scored[service] += hit.score
    whole = sum(hit.score for hit in hits[:NAMING])

    def worth(place: int) -> float:
        service = of[place]
        gained = scored.get(service, 0.0) / whole if service is not None else 0.0
        return hits[place].score / best + GAIN * gained

    rest = sorted(range(FIRST, len(hits)), key=lambda place: -worth(place))  # of equal ones the order stays
    return [*ids[:FIRST], *(ids[place] for place in rest), *others]
