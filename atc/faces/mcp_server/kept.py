"""Runs of one principal on disk: whose they are, and the calls with effects that they made within the last hour.

A client that was killed comes back with a new connection, often in a new process. What it did before is in the journals
of its runs. They are read without their lock, for the process that wrote them may still be ending.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import logging
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from atc.calls.approval import EarlierWrite
from atc.calls.entry import CallKey
from atc.errors import EnvironmentProblem
from atc.result import Effect
from atc.traces.stores.files import FileStore

FILE = "client.json"
RECENT_S, MOST_RECENT = 3_600.0, 200
"""Seconds since a journal was last written, and runs, that are looked at."""
_RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")
_OUTCOME = re.compile(rb'\{"call": ([0-9]{1,18}), "(value|failed)": ("refused")?')
_MAX_OWNER = 10_000
_log = logging.getLogger(__name__)

_Seen = tuple[int, int]
_Made = dict[CallKey, bool]
"""Calls with effects that a run made, each with whether it surely was done."""


class KeptRuns:
    """The runs of one principal.

    Args:
        store: where runs are kept.
        principal: whose they are.
    """

    def __init__(self, store: FileStore, principal: str) -> None:
        self._store, self._principal = store, principal
        self._read: dict[str, tuple[_Seen, _Made]] = {}
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
        record = json.dumps({"principal": self._principal, "client": client})
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(run.folder / FILE, flags, 0o600), "w", encoding="utf-8") as file:
                file.write(record)
        except OSError as error:
            raise EnvironmentProblem(f"the run cannot be kept in {run.folder}: {error.strerror}") from None

    def owns(self, run_id: str) -> bool:
        """Whether a run is the principal's."""
        return _RUN_ID.fullmatch(run_id) is not None and self._is_owned(self._store.folder / run_id)

    async def writes(self) -> Mapping[CallKey, tuple[EarlierWrite, ...]]:
        """Calls with effects of the principal's recent runs, the latest run first."""
        return await asyncio.to_thread(self._writes)

    def _writes(self) -> Mapping[CallKey, tuple[EarlierWrite, ...]]:
        read: dict[str, tuple[_Seen, _Made]] = {}
        oldest = time.time() - RECENT_S
        for run_id in self._recent():
            journal = f"{self._store.folder}/{run_id}/journal.jsonl"
            try:
                status = os.stat(journal)
                known, seen = self._read.get(run_id), (status.st_size, status.st_mtime_ns)
                if status.st_mtime < oldest or (known is None and not self._is_owned(self._store.folder / run_id)):
                    continue
                read[run_id] = known if known is not None and known[0] == seen else (seen, _made(Path(journal)))
            except OSError:
                continue  # it was just pruned
        if read != self._read:
            found: dict[CallKey, tuple[EarlierWrite, ...]] = {}
            for run_id, (_, made) in read.items():
                for key, done in made.items():
                    found[key] = (*found.get(key, ()), EarlierWrite(run_id, in_doubt=not done))
            self._read, self._found = read, found
        return self._found

    def _recent(self) -> list[str]:
        try:
            names = [entry.name for entry in os.scandir(self._store.folder) if _RUN_ID.fullmatch(entry.name)]
        except OSError:
            return []
        return heapq.nlargest(MOST_RECENT, names)

    def _is_owned(self, folder: Path) -> bool:
        try:
            with (folder / FILE).open("rb") as file:
                record = json.loads(file.read(_MAX_OWNER))
        except (OSError, ValueError, RecursionError):
            return False
        return isinstance(record, dict) and record.get("principal") == self._principal


def _made(journal: Path) -> _Made:
    """The calls with effects of a journal that were done, or may have been. A line that is cut short is no call yet."""
    begun: dict[int, CallKey] = {}
    done: set[int] = set()
    refused: set[int] = set()
    with journal.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if outcome := _OUTCOME.match(line):
                number = int(outcome[1])
                (done if outcome[2] == b"value" else refused if outcome[3] else set()).add(number)
            elif line.startswith(b'{"call": ') and b', "begin": ' in line[:40]:
                try:
                    record = json.loads(line)
                    call, tool, key = record["call"], record["begin"], record["key"]
                    if not (isinstance(call, int) and isinstance(tool, str) and isinstance(key, str)):
                        raise ValueError
                    if record["effect"] != Effect.READ.value:
                        begun[call] = (tool, key)
                except (ValueError, KeyError, TypeError, RecursionError):
                    if line.endswith(b"\n"):
                        _log.warning(
                            "%s, line %d is damaged: nobody is asked whether its call is made again", journal, number
                        )
    made: _Made = {}
    for number, key in begun.items():
        if number not in refused:
            made[key] = made.get(key, False) or number in done
    return made
