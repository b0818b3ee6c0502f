"""What the tools answered in a run so far. It beats what their documents say, for wording and types; by itself it makes
no finding: one response shows what is there, not what else may be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from atc.programs.analysis.interpreter import Access
from atc.programs.analysis.values import Origin
from atc.programs.attribution.responses import MISSING, places
from atc.result import Call

MOST_CALLS, MOST_VALUES = 5, 20
"""The latest responses of a tool, and the values of one, that are looked at."""


class Seen:
    """The latest responses of a run.

    Args:
        calls: of the run, in order; those that failed show nothing.
    """

    def __init__(self, calls: Iterable[Call] = ()) -> None:
        answered: defaultdict[str, list[Any]] = defaultdict(list)
        for call in calls:
            if call.succeeded:
                answered[call.tool].append(call.value)
        self._answered: Mapping[str, list[Any]] = answered

    def at(self, origin: Origin) -> list[Any]:
        """The values that stood at a part of a response."""
        responses = self._answered.get(origin.tool, [])[-MOST_CALLS:]
        found = (value for response in responses for _, value in islice(places(response, origin.path), MOST_VALUES))
        return [value for value in found if value is not MISSING and value is not None]

    def has(self, access: Access) -> bool:
        """Whether some response had what is looked up there, or what a document says of the place does not hold."""
        return any(self._is_there(access, origin) for origin in access.base.origins)

    def _is_there(self, access: Access, origin: Origin) -> bool:
        values = self.at(origin)
        if access.attribute or not values:
            return False
        if isinstance(access.key, int):
            return any(isinstance(value, list | str) for value in values)
        return any(isinstance(value, dict) and access.key in value for value in values)

    def keys(self, origin: Origin) -> tuple[str, ...]:
        """The keys of the objects that stood there."""
        return tuple(dict.fromkeys(key for value in self.at(origin) if isinstance(value, dict) for key in value))
