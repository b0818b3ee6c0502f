"""Texts from outside as rules read them: each one once, and all of a call within one budget of work.

A service may take other spellings for the same: another letter case, full-width forms, characters that nobody sees,
percent signs, ``.`` and ``..`` as steps of a path. A rule that restricts counts each of these readings. A rule that
allows counts the text as it stands, and only if no reading leads elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from atc.invisible import without_invisible
from atc.unicode_forms import normalized

MAX_JUDGED = 10_000
"""Characters of an argument, as it stands and in a normal form; nobody judges a longer one."""
MAX_NAME = 2_000
"""Characters of a name: of a tool, a source, a principal, a client. Nobody judges a longer one."""
MAX_WORK = 30_000_000
"""Units of work that the arguments of one call may take: a unit is about what it takes to hold one character against
one pattern, 1 to 3 ns. What is left then, nobody judges."""
MAX_GROWTH = 18
"""Characters that one becomes in a normal form at most (Unicode Standard Annex #15, §9)."""
_STEP, _PER_CHARACTER, _PER_ESCAPE = 100, 20, 300
"""Units of a step through values, of reading a character, and of one percent sign or slash."""
_ROUNDS = 3
"""What was encoded twice is decoded by somebody twice."""

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
        """Whether there was more to judge than one call may cost."""
        return self.left < 0

    def spend(self, units: int = _STEP) -> bool:
        """Whether so much work can still be done; it is counted."""
        self.left -= units
        return self.left >= 0

    def read(self, text: str) -> Reading | None:
        """A text, read once; ``None`` where it is too long, or too much was read before."""
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
    """A name, read; ``None`` where it is too long to be judged."""
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
    """In small letters, with one ``i`` for the dotless and the dotted one."""
    folded = text.casefold()
    if folded.isascii():
        return folded
    return normalized("NFKC", folded).replace("i\u0307", "i").replace("\u0131", "i")


def _decoded(text: str) -> tuple[str, bool]:
    """A text without percent signs that encode something, and whether all that they encode is text."""
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
    """A text as a file system walks it, if it is a path; else without blanks around it."""
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
