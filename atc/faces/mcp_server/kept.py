"""Runs of one principal in the store: whose they are, and the calls with effects that they made within the last hour.

A client that was killed comes back with a new connection, often in a new process. What it did before is in the journals
of its runs. They are read without their lock, for the process that wrote them may still be ending.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Hashable, Iterable, Mapping

from atc.calls.approval import EarlierWrite
from atc.calls.entry import CallKey, source_of
from atc.errors import EnvironmentProblem
from atc.result import Effect
from atc.traces.stores.base import RUN_ID, RecentJournal, RunStore, StoredRun

NOTE = "client"
RECENT_S, MOST_RECENT = 3_600.0, 200
"""Seconds since a journal was last written, and runs, that are looked at."""
_OUTCOME = re.compile(rb'\{"call": ([0-9]{1,18}), "(value|failed)": ("refused")?')
_log = logging.getLogger(__name__)

_Made = dict[CallKey, bool]
"""Calls with effects that a run made, by each of their handles, with whether it surely was done."""


class KeptRuns:
    """The runs of one principal.

    Args:
        store: where runs are kept.
        principal: whose they are.
    """

    def __init__(self, store: RunStore, principal: str) -> None:
        self._store, self._principal = store, principal
        self._read: dict[str, tuple[Hashable, _Made]] = {}
        self._others: set[str] = set()
        self._found: Mapping[CallKey, tuple[EarlierWrite, ...]] = {}

    def begin(self, run_id: str, client: str) -> None:
        """Write down whose a run is.

        Args:
            run_id: of the run.
            client: what the client calls itself.

        Raises:
            EnvironmentProblem: it cannot be written.
        """
        run = self._store.run(run_id)
        run.make()
        run.keep_note(NOTE, {"principal": self._principal, "client": client})

    def owns(self, run_id: str) -> bool:
        """Whether a run is the principal's."""
        return RUN_ID.fullmatch(run_id) is not None and self._is_owned(self._store.run(run_id))

    async def writes(self) -> Mapping[CallKey, tuple[EarlierWrite, ...]]:
        """Calls with effects of the principal's recent runs, the latest run first."""
        return await asyncio.to_thread(self._writes)

    def _writes(self) -> Mapping[CallKey, tuple[EarlierWrite, ...]]:
        read: dict[str, tuple[Hashable, _Made]] = {}
        others: set[str] = set()
        for run, seen in self._recent():
            known = self._read.get(run.run_id)
            try:
                if known is None and (run.run_id in self._others or not self._is_owned(run)):
                    others.add(run.run_id)
                    continue
                fresh = known is not None and known[0] == seen
                read[run.run_id] = known if known is not None and fresh else (seen, _made(run.where, run.peeked()))
            except (OSError, EnvironmentProblem):
                continue  # it was just pruned
        self._others = others  # a run is its principal's before it has a journal
        if read != self._read:
            found: dict[CallKey, tuple[EarlierWrite, ...]] = {}
            for run_id, (_, made) in read.items():
                for handle, done in made.items():
                    found[handle] = (*found.get(handle, ()), EarlierWrite(run_id, in_doubt=not done))
            self._read, self._found = read, found
        return self._found

    def _recent(self) -> list[RecentJournal]:
        try:
            return self._store.recent(MOST_RECENT, RECENT_S)
        except (OSError, EnvironmentProblem):
            return []

    def _is_owned(self, run: StoredRun) -> bool:
        return (run.note(NOTE) or {}).get("principal") == self._principal


def _made(where: str, lines: Iterable[bytes]) -> _Made:
    """The calls with effects of a journal that were done, or may have been. A line that is cut short is no call yet."""
    begun: dict[int, CallKey] = {}
    done: set[int] = set()
    refused: set[int] = set()
    for number, line in enumerate(lines, start=1):
        if outcome := _OUTCOME.match(line):
            if not line.endswith(b"\n") and not _is_json(line):
                continue  # a crash cut it short: the call is in doubt
            number = int(outcome[1])
            (done if outcome[2] == b"value" else refused if outcome[3] else set()).add(number)
        elif line.startswith(b'{"call": ') and b', "begin": ' in line[:40]:
            try:
                record = json.loads(line)
                call, tool, key = record["call"], record["begin"], record["key"]
                if not (isinstance(call, int) and isinstance(tool, str) and isinstance(key, str)):
                    raise ValueError
                if record["effect"] != Effect.READ.value:
                    begun[call] = CallKey(tool, key, source_of(record.get("source")))
            except (ValueError, KeyError, TypeError, RecursionError):
                if line.endswith(b"\n"):
                    _log.warning(
                        "%s, line %d is damaged: nobody is asked whether its call is made again", where, number
                    )
    made: _Made = {}
    for number, key in begun.items():
        for handle in key.handles if number not in refused else ():
            made[handle] = made.get(handle, False) or number in done
    return made


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
