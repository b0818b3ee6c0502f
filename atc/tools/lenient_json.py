"""Reads JSON as services write it: NaN, infinity and a key that stands twice do not end a run.

A number that JSON does not have becomes null, as in a function's own result; of two values of one key the last counts,
as in Python and JavaScript. Nothing of that is silent: :class:`Oddities` has the places. What our own side wrote is
read to the letter (:mod:`atc._records.strict_json`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from atc.wording import outcomes

MAX_PLACES = 3
"""Places of one kind that are named."""
Path = tuple[str | int, ...]
_Link = tuple[Any, str | int] | None
"""A path, from its end: what leads to it, and the last step."""


class Oddities:
    """Holds what was odd in one response: the numbers that became null, and the keys that stood twice.

    Attributes:
        nulls, twice: the first places of each.
        null_count, twice_count: how many there are.
    """

    def __init__(self) -> None:
        self.nulls: list[Path] = []
        self.twice: list[Path] = []
        self.null_count = self.twice_count = 0

    def notes(self, redacted: Callable[[Any], Any] = lambda value: value) -> tuple[str, ...]:
        """Return a sentence for each kind; ``redacted`` masks credentials in the keys of its places."""
        made = []
        if self.null_count:
            made.append(outcomes.became_null(self.null_count, [redacted([*path]) for path in self.nulls]))
        if self.twice_count:
            made.append(outcomes.stood_twice(self.twice_count, [redacted([*path]) for path in self.twice]))
        return tuple(made)

    def add(self, other: Oddities) -> None:
        """Note what was odd in a part of the response, too."""
        self.nulls += other.nulls[: MAX_PLACES - len(self.nulls)]
        self.twice += other.twice[: MAX_PLACES - len(self.twice)]
        self.null_count += other.null_count
        self.twice_count += other.twice_count

    def read(self, text: str, within: Path = ()) -> Any:
        """Parse JSON text; ``within`` leads to its value in a larger one.

        Raises:
            ValueError: it is no JSON.
            RecursionError: it is nested far too deeply.
        """
        seen: list[None] = []

        def number(digits: str) -> float:
            made = float(digits)  # takes NaN and Infinity, too
            if not math.isfinite(made):
                seen.append(None)
            return made

        def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
            made = dict(members)
            if len(made) == len(members):
                return made
            seen.append(None)
            return _Twice(members)

        value = json.loads(text, object_pairs_hook=pairs, parse_constant=number, parse_float=number)
        return self.mended(value, within) if seen else value

    def mended(self, value: Any, within: Path = ()) -> Any:
        """Return a value without what JSON does not have. Its lists and objects are changed in place; linear in it."""
        whole = [value]
        todo: list[tuple[Any, _Link]] = [(whole, None)]
        while todo:
            part, link = todo.pop()
            for step, item in part.items() if isinstance(part, dict) else enumerate(part):
                at = None if part is whole else (link, step)
                if isinstance(item, float) and not math.isfinite(item):
                    self.null_count += 1
                    _note(self.nulls, at, within)
                    part[step] = None
                elif isinstance(item, _Twice):
                    for key in item.names:
                        self.twice_count += 1
                        _note(self.twice, (at, key), within)
                    part[step] = plain = dict(item)
                    todo.append((plain, at))
                elif isinstance(item, dict | list):
                    todo.append((item, at))
        return whole[0]


class _Twice(dict[str, Any]):
    """An object in which keys stood twice: ``names`` are these, each once."""

    def __init__(self, members: list[tuple[str, Any]]) -> None:
        super().__init__(members)
        seen: set[str] = set()
        again: dict[str, None] = {}
        for name, _ in members:
            if name in seen:
                again[name] = None
            seen.add(name)
        self.names = tuple(again)


def _note(places: list[Path], link: _Link, within: Path) -> None:
    if len(places) >= MAX_PLACES:
        return
    steps: list[str | int] = []
    while link is not None:
        link, step = link
        steps.append(step)
    places.append((*within, *reversed(steps)))
