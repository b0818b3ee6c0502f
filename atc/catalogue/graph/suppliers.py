"""A supplier: a tool whose response can supply an argument, and what tells which values tools hand out."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

from atc.schemas.identifiers import COORDINATES, HANDED_OUT, is_identifier, words_of
from atc.schemas.protocol import JsonSchema, Protocol
from atc.schemas.validate import resolve, types_of

MAX_DEPTH = 5
MAX_NODES = 5000
LEAST, ECHO = 0.6, 0.85
"""Affinity from which a field is named as the source of a parameter, and from which it only repeats one."""
MAX_ALTERNATIVES = 50
"""Choices that are followed at one step of a path."""
MAX_SHOWN = 100
"""Arguments of a call that are written out where their values are not known."""
MAX_INSIDE = 3
"""Places within one argument of which a hint says where their values come from."""
_OF_PAGES = frozenset({"page", "cursor", "next", "continuation", "sync"})
_CHOICES = ("allOf", "anyOf", "oneOf")


def fields_of(schema: JsonSchema | None) -> Iterator[tuple[str, ...]]:
    """The paths of the named fields of a response; ``[]`` stands for the items of a list.

    Of a schema that unfolds without end (it refers to itself, or its choices multiply) only the first ones.
    """
    return (each.path for each in places_of(schema) if each.named)


class SchemaPlace(NamedTuple):
    """A place of a response, or of an argument.

    Attributes:
        path: to it; ``[]`` stands for the items of a list.
        named: it is a named field, and no item or choice.
        title: the name of its schema, if any.
        schema: of it.
    """

    path: tuple[str, ...]
    named: bool
    title: str
    schema: JsonSchema


def places_of(schema: JsonSchema | None) -> Iterator[SchemaPlace]:
    """The places of a schema, outer ones first, each field in its order."""
    todo: list[tuple[Any, tuple[str, ...], int, bool]] = [(schema, (), 0, False)] if schema is not None else []
    for _ in range(MAX_NODES):
        if not todo:
            return
        node, path, depth, named = todo.pop()
        found = resolve(schema or {}, node)
        title = found.get("title") or (node.get("$ref") if isinstance(node, dict) else "")
        yield SchemaPlace(path, named, title.rpartition("/")[2] if isinstance(title, str) else "", found)
        if depth <= MAX_DEPTH:
            todo += reversed([(child, way, depth + 1, name) for child, way, name in _children(found, path)])


def _children(schema: JsonSchema, path: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...], bool]]:
    for keyword in _CHOICES:
        members = schema.get(keyword)
        if isinstance(members, list):
            yield from ((member, path, False) for member in members if isinstance(member, dict))
    if isinstance(schema.get("properties"), dict):
        yield from ((value, (*path, name), True) for name, value in schema["properties"].items())
    if "items" in schema:
        yield schema["items"], (*path, "[]"), False


def has_place(schema: JsonSchema | None, path: Sequence[str]) -> bool:
    """Whether a response schema has a place, as :func:`fields_of` names it; the response itself is always there."""
    places: list[Any] = [schema or {}]
    for step in path:
        todo, places = [(resolve(schema or {}, place), 0) for place in places], []
        while todo and len(places) < MAX_ALTERNATIVES:
            node, depth = todo.pop()
            if depth < MAX_DEPTH:
                some = [node[keyword] for keyword in _CHOICES if isinstance(node.get(keyword), list)]
                todo += [(resolve(schema or {}, each), depth + 1) for each in chain.from_iterable(some)]
            properties = node.get("properties")
            if step == "[]" and "items" in node:
                places.append(node["items"])
            elif isinstance(properties, dict) and step in properties:
                places.append(properties[step])
        if not places:
            return False
    return True


def hints_from(suppliers: Suppliers, most: int = 2, *, writes: Container[str] = ()) -> dict[str, dict[str, str]]:
    """For every tool, for those of its parameters that others can supply: a short sentence that names ``most``.

    Only those are named that are as near to the thing as the first one. The sentence names a field, and no row: which
    one is meant, the task says.

    Args:
        writes: the tools of which a wrong argument changes something.
    """
    hints: dict[str, dict[str, str]] = {}
    for tool, parameter in suppliers:
        within = hints_inside(suppliers, tool, parameter, most, writes=writes)
        said = [f"{_dotted(inside)} {way}".lstrip() for inside, way in islice(within.items(), MAX_INSIDE)]
        hints.setdefault(tool, {})[parameter] = "; ".join(said)
    return hints


def hints_inside(
    suppliers: Suppliers, tool: str, parameter: str, most: int = 2, *, writes: Container[str] = ()
) -> dict[tuple[str, ...], str]:
    """For every place within an argument that others can supply, such a sentence; the argument itself is at ``()``.

    Args:
        most, writes: as :func:`hints_from` takes them.
    """
    within: dict[tuple[str, ...], list[Supplier]] = {}
    for each in suppliers.get((tool, parameter), ()):
        within.setdefault(each.inside, []).append(each)
    return {inside: _hint(some, most, tool in writes) for inside, some in within.items()}


def _dotted(inside: Sequence[str]) -> str:
    return ".".join(step for step in inside if step != "[]")


def _hint(sources: Sequence[Supplier], most: int, chosen: bool) -> str:
    named = [each for each in sources if each.standing == sources[0].standing][:most]
    ways = " or ".join(source.render(chosen=chosen) for source in named)
    meant = ", the one that the task means" if chosen and any("[]" in each.path for each in named) else ""
    return f"from {ways}{meant}"


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
        writes: a call of the tool changes something, as far as is known.
        inside: where the value goes within the argument, as ``("[]", "product_id")`` of the lines of an order; empty
            where it is the argument itself.
    """

    tool: str
    path: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    refers: bool = False
    name: str = ""
    writes: bool = False
    inside: tuple[str, ...] = ()

    @property
    def standing(self) -> int:
        """How far it is from the thing itself, the nearest first: what reads it, reads what refers to it, or writes."""
        return 2 if self.writes else int(self.refers)

    @property
    def known(self) -> bool:
        """Whether the place of the value in the response is known."""
        return bool(self.path)

    def render(self, values: Mapping[str, str] | None = None, *, chosen: bool = False) -> str:
        """The Python expression that reads the value, as :func:`expression_of` writes it."""
        return expression_of(self.name or self.tool, self.path, self.arguments, values, chosen=chosen)


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
    return Scope(protocol.source.service, protocol.source.in_process)


