"""What a sketch says, as plain data: names of tools, edges and reasons. Traces and results hold it; no value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from atc.facts import Record

WhyKind = Literal[
    "all", "words", "meaning", "supplies", "used_with", "planned", "asked", "said", "earlier", "first", "given"
]
"""Why a tool is offered: all are; the task's words, or their meaning, find it; it supplies an argument of another; it
was used together with another in runs; a sub-goal of the plan finds it, or a query of the model; the model picked it
from a menu (in traces of older versions alone); an earlier task of the conversation used it; nothing fits the task, and
it is among the first; the user's own retriever gave it."""


class Why(Record):
    """The reason for which a tool is offered.

    Attributes:
        kind: of the reason.
        tool: of ``supplies`` and ``used_with``: the other tool. ``parameter``: the argument that is supplied.
        number: of ``planned`` the sub-goal's, of ``asked`` the query's, from 1.
        path: of ``said``: the words of the groups through which the model came to it.
    """

    kind: WhyKind
    tool: str = ""
    parameter: str = ""
    number: int = 0
    path: tuple[str, ...] = ()


class FeedFacts(Record):
    """An edge from a response to an argument (:class:`atc.graph.edges.Feed`), as plain data.

    Attributes:
        supplier: the tool whose response has the value, ``path`` where; empty where the place is not known.
        arguments: that a call of the supplier must give.
        consumer: the tool that takes the value, as ``parameter``.
        evidence, weight, seen: as of the edge.
    """

    supplier: str
    path: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    consumer: str
    parameter: str
    evidence: Literal["corrected", "seen", "stated", "names", "predicted"] = "names"
    weight: float = 0.0
    seen: float = 0.0


class SketchFacts(Record):
    """A sketch without its tools: their names, and what :class:`atc.sketch.Sketch` says of them."""

    tools: tuple[str, ...] = ()
    of: int = 0
    subgoals: tuple[str, ...] = ()
    plan: str = ""
    layers: tuple[tuple[str, ...], ...] = ()
    feeds: tuple[FeedFacts, ...] = ()
    substitutes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    why: dict[str, Why] = Field(default_factory=dict)
    sure: bool = True
    queries: tuple[str, ...] = ()
    stopped: str = ""
    notices: tuple[str, ...] = ()

    @classmethod
    def of_trace(cls, data: Mapping[str, Any]) -> SketchFacts:
        """The facts of a ``tools_chosen`` event; of one that an older version wrote, those that it has."""
        known = {name: value for name, value in data.items() if name in cls.model_fields}
        try:
            return cls.model_validate(known)
        except ValidationError:  # somebody wrote it by hand
            return cls(tools=tuple(map(str, data.get("tools", ()))), plan=str(data.get("plan", "")))
