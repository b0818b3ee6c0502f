"""What pages read of stored runs: rows of the list, events as they are shown, whole values. Never on the event loop."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

from atc.errors import AtcError, TraceError, UsageError
from atc.serve.ui.parked_runs import ParkedRuns, none_waits
from atc.serve.ui.planned_runs import PlannedRuns, is_open, no_plan
from atc.serve.ui.streams import AS_JSON, Hub, line, message
from atc.traces.index import AT_ONCE_BYTES, Follower, RunIndex, line_of
from atc.traces.reading import FAILS
from atc.traces.stores.base import RUN_ID, RunStore, StoredRun
from atc.traces.summary import CUT_OFF, RUNNING, WAITING, RunSummary

Event = dict[str, Any]


@dataclass(frozen=True)
class Views:
    """What makes pages of events and rows.

    Attributes:
        show: the event of a trace's line as a page gets it; ``None`` where it is not for the page.
        whole_value: the value at a JSON pointer of an event.
        run_page: a run's page, of shown events.
        runs_page: the page of the list, of rows.
    """

    show: Callable[[int, Event], Event | None]
    whole_value: Callable[[Event, str], Any]
    run_page: Callable[[list[Event], Mapping[str, Any] | None], str]
    runs_page: Callable[[list[dict[str, Any]], Mapping[str, Any] | None], str]

    def shown(self, number: int, event: Event) -> tuple[Event, str] | None:
        """What a page gets of an event, also as JSON. One that cannot be shown becomes a word about that: the page
        goes on."""
        try:
            made = self.show(number, event)
            return None if made is None else (made, AS_JSON(made))
        except Exception as error:
            told = f"line {number} cannot be shown ({type(error).__name__}): `atc runs show --json` reads it"
            made = {"line": number, "kind": "damaged", "at": 0, "data": {"message": told}}
            return made, AS_JSON(made)


def own_views() -> Views:
    """The pages of ATC."""
    shown, run, runs = (import_module(f"atc.serve.pages.{name}") for name in ("run.shown", "run.page", "runs.page"))
    return Views(shown.shown, shown.whole_value, run.run_page, runs.runs_page)


THREADS = 4
"""That read for pages; tools have others."""
EMBEDDED_BYTES = 2_000_000
"""Bytes of shown events that a page has in itself; the rest comes by its stream."""
EMBEDDED_READ = 16_000_000
"""Bytes of a trace that are read for a page in itself."""
MAX_VALUE = 64_000_000
"""Bytes of a whole value."""
REST_S, MOST_REST_S = 0.2, 1.0
"""Seconds between two looks at a trace: the more, the longer nothing has come."""
FIRST_S = 0.3
"""Seconds that a list waits for runs that are read for the first time; it says how many are left."""
SHARE, MOST_LIST_S = 20, 5.0
"""The list of runs is looked at for one part in so many of the processor's time; and after so many seconds."""

P = ParamSpec("P")
R = TypeVar("R")


class Gone(AtcError):
    """There is no such run, or no such part of it."""


@dataclass(frozen=True)
class Part:
    """A part of a run's events, as its page gets them.

    Attributes:
        shown: number of the line, what is shown of it, and that as JSON.
        number: of the last line that was read.
        more: whether something may be unread.
    """

    shown: list[tuple[int, dict[str, Any], str]]
    number: int
    more: bool


