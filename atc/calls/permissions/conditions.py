"""Conditions on the arguments of a call: which values a rule speaks of.

What nobody can judge by a condition fits a rule that restricts, and no rule that allows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from atc.calls.permissions.patterns import Patterns, Reader, pattern_problem, patterns_of

# ----------------------------------------------------------------------------------------------------------------------
# Single values beside those of a rule: what equals one, and what a service may take for it.


Scalar = str | int | float | bool
MAX_DIGITS = 500
"""Characters of a text that is read as a number; a longer one that begins like a number may be any."""
_TRUE = frozenset({"true", "t", "yes", "y", "on"})
_FALSE = frozenset({"false", "f", "no", "n", "off", "null", "none", ""})


def equal(value: Any, choice: Scalar) -> bool:
    """Return whether a value is the one of a rule: ``True`` is not 1, and 5 is not ``"5"``."""
    return isinstance(value, bool) is isinstance(choice, bool) and bool(value == choice)


def may_equal(value: Any, choices: Iterable[Scalar], reader: Reader) -> bool:
    """Return whether a service may take a value for one of a rule's: ``"yes"`` or 1 for ``True``, ``"05"`` for 5.

    What nobody can judge may.
    """
    spelt = spellings(value)
    readings = [reader.read(each) for each in spelt or ()]
    if spelt is None or None in readings:
        return True
    forms = {form for reading in readings if reading is not None for form in reading.forms}
    truths = {_truth(form.casefold()) for form in forms}
    numbers = set(map(_number_of, forms))
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
    """Return a value as texts that a service may take for it; ``None`` where nobody can judge it."""
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
    """Return what a text says where ``true`` or ``false`` is meant; ``None`` where nobody knows."""
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    number = _number_of(text)
    return None if number is None or number != number else number != 0


def _number_of(text: str) -> float | None:
    """Return the number that a text may be; NaN for no number, ``None`` where nobody knows."""
    if len(text) > MAX_DIGITS:
        return None if text[:1] in "+-." or text[:1].isdigit() else float("nan")
    plain = text.replace(",", "").replace("_", "")
    for read in (int, lambda digits: int(digits, 0), float):
        try:
            return read(plain)
        except (ValueError, OverflowError):
            continue
    return float("nan")


MAX_CONDITIONS, MAX_STEPS, MAX_CHOICES = 20, 10, 200
"""Conditions of a rule, steps of a path, values to choose from."""
MAX_VALUES = 10_000
"""Values of one argument that a condition looks at: the items of a list, at any depth of the path."""
_BLANKS = 1_000
"""Characters in which JSON begins."""
_KEYS = ("min", "max", "is", "max_length")


@dataclass(frozen=True)
class Condition:
    """Describes what the value at a path must be. All that is given must hold.

    Attributes:
        path: keys, from the arguments down, of which some may be one key with dots in its name; over a list each step
            goes to its items.
        patterns: of which one must fit a text.
        choices: of which one must equal the value.
        low: the least number. ``high``: the greatest.
        length: characters of a text at most.
    """

    path: tuple[str, ...]
    patterns: Patterns | None = None
    choices: tuple[Scalar, ...] = ()
    low: float | None = None
    high: float | None = None
    length: int | None = None

    def allows(self, arguments: Mapping[str, Any], reader: Reader) -> bool:
        """Return whether a rule that allows fits: each item on the way has such a value, and all surely hold."""
        found = found_at(arguments, self.path, reader)
        if found is None or not found.values or found.missed:
            return False
        return all(self._holds(value, reader) for value in found.values)

    def restricts(self, arguments: Mapping[str, Any], reader: Reader) -> bool:
        """Return whether a rule that restricts fits: the condition holds of one such value, or nobody can judge it."""
        found = found_at(arguments, self.path, reader)
        return found is None or found.opaque or any(self._may_hold(value, reader) for value in found.values)

    def _holds(self, value: Any, reader: Reader) -> bool:
        if not reader.spend():
            return False
        if self.length is not None:
            return isinstance(value, str) and len(value) <= self.length
        if self.low is not None or self.high is not None:
            return self._within(value) is True
        if self.patterns is not None and isinstance(value, str) and self.patterns.fit_argument(value, reader):
            return True
        return any(equal(value, choice) for choice in self.choices)

    def _may_hold(self, value: Any, reader: Reader) -> bool:
        if not reader.spend():
            return True
        if self.length is not None:
            return not isinstance(value, str) or len(value) <= self.length
        if self.low is not None or self.high is not None:
            return self._within(value) is not False
        if self.choices and may_equal(value, self.choices, reader):
            return True
        spelt = spellings(value)
        patterns = self.patterns
        return spelt is None or (
            patterns is not None and any(patterns.may_fit_argument(each, reader) for each in spelt)
        )

    def _within(self, value: Any) -> bool | None:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # NaN
            return None
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


@dataclass
class Found:
    """Holds what stands at a path.

    Attributes:
        values: of a list the items, at any depth.
        missed: on the way there was an item without such a key.
        opaque: on the way there was a text that may be JSON.
    """

    values: list[Any]
    missed: bool = False
    opaque: bool = False


def found_at(arguments: Mapping[str, Any], path: tuple[str, ...], reader: Reader) -> Found | None:
    """Return what stands at a path; ``None`` where that is too much to be judged.

    A key may have dots in its name: every reading of the path counts.
    """
    found, left = Found([]), [(cast(Any, arguments), 0)]
    while left:
        value, at = left.pop()
        if not reader.spend() or len(found.values) > MAX_VALUES:
            return None
        if isinstance(value, list | tuple):
            if len(value) + len(left) > 2 * MAX_VALUES:
                return None
            left.extend((item, at) for item in reversed(value))
        elif at == len(path):
            found.values.append(value)
        elif isinstance(value, Mapping):
            ends = [end for end in range(at + 1, len(path) + 1) if ".".join(path[at:end]) in value]
            left.extend((value[".".join(path[at:end])], end) for end in ends)
            found.missed = found.missed or not ends
        else:
            found.missed = True
            found.opaque = found.opaque or (isinstance(value, str) and _may_be_json(value))
    return found if len(found.values) <= MAX_VALUES else None


def _may_be_json(text: str) -> bool:
    head = text[:_BLANKS].lstrip().removeprefix("\ufeff").lstrip()
    return head[:1] in ("{", "[") if head else len(text) >= _BLANKS


# -- from the file -----------------------------------------------------------------------------------------------------


def conditions_of(given: Any, *, what: str, roots: Collection[str] = ()) -> tuple[Condition, ...]:
    """Return a table of conditions.

    Args:
        given: by path, what stands there.
        what: what the table takes, in words.
        roots: first names of paths; empty: any.

    Raises:
        ValueError: it is something else; the message says what it takes.
    """
    if not isinstance(given, dict) or not 0 < len(given) <= MAX_CONDITIONS:
        raise ValueError(f"takes a table of 1 to {MAX_CONDITIONS} {what}")
    made = []
    for path, value in given.items():
        try:
            if roots and path.split(".")[0] not in roots:
                raise ValueError(f"the path begins with {' or '.join(f'`{each}`' for each in roots)}")
            made.append(condition_of(path, value))
        except ValueError as error:
            raise ValueError(f"`{path[:80]}`: {error}") from None
    return tuple(made)


def condition_of(path: str, given: Any) -> Condition:
    """Return one line of ``arguments`` as a condition.

    Args:
        path: keys with dots between them.
        given: a text (a pattern), a number, ``true`` or ``false``, a list of these, or a table of ``min``, ``max``,
            ``is`` and ``max_length``.

    Raises:
        ValueError: it is something else; the message says what it takes.
    """
    steps = tuple(path.split("."))
    if not all(steps) or len(steps) > MAX_STEPS or len(path) > 500:
        raise ValueError(f"the path takes 1 to {MAX_STEPS} names with dots between them")
    if isinstance(given, dict):
        return _of_table(steps, given)
    values = given if isinstance(given, list) else [given]
    if not 0 < len(values) <= MAX_CHOICES:
        raise ValueError(f"takes 1 to {MAX_CHOICES} values")
    patterns = [_pattern(each) for each in values if isinstance(each, str)]
    choices = tuple(_scalar(each) for each in values if not isinstance(each, str))
    return Condition(steps, patterns_of(patterns) if patterns else None, choices)


def _of_table(steps: tuple[str, ...], given: dict[str, Any]) -> Condition:
    if unknown := [key for key in given if key not in _KEYS]:
        raise ValueError(f"there is no key {unknown[0][:60]!r} here, but {', '.join(_KEYS)}")
    if not given:
        raise ValueError(f"takes one of {', '.join(_KEYS)}")
    if len(given) > 1 and set(given) != {"min", "max"}:
        raise ValueError("takes `min` and `max` together; any other key stands alone")
    bounds = {key: _number(key, given[key]) for key in ("min", "max") if key in given}
    if len(bounds) == 2 and bounds["min"] > bounds["max"]:
        raise ValueError("`min` is greater than `max`: no value fits")
    length = given.get("max_length")
    if length is not None and (type(length) is not int or length < 0):
        raise ValueError("`max_length` takes a number from 0")
    choices = (_scalar(given["is"]),) if "is" in given else ()
    return Condition(steps, None, choices, bounds.get("min"), bounds.get("max"), length)


def _pattern(text: str) -> str:
    if problem := pattern_problem(text):
        raise ValueError(f"the pattern {problem}")
    return text


def _scalar(value: Any) -> Scalar:
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError("takes a text, a number, true or false, a list of these, or a table such as {max = 100}")


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        raise ValueError(f"`{key}` takes a number")
    return value


def shown(condition: Condition) -> str:
    """Return a condition in a few words, for a listing."""
    parts = [*(condition.patterns.texts if condition.patterns else ()), *(repr(each) for each in condition.choices)]
    if condition.low is not None:
        parts.append(f"from {condition.low}")
    if condition.high is not None:
        parts.append(f"to {condition.high}")
    if condition.length is not None:
        parts.append(f"length to {condition.length}")
    return f"{'.'.join(condition.path)}: {' | '.join(parts)}"
