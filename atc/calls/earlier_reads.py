"""The reads of a conversation's earlier tasks that a later one may use again, and when each was made."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from atc.calls.entry import CallKey, Entry
from atc.result import Effect

MOST = 1_000
"""Reads that are kept: the newest."""


class EarlierReads:
    """The times of reads, by a clock that nobody sets.

    A write that begins or ends leaves none of the reads that were begun before.
    """

    def __init__(self) -> None:
        self._began: dict[int, float] = {}  # of this task and those before, the oldest first
        self._of_key: dict[CallKey, Entry] = {}  # of earlier tasks, that nobody has asked for in this one

    def note(self, entry: Entry) -> None:
        """Note that a call has just begun, or ended."""
        if entry.effect is not Effect.READ:
            self._began.clear()
            self._of_key.clear()
        elif entry.state == "open":
            self._began[entry.number] = monotonic()
            if len(self._began) > MOST:
                del self._began[next(iter(self._began))]
        elif entry.state != "done":
            self._began.pop(entry.number, None)

    def same_time(self, entry: Entry, earlier: Entry) -> None:
        """Note that what a read is answered with was read when an earlier one was."""
        if earlier.number in self._began:
            self._began[entry.number] = self._began[earlier.number]

    def end_task(self, entries: Mapping[int, Entry]) -> None:
        """The task has ended: what it read may be used again. Of all other calls nobody is given the value any more."""
        done = {number: entries[number] for number in self._began if entries[number].state == "done"}
        self._began = {number: self._began[number] for number in done}
        self._of_key = {entry.key: entry for entry in sorted(done.values(), key=self._age, reverse=True)}
        for number, entry in entries.items():
            if number not in done:
                entry.value = None  # a long conversation does not hold it

    def take(self, key: CallKey, seconds: float) -> tuple[Entry, float] | None:
        """The newest of the same reads, and how many seconds ago it was made, if that is no more than ``seconds``."""
        entry = self._of_key.pop(key, None)
        if entry is None or entry.number not in self._began or (age := self._age(entry)) > seconds:
            return None
        return entry, age

    def _age(self, entry: Entry) -> float:
        return monotonic() - self._began[entry.number]
