"""The tool graph: what feeds what, what was used together, and what would do instead (NaviAgent §3.2).

Structure is read off the protocols (:mod:`atc.graph.suppliers`); behaviour comes from runs (:class:`Learnt`). One graph
serves all who ask: hints in stubs, the check, repairs, prerequisites, substitutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from atc.graph.edges import NOTHING_LEARNT, Feed, Learnt, Substitute
from atc.graph.suppliers import Scope, Suppliers, suppliers_of
from atc.tools.protocol import Protocol


class ToolGraph:
    """The graph of some tools.

    Args:
        tools: their protocols; by key where names may repeat, as in a catalogue.
        learnt: what runs have taught about them.
        scopes: by key, where the scope of a tool is not what its source states.

    Attributes:
        protocols: by key.
    """

    def __init__(
        self,
        tools: Sequence[Protocol] | Mapping[str, Protocol],
        learnt: Learnt = NOTHING_LEARNT,
        *,
        scopes: Mapping[str, Scope] | None = None,
    ) -> None:
        self.protocols = dict(tools) if isinstance(tools, Mapping) else {each.name: each for each in tools}
        self.learnt, self._scopes = learnt, scopes

    @cached_property
    def suppliers(self) -> Suppliers:
        """For every tool and parameter that others can supply: these, the best ones alone."""
        return suppliers_of(self.protocols, scopes=self._scopes)

    def feeds(self, consumer: str) -> Sequence[Feed]:
        """The edges into a tool's parameters, the surest first."""
        found = [
            (parameter, each) for (tool, parameter), some in self.suppliers.items() if tool == consumer for each in some
        ]
        return [Feed(each, consumer, parameter, "names", 0.5) for parameter, each in found]

    def substitutes(self, tool: str) -> Sequence[Substitute]:
        """What can take a tool's place, the likeliest first."""
        return ()

    def layers(self, tools: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """These tools in layers, each after those that supply its parameters; a circle is cut at its first tool."""
        left = dict.fromkeys(tools)
        sources = {tool: {each.supplier.tool for each in self.feeds(tool)} for tool in left}
        made: list[tuple[str, ...]] = []
        while left:
            free = [tool for tool in left if not (sources[tool] - {tool}) & left.keys()] or [next(iter(left))]
            made.append(tuple(free))
            for tool in free:
                del left[tool]
        return tuple(made)

    def only(self, keys: Sequence[str]) -> ToolGraph:
        """The graph of some of these tools."""
        return ToolGraph({key: self.protocols[key] for key in keys}, self.learnt, scopes=self._scopes)
