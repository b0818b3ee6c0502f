"""Evidence of observed JSON values, place by place: counts of types, fields, forms and repeated strings.

:class:`atc.schemas.infer.shape.Shape` is the public face. Whatever is fed, what is kept is bounded by the limits below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from atc.schemas.infer.mask import is_secret_name
from atc.schemas.infer.text import PLAIN, form

MAX_DEPTH = 20
"""Levels that are looked at; what lies deeper may be anything."""
MAX_FIELDS = 400
"""Different keys of one object; with more, its keys are data and all its values are taken as one."""
MAX_KEY = 200
"""Characters of a key that can be a field's name; a longer one is data."""
MAX_NODES = 10_000
"""Places in one shape that are kept apart; further ones may be anything."""
MAX_VALUES = 16
"""Different short strings that are remembered of one place; with more, none is."""
MAX_VALUE_LENGTH = 40
"""Characters of a string that is remembered as a possible member of an enum."""
MAX_ROW = 8
"""Items of an array that may be a row with a meaning for each position."""
_BIG = 2**63
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
        self.sink = Node()
        """Takes what belongs to no place any more."""
        self.sink.opaque = True


class Strings:
    """Evidence of strings: lengths, forms, and the values while they are few and short."""

    __slots__ = ("count", "empty", "forms", "longest", "shortest", "values")

    def __init__(self) -> None:
        self.count = self.empty = self.longest = 0
        self.shortest: int | None = None
        self.forms: dict[str, int] = {}
        self.values: dict[str, int] | None = {}

    def add(self, text: str) -> None:
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


class Numbers:
    """Evidence of numbers: whole ones, others, and the range of the finite ones."""

    __slots__ = ("fractions", "high", "integers", "low")

    def __init__(self) -> None:
        self.integers = self.fractions = 0
        self.low: float | int | None = None
        self.high: float | int | None = None

    def add(self, number: float | int) -> None:
        if type(number) is int:
            self.integers += 1
            if not -_BIG < number < _BIG:
                number = _BIG if number > 0 else -_BIG
        else:
            self.fractions += 1
            if not math.isfinite(number):
                return
        if self.low is None or self.high is None:
            self.low = self.high = number
        elif number < self.low:
            self.low = number
        elif number > self.high:
            self.high = number

    def merge(self, other: Numbers) -> None:
        self.integers += other.integers
        self.fractions += other.fractions
        if other.low is not None and other.high is not None:
            self.low = other.low if self.low is None else min(self.low, other.low)
            self.high = other.high if self.high is None else max(self.high, other.high)


class Arrays:
    """Evidence of arrays: their lengths, their items taken together, and the types at each position of short rows."""

    __slots__ = ("count", "empty", "items", "longest", "row", "rows", "shortest")

    def __init__(self) -> None:
        self.count = self.empty = self.longest = self.rows = 0
        self.shortest: int | None = None
        self.items: Node | None = None
        self.row: list[set[str]] | None = []
        """Names of the types at each position, while all arrays that are not empty have one length; else ``None``."""

    def add(self, items: list[Any] | tuple[Any, ...], tree: Tree, depth: int) -> None:
        self.count += 1
        length = len(items)
        if length > self.longest:
            self.longest = length
        if self.shortest is None or length < self.shortest:
            self.shortest = length
        if not length:
            self.empty += 1
            return
        node = self.items
        if node is None:
            node = self.items = Node.made(tree)
        for item in items:
            node.add(item, tree, depth)
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

    def merge(self, other: Arrays, tree: Tree, depth: int) -> None:
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
                self.items = Node.made(tree)
            self.items.merge(other.items, tree, depth)


