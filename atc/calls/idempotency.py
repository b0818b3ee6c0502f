"""The idempotency keys of a run's calls: each call has its own, which the journal keeps before the call is sent.

A key is random, so that nobody can guess it, and it belongs to one call of one run with its arguments by the record in
which it stands. That record is on disk before anything leaves, and a call in doubt is sent again from it alone: the
same call bears the same key in every program and every process of its run, and two equal calls bear two.
"""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from typing import Any

from atc.tools.keys import KeyPlace, KeyRule


@dataclass(frozen=True)
class SentKey:
    """Holds the idempotency key of a call.

    Attributes:
        key: a UUID, as many documents ask for.
        place: where the call bears it.
        tool: a digest of the tool (:func:`atc.calls.parked.digest_of`): another tool's service does not know the key.
        at: when the call was begun, right before it was sent first; in seconds since 1970.
        window_s: seconds after that within which it may be sent again.
    """

    key: str
    place: KeyPlace
    tool: str
    at: float
    window_s: float

    def is_open(self, now: float) -> bool:
        """Return whether the call may still be sent again. A clock that was set back proves nothing."""
        return 0 <= now - self.at < self.window_s

    def holds(self, rule: KeyRule | None, tool: str, now: float) -> bool:
        """Return whether the call may be sent again to its tool as that is now.

        Args:
            rule: how calls of the tool bear a key now. The tighter window counts.
            tool: the digest of the tool now.
            now: in seconds since 1970.
        """
        if rule is None or rule.place != self.place or tool != self.tool:
            return False
        return self.is_open(now) and now - self.at < rule.window_s

    def record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        place = [self.place.kind, self.place.name]
        return {"key": self.key, "place": place, "tool": self.tool, "at": self.at, "window_s": self.window_s}


def new_key(rule: KeyRule, tool: str, now: float) -> SentKey:
    """Return the key of a call that is made for the first time."""
    return SentKey(str(uuid.uuid4()), rule.place, tool, now, rule.window_s)


def read_key(raw: Any) -> SentKey:
    """Return the key of a record.

    Raises:
        ValueError, KeyError, TypeError: the record has none.
    """
    kind, name = raw["place"]
    texts, numbers = (raw["key"], name, raw["tool"]), (raw["at"], raw["window_s"])
    well_formed = kind in ("header", "meta") and all(isinstance(text, str) for text in texts)
    if not well_formed or not all(type(n) in (int, float) and math.isfinite(n) for n in numbers):
        raise ValueError("not an idempotency key")
    return SentKey(raw["key"], KeyPlace(kind, name), raw["tool"], raw["at"], raw["window_s"])
