"""The journal of a run: what was asked of tools and what came of it, written before and after every call.

A revised program runs from its start; a call that already succeeded is answered from here. The n-th success of a tool
with the same canonical arguments answers the n-th such call of a later program. A call with effects whose outcome was
never learned is *in doubt*: it is reported, and never made again.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from atc.errors import JournalError
from atc.execution.canonical import canonical
from atc.tools.protocol import Effect

CallKey = tuple[str, str]
"""A tool's name and its canonical arguments."""


@dataclass
class Entry:
    """One call that was begun. ``state`` is ``open`` until its outcome is written."""

    number: int
    tool: str
    arguments: dict[str, Any]
    effect: Effect
    attempt: int
    state: Literal["open", "done", "refused", "unknown"] = "open"
    value: Any = None

    @property
    def in_doubt(self) -> bool:
        return self.effect is not Effect.READ and self.state in ("open", "unknown")


class Journal:
    """An append-only file of JSON lines, and its index in memory.

    Args:
        path: the file; ``None`` keeps the journal in memory only. An existing file is read back and continued; a last
            line that was cut short by a crash is dropped.

    Raises:
        JournalError: the file cannot be read, written or understood.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.entries: dict[int, Entry] = {}
        self.attempt = -1
        self._successes: dict[CallKey, list[Entry]] = {}
        self._claimed: Counter[CallKey] = Counter()
        self._file: BinaryIO | None = None
        if path is not None:
            try:
                self._read(path)
                self._file = path.open("ab", buffering=0)
            except OSError as error:
                raise JournalError(f"cannot use the journal {path}: {error.strerror}") from None

    def begin_attempt(self) -> None:
        """A new program starts: earlier successes may be claimed again from the first one on."""
        self.attempt += 1
        self._claimed.clear()

    def claim(self, tool: str, arguments: dict[str, Any]) -> Entry | None:
        """Return the recorded success that answers this call, if an earlier program made it; each answers once."""
        key = (tool, canonical(arguments))
        recorded = self._successes.get(key, [])
        position = self._claimed[key]
        if position < len(recorded) and recorded[position].attempt < self.attempt:
            self._claimed[key] += 1
            return recorded[position]
        return None

    def doubtful(self, tool: str, arguments: dict[str, Any]) -> Entry | None:
        """The same call with effects, made before, whose outcome is unknown."""
        text = canonical(arguments)
        for entry in self.entries.values():
            if entry.in_doubt and entry.tool == tool and canonical(entry.arguments) == text:
                return entry
        return None

    def unclaimed_writes(self, tool: str) -> list[Entry]:
        """What earlier programs did with effects through ``tool`` and this one has not asked for again (yet)."""
        left = []
        for key, recorded in self._successes.items():
            if key[0] == tool:
                rest = recorded[self._claimed[key] :]
                left += [e for e in rest if e.effect is not Effect.READ and e.attempt < self.attempt]
        return left

    def begin(self, number: int, tool: str, arguments: dict[str, Any], effect: Effect) -> Entry:
        """Write down that a call is about to be made. On disk before this returns, if it has effects."""
        entry = Entry(number, tool, arguments, effect, self.attempt)
        self._append(
            {"call": number, "begin": tool, "args": arguments, "effect": effect.value, "attempt": self.attempt},
            sync=effect is not Effect.READ,
        )
        self.entries[number] = entry
        return entry

    def succeed(self, entry: Entry, value: Any) -> None:
        """Write down the answer of a call."""
        self._append({"call": entry.number, "value": value}, sync=entry.effect is not Effect.READ)
        self._done(entry, value)

    def fail(self, entry: Entry, *, surely_not_done: bool, message: str) -> None:
        """Write down that a call failed, and whether it surely did nothing."""
        state: Literal["refused", "unknown"] = "refused" if surely_not_done else "unknown"
        self._append({"call": entry.number, "failed": state, "message": message}, sync=entry.effect is not Effect.READ)
        entry.state = state

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _done(self, entry: Entry, value: Any) -> None:
        entry.state, entry.value = "done", value
        key = (entry.tool, canonical(entry.arguments))
        self._successes.setdefault(key, []).append(entry)
        if entry.attempt == self.attempt:
            self._claimed[key] += 1  # made by this program itself: no later call of it is answered by it

    def _append(self, record: dict[str, Any], *, sync: bool) -> None:
        if self.path is None:
            return
        if self._file is None:
            raise JournalError(f"the journal {self.path} is closed")
        try:
            self._file.write(json.dumps(record, ensure_ascii=True, allow_nan=False).encode() + b"\n")
            if sync:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise JournalError(f"cannot write the journal {self.path}: {error.strerror}") from None

    def _read(self, path: Path) -> None:
        if not path.exists():
            return
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(path, whole)
        for line_number, line in enumerate(content[:whole].splitlines(), start=1):
            try:
                self._apply(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise JournalError(f"{path}, line {line_number} is not a journal record: {error!r}") from None

    def _apply(self, record: dict[str, Any]) -> None:
        number = record["call"]
        if "begin" in record:
            entry = Entry(number, record["begin"], record["args"], Effect(record["effect"]), record["attempt"])
            self.entries[number] = entry
            self.attempt = max(self.attempt, entry.attempt)
        elif "value" in record:
            self._done(self.entries[number], record["value"])
        else:
            self.entries[number].state = record["failed"]
