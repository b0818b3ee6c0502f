"""Conditions on the arguments of a call: which values a rule speaks of.

The answer is ``True``, ``False`` or ``None``: nobody can judge this value by this condition. What nobody can judge fits
a rule that restricts, and no rule that allows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from atc.permissions.patterns import Patterns, pattern_problem, patterns_of

MAX_CONDITIONS, MAX_STEPS, MAX_CHOICES = 20, 10, 200
"""Conditions of a rule, steps of a path, values to choose from."""
MAX_VALUES = 10_000
"""Values of one argument that a condition looks at: the items of a list, at any depth of the path."""

Scalar = str | int | float | bool
_KEYS = ("min", "max", "is", "max_length")


@dataclass(frozen=True)
class Condition:
    """What the value at a path must be. All that is given must hold.

    Attributes:
        path: keys, from the arguments down; over a list each step goes to its items.
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

    def allows(self, arguments: Mapping[str, Any]) -> bool:
        """For a rule that allows: there is such a value, and the condition surely holds of each."""
        found = _at(arguments, self.path)
        if not found or len(found) > MAX_VALUES:
            return False
        return all(self._judged(value, strict=True) is True for value in found)

    def restricts(self, arguments: Mapping[str, Any]) -> bool:
        """For a rule that restricts: of one such value the condition holds, or nobody can judge it."""
        found = _at(arguments, self.path)
        return len(found) > MAX_VALUES or any(self._judged(value, strict=False) is not False for value in found)

    def _judged(self, value: Any, *, strict: bool) -> bool | None:
        if self.length is not None:
            return len(value) <= self.length if isinstance(value, str) else None
        if self.low is not None or self.high is not None:
            return self._within(value)
        verdicts = []
        if self.patterns is not None:
            verdicts.append(self._fits(value, strict))
        if self.choices:
            verdicts.append(_among(value, self.choices, strict))
        return True if True in verdicts else None if None in verdicts else False

    def _within(self, value: Any) -> bool | None:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # NaN
            return None
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def _fits(self, value: Any, strict: bool) -> bool | None:
        assert self.patterns is not None
        if isinstance(value, int | float) and not strict:
            return self.patterns.may_fit(str(value))  # a service may take 5 for "5"
        if not isinstance(value, str):
            return None
        return self.patterns.fit_argument(value) if strict else self.patterns.may_fit(value)


def _among(value: Any, choices: tuple[Scalar, ...], strict: bool) -> bool | None:
    if isinstance(value, list | dict) or value is None:
        return None
    if any(_same(value, choice) for choice in choices):
        return True
    if strict:
        return False
    spelt = str(value).strip().casefold()  # "5", where a service takes it for 5
    return any(spelt == str(choice).strip().casefold() for choice in choices)


def _same(value: Any, choice: Scalar) -> bool:
    if isinstance(value, bool) is not isinstance(choice, bool):
        return False
    return bool(value == choice)


def _at(arguments: Mapping[str, Any], path: tuple[str, ...]) -> list[Any]:
    """The values at a path, little more than :data:`MAX_VALUES` at most; of a list at its end, the items."""
    found: list[Any] = [arguments]
    for step in path:
        found = [each[step] for each in _items(found) if isinstance(each, Mapping) and step in each]
    return _items(found)


def _items(values: list[Any]) -> list[Any]:
    """The values, with the items of lists in place of the lists, at any depth."""
    made: list[Any] = []
    left = values[::-1]
    steps = 0
    while left and steps <= 2 * MAX_VALUES:
        value = left.pop()
        steps += 1
        if isinstance(value, list):
            left.extend(value[MAX_VALUES::-1])
        else:
            made.append(value)
    return made + left  # what is left are too many


# -- from the file -----------------------------------------------------------------------------------------------------


def condition_of(path: str, given: Any) -> Condition:
    """One line of ``arguments`` as a condition.

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
    """A condition in a few words, for a listing."""
    parts = [*(condition.patterns.texts if condition.patterns else ()), *(repr(each) for each in condition.choices)]
    if condition.low is not None:
        parts.append(f"from {condition.low}")
    if condition.high is not None:
        parts.append(f"to {condition.high}")
    if condition.length is not None:
        parts.append(f"length to {condition.length}")
    return f"{'.'.join(condition.path)}: {' | '.join(parts)}"
