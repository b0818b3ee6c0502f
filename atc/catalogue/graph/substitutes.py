"""Substitutes: which tool can take the place of one that breaks (NaviAgent §3.3, recombination).

The evidence is of types and of meaning. A substitute's arguments can be filled from those of the tool, its response has
the fields of the tool's, and both have the same effect. Or it took the tool's place in a run that was answered, or the
user says so. What a tool's description says of other tools counts for nothing, and a response that nobody knows is no
evidence: a poisoned document gains nothing by words, nor by another tool's parameter names.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nlargest
from typing import TYPE_CHECKING, Literal
from weakref import WeakKeyDictionary

from atc._host.lazy import lazy
from atc._records.records import Effect
from atc.catalogue.graph.concepts import ALIKE, Concept, keys_of, likeness, parameter_concepts, response_concepts
from atc.catalogue.graph.edges import Path, Place, Substitute
from atc.catalogue.graph.resources import route_of
from atc.catalogue.graph.suppliers import scope_of
from atc.catalogue.graph.tool_facts import acts_otherwise, undoes
from atc.schemas.identifiers import HANDED_OUT, THINGS, is_identifier, words_of
from atc.schemas.protocol import JsonSchema, Protocol

if TYPE_CHECKING:
    from atc.catalogue.graph.structure import Structure
    from atc.catalogue.graph.tool_graph import ToolGraph

MOST = 3
"""Substitutes of one tool."""
LEAST_RESPONSE, LEAST = 0.6, 0.4
"""Share of the tool's fields that a substitute has, and that times how well its arguments are filled."""
MAX_CANDIDATES, MAX_POSTINGS, MAX_KEYS = 40, 2_000, 40
"""Tools that are compared with one; tools that share a word beyond which it tells nothing; words that are looked up."""
MAX_NEAR = 2_000
"""Tools among which it is sought what supplies the arguments of one: of a greater catalogue its service's."""
MAX_COMPARED = 150_000
"""Pairs of parameters and fields that are compared for one tool, a second or two: schemas may be of any width."""
MAX_DOUBTED = 300_000
"""Likewise for all writes of a run that are compared with such in doubt, ten seconds or so, in a thread."""
FEWER, AMONG = 0.7, 0.9
"""What a field of one thing is worth where there were several, and of several where there was one."""
CHOSEN, SUPPLIED = 0.8, 0.6
"""What a required argument is worth that the tool has not: a program can choose it, or take it from another tool."""


def substitutes_of(graph: ToolGraph, tool: str, reads: Collection[Path] = ()) -> tuple[Substitute, ...]:
    """The tools that can take a tool's place, the likeliest first; at most :data:`MOST`.

    Args:
        graph: the tools, and what was learnt of them.
        tool: the key of the one that breaks.
        reads: the fields of its response that are needed, where that is known: a substitute has all of them.
    """
    if tool not in graph.protocols:
        return ()
    index = index_of(graph)
    learnt = graph.learnt
    effect = graph.protocols[tool].effect
    named = {by for (of, by), there in learnt.corrected_substitutes.items() if of == tool and there}
    used = {by: counts for (of, by), counts in learnt.replaced.items() if of == tool and counts.ok > 0}
    found, left = [], MAX_COMPARED
    for by in dict.fromkeys([*named, *used, *index.candidates(tool)]):
        if by == tool or by not in graph.protocols or graph.protocols[by].effect is not effect:
            continue
        if learnt.corrected_substitutes.get((tool, by)) is False:
            continue
        left -= index.pairs(tool, by)
        match = _matched(graph, index, tool, by, reads) if left > 0 else _NO_MATCH
        if effect is not Effect.READ and acts_otherwise(tool, by):
            match = _Match(0.0, match.arguments)
        why: list[Literal["types", "use", "corrected"]] = []
        weight = match.weight
        if weight >= LEAST:
            why.append("types")
        if by in used:
            why.append("use")
            weight = max(weight, used[by].ok / (used[by].ok + used[by].failed + 1))
        if by in named:
            why.append("corrected")
            weight = 1.0
        if why:
            found.append(Substitute(tool, by, round(min(weight, 1.0), 3), match.arguments, tuple(why)))
    return tuple(sorted(found, key=lambda each: (-each.weight, each.by))[:MOST])


