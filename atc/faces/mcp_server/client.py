"""One client of the server: who it is, the runs that are its own, and what those did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from atc.calls.approval import EarlierWrite
from atc.calls.entry import CallKey
from atc.faces.mcp_server.kept import KeptRuns
from atc.traces.stores.base import RunStore

MOST_CLIENTS, MOST_RUNS, MOST_WRITES = 1_000, 10_000, 10_000
"""Clients, runs of a client and calls of a principal that are remembered. What is forgotten is still in the store for
an hour (:mod:`atc.faces.mcp_server.kept`)."""


@dataclass(frozen=True)
class ClientId:
    """Who a client is.

    Attributes:
        principal: who is behind it, as far as that was proved: a token's owner; ``local`` over pipes.
        name: what it calls itself. A claim, and never a right.
    """

    principal: str
    name: str = ""


@dataclass
class _Write:
    """What one run did with one call: how often it is making it now, and whether it was done, or may have been."""

    making: int = 0
    done: bool = False
    unknown: bool = False


class Writes:
    """Calls with effects of one principal's runs.

    Whoever is behind several clients, or reconnects by another name, is still the one whose letter would be sent twice.
    A call is found by the tool's name, and by what the tool is known by at its source: the user is asked, nothing more.

    Args:
        kept: the principal's runs in the store, of other processes too.
    """

    def __init__(self, kept: KeptRuns | None = None) -> None:
        self._kept = kept
        self._of: dict[CallKey, dict[str, _Write]] = {}
        self._stored: Mapping[CallKey, tuple[EarlierWrite, ...]] = {}

    def __len__(self) -> int:
        return len(self._of)

    async def refresh(self) -> None:
        """Look what other processes did meanwhile."""
        if self._kept is not None:
            self._stored = await self._kept.writes()

    def of_others(self, key: CallKey, run_id: str) -> EarlierWrite | None:
        """The same call of another run, the latest of this process first."""
        for handle in key.handles:
            for run, write in reversed(self._of.get(handle, {}).items()):
                if run != run_id:
                    return EarlierWrite(run, in_doubt=not write.done)
        stored = (each for handle in key.handles for each in self._stored.get(handle, ()))
        return next((each for each in stored if each.run != run_id), None)

    def take(self, key: CallKey, run_id: str) -> None:
        """A run is about to make a call."""
        for handle in key.handles:
            self._make_room()
            runs = self._of.pop(handle, {})
            write = runs.pop(run_id, None) or _Write()
            write.making += 1
            self._of[handle] = runs | {run_id: write}  # both now the latest

    def settle(self, key: CallKey, run_id: str, outcome: Literal["done", "refused", "unknown"]) -> None:
        """A call that was taken has ended."""
        for handle in key.handles:
            runs = self._of.get(handle, {})
            if (write := runs.get(run_id)) is None:
                continue
            write.making -= 1
            write.done, write.unknown = write.done or outcome == "done", write.unknown or outcome == "unknown"
            if not (write.making or write.done or write.unknown):
                del runs[run_id]
            if not runs:
                del self._of[handle]

    def _make_room(self) -> None:
        """Forget the oldest call that is not being made now."""
        if len(self._of) < MOST_WRITES:
            return
        for key, runs in self._of.items():
            if not any(write.making for write in runs.values()):
                del self._of[key]
                return


@dataclass
class Client:
    """What a client has done over its connection.

    Attributes:
        id: who it is.
        runs: ids of its runs in this process.
        writes: calls with effects that runs of its principal made, or may have made.
        kept: runs of its principal that are in the store.
    """

    id: ClientId
    runs: set[str] = field(default_factory=set)
    writes: Writes = field(default_factory=Writes)
    kept: KeptRuns | None = None

    def owns(self, run_id: str) -> bool:
        """Whether a run is one that it may name: its own, or one that its principal began earlier."""
        return run_id in self.runs or (self.kept is not None and self.kept.owns(run_id))

    def begin(self, run_id: str) -> None:
        """Note that a run is its own, also for a later connection.

        Raises:
            EnvironmentProblem: it cannot be written down.
        """
        if len(self.runs) >= MOST_RUNS:
            self.runs.clear()  # the store knows them
        self.runs.add(run_id)
        if self.kept is not None:
            self.kept.begin(run_id, self.id.name)

    def earlier_writes(self, run_id: str) -> WritesOfOthers:
        """What the principal's other runs did, as one of the client's runs sees it."""
        return WritesOfOthers(self.writes, run_id)


class Clients:
    """All clients of a server.

    Args:
        store: where runs are kept.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._clients: dict[ClientId, Client] = {}
        self._principals: dict[str, tuple[Writes, KeptRuns]] = {}

    def of(self, who: ClientId) -> Client:
        """The client that is known by this id, or a new one."""
        client = self._clients.pop(who, None)
        if client is None:
            if len(self._clients) >= MOST_CLIENTS:
                self._forget_one()
            if who.principal not in self._principals:
                kept = KeptRuns(self._store, who.principal)
                self._principals[who.principal] = Writes(kept), kept
            writes, kept = self._principals[who.principal]
            client = Client(who, writes=writes, kept=kept)
        self._clients[who] = client
        return client

    def _forget_one(self) -> None:
        """Forget the oldest client of the principal that has most: a client may call itself whatever it likes."""
        ((most, _),) = Counter(each.principal for each in self._clients).most_common(1)
        del self._clients[next(each for each in self._clients if each.principal == most)]


@dataclass(frozen=True)
class WritesOfOthers:
    """The writes of a principal's other runs (:class:`atc.calls.approval.EarlierWrites`)."""

    writes: Writes
    run_id: str

    async def find(self, key: CallKey) -> EarlierWrite | None:
        """The same call of another run, if one did it or may have done it."""
        await self.writes.refresh()
        return self.writes.of_others(key, self.run_id)

    def take(self, key: CallKey, known: EarlierWrite | None) -> EarlierWrite | None:
        """Note that this run is about to make a call, unless a run has taken it that was not asked about."""
        found = self.writes.of_others(key, self.run_id)
        if found is not None and (known is None or found.run != known.run):
            return found
        self.writes.take(key, self.run_id)
        return None

    def settle(self, key: CallKey, outcome: Literal["done", "refused", "unknown"]) -> None:
        """A call that was taken has ended."""
        self.writes.settle(key, self.run_id, outcome)
