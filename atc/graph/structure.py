"""Structure: which tool can supply which argument, read off the protocols alone (NaviAgent §3.2: structural edges).

A parameter is linked to the tool that its description names as its source ("returned by Search Users"); else to a
response field of the same name, or to the ``id`` of a thing of that name: ``city_id`` to ``city.id``, ``movieId`` to
``results[].id`` of ``search_movie``. This is the "input-output dependency" that the protocols let a model learn
(ATC §3.2), made explicit.

Fields are looked up by the words that an affinity needs (:mod:`atc.graph.name_affinity`), and by service. So the time
grows with the number of tools, and not with its square where thousands of them have a field of one name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Literal, NamedTuple

from atc.graph.edges import Path
from atc.graph.identifiers import UNIVERSAL, is_plural, words_of
from atc.graph.mentions import Mentions, names_a_supplier
from atc.graph.name_affinity import (
    CONTAINERS,
    GENERIC,
    QUALIFIERS,
    VERBS,
    affinity,
    bare,
    ending,
    endings,
    owner_of,
    spelled_words,
)
from atc.graph.suppliers import ECHO, LEAST, Scope, Supplier, fields_of, is_handed_out, scope_of
from atc.tools.parameters import Parameter, parameters_of
from atc.tools.protocol import Protocol

MAX_TOOLS = 40
"""Tools that are named as suppliers of one parameter: those that need the fewest identifiers themselves."""
MAX_PLACES = 20
"""Places of one tool's response that are named as supplies of one parameter."""
MAX_LOOKED_AT = 200
"""Tools that are looked at for a parameter such as ``id``, of which the tools' names must tell what it is of."""
MAX_WORDS = 12
"""Words of one name that it is found by."""
MAX_ECHOES = 10_000
"""Fields of one tool, times arguments that it needs, of which it is asked whether the one repeats the other."""
BARE = 0.6
"""Affinity of a bare ``id`` to a bare ``id``."""
_Key = tuple[object, ...]
_Service = tuple[Literal["of", "free", "all"], str]
"""Where a supply is sought: in one service, among what serves every service, anywhere."""


@dataclass(frozen=True)
class Found:
    """A supplier, and why it is one.

    Attributes:
        supplier: the tool and the place of the value.
        evidence: ``stated`` by the parameter's description, or by ``names``.
        affinity: of the names, from 0 to 1; 1 where it is stated.
    """

    supplier: Supplier
    evidence: Literal["stated", "names"]
    affinity: float = 1.0


class Field(NamedTuple):
    """A field that a tool returns.

    Attributes:
        number: its place among the tool's fields.
        path: where it lies; it ends with ``[]`` where the field is a list of values.
        name: of the field itself.
        owner: words for the thing that it belongs to.
        stated: a name above it states the owner.
    """

    number: int
    path: Path
    name: str
    owner: frozenset[str]
    stated: bool


