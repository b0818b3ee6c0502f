"""The sketch of a run: the tools that a task needs, in which order, what feeds what, and what else would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from atc import wording
from atc._records.records import FeedFacts, SketchFacts, Why, WhyKind
from atc.catalogue.graph.edges import Feed
from atc.catalogue.graph.suppliers import Supplier
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.schemas.protocol import Protocol
from atc.tools.tool import Toolset

__all__ = ["FeedFacts", "Sketch", "SketchFacts", "Why", "WhyKind"]

MAX_FEEDS, A_PARAMETER = 200, 2
"""Edges that a sketch names, and those into one parameter: the surest."""
MAX_SUBSTITUTES = 3
"""Substitutes that a sketch names for one tool."""


@dataclass(frozen=True)
class Sketch:
    """Describes what is offered for a task, and why.

    Attributes:
        tools: the likeliest first.
        of: the number of tools that these were chosen from.
        subgoals: what the model planned; empty where nothing was planned. ``plan`` is its text.
        layers: names of tools, suppliers in earlier layers than what they supply.
        feeds: what supplies which argument.
        substitutes: by the name of an offered tool, the tools that replaced it in earlier runs, or that the user named.
            They are not offered for this. Others are sought when a tool breaks.
        why: by name of a tool, why it is offered.
        sure: whether the choice needs no plan: all tools are offered, or one fits clearly.
        queries: the searches that were made beside the task's own words.
        stopped: why the model's part of a plan ended early, if it did.
        notices: sentences for the user about how tools are found.
    """

    tools: Toolset
    of: int = 0
    subgoals: tuple[str, ...] = ()
    plan: str = ""
    layers: tuple[tuple[str, ...], ...] = ()
    feeds: tuple[Feed, ...] = ()
    substitutes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    why: Mapping[str, Why] = field(default_factory=dict)
    sure: bool = True
    queries: tuple[str, ...] = ()
    stopped: str = ""
    notices: tuple[str, ...] = ()

    def facts(self) -> SketchFacts:
        """Return the sketch as a trace and a result hold it."""
        return SketchFacts(
            tools=tuple(self.tools),
            of=self.of,
            subgoals=self.subgoals,
            plan=self.plan,
            layers=self.layers,
            feeds=tuple(map(_facts_of, self.feeds)),
            substitutes={tool: tuple(some) for tool, some in self.substitutes.items()},
            why=dict(self.why),
            sure=self.sure,
            queries=self.queries,
            stopped=self.stopped,
            notices=self.notices,
        )

    @classmethod
    def of_facts(cls, facts: SketchFacts, tools: Toolset) -> Sketch:
        """Make the sketch that these facts describe.

        Args:
            facts: of a trace.
            tools: the tools of those names.
        """
        return cls(
            tools,
            facts.of,
            facts.subgoals,
            facts.plan,
            facts.layers,
            tuple(map(_feed_of, facts.feeds)),
            facts.substitutes,
            facts.why,
            facts.sure,
            facts.queries,
            facts.stopped,
        )

    def offering(self, tools: Toolset, kind: WhyKind) -> Sketch:
        """This sketch with other tools offered. Those that it did not offer before get this reason."""
        why = {name: self.why.get(name) or Why(kind=kind) for name in tools}
        return replace(self, tools=tools, why=why)

    def noting_services(self) -> Sketch:
        """This sketch, with a notice for each credential that its tools ask for and that nobody has given, and for each
        address of theirs that may be meant for another place."""
        missing = self.tools.missing_credentials()
        told = [wording.no_credential(each) for each in missing]
        told += [wording.other_address(each.named, each.found) for each in self.tools.other_addresses()]
        return replace(self, notices=(*self.notices, *told)) if told else self

    def with_graph(self, graph: ToolGraph) -> Sketch:
        """This sketch with the layers and the feeds of its tools, beside those that it has, and with substitutes.

        Args:
            graph: that has all its tools.
        """
        names = [name for name in self.tools if name in graph.protocols]
        own = graph.only(names)
        consumers = dict.fromkeys(each.consumer for each in self.feeds)
        surer = {_ends(each): each for name in consumers for each in own.feeds(name) if each.evidence != "names"}
        found = [surer.get(_ends(each), each) for each in self.feeds]  # who searched goes by names alone
        known = set(map(_ends, found))
        more = [each for each in feeds_of(own, names) if _ends(each) not in known]
        return replace(
            self,
            layers=own.layers(names),
            feeds=(*found, *more)[:MAX_FEEDS],
            substitutes=proven_substitutes(graph, set(names)),
        )


def proven_substitutes(graph: ToolGraph, tools: Set[str]) -> dict[str, tuple[str, ...]]:
    """By tool what took its place in runs that were answered, or does by the user's word, the surest first.

    What would do by its types alone is sought when a tool breaks: it takes too long here.
    """
    learnt = graph.learnt
    found: dict[str, list[tuple[float, str]]] = {}
    by_hand = ((pair, float("inf")) for pair, there in learnt.corrected_substitutes.items() if there)
    by_use = ((pair, counts.ok) for pair, counts in learnt.replaced.items() if counts.ok > 0)
    for (tool, by), worth in (*by_hand, *by_use):
        said = learnt.corrected_substitutes.get((tool, by), True)
        if tool in tools and by in graph.protocols and said:
            found.setdefault(tool, []).append((-worth, by))
    return {tool: tuple(dict.fromkeys(by for _, by in sorted(found[tool])))[:MAX_SUBSTITUTES] for tool in sorted(found)}


def chosen_event(sketch: Sketch) -> dict[str, Any]:
    """Return the event ``tools_chosen``. Where tools were sought, ``needs`` has for people what the edges say."""
    facts = sketch.facts()
    data: dict[str, Any] = {"tools": list(facts.tools), "of": facts.of}
    if any(why.kind != "all" for why in facts.why.values()):
        from atc.wording import sketches

        needed = {(why.tool, why.parameter, name) for name, why in facts.why.items() if why.kind == "supplies"}
        needs = [f for f in facts.feeds if (f.consumer, f.parameter, f.supplier) in needed]
        data |= {"plan": facts.plan, "queries": list(facts.queries), "stopped": facts.stopped}
        data["needs"] = list(map(sketches.need, needs))
    return data | facts.model_dump(mode="json", exclude_defaults=True, exclude={"tools", "of"})


def feeds_of(graph: ToolGraph, consumers: Sequence[str]) -> list[Feed]:
    """Return the surest edges into each parameter of some tools."""
    chosen: list[Feed] = []
    for consumer in consumers:
        taken: dict[str, int] = {}
        for feed in graph.told_feeds(consumer):
            taken[feed.parameter] = taken.get(feed.parameter, 0) + 1
            if taken[feed.parameter] <= A_PARAMETER:
                chosen.append(feed)
    return chosen


def all_of(tools: Toolset) -> Sketch:
    """Return the sketch that offers all tools."""
    return Sketch(tools, len(tools), why={name: Why(kind="all") for name in tools})


def protocols_of(tools: Toolset) -> dict[str, Protocol]:
    """Return the protocols of tools by name."""
    return {name: tool.protocol for name, tool in tools.items()}


def _ends(feed: Feed) -> tuple[str, str, str]:
    return feed.consumer, feed.parameter, feed.supplier.tool


def _facts_of(feed: Feed) -> FeedFacts:
    return FeedFacts(
        supplier=feed.supplier.tool,
        path=feed.supplier.path,
        arguments=feed.supplier.arguments,
        consumer=feed.consumer,
        parameter=feed.parameter,
        evidence=feed.evidence,
        weight=round(feed.weight, 4),
        seen=round(feed.seen, 4),
    )


def _feed_of(facts: FeedFacts) -> Feed:
    supplier = Supplier(facts.supplier, facts.path, facts.arguments)
    return Feed(supplier, facts.consumer, facts.parameter, facts.evidence, facts.weight, facts.seen)
