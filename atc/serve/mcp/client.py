"""One client of the server: who it is, the runs that are its own, here and in the store, and what those did."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import quote

from mcp.server import ServerRequestContext
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, principal_components
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from atc._host.blocking import in_thread
from atc.calls.approval import EarlierWrite
from atc.calls.entry import CallKey
from atc.calls.journal_records import source_of
from atc.errors import EnvironmentProblem, UsageError
from atc.result import Effect
from atc.run.author import Past
from atc.serve.mcp.waiting import WaitingRuns
from atc.traces.stores.base import RUN_ID, RecentJournal, RunStore, StoredRun

# -- who calls ---------------------------------------------------------------------------------------------------------

LOCAL = "local"
TOKEN = "token:"
"""Begins the principal of a token that this server's owner gave out; OAuth's begin with ``oauth:``."""


def principal_of(context: ServerRequestContext[Any]) -> str:
    """The proved owner of a request.

    Raises:
        UsageError: it came over HTTP without a verified token. The guard lets none through; this is the second lock.
    """
    token = get_access_token()
    if token is not None:
        return principal_named(token)
    if context.request is not None:
        raise UsageError("the request came over HTTP without a verified token")
    return LOCAL


def session_of(context: ServerRequestContext[Any]) -> str:
    """The session of the protocol in which a request came; empty over pipes, and in the protocol without sessions."""
    if context.request is None or context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return ""
    return str(context.request.headers.get("mcp-session-id", ""))


def principal_named(token: AccessToken) -> str:
    """The principal of a verified token: ``token:NAME``, or ``oauth:issuer|client|subject``, each quoted."""
    client, issuer, subject = principal_components(token)
    if issuer is None:
        return client
    return "oauth:" + "|".join(quote(part or "", safe="") for part in (issuer, client, subject))


# -- runs of one principal in the store --------------------------------------------------------------------------------

NOTE = "client"
RECENT_S, MOST_RECENT = 3_600.0, 200
"""Seconds since a journal was last written, and runs, that are looked at."""
_OUTCOME = re.compile(rb'\{"call": ([0-9]{1,18}), "(value|failed)": ("refused")?')
_log = logging.getLogger(__name__)

_Made = dict[CallKey, bool]
"""Calls with effects that a run made, by each of their handles, with whether it surely was done."""


class KeptRuns:
    """The runs of one principal in a store."""

    def __init__(self, store: RunStore, principal: str) -> None:
        self._store, self._principal = store, principal
        self._read: dict[str, tuple[Hashable, _Made]] = {}
        self._others: set[str] = set()
        self._found: Mapping[CallKey, tuple[EarlierWrite, ...]] = {}

    def begin(self, run_id: str, client: str) -> None:
        """Write down whose a run is, and what the client calls itself.

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
        return await in_thread(self._writes)

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
        return owner_of(run) == self._principal


def owner_of(run: StoredRun) -> str:
    """Return the principal of a run; empty where none is known."""
    return str((run.note(NOTE) or {}).get("principal", ""))


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


# -- clients, and what their runs did ----------------------------------------------------------------------------------

