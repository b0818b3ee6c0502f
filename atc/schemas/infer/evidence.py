"""Evidence of observed JSON values, place by place: counts of types, fields, forms and repeated strings.

The engine that merges types from samples is genson: a :class:`Node` is its ``SchemaNode``, which chooses and makes one
*strategy* for each type that is met at a place, and the strategies here are its strategies with counts beside the type.
Bounds are ours, because genson has none: it keeps every key, and calls itself as deep as a value goes.

:class:`atc.schemas.infer.shape.Shape` is the public face. Whatever is fed, what is kept is bounded by the limits below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from genson import SchemaNode, SchemaStrategy
from genson.schema.strategies import Boolean, List, Null, Number, Object, String

from atc.schemas.infer.text import PLAIN, form, is_secret_name

MAX_VALUES = 16
"""Different short strings that are remembered of one place; with more, none is."""
MAX_VALUE_LENGTH = 40
"""Characters of a string that is remembered as a possible member of an enum."""
_BIG = 2**63


class Place(Protocol):
    """Where a strategy for scalars belongs: the part of a node of evidence that the strategies here set and read."""

    forgets: bool
    null: Nulls | None
    boolean: Booleans | None
    strings: Strings | None
    numbers: Numbers | None


class Nulls(Null):
    """Evidence of nulls: how many."""

    count = 0

    def bind(self, place: Place) -> None:
        place.null = self

    def add_object(self, value: None) -> None:
        self.count += 1


class Booleans(Boolean):
    """Evidence of truth values: how many."""

    count = 0

    def bind(self, place: Place) -> None:
        place.boolean = self

    def add_object(self, value: bool) -> None:
        self.count += 1


class Strings(String):
    """Evidence of strings: lengths, forms, and the values while they are few and short."""

    def __init__(self, node_class: type[SchemaNode]) -> None:
        super().__init__(node_class)
        self.count = self.empty = self.longest = 0
        self.shortest: int | None = None
        self.forms: dict[str, int] = {}
        self.values: dict[str, int] | None = {}

    def bind(self, place: Place) -> None:
        place.strings = self
        if place.forgets:
            self.values = None

    def add_object(self, text: str) -> None:
        self.count += 1
        length = len(text)
        if length > self.longest:
            self.longest = length
        if self.shortest is None or length < self.shortest:
            self.shortest = length
        values = self.values
        if values is not None:
            if text in values:
                values[text] += 1
            elif length <= MAX_VALUE_LENGTH and len(values) < MAX_VALUES:
                values[text] = 1
            else:
                self.values = None
        if not length:
            self.empty += 1
        elif PLAIN not in self.forms:  # one plain text settles that there is no form
            kind = form(text)
            self.forms[kind] = self.forms.get(kind, 0) + 1

    def merge(self, other: Strings) -> None:
        self.count += other.count
        self.empty += other.empty
        self.longest = max(self.longest, other.longest)
        lengths = [length for length in (self.shortest, other.shortest) if length is not None]
        self.shortest = min(lengths, default=None)
        for kind, count in other.forms.items():
            self.forms[kind] = self.forms.get(kind, 0) + count
        if self.values is not None:
            for text, count in (other.values or {}).items():
                self.values[text] = self.values.get(text, 0) + count
            if other.values is None or len(self.values) > MAX_VALUES:
                self.values = None


class Numbers(Number):
    """Evidence of numbers: whole ones, others, and the range of the finite ones."""

    def __init__(self, node_class: type[SchemaNode]) -> None:
        super().__init__(node_class)
        self.integers = self.fractions = 0
        self.low: float | int | None = None
        self.high: float | int | None = None

    def bind(self, place: Place) -> None:
        place.numbers = self

    def add_object(self, number: float | int) -> None:
        if type(number) is int:
            self.integers += 1
            if not -_BIG < number < _BIG:
                number = _BIG if number > 0 else -_BIG
        else:
            self.fractions += 1
            super().add_object(number)  # genson widens the type
            if not math.isfinite(number):
                return
        if self.low is None or self.high is None:
            self.low = self.high = number
        elif number < self.low:
            self.low = number
        elif number > self.high:
            self.high = number

    def merge(self, other: Numbers) -> None:
        self.add_schema(other.to_schema())
        self.integers += other.integers
        self.fractions += other.fractions
        if other.low is not None and other.high is not None:
            self.low = other.low if self.low is None else min(self.low, other.low)
            self.high = other.high if self.high is None else max(self.high, other.high)


MAX_DEPTH = 20
"""Levels that are looked at; what lies deeper may be anything."""
MAX_FIELDS = 400
"""Different keys of one object; with more, its keys are data and all its values are taken as one."""
MAX_KEY = 200
"""Characters of a key that can be a field's name; a longer one is data."""
MAX_NODES = 10_000
"""Places in one shape that are kept apart; further ones may be anything."""
MAX_ROW = 8
"""Items of an array that may be a row with a meaning for each position."""
_TYPE_NAMES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    dict: "object",
    list: "array",
    tuple: "array",
}


