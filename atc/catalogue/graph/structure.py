"""Structure: which tool can supply which argument, read off the protocols alone (NaviAgent §3.2: structural edges).

A parameter is linked to what the document states as its source, by a link or in a description ("returned by Search
Users"); else to a response field of the same name, or to the ``id`` of a thing of that name: ``movieId`` to
``results[].id`` of ``search_movie``. What gives the thing itself comes before what only refers to it
(:mod:`atc.catalogue.graph.resources`), and what reads before what writes. This is the "input-output dependency" that
the protocols let a model learn (ATC §3.2), made explicit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, NamedTuple

from atc._host.lazy import lazy
from atc.catalogue.graph.descriptions import said_of
from atc.catalogue.graph.edges import Path
from atc.catalogue.graph.resources import (
    LOOKED_UP,
    OWN,
    REFERS,
    UNTOLD,
    Field,
    Fit,
    Relation,
    Wanted,
    detour,
    fit,
    thing_in,
)
from atc.catalogue.graph.suppliers import ECHO, LEAST, Scope, Supplier, is_handed_out, scope_of
from atc.catalogue.graph.tool_facts import MAX_TOOLS, Supply, SupplyIndex, ToolFacts, Where
from atc.schemas.identifiers import (
    GENERIC,
    THINGS,
    UNIVERSAL,
    Mentions,
    affinity,
    bare,
    endings,
    is_identifier,
    names_a_supplier,
    spelled_words,
    words_of,
)
from atc.schemas.protocol import Parameter, Protocol

NOT_TOLD, REFERENCE = 0.9, 0.7
"""What a field is worth beside the thing's own where nothing says whose it is, and where it only refers to it."""
LAST = 0.5
"""What a write is worth beside others where it is a way for a search alone."""
Way = Literal[0, 1, 2]
"""How a caller who lacks a thing comes to a field that refers to it: its tool needs nothing that others do not give;
it needs what nobody gives; or what only those give who must be given the thing."""
OPEN: Way = 0
UNKNOWN: Way = 1
CIRCLE: Way = 2
MAX_NEEDED = 3
"""Identifiers that a tool needs, of which it is asked who gives them."""
NO_FIELD = Field(0, (), "", frozenset(), False)
"""Stands for the field of a response that is not documented."""
_ITSELF = THINGS | {"pk", "oid", "uid", "gid"}
"""Names by which a thing itself goes, whatever it is."""


@dataclass(frozen=True)
class Found:
    """A supplier, and why it is one.

    Attributes:
        supplier: the tool and the place of the value.
        evidence: ``stated`` by a document, or by ``names``: of fields, schemas, tools and paths.
        worth: of the evidence, from 0 to 1; 1 where it is stated, or the field is the thing's own.
        last: it is a way for a search alone, where nothing nearer leads on (:class:`~atc.catalogue.graph.edges.Feed`).
    """

    supplier: Supplier
    evidence: Literal["stated", "names"]
    worth: float = 1.0
    last: bool = False


_Rank = tuple[bool, int, bool, int, bool, bool, int, int, int, int, int]
"""Of a supply, the best first: it writes; its relation to the thing; it is not the caller's, where that is asked for;
whether its tool lists the things at the very path, or all of them, or no path says so; it is not the caller's, where
the thing is to be changed; it looks up what is known; how many identifiers it needs; how many names
above the field are of something else; how a thing is found: by words, in a list, or there is but one; and the places
of the tool and the field."""


class _Candidate(NamedTuple):
    rank: _Rank
    fit: Fit


class _Asked(NamedTuple):
    """What an argument asks for, whichever tool takes it.

    Attributes:
        what: it takes.
        every: the steps of the list of all things of which it may name one.
        handed_out: other tools hand such values out.
        scope: of the tool that takes it.
        own: the text of the argument says that the thing is the caller's own.
        changes: the tool changes something, which is more likely the caller's than anybody's.
        is_plain: much content is called so, so that only tools supply it which give nothing else.
    """

    what: Wanted
    every: tuple[str, ...]
    handed_out: bool
    scope: Scope
    own: bool = False
    changes: bool = False
    is_plain: bool = False


class _Answer(NamedTuple):
    """The suppliers that are found, and all tools that were looked at."""

    found: list[Found]
    tools: frozenset[str]


