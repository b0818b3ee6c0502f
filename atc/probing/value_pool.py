"""Values that were seen once, and for which argument each may serve (ATC §4.2: the private arguments of other tools).

A value's right to be an argument comes from its name, from the thing that it belongs to, and from what it looks like;
the program that fetches it again comes from where it was seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from atc.graph.identifiers import VERBS, affinity, owner_of, words_of
from atc.graph.resources import OWN, REFERS, UNTOLD, Field, Fields, Wanted, fit, wanted
from atc.schemas.infer.mask import MASKED

MAX_VALUES = 20_000
MAX_OF_A_TOOL = 400
"""Values kept of one tool: a big answer leaves room for the others."""
MAX_OF_A_FIELD = 8
"""Values kept of one field of one call."""
MAX_DEPTH = 8
MAX_ITEMS = 5
"""Items of a list that are looked at."""
MAX_TEXT = 200
REFERENCE, UNLIKELY = 0.8, 0.5
"""How likely a value serves at most that only refers to a thing, and one of another thing."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
Scalar = str | int | float | bool
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Seen:
    """One value of a response.

    Attributes:
        value: a text or a number.
        tool: that answered with it.
        arguments: of that call.
        path: to the value, from the response down.
        found: the field that it is of, and whose that is.
    """

    value: Scalar
    tool: str
    arguments: tuple[tuple[str, Any], ...]
    path: Path
    found: Field | None = field(default=None, compare=False)

    @property
    def field(self) -> str:
        """The name that it goes by."""
        return next((step for step in reversed(self.path) if isinstance(step, str)), "")

    @cached_property
    def owner(self) -> frozenset[str]:
        """Words for the thing that it belongs to: the names above it, and the tool that returned it."""
        return owner_of([step for step in self.path if isinstance(step, str)][:-1], self.tool)


class ValuePool:
    """What was seen so far."""

    def __init__(self) -> None:
        self._by_field: dict[str, list[Seen]] = {}
        self._count = 0
        self._of_tool: dict[str, int] = {}

    def add(self, tool: str, arguments: dict[str, Any], response: Any) -> None:
        """Keep the texts and numbers of a response."""
        call = tuple(sorted(arguments.items(), key=lambda item: item[0]))
        leaves = [*_leaves(response, ())]
        fields = Fields(tool, "", [*dict.fromkeys(_named(path) for path, _ in leaves if _named(path))], {})
        field_at = lru_cache(maxsize=None)(fields.at)
        for path, value in leaves:
            seen = Seen(value, tool, call, path, field_at(_named(path)))
            if self._of_tool.get(tool, 0) >= MAX_OF_A_TOOL or self._count >= MAX_VALUES:
                return
            if seen.field and value != MASKED:
                kept = self._by_field.setdefault(seen.field.lower(), [])
                same = [s for s in kept if s.tool == tool and s.arguments == call]
                if len(same) < MAX_OF_A_FIELD and all(s.value != value for s in same):
                    kept.append(seen)
                    self._count += 1
                    self._of_tool[tool] = self._of_tool.get(tool, 0) + 1

    def fitting(self, parameter: str, tool: str, schema: dict[str, Any] | None = None) -> list[tuple[float, Seen]]:
        """Values that may serve as an argument, the likeliest first; what the tool itself answered comes last.

        Args:
            parameter: its name.
            tool: whose argument it is.
            schema: what is known of it; values of another type do not fit.
        """
        found = []
        what = wanted(parameter, tool)
        for name, kept in self._by_field.items():
            for seen in kept:
                score = _sureness(what, tool, name, seen)
                if score > 0 and _type_fits(seen.value, schema or {}):
                    found.append((score - (0.5 if seen.tool == tool else 0.0), seen))
        found.sort(key=lambda pair: (-pair[0], len(pair[1].path), pair[1].tool, str(pair[1].path), str(pair[1].value)))
        return [(score, seen) for score, seen in found if score > 0]

    def words(self, tool: str) -> list[Seen]:
        """Names and titles that were seen, for somebody who searches: those of the tool's own matter first."""
        about = frozenset(words_of(tool)) - VERBS
        kept = [seen for field in ("name", "title") for seen in self._by_field.get(field, ()) if seen.tool != tool]
        return sorted(kept, key=lambda seen: (not about & seen.owner, len(seen.path), str(seen.path)))


def _sureness(what: Wanted, tool: str, name: str, seen: Seen) -> float:
    """How likely a value serves, from 0 to 1: a thing's own id, then what nobody owns, then what refers to a thing."""
    how = fit(what, seen.found) if seen.found is not None else None
    if how is None:
        return min(affinity(what.name, tool, name, seen.owner), UNLIKELY)
    return {OWN: 1.0, UNTOLD: how.score, REFERS: min(how.score, REFERENCE)}[how.relation]


def _named(path: Path) -> tuple[str, ...]:
    """A path as the fields of a schema are named."""
    named = tuple(step if isinstance(step, str) else "[]" for step in path)
    return named if any(step != "[]" for step in named) else ()


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Scalar]]:
    if len(path) > MAX_DEPTH:
        return
    if isinstance(value, dict):
        for key, item in list(value.items())[:200]:
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value[:MAX_ITEMS]):
            yield from _leaves(item, (*path, index))
    elif (isinstance(value, str) and 0 < len(value) <= MAX_TEXT) or (
        isinstance(value, int | float) and not isinstance(value, bool)
    ):
        yield path, value


def _type_fits(value: Scalar, schema: dict[str, Any]) -> bool:
    types = schema.get("type")
    allowed = {types} if isinstance(types, str) else set(types or ())
    if schema.get("format") == "date" and not (isinstance(value, str) and _DATE.fullmatch(value)):
        return False
    if not allowed:
        return True
    if isinstance(value, str):
        return "string" in allowed
    if isinstance(value, int):
        return bool(allowed & {"integer", "number", "string"})
    return bool(allowed & {"number", "string"})