class Objects:
    """Evidence of objects: their fields; or, once the keys are too many, their values taken as one.

    ``lost`` says that there were fields besides for which the shape had no place left.
    """

    __slots__ = ("count", "empty", "fields", "lost", "rest")

    def __init__(self) -> None:
        self.count = self.empty = 0
        self.lost = False
        self.fields: dict[str, Node] = {}
        self.rest: Node | None = None

    def add(self, value: Mapping[Any, Any], tree: Tree, depth: int) -> None:
        self.count += 1
        if not value:
            self.empty += 1
        fields = self.fields
        for key, item in value.items():
            node = fields.get(key)
            if node is None:
                node = self._new(key if type(key) is str else str(key), tree, depth)
            node.add(item, tree, depth)

    def _new(self, key: str, tree: Tree, depth: int) -> Node:
        if self.rest is None and key in self.fields:
            return self.fields[key]  # a key that was no string
        if self.rest is None and (len(self.fields) >= MAX_FIELDS or len(key) > MAX_KEY):
            self._fold(tree, depth)
        if self.rest is not None:
            return self.rest
        node = Node.made(tree, forgets=is_secret_name(key))
        if node is tree.sink:
            self.lost = True
        else:
            self.fields[key] = node
        return node

    def _fold(self, tree: Tree, depth: int) -> None:
        self.rest = Node.made(tree)
        for node in self.fields.values():
            self.rest.merge(node, tree, depth)
        self.fields.clear()

    def merge(self, other: Objects, tree: Tree, depth: int) -> None:
        self.count += other.count
        self.empty += other.empty
        self.lost |= other.lost
        if other.rest is not None and self.rest is None:
            self._fold(tree, depth)
        if other.rest is not None and self.rest is not None:
            self.rest.merge(other.rest, tree, depth)
        for key, node in other.fields.items():
            mine = self.fields.get(key) or self._new(key, tree, depth)
            mine.merge(node, tree, depth)


def type_name(value: Any) -> str:
    """The JSON type of a value; ``other`` for what is no JSON value."""
    name = _TYPE_NAMES.get(type(value))
    return name or ("object" if isinstance(value, Mapping) else "other")


class Node:
    """Evidence of one place: how often each type was there, and what is known of it.

    ``support`` counts the values of the whole shape in which the place was there: a hundred items of one response are
    one piece of independent evidence. ``opaque`` says that something here was not looked at, so it may be anything.
    ``forgets`` says that the place is named like a secret: no value of it is kept.
    """

    __slots__ = (
        "arrays",
        "booleans",
        "count",
        "forgets",
        "last",
        "nulls",
        "numbers",
        "objects",
        "opaque",
        "strings",
        "support",
    )

    def __init__(self) -> None:
        self.count = self.support = self.last = self.nulls = self.booleans = 0
        self.opaque = self.forgets = False
        self.numbers: Numbers | None = None
        self.strings: Strings | None = None
        self.arrays: Arrays | None = None
        self.objects: Objects | None = None

    @classmethod
    def made(cls, tree: Tree, *, forgets: bool = False) -> Node:
        """A new place; the sink when the shape has as many as it may."""
        if tree.left <= 0:
            return tree.sink
        tree.left -= 1
        node = cls()
        node.forgets = forgets
        return node

    def add(self, value: Any, tree: Tree, depth: int) -> None:
        self.count += 1
        if self.last != tree.serial:
            self.last = tree.serial
            self.support += 1
        kind = type(value)
        if kind is str:
            if self.strings is None:
                self.strings = self._new_strings()
            self.strings.add(value)
        elif kind is int or kind is float:
            if self.numbers is None:
                self.numbers = Numbers()
            self.numbers.add(value)
        elif value is None:
            self.nulls += 1
        elif kind is bool:
            self.booleans += 1
        else:
            self._add_container(value, tree, depth)

    def _add_container(self, value: Any, tree: Tree, depth: int) -> None:
        kind = type_name(value)
        if self.opaque or depth >= MAX_DEPTH or kind not in ("object", "array"):
            self.opaque, self.arrays, self.objects = True, None, None
        elif kind == "object":
            if self.objects is None:
                self.objects = Objects()
            self.objects.add(value, tree, depth + 1)
        else:
            if self.arrays is None:
                self.arrays = Arrays()
            self.arrays.add(value, tree, depth + 1)

    def _new_strings(self) -> Strings:
        made = Strings()
        if self.forgets:
            made.values = None
        return made

    def merge(self, other: Node, tree: Tree, depth: int) -> None:
        self.count += other.count
        self.support += other.support
        self.nulls += other.nulls
        self.booleans += other.booleans
        self.opaque |= other.opaque
        self.forgets |= other.forgets
        if other.strings is not None:
            self.strings = self.strings or self._new_strings()
            self.strings.merge(other.strings)
        if self.forgets and self.strings is not None:
            self.strings.values = None
        if other.numbers is not None:
            self.numbers = self.numbers or Numbers()
            self.numbers.merge(other.numbers)
        if self.opaque:  # it may be anything: what lies below says nothing any more
            self.arrays = self.objects = None
            return
        if other.arrays is not None:
            self.arrays = self.arrays or Arrays()
            self.arrays.merge(other.arrays, tree, depth + 1)
        if other.objects is not None:
            self.objects = self.objects or Objects()
            self.objects.merge(other.objects, tree, depth + 1)
