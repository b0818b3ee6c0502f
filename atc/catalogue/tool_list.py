"""The list of tools that a prompt has where not all are shown whole: names and arguments, by service.

The order is that of services and names, never of scores: the same list for every task is read once by a provider's
cache. Text of a document stands in it only as names, which cannot be mistaken for anything else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from atc.catalogue.sketch import CHARACTERS
from atc.schemas.protocol import Protocol, Source, parameters_of
from atc.schemas.types import one_line

WIDTHS = (8, 4, 2, 0)
"""Optional arguments that a tool is listed with: as many of these as leave room for all tools, else :data:`NARROW`."""
NARROW = 2
MAX_REQUIRED, MAX_TITLE, SHORT_TITLE = 8, 80, 40
"""Required arguments that a tool is listed with; characters of a service's name, and where many are named."""
COMMON, SHARE = 5, 0.6
"""Tools of a service from which an optional argument is said once for all, and the share of them that takes it."""
PLACES = 20
"""Places in the list that a service has at least which the task names."""
MAX_SERVICES, MAX_LEFT_OUT = 12, 800
"""Services of which is said how many of their tools are not listed, and characters of the line that says so."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class _Service:
    """Tools of one service, by name.

    Attributes:
        common: the optional arguments that most of its tools take: they are said once.
    """

    title: str
    words: frozenset[str]
    protocols: Sequence[Protocol]
    common: Sequence[str]

    @classmethod
    def of(cls, source: Source, protocols: Sequence[Protocol]) -> _Service:
        counts = Counter(p.name for each in protocols for p in parameters_of(each) if not p.required)
        often = sorted(name for name, count in counts.items() if count >= max(COMMON, SHARE * len(protocols)))
        first = source.label.split()[:1]
        words = frozenset(word.casefold() for word in (source.label, source.place, *first) if len(word) > 2)
        return cls(_title(source), words, sorted(protocols, key=lambda each: each.name), often[:MAX_REQUIRED])

    @property
    def heading(self) -> str:
        more = f" (most take {', '.join(f'{name}?' for name in self.common)})" if self.common else ""
        return f"# {self.title}{more}"

    def lines(self, names: Container[str], width: int) -> list[str]:
        """Return the heading and a line for each of these tools; nothing where it has none of them."""
        made = [line_of(each, self.common, width) for each in self.protocols if each.name in names]
        return [self.heading, *made] if made else []


def _title(source: Source) -> str:
    return one_line(source.label or source.service or "tools", MAX_TITLE)


def _services(protocols: Iterable[Protocol]) -> list[_Service]:
    found: dict[tuple[str, str], list[Protocol]] = {}
    for protocol in protocols:
        found.setdefault((_title(protocol.source), protocol.source.service), []).append(protocol)
    return [_Service.of(some[0].source, some) for _, some in sorted(found.items())]


def line_of(protocol: Protocol, common: Container[str] = (), width: int = WIDTHS[0]) -> str:
    """Return a tool as the list has it: ``name(argument, optional?)``.

    Args:
        protocol: of the tool.
        common: names of optional arguments that are said elsewhere.
        width: optional arguments at most.
    """
    parameters = parameters_of(protocol)
    required = [p.name for p in parameters if p.required]
    optional = [f"{p.name}?" for p in parameters if not p.required and p.name not in common]
    shown = [*required[:MAX_REQUIRED], *optional[:width]]
    more = ["…"] if len(shown) < len(required) + len(optional) else []
    return f"{protocol.name}({', '.join([*shown, *more])})"


class ToolLister:
    """Makes lists of some tools; what it knows of them is worked out once.

    Args:
        protocols: all tools, by name.
    """

    def __init__(self, protocols: Mapping[str, Protocol]) -> None:
        self._protocols = protocols
        self._least = sum(len(name) + 3 for name in protocols)

    @cached_property
    def _services(self) -> list[_Service]:
        return _services(self._protocols.values())

    @cached_property
    def _cost(self) -> dict[str, int]:
        """Return the characters of each tool's line where not all are listed."""
        named = ((each, service.common) for service in self._services for each in service.protocols)
        return {each.name: len(line_of(each, common, NARROW)) + 1 for each, common in named}

    def names(self, tokens: int, best: Sequence[str], task: str) -> tuple[str, ...]:
        """Return the tools that are listed: all if they fit so many tokens, else the best.

        Args:
            tokens: of the list.
            best: tools by their order for the task.
            task: the user's words. A service that they name has :data:`PLACES`.
        """
        room, all_ = tokens * CHARACTERS, self._protocols
        if self._least <= room and any(_length(self._services, all_, width) <= room for width in WIDTHS):
            return tuple(all_)
        room -= MAX_LEFT_OUT
        ranks = {name: rank for rank, name in enumerate(best)}
        said, first, rest = {*_WORD.findall(task.casefold())}, list[str](), list[tuple[int, list[str]]]()
        for service in self._services:
            own = sorted((each.name for each in service.protocols), key=lambda name: ranks.get(name, len(ranks)))
            first += own[:PLACES] if len(self._services) > 1 and service.words & said else []
            rest.append((ranks.get(own[0], len(ranks)), own))
        others = (name for _, own in sorted(rest, key=lambda each: each[0]) for name in own)  # the best services' rest
        chosen, headed = dict[str, None](), set[str]()
        for name in chain(first, best, others):
            if name in chosen:
                continue
            heading = self._heading[name]
            room -= self._cost[name] + (0 if heading in headed else len(heading) + 1)
            if room < 0:
                break
            chosen[name] = None
            headed.add(heading)
        return tuple(chosen)

    @cached_property
    def _heading(self) -> dict[str, str]:
        return {each.name: service.heading for service in self._services for each in service.protocols}

    def text(self, names: Collection[str], tokens: int) -> str:
        """Return the list, with as many optional arguments as so many tokens have room for.

        Args:
            names: of the tools that are listed.
            tokens: of the list.
        """
        services, listed = self._services, frozenset(names)
        left_out = [_left_out(services, listed)] if len(listed) < len(self._protocols) else []
        room = tokens * CHARACTERS - sum(map(len, left_out))
        width = next((width for width in WIDTHS if _length(services, listed, width) <= room), WIDTHS[-1])
        return "\n".join([*(line for service in services for line in service.lines(listed, width)), *left_out])


def _length(services: Sequence[_Service], names: Container[str], width: int) -> int:
    return sum(len(line) + 1 for service in services for line in service.lines(names, width))


def _left_out(services: Sequence[_Service], listed: Container[str]) -> str:
    away = Counter[str]()
    for service in services:
        if count := sum(each.name not in listed for each in service.protocols):
            away[one_line(service.title, SHORT_TITLE)] += count
    counted = [f"{title}: {count:,}" for title, count in away.most_common(MAX_SERVICES)]
    others = "" if len(away) <= MAX_SERVICES else f", and {len(away) - MAX_SERVICES:,} more services"
    return f"# {sum(away.values()):,} more tools are not listed ({', '.join(counted)}{others})"
