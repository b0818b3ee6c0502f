"""Concepts: what a parameter or a field means, by its name, description, type, format and members (NaviAgent App. A).

Two of them are alike only where their types agree. Names and descriptions are words from outside: they choose among
what the types allow, and count for nothing alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from atc.catalogue.graph.edges import Path
from atc.schemas.identifiers import GENERIC, NAMES, QUALIFIERS, VERBS, affinity, owner_of, singular, words_of
from atc.schemas.protocol import JsonSchema, Protocol, parameters_of
from atc.schemas.validate import resolve, types_of

MAX_FIELDS, MAX_NODES, MAX_DEPTH = 120, 2_000, 7
"""Fields of one response that count, schemas of it that are looked at, and levels."""
MAX_WORDS, MAX_NAMED = 16, 12
"""Words of a description that count, and of a name: its last ones."""
ALIKE = 0.6
"""From here on two concepts are taken for one."""
UNITS = frozenset({
    "km", "kilometer", "kilometre", "mile", "meter", "metre", "cm", "mm", "ft", "feet", "foot", "inch", "yard", "km2",
    "ms", "millisecond", "s", "sec", "second", "min", "minute", "h", "hour", "day", "week", "celsius", "fahrenheit",
    "kelvin", "kmh", "kph", "mph", "kg", "kilogram", "gram", "pound", "lb", "ounce", "percent", "percentage",
    "fraction", "ratio", "degree", "radian", "square",
})  # fmt: skip
"""Words that only say in what a quantity is counted: another service counts in another unit."""
_SAME = {
    "lat": "latitude", "lng": "longitude", "lon": "longitude", "long": "longitude", "title": "name", "label": "name",
    "tz": "timezone", "ccy": "currency", "identifier": "id", "uuid": "id", "guid": "id", "amount": "value",
    "nearby": "near", "max": "limit", "maximum": "limit",
}  # fmt: skip
_FILLER = frozenset(
    """
