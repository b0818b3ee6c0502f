"""What the tool graph holds, as plain facts: edges with their evidence, and what runs have taught (NaviAgent §3.2).

A tool is named by its key: its name among the tools of one agent, or its id in a catalogue. No fact holds a value of a
call: names, counts and times alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from atc.catalogue.graph.suppliers import Supplier
from atc.schemas.protocol import JsonSchema

Path = tuple[str, ...]
"""Where a field lies in a response, as :func:`atc.catalogue.graph.suppliers.fields_of` gives it: ``[]`` is an item of
a list."""
Evidence = Literal["corrected", "seen", "stated", "names", "predicted"]
"""Why an edge is there, the surest first: the user says so; a program of an answered run did it; the document says so,
by a link or in the parameter's description; the names of paths, schemas, tools and fields fit; a trained model says
so."""


class Place(NamedTuple):
    """A parameter, or a field of a response.

    Attributes:
        tool: its key.
        path: of a field a path; of a parameter its original name alone.
        taken: it is a parameter.
    """

    tool: str
    path: Path
    taken: bool


@dataclass(frozen=True)
class Counts:
    """How often something happened in runs, weighted by age (Eq. 12), and when it did last.

    Attributes:
        ok: times that it succeeded and its value reached an answered result.
        failed: times that it failed as a tool, not by its arguments.
        last: seconds since the epoch; 0 if never.
    """

    ok: float = 0.0
    failed: float = 0.0
    last: float = 0.0


@dataclass(frozen=True)
class Feed:
    """An edge from a field of a response to a parameter: the one can supply the other.

    Attributes:
        supplier: the tool, and the place of the field in its response.
        consumer: the key of the tool that takes it. ``parameter``: by its original name.
        evidence: why.
        weight: from 0 to 1. Of a seen edge the share of the parameter's arguments that came from there (Eq. 4); of any
            other how much the evidence is worth. What only refers to the thing weighs less than what gives it itself.
        seen: arguments of answered runs that came from there.
        last: it is a way for a search and for the order of tools alone, and nobody is told of it: the supplier makes a
            new thing where another gives those that are there, or it writes and only refers to the thing.
    """

    supplier: Supplier
    consumer: str
    parameter: str
    evidence: Evidence
    weight: float
    seen: float = 0.0
    last: bool = False

    @property
    def standing(self) -> int:
        """How far the supplier is from what is meant, the nearest first: the user's word stands before all."""
        return -1 if self.evidence == "corrected" else self.supplier.standing


@dataclass(frozen=True)
class Substitute:
    """An edge from a tool to one that can take its place.

    Attributes:
        tool: the one that breaks. ``by``: the one that takes its place.
        weight: from 0 to 1.
        arguments: for each required parameter of ``by`` the parameter of ``tool`` that means the same; a required one
            without such a match is not in it.
        why: the evidence: ``types`` (arguments and response fit), ``use`` (it took its place in a run that was
            answered), ``corrected`` (the user says so). Words alone are none.
    """

    tool: str
    by: str
    weight: float
    arguments: Mapping[str, str] = field(default_factory=dict)
    why: tuple[Literal["types", "use", "corrected"], ...] = ()


@dataclass(frozen=True)
class Learnt:
    """What runs and the user have taught about the tools of one graph: a view of the store, by keys of the graph.

    Attributes:
        calls: of each tool.
        follows: of a tool and the one that ran right after it in one program: the paper's call → call.
        feeds: of a field and a parameter: ``(supplier, path, consumer, parameter)``, exactly as data flowed.
        replaced: of a tool and the one that took its place after it broke.
        shapes: the response of tools that document none, as it was observed: keys and types, never values.
        corrected_feeds, corrected_substitutes: edges that the user set (true) or took away (false).
        corrected_same: pairs of parameters that mean the same by the user's word (true), or do not (false).
        predicted: weights of feeds that a trained model gives.
        habits: of a tool, how often it stood in each layer of the programs of answered runs.
        key_aliases: of a tool, keys of arguments that were respelt in answered runs, each with the parameter it meant.
    """

    calls: Mapping[str, Counts] = field(default_factory=dict)
    follows: Mapping[tuple[str, str], Counts] = field(default_factory=dict)
    feeds: Mapping[tuple[str, Path, str, str], Counts] = field(default_factory=dict)
    replaced: Mapping[tuple[str, str], Counts] = field(default_factory=dict)
    shapes: Mapping[str, JsonSchema] = field(default_factory=dict)
    corrected_feeds: Mapping[tuple[str, Path, str, str], bool] = field(default_factory=dict)
    corrected_substitutes: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    corrected_same: Mapping[tuple[Place, Place], bool] = field(default_factory=dict)
    predicted: Mapping[tuple[str, Path, str, str], float] = field(default_factory=dict)
    habits: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    key_aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def corrections(self) -> Learnt:
        """What the user said, without what runs and models taught."""
        said = ("corrected_feeds", "corrected_substitutes", "corrected_same")
        return Learnt(**{name: getattr(self, name) for name in said})

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__dataclass_fields__)


NOTHING_LEARNT = Learnt()
