"""Tools that answered runs used together with likely ones: they are offered behind what was found, within a bound."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from atc.graph.edges import Learnt
from atc.sketch import Sketch, Why
from atc.tools.tool import Toolset

LIKELY = 6
"""Tools of the best places whose companions come in."""
SHARE = 4
"""At most one place in so many goes to them."""
LEAST = 0.2
"""The least share of a likely tool's successful calls that the other was used with."""


def with_used_together(found: Sketch, tools: Toolset, learnt: Learnt, limit: int) -> Sketch:
    """What was found, and the tools that were used with the likeliest of it. Where nothing was learnt, as it is.

    Args:
        found: the likeliest first.
        tools: all that may be offered.
        learnt: what runs have taught.
        limit: tools at most; of what was found the last give way, but none that supplies another.
    """
    together = _companions(list(found.tools)[:LIKELY], found.tools, learnt)
    names = [name for name in together if name in tools][: max(1, limit // SHARE)]
    if not names:
        return found
    stay = list(found.tools)
    spare = [name for name in reversed(stay[LIKELY:]) if _gives_way(found.why.get(name))]
    gone = set(spare[: max(0, len(stay) + len(names) - limit)])
    names = names[: limit - (len(stay) - len(gone))]
    why = {name: reason for name, reason in found.why.items() if name not in gone}
    why |= {name: Why(kind="used_with", tool=together[name]) for name in names}
    return replace(found, tools=tools.only(*(name for name in stay if name not in gone), *names), why=why)


def _companions(likely: list[str], known: Toolset, learnt: Learnt) -> dict[str, str]:
    """The tools that were used with likely ones, the most often used first, each with that likely one."""
    if not likely or not learnt.calls:
        return {}
    counts: dict[tuple[str, str], float] = defaultdict(float)
    pairs = [(pair, count.ok) for pair, count in learnt.follows.items()]
    pairs += [((supplier, consumer), count.ok) for (supplier, _, consumer, _), count in learnt.feeds.items()]
    for (one, other), ok in pairs:
        for tool, companion in ((one, other), (other, one)):
            if tool in likely and companion not in known and tool != companion:
                counts[tool, companion] = max(counts[tool, companion], ok)
    shares: dict[str, tuple[float, str]] = {}
    for (tool, companion), ok in counts.items():
        calls = learnt.calls[tool].ok if tool in learnt.calls else 0.0
        share = min(1.0, ok / calls) if calls > 0 else 0.0
        if share >= LEAST and share > shares.get(companion, (0.0, ""))[0]:
            shares[companion] = (share, tool)
    return {name: shares[name][1] for name in sorted(shares, key=lambda name: (-shares[name][0], name))}


def _gives_way(why: Why | None) -> bool:
    return why is None or why.kind not in ("supplies", "earlier")