class Reading:
    """Reads for pages, in threads of its own.

    Args:
        store: where the runs are.
        views: how events are shown.
        hub: told of rows that change.
        here: whether this server runs a run.
        parked: the runs that wait for approval.
        planned: the plans of dry runs.
    """

    def __init__(
        self,
        store: RunStore,
        views: Views,
        hub: Hub,
        here: Callable[[str], bool],
        parked: ParkedRuns,
        planned: PlannedRuns,
    ) -> None:
        self.store, self._views, self._hub, self._here = store, views, hub, here
        self._parked, self._planned = parked, planned
        self.index = RunIndex(store)
        self._threads = ThreadPoolExecutor(THREADS, "atc-ui")
        self._refreshing: asyncio.Task[None] | None = None
        self._poked = asyncio.Event()
        self._touched: set[str] = set()
        self._complete = False
        self._ending = False
        self._rest = self._looked = 0.0
        self._stale = True

    async def run(self, function: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
        """Call a function in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*given, **named))

    def end(self) -> None:
        """Read no more."""
        self._ending = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    # -- the list ------------------------------------------------------------------------------------------------------

    def row(self, row: RunSummary) -> dict[str, Any]:
        """A row of the list."""
        here = self._here(row.run_id)
        status = RUNNING if here and row.status == CUT_OFF else row.status
        return row.record() | {"status": status, "here": here}

    async def rows(self, fits: Callable[[RunSummary], bool], before: str, limit: int) -> dict[str, Any]:
        """A part of the list, the latest first.

        Raises:
            OSError, EnvironmentProblem: the store cannot be read.
        """
        await self.fresh(FIRST_S)

        def found() -> dict[str, Any]:
            fitting = [row for row in self.index.rows() if fits(row)]
            rest = [row for row in fitting if not before or row.run_id < before]
            rows = [self.row(row) for row in rest[:limit]]
            return {"runs": rows, "more": len(rest) > limit, "total": len(fitting), "unread": self.index.unread}

        return await self.run(found)

    async def fresh(self, seconds: float) -> None:
        """Look what has changed, unless that was just done, and wait for it so long at most.

        Raises:
            OSError, EnvironmentProblem: the store cannot be read.
        """
        if self._refreshing is None or self._refreshing.done():
            if not self._stale and asyncio.get_running_loop().time() < self._looked + self._rest:
                return
            self._stale = False
            self._refreshing = asyncio.create_task(self._refresh())
        done, _ = await asyncio.wait((self._refreshing,), timeout=seconds)
        for task in done:
            task.result()

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()

        def refreshed() -> None:
            begun = time.thread_time()
            for changed in self.index.refresh(ended=lambda: self._ending):
                if self._complete:  # what was there before is in the list already
                    loop.call_soon_threadsafe(self._tell, changed)
            for card in self._parked.look([row.run_id for row in self.index.rows() if row.status == WAITING]):
                loop.call_soon_threadsafe(self._tell_parked, card)
            self._rest = min(MOST_LIST_S, SHARE * (time.thread_time() - begun))

        touched, self._touched = self._touched, set()
        try:
            await self.run(refreshed)
            self._complete = True
        except BaseException:
            self._stale = True
            self._touched |= touched
            raise
        finally:
            self._looked = loop.time()
        # a run goes on for a moment after the last line of its trace: that it has ended here is no change of the index
        self._tell([run_id for run_id in touched if not self._here(run_id) and self.index.row(run_id) is not None])

    def _tell(self, changed: list[str]) -> None:
        for run_id in changed:
            if (row := self.index.row(run_id)) is None:
                self._hub.tell("gone", {"run_id": run_id})
            else:
                self._hub.tell("run", self.row(row))

    def _tell_parked(self, card: Mapping[str, Any]) -> None:
        self._hub.tell("parked", {**card, "more": self._parked.more})

    def poke(self, run_id: str = "") -> None:
        """Somebody begins to look at the list; or a run of this server has changed."""
        self._stale = True
        if run_id:
            self._touched.add(run_id)
        self._poked.set()

    async def watch(self) -> None:
        """Keep the list fresh while somebody looks at it."""
        while True:
            if self._hub.lists:
                try:
                    self._stale = True
                    await self.fresh(60.0)
                except (OSError, AtcError):
                    self._rest = max(self._rest, 5.0)  # who asks for the list is told why
            try:
                async with asyncio.timeout(max(1.0, self._rest)):
                    await self._poked.wait()
                    await asyncio.sleep(max(REST_S, self._rest))
            except TimeoutError:
                pass
            self._poked.clear()

    # -- one run -------------------------------------------------------------------------------------------------------

    def stored(self, run_id: str) -> StoredRun:
        """A run by its whole id.

        Raises:
            Gone: there is none.
        """
        if not RUN_ID.fullmatch(run_id) or not (stored := self.store.run(run_id)).exists:
            raise Gone(f"there is no run {run_id[:40]!r}: it may have been deleted")
        return stored

    def begun(self, stored: StoredRun) -> dict[str, Any]:
        """The first ``run_started`` of a run; empty where its trace has none in its first part."""
        events = (event for _, event in Follower(stored).read() if not isinstance(event, TraceError))
        return next((event["data"] for event in events if event["kind"] == "run_started"), {})

    def part(self, follower: Follower) -> Part:
        """The next events of a run."""
        shown: list[tuple[int, dict[str, Any], str]] = []
        for number, event in follower.read():
            if isinstance(event, TraceError):
                event = {"kind": "damaged", "at": 0, "data": {"message": str(event)}}
            if (made := self._views.shown(number, event)) is not None:
                shown.append((number, *made))
        return Part(shown, follower.number, follower.more)

    def beginning(self, stored: StoredRun) -> tuple[list[dict[str, Any]], int]:
        """The events that a run's page has in itself, and the number of the last line that they are of."""
        follower, shown, size, read = Follower(stored), list[dict[str, Any]](), 0, 0
        while follower.more and size < EMBEDDED_BYTES and read < EMBEDDED_READ:
            part = self.part(follower)
            shown += [each for _, each, _ in part.shown]
            size += sum(len(text) for _, _, text in part.shown)
            read += AT_ONCE_BYTES
        return shown, follower.number

    def value(self, stored: StoredRun, number: int, pointer: str) -> tuple[bytes, str]:
        """A whole value, and its media type: a text as it is, all else as JSON.

        Raises:
            Gone: there is no such line or value.
            UsageError: it is too large.
            OSError, AtcError: the trace cannot be read.
        """
        try:
            event = line_of(stored, number)
        except LookupError as error:
            raise Gone(str(error)) from None
        try:
            found = self._views.whole_value(event, pointer)
        except FAILS as error:
            raise Gone(f"line {number} of run {stored.run_id} has nothing at {pointer[:200]!r}") from error
        is_text = isinstance(found, str)
        whole = found.encode("utf-8", "replace") if is_text else json.dumps(found, ensure_ascii=True).encode()
        if len(whole) > MAX_VALUE:
            raise UsageError(
                f"the value has {len(whole):,} bytes; a page gets {MAX_VALUE:,}: read it by `atc runs show --json`"
            )
        return whole, "text/plain; charset=utf-8" if is_text else "application/json"

    async def follow(
        self, stored: StoredRun, after: int, state: Callable[[str, Any], dict[str, Any]]
    ) -> AsyncIterator[bytes]:
        """The stream of one run's page, from a line on; empty parts where nothing came.

        Args:
            stored: the run.
            after: the line that the page has.
            state: what the page says of the run, by its status and its source.
        """
        follower, rest = Follower(stored, after), REST_S
        told: dict[str, Any] | None = None
        asked: dict[str, Any] | None = None
        planned: dict[str, Any] | None = None
        with self._hub.subscribed(stored.run_id) as hears:
            while not hears.ended:
                was_here = self._here(stored.run_id)  # before it is read: its last events may come meanwhile
                try:
                    part = await self.run(self.part, follower)
                    card = await self.run(self._parked.card, stored) if follower.status == WAITING else None
                    has_ended = follower.status not in (CUT_OFF, WAITING) and not was_here
                    plan = await self.run(self._planned.card, stored) if has_ended else None
                    goes_on = follower.status == CUT_OFF and (was_here or await self.run(stored.is_held))
                except FileNotFoundError:
                    yield message({"run_id": stored.run_id}, event="gone")
                    return
                except (OSError, AtcError) as error:
                    yield message({"message": str(error)}, event="failed")
                    return
                said = hears.take() + b"".join(line(number, text) for number, _, text in part.shown)
                now = state(RUNNING if goes_on else follower.status, follower.source)
                if now != told and now["here"] == was_here:
                    told = now
                    said += message(now, event="state")
                if card is not asked:
                    asked = card
                    said += message(none_waits(stored.run_id) if card is None else card, event="parked")
                if plan is not planned:
                    planned = plan
                    said += message(no_plan(stored.run_id) if plan is None else plan, event="plan")
                yield said
                if part.more or now["here"] != was_here:
                    continue
                if has_ended and not now["here"] and not part.shown and not is_open(plan, time.time()):
                    yield message({"run_id": stored.run_id, "after": follower.number}, event="end")
                    return
                rest = REST_S if said else min(rest * 1.5, MOST_REST_S)
                await hears.wait(rest)
