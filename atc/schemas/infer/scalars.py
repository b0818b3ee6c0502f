"""Evidence of values that hold no others: genson's strategies with counts, ranges, forms and repeated strings."""

from __future__ import annotations

import math
from typing import Protocol

from genson import SchemaNode
from genson.schema.strategies import Boolean, Null, Number, String

from atc.schemas.infer.text import PLAIN, form

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