class Structure:
    """The structural edges of some tools. A consumer's are found when they are asked for.

    Several threads may ask at the same time: what is kept is whole, and two that find the same find it alike.

    Args:
        tools: by key; a name may repeat, as in a catalogue.
        scopes: by key, where the scope of a tool is not what its source states.
        facts: what was read off protocols before, by key; what is read now is added to it.
    """

    def __init__(
        self,
        tools: Mapping[str, Protocol],
        scopes: Mapping[str, Scope] | None = None,
        facts: dict[str, ToolFacts] | None = None,
    ) -> None:
        self.tools = tools
        self._scopes = scopes or {}
        self._facts = {} if facts is None else facts
        self._into: dict[str, dict[str, list[Found]]] = {}
        self._inside: dict[str, dict[str, list[Found]]] = {}
        self._answers: dict[_Asked, _Answer] = {}
        self._givers: dict[tuple[str, str], list[ToolFacts]] = {}

    def facts(self, key: str) -> ToolFacts:
        """What is read off a tool's protocol."""
        if (found := self._facts.get(key)) is None or found.protocol is not self.tools[key]:
            found = self._facts[key] = ToolFacts(self.tools[key])
        return found

    def scope(self, key: str) -> Scope:
        """Within which service the identifiers of a tool mean something."""
        return self._scopes.get(key) or scope_of(self.tools[key])

    def into(self, consumer: str) -> Mapping[str, Sequence[Found]]:
        """For each parameter of a tool that others can supply, by its original name: these, the best ones alone.

        Tools of the same service come before all others, and an identifier of another service is no supply. What gives
        the thing itself comes first; of these the lists that a path names, and tools that need no identifier. A tool
        that the document names as the source is taken even where its response is not known to have such a field.
        """
        if (kept := self._into.get(consumer)) is not None:
            return kept
        found: dict[str, list[Found]] = {}
        for parameter in self.facts(consumer).parameters:
            if some := self._sources(consumer, parameter):
                found[parameter.original] = some
        self._into[consumer] = found
        return found

    def inside(self, consumer: str) -> Mapping[str, Sequence[Found]]:
        """For each parameter of a tool the suppliers of what lies within it (:attr:`Supplier.inside`).

        Much of a body is content that other tools repeat, so only what reads the thing itself supplies a part of it.
        """
        if (kept := self._inside.get(consumer)) is not None:
            return kept
        found: dict[str, list[Found]] = {}
        for parameter, path, asked in self.facts(consumer).inner:
            what = self.facts(consumer).wanted(asked.original)
            some = [each for each in self._sources(consumer, asked) if self._reads_itself(what, each)]
            if some:
                made = [replace(each, supplier=replace(each.supplier, inside=path)) for each in some]
                found.setdefault(parameter, []).extend(made)
        self._inside[consumer] = found
        return found

    def _sources(self, consumer: str, parameter: Parameter) -> list[Found]:
        some = self._stated(consumer, parameter)
        if all(each.supplier.writes for each in some):  # a document states what comes of a write, too
            others = self._by_names(consumer, parameter)
            some = [each for each in others if not some or not each.supplier.writes] + some
        what = self.facts(consumer).wanted(parameter.original)
        ways = [self._way_to(what, each) for each in some]
        nearest = min((way for way, each in zip(ways, some, strict=True) if not each.last), default=OPEN)
        return [
            replace(each, last=True) if way == CIRCLE or way > nearest else each
            for way, each in zip(ways, some, strict=True)
        ]

    def _way_to(self, what: Wanted, found: Found) -> Way:
        """Whether a caller who lacks a thing can come to a field that only refers to it."""
        supplier = found.supplier
        if found.evidence == "stated" or not supplier.refers:
            return OPEN
        asks = self.facts(supplier.tool)
        if thing_in((field := asks.field(supplier.path)).name) in ("", *field.owner):
            return OPEN  # `databases[].properties[].id` is a property's own
        needed = [each for each in asks.parameters if each.required and is_handed_out(each.original, each.schema)]
        return max((self._way_through(supplier.tool, each, what) for each in needed[:MAX_NEEDED]), default=OPEN)

    def _way_through(self, tool: str, parameter: Parameter, without: Wanted) -> Way:
        """Whether some read gives what another tool needs, and is not itself given a thing."""
        at = tool, parameter.original
        if (givers := self._givers.get(at)) is None:
            some = self._stated(tool, parameter) or self._by_names(tool, parameter)
            givers = [self.facts(each.supplier.tool) for each in some if not each.supplier.writes]
            self._givers[at] = givers
        lacks = without.things[-1:], without.words[-1:]
        return UNKNOWN if not givers else CIRCLE if all(lacks in each.needs for each in givers) else OPEN

    def _reads_itself(self, what: Wanted, found: Found) -> bool:
        """Whether it is the thing's own, as ``orders[].lines[].line_id``. What documents state is believed."""
        supplier = found.supplier
        if found.evidence == "stated" or supplier.writes or not supplier.refers:
            return found.evidence == "stated" or not supplier.writes
        field = self.facts(supplier.tool).field(supplier.path)
        of_itself = not field.owner.isdisjoint(spelled_words(field.name))
        return of_itself and what.things[-1:] == (thing_in(field.name),)

    def supplier(self, tool: str, path: Path, consumer: str, parameter: str) -> Supplier:
        """A place of a tool's response as the supplier of a parameter."""
        if not path:
            return self._supplier(tool, (), False)
        found = fit(self.facts(consumer).wanted(parameter), self.facts(tool).field(path))
        refers = self.is_of_another(tool, path, consumer, parameter) if found is None else found.relation == REFERS
        return self._supplier(tool, path, refers)

    def is_of_another(self, tool: str, path: Path, consumer: str, parameter: str) -> bool:
        """Whether a place is stated to hold another thing's id than a parameter takes: ``cast[].id``, no ``movie_id``.

        False of a field that fits by its name.
        """
        if not path:
            return False
        field, what = self.facts(tool).field(path), self.facts(consumer).wanted(parameter)
        return (
            is_identifier(what.name)
            and field.stated
            and bool(what.things)
            and field.owner.isdisjoint(what.things)
            and fit(what, field) is None
        )

    def _supplier(self, tool: str, path: Path, refers: bool) -> Supplier:
        facts = self.facts(tool)
        return Supplier(tool, path, facts.arguments, refers, facts.protocol.name, facts.writes)

    # -- by the words of descriptions ----------------------------------------------------------------------------------

    @lazy
    def _mentions(self) -> Mentions:
        return Mentions(self.tools, {key: self.scope(key).service for key in self.tools})

    @lazy
    def _places(self) -> Mapping[str, int]:
        ordered = sorted(self.tools, key=lambda key: self.facts(key).identifiers)
        return {key: place for place, key in enumerate(ordered)}

    @lazy
    def _links(self) -> Mapping[tuple[str, str], Mapping[str, Sequence[tuple[str, Path]]]]:
        """What documents state: by service and operation, for each of its parameters tools and places."""
        found: dict[tuple[str, str], dict[str, list[tuple[str, Path]]]] = {}
        for key, protocol in self.tools.items():
            for link in protocol.links:
                into = found.setdefault((self.scope(key).service, link.operation), {})
                into.setdefault(link.parameter, []).append((key, link.path))
        return found

    def _stated(self, consumer: str, parameter: Parameter) -> list[Found]:
        source, service = self.tools[consumer].source, self.scope(consumer).service
        linked = [
            Found(self._supplier(key, path, False), "stated")
            for operation in dict.fromkeys((source.operation, source.path))
            for key, path in self._links.get((service, operation), {}).get(parameter.original, ())
            if key != consumer
        ]
        if linked or not names_a_supplier(parameter.schema):
            return linked[:MAX_TOOLS]
        text = parameter.schema.get("description")
        named = self._mentions.suppliers(text, service) - {consumer}
        first = sorted(named, key=self._places.__getitem__)[:MAX_TOOLS]
        return [Found(self._meant(parameter.original, key), "stated") for key in first]

    def _meant(self, parameter: str, key: str) -> Supplier:
        last, facts = words_of(parameter)[-1:], self.facts(key)
        fields = sorted(
            (each for end in endings(parameter) for each in facts.fields(end)), key=lambda each: each.number
        )
        scored = [
            (affinity(parameter, "", each.name, each.owner) or LEAST * (words_of(each.name)[-1:] == last), each)
            for each in fields
        ]
        best = max((score for score, _ in scored), default=0.0)
        path = next(each.path for score, each in scored if score == best) if best >= LEAST else ()
        return self._supplier(key, path, False)

    # -- by names ------------------------------------------------------------------------------------------------------

    @lazy
    def _index(self) -> SupplyIndex:
        return SupplyIndex(self._places, self.facts, self.scope)

    def _by_names(self, consumer: str, parameter: Parameter) -> list[Found]:
        """What is found by the names of fields and paths. Tools that ask for the same thing share the answer."""
        what, scope = self.facts(consumer).wanted(parameter.original), self.scope(consumer)
        every, handed_out = what.all_of_them, is_handed_out(parameter.original, parameter.schema)
        is_plain = not handed_out and is_identifier(parameter.original, LOOKED_UP)
        if not what.placed and not handed_out:
            called_so = what.words[-1:] in self._called.get(scope.service, ())
            every = (" ".join(what.words[:-1]),) if called_so else ()  # a `policy_sid` is of `GET /policies`
        said, route = said_of(parameter.schema), self.facts(consumer).route
        changes = what.placed and self.facts(consumer).writes and not (route and route.is_callers)
        asked = _Asked(what, every, handed_out, scope, said.own, changes, is_plain)
        if (found := self._found(asked, consumer)) or not (what.placed or handed_out):
            return found
        word = bare(what.words)[-1:]
        for thing in said.things:  # neither the name nor the path leads to a tool
            of_it = Wanted(what.name, word, (thing,), True, (), "", (thing,), True)
            if found := self._found(_Asked(of_it, (thing,), True, scope, said.own, changes), consumer):
                return found
        return []

    def _found(self, asked: _Asked, consumer: str) -> list[Found]:
        if (kept := self._answers.get(asked)) is None:
            kept = self._answers[asked] = self._answer(asked)
        return self._answer(asked, consumer).found if consumer in kept.tools else kept.found

    def _answer(self, asked: _Asked, consumer: str | None = None) -> _Answer:
        """``consumer``: a tool that is none of the suppliers, as its own argument asks."""
        what, scope = asked.what, asked.scope
        listed = self._listed(asked, consumer)
        if not listed and not what.called and not asked.handed_out and not asked.is_plain:
            return _Answer([], frozenset())
        everywhere = scope.open or not scope.service or not UNIVERSAL.isdisjoint(words_of(what.name)[-1:])
        wheres: tuple[Where, Where] = (("of", scope.service), ("all", "") if everywhere else ("free", ""))
        for where in wheres:
            found = dict(listed)
            for each in self._index.matching(what, where):
                at = each.tool, each.field.path
                if each.tool == consumer or at in found or (asked.is_plain and not each.field.alone):
                    continue
                if (fitting := fit(what, each.field)) is not None:
                    found[at] = _Candidate(self._rank(asked, each, fitting.relation), fitting)
            if found:
                return _Answer(self._best(found), frozenset(tool for tool, _ in found))
        return _Answer([], frozenset())

    def _rank(self, asked: _Asked, supply: Supply, relation: Relation, way: int = 2) -> _Rank:
        what, facts, field = asked.what, self.facts(supply.tool), supply.field
        anybodys = facts.route is None or not facts.route.is_callers
        known = bool(what.things) and (what.things[-1], what.words[-1]) in facts.identifies
        one = not facts.arguments and "[]" not in field.path
        found = 0 if facts.searches else 2 if one else 1
        at = supply.place, supply.number
        is_ours = asked.own and anybodys, way, asked.changes and anybodys
        return facts.writes, relation, *is_ours, known, facts.identifiers, detour(what, field), found, *at

    def _best(self, found: Mapping[tuple[str, Path], _Candidate]) -> list[Found]:
        """A write is a way for a search alone where a read gives the thing itself, as a thing that is there is wanted
        and no new one; and where the write only refers to the thing."""
        reads = _likest({at: each for at, each in found.items() if not each.rank[0]})
        writes = _likest({at: each for at, each in found.items() if each.rank[0]})
        surely = any(each.fit.relation == OWN and self.facts(tool).reads for (tool, _), each in reads.items())
        tools: set[str] = set()
        made: list[Found] = []
        ranked = sorted({**reads, **writes}.items(), key=lambda each: each[1].rank)
        for (tool, path), (rank, (relation, score)) in ranked:
            tools.add(tool)
            if len(tools) > MAX_TOOLS:
                break
            worth = 1.0 if relation == OWN else score * (NOT_TOLD if relation == UNTOLD else REFERENCE)
            last = rank[0] and (surely or relation == REFERS)
            supplier = self._supplier(tool, path, relation == REFERS)
            made.append(Found(supplier, "names", worth * LAST if last else worth, last))
        return made

    # -- by paths ------------------------------------------------------------------------------------------------------

    @lazy
    def _collections(self) -> Mapping[tuple[str, tuple[str, ...]], Sequence[str]]:
        found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for key in self._places:
            facts = self.facts(key)
            if facts.route is not None and facts.route.reads and not facts.writes and (at := facts.route.collection()):
                found.setdefault((self.scope(key).service, at), []).append(key)
        return found

    @lazy
    def _called(self) -> Mapping[str, Collection[tuple[str, ...]]]:
        """By service the words that things go by there: the last ones of placeholders, as of ``/domains/{sid}``."""
        found: dict[str, set[tuple[str, ...]]] = {}
        for key in self.tools:
            facts = self.facts(key)
            for name in facts.route.placeholders if facts.route is not None else ():
                if facts.wanted(name).collection:
                    found.setdefault(self.scope(key).service, set()).add(spelled_words(name)[-1:])
        return found

    def _listed(self, asked: _Asked, consumer: str | None) -> dict[tuple[str, Path], _Candidate]:
        """What lists the things of which an argument names one: at the very path, and behind that all of them."""
        what, found = asked.what, dict[tuple[str, Path], _Candidate]()
        lists = [
            (key, way)
            for way, at in enumerate((what.collection, asked.every))
            for key in self._collections.get((asked.scope.service, at), ())[:MAX_TOOLS]
        ]
        for key, way in lists:
            if key == consumer:
                continue
            field = self._key_of_items(key, what)
            if field is None and self.facts(key).responds:
                continue
            supply = Supply(self._places[key], field.number if field else 0, key, field or NO_FIELD)
            at = key, supply.field.path
            found.setdefault(at, _Candidate(self._rank(asked, supply, OWN, way), Fit(OWN, 1.0)))
        return found

    def _key_of_items(self, key: str, what: Wanted) -> Field | None:
        """What is found by this very field, as by ``GET /users?ids=``, is no list."""
        facts = self.facts(key)
        ranked = [
            (likeness, len(each.path), each.number, each if not echoed else None)
            for last in sorted({*endings(what.name), *_ITSELF})
            for echoed, some in enumerate((facts.fields(last), facts.echoes(last)))
            for each in some
            if not each.within and (likeness := _likeness(what, each.name)) is not None
            if not echoed or thing_in(each.name) in ("", *what.things)
        ]
        return min(ranked)[-1] if ranked else None