def is_handed_out(name: str, schema: JsonSchema) -> bool:
    """Whether other tools hand a parameter's value out: identifiers and coordinates, not dates, amounts and words.

    The token of a page is one that only the tool itself hands out.
    """
    handed_out = is_identifier(name) or is_identifier(name, COORDINATES)
    if is_identifier(name, HANDED_OUT) and not _OF_PAGES.isdisjoint(words_of(name)):
        return False
    return handed_out and "enum" not in schema and not types_of(schema) & {"boolean", "object"}


def expression_of(
    tool: str,
    path: Sequence[str],
    arguments: Sequence[str],
    values: Mapping[str, str] | None = None,
    *,
    chosen: bool = False,
) -> str:
    """A place in a tool's response as a program reads it: ``find_cities(name=...)['cities'][0]['id']``.

    Only what was looked up by words has a first item that is likely meant. Of any other list no row is named, and
    nothing that runs as it stands: ``the ['id'] of one of list_cities()['cities']``.

    Args:
        tool: what a program calls the tool by.
        path: as :func:`fields_of` gives it.
        arguments: the names that the call gives.
        values: their source text; ``...`` stands for those that are not given.
        chosen: which item is meant matters, so that of no list the first one is named.
    """
    shown = arguments if values is not None else arguments[:MAX_SHOWN]
    given = ", ".join(f"{name}={(values or {}).get(name, '...')}" for name in shown)
    given += ", ..." if len(shown) < len(arguments) else ""
    keys = [f"{tool}({given})"]  # of the response, and then of an item of each list on the way
    for step in path:
        if step == "[]":
            keys.append("")
        else:
            keys[-1] += f"[{step!r}]"
    if not chosen and not all(map(is_identifier, arguments[:MAX_SHOWN])):
        return "[0]".join(keys)
    text = keys[0]
    for each in keys[1:]:
        text = f"the {each} of one of {text}" if each else f"one of {text}"
    return text