def same_parameters(graph: ToolGraph, tool: str) -> Mapping[str, Sequence[Place]]:
    """For each parameter of a tool those of other tools that mean the same, the surest first (NaviAgent App. A).

    It is what substitutes rest on, and the user's word counts above all. Of a great catalogue the tools of the same
    service are compared first, and others until :data:`MAX_COMPARED`.
    """
    index, left = index_of(graph), MAX_COMPARED
    given = index.parameters(tool)
    found: dict[str, list[tuple[float, Place]]] = {each.name: [] for each in given}
    for by in dict.fromkeys([*index.near(tool), *graph.protocols]):
        wanted = index.parameters(by) if by != tool and left > 0 else ()
        left -= len(given) * len(wanted)
        for score, a, b in _alike(given, wanted, index.foreign(tool, by), said_of(graph, tool, by)) if wanted else ():
            found[given[a].name].append((score, Place(by, (wanted[b].name,), True)))
    return {name: [place for _, place in sorted(each, key=lambda e: (-e[0], e[1]))] for name, each in found.items()}


def may_repeat(graph: ToolGraph, tool: str, by: str) -> bool:
    """Whether a write may do what another one did: by any evidence, in either direction, whatever else would do.

    Not bounded by :data:`MOST`, and no matter which of the two only may write: it keeps a write from being made twice.
    The time depends on these two tools alone.

    Args:
        graph: the tools, and what was learnt of them.
        tool: the key of the one that may have acted.
        by: of the one that is called after it.
    """
    if tool == by or not {tool, by} <= graph.protocols.keys():
        return tool == by
    learnt, index = graph.learnt, index_of(graph)
    for pair in ((tool, by), (by, tool)):
        if (said := learnt.corrected_substitutes.get(pair)) is not None:
            return said
    if any(pair in learnt.replaced and learnt.replaced[pair].ok > 0 for pair in ((tool, by), (by, tool))):
        return True
    if undoes(tool, by):
        return False
    return any(_matched(graph, index, one, other, ()).weight >= LEAST for one, other in ((tool, by), (by, tool)))


def pairs_of(graph: ToolGraph, tool: str, by: str) -> int:
    """How many pairs of parameters and fields :func:`may_repeat` compares at most; its time grows with that."""
    return index_of(graph).pairs(tool, by) if {tool, by} <= graph.protocols.keys() else 0


@dataclass(frozen=True)
class _Match:
    weight: float
    arguments: Mapping[str, str]


_NO_MATCH = _Match(0.0, {})


def _matched(graph: ToolGraph, index: Responses, tool: str, by: str, reads: Collection[Path]) -> _Match:
    """All that the tool must be given means something to the other, and the other needs no more. Two things are allowed
    for between reads: an identifier that another service calls by its own, which the program asks that service for,
    and a choice among a few words, which it makes."""
    given, wanted = index.parameters(tool), index.parameters(by)
    if graph.protocols[tool].effect is Effect.READ and are_of_other_things(graph, tool, by):
        return _NO_MATCH
    foreign = index.foreign(tool, by)
    pairs = paired(given, wanted, foreign, said_of(graph, tool, by))
    arguments = {wanted[b].name: given[a].name for a, b, _ in pairs if wanted[b].required}
    taken, filled = {a: score for a, _, score in pairs}, {b for _, b, _ in pairs}
    reads_only = graph.protocols[tool].effect is Effect.READ
    untaken = [each for i, each in enumerate(given) if each.required and i not in taken]
    missing = [each for i, each in enumerate(wanted) if each.required and i not in filled]
    unmet = [each for each in missing if not (each.members or each.types == {"boolean"})]
    own = foreign and all(is_own(each.name) for each in (*untaken, *unmet)) and len(untaken) == len(unmet)
    if ((untaken or unmet) and not own) or (missing and not reads_only):
        return _Match(0.0, arguments)
    response = covered(index.told(tool, reads), index.told(by), wholly=bool(reads))
    if not reads_only:
        response = min(response, covered(index.told(by), index.told(tool)))
    if response < LEAST_RESPONSE:
        return _Match(0.0, arguments)
    scores = [taken[i] for i, each in enumerate(given) if each.required and i in taken]
    worth = sum(scores) / len(scores) if scores else 1.0
    worth *= CHOSEN ** (len(missing) - len(unmet))
    if unmet:
        near = graph if len(graph.protocols) <= MAX_NEAR else graph.only(index.near(by))
        feeds = [feed for feed in near.told_feeds(by) if not feed.supplier.inside]
        supplied = {feed.parameter for feed in feeds if feed.supplier.tool not in (tool, by)}
        worth *= math.prod(SUPPLIED * (each.name in supplied) for each in unmet)
    return _Match(worth * response, arguments)


