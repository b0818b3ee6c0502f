"""Which tool can supply which argument: the data flow between tools, read off their protocols alone.

A parameter is linked to the tool that its description names as its source ("returned by Search Users"); else to a
response field of the same name, or to the ``id`` of a thing of that name: ``city_id`` to ``city.id``, ``movieId`` to
``results[].id`` of ``search_movie``. This is the "input-output dependency" that the protocols let a model learn
(ATC §3.2), said outright.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from atc.graph.mentions import Mentions
from atc.graph.name_affinity import (
    CONTAINERS,
    GENERIC,
    QUALIFIERS,
    affinity,
    ending,
    endings,
    is_plural,
    owner_of,
    words_of,
)
from atc.schemas.validate import resolve, types_of
from atc.tools.parameters import parameters_of
from atc.tools.protocol import JsonSchema, Protocol, Source

MAX_DEPTH = 5
MAX_NODES = 5000
ID_ENDINGS = (
    "id",
    "ids",
    "code",
    "iata",
    "icao",
    "key",
    "slug",
    "token",
    "uuid",
    "handle",
    "symbol",
    "number",
    "reference",
)
COORDINATES = frozenset({"latitude", "longitude", "lat", "lon", "lng"})
"""Words for where something is, which tools hand out as they do identifiers."""
UNIVERSAL = COORDINATES | {"code", "iata", "icao", "symbol"}
"""Last words of what means the same to all services."""
NAMES = frozenset({"name", "title", "query", "q", "text", "keyword", "term", "search"})
"""Last words of what something is found by."""
_GIVEN = frozenset(words_of(ending) for ending in (*ID_ENDINGS, *COORDINATES))
LEAST, ECHO = 0.6, 0.85
"""Affinity from which a field is named as the source of a parameter, and from which it only repeats one."""


def fields_of(schema: JsonSchema | None) -> Iterator[tuple[str, ...]]:
    """The paths of the named fields of a response; ``[]`` stands for the items of a list.

    Of a schema that unfolds without end (it refers to itself, or its choices multiply) only the first ones.
    """
    todo: list[tuple[Any, tuple[str, ...], int, bool]] = [(schema, (), 0, False)] if schema is not None else []
    for _ in range(MAX_NODES):
        if not todo:
            return
        node, path, depth, named = todo.pop()
        if named:
            yield path
        if depth <= MAX_DEPTH:
            todo += reversed(
                [(child, way, depth + 1, name) for child, way, name in _children(resolve(schema or {}, node), path)]
            )


def _children(schema: JsonSchema, path: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...], bool]]:
    for keyword in ("allOf", "anyOf", "oneOf"):
        members = schema.get(keyword)
        if isinstance(members, list):
            yield from ((member, path, False) for member in members if isinstance(member, dict))
    if isinstance(schema.get("properties"), dict):
        yield from ((value, (*path, name), True) for name, value in schema["properties"].items())
    if "items" in schema:
        yield schema["items"], (*path, "[]"), False


def hints_for(protocols: Sequence[Protocol]) -> dict[str, dict[str, str]]:
    """For every tool, for those of its parameters that another tool's response can supply: a short sentence."""
    return hints_from(suppliers_of(protocols))


def hints_from(suppliers: Suppliers, most: int = 2) -> dict[str, dict[str, str]]:
    """As :func:`hints_for`, where the suppliers are known already; ``most`` of them are named."""
    hints: dict[str, dict[str, str]] = {}
    for (tool, parameter), sources in suppliers.items():
        hints.setdefault(tool, {})[parameter] = f"from {' or '.join(source.text for source in sources[:most])}"
    return hints


class Supplier(NamedTuple):
    """A tool whose response can supply an argument, and how a program writes that.

    ``refers``: the field only refers to the thing (``stops[].city_id``) and is no part of it (``cities[].city_id``).
    ``path``: where the field lies in the response, as :func:`fields_of` gives it; empty where that is not known.
    """

    tool: str
    text: str
    refers: bool = False
    path: tuple[str, ...] = ()


Suppliers = Mapping[tuple[str, str], Sequence[Supplier]]
"""For a tool and one of its parameters, who can supply it."""


def suppliers_of(
    protocols: Sequence[Protocol], takers: Sequence[Protocol] | None = None
) -> dict[tuple[str, str], list[Supplier]]:
    """For every tool and parameter that others' responses can supply: these tools, and how a program writes it.

    Tools of the same service come before all others, and an identifier of another service is none here
    (:func:`_near`). What can be called out of the blue comes first. Of a tool that is named as the source and whose
    response is not known to have such a field, the call alone is written.

    Args:
        protocols: the tools.
        takers: those of them whose parameters are asked about; all when not given.
    """
    takers = protocols if takers is None else takers
    wanted = {
        last for protocol in takers for parameter in parameters_of(protocol) for last in endings(parameter.original)
    }
    supply = list(_supplied(protocols, wanted))
    by_ending: dict[str, list[tuple[int, _Supply]]] = {}
    by_tool: dict[str, list[_Supply]] = {}
    for number, given in enumerate(supply):
        by_ending.setdefault(ending(given.field), []).append((number, given))
        by_tool.setdefault(given.tool, []).append(given)
    ordered = {protocol.name: (place, protocol) for place, protocol in enumerate(sorted(protocols, key=_ids_needed))}
    sources_of = {protocol.name: protocol.source for protocol in protocols}
    mentions = Mentions(protocols)
    found: dict[tuple[str, str], list[Supplier]] = {}
    for protocol in takers:
        for parameter in parameters_of(protocol):
            named = mentions.sources(parameter.schema.get("description"), protocol.source.service) - {protocol.name}
            meant = [protocol for _, protocol in sorted((ordered[name] for name in named), key=itemgetter(0))]
            if meant and (told := list(_told(parameter.original, meant, by_tool))):
                found[protocol.name, parameter.original] = told
                continue
            if not looks_given(parameter.original, parameter.schema):
                continue
            scored = [
                ((near, score), Supplier(given.tool, given.text, _refers(parameter.original, given), given.path))
                for _, given in sorted(chain(*(by_ending.get(each, ()) for each in endings(parameter.original))))
                if given.tool != protocol.name
                and (score := affinity(parameter.original, protocol.name, given.field, given.owner)) >= LEAST
                and (near := _near(parameter.original, protocol.source, sources_of[given.tool]))
            ]
            if scored:
                best = max(place for place, _ in scored)
                found[protocol.name, parameter.original] = list(
                    dict.fromkeys(supplier for place, supplier in scored if place == best)
                )
    return found


