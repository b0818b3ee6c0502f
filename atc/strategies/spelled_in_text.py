"""Numbers in English words, as "sixty-three" and "two hundred thousand": what each means, and where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

_UNITS = "one two three four five six seven eight nine".split()
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth".split()
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_POWERS = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_VALUES = {
    **{word: ("unit", at) for at, word in enumerate(_UNITS, 1)},
    **{word: ("nth", at) for at, word in enumerate(_ORDINALS, 1)},
    **{word: ("teen", at) for at, word in enumerate(_TEENS, 10)},
    **{word: ("tens", 10 * at) for at, word in enumerate(_TENS, 2)},
    "hundred": ("hundred", 100),
    **{word: ("power", power) for word, power in _POWERS.items()},
}
COUNTS = frozenset((*_UNITS[2:], *_TEENS, *_TENS))
"""Words that are numbers by themselves. "One" and "two" are as often no count: "the two of them"."""
_WORD = re.compile(
    rf"\b(?P<a>an? (?=hundred|{'|'.join(_POWERS)}))?"
    rf"(?P<word>{'|'.join(each for each in _VALUES if each not in _ORDINALS)}|(?<=ty-)(?:{'|'.join(_ORDINALS)}))\b",
    re.IGNORECASE,
)
_BEFORE: dict[str, dict[str, tuple[str, ...]]] = {
    "unit": {"tens": (" ", "-"), "hundred": (" ", " and "), "power": (" ", " and ")},
    "nth": {"tens": ("-",)},
    "teen": {"hundred": (" ", " and "), "power": (" ", " and ")},
    "tens": {"hundred": (" ", " and "), "power": (" ", " and ", ", ")},
    "hundred": {"unit": (" ", "-"), "teen": (" ",)},
    "power": {"unit": (" ", "-"), "teen": (" ", "-"), "tens": (" ", "-"), "hundred": (" ", "-")},
}
"""By what a word is: after which words it belongs to the same number, and what may stand between."""


class Spelled(NamedTuple):
    """A number of a text: ``number`` times ten to ``power``, which may be rounded; ``ordinal``: "twenty-fifth"."""

    start: int
    end: int
    number: Decimal
    power: int = 0
    ordinal: bool = False


class _Group:
    """The words of one number, as they come."""

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.whole, self.part, self.power, self.last = 0, 0, 0, ""

    def takes(self, kind: str, value: int, between: str) -> bool:
        """Whether a word goes on with this number."""
        if between not in _BEFORE[kind].get(self.last, ()):
            return False
        if kind == "power":
            return not self.power or value < self.power
        return kind != "hundred" or self.part < 20

    def add(self, kind: str, value: int) -> None:
        if kind == "power":
            self.whole += self.part * 10**value
            self.part, self.power = 0, value
        elif kind == "hundred":
            self.part *= 100
        else:
            self.part += value
        self.last = kind

    def number(self) -> Spelled:
        if self.last == "power":  # what it multiplies may be rounded, as in "2 million"
            return Spelled(self.start, self.end, Decimal(self.whole // 10**self.power), self.power)
        return Spelled(self.start, self.end, Decimal(self.whole + self.part), 0, self.last == "nth")


def spelled_in(text: str) -> Iterator[Spelled]:
    """The numbers in words of a text, in order; "one" and "two" by themselves are none, nor is "several hundred"."""
    group: _Group | None = None
    for match in _WORD.finditer(text):
        kind, value = _VALUES[match["word"].casefold()]
        between = text[group.end : match.start()] if group is not None else ""
        if group is None or match["a"] or not group.takes(kind, value, between.casefold()):
            if group is not None and _counts(group):
                yield group.number()
            group = _Group(match.start())
            group.part = 1 if match["a"] else 0
            if kind in ("hundred", "power", "nth") and not match["a"]:
                group = None
                continue
        group.add(kind, value)
        group.end = match.end()
    if group is not None and _counts(group):
        yield group.number()


def _counts(group: _Group) -> bool:
    return group.last != "unit" or group.whole + group.part > 2