def are_of_other_things(graph: ToolGraph, tool: str, by: str) -> bool:
    """Whether two operations of one service are about different things by their paths: pages of one form hold both."""
    one, other = (graph.protocols[name].source for name in (tool, by))
    if one.service != other.service or not (one.path and other.path):
        return False
    things = [set(route.things) if (route := route_of(source.path)) is not None else set() for source in (one, other)]
    return all(things) and things[0].isdisjoint(things[1])


def said_of(graph: ToolGraph, tool: str, by: str) -> dict[tuple[str, str], bool]:
    """What the user said of the parameters of two tools: that one of the one means the same as one of the other."""
    said = {}
    for pair, same in graph.learnt.corrected_same.items():
        for one, other in (pair, pair[::-1]):
            if (one.tool, other.tool) == (tool, by):
                said[one.path[0], other.path[0]] = same
    return said


def paired(
    given: Sequence[Concept], wanted: Sequence[Concept], foreign: bool, said: Mapping[tuple[str, str], bool]
) -> list[tuple[int, int, float]]:
    """Parameters that mean the same, one to one, the surest first.

    Args:
        foreign: the tools are of two services: what one of them calls a thing by means nothing to the other.
        said: by the names of two parameters, whether they mean the same by the user's word, which counts above all.
    """

    scored = _alike(given, wanted, foreign, said)
    pairs, left, right = [], set(range(len(given))), set(range(len(wanted)))
    for score, a, b in sorted(scored, key=lambda each: (-each[0], each[1], each[2])):
        if a in left and b in right:
            pairs.append((a, b, score))
            left.remove(a)
            right.remove(b)
    return pairs


def _alike(
    given: Sequence[Concept], wanted: Sequence[Concept], foreign: bool, said: Mapping[tuple[str, str], bool]
) -> list[tuple[float, int, int]]:
    def likeness_of(one: Concept, other: Concept) -> float:
        if (same := said.get((one.name, other.name))) is not None:
            return float(same)
        apart = foreign and is_own(one.name) and is_own(other.name)
        return 0.0 if apart else _likeness_of_parameters(one, other)

    return [
        (score, a, b)
        for a, one in enumerate(given)
        for b, other in enumerate(wanted)
        if one.many == other.many and (score := likeness_of(one, other)) >= ALIKE
    ]


def _likeness_of_parameters(one: Concept, other: Concept) -> float:
    """As of fields, but ``from_city`` is never ``to_city``, and the ``start`` of a period is its ``first_day``."""
    sides = [_sides(each.name) for each in (one, other)]
    if all(sides) and sides[0] != sides[1]:
        return 0.0
    found = likeness(one, other)
    same = all(sides) and bool(one.format) and one.format == other.format
    return max(found, 0.75) if same else found


@lru_cache(maxsize=16_384)
def _sides(name: str) -> frozenset[str]:
    """The ends of a way or a period that a name stands for."""
    return frozenset(_SIDE[word] for word in words_of(name) if word in _SIDE)


_SIDE = {
    **dict.fromkeys(("from", "origin", "source", "start", "begin", "beginning", "first", "since"), "begin"),
    **dict.fromkeys(("to", "destination", "target", "end", "second", "last", "until"), "end"),
}
"""Which end of a way or a period a word of a name stands for."""


def is_own(name: str) -> bool:
    return is_identifier(name, THINGS | HANDED_OUT)


def covered(fields: Sequence[Concept], others: Sequence[Concept], *, wholly: bool = False) -> float:
    """What share of some fields another response has. ``wholly``: it has all of them, or nothing counts."""
    best = [max((_likeness_of_fields(each, other) for other in others), default=0.0) for each in fields]
    best = [score if score >= LEAST else 0.0 for score in best]
    return sum(best) / len(best) if best and (all(best) or not wholly) else 0.0


def _likeness_of_fields(one: Concept, other: Concept) -> float:
    """One thing is less than several of them; a list that has it is nearly as good."""
    score = likeness(one, other)
    if score < ALIKE:
        return 0.0
    several = "[]" in one.path, "[]" in other.path
    return score * {(True, False): FEWER, (False, True): AMONG}.get(several, 1.0)


def _is_read(field: Path, path: Path) -> bool:
    """Whether a field is read by one who reads at a path, or below it."""
    return field[: len(path)] == path or path[: len(field)] == field


