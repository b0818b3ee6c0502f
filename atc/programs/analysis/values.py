"""Abstract values: without a run, they say which tool calls a value can have come from, and the way there.

A :class:`Value` is the union of what it may be: parts of responses, containers that the program made (:class:`Cell`),
its own functions, and, where it is ``open``, anything else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from atc._records.records import Place
from atc.schemas.protocol import JsonSchema
from atc.schemas.reading import allows_more, alternatives
from atc.schemas.types import EVIDENCE, LEFT_OUT, OBSERVED
from atc.schemas.validate import types_of

Step = str | Literal[0, 1]
ITEM: Literal[0] = 0
"""A path step: some item of a list."""
MEMBER: Literal[1] = 1
"""A path step: some member of an object, or some item; which one is not known."""
MAX_PATH = 12
MAX_WORK = 4_000_000
"""Members of unions, names of scopes and containers that one analysis looks at before it gives up."""


class TooMuchWork(Exception):
    """An analysis has used up :data:`MAX_WORK`. Never leaves it."""


class _Work:
    left = MAX_WORK


_WORK: ContextVar[_Work | None] = ContextVar("atc_analysis_work", default=None)


@contextmanager
def bounded_work() -> Iterator[None]:
    """Bound the work of a block, within which :func:`count` counts.

    Raises:
        TooMuchWork: from :func:`count`.
    """
    token = _WORK.set(_Work())
    try:
        yield
    finally:
        _WORK.reset(token)


def count(work: int) -> None:
    """Count what is looked at, where an analysis is under way."""
    if (of := _WORK.get()) is not None:
        of.left -= work
        if of.left < 0:
            raise TooMuchWork


class Origin(NamedTuple):
    """A part of the response of the tool call that stands at ``line`` and ``column`` of the program."""

    tool: str
    line: int
    column: int
    path: tuple[Step, ...] = ()

    def __str__(self) -> str:
        steps = "".join("[…]" if step in (ITEM, MEMBER) else f"[{step!r}]" for step in self.path)
        return f"{self.tool}(...){steps}"

    @property
    def place(self) -> Place:
        """Return the place in the response, for records."""
        return Place(tool=self.tool, path=tuple(None if step in (ITEM, MEMBER) else step for step in self.path))

    @property
    def site(self) -> tuple[int, int]:
        """Return where the call stands."""
        return self.line, self.column


@dataclass(frozen=True)
class Value:
    """The union of what an expression may be.

    Attributes:
        origins: parts of responses that it is; of an open value, also those that it was made from.
        cells: containers and objects that the program made.
        functions: the program's own functions and classes, and tools.
        open: it may be something else as well.
    """

    origins: frozenset[Origin] = frozenset()
    cells: frozenset[Cell] = frozenset()
    functions: frozenset[Function] = frozenset()
    open: bool = False

    def key(self, name: str) -> Value:
        """Return what stands under a known text key."""
        found = [cell.fields[name] for cell in self.cells if name in cell.fields]
        found += [cell.items for cell in self.cells if cell.keys is not None]
        return join(self._below(name), *found)

    def item(self, position: int) -> Value:
        """Return what stands at a known position."""
        name = str(position)
        found = [join(c.fields[name], c.items) if name in c.fields else c.everything() for c in self.cells]
        return join(self._below(ITEM), *found)

    def each(self) -> Value:
        """Return what a loop over it sees: the items of a list, the keys of a dict."""
        found = [cell.everything() if cell.keys is None else cell.keys for cell in self.cells]
        return join(self._below(ITEM), *found)

    def member(self) -> Value:
        """Return what stands under a key or position that is not known."""
        return join(self._below(MEMBER), *(cell.everything() for cell in self.cells))

    def parts(self) -> Iterator[tuple[Origin, bool]]:
        """Yield the parts of responses that it is or holds; and whether it is the part itself, not made from it."""
        seen: set[Cell] = set()
        todo = [self]
        while todo:
            value = todo.pop()
            yield from ((origin, not value.open) for origin in sorted(value.origins, key=str))
            for cell in value.cells - seen:
                seen.add(cell)
                todo.append(cell.everything())

    def derived(self) -> Value:
        """Return something computed from this value."""
        seen: set[Cell] = set()
        origins, todo = set(self.origins), [*self.cells]
        while todo:
            cell = todo.pop()
            if cell not in seen:
                count(10)
                seen.add(cell)
                everything = join(cell.everything(), cell.keys or NOTHING)
                origins |= everything.origins
                todo += everything.cells
        return Value(frozenset(origins), open=True)

    def _below(self, step: Step) -> Value:
        below = frozenset(o._replace(path=(*o.path, step)) for o in self.origins if len(o.path) < MAX_PATH)
        return Value(below, open=self.open or len(below) < len(self.origins))


NOTHING = Value()
"""A value from nowhere: the items of an empty list; a number, a text or ``None`` that the program itself holds."""
UNKNOWN = Value(open=True)


def join(*values: Value) -> Value:
    """Return any of several values."""
    kept = [value for value in values if value is not NOTHING]
    if len(values) > 2:
        count(len(values))
    if not kept or all(value is kept[0] for value in kept):
        return kept[0] if kept else NOTHING
    count(len(kept) + sum(len(value.origins) + len(value.cells) + len(value.functions) for value in kept))
    return Value(
        frozenset[Origin]().union(*(value.origins for value in kept)),
        frozenset[Cell]().union(*(value.cells for value in kept)),
        frozenset[Function]().union(*(value.functions for value in kept)),
        any(value.open for value in kept),
    )


def join_derived(values: Iterable[Value]) -> Value:
    """Return something computed from several values."""
    return join(UNKNOWN, *(value.derived() for value in values))


@dataclass(eq=False)
class Cell:
    """A container or an object that the program makes at one place. What is put into it stays in it.

    Attributes:
        items: what stands at positions, or under keys, that are not known.
        fields: what stands under known text keys, at positions of a tuple or of a list of ``parallel`` ("0", "1", …),
            or as an object's attributes.
        keys: what the keys of a dict are; ``None`` for everything else.
        made_by: the class of an object.
        more: it has items or members beside its fields.
    """

    items: Value = NOTHING
    fields: dict[str, Value] = field(default_factory=dict)
    keys: Value | None = None
    made_by: Function | None = None
    more: bool = False

    def has(self, name: str) -> bool:
        """Return whether it may have such a key, position or attribute."""
        return (
            name in self.fields or self.more or self.items is not NOTHING or (self.keys is not None and self.keys.open)
        )

    def everything(self) -> Value:
        """Return anything that stands in it."""
        return join(self.items, *self.fields.values())

    def put(self, value: Value, name: str | None = None) -> None:
        """Put a value in, under a name if it is known."""
        if name is None:
            self.items, self.more = join(self.items, value), True
        else:
            self.fields[name] = join(self.fields.get(name, NOTHING), value)

    def lose_order(self) -> None:
        """Something may have moved in a list: what stood at a known position may be anywhere now."""
        if self.fields and self.keys is None and self.made_by is None:
            self.items, self.fields, self.more = self.everything(), {}, True


@dataclass(eq=False)
class Function:
    """One of the program's own functions or classes with the scope it was made in; or a tool, by its name."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | None
    scope: Scope
    defaults: dict[str, Value] = field(default_factory=dict)
    tool: str = ""