def _near(parameter: str, taker: Source, giver: Source) -> int:
    """Whether what one tool hands out may be what another takes: 2 in one service, 1 between two, 0 hardly.

    A code or a coordinate means the same everywhere, an ``id`` only where it was given. Functions are the user's own,
    and may well speak for a service.
    """
    if taker.service == giver.service:
        return 2
    own = "function" in (taker.kind, giver.kind) or not (taker.service and giver.service)
    return int(own or not UNIVERSAL.isdisjoint(words_of(parameter)[-1:]))


def _refers(parameter: str, given: _Supply) -> bool:
    things = {word for word in words_of(parameter) if word not in QUALIFIERS | GENERIC | UNIVERSAL}
    return given.told and bool(things) and not things & given.owner


class _Supply(NamedTuple):
    """A field that a tool returns: whose it is, whether a name above it says that, and how a program writes it."""

    tool: str
    field: str
    owner: frozenset[str]
    told: bool
    text: str
    path: tuple[str, ...]


def _told(parameter: str, meant: Sequence[Protocol], supply: Mapping[str, Sequence[_Supply]]) -> Iterator[Supplier]:
    """Of the tools that a description names, the field that is meant; the call alone where none is known."""
    for protocol in meant:
        last = words_of(parameter)[-1:]
        fields = [
            (
                affinity(parameter, "", given.field, given.owner) or LEAST * (words_of(given.field)[-1:] == last),
                given.text,
                given.path,
            )
            for given in supply.get(protocol.name, ())
        ]
        best = max((score for score, _, _ in fields), default=0.0)
        if best >= LEAST:
            text, path = next((text, path) for score, text, path in fields if score == best)
            yield Supplier(protocol.name, text, path=path)
            continue
        needs = [each.name for each in parameters_of(protocol) if each.required]
        yield Supplier(protocol.name, expression_of(protocol.name, (), needs))


def _supplied(protocols: Sequence[Protocol], wanted: Collection[str]) -> Iterator[_Supply]:
    """What tools return: the tool, the field, whose it is, and how a program writes it.

    Only of fields that end with one of the wanted words: no other is what a parameter takes.
    """
    for protocol in sorted(protocols, key=_ids_needed):  # what can be called out of the blue is named first
        required = [parameter for parameter in parameters_of(protocol) if parameter.required]
        needs = [parameter.name for parameter in required]
        own = {parameter.original: endings(parameter.original) for parameter in required}
        for path in fields_of(protocol.returns):
            *above, field = [step for step in path if step != "[]"]
            if (last := ending(field)) not in wanted:
                continue
            owner = owner_of(above, protocol.name)
            told = any(not CONTAINERS.issuperset(words_of(name)) for name in above)
            echoed = any(
                last in ends and affinity(name, protocol.name, field, owner) >= ECHO for name, ends in own.items()
            )
            if not echoed:  # what a tool must be given it only repeats
                item = ("[]",) if is_plural(field) else ()  # one of a list of codes
                text = expression_of(protocol.name, (*path, *item), needs)
                yield _Supply(protocol.name, field, owner, told, text, path)


def _ids_needed(protocol: Protocol) -> int:
    return sum(p.required and looks_given(p.original, p.schema) for p in parameters_of(protocol))


def looks_given(name: str, schema: JsonSchema) -> bool:
    """Identifiers and coordinates are handed out by tools; dates, amounts and words come from the task."""
    return words_of(name)[-1:] in _GIVEN and "enum" not in schema and not types_of(schema) & {"boolean", "object"}


def is_identifier(name: str) -> bool:
    """Whether a name is that of something handed out, and not of a place on the map."""
    return words_of(name)[-1:] in _GIVEN and not COORDINATES.intersection(words_of(name))


def expression_of(tool: str, path: Sequence[str], needs: Sequence[str] | None = None) -> str:
    """A path as a program writes it: ``find_cities(name=...)['cities'][0]['id']``; ``needs`` names the arguments."""
    arguments = "..." if needs is None else ", ".join(f"{name}=..." for name in needs)
    return f"{tool}({arguments})" + "".join("[0]" if step == "[]" else f"[{step!r}]" for step in path)
