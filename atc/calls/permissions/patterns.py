"""Shell patterns over text from outside, in time that is linear in the text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from pydantic import BeforeValidator

from atc._host.invisible import without_invisible
from atc._host.unicode_forms import normalized
from atc.calls.permissions.meanings import Meaning, is_one, meaning_of, parts_of
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.schemas.telltales import disguised_telltale

# ----------------------------------------------------------------------------------------------------------------------
# Texts from outside as rules read them: each one once, and all of a call within one budget of work.
#
# A service may take other spellings for the same: another letter case, full-width forms, characters that nobody sees,
# percent signs, ``.`` and ``..`` as steps of a path. A rule that restricts counts each of these readings. A rule that
# allows counts the text as it stands, and only if no reading leads elsewhere.


MAX_JUDGED = 10_000
"""Characters of an argument, as it stands and in a normal form; nobody judges a longer one."""
MAX_NAME = 2_000
"""Characters of a name: of a tool, a source, a principal, a client. Nobody judges a longer one."""
MAX_WORK = 30_000_000
"""Units of work that the arguments of one call may take: a unit is about what it takes to hold one character against
one pattern, 1 to 3 ns. What is left then, nobody judges."""
MAX_GROWTH = 18
"""Characters that one becomes in a normal form at most (Unicode Standard Annex #15, §9)."""
_STEP, _PER_CHARACTER, _PER_ESCAPE, _PER_PART = 100, 20, 300, 1_000
"""Units of a step through values, of reading a character, of one percent sign or slash, and of a part of a text."""
_PART_ENDS = "@,;&|<>()\n"
_ROUNDS = 3
"""Times that a text is decoded: what was encoded twice is decoded by somebody twice."""

_SLASHES = "/\\\\\u2044\u2215\u2216\u29f5\u29f8\u29f9\u2571\u2572"
_SLASH = re.compile(f"[{_SLASHES}]")
_DOTS = re.compile(r"[.\u3002](?:\s*[.\u3002])+\s*(?:[;?#]|$)")
_CLIMB = re.compile(rf"(?:^|[{_SLASHES}])\s*[.\u3002](?:\s*[.\u3002])+\s*(?:[;?#{_SLASHES}]|$)")
"""``..`` as a step: also with blanks in it, with more dots, and with parameters behind it."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_BREAK = re.compile(r"[\t\n\r\u2028\u2029]")
_ESCAPE = re.compile("%[0-9a-fA-F]{2}")
_UTF16_ESCAPE = re.compile(r"%u([0-9a-fA-F]{4})")
_NO_UTF8 = re.compile(rb"[\xc0\xc1\xf5-\xff]|\xe0[\x80-\x9f]|\xf0[\x80-\x8f]")
"""Bytes that UTF-8 never has: overlong forms, in which ``.`` and ``/`` can hide."""


@dataclass(frozen=True)
class Reading:
    """A text, read.

    Attributes:
        text: as it stands.
        forms: what it may be taken for, in small letters too; for rules that restrict.
        strays: ``..`` is a step of a path in it, in any spelling, or it holds a control character or bytes that no text
            has: it may lead out of what a pattern means.
        breaks: it holds a line break or a tab, in any spelling: no path does.
    """

    text: str
    forms: tuple[str, ...]
    strays: bool
    breaks: bool


class Reader:
    """Reads the texts of one call.

    Attributes:
        left: units of work; below 0, nobody judges what comes.
    """

    def __init__(self, work: int = MAX_WORK) -> None:
        self.left = work
        self._readings: dict[str, Reading | None] = {}

    @property
    def is_spent(self) -> bool:
        """Return whether there was more to judge than one call may cost."""
        return self.left < 0

    def spend(self, units: int = _STEP) -> bool:
        """Return whether so much work can still be done; it is counted."""
        self.left -= units
        return self.left >= 0

    def read(self, text: str) -> Reading | None:
        """Return a text, read once; ``None`` where it is too long, or too much was read before."""
        if text not in self._readings:
            self._readings[text] = self._read(text)
        return self._readings[text]

    def _read(self, text: str) -> Reading | None:
        if len(text) > MAX_JUDGED:
            return None
        escapes = sum(map(text.count, ("%", "/", "\\")))
        if not self.spend(_STEP + _PER_CHARACTER * len(text) + _PER_ESCAPE * escapes):
            return None
        reading = reading_of(text)
        if not text.isascii():
            made = MAX_GROWTH * len(text) if reading is None else sum(map(len, reading.forms))
            self.spend(_PER_CHARACTER * made)
        return None if self.is_spent else reading


@lru_cache(maxsize=1_024)
def name_of(text: str) -> Reading | None:
    """Return a name, read; ``None`` where it is too long to be judged."""
    return reading_of(text) if len(text) <= MAX_NAME else None


def reading_of(text: str) -> Reading | None:
    """Read a text; ``None`` where it is too long, as it stands or in a normal form."""
    if len(text) > MAX_JUDGED or len(plain := normalized("NFKC", text)) > MAX_JUDGED:
        return None
    folded = _folded(plain)
    decoded, is_text = _decoded(plain)
    unhidden = _unhidden(decoded)
    forms = tuple(dict.fromkeys((plain, folded, _unhidden(folded).strip(), _path(_folded(unhidden)))))
    if any(len(form) > MAX_JUDGED for form in forms):
        return None
    odd = not decoded.isprintable()
    strays = not is_text or (odd and _CONTROL.search(decoded) is not None) or _climbs(unhidden)
    return Reading(text, forms, strays, breaks=odd and _BREAK.search(decoded) is not None)


def _unhidden(text: str) -> str:
    text = without_invisible(text)
    return text if text.isprintable() else _CONTROL.sub("", text)


def _climbs(text: str) -> bool:
    return text.count(".") + text.count("\u3002") > 1 and _CLIMB.search(text) is not None


def _folded(text: str) -> str:
    """Return a text in small letters, with one ``i`` for the dotless and the dotted one."""
    folded = text.casefold()
    if folded.isascii():
        return folded
    return normalized("NFKC", folded).replace("i\u0307", "i").replace("\u0131", "i")


def _decoded(text: str) -> tuple[str, bool]:
    is_text = True
    for _ in range(_ROUNDS):
        if "%" not in text:
            return text, is_text
        raw = unquote_to_bytes(_UTF16_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text).encode("utf-8", "replace"))
        is_text = is_text and _NO_UTF8.search(raw) is None
        before, text = text, normalized("NFKC", raw.decode("utf-8", "replace"))
        if text == before:
            return text, is_text
    return text, is_text and _ESCAPE.search(text) is None


def _path(text: str) -> str:
    """Return a text as a file system walks it, if it is a path; else without blanks around it."""
    steps = _SLASH.split(text)
    if len(steps) == 1:
        return text.strip()
    walked: list[str] = []
    for step in map(str.strip, steps):
        if _DOTS.match(step):
            del walked[-1:]
        elif step not in ("", "."):
            walked.append(step)
    return ("" if steps[0] else "/") + "/".join(walked)


MAX_PATTERN = 200
"""Characters of a pattern."""
MAX_STARS = 12
"""``*`` in one pattern."""
MAX_PATTERNS = 200
"""Patterns of one list."""
_AS_ITSELF = str.maketrans({character: f"[{character}]" for character in "*?["})
_START = 50
"""Units of work that it takes to begin with a pattern (:class:`.readings.Reader`)."""


def pattern_problem(pattern: str) -> str:
    """Return why a pattern cannot be used; empty where it can."""
    if not pattern:
        return "is empty: `*` fits everything"
    if len(pattern) > MAX_PATTERN:
        return f"has {len(pattern):,} characters; {MAX_PATTERN} at most"
    if pattern.count("*") > MAX_STARS:
        return f"has {pattern.count('*')} stars; {MAX_STARS} at most"
    return "has a control character" if any(unicodedata.category(c) == "Cc" for c in pattern) else ""


def literal(text: str) -> str:
    """Return the pattern that fits this text alone."""
    return text.translate(_AS_ITSELF)


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
    _meanings: frozenset[Meaning] = field(default=frozenset(), init=False, repr=False, compare=False)
    _each: Sequence[tuple[str, _Globs]] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_exactly", _Globs(self.texts, loose=False))
        object.__setattr__(self, "_loosely", _Globs(self.texts, loose=True))
        object.__setattr__(self, "_meanings", frozenset(filter(None, map(meaning_of, self.texts))))
        each = [(text, _Globs([text], loose=False)) for text in self.texts] if self._meanings else ()
        object.__setattr__(self, "_each", each)

    def fit(self, name: str) -> bool:
        """Return whether one fits a name, letter by letter. A name too long to be judged fits none."""
        return name_of(name) is not None and self._globs("_exactly").fit(name)

    def may_fit(self, name: str) -> bool:
        """Return whether one may fit a name, for a rule that restricts: as it stands, or in any of its readings."""
        reading = name_of(name)
        return reading is None or self._may_fit(reading)

    def fit_argument(self, text: str, reader: Reader) -> bool:
        """Return whether one surely fits an argument, for a rule that allows.

        What :attr:`.readings.Reading.strays` fits only a pattern that is the same text; a line break fits no pattern of
        a path, and no second command or address one of the first (:mod:`.meanings`). Of what cannot be judged nothing
        is sure.
        """
        reading = reader.read(text)
        exactly = self._globs("_exactly")
        if reading is None or not reader.spend((len(text) + _START) * exactly.weight) or not exactly.fit(text):
            return False
        if text in self.texts:
            return True
        if reading.strays or (reading.breaks and any("/" in each or "\\" in each for each in self.texts)):
            return False
        return not self._meanings or any(glob.fit(text) and _means(pattern, reading) for pattern, glob in self._each)

    def may_fit_argument(self, text: str, reader: Reader) -> bool:
        """Return whether one may fit an argument, for a rule that restricts: what cannot be judged may."""
        reading = reader.read(text)
        if reading is None:
            return True
        size = len(text) + sum(map(len, reading.forms)) + _START * (1 + len(reading.forms))
        loosely = self._globs("_loosely")
        if not reader.spend(size * loosely.weight) or self._may_fit(reading):
            return True
        return any(self._may_hold(form, reader) for form in reading.forms)

    def _may_hold(self, form: str, reader: Reader) -> bool:
        """Return whether one may fit a command, an address or a path within a text."""
        if not reader.spend(_PER_CHARACTER * len(form) + _PER_PART * sum(map(form.count, _PART_ENDS))):
            return True
        loosely, parts = self._globs("_loosely"), parts_of(form, self._meanings, reader.spend)
        if parts is None or not reader.spend(sum(_START + len(part) for part in parts) * loosely.weight):
            return True
        return any(map(loosely.fit, parts))

    def _may_fit(self, reading: Reading) -> bool:
        exactly, loosely = self._globs("_exactly"), self._globs("_loosely")
        fit = exactly.fit_expression if reading.text.isascii() else exactly.fit  # else a form fits, too
        return fit(reading.text) or any(loosely.fit(form) for form in reading.forms)

    def _globs(self, name: str) -> _Globs:
        found: _Globs = getattr(self, name)
        return found


def _means(pattern: str, reading: Reading) -> bool:
    readings = (reading.text,) if "://" in pattern else (reading.text, *reading.forms)
    return all(is_one(pattern, each) for each in readings)


def patterns_of(texts: Iterable[str]) -> Patterns:
    """Patterns that were checked by :func:`pattern_problem`."""
    return Patterns(tuple(texts))


def _read(given: Any) -> Patterns:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise ValueError("takes a pattern, or a list of patterns")
    if not 0 < len(texts) <= MAX_PATTERNS:
        raise ValueError(f"takes 1 to {MAX_PATTERNS} patterns")
    for each in texts:
        if problem := pattern_problem(each):
            raise ValueError(f"the pattern {each[:60]!r} {problem}")
    return patterns_of(texts)


PatternsOf = Annotated[Patterns, BeforeValidator(_read)]


# ----------------------------------------------------------------------------------------------------------------------
# What a tool is taken for: a read, a write, or nobody knows. A server's hint is a stranger's word.


_GRAVITY = {Effect.READ: 0, Effect.UNKNOWN: 1, Effect.WRITE: 2}


def effect_of(protocol: Protocol, said: Sequence[tuple[Patterns, Effect]] = ()) -> Effect:
    """Return the effect of a tool.

    The user's own word counts first, the gravest of all that fit. Else the protocol's; but a tool of an MCP server that
    says it reads, and has a verb of effects in its name, however it is written, is of unknown effect, as for probing.

    Args:
        protocol: of the tool.
        said: by the user, for patterns of names.
    """
    fitting = [effect for patterns, effect in said if _says(patterns, effect, protocol)]
    if fitting:
        return max(fitting, key=_GRAVITY.__getitem__)
    if protocol.effect is not Effect.READ or protocol.source.kind != "mcp":
        return protocol.effect
    doubted = disguised_telltale(protocol.source.operation) or disguised_telltale(protocol.name)
    return Effect.UNKNOWN if doubted else Effect.READ


def _says(patterns: Patterns, effect: Effect, protocol: Protocol) -> bool:
    """Return whether patterns give a tool an effect: for a read they must surely name it (:class:`.facts.Grant`)."""
    return surely_names(patterns, protocol) if effect is Effect.READ else may_name(patterns, protocol)


def surely_names(patterns: Patterns, protocol: Protocol) -> bool:
    """Return whether patterns name a tool, for a rule that widens: as programs write it, or letter by letter in full.

    A wildcard does not count for the full name: ``get_*`` is no word about all tools of a module ``get_data``.
    """
    return patterns.fit(protocol.name) or protocol.full_name in patterns.texts


def may_name(patterns: Patterns, protocol: Protocol) -> bool:
    """Return whether patterns may name a tool, for a rule that restricts: by any name of it, here or at its source."""
    names = {protocol.name, protocol.plain_name, protocol.source.operation}
    return any(map(patterns.may_fit, names)) or protocol.full_name in patterns.texts