class Scope:
    """The names of a module, a function or a comprehension.

    Args:
        parent: where names are looked up that are not here.
        kind: assignments inside a comprehension (``:=``) belong to what is around it; the names of a class are not seen
            from inside its functions.
    """

    def __init__(
        self, parent: Scope | None = None, kind: Literal["function", "comprehension", "class"] = "function"
    ) -> None:
        self.names: dict[str, Value] = {}
        self.parent, self.kind = parent, kind
        self.elsewhere: dict[str, Scope] = {}
        """Names that ``global`` or ``nonlocal`` gave to another scope."""

    def get(self, name: str) -> Value | None:
        """Return what a name means in this scope; ``None`` if nothing binds it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names and (scope is self or scope.kind != "class"):
                return scope.names[name]
            scope = scope.parent
        return None

    @property
    def top(self) -> Scope:
        """Return the scope of the module."""
        return self if self.parent is None else self.parent.top


@dataclass
class Arguments:
    """The values that a call is given. ``rest`` is what ``*`` adds, ``spread`` what ``**`` adds."""

    positional: list[Value] = field(default_factory=list)
    named: dict[str, Value] = field(default_factory=dict)
    rest: Value | None = None
    spread: Value | None = None

    def at(self, index: int, name: str = "") -> Value:
        """Return the argument at a position, or of a name."""
        if index < len(self.positional):
            return self.positional[index]
        return self.named.get(name) or self.rest or NOTHING

    def all(self) -> list[Value]:
        """Return the values of all arguments."""
        more = [value for value in (self.rest, self.spread) if value is not None]
        return [*self.positional, *self.named.values(), *more]

    def by_key(self) -> dict[str | int, Value]:
        """Return the values by position or name, without those of ``*`` and ``**``."""
        made: dict[str | int, Value] = dict(enumerate(self.positional))
        made.update(self.named)
        return made


# ----------------------------------------------------------------------------------------------------------------------
# What a response schema says of a path into the response.


_NOT_FOLLOWED = ("if", "not", "dependentSchemas", "unevaluatedProperties", "discriminator", "$dynamicRef")
_TEXT: JsonSchema = {"type": "string"}


@dataclass(frozen=True)
class Shape:
    """Describes what stands at a path, as far as the schema is sure of it.

    Attributes:
        kind: ``record`` (an object whose keys are told), ``list``, ``scalar``, or ``open`` (nothing is sure).
        keys: of a record.
        type: of a scalar, in JSON Schema's words.
        closed: a record or list that says itself that it has nothing else; any other may have more.
    """

    kind: Literal["record", "list", "scalar", "open"]
    keys: tuple[str, ...] = ()
    type: str = ""
    closed: bool = False


OPEN = Shape("open")


def shape_at(schema: JsonSchema | None, path: Sequence[Step | int]) -> Shape:
    """Return the shape at ``path``; ``open`` where the schema is silent, allows more, or has several answers."""
    places = schemas_at(schema, path)
    shapes = {_shape(place) for place in places}
    return shapes.pop() if len(shapes) == 1 else _common_record(shapes)


def schemas_at(schema: JsonSchema | None, path: Sequence[Step | int]) -> list[JsonSchema]:
    """Return the alternatives, null left aside, that a schema has for what stands at ``path``; none if silent."""
    places = [] if schema is None else _members(schema, schema)
    for step in path:
        below: list[JsonSchema] = []
        for place in places:
            found = _below(schema or {}, place, step)
            if found is None:
                return []
            below += found
        places = below
    return places


def _common_record(shapes: set[Shape]) -> Shape:
    if shapes and all(shape.kind == "record" for shape in shapes):
        keys = tuple(dict.fromkeys(key for shape in shapes for key in shape.keys))
        return Shape("record", keys, closed=all(shape.closed for shape in shapes))
    return OPEN


def _members(root: JsonSchema, schema: Any) -> list[JsonSchema]:
    found = [each.schema for each in alternatives(root, schema)]
    found = [{} if any(each.get(keyword) for keyword in _NOT_FOLLOWED) else each for each in found]
    return [each for each in found if types_of(each) != {"null"}] or found


def _below(root: JsonSchema, place: JsonSchema, step: Step | int) -> list[JsonSchema] | None:
    shape = _shape(place)
    if step == MEMBER:
        return None
    if isinstance(step, str):
        fields = _fields(place) if shape.kind == "record" else {}
        return _members(root, fields[step]) if step in fields else None
    if shape.kind == "record":  # a loop over an object sees its keys
        return [_TEXT]
    return _members(root, place["items"]) if shape.kind == "list" and isinstance(place.get("items"), dict) else None


def _fields(place: JsonSchema) -> JsonSchema:
    properties, required = place.get("properties"), place.get("required")
    undescribed = dict[str, Any].fromkeys(key for key in required if isinstance(key, str)) if required else {}
    return {**undescribed, **(properties if isinstance(properties, dict) else {})}


def _shape(place: JsonSchema) -> Shape:
    if OBSERVED in place:
        return OPEN
    types = types_of(place) - {"null"}
    if (types == {"object"} or not types) and isinstance(place.get("properties"), dict) and place["properties"]:
        if allows_more(place):
            return OPEN
        closed = place.get("additionalProperties") is False and EVIDENCE not in place and LEFT_OUT not in place
        return Shape("record", tuple(_fields(place)), closed=closed)
    if types == {"array"}:
        fixed = place.get("prefixItems")  # a named tuple of a Python function, say
        return Shape("list", closed=isinstance(fixed, list) and place.get("maxItems") == len(fixed))
    if len(types) == 1 and (kind := next(iter(types))) != "object":
        return Shape("scalar", type=kind)
    return OPEN
