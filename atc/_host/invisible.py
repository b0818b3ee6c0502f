"""Characters that nobody sees: in a question they are written out, in a prompt they are left out.

They carry text past whoever reads: tag characters spell ASCII, variation selectors count to 256, fillers look like
nothing. What is taken is Unicode's ``Default_Ignorable_Code_Point`` and the blanks that are no spaces.

Real languages need a few: the zero-width non-joiner and joiner within words of Persian, Urdu and the scripts of India,
and Mongolian's selectors. In a prompt one of them stays where it stands between two letters of such a script, and
nowhere else. So a word keeps its spelling, and what could be hidden is at most a bit a visible letter.
"""

from __future__ import annotations

import re
import unicodedata

_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_JOINED = (
    "\u0620-\u065f\u066e-\u06d3\u06d5-\u06ff\u0750-\u077f\u0860-\u08ff"  # Arabic, Persian, Urdu, Syriac's supplement
    "\u0710-\u074f\u07ca-\u07f5"  # Syriac, N'Ko
    "\u0900-\u0963\u0970-\u09e3\u09f0-\u0a65\u0a70-\u0ae5\u0af9-\u0b65\u0b71-\u0be5\u0c00-\u0c65\u0c80-\u0ce5"
    "\u0cf1-\u0d65\u0d7a-\u0de5\u0df2-\u0df3"  # the scripts of India, and Sinhala
    "\u1000-\u103f\u1050-\u109d\u1780-\u17d3"  # Burmese, Khmer
    "\ufb50-\ufdff\ufe70-\ufefc"  # Arabic's shapes
)
_MONGOLIAN = "\u1820-\u18aa"
_CARRIERS = re.compile(
    f"(?:(?<=[{_JOINED}])[\u200c\u200d](?=[{_JOINED}])|(?<=[{_MONGOLIAN}])[\u180b-\u180f](?=[{_MONGOLIAN}]))"
    f"|(?P<hidden>[{_IGNORABLE}\ue000-\uf8ff\U000f0000-\U0010ffff])"
)
"""The categories that stay, first; then those that go: also what has no meaning that is agreed upon (private use)."""
_BLANK = re.compile(f"[{_IGNORABLE}\u2800]")
MAX_MARKS = 2
"""Combining marks on one letter that :func:`visible` shows: more of them climb over the lines above."""
JOINERS = frozenset("\u200c\u200d\u180b\u180c\u180d\u180e\u180f")
"""The characters that :func:`legible` lets stand within a word."""


def is_invisible(character: str) -> bool:
    """Return whether a character is drawn as nothing, or only steers how others are drawn. Spaces are not."""
    return not character.isascii() and _BLANK.match(character) is not None


def without_invisible(text: str) -> str:
    """Return text without any character that is drawn as nothing, for comparisons; linear in it."""
    return text if text.isascii() else _BLANK.sub("", text)


def visible(text: str) -> str:
    """Return text from outside as one line, with an escape for each character that could steer a terminal or hide.

    These are control characters, line breaks, what changes the direction of writing, what is drawn as nothing, and
    heaps of combining marks.
    """
    if text.isascii() and text.isprintable():
        return text
    shown, marks = [], 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        seen = character.isprintable() and marks <= MAX_MARKS and not is_invisible(character)
        shown.append(character if seen else escaped(character))
    return "".join(shown)


def legible(text: str) -> str:
    """Return text of a tool or a document for a prompt, without what nobody would see there; linear in it.

    An emoji may lose its selector, a family of emoji its joiners; letters stay, and what joins them.
    """
    if text.isascii():
        return text
    return _CARRIERS.sub(_kept, text)


def _kept(match: re.Match[str]) -> str:
    return "" if match["hidden"] is not None else match[0]


def escaped(character: str) -> str:
    """Return a character as Python writes it in a text."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def written(value: object) -> str:
    """``repr``, with every invisible character as an escape: whoever copies it copies all of it."""
    text = repr(value)
    return text if text.isascii() else _BLANK.sub(lambda match: escaped(match[0]), text)