class Tree:
    """What the places of one shape share: the number of the value being added, and how many places may yet be made."""

    __slots__ = ("left", "serial", "sink")

    def __init__(self, left: int = MAX_NODES) -> None:
        self.serial = 0
        self.left = left
        self.sink = Node(self)
        """Takes what belongs to no place any more."""
        self.sink.opaque = True


class Arrays(List):
    """Evidence of arrays: their lengths, their items taken together, and the types at each position of short rows."""

    def __init__(self, node_class: type[Node]) -> None:
        SchemaStrategy.__init__(self, node_class)  # a place for items is made with the first item, and counted
        self.count = self.empty = self.longest = self.rows = 0
        self.shortest: int | None = None
        self.items: Node | None = None
        self.row: list[set[str]] | None = []
        """Names of the types at each position, while all arrays that are not empty have one length; else ``None``."""

    @property
    def _items(self) -> Node | None:
        """Where genson looks for the items."""
        return self.items

    @staticmethod
    def match_object(obj: Any) -> bool:
        return type(obj) in (list, tuple)

    def bind(self, place: Node) -> None:
        place.arrays = self
        self.tree, self.depth = place.tree, place.depth + 1

    def add_object(self, items: list[Any] | tuple[Any, ...]) -> None:
        self.count += 1
        length = len(items)
        if length > self.longest:
            self.longest = length
        if self.shortest is None or length < self.shortest:
            self.shortest = length
        if not length:
            self.empty += 1
            return
        if self.items is None:
            self.items = Node.made(self.tree, self.depth)
        super().add_object(items)
        if self.row is not None:
            self._add_row(items, length)

    def _add_row(self, items: list[Any] | tuple[Any, ...], length: int) -> None:
        if not self.row and not self.rows and 2 <= length <= MAX_ROW:
            self.row = [set() for _ in range(length)]
        if self.row is None or len(self.row) != length:
            self.row = None
            return
        self.rows += 1
        for kinds, item in zip(self.row, items, strict=True):
            kinds.add(type_name(item))

    def merge(self, other: Arrays) -> None:
        if not other.rows and other.row is not None:
            pass  # nothing known of rows there
        elif not self.rows and self.row is not None:
            self.row = None if other.row is None else [set(kinds) for kinds in other.row]
        elif self.row is None or other.row is None or len(self.row) != len(other.row):
            self.row = None
        else:
            self.row = [mine | theirs for mine, theirs in zip(self.row, other.row, strict=True)]
        self.rows = self.rows + other.rows if self.row is not None else 0
        self.count += other.count
        self.empty += other.empty
        self.longest = max(self.longest, other.longest)
        lengths = [length for length in (self.shortest, other.shortest) if length is not None]
        self.shortest = min(lengths, default=None)
        if other.items is not None:
            if self.items is None:
                self.items = Node.made(self.tree, self.depth)
            self.items.merge(other.items)


class Objects(Object):
    """Evidence of objects: their fields; or, once the keys are too many, their values taken as one.

    Fields are added here and not by genson, which keeps every key there is, and of its presence only whether it lasted.

    ``lost`` says that there were fields besides for which the shape had no place left.
    """

    def __init__(self, node_class: type[Node]) -> None:
        SchemaStrategy.__init__(self, node_class)
        self.count = self.empty = 0
        self.lost = self._include_empty_required = False
        self.fields: dict[str, Node] = {}
        self.rest: Node | None = None
        self._pattern_properties: dict[str, Node] = {}

    @property
    def _properties(self) -> dict[str, Node]:
        """Where genson looks for the fields."""
        return self.fields

    @property
    def _required(self) -> set[str]:
        """Where genson looks for the fields that all objects had."""
        return {key for key, node in self.fields.items() if node.count == self.count}

    @staticmethod
    def match_object(obj: Any) -> bool:
        return isinstance(obj, Mapping)

    def bind(self, place: Node) -> None:
        place.objects = self
        self.tree, self.depth = place.tree, place.depth + 1

    def add_object(self, value: Mapping[Any, Any]) -> None:
        self.count += 1
        if not value:
            self.empty += 1
        fields = self.fields
        for key, item in value.items():
            node = fields.get(key)
            if node is None:
                node = self._new(key if type(key) is str else str(key))
            node.add_object(item)

    def _new(self, key: str) -> Node:
        if self.rest is None and key in self.fields:
            return self.fields[key]  # a key that was no string
        if self.rest is None and (len(self.fields) >= MAX_FIELDS or len(key) > MAX_KEY):
            self._fold()
        if self.rest is not None:
            return self.rest
        node = Node.made(self.tree, self.depth, forgets=is_secret_name(key))
        if node is self.tree.sink:
            self.lost = True
        else:
            self.fields[key] = node
        return node

    def _fold(self) -> None:
        self.rest = Node.made(self.tree, self.depth)
        for node in self.fields.values():
            self.rest.merge(node)
        self.fields.clear()

    def merge(self, other: Objects) -> None:
        self.count += other.count
        self.empty += other.empty
        self.lost |= other.lost
        if other.rest is not None and self.rest is None:
            self._fold()
        if other.rest is not None and self.rest is not None:
            self.rest.merge(other.rest)
        for key, node in other.fields.items():
            mine = self.fields.get(key)
            (self._new(key) if mine is None else mine).merge(node)


