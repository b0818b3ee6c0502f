"""Shell patterns over text from outside, in time that is linear in the text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate
from urllib.parse import unquote

from atc.unicode_forms import normalized

MAX_PATTERN = 200
"""Characters of a pattern."""
MAX_STARS = 12
"""``*`` in one pattern."""
MAX_JUDGED = 10_000
"""Characters of a text that a pattern is held against; nobody judges a longer one."""
_STEP = re.compile(r"[/\\]")


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


@dataclass(frozen=True)
class Patterns:
    """Shell patterns (``*``, ``?``, ``[a-z]``), of which one must fit.

    Attributes:
        texts: as they were written.
    """

    texts: tuple[str, ...]

    def __post_init__(self) -> None:
        made = "|".join(f"(?:{translate(text)})" for text in self.texts)
        object.__setattr__(self, "_exactly", re.compile(made))
        loose = "|".join(f"(?:{translate(normalized('NFKC', text))})" for text in self.texts)
        object.__setattr__(self, "_loosely", re.compile(loose, re.IGNORECASE))

    def fit(self, text: str) -> bool:
        """Whether one fits a text, letter by letter. A text too long to be judged fits none."""
        return len(text) <= MAX_JUDGED and self._matches("_exactly", text)

    def may_fit(self, text: str) -> bool:
        """Whether one may fit, for a rule that restricts: letter case, and forms of one letter, make no difference."""
        if len(text) > MAX_JUDGED or self._matches("_exactly", text):
            return True
        return self._matches("_loosely", normalized("NFKC", text))

    def fit_argument(self, text: str) -> bool:
        """:meth:`fit`, for an argument: ``..`` as a step of a path leads out of what a wildcard means."""
        if not self.fit(text):
            return False
        return text in self.texts or not climbs(text)

    def _matches(self, name: str, text: str) -> bool:
        compiled: re.Pattern[str] = getattr(self, name)
        return compiled.match(text) is not None


def climbs(text: str) -> bool:
    """Whether ``..`` stands in a text as a step of a path, written out or in percent signs."""
    seen = text
    for _ in range(3):  # what was encoded twice is decoded by somebody twice
        if ".." in _STEP.split(seen):
            return True
        seen, before = unquote(seen), seen
        if seen == before:
            return False
    return "%" in seen


def patterns_of(texts: Iterable[str]) -> Patterns:
    """Patterns that were checked by :func:`pattern_problem`."""
    return Patterns(tuple(texts))
