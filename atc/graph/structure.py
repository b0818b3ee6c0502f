"""Structure: which tool can supply which argument, read off the protocols alone (NaviAgent §3.2: structural edges).

A parameter is linked to what the document states as its source, by a link or in a description ("returned by Search
Users"); else to a response field of the same name, or to the ``id`` of a thing of that name: ``movieId`` to
``results[].id`` of ``search_movie``. What gives the thing itself comes before what only refers to it
(:mod:`atc.graph.resources`), and what reads hides what writes. This is the "input-output dependency" that the protocols
let a model learn (ATC §3.2), made explicit.

Fields are looked up by the words that an affinity needs (:mod:`atc.graph.name_affinity`), and by service. So the time
grows with the number of tools, and not with its square where thousands of them have a field of one name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from atc.graph.acts import may_write, surely_reads
from atc.graph.edges import Path
from atc.graph.identifiers import NAMES, THINGS, UNIVERSAL, is_identifier, words_of
from atc.graph.mentions import Mentions, names_a_supplier
from atc.graph.name_affinity import GENERIC, affinity, bare, ending, endings, spelled_words
from atc.graph.resources import (
    OF_SERVICES,
    OWN,
    REFERS,
    UNTOLD,
    Field,
    Fields,
    Fit,
    Relation,
    Wanted,
    detour,
    fit,
    route_of,
    thing_in,
    wanted,
)
from atc.graph.suppliers import ECHO, LEAST, Scope, Supplier, is_handed_out, places_of, scope_of
from atc.lazy import lazy
from atc.tools.parameters import Parameter, parameters_of
from atc.tools.protocol import Protocol

MAX_TOOLS = 40
"""Tools that are named as suppliers of one parameter: those that need the fewest identifiers themselves."""
MAX_PLACES = 20
"""Places of one tool's response that are named as supplies of one parameter."""
MAX_WORDS = 12
"""Words of one name that it is found by."""
MAX_ECHOES = 10_000
"""Fields of one tool, times arguments that it needs, of which it is asked whether the one repeats the other."""
NOT_TOLD, REFERENCE = 0.9, 0.7
"""What a field is worth beside the thing's own where nothing says whose it is, and where it only refers to it."""
NO_FIELD = Field(0, (), "", frozenset(), False)
"""Stands for the field of a response that is not documented."""
_ITSELF = THINGS | {"pk", "oid", "uid", "gid"}
"""Names by which a thing itself goes, whatever it is."""
_Key = tuple[object, ...]
_Service = tuple[Literal["of", "free", "all"], str]
"""Where a supply is sought: in one service, among what serves every service, anywhere."""


@dataclass(frozen=True)
class Found:
    """A supplier, and why it is one.

    Attributes:
        supplier: the tool and the place of the value.
        evidence: ``stated`` by a document, or by ``names``: of fields, schemas, tools and paths.
        worth: of the evidence, from 0 to 1; 1 where it is stated, or the field is the thing's own.
    """

    supplier: Supplier
    evidence: Literal["stated", "names"]
    worth: float = 1.0


