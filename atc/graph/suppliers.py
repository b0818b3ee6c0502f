"""Which tool can supply which argument: the data flow between tools, read off their protocols alone.

A parameter is linked to the tool that its description names as its source ("returned by Search Users"); else to a
response field of the same name, or to the ``id`` of a thing of that name: ``city_id`` to ``city.id``, ``movieId`` to
``results[].id`` of ``search_movie``. This is the "input-output dependency" that the protocols let a model learn
(ATC §3.2), made explicit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

from atc.graph.identifiers import COORDINATES, UNIVERSAL, is_identifier, is_plural, words_of
from atc.graph.mentions import Mentions
from atc.graph.name_affinity import CONTAINERS, GENERIC, QUALIFIERS, affinity, ending, endings, owner_of
from atc.schemas.validate import resolve, types_of
from atc.tools.parameters import parameters_of
from atc.tools.protocol import JsonSchema, Protocol

MAX_DEPTH = 5
MAX_NODES = 5000
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
        hints.setdefault(tool, {})[parameter] = f"from {' or '.join(source.render() for source in sources[:most])}"
    return hints


@dataclass(frozen=True)
class Supplier:
    """A tool whose response can supply an argument, and the place of the value in that response.

    Attributes:
        tool: the key of the tool among those that were searched; its name unless they were given by id.
        path: where the field lies in the response, as :func:`fields_of` gives it; it ends with ``[]`` where the field
            is a list of values. Empty where the place is not known.
        arguments: the names of the arguments that a call of the tool must give, as a program writes them.
        refers: the field only refers to the thing (``stops[].city_id``) and is no part of it (``cities[].city_id``).
        name: what a program calls the tool by, where it is not ``tool``.
    """

    tool: str
    path: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    refers: bool = False
    name: str = ""

    @property
    def known(self) -> bool:
        """Whether the place of the value in the response is known."""
        return bool(self.path)

    def render(self, values: Mapping[str, str] | None = None) -> str:
        """The Python expression that reads the value: ``find_cities(name=...)['cities'][0]['id']``.

        Args:
            values: the source text of arguments; ``...`` stands for those that are not given.
        """
        return expression_of(self.name or self.tool, self.path, self.arguments, values)


Suppliers = Mapping[tuple[str, str], Sequence[Supplier]]
"""For a tool and one of its parameters, the tools that can supply it."""


class Scope(NamedTuple):
    """The service within which a tool's identifiers mean something.

    Attributes:
        service: equal for tools that share identifiers; empty where it is not known.
        open: the tool exchanges identifiers with every service, as the user's own functions do.
    """

    service: str
    open: bool = False


def scope_of(protocol: Protocol) -> Scope:
    """The scope of a tool as its source states it. Functions, the user's own, may well speak for a service."""
    return Scope(protocol.source.service, protocol.source.kind == "function")


def suppliers_of(
    protocols: Sequence[Protocol] | Mapping[str, Protocol],
    consumers: Collection[str] | None = None,
    *,
    scopes: Mapping[str, Scope] | None = None,
) -> dict[tuple[str, str], list[Supplier]]:
    """For every tool and parameter that other tools' responses can supply: these tools, the best ones alone.

    Tools of the same service come before all others, and an identifier of another service is no supply
    (:func:`_nearness`). Tools that need no identifier come first. A tool that the parameter's description names as the
    source is taken even where its response is not known to have such a field.

    Args:
        protocols: the tools; by key where their names may repeat, as in a catalogue.
        consumers: the keys of those whose parameters are asked about; all when not given.
        scopes: by key, where the scope of a tool is not what its source states.
    """
    tools = protocols if isinstance(protocols, Mapping) else {protocol.name: protocol for protocol in protocols}
    scope = {key: (scopes or {}).get(key) or scope_of(protocol) for key, protocol in tools.items()}
    asked = {key: parameters_of(tools[key]) for key in (tools if consumers is None else consumers)}
    wanted = {last for parameters in asked.values() for parameter in parameters for last in endings(parameter.original)}
    ordered = sorted(tools, key=lambda key: _identifiers_needed(tools[key]))
    places = {key: place for place, key in enumerate(ordered)}
    by_ending: dict[str, list[tuple[int, _Supply]]] = {}
    by_tool: dict[str, list[_Supply]] = {}
    for number, supply in enumerate(supply for key in ordered for supply in _supplied(key, tools[key], wanted)):
        by_ending.setdefault(ending(supply.field), []).append((number, supply))
        by_tool.setdefault(supply.supplier.tool, []).append(supply)
    mentions = Mentions(tools, {key: each.service for key, each in scope.items()})
    found: dict[tuple[str, str], list[Supplier]] = {}
    for key, parameters in asked.items():
        for parameter in parameters:
            named = mentions.suppliers(parameter.schema.get("description"), scope[key].service) - {key}
            if named:
                first = sorted(named, key=places.__getitem__)
                found[key, parameter.original] = [_stated(parameter.original, k, tools[k], by_tool) for k in first]
                continue
            if not is_handed_out(parameter.original, parameter.schema):
                continue
            scored = [
                ((near, score), replace(supply.supplier, refers=_refers(parameter.original, supply)))
                for _, supply in sorted(chain(*(by_ending.get(each, ()) for each in endings(parameter.original))))
                if supply.supplier.tool != key
                and (score := affinity(parameter.original, tools[key].name, supply.field, supply.owner)) >= LEAST
                and (near := _nearness(parameter.original, scope[key], scope[supply.supplier.tool]))
            ]
            if scored:
                best = max(place for place, _ in scored)
                found[key, parameter.original] = list(
                    dict.fromkeys(supplier for place, supplier in scored if place == best)
                )
    return found