MOST_CLIENTS, MOST_RUNS, MOST_WRITES = 1_000, 10_000, 10_000
"""Clients, runs of a client and calls of a principal that are remembered. What is forgotten is still in the store for
an hour (:mod:`atc.serve.mcp.client`)."""
MOST_SESSIONS = 1_000
"""Sessions of which is remembered what their models have seen, by the programs that they wrote before."""


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
        kept: runs of its principal that are in the store. ``waiting``: all that wait for approval.
        past: what the model of this session has seen and written.
    """

    id: ClientId
    runs: set[str] = field(default_factory=set)
    writes: Writes = field(default_factory=Writes)
    kept: KeptRuns | None = None
    waiting: WaitingRuns | None = None
    past: Past = field(default_factory=Past)

    def owns(self, run_id: str) -> bool:
        """Whether a run is one that it may name: its own, or one that its principal began earlier."""
        return run_id in self.runs or (self.kept is not None and self.kept.owns(run_id))

    def claim(self, run_id: str) -> None:
        """Write down that a run is its own, also for a later connection: in a thread, for it may be slow.

        Raises:
            EnvironmentProblem: it cannot be written down.
        """
        if self.kept is not None:
            self.kept.begin(run_id, self.id.name)

    def begin(self, run_id: str) -> None:
        """Note that a run is its own."""
        if len(self.runs) >= MOST_RUNS:
            self.runs.clear()  # the store knows them
        self.runs.add(run_id)

    def earlier_writes(self, run_id: str) -> WritesOfOthers:
        """What the principal's other runs did, as one of the client's runs sees it."""
        return WritesOfOthers(self.writes, run_id, self.id.principal, self.waiting)


class Sessions:
    """What the models of all sessions have seen: a session of the protocol, or all of a principal where it has none."""

    def __init__(self) -> None:
        self._pasts: dict[tuple[str, str], Past] = {}
        self._forgotten: dict[str, set[str]] = {}

    def of(self, principal: str, session: str) -> Past:
        """Return what the model of a session has seen. A new one has seen what a forgotten one had, which it may be."""
        past = self._pasts.pop((principal, session), None)
        if past is None:
            if len(self._pasts) >= MOST_SESSIONS:
                self._forget_one()
            past = Past(saw=set(self._forgotten.get(principal, ())))
        self._pasts[principal, session] = past
        return past

    def seen_by(self, principal: str) -> set[str]:
        """Return the untrusted tools whose answers the sessions of a principal have seen."""
        pasts = (past.saw for (owner, _), past in self._pasts.items() if owner == principal)
        return set().union(self._forgotten.get(principal, ()), *pasts)

    def _forget_one(self) -> None:
        ((most, _),) = Counter(owner for owner, _ in self._pasts).most_common(1)
        oldest = next(each for each in self._pasts if each[0] == most)
        self._forgotten.setdefault(most, set()).update(self._pasts.pop(oldest).saw)


class Clients:
    """All clients of a server, whose runs are kept in one store."""

    def __init__(self, store: RunStore) -> None:
        self._store, self.waiting = store, WaitingRuns(store, owner_of)
        self.sessions = Sessions()
        self._clients: dict[ClientId, Client] = {}
        self._principals: dict[str, tuple[Writes, KeptRuns]] = {}

    def of(self, who: ClientId, session: str = "") -> Client:
        """The client that is known by this id, or a new one.

        Args:
            who: the id.
            session: of the protocol; empty where it has none.
        """
        client = self._clients.pop(who, None)
        if client is None:
            if len(self._clients) >= MOST_CLIENTS:
                self._forget_one()
            if who.principal not in self._principals:
                kept = KeptRuns(self._store, who.principal)
                self._principals[who.principal] = Writes(kept), kept
            writes, kept = self._principals[who.principal]
            client = Client(who, writes=writes, kept=kept, waiting=self.waiting)
        self._clients[who] = client
        return replace(client, past=self.sessions.of(who.principal, session))

    def _forget_one(self) -> None:
        """Forget the oldest client of the principal that has most: a client may call itself whatever it likes."""
        ((most, _),) = Counter(each.principal for each in self._clients).most_common(1)
        del self._clients[next(each for each in self._clients if each.principal == most)]


@dataclass(frozen=True)
class WritesOfOthers:
    """The writes of a principal's other runs (:class:`atc.calls.approval.EarlierWrites`)."""

    writes: Writes
    run_id: str
    principal: str = ""
    waiting: WaitingRuns | None = None

    async def find(self, key: CallKey) -> EarlierWrite | None:
        """The same call of another run, if one did it, may have done it, or waits for approval to it."""
        await self.writes.refresh()
        found = self.writes.of_others(key, self.run_id)
        if found is not None or self.waiting is None:
            return found
        return await self.waiting.find(self.principal, key, self.run_id)

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
