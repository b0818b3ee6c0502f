"""Finds the calls that wait for approval in other runs of a store: who is asked about an equal one hears of the first.

A task that was given twice asks twice. Only what one run's question needs is read, once: the journals of the newest
runs, in a thread, as lines. A run that parks a call at the same moment is not seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from atc.calls.entry import CallKey
from atc.calls.parked import WAITS_S, parts_of
from atc.errors import EnvironmentProblem
from atc.tools.tool import Tool
from atc.traces.stores.base import RunStore, StoredRun

MOST_RUNS, MOST_BYTES = 100, 20_000_000
"""The newest runs that are looked at, and the bytes of their journals that are read."""
_Waits = tuple[float, Mapping[str, str], str]
"""Since when a call waits, the parts of its tool, and the key of its run, under which their digests were taken."""
_OF_INTEREST = (b'"pending": ', b'"decision": ', b'"approved": ', b'"run_key": ')


class WaitingElsewhere:
    """The calls that wait in other runs of a store, as one run sees them when it first asks."""

    def __init__(self, store: RunStore, run_id: str) -> None:
        self._store, self._run_id = store, run_id
        self._first: asyncio.Future[dict[str, list[tuple[str, _Waits]]]] | None = None

    async def find(self, key: CallKey, tool: Tool) -> str:
        """Return the id of the first run in which an equal call of an equal tool waits; empty without one."""
        if self._first is None:
            self._first = asyncio.ensure_future(asyncio.to_thread(self._read))
        equal = (await asyncio.shield(self._first)).get(key.digest, ())
        found = ((at, run) for run, (at, parts, run_key) in equal if parts == parts_of(tool, run_key))
        return min(found, default=(0.0, ""))[1]

    def _read(self) -> dict[str, list[tuple[str, _Waits]]]:
        found: dict[str, list[tuple[str, _Waits]]] = {}
        left = MOST_BYTES
        with contextlib.suppress(OSError, EnvironmentProblem):  # to tell of another run is a help, and no condition
            for stored, _ in self._store.recent(MOST_RUNS, WAITS_S):
                if stored.run_id == self._run_id:
                    continue
                lines, read = _lines(stored, left)
                left -= read
                for call, waits in _waiting(lines):
                    found.setdefault(call, []).append((stored.run_id, waits))
                if left <= 0:
                    break
        return found


def _lines(stored: StoredRun, most: int) -> tuple[list[bytes], int]:
    found, read = [], 0
    with contextlib.suppress(OSError, EnvironmentProblem):  # it was just pruned
        for line in stored.peeked():
            read += len(line)
            if any(each in line for each in _OF_INTEREST):
                found.append(line)
            if read > most:
                break
    return found, read


def _waiting(lines: Iterable[bytes]) -> list[tuple[str, _Waits]]:
    waiting: dict[int, tuple[str, _Waits]] = {}
    now, run_key = time.time(), ""
    for line in lines:
        try:
            record: Any = json.loads(line)
            run_key = record.get("run_key", run_key)
            if "pending" in record:
                waiting.pop(record["instead"], None)
                if record["until"] > now:
                    waits = float(record["at"]), dict(record["parts"]), run_key
                    waiting[record["pending"]] = str(record["key"]), waits
            elif "decision" in record and not record["yes"]:
                waiting.pop(record["decision"], None)
            elif "approved" in record:  # it was made
                waiting.pop(record["approved"], None)
        except (ValueError, LookupError, TypeError, RecursionError):  # cut short, or damaged: whoever opens it says so
            continue
    return [*waiting.values()]
