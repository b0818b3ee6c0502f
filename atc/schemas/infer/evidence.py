"""Evidence of observed JSON values, place by place: counts of types, fields, forms and repeated strings.

:class:`atc.schemas.infer.shape.Shape` is the public face. Whatever is fed, what is kept is bounded by the limits below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, StrictFloat, StrictInt

from atc.schemas.infer.text import PLAIN, form, is_secret_name

MAX_VALUES = 16
"""Different short strings that are remembered of one place; with more, none is."""
MAX_VALUE_LENGTH = 40
"""Characters of a string that is remembered as a possible member of an enum."""
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
_BIG = 2**63
_TYPE_NAMES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    dict: "object",
    list: "array",
    tuple: "array",
}
Count = Annotated[int, Field(strict=True, ge=0)]
"""A number of values. The bounds of these fields are asked where evidence is read back, and nowhere else."""
_Value = Annotated[str, Field(max_length=MAX_VALUE_LENGTH)]
_Number = StrictInt | StrictFloat


@dataclass
class Lengths:
    """How many values there were, how many of them were empty, and the shortest and the longest."""

    count: Count = 0
    empty: Count = 0
    longest: Count = 0
    shortest: Count | None = None

    def measure(self, length: int) -> None:
        """Count one value."""
        self.count += 1
        if not length:
            self.empty += 1
        if length > self.longest:
            self.longest = length
        if self.shortest is None or length < self.shortest:
            self.shortest = length

    def add_lengths(self, other: Lengths) -> None:
        """Count the values of another place, too."""
        self.count += other.count
        self.empty += other.empty
        self.longest = max(self.longest, other.longest)
        lengths = [length for length in (self.shortest, other.shortest) if length is not None]
        self.shortest = min(lengths, default=None)


@dataclass
class Strings(Lengths):
    """Evidence of strings: lengths, forms, and the values while they are few and short."""

    forms: dict[str, Count] = field(default_factory=dict)
    values: Annotated[dict[_Value, Count], Field(max_length=MAX_VALUES)] | None = field(default_factory=dict)

    def add(self, text: str) -> None:
        """Take a string as evidence."""
        self.measure(len(text))
        values = self.values
        if values is not None:
            if text in values:
                values[text] += 1
            elif len(text) <= MAX_VALUE_LENGTH and len(values) < MAX_VALUES:
                values[text] = 1
            else:
                self.values = None
        if text and PLAIN not in self.forms:  # one plain text settles that there is no form
            kind = form(text)
            self.forms[kind] = self.forms.get(kind, 0) + 1

    def merge(self, other: Strings) -> None:
        """Take the evidence of another place, too."""
        self.add_lengths(other)
        for kind, count in other.forms.items():
            self.forms[kind] = self.forms.get(kind, 0) + count
        if self.values is not None:
            for text, count in (other.values or {}).items():
                self.values[text] = self.values.get(text, 0) + count
            if other.values is None or len(self.values) > MAX_VALUES:
                self.values = None


@dataclass
class Numbers:
    """Evidence of numbers: whole ones, others, and the range of the finite ones."""

    integers: Count = 0
    fractions: Count = 0
    low: _Number | None = None
    high: _Number | None = None

    @property
    def count(self) -> int:
        """Return how many there were."""
        return self.integers + self.fractions

    @property
    def type(self) -> str:
        """Return the JSON type of all of them."""
        return "number" if self.fractions else "integer"

    def add(self, number: float) -> None:
        """Take a number as evidence."""
        if isinstance(number, int):
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
        """Take the evidence of another place, too."""
        self.integers += other.integers
        self.fractions += other.fractions
        if other.low is not None and other.high is not None:
            self.low = other.low if self.low is None else min(self.low, other.low)
            self.high = other.high if self.high is None else max(self.high, other.high)


class Tree:
    """What the places of one shape share: the number of the value being added, and how many places may yet be made."""

    __slots__ = ("left", "serial", "sink")

    def __init__(self, left: int = MAX_NODES) -> None:
        self.serial = 0
        self.left = left
        self.sink = Node(self)
        """Takes what belongs to no place any more."""
        self.sink.opaque = True


class Arrays(Lengths):
    """Evidence of arrays: their lengths, their items taken together, and the types at each position of short rows."""

    def __init__(self, place: Node) -> None:
        super().__init__()
        self.tree, self.depth = place.tree, place.depth + 1
        self.rows = 0
        self.items: Node | None = None
        self.row: list[set[str]] | None = []
        """Names of the types at each position, while all arrays that are not empty have one length; else ``None``."""

    def add(self, items: Sequence[Any]) -> None:
        """Take an array as evidence."""
        self.measure(len(items))
        if not items:
            return
        if self.items is None:
            self.items = Node.made(self.tree, self.depth)
        for item in items:
            self.items.add(item)
        if self.row is not None:
            self._add_row(items)

    def _add_row(self, items: Sequence[Any]) -> None:
        if not self.row and not self.rows and 2 <= len(items) <= MAX_ROW:
            self.row = [set() for _ in items]
        if self.row is None or len(self.row) != len(items):
            self.row = None
            return
        self.rows += 1
        for kinds, item in zip(self.row, items, strict=True):
            kinds.add(type_name(item))

    def merge(self, other: Arrays) -> None:
        """Take the evidence of another place, too."""
        if not other.rows and other.row is not None:
            pass  # nothing known of rows there
        elif not self.rows and self.row is not None:
            self.row = None if other.row is None else [set(kinds) for kinds in other.row]
        elif self.row is None or other.row is None or len(self.row) != len(other.row):
            self.row = None
        else:
            self.row = [mine | theirs for mine, theirs in zip(self.row, other.row, strict=True)]
        self.rows = self.rows + other.rows if self.row is not None else 0
        self.add_lengths(other)
        if other.items is not None:
            if self.items is None:
                self.items = Node.made(self.tree, self.depth)
            self.items.merge(other.items)


class Objects:
    """Evidence of objects: their fields; or, once the keys are too many, their values taken as one.

    ``lost`` says that there were fields besides for which the shape had no place left.
    """

    def __init__(self, place: Node) -> None:
        self.tree, self.depth = place.tree, place.depth + 1
        self.count = self.empty = 0
        self.lost = False
        self.fields: dict[str, Node] = {}
        self.rest: Node | None = None

    def add(self, value: Mapping[Any, Any]) -> None:
        """Take an object as evidence."""
        self.count += 1
        if not value:
            self.empty += 1
        fields = self.fields
        for key, item in value.items():
            node = fields.get(key)
            if node is None:
                node = self._new(key if type(key) is str else str(key))
            node.add(item)

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
        """Take the evidence of another place, too."""
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


def type_name(value: Any) -> str:
    """Return the JSON type of a value; ``other`` for what is no JSON value."""
    if (name := _TYPE_NAMES.get(type(value))) is not None:
        return name
    kinds = {str: "string", int: "integer", float: "number", Mapping: "object"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "other")


class Node:
    """Evidence of one place: how often each type was there, and what is known of it.

    ``support`` counts the values of the whole shape in which the place was there: a hundred items of one response are
    one piece of independent evidence. ``opaque`` says that something here was not looked at, so it may be anything.
    ``forgets`` says that the place is named like a secret: no value of it is kept.
    """

    def __init__(self, tree: Tree, depth: int = 0, *, forgets: bool = False) -> None:
        self.tree, self.depth, self.forgets = tree, depth, forgets
        self.count = self.support = self.last = self.nulls = self.booleans = 0
        self.opaque = False
        self.strings: Strings | None = None
        self.numbers: Numbers | None = None
        self.arrays: Arrays | None = None
        self.objects: Objects | None = None

    @classmethod
    def made(cls, tree: Tree, depth: int, *, forgets: bool = False) -> Node:
        """Make a place; the sink when the shape has as many as it may."""
        if tree.left <= 0:
            return tree.sink
        tree.left -= 1
        return cls(tree, depth, forgets=forgets)

    def add(self, value: Any) -> None:
        """Take a value as evidence."""
        self.count += 1
        if self.last != self.tree.serial:
            self.last = self.tree.serial
            self.support += 1
        kind = type_name(value)
        if kind == "string":
            self.having_strings().add(value)
        elif kind in ("integer", "number"):
            self.having_numbers().add(value)
        elif kind == "null":
            self.nulls += 1
        elif kind == "boolean":
            self.booleans += 1
        elif self.opaque or self.depth >= MAX_DEPTH or kind == "other":
            self._close()
        elif kind == "object":
            self.having_objects().add(value)
        else:
            self.having_arrays().add(value)

    def having_strings(self) -> Strings:
        """Return the evidence of strings, made if need be."""
        if self.strings is None:
            self.strings = Strings(values=None if self.forgets else {})
        return self.strings

    def having_numbers(self) -> Numbers:
        """Return the evidence of numbers, made if need be."""
        if self.numbers is None:
            self.numbers = Numbers()
        return self.numbers

    def having_arrays(self) -> Arrays:
        """Return the evidence of arrays, made if need be."""
        if self.arrays is None:
            self.arrays = Arrays(self)
        return self.arrays

    def having_objects(self) -> Objects:
        """Return the evidence of objects, made if need be."""
        if self.objects is None:
            self.objects = Objects(self)
        return self.objects

    def _close(self) -> None:
        """Drop what is known of containers: this place may hold anything."""
        self.opaque = True
        self.arrays = self.objects = None

    def merge(self, other: Node) -> None:
        """Take all evidence of another place, which stays as it is."""
        self.count += other.count
        self.support += other.support
        self.nulls += other.nulls
        self.booleans += other.booleans
        self.forgets |= other.forgets
        if other.strings is not None:
            self.having_strings().merge(other.strings)
        if self.forgets and self.strings is not None:
            self.strings.values = None
        if other.numbers is not None:
            self.having_numbers().merge(other.numbers)
        if self.opaque or other.opaque:
            self._close()
            return
        if other.arrays is not None:
            self.having_arrays().merge(other.arrays)
        if other.objects is not None:
            self.having_objects().merge(other.objects)
