"""Answers of calls that no program made, as they wait to be learnt: their shapes, never their values."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from atc.tools.protocol import Protocol

if TYPE_CHECKING:
    from atc.graph.lessons import Lessons

MAX_HELD = 32
"""Answers that wait at once. Each may have megabytes; one more is let go."""
MAX_OF_A_TOOL = 500
"""Answers of one tool that a process learns from: after these a further one shows nothing new."""


class Observations:
    """Answers that wait until a thread of the catalogue's reads their shapes. Safe among threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[tuple[str, Any]] = []
        self._seen: Counter[str] = Counter()

    def take(self, tool: str, value: Any, *, new: bool) -> bool:
        """Hold an answer; whether there was room.

        Args:
            tool: its name.
            value: what it answered: a JSON value.
            new: it is known to show something new, so it counts however many there were.
        """
        with self._lock:
            if len(self._held) >= MAX_HELD or (not new and self._seen[tool] >= MAX_OF_A_TOOL):
                return False
            self._seen[tool] += 1
            self._held.append((tool, value))
            return True

    def lessons(self, tools: Mapping[str, Protocol]) -> Lessons:
        """What the answers that waited teach; they wait no longer."""
        from atc.graph.field_paths import Fields
        from atc.graph.lessons import Lessons

        with self._lock:
            held, self._held = self._held, []
        responses: defaultdict[str, list[Any]] = defaultdict(list)
        for tool, value in held:
            if tool in tools:
                responses[tool].append(value)
        return Lessons("", shapes=Fields(tools, responses).outlines(responses))
