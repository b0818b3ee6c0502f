"""The list of tools that a prompt has where not all are shown whole: names and arguments, by service.

The order is that of services and names, never of scores: the same list for every task is read once by a provider's
cache. Text of a document stands in it only as names, which cannot be mistaken for anything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from atc.catalogue.sketch import CHARACTERS
from atc.schemas.protocol import Parameter, Protocol, parameters_of
from atc.schemas.types import one_line

MAX_ARGUMENTS, MAX_TITLE = 8, 80
"""Arguments that a tool is listed with, the required ones first; characters of a service's name."""
COMMON, SHARE = 5, 0.6
"""Tools of a service from which an optional argument is said once for all, and the share of them that takes it."""
PLACES = 20
"""Places in the list that a service has at least which the task names."""
MAX_SERVICES = 12
"""Services of which is said how many of their tools are not listed."""


@dataclass(frozen=True)
class _Service:
    title: str
    protocols: Sequence[Protocol]

    def common(self) -> list[str]:
        """The optional arguments that most of its tools take: they are said once."""
        if len(self.protocols) < COMMON:
            return []
        optional = (p.name for protocol in self.protocols for p in parameters_of(protocol) if not p.required)
        counts = Counter(optional)
        return sorted(name for name, count in counts.items() if count >= SHARE * len(self.protocols))[:MAX_ARGUMENTS]

    def heading(self, common: Sequence[str]) -> str:
        more = f" (most take {', '.join(f'{name}?' for name in common)})" if common else ""
        return f"# {self.title}{more}"


def _services(protocols: Iterable[Protocol]) -> list[_Service]:
    found: dict[tuple[str, str], list[Protocol]] = {}
    for protocol in protocols:
        source = protocol.source
        title = one_line(source.title or source.place or source.service or "tools", MAX_TITLE)
        found.setdefault((title, source.service), []).append(protocol)
    return [_Service(title, sorted(some, key=lambda each: each.name)) for (title, _), some in sorted(found.items())]


def line_of(protocol: Protocol, common: Collection[str] = ()) -> str:
    """Return a tool as the list has it: ``name(argument, optional?)``.

    Args:
        protocol: of the tool.
        common: names of optional arguments that are said elsewhere.
    """
    given: list[Parameter] = sorted(parameters_of(protocol), key=lambda parameter: not parameter.required)
    names = [p.name if p.required else f"{p.name}?" for p in given if p.required or p.name not in common]
    shown = names[:MAX_ARGUMENTS] + (["…"] if len(names) > MAX_ARGUMENTS else [])
    return f"{protocol.name}({', '.join(shown)})"


def names_within(protocols: Mapping[str, Protocol], tokens: int, best: Sequence[str], task: str) -> tuple[str, ...]:
    """Return the tools that are listed: all if they fit so many tokens, else the best, by name.

    Args:
        protocols: all tools.
        tokens: of the list.
        best: tools by their order for the task.
        task: the user's words. A service that they name has :data:`PLACES`.
    """
    room = tokens * CHARACTERS
    services = _services(protocols.values())
    cost: dict[str, int] = {}
    for service in services:
        common = service.common()
        room -= len(service.heading(common)) + 1
        cost |= {each.name: len(line_of(each, common)) + 1 for each in service.protocols}
    if sum(cost.values()) <= room:
        return tuple(protocols)
    room -= MAX_SERVICES * MAX_TITLE // 2  # for the line that says what is left out
    said, ranks = task.casefold(), {name: rank for rank, name in enumerate(best)}
    first: list[str] = []
    for service in services:
        if len(services) > 1 and service.title.casefold() in said:
            own = sorted((each.name for each in service.protocols), key=lambda name: ranks.get(name, len(ranks)))
            first += own[:PLACES]
    chosen: list[str] = []
    for name in dict.fromkeys([*first, *best]):
        if (room := room - cost[name]) < 0:
            break
        chosen.append(name)
    return tuple(chosen)


def tool_list(protocols: Mapping[str, Protocol], names: Collection[str]) -> str:
    """Return the list.

    Args:
        protocols: all tools.
        names: of those that are listed.
    """
    listed, away = frozenset(names), Counter[str]()
    blocks: list[str] = []
    for service in _services(protocols.values()):
        some, common = [each for each in service.protocols if each.name in listed], service.common()
        if len(some) < len(service.protocols):
            away[service.title] += len(service.protocols) - len(some)
        if some:
            blocks.append("\n".join([service.heading(common), *(line_of(each, common) for each in some)]))
    if away:
        counted = [f"{title}: {count:,}" for title, count in away.most_common(MAX_SERVICES)]
        others = "" if len(away) <= MAX_SERVICES else f", and {len(away) - MAX_SERVICES:,} more services"
        blocks.append(f"# {sum(away.values()):,} more tools are not listed ({', '.join(counted)}{others})")
    return "\n".join(blocks)