class ToolFacts:
    """What is read off one protocol; kept as long as the protocol is in use.

    Attributes:
        parameters: as :func:`parameters_of` gives them.
        arguments: the names of those that a call must give.
        identifiers: how many of these are identifiers, which another tool hands out.
    """

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.parameters = parameters_of(protocol)
        required = [each for each in self.parameters if each.required]
        self.arguments = tuple(each.name for each in required)
        self.identifiers = sum(is_handed_out(each.original, each.schema) for each in required)
        self._own = {each.original: endings(each.original) for each in required}
        self._fields: dict[str, list[Field]] = {}

    @cached_property
    def _paths(self) -> Mapping[str, Sequence[tuple[int, Path]]]:
        """The paths to all fields, by the last word of the field's name."""
        found: dict[str, list[tuple[int, Path]]] = {}
        for number, path in enumerate(fields_of(self.protocol.returns)):
            found.setdefault(ending(path[-1]), []).append((number, path))
        return found

    def fields(self, last: str) -> Sequence[Field]:
        """The fields whose names end with a word. What a tool must be given it only repeats: that is no supply."""
        if (kept := self._fields.get(last)) is None:
            paths = self._paths.get(last, ())
            own = [name for name, ends in self._own.items() if last in ends][: MAX_ECHOES // (len(paths) or 1)]
            found = (self.field(path, number) for number, path in paths)
            kept = self._fields[last] = [each for each in found if not self._echoes(own, each)]
        return kept

    def field(self, path: Path, number: int = 0) -> Field:
        """The field at a path of the response."""
        *above, name = [step for step in path if step != "[]"] or [""]
        item = ("[]",) if is_plural(name) and path[-1:] != ("[]",) else ()  # one of a list of codes
        stated = any(not CONTAINERS.issuperset(words_of(each)) for each in above)
        return Field(number, (*path, *item), name, owner_of(above, self.protocol.name), stated)

    def _echoes(self, own: Sequence[str], field: Field) -> bool:
        return any(affinity(name, self.protocol.name, field.name, field.owner) >= ECHO for name in own)


class _Supply(NamedTuple):
    """A field among those of all tools; sorted, the tools that need the fewest identifiers come first."""

    place: int
    number: int
    tool: str
    field: Field


class _Posting:
    """The supplies that are found by one key: of so many tools, and so many places of each."""

    __slots__ = ("most", "of_last", "supplies", "tools")

    def __init__(self, most: int) -> None:
        self.most, self.tools, self.of_last = most, 0, 0
        self.supplies: list[_Supply] = []

    def add(self, supply: _Supply) -> None:
        """Take one more; they come in order."""
        new = not self.supplies or self.supplies[-1].tool != supply.tool
        if (new and self.tools == self.most) or (not new and self.of_last == MAX_PLACES):
            return
        self.tools, self.of_last = self.tools + new, 1 if new else self.of_last + 1
        self.supplies.append(supply)


class Structure:
    """The structural edges of some tools. A consumer's are found when they are asked for.

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
        self._postings: dict[tuple[_Service, _Key], _Posting] = {}
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

        Tools of the same service come before all others, and an identifier of another service is no supply. Tools that
        need no identifier come first. A tool that the parameter's description names as the source is taken even where
        its response is not known to have such a field.
        """
        if (kept := self._into.get(consumer)) is not None:
            return kept
        found = self._into[consumer] = {}
        for parameter in self.facts(consumer).parameters:
            some = self._stated(consumer, parameter)
            if not some and is_handed_out(parameter.original, parameter.schema):
                some = self._by_names(consumer, parameter.original)
            if some:
                found[parameter.original] = some
        return found

    def supplier(self, tool: str, path: Path, parameter: str) -> Supplier:
        """A place of a tool's response as the supplier of a parameter."""
        if path:
            return replace(self._supplier(tool, self.facts(tool).field(path), parameter), path=path)
        return Supplier(tool, (), self.facts(tool).arguments, name=self.tools[tool].name)

    # -- by the words of descriptions ----------------------------------------------------------------------------------

    @cached_property
    def _mentions(self) -> Mentions:
        return Mentions(self.tools, {key: self.scope(key).service for key in self.tools})

    @cached_property
    def _places(self) -> Mapping[str, int]:
        """The places of the tools in the order in which they are named as suppliers."""
        ordered = sorted(self.tools, key=lambda key: self.facts(key).identifiers)
        return {key: place for place, key in enumerate(ordered)}

    def _stated(self, consumer: str, parameter: Parameter) -> list[Found]:
        if not names_a_supplier(parameter.schema):
            return []
        text = parameter.schema.get("description")
        named = self._mentions.suppliers(text, self.scope(consumer).service) - {consumer}
        first = sorted(named, key=self._places.__getitem__)[:MAX_TOOLS]
        return [Found(self._meant(parameter.original, key), "stated") for key in first]

    def _meant(self, parameter: str, key: str) -> Supplier:
        """The field that is meant of a tool that a description names as the source; its place may not be known."""
        last, facts = words_of(parameter)[-1:], self.facts(key)
        fields = sorted(each for end in endings(parameter) for each in facts.fields(end))
        scored = [
            (affinity(parameter, "", each.name, each.owner) or LEAST * (words_of(each.name)[-1:] == last), each)
            for each in fields
        ]
        best = max((score for score, _ in scored), default=0.0)
        path = next(each.path for score, each in scored if score == best) if best >= LEAST else ()
        return Supplier(key, path, facts.arguments, name=facts.protocol.name)

    # -- by names ------------------------------------------------------------------------------------------------------

    def _by_names(self, consumer: str, parameter: str) -> list[Found]:
        for last in endings(parameter) - self._indexed:
            self._index(last)
        scope, tool = self.scope(consumer), self.tools[consumer].name
        everywhere = scope.open or not scope.service or not UNIVERSAL.isdisjoint(words_of(parameter)[-1:])
        for where in (("of", scope.service), ("all", "") if everywhere else ("free", "")):
            for score, keys in _keys_of_parameter(parameter, tool):
                postings = [found for key in keys if (found := self._postings.get((where, key))) is not None]
                supplies = {each[:2]: each for some in postings for each in some.supplies if each.tool != consumer}
                if score == BARE:
                    words = frozenset(words_of(tool))
                    supplies = {at: each for at, each in supplies.items() if _is_of(words, each.field)}
                if supplies:
                    return self._best(parameter, score, [supplies[at] for at in sorted(supplies)])
        return []

    def _best(self, parameter: str, score: float, supplies: Sequence[_Supply]) -> list[Found]:
        tools: set[str] = set()
        made: dict[tuple[str, Path], Found] = {}  # a place may stand in several alternatives
        for supply in supplies:
            tools.add(supply.tool)
            if len(tools) > MAX_TOOLS:
                break
            at = supply.tool, supply.field.path
            if at not in made:
                made[at] = Found(self._supplier(supply.tool, supply.field, parameter), "names", score)
        return [*made.values()]

    def _supplier(self, tool: str, field: Field, parameter: str) -> Supplier:
        facts = self.facts(tool)
        return Supplier(tool, field.path, facts.arguments, _refers(parameter, field), facts.protocol.name)

    def _index(self, last: str) -> None:
        """Enter the fields whose names end with a word."""
        self._indexed.add(last)
        for key, place in self._places.items():
            if not (fields := self.facts(key).fields(last)):
                continue
            scope = self.scope(key)
            free = scope.open or not scope.service
            services: list[_Service] = [("of", scope.service), ("all", "")]
            if free:
                services.append(("free", ""))
            for field in fields:
                supply = _Supply(place, field.number, key, field)
                for found_by, most in _keys_of_field(field):
                    for where in services:
                        at = (where, found_by)
                        if (posting := self._postings.get(at)) is None:
                            posting = self._postings[at] = _Posting(most)
                        posting.add(supply)


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


def _refers(parameter: str, field: Field) -> bool:
    """Whether the field only refers to the thing that the parameter is of, and is no part of it."""
    things = _things(parameter) if field.stated else frozenset()
    return bool(things) and things.isdisjoint(field.owner)


@lru_cache(maxsize=16_384)
def _things(parameter: str) -> frozenset[str]:
    """The words of a parameter that say what it is of."""
    return frozenset(words_of(parameter)) - QUALIFIERS - GENERIC - UNIVERSAL


def _is_of(words: frozenset[str], field: Field) -> bool:
    """Whether a tool's name has more than half of the words for what a bare ``id`` is of: see :func:`affinity`."""
    things = field.owner - VERBS
    return 2 * len(things & words) > len(things)


def _keys_of_field(field: Field) -> Iterator[tuple[_Key, int]]:
    """What a field is found by, and how many tools at most; each key is for one case of :func:`affinity`."""
    has = spelled_words(field.name)
    yield ("same", has), MAX_TOOLS + 1  # one more: the consumer may be among them
    for start in range(max(1, len(has) - MAX_WORDS), len(has)):
        yield ("end", has[start:]), MAX_TOOLS + 1
    yield ("pair", has[-2:]), MAX_TOOLS + 1
    if GENERIC.issuperset(has):
        for word in sorted(field.owner)[:MAX_WORDS]:
            yield ("of", has[-1:], word), MAX_TOOLS + 1
    if GENERIC.issuperset(bare(has)):
        things = sorted(field.owner - VERBS)[:MAX_WORDS]
        for some in combinations(things, min(2, len(things))):  # more than half of several are two of them
            yield ("one", has, *some), MAX_LOOKED_AT


def _keys_of_parameter(parameter: str, tool: str) -> Iterator[tuple[float, Iterable[_Key]]]:
    """What the fields are found by that have an affinity of :data:`LEAST` to a parameter of a tool, the best first."""
    wanted = spelled_words(parameter)
    core = bare(wanted)
    specific = [word for word in core if word not in GENERIC][:MAX_WORDS]
    if not specific:
        things = sorted(frozenset(words_of(tool)) - VERBS)[:MAX_WORDS]
        some = [*combinations(things, 1), *combinations(things, 2)]
        yield BARE, [("one", has, *each) for has in dict.fromkeys((wanted, core)) for each in some]
        return
    yield 1.0, [("same", wanted)]
    yield 0.9, [("same", core)]
    if core[-1] in GENERIC:
        yield 0.85, [("of", core[-1:], word) for word in specific]
    ends = (core[start:] for start in range(max(1, len(core) - MAX_WORDS), len(core)))
    yield 0.7, [("end", core), *(("same", end) for end in ends if not GENERIC.issuperset(end))]
    if core[-1] in GENERIC and core[-2:-1] and core[-2] not in GENERIC:
        yield 0.65, [("pair", core[-2:])]
