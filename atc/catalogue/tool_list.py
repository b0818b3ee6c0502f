"""The list of tools that a prompt has where not all are shown whole: names and arguments, by service.

The order is that of services and names, never of scores: the same list for every task is read once by a provider's
cache. Text of a document stands in it only as names, which cannot be mistaken for anything else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice

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


class _Service:
    """The tools of one service.

    Attributes:
        title: as the list has it.
        protocols: of its tools.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.title = one_line(source.label or source.service or "tools", MAX_TITLE)
        self.protocols: list[Protocol] = []

    def is_named(self, words: Container[str]) -> bool:
        """Return whether words of a task name it: its place, or the first word of its title."""
        names = (self._source.label, self._source.place, *self._source.label.split()[:1])
        return any(len(name) > 2 and name.casefold() in words for name in names)

    @cached_property
    def common(self) -> Sequence[str]:
        """Return the optional arguments that most of its tools take: they are said once."""
        counts = Counter(p.name for each in self.protocols for p in parameters_of(each) if not p.required)
        least = max(COMMON, SHARE * len(self.protocols))
        return sorted(name for name, count in counts.items() if count >= least)[:MAX_REQUIRED]

    @cached_property
    def heading(self) -> str:
        more = f" (most take {', '.join(f'{name}?' for name in self.common)})" if self.common else ""
        return f"# {self.title}{more}"

    def lines(self, names: Container[str], width: int) -> list[str]:
        """Return the heading and a line for each of these tools, by name; nothing where it has none of them."""
        some = sorted((each for each in self.protocols if each.name in names), key=lambda each: each.name)
        made = [line_of(each, self.common, width) for each in some]
        return [self.heading, *made] if made else []


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
    def _of(self) -> dict[str, _Service]:
        """Return the service of each tool."""
        known: dict[tuple[str, str], _Service] = {}
        found: dict[str, _Service] = {}
        for name, protocol in self._protocols.items():
            source = protocol.source
            found[name] = service = known.setdefault((source.label, source.service), _Service(source))
            service.protocols.append(protocol)
        return found

    @cached_property
    def _services(self) -> list[_Service]:
        return sorted({id(each): each for each in self._of.values()}.values(), key=lambda service: service.title)

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
        said = {*_WORD.findall(task.casefold())}
        named = [service for service in self._services if len(self._services) > 1 and service.is_named(said)]
        beside = dict.fromkeys(chain((self._of[name] for name in best), self._services))
        first = chain.from_iterable(islice(self._by_rank(service, best), PLACES) for service in named)
        others = (each.name for service in beside for each in service.protocols)  # the best services' rest
        chosen, headed = dict[str, None](), set[_Service]()
        for name in chain(first, best, others):
            if name in chosen:
                continue
            service = self._of[name]
            room -= len(line_of(self._protocols[name], service.common, NARROW)) + 1
            room -= 0 if service in headed else len(service.heading) + 1
            if room < 0:
                break
            chosen[name] = None
            headed.add(service)
        return tuple(chosen)

    def _by_rank(self, service: _Service, best: Sequence[str]) -> Iterator[str]:
        mine = (name for name in best if self._of[name] is service)
        yield from dict.fromkeys(chain(mine, (each.name for each in service.protocols)))

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