class Anything(SchemaStrategy):
    """What no other strategy takes: values that are no JSON, and what lies too deep. Nothing is kept of it."""

    @staticmethod
    def match_object(obj: Any) -> bool:
        return True

    def bind(self, place: Node) -> None:
        place.opaque = True

    def add_object(self, value: Any) -> None:
        pass


def type_name(value: Any) -> str:
    """The JSON type of a value; ``other`` for what is no JSON value."""
    name = _TYPE_NAMES.get(type(value))
    return name or ("object" if isinstance(value, Mapping) else "other")


_Strategy = TypeVar("_Strategy", Nulls, Booleans, Strings, Numbers, Arrays, Objects, Anything)


class Node(SchemaNode):
    """Evidence of one place: how often each type was there, and what is known of it.

    ``support`` counts the values of the whole shape in which the place was there: a hundred items of one response are
    one piece of independent evidence. ``opaque`` says that something here was not looked at, so it may be anything.
    ``forgets`` says that the place is named like a secret: no value of it is kept.
    """

    STRATEGIES = (Strings, Numbers, Nulls, Booleans, Objects, Arrays, Anything)

    _active_strategies: list[Any]
    count = support = last = 0
    opaque = forgets = False
    null: Nulls | None = None
    boolean: Booleans | None = None
    numbers: Numbers | None = None
    strings: Strings | None = None
    arrays: Arrays | None = None
    objects: Objects | None = None

    def __init__(self, tree: Tree, depth: int = 0, *, forgets: bool = False) -> None:
        super().__init__()
        self.tree, self.depth = tree, depth
        if forgets:
            self.forgets = True
        self._of_type: dict[type, Any] = {}
        """Python's type → its strategy: genson asks every strategy in turn, for every value."""

    @classmethod
    def made(cls, tree: Tree, depth: int, *, forgets: bool = False) -> Node:
        """A new place; the sink when the shape has as many as it may."""
        if tree.left <= 0:
            return tree.sink
        tree.left -= 1
        return cls(tree, depth, forgets=forgets)

    @property
    def nulls(self) -> int:
        """How many values were null."""
        return 0 if self.null is None else self.null.count

    @property
    def booleans(self) -> int:
        """How many values were true or false."""
        return 0 if self.boolean is None else self.boolean.count

    def add_object(self, value: Any) -> None:
        """Take a value as evidence: genson's method, with a count."""
        self.count += 1
        if self.last != self.tree.serial:
            self.last = self.tree.serial
            self.support += 1
        strategy = self._of_type.get(type(value))
        if strategy is None:
            strategy = self._chosen(value)
        strategy.add_object(value)

    def _chosen(self, value: Any) -> Any:
        """The strategy for a value; it takes all values of that type from now on."""
        kind: Any = next(kind for kind in self.STRATEGIES if kind.match_object(value))
        if kind in (Arrays, Objects) and (self.opaque or self.depth >= MAX_DEPTH):
            kind = Anything
        strategy = self._of_type[type(value)] = self.having(kind)
        if kind is Anything:
            self._close()
        return strategy

    def having(self, kind: type[_Strategy]) -> _Strategy:
        """The strategy of this kind, made if need be: genson's nodes have one for each type that was met."""
        for strategy in self._active_strategies:
            if type(strategy) is kind:
                return strategy
        made = kind(Node)
        made.bind(self)
        self._active_strategies.append(made)
        return made

    def _close(self) -> None:
        """Drop what is known of containers: this place may hold anything."""
        self._active_strategies = [known for known in self._active_strategies if type(known) not in (Arrays, Objects)]
        self._of_type = {type_: known for type_, known in self._of_type.items() if type(known) not in (Arrays, Objects)}
        self.arrays = self.objects = None

    def merge(self, other: Node) -> None:
        """Take all evidence of another place, which stays as it is."""
        self.count += other.count
        self.support += other.support
        if other.null is not None:
            self.having(Nulls).count += other.nulls
        if other.boolean is not None:
            self.having(Booleans).count += other.booleans
        self.opaque |= other.opaque
        self.forgets |= other.forgets
        if other.strings is not None:
            self.having(Strings).merge(other.strings)
        if self.forgets and self.strings is not None:
            self.strings.values = None
        if other.numbers is not None:
            self.having(Numbers).merge(other.numbers)
        if self.opaque:
            self._close()
            return
        if other.arrays is not None:
            self.having(Arrays).merge(other.arrays)
        if other.objects is not None:
            self.having(Objects).merge(other.objects)
