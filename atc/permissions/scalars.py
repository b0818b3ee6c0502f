"""Single values beside those of a rule: what equals one, and what a service may take for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from atc.permissions.readings import Reader

Scalar = str | int | float | bool
MAX_DIGITS = 500
"""Characters of a text that is read as a number; a longer one that begins like a number may be any."""
_TRUE = frozenset({"true", "t", "yes", "y", "on"})
_FALSE = frozenset({"false", "f", "no", "n", "off", "null", "none", ""})


def equal(value: Any, choice: Scalar) -> bool:
    """Whether a value is the one of a rule: ``True`` is not 1, and 5 is not ``"5"``."""
    return isinstance(value, bool) is isinstance(choice, bool) and bool(value == choice)


def may_equal(value: Any, choices: Iterable[Scalar], reader: Reader) -> bool:
    """Whether a service may take a value for one of a rule's: ``"yes"`` or 1 for ``True``, ``"05"`` for 5.

    What nobody can judge may.
    """
    spelt = spellings(value)
    readings = [reader.read(each) for each in spelt or ()]
    if spelt is None or None in readings:
        return True
    forms = {form for reading in readings if reading is not None for form in reading.forms}
    truths = {_truth(form.casefold()) for form in forms}
    numbers = set(map(_number, forms))
    for choice in choices:
        if not reader.spend() or equal(value, choice):
            return True
        if isinstance(choice, bool):
            found = not truths <= {not choice}
        elif isinstance(choice, str):
            wanted = reader.read(choice)
            found = wanted is None or not forms.isdisjoint(wanted.forms)
        else:
            found = None in numbers or choice in numbers
        if found:
            return True
    return False


def spellings(value: Any) -> list[str] | None:
    """A value as texts that a service may take for it; ``None`` where nobody can judge it."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, bool):
        return [str(value), str(int(value))]
    if isinstance(value, int):  # to write one takes the square of its length
        return [str(value)] if value.bit_length() <= 3 * MAX_DIGITS else None
    if isinstance(value, float):
        return [str(value), *([str(int(value))] if value.is_integer() else [])]
    return None


def _truth(text: str) -> bool | None:
    """What a text says where ``true`` or ``false`` is meant; ``None`` where nobody knows."""
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    number = _number(text)
    return None if number is None or number != number else number != 0


def _number(text: str) -> float | None:
    """The number that a text may be; NaN for no number, ``None`` where nobody knows."""
    if len(text) > MAX_DIGITS:
        return None if text[:1] in "+-." or text[:1].isdigit() else float("nan")
    plain = text.replace(",", "").replace("_", "")
    for read in (int, lambda digits: int(digits, 0), float):
        try:
            return read(plain)
        except (ValueError, OverflowError):
            continue
    return float("nan")
