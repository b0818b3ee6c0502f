"""The sketch of a run: the tools that a task needs, in which order, what feeds what, and what else would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from atc.graph.edges import Feed
from atc.tools.tool import Toolset


@dataclass(frozen=True)
class Sketch:
    """What is offered for a task, and why.

    Attributes:
        tools: the likeliest first.
        subgoals: what the model planned; empty where nothing was planned. ``plan`` is its text.
        layers: names of tools, suppliers in earlier layers than what they supply.
        feeds: what supplies which argument.
        substitutes: by name of an offered tool, what would do in its place; not offered until needed.
        why: by name of a tool, why it is offered, in a few words for people.
        sure: the choice needs no plan: all tools are offered, or one fits clearly.
        queries: with which tools were sought beside the task's own words.
        stopped: why the model's part of a plan ended early, if it did.
    """

    tools: Toolset
    subgoals: tuple[str, ...] = ()
    plan: str = ""
    layers: tuple[tuple[str, ...], ...] = ()
    feeds: tuple[Feed, ...] = ()
    substitutes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    sure: bool = True
    queries: tuple[str, ...] = ()
    stopped: str = ""
