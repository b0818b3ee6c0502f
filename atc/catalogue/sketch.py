"""The sketch of a run: the tools that a task needs, in which order, what feeds what, and what else would do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from atc import wording
from atc._records.records import FeedFacts, SketchFacts, Why, WhyKind
from atc.catalogue.graph.edges import Feed
from atc.catalogue.graph.suppliers import Supplier
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.models.base import Model
from atc.schemas.protocol import Protocol
from atc.settings import Settings
from atc.tools.stubs import whole_stub
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
        listed: names of the tools that a prompt lists by name and arguments; empty where it has no list.
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
    listed: tuple[str, ...] = ()

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
            listed=self.listed,
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
            listed=facts.listed,
        )

    def offering(self, tools: Toolset, kind: WhyKind) -> Sketch:
        """This sketch with other tools offered. Those that it did not offer before get this reason."""
        why = {name: self.why.get(name) or Why(kind=kind) for name in tools}
        return replace(self, tools=tools, why=why)

    def listing(self, tools: Toolset) -> Sketch:
        """This sketch without listed tools that are gone."""
        return replace(self, listed=tuple(name for name in self.listed if name in tools))

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


# ----------------------------------------------------------------------------------------------------------------------
# What the tools may take of a run's prompts: whole documents, and the list of names beside them.


FEW = 20
"""Tools that are shown at most where a prompt has no list: to a small model, and in a small context."""
LEAST_LIST = 400
"""Tokens of the least list: where there is no room for as many, a prompt has none."""
CHARACTERS = 4
"""Characters of a token, about."""
NAME_TOKENS = 5
"""Tokens of a line of the list, at least."""
SHARE = 4
"""The part of a prompt that the documents may take, and the list: one token in so many of each."""


@dataclass(frozen=True)
class ToolRoom:
    """What a prompt has for tools.

    Attributes:
        stubs: tokens of documents.
        names: tokens of the list; 0: there is none, and :data:`FEW` tools are shown, each as much as there is room for.
    """

    stubs: int = 0
    names: int = 0

    @property
    def limit(self) -> int:
        """The tools that are put in order: all that a list may have, or that may be shown."""
        return max(FEW, self.names // NAME_TOKENS)

    def fits(self, tools: Toolset) -> bool:
        """Return whether all tools are shown: whole within the budget, or few of them."""
        few = not self.names and len(tools) <= FEW
        return few or fits_whole(tools.protocols, self.stubs)

    def shown(self, best: Sequence[str], tools: Toolset, kept: Sequence[str] = ()) -> list[str]:
        """Return the tools that are shown: those that were shown before, and the best within half of the budget.

        Args:
            best: tools by their order for the task.
            tools: all.
            kept: tools that earlier tasks of the conversation used or were shown, the most important first.
        """
        if not self.names:
            kept = kept[: FEW // 2]
            return [*dict.fromkeys([*kept, *(name for name in best if name not in kept)])][:FEW]
        half = self.stubs // 2
        chosen = self._within(kept, tools, half)
        return [*chosen, *self._within([name for name in best if name not in chosen], tools, half)]

    def _within(self, names: Sequence[str], tools: Toolset, left: int) -> list[str]:
        """A document of which a part alone can be shown counts as a quarter."""
        most, chosen = max(1, left // 4), []
        for name in names:
            if (left := left - stub_tokens(tools[name].protocol, most)) < 0:
                break
            chosen.append(name)
        return chosen or [*names[:1]]


async def room_of(model: Model, settings: Settings) -> ToolRoom:
    """Return what the prompts of a model have for tools."""
    if model.wants_example:  # each word of its prompt has a price
        return room_in(0, settings)
    most = settings.prompt_tokens or model.prompt_tokens
    return room_in(most or (settings.context_tokens or await model.context_size()) - settings.max_tokens, settings)


def room_in(tokens: int, settings: Settings) -> ToolRoom:
    """Return what a prompt of so many tokens has for tools: less in a small one, but what the user has set himself."""
    own = settings.stub_tokens if "stub_tokens" in settings.model_fields_set else None
    stubs, names = min(settings.stub_tokens, tokens // SHARE), min(settings.list_tokens, tokens // SHARE)
    if names >= LEAST_LIST:
        return ToolRoom(own or max(1, stubs), names)
    return ToolRoom(own or min(settings.stub_tokens, tokens // 2))


def fits_whole(protocols: Iterable[Protocol], tokens: int) -> bool:
    """Return whether the stubs of all tools take so many tokens at most."""
    left = tokens * CHARACTERS
    for protocol in protocols:
        if left <= 0 or (stub := whole_stub(protocol, {}, left, pages=True, plain=True)) is None:
            return False
        left -= len(stub.text) + 3
    return left >= 0


def stub_tokens(protocol: Protocol, most: int) -> int:
    """Return the tokens of a tool's stub; ``most`` where it has as many or more."""
    stub = whole_stub(protocol, {}, most * CHARACTERS, pages=True, plain=True)
    return most if stub is None else min(most, -(-len(stub.text) // CHARACTERS))
