"""Shell patterns over text from outside, in time that is linear in the text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate

from atc.permissions.readings import Reader, Reading, name_of
from atc.unicode_forms import normalized

MAX_PATTERN = 200
"""Characters of a pattern."""
MAX_STARS = 12
"""``*`` in one pattern."""
_START = 50
"""Units of work that it takes to begin with a pattern (:class:`.readings.Reader`)."""


def pattern_problem(pattern: str) -> str:
    """Why a pattern cannot be used; empty where it can."""
    if not pattern:
        return "is empty: `*` fits everything"
    if len(pattern) > MAX_PATTERN:
        return f"has {len(pattern):,} characters; {MAX_PATTERN} at most"
    if pattern.count("*") > MAX_STARS:
        return f"has {pattern.count('*')} stars; {MAX_STARS} at most"
    return "has a control character" if any(unicodedata.category(c) == "Cc" for c in pattern) else ""


def literal(text: str) -> str:
    """The pattern that fits this text alone."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)


class _Globs:
    """Compiled patterns. Those of letters and stars alone are searched for, which is much faster than an expression.

    Attributes:
        weight: units of work that a character of a text takes at most.
    """

    def __init__(self, texts: Iterable[str], *, loose: bool) -> None:
        self._parts: list[list[str]] = []
        written: list[str] = []
        for text in texts:
            text = normalized("NFKC", text) if loose else text
            if "?" in text or "[" in text:
                written.append(text)
            else:
                self._parts.append(normalized("NFKC", text.casefold()).split("*") if loose else text.split("*"))
        made = "|".join(f"(?:{translate(text)})" for text in written)
        self._expression = re.compile(made, re.IGNORECASE if loose else 0) if made else None
        self.weight = len(self._parts) + sum(4 + len(text) for text in written)

    def fit(self, text: str) -> bool:
        return self.fit_expression(text) or any(_holds(parts, text) for parts in self._parts)

    def fit_expression(self, text: str) -> bool:
        return self._expression is not None and self._expression.match(text) is not None


def _holds(parts: list[str], text: str) -> bool:
    """Whether a text is made of these parts, with anything between them."""
    if len(parts) == 1:
        return text == parts[0]
    first, *middle, last = parts
    at, end = len(first), len(text) - len(last)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


@dataclass(frozen=True)
class Patterns:
    """Shell patterns (``*``, ``?``, ``[a-z]``), of which one must fit.

    Attributes:
        texts: as they were written.
    """

    texts: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "_exactly", _Globs(self.texts, loose=False))
        object.__setattr__(self, "_loosely", _Globs(self.texts, loose=True))

    def fit(self, name: str) -> bool:
        """Whether one fits a name, letter by letter. A name too long to be judged fits none."""
        return name_of(name) is not None and self._globs("_exactly").fit(name)

    def may_fit(self, name: str) -> bool:
        """Whether one may fit a name, for a rule that restricts: as the name stands, or in any of its readings."""
        reading = name_of(name)
        return reading is None or self._may_fit(reading)

    def fit_argument(self, text: str, reader: Reader) -> bool:
        """Whether one surely fits an argument, for a rule that allows.

        What :attr:`.readings.Reading.strays` fits only a pattern that is the same text; a line break fits no pattern of
        a path. Of what cannot be judged nothing is sure.
        """
        reading = reader.read(text)
        exactly = self._globs("_exactly")
        if reading is None or not reader.spend((len(text) + _START) * exactly.weight) or not exactly.fit(text):
            return False
        if text in self.texts:
            return True
        return not (reading.strays or (reading.breaks and any("/" in each or "\\" in each for each in self.texts)))

    def may_fit_argument(self, text: str, reader: Reader) -> bool:
        """Whether one may fit an argument, for a rule that restricts: what cannot be judged may."""
        reading = reader.read(text)
        if reading is None:
            return True
        size = len(text) + sum(map(len, reading.forms)) + _START * (1 + len(reading.forms))
        return not reader.spend(size * self._globs("_loosely").weight) or self._may_fit(reading)

    def _may_fit(self, reading: Reading) -> bool:
        exactly, loosely = self._globs("_exactly"), self._globs("_loosely")
        fit = exactly.fit_expression if reading.text.isascii() else exactly.fit  # else a form fits, too
        return fit(reading.text) or any(loosely.fit(form) for form in reading.forms)

    def _globs(self, name: str) -> _Globs:
        found: _Globs = getattr(self, name)
        return found


def patterns_of(texts: Iterable[str]) -> Patterns:
    """Patterns that were checked by :func:`pattern_problem`."""
    return Patterns(tuple(texts))
