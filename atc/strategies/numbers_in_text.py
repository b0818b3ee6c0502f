"""Numbers in a text, as people and services write them: what each can mean, and where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

MAX_DIGITS = 40
"""Characters of a number; longer runs of digits are names."""
_GAP = " \u00a0\u202f\u2009"
_TO_SPACE = str.maketrans(dict.fromkeys(_GAP, " "))
_SCALE = {
    3: "thousand tausend k",
    6: "million millions millionen mio m mn millones millón millon milioni milione",
    9: "billion billions bn b milliarde milliarden mrd milliard milliards miliardo miliardi",
    12: "trillion trillions tn",
}
_SCALES = {name: power for power, names in _SCALE.items() for name in names.split()}
_WORDS = "|".join(sorted((name for name in _SCALES if len(name) > 3), key=len, reverse=True))
_LETTER = "A-Za-z_\u00aa-\u024f\u0370-\u052f"
"""Of scripts that part words by spaces."""
_NUMBER = re.compile(
    rf"(?<![\d{_LETTER}])(?:(?P<spaced>\d{{1,3}}(?:[{_GAP}]\d{{3}})+(?:[.,]\d+)?(?!\d))|(?P<plain>\d+(?:[.,'’]\d+)*))"
    rf"(?P<unit>[{_LETTER}]{{1,4}})?(?![\d{_LETTER}])(?:[ \u00a0-](?P<scale>{_WORDS})\b)?",
    re.IGNORECASE,
)
_BY_COMMA = re.compile(r"\d{1,3}(?:[,'’]\d{3})+(?:\.\d+)?|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?")
_BY_DOT = re.compile(r"\d{1,3}(?:[.'’]\d{3})+(?:,\d+)?")
_DECIMAL, _DECIMAL_COMMA = re.compile(r"\d+(?:\.\d+)?"), re.compile(r"\d+,\d+")
_PART = re.compile(r"\d+")
_BEFORE_MINUS = frozenset("([{=:/ \t\n\u00a0\"'`") | {""}
_MINUS = re.compile(r"(?<!\d )\b(?:minus|negative) $", re.IGNORECASE)


class Number(NamedTuple):
    """A number of a text.

    Attributes:
        start, end: its place, with a unit or a scale that follows it.
        readings: of one of them every number must be meant.
        power: of ten, by which a word behind it multiplies: 6 of "2.1 million"; else 0. ``sure``: the word is no unit.
        minus: it has a sign of its own.
        text: its digits.
    """

    start: int
    end: int
    readings: tuple[tuple[Decimal, ...], ...]
    power: int
    sure: bool
    minus: bool
    text: str


def numbers_in(text: str, *, comma: bool = False) -> Iterator[Number]:
    """The numbers of a text, in order; digits that are part of a word, an address or a version are none.

    Args:
        text: to be read.
        comma: a comma may stand before decimals, and a dot between thousands, too.
    """
    for match in _NUMBER.finditer(text):
        digits = match["spaced"] or match["plain"]
        found = _apart(match["spaced"], comma) if match["spaced"] else _read(match["plain"], comma)
        if not found:
            continue
        unit, scale = (match["unit"] or "").casefold(), (match["scale"] or "").casefold()
        at = match.start()
        yield Number(at, match.end(), found, _SCALES.get(scale or unit, 0), bool(scale), is_minus(text, at), digits)


def is_minus(text: str, at: int) -> bool:
    """Whether a number that begins at ``at`` has a sign, or "minus" before it: no dash, and no "10 minus 5"."""
    if text[max(0, at - 1) : at] in ("-", "−"):
        return text[max(0, at - 2) : at - 1] in _BEFORE_MINUS
    return _MINUS.search(text[max(0, at - 12) : at]) is not None


def _apart(spaced: str, comma: bool) -> tuple[tuple[Decimal, ...], ...]:
    """What digits with spaces between them can mean: one number, or several."""
    pieces = spaced.translate(_TO_SPACE).split()
    apart = tuple(number for piece in pieces for some in _read(piece, comma)[:1] for number in some)
    return (*_read("".join(pieces), comma), apart)


def _read(digits: str, comma: bool) -> tuple[tuple[Decimal, ...], ...]:
    """What digits can mean; nothing where there are too many."""
    if len(digits) > MAX_DIGITS:
        return ()
    found: list[tuple[Decimal, ...]] = []
    if _BY_COMMA.fullmatch(digits):
        found.append((Decimal(re.sub("[,'’]", "", digits)),))
    elif _DECIMAL.fullmatch(digits):
        found.append((Decimal(digits),))
    if comma and _BY_DOT.fullmatch(digits):
        found.append((Decimal(re.sub("[.'’]", "", digits).replace(",", ".")),))
    if comma and _DECIMAL_COMMA.fullmatch(digits):
        found.append((Decimal(digits.replace(",", ".")),))
    if not found and digits.count(".") < 2:  # else an address or a version
        found.append(tuple(map(Decimal, _PART.findall(digits))))
    return tuple(found)