a an and are as at be by can each for from give given has have how if in is it its no not of on one only or than that
the their them there these this those to was were what when where which who with will out other all any
""".split()
)
_RUN = re.compile(r"[A-Za-z0-9]+")
_SCALAR = frozenset({"string", "integer", "number", "boolean"})
_TIMES = frozenset({"date", "date-time"})


@dataclass(frozen=True)
class Concept:
    """What a parameter or a field means.

    Attributes:
        name: as the document has it. ``path``: where it lies in a response.
        words: of the name, without units and qualifiers.
        owner: words for the thing that it belongs to.
        described: words of the name and the description.
        types: JSON types without null; a list has those of its items. ``many``: it is a list.
        members: of an enum, in lower case.
        required: of a parameter.
    """

    name: str
    path: Path
    words: tuple[str, ...]
    owner: frozenset[str]
    described: frozenset[str]
    types: frozenset[str]
    many: bool = False
    format: str = ""
    members: frozenset[str] = frozenset()
    required: bool = False

    @property
    def about(self) -> frozenset[str]:
        """Words of the description, and of the thing that it belongs to."""
        return self.described | self.owner


def parameter_concepts(protocol: Protocol) -> list[Concept]:
    """The parameters of a tool, by their original names. What a thing is found by is one concept for all tools."""
    made = []
    for parameter in parameters_of(protocol)[:MAX_FIELDS]:
        schema = resolve(protocol.parameters, parameter.schema)
        concept = _concept(protocol.parameters, schema, (parameter.original,), protocol.name, parameter.required)
        if concept.words and concept.words[-1] in NAMES and set(concept.words) <= NAMES | GENERIC | concept.owner:
            object.__setattr__(concept, "words", ("name",))
        made.append(concept)
    return made


def response_concepts(protocol: Protocol, returns: JsonSchema | None = None) -> list[Concept]:
    """The fields of a tool's response that hold values: not the objects around them.

    Args:
        protocol: the tool.
        returns: the schema of its response; by default the documented one. None is no evidence of type: no fields.
    """
    root = protocol.returns if returns is None else returns
    if not root:
        return []
    found = [_concept(root, schema, path, protocol.name) for path, schema in _leaves(root)]
    return [each for each in found if each.types][:MAX_FIELDS]


def _leaves(root: JsonSchema) -> Iterator[tuple[Path, JsonSchema]]:
    todo: list[tuple[Any, Path, int]] = [(root, (), 0)]
    for _ in range(MAX_NODES):
        if not todo:
            return
        node, path, depth = todo.pop()
        schema = resolve(root, node)
        below = list(_below(schema, path)) if depth <= MAX_DEPTH else []
        if below:
            todo += [(child, way, depth + 1) for child, way in reversed(below)]
        elif _types(root, schema) & _SCALAR:
            yield path, schema


def _below(schema: JsonSchema, path: Path) -> Iterator[tuple[Any, Path]]:
    for keyword in ("allOf", "anyOf", "oneOf"):
        members = schema.get(keyword)
        if isinstance(members, list) and any(_holds_more(member) for member in members):
            yield from ((member, path) for member in members if isinstance(member, dict))
    if isinstance(properties := schema.get("properties"), dict):
        yield from ((value, (*path, name)) for name, value in properties.items())
    if isinstance(items := schema.get("items"), dict):
        yield items, (*path, "[]")


def _holds_more(schema: Any) -> bool:
    return isinstance(schema, dict) and any(k in schema for k in ("properties", "items", "$ref", "allOf", "anyOf"))


def _types(root: JsonSchema, schema: JsonSchema) -> frozenset[str]:
    found = types_of(schema)
    for keyword in ("anyOf", "oneOf"):
        for member in schema.get(keyword) or () if isinstance(schema.get(keyword), list) else ():
            found |= types_of(resolve(root, member))
    if not found and isinstance(members := schema.get("enum"), list):
        found = frozenset({"string"}) if all(isinstance(each, str) for each in members) else frozenset()
    return found - {"null"}


def _concept(root: JsonSchema, schema: JsonSchema, path: Path, tool: str, required: bool = False) -> Concept:
    named = [step for step in path if step != "[]"]
    name = named[-1] if named else ""
    owner = frozenset(_owner(named[:-1], tool))
    words = _core(name) if name else _owner((), tool)
    if len(named) > 1 and UNITS.issuperset(words):
        words = _core(named[-2])  # `distance.miles`
    types, many = _types(root, schema), bool(path) and path[-1] == "[]"
    if types == {"array"}:
        types, many = _types(root, resolve(root, schema.get("items"))), True
    members = schema.get("enum")
    choice = frozenset(str(each).casefold() for each in members[:200]) if isinstance(members, list) else frozenset()
    about = schema.get("description")
    described = frozenset(_content(about if isinstance(about, str) else "") | set(words))
    wanted = schema.get("format")
    return Concept(
        name, path, words, owner, described, types, many, wanted if isinstance(wanted, str) else "", choice, required
    )


def _owner(above: Sequence[str], tool: str) -> tuple[str, ...]:
    """Words for the thing that a field belongs to; of a long name some, always the same."""
    return tuple(sorted(owner_of(above, tool) - VERBS)[:MAX_NAMED])


@lru_cache(maxsize=65_536)
def _core(name: str) -> tuple[str, ...]:
    """The words of a name that say what it is: without units and qualifiers, unless there are no others."""
    words = tuple(_SAME.get(word, word) for word in words_of(name)[-MAX_NAMED:])
    return tuple(w for w in words if w not in UNITS | QUALIFIERS) or tuple(w for w in words if w not in UNITS) or words


@lru_cache(maxsize=65_536)
def _content(text: str) -> frozenset[str]:
    whole = (singular(run.lower()) for run in _RUN.findall(text[:400]))  # "GeoNames" is a name, too
    words = dict.fromkeys([*words_of(text[:400]), *whole])
    telling = [w for w in words if len(w) > 2 and w not in _FILLER | UNITS and not w.isdigit()]
    return frozenset([_SAME.get(word, word) for word in telling[:MAX_WORDS]])


def likeness(one: Concept, other: Concept) -> float:
    """From 0 to 1: how surely two mean the same. 0 where their types do not agree, or one of them is not known."""
    if not _fits(one, other):
        return 0.0
    if one.members and other.members:
        shared = len(one.members & other.members) / min(len(one.members), len(other.members))
        if shared < 0.5:
            return 0.0
        if len(one.members & other.members) > 1:
            return max(0.8, _named(one, other))
    if _are_apart(one, other):
        return 0.0
    return max(_named(one, other), _described(one, other))


def _are_apart(one: Concept, other: Concept) -> bool:
    """Whether two have the same general last word and are of different things: a currency's code is no country's.

    What both descriptions name is one thing: the ``city_id`` "of GeoNames" and the ``geoname_id`` "of a city".
    """
    a, b = ({word for word in each.words if word not in GENERIC} for each in (one, other))
    if not (a and b) or one.words[-1] != other.words[-1] or one.words[-1] not in GENERIC or a & b:
        return False
    return not (a <= other.described and b <= one.described)


def _fits(one: Concept, other: Concept) -> bool:
    if one.format and other.format and one.format != other.format and not {one.format, other.format} <= _TIMES:
        return False
    return bool(_wider(one.types) & _wider(other.types) & _SCALAR)


def _wider(types: frozenset[str]) -> frozenset[str]:
    return types | {"number"} if "integer" in types else types


def _named(one: Concept, other: Concept) -> float:
    if not one.words or not other.words:
        return 0.0
    shared_owner = bool(one.owner & other.owner)
    if set(one.words) == set(other.words):
        if not GENERIC.issuperset(one.words):
            return 1.0
        return 0.85 if shared_owner or one.about & other.about - GENERIC else 0.0
    short, long = sorted((one.words, other.words), key=len)
    if set(short) < set(long) and short[-1] == long[-1] and not GENERIC.issuperset(short):
        return 0.75
    ways = (affinity("_".join(a.words), "", "_".join(b.words), b.owner) for a, b in ((one, other), (other, one)))
    return max(ways)


def _described(one: Concept, other: Concept) -> float:
    """By the words of both descriptions: the one has the other's name, or they share most of the fewer words."""
    both = one.described & other.described
    shared = both - GENERIC
    if not shared:
        return 0.0
    for a, b in ((one, other), (other, one)):
        specific = set(a.words) - GENERIC
        if specific and specific <= b.described and (len(both) > 1 or len(a.words) == len(specific) == 1):
            return 0.7
    share = len(shared) / min(len(one.described - GENERIC), len(other.described - GENERIC))
    return 0.65 if len(shared) > 1 and share >= 0.5 else 0.0


def keys_of(concepts: Sequence[Concept]) -> frozenset[str]:
    """The words by which tools with like fields are found."""
    return frozenset(word for each in concepts for word in (*each.words, *each.described))