class ToolFacts:
    """What is read off one protocol; kept as long as the protocol is in use.

    Attributes:
        parameters: as :func:`parameters_of` gives them.
        arguments: the names of those that a call must give.
        identifiers: how many of these are identifiers, which another tool hands out.
        writes, reads: a call changes something, or surely nothing, as far as is known.
        route: the path of its operation; ``None`` where it has none.
    """

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.parameters = parameters_of(protocol)
        required = [each for each in self.parameters if each.required]
        self.arguments = tuple(each.name for each in required)
        self.identifiers = sum(is_handed_out(each.original, each.schema) for each in required)
        self.writes, self.reads = may_write(protocol), surely_reads(protocol)
        self.route = route_of(protocol.source.path) if protocol.source.path else None
        self._own: dict[str, list[str]] = {}
        for each in required:
            for last in endings(each.original):
                self._own.setdefault(last, []).append(each.original)
        self._found: dict[str, tuple[list[Field], list[Field]]] = {}

    @cached_property
    def identifies(self) -> frozenset[tuple[str, str]]:
        """The things that its arguments name, required or not, each with the word that it is called by."""
        taken = (self.wanted(each.original) for each in self.parameters if is_identifier(each.original))
        return frozenset((each.things[-1], each.words[-1]) for each in taken if each.things)

    @cached_property
    def searches(self) -> bool:
        """Whether it finds things by words, as a task has them."""
        return any(is_identifier(each.original, NAMES) for each in self.parameters)

    def wanted(self, parameter: str) -> Wanted:
        """What an argument of the tool takes."""
        return wanted(parameter, self.protocol.plain_name, self.protocol.source.path)

    @cached_property
    def _places(self) -> tuple[Mapping[str, Sequence[tuple[int, Path]]], Fields]:
        """The paths to all fields, by the last word of the field's name; and what says whose they are."""
        found: dict[str, list[tuple[int, Path]]] = {}
        titles: dict[Path, str] = {}
        paths: list[Path] = []
        lists: set[Path] = set()
        for path, named, title in places_of(self.protocol.returns):
            if path[-1:] == ("[]",):
                lists.add(path[:-1])
            if named:
                found.setdefault(ending(path[-1]), []).append((len(paths), path))
                paths.append(path)
            if title:
                titles.setdefault(path, title)
        return found, Fields(self.protocol.plain_name, self.protocol.source.path, paths, titles, lists)

    @property
    def responds(self) -> bool:
        """Whether fields of its response are known."""
        return bool(self._places[0])

    @property
    def endings(self) -> Collection[str]:
        """The words that the names of its fields end with."""
        return self._places[0].keys()

    def fields(self, last: str) -> Sequence[Field]:
        """The fields whose names end with a word. What a tool must be given it only repeats: that is no supply."""
        return self._told_apart(last)[0]

    def echoes(self, last: str) -> Sequence[Field]:
        """The fields whose names end with a word, and that only repeat what the tool must be given."""
        return self._told_apart(last)[1]

    def _told_apart(self, last: str) -> tuple[list[Field], list[Field]]:
        if (kept := self._found.get(last)) is None:
            by_ending, fields = self._places
            paths = by_ending.get(last, ())
            own = [self.wanted(name) for name in self._own.get(last, ())[: MAX_ECHOES // (len(paths) or 1)]]
            kept = [], []
            for number, path in paths:
                field = fields.at(path, number)
                kept[any(self._echoes(one, field) for one in own)].append(field)
            self._found[last] = kept
        return kept

    def _echoes(self, own: Wanted, field: Field) -> bool:
        if self.route is not None and not thing_in(field.name):
            at = self.route.placeholders.get(own.name, len(self.route.steps))
            if self.route.lists_behind(at):  # `/users/{user_id}/friends`: in a list others, beside it the user
                return "[]" not in field.path
        found = fit(own, field)
        return found is not None and found.score >= ECHO

    def field(self, path: Path) -> Field:
        """The field at a path of the response."""
        return self._places[1].at(path)

    def owner_at(self, path: Path) -> frozenset[str]:
        """Words, each of which names the thing that the object at a path of the response is."""
        return self._places[1].owner_at(path)


class _Supply(NamedTuple):
    """A field among those of all tools; sorted, the tools that need the fewest identifiers come first."""

    place: int
    number: int
    tool: str
    field: Field


_Rank = tuple[bool, int, int, bool, int, int, int, int, int]
"""Of a supply, the best first: it writes; its relation to the thing; whether its tool lists the things at the
very path, or all of them, or no path says so; it looks up what is known; how many identifiers it needs; how many names
above the field are of something else; how a thing is found: by words, in a list, or there is but one; and the places
of the tool and the field."""


class _Candidate(NamedTuple):
    rank: _Rank
    fit: Fit


class _Posting:
    """The supplies that are found by one key: of so many tools, and so many places of each."""

    __slots__ = ("of_last", "supplies", "tools")

    def __init__(self) -> None:
        self.tools, self.of_last = 0, 0
        self.supplies: list[_Supply] = []

    def add(self, supply: _Supply) -> None:
        """Take one more; they come in order."""
        new = not self.supplies or self.supplies[-1].tool != supply.tool
        if (new and self.tools > MAX_TOOLS) or (not new and self.of_last == MAX_PLACES):
            return  # one more tool than are named: the consumer may be among them
        self.tools, self.of_last = self.tools + new, 1 if new else self.of_last + 1
        self.supplies.append(supply)


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
        self._postings: dict[tuple[_Service, bool, _Key], _Posting] = {}
        self._indexed: set[str] = set()
        self._into: dict[str, dict[str, list[Found]]] = {}

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
            some = self._stated(consumer, parameter)
            if all(each.supplier.writes for each in some):  # a document states what comes of a write, too
                others = self._by_names(consumer, parameter)
                some = [each for each in others if not some or not each.supplier.writes] + some
            if some:
                found[parameter.original] = some
        self._into[consumer] = found
        return found

    def supplier(self, tool: str, path: Path, consumer: str, parameter: str) -> Supplier:
        """A place of a tool's response as the supplier of a parameter."""
        if not path:
            return self._supplier(tool, (), False)
        field, what = self.facts(tool).field(path), self.facts(consumer).wanted(parameter)
        if (found := fit(what, field)) is None:
            return self._supplier(tool, path, _is_of_another(what, field))
        return self._supplier(tool, path, found.relation == REFERS)

    def _supplier(self, tool: str, path: Path, refers: bool) -> Supplier:
        facts = self.facts(tool)
        return Supplier(tool, path, facts.arguments, refers, facts.protocol.name, facts.writes)

    # -- by the words of descriptions ----------------------------------------------------------------------------------

    @lazy
    def _mentions(self) -> Mentions:
        return Mentions(self.tools, {key: self.scope(key).service for key in self.tools})

    @lazy
    def _places(self) -> Mapping[str, int]:
        """The places of the tools in the order in which they are named as suppliers."""
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
        """The field that is meant of a tool that a description names as the source; its place may not be known."""
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

    def _by_names(self, consumer: str, parameter: Parameter) -> list[Found]:
        what = self.facts(consumer).wanted(parameter.original)
        every, handed_out = what.all_of_them, is_handed_out(parameter.original, parameter.schema)
        if not what.placed and not handed_out:
            called_so = what.words[-1:] in self._called.get(self.scope(consumer).service, ())
            every = (" ".join(what.words[:-1]),) if called_so else ()  # a `policy_sid` is of `GET /policies`
        listed = self._listed(consumer, what, every)
        if not listed and not what.called and not handed_out:
            return []
        for last in found_by(what) - self._indexed:
            self._index(last)
        scope = self.scope(consumer)
        everywhere = scope.open or not scope.service or not UNIVERSAL.isdisjoint(words_of(parameter.original)[-1:])
        for where in (("of", scope.service), ("all", "") if everywhere else ("free", "")):
            found = dict(listed)
            for key in _keys_of_parameter(what):
                for foreign in (False, True):
                    posting = self._postings.get((where, foreign, key))
                    for each in posting.supplies if posting is not None else ():
                        at = each.tool, each.field.path
                        if each.tool != consumer and at not in found and (fitting := fit(what, each.field)) is not None:
                            found[at] = _Candidate(self._rank(what, each, fitting.relation), fitting)
            if found:
                return self._best(found)
        return []

    def _rank(self, what: Wanted, supply: _Supply, relation: Relation, way: int = 2) -> _Rank:
        facts, field = self.facts(supply.tool), supply.field
        known = bool(what.things) and (what.things[-1], what.words[-1]) in facts.identifies
        one = not facts.arguments and "[]" not in field.path
        found = 0 if facts.searches else 2 if one else 1
        at = supply.place, supply.number
        return facts.writes, relation, way, known, facts.identifiers, detour(what, field), found, *at

    def _best(self, found: Mapping[tuple[str, Path], _Candidate]) -> list[Found]:
        """The best ones, in order; no write where a read gives the thing itself."""
        reads = _likest({at: each for at, each in found.items() if not each.rank[0]})
        writes = _likest({at: each for at, each in found.items() if each.rank[0]})
        surely = any(each.fit.relation == OWN and self.facts(tool).reads for (tool, _), each in reads.items())
        kept = reads if surely else {**reads, **writes}
        tools: set[str] = set()
        made: list[Found] = []
        for (tool, path), (_, (relation, score)) in sorted(kept.items(), key=lambda each: each[1].rank):
            tools.add(tool)
            if len(tools) > MAX_TOOLS:
                break
            worth = 1.0 if relation == OWN else score * (NOT_TOLD if relation == UNTOLD else REFERENCE)
            made.append(Found(self._supplier(tool, path, relation == REFERS), "names", worth))
        return made

    # -- by paths ------------------------------------------------------------------------------------------------------

    @lazy
    def _collections(self) -> Mapping[tuple[str, tuple[str, ...]], Sequence[str]]:
        """By service and path the tools that list what lies there, in the order in which they are named."""
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

    def _listed(self, consumer: str, what: Wanted, every: tuple[str, ...]) -> dict[tuple[str, Path], _Candidate]:
        """What lists the things of which an argument names one: at the very path, and behind that all of them."""
        found: dict[tuple[str, Path], _Candidate] = {}
        lists = [
            (key, way)
            for way, at in enumerate((what.collection, every))
            for key in self._collections.get((self.scope(consumer).service, at), ())[:MAX_TOOLS]
        ]
        for key, way in lists:
            if key == consumer:
                continue
            field = self._key_of_items(key, what)
            if field is None and self.facts(key).responds:
                continue
            supply = _Supply(self._places[key], field.number if field else 0, key, field or NO_FIELD)
            at = key, supply.field.path
            found.setdefault(at, _Candidate(self._rank(what, supply, OWN, way), Fit(OWN, 1.0)))
        return found

    def _key_of_items(self, key: str, what: Wanted) -> Field | None:
        """The field by which the items of a list are named; ``None`` where no field can be that.

        What is found by this very field, as by ``GET /users?ids=``, is no list.
        """
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

    @lazy
    def _ends(self) -> Mapping[str, Sequence[str]]:
        """The tools that have fields whose names end with a word, in the order in which they are named."""
        found: dict[str, list[str]] = {}
        for key in self._places:
            for last in self.facts(key).endings:
                found.setdefault(last, []).append(key)
        return found

    def _index(self, last: str) -> None:
        """Enter the fields whose names end with a word. No other word's fields are found by the same keys."""
        made: dict[tuple[_Service, bool, _Key], _Posting] = {}
        for key in self._ends.get(last, ()):
            scope = self.scope(key)
            free = scope.open or not scope.service
            services: list[_Service] = [("of", scope.service), ("all", "")]
            if free:
                services.append(("free", ""))
            for field in self.facts(key).fields(last):
                supply = _Supply(self._places[key], field.number, key, field)
                for found_by in _keys_of_field(field):
                    for where in services:
                        at = (where, field.is_foreign, found_by)
                        if (posting := made.get(at)) is None:
                            posting = made[at] = _Posting()
                        posting.add(supply)
        self._postings.update(made)
        self._indexed.add(last)


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
    return {
        (key, parameter): [each.supplier for each in found]
        for key in (tools if consumers is None else consumers)
        for parameter, found in structure.into(key).items()
    }


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


def _is_of_another(what: Wanted, field: Field) -> bool:
    """Whether a field is stated to be another thing's than an identifier is of: ``cast[].id``, and a ``movie_id``."""
    return is_identifier(what.name) and field.stated and bool(what.things) and field.owner.isdisjoint(what.things)


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


def found_by(what: Wanted) -> frozenset[str]:
    """The last words, of which a field's name must have one to be what an argument takes."""
    return endings(what.name).union(what.things[-1:])


def _keys_of_field(field: Field) -> Iterator[_Key]:
    """What a field is found by; each key is for one case of :func:`affinity`."""
    has = spelled_words(field.name)
    yield "same", has
    for start in range(max(1, len(has) - MAX_WORDS), len(has)):
        yield "end", has[start:]
    yield "pair", has[-2:]
    if field.values:
        yield "values", has[-1:]
    if not thing_in(field.name):
        for word in sorted(field.owner)[:MAX_WORDS]:
            yield "of", has[-1:], word


def _keys_of_parameter(what: Wanted) -> Iterator[_Key]:
    """What the fields are found by that have an affinity of :data:`LEAST` to what an argument takes."""
    core = bare(what.words)
    for thing in (what.things if what.bare else what.things[-1:])[:MAX_WORDS]:
        yield "of", core[-1:], thing
    if what.bare:
        if core[-1] in OF_SERVICES:
            yield from (("same", what.words), ("same", core))
        return
    yield "values", what.things[-1:]
    yield "same", what.words
    yield "same", core
    yield "end", core
    for start in range(max(1, len(core) - MAX_WORDS), len(core)):
        yield "same", core[start:]
    if core[-1] in GENERIC and core[-2:-1] and core[-2] not in GENERIC:
        yield "pair", core[-2:]