def _repeats(field: Concept, argument: Concept) -> bool:
    return len(field.path) == 1 and field.name == argument.name and field.types == argument.types


class Responses:
    """Tools by the words of their responses, which are read where it is searched: linear in all fields.

    Args:
        protocols: of the tools, by key.
        shapes: of responses that were observed where none is documented.
    """

    def __init__(self, protocols: Mapping[str, Protocol], shapes: Mapping[str, JsonSchema]) -> None:
        self._protocols, self._shapes = protocols, shapes
        self._parameters: dict[str, list[Concept]] = {}
        self._fields: dict[str, list[Concept]] = {}

    @lazy
    def _postings(self) -> dict[str, list[str]]:
        made: dict[str, list[str]] = {}
        for key in self._protocols:
            for word in keys_of(self._response(key)):
                made.setdefault(word, []).append(key)
        return made

    def parameters(self, key: str) -> list[Concept]:
        if key not in self._parameters:
            self._parameters[key] = parameter_concepts(self._protocols[key])
        return self._parameters[key]

    def fields(self, key: str) -> list[Concept]:
        if key not in self._fields:
            self._fields[key] = self._response(key)
        return self._fields[key]

    def told(self, key: str, reads: Collection[Path] = ()) -> list[Concept]:
        """The fields that a tool tells: not those that only repeat what it must be given.

        Args:
            key: of the tool.
            reads: the places that are read, where that is known: no other field counts.
        """
        fields = self.fields(key)
        read = [each for each in fields if any(_is_read(each.path, path) for path in reads)] or fields
        needed = [each for each in self.parameters(key) if each.required]
        told = [each for each in read if not any(_repeats(each, argument) for argument in needed)]
        return told or (read if reads else [])

    def pairs(self, one: str, other: str) -> int:
        """How many parameters and fields of two tools are compared."""
        pairs = [(len(of(one)), len(of(other))) for of in (self.parameters, self.fields)]
        return sum(a * b for a, b in pairs)

    def foreign(self, one: str, other: str) -> bool:
        """Whether two tools are of services that do not share identifiers."""
        a, b = (scope_of(self._protocols[key]) for key in (one, other))
        return bool(a.service and b.service) and a.service != b.service and not (a.open or b.open)

    @lazy
    def _of_service(self) -> Mapping[str, Sequence[str]]:
        """The keys of the tools of each service; of none, and of those that serve all, under an empty name."""
        found: dict[str, list[str]] = {}
        for key, protocol in self._protocols.items():
            scope = scope_of(protocol)
            found.setdefault("" if scope.open else scope.service, []).append(key)
        return found

    def near(self, key: str) -> list[str]:
        """A tool and those of its service and of none, at most :data:`MAX_NEAR`: they may supply its identifiers."""
        scope = scope_of(self._protocols[key])
        own = () if scope.open else self._of_service.get(scope.service, ())
        return [*dict.fromkeys([key, *own, *self._of_service.get("", ())])][:MAX_NEAR]

    def candidates(self, key: str) -> list[str]:
        """The tools whose responses share the most telling words with a tool's."""
        words = [word for word in keys_of(self.fields(key)) if len(self._postings.get(word, ())) > 1]
        words = sorted(words, key=lambda word: (len(self._postings[word]), word))[:MAX_KEYS]
        total = len(self._protocols)
        scores: Counter[str] = Counter()
        for word in words:
            postings = self._postings[word][:MAX_POSTINGS]
            for other in postings:
                scores[other] += math.log(1 + total / len(self._postings[word]))  # type: ignore[assignment]
        del scores[key]
        return _first(scores.items())

    def _response(self, key: str) -> list[Concept]:
        protocol = self._protocols[key]
        found = response_concepts(protocol)
        return found or response_concepts(protocol, self._shapes.get(key))


def _first(scores: Iterable[tuple[str, float]]) -> list[str]:
    return [key for key, _ in nlargest(MAX_CANDIDATES, scores, key=lambda each: (each[1], each[0]))]


_INDEXES: WeakKeyDictionary[Structure, Responses] = WeakKeyDictionary()
"""By what graphs have in common that know the same tools and shapes, whatever else was learnt."""


def index_of(graph: ToolGraph) -> Responses:
    if (index := _INDEXES.get(graph.structure)) is None:
        index = _INDEXES[graph.structure] = Responses(graph.protocols, graph.learnt.shapes)
    return index