def _nearness(parameter: str, consumer: Scope, supplier: Scope) -> int:
    """Whether a value of one tool may serve another: 2 in one service, 1 between two, 0 hardly.

    A code or a coordinate means the same everywhere, an ``id`` only in the service that gave it.
    """
    if consumer.service == supplier.service:
        return 2
    free = consumer.open or supplier.open or not (consumer.service and supplier.service)
    return int(free or not UNIVERSAL.isdisjoint(words_of(parameter)[-1:]))


def _refers(parameter: str, supply: _Supply) -> bool:
    things = {word for word in words_of(parameter) if word not in QUALIFIERS | GENERIC | UNIVERSAL}
    return supply.stated and bool(things) and not things & supply.owner


class _Supply(NamedTuple):
    """A field that a tool returns: what owns it, whether a name above it states the owner, and the supplier."""

    supplier: Supplier
    field: str
    owner: frozenset[str]
    stated: bool


def _stated(parameter: str, key: str, protocol: Protocol, supply: Mapping[str, Sequence[_Supply]]) -> Supplier:
    """The field that is meant of a tool that a description names as the source; its place may not be known."""
    last = words_of(parameter)[-1:]
    scored = [
        (affinity(parameter, "", each.field, each.owner) or LEAST * (words_of(each.field)[-1:] == last), each)
        for each in supply.get(key, ())
    ]
    best = max((score for score, _ in scored), default=0.0)
    if best >= LEAST:
        return next(each.supplier for score, each in scored if score == best)
    return Supplier(key, arguments=_required(protocol), name=protocol.name)


def _required(protocol: Protocol) -> tuple[str, ...]:
    return tuple(parameter.name for parameter in parameters_of(protocol) if parameter.required)


def _supplied(key: str, protocol: Protocol, wanted: Collection[str]) -> Iterator[_Supply]:
    """The fields that a tool returns and that end with one of the wanted words: no other is what a parameter takes."""
    own = {each.original: endings(each.original) for each in parameters_of(protocol) if each.required}
    arguments = _required(protocol)
    for path in fields_of(protocol.returns):
        *above, field = [step for step in path if step != "[]"]
        if (last := ending(field)) not in wanted:
            continue
        owner = owner_of(above, protocol.name)
        stated = any(not CONTAINERS.issuperset(words_of(name)) for name in above)
        echoed = any(last in ends and affinity(name, protocol.name, field, owner) >= ECHO for name, ends in own.items())
        if not echoed:  # what a tool must be given it only repeats
            item = ("[]",) if is_plural(field) else ()  # one of a list of codes
            yield _Supply(Supplier(key, (*path, *item), arguments, name=protocol.name), field, owner, stated)


def _identifiers_needed(protocol: Protocol) -> int:
    return sum(p.required and is_handed_out(p.original, p.schema) for p in parameters_of(protocol))


def is_handed_out(name: str, schema: JsonSchema) -> bool:
    """Whether tools hand a parameter's value out: identifiers and coordinates, not dates, amounts and words."""
    handed_out = is_identifier(name) or is_identifier(name, COORDINATES)
    return handed_out and "enum" not in schema and not types_of(schema) & {"boolean", "object"}


def expression_of(
    tool: str, path: Sequence[str], arguments: Sequence[str], values: Mapping[str, str] | None = None
) -> str:
    """A place in a tool's response as a program reads it: ``find_cities(name=...)['cities'][0]['id']``.

    Args:
        tool: what a program calls the tool by.
        path: as :func:`fields_of` gives it.
        arguments: the names that the call gives.
        values: their source text; ``...`` stands for those that are not given.
    """
    given = ", ".join(f"{name}={(values or {}).get(name, '...')}" for name in arguments)
    return f"{tool}({given})" + "".join("[0]" if step == "[]" else f"[{step!r}]" for step in path)
