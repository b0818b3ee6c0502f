"""Which tools ``atc mcp --direct`` lists beside ``run_program``: for single calls whose answer a model reads itself.

That is decided once, at the start: the tools that the user names, and with ``auto`` those that runs have shown to be of
use by themselves, as far as they fit in a few tokens. A tool of which nothing is known is not chosen: chosen by their
size alone, tools cost tokens in each request and saved no turn (``python -m benchmarks.codemode.hybrid``). ``auto``
chooses none that does not surely read. A user may name a write, which is asked about as in a program.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from atc.catalogue.graph.edges import Learnt
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.errors import UsageError
from atc.probing.call_policy import why_not
from atc.schemas.protocol import JsonSchema
from atc.schemas.types import OBSERVED
from atc.serve.mcp.single_calls import definition_of, tokens_of
from atc.tools.tool import Tool, Toolset

AUTO = "auto"
"""The word for tools that are chosen here, among the names that a user gives."""
ALONE = 0.5
"""Share of a tool's calls, in programs that gave an answer, from which it was of use by itself."""


@dataclass(frozen=True)
class Choice:
    """The tools that are listed themselves.

    Attributes:
        named: by the user, whether they are there or not.
        chosen: by ``auto``, the likeliest first.
        tokens: of the definitions of the chosen ones; an upper bound.
        budget: that they had; 0 where the user did not say ``auto``.
    """

    named: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    tokens: int = 0
    budget: int = 0

    def tools(self, tools: Toolset) -> dict[str, Tool]:
        """Those of some tools that are listed. A chosen one is not, once it does not surely read any more."""
        named = {name: tools[name] for name in self.named if name in tools}
        chosen = {name: tools[name] for name in self.chosen if name in tools and _may_be_chosen(tools[name])}
        return named | {name: tool for name, tool in chosen.items() if name not in named}

    def notices(self, tools: Toolset) -> Iterator[str]:
        """Lines about it for whoever runs the server."""
        for name in self.named:
            if name not in tools:
                yield f"--direct {name[:80]}: no tool has this name now; it is listed once one has"
        if self.budget and self.chosen:
            yield (
                f"--direct auto lists {', '.join(self.chosen)}: {self.tokens:,} of {self.budget:,} tokens "
                "(--direct-tokens)"
            )
        elif self.budget:
            yield (
                "--direct auto lists no tool: no run has shown one that is of use by itself, surely reads and fits in "
                f"{self.budget:,} tokens (--direct-tokens). Name some: --direct NAME"
            )


def choice_of(tools: Toolset, graph: ToolGraph, wanted: Sequence[str], budget: int, own: Collection[str]) -> Choice:
    """Choose the tools that are listed themselves; the same from the same.

    Args:
        tools: that programs can call.
        graph: of these, with what runs have taught.
        wanted: names of tools, and :data:`AUTO`.
        budget: tokens that the definitions of those may take that ``auto`` chooses.
        own: names of the server's own tools.

    Raises:
        UsageError: a name is one of the server's own.
    """
    named = tuple(dict.fromkeys(name for name in wanted if name != AUTO))
    if clash := [name for name in named if name in own]:
        raise UsageError(f"--direct {clash[0]}: the server has a tool of its own of this name; leave it out")
    if AUTO not in wanted:
        return Choice(named)
    chosen, left = [], budget
    for candidate in sorted(_candidates(tools, graph, {*named, *own})):
        if candidate.tokens <= left:
            chosen.append(candidate.name)
            left -= candidate.tokens
    return Choice(named, tuple(chosen), budget - left, budget)


@dataclass(frozen=True, order=True)
class _Candidate:
    """A tool that may be chosen. The likeliest sorts first: by small answers, then by size, then by name."""

    answers_lists: bool
    tokens: int
    name: str


def _candidates(tools: Toolset, graph: ToolGraph, others: Collection[str]) -> Iterator[_Candidate]:
    for name in _used_alone(graph.learnt):
        if name in others or name not in tools or not _may_be_chosen(tools[name]):
            continue
        returns = graph.protocols_with_shapes[name].returns
        yield _Candidate(_has_list(returns), tokens_of(definition_of(name, tools[name].protocol)), name)


def _may_be_chosen(tool: Tool) -> bool:
    return tool.transport is not None and not tool.drifted and not why_not(tool.protocol) and tool.name.isascii()


def _used_alone(learnt: Learnt) -> set[str]:
    """A call counts as together with others where its tool followed another one, came before it, or took a value
    from it or gave one."""
    together = defaultdict[str, float](float)
    pairs = [*learnt.follows.items(), *(((feed[0], feed[2]), times) for feed, times in learnt.feeds.items())]
    for pair, times in pairs:
        for name in pair:
            together[name] += times.ok
    used = {name: calls.ok for name, calls in learnt.calls.items() if calls.ok > 0}
    return {name for name, calls in used.items() if 1 - together[name] / calls >= ALONE}


def _has_list(returns: JsonSchema | None) -> bool:
    """Whether an answer is known to have a list in it, as long ones do."""
    todo: list[Any] = [returns]
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            kind = each.get("type", each.get(OBSERVED))
            if kind == "array" or (isinstance(kind, list) and "array" in kind):
                return True
            todo += each.values()
        elif isinstance(each, list):
            todo += each
    return False
