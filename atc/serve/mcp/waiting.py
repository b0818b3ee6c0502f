"""Runs of clients that wait for approval: how many may, what they wait for, and how one ends so that a call waits."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Collection, Coroutine, Hashable
from typing import Any, TypeVar

from atc._records.records import PendingCall
from atc.calls.approval import ApprovalRequest, EarlierWrite, Refusal, Verdicts
from atc.calls.entry import CallKey
from atc.calls.journal_records import source_of
from atc.errors import AtcError
from atc.traces.index import RunIndex
from atc.traces.stores.base import RunStore, StoredRun
from atc.traces.summary import RunSummary

T = TypeVar("T")
LOOK_S = 0.05
"""Seconds after which is looked again whether calls have ended."""
MOST_WAITING, MOST_KNOWN = 50, 500
"""Runs of one principal that may wait for approval: they are not pruned, and somebody shall read them. And runs
whose calls are remembered."""


class WaitingRuns:
    """The runs of a store that wait for approval: a client may begin any number of them.

    Args:
        store: where they are.
        owner_of: returns the principal of a run.
    """

    def __init__(self, store: RunStore, owner_of: Callable[[StoredRun], str]) -> None:
        self._store, self._index, self._owner_of = store, RunIndex(store), owner_of
        self._owners: dict[str, str] = {}
        self._calls: dict[str, tuple[Hashable, frozenset[CallKey]]] = {}

    async def full(self, principal: str, run_id: str) -> bool:
        """Return whether as many other runs of a principal wait as may, so that a call of this one must not."""
        return await asyncio.to_thread(self._full, principal, run_id)

    def _full(self, principal: str, run_id: str) -> bool:
        waiting = self._of(principal, run_id)
        if len(waiting) < MOST_WAITING:
            return False
        return sum(bool(_parked(self._store.run(row.run_id))) for row in waiting) >= MOST_WAITING

    async def find(self, principal: str, key: CallKey, run_id: str) -> EarlierWrite | None:
        """Return the run of a principal that waits for approval to the same call, and began before this one: of two
        that wait for the same, one goes on."""
        return await asyncio.to_thread(self._find, principal, key, run_id)

    def _find(self, principal: str, key: CallKey, run_id: str) -> EarlierWrite | None:
        waiting = self._of(principal, run_id)
        mine = self._index.row(run_id)
        began = math.inf if mine is None or mine.began is None else mine.began
        for row in sorted(waiting, key=lambda row: row.run_id):
            run = self._store.run(row.run_id)
            is_earlier = (row.began or 0.0, row.run_id) < (began, run_id)
            if is_earlier and self._asked(run) & {*key.handles} and _parked(run) & {*key.handles}:
                return EarlierWrite(row.run_id, waits=True)
        return None

    def _of(self, principal: str, run_id: str) -> list[RunSummary]:
        for _ in self._index.refresh():
            pass
        waiting = [row for row in self._index.rows() if row.status == "waiting" and row.run_id != run_id]
        self._owners = {
            each.run_id: self._owners.get(each.run_id) or self._owner_of(self._store.run(each.run_id))
            for each in waiting
        }
        return [each for each in waiting if self._owners[each.run_id] == principal]

    def _asked(self, run: StoredRun) -> frozenset[CallKey]:
        """Return what :func:`_parked` does, as it was read first since the run ended: a no since then is not known."""
        version = run.version()
        known = self._calls.get(run.run_id)
        if known is None or known[0] != version:
            if len(self._calls) > MOST_KNOWN:
                self._calls.clear()
            known = self._calls[run.run_id] = version, _parked(run)
        return known[1]


def _parked(run: StoredRun) -> frozenset[CallKey]:
    """Return the calls that a run ended with, by each of their handles, without those that somebody said no to and the
    expired ones; none where that cannot be read: such a run cannot go on, either."""
    try:
        return _read_parked(run)
    except (AtcError, OSError, ValueError, LookupError, TypeError, RecursionError):
        return frozenset()


def _read_parked(run: StoredRun) -> frozenset[CallKey]:
    pending = map(PendingCall.model_validate, (run.last("run_ended") or {}).get("pending", ()))
    asked = {call.index for call in pending if call.until > time.time()}
    found: dict[int, CallKey] = {}
    for line in run.peeked():
        if not line.startswith((b'{"pending": ', b'{"decision": ')):
            continue
        record = json.loads(line)
        if "pending" in record and record["pending"] in asked:
            found[record["pending"]] = CallKey(record["tool"], record["key"], source_of(record.get("source")))
        elif record.get("yes") is False:
            found.pop(record["decision"], None)
    return frozenset(handle for key in found.values() for handle in key.handles)


def refuse_to_wait(request: ApprovalRequest) -> Verdicts:
    """Refuse a call of a principal too many of whose runs wait."""
    return Refusal(
        f"{MOST_WAITING} runs of yours wait for approval already: have them decided first (`atc runs approvals`)"
    )


def refuse_unanswered(request: ApprovalRequest) -> Verdicts:
    """Refuse what does not wait, such as a read, after a question that nobody answered."""
    return Refusal("nobody answered an earlier question of this program")


# -- one program -------------------------------------------------------------------------------------------------------


async def until_lapsed(
    lapsed: asyncio.Event | None, run: Coroutine[Any, Any, T], under_way: Collection[int]
) -> T | None:
    """Return what a run ended with; ``None`` where a question lapsed, and the run was stopped. A call with effects that
    is being made meanwhile is not stopped: nobody would know whether it was done."""
    if lapsed is None:
        return await run
    task, lapse = asyncio.create_task(run), asyncio.create_task(lapsed.wait())
    try:
        await asyncio.wait((task, lapse), return_when=asyncio.FIRST_COMPLETED)
        while under_way and not task.done():
            await asyncio.wait((task,), timeout=LOOK_S)
        return task.result() if task.done() else None
    finally:
        for each in (task, lapse):
            each.cancel()
        await asyncio.wait((task, lapse))