def suppliers_of(
    protocols: Sequence[Protocol] | Mapping[str, Protocol],
    consumers: Collection[str] | None = None,
    *,
    scopes: Mapping[str, Scope] | None = None,
) -> dict[tuple[str, str], list[Supplier]]:
    """For every tool and parameter that other tools' responses can supply: these tools, the best ones alone.

    Args:
        protocols: the tools; by key where their names may repeat, as in a catalogue.
        consumers: the keys of those whose parameters are asked about; all when not given.
        scopes: by key, where the scope of a tool is not what its source states.
    """
    tools = protocols if isinstance(protocols, Mapping) else {protocol.name: protocol for protocol in protocols}
    structure = Structure(tools, scopes)
    made: dict[tuple[str, str], list[Supplier]] = {}
    for key in tools if consumers is None else consumers:
        for parameter, found in chain(structure.into(key).items(), structure.inside(key).items()):
            if told := [each.supplier for each in found if not each.last]:
                made.setdefault((key, parameter), []).extend(told)
    return made


def _likest(found: Mapping[tuple[str, Path], _Candidate]) -> dict[tuple[str, Path], _Candidate]:
    """What gives the thing itself, of one tool the field of the very name and not its ``id`` too; and of all else what
    is likest by its name, if it is like enough to stand beside it."""
    own: dict[str, float] = {}
    for (tool, _), each in found.items():
        if each.fit.relation == OWN:
            own[tool] = max(each.fit.score, own.get(tool, 0.0))
    least = max((each.fit.score for each in found.values() if each.fit.relation != OWN), default=0.0)
    if own and least < ECHO:
        least = 2.0
    return {
        at: each for at, each in found.items() if each.fit.score >= (own[at[0]] if each.fit.relation == OWN else least)
    }


def _likeness(what: Wanted, name: str) -> int | None:
    """How a field names the items of a list, the surest first; ``None`` where it does not."""
    has, core = spelled_words(name), bare(what.words)
    if has in (what.words, core):
        return 0
    if has[-1:] == core[-1:] and not GENERIC.isdisjoint(has[-1:]) and thing_in(name) in ("", *what.things[-1:]):
        return 1
    if has[0] in _ITSELF and not has[1:] and (core[-1:] == what.things[-1:] or not _ITSELF.isdisjoint(core[-1:])):
        return 2  # `/pets/{pet}`, `/pets/{pet_uuid}`
    return 3 if has == core[-len(has) :] else None  # `/delegates/{delegate_email}`
