"""The catalogue: an agent's tools, the index that finds them, the graph of what feeds what, and what runs have taught.

:class:`atc.Agent` makes one by itself. For a task it gives a :class:`~atc.catalogue.sketch.Sketch`: the tools to
offer, and why.
Few tools are all offered: nothing is searched, read or written for that. After a run it learns names, counts and edges,
never values (:mod:`atc.programs.lessons`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from typing import Protocol as Interface

from atc.calls.json_values import holds_nothing, is_empty
from atc.catalogue.graph.edges import NOTHING_LEARNT, Learnt
from atc.catalogue.graph.lessons import Observations
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.catalogue.index.retriever import IndexRetriever, Retriever, as_sketch
from atc.catalogue.sketch import Sketch, ToolRoom, Why, all_of, protocols_of
from atc.models.messages import Ask
from atc.parts import RETRIEVAL
from atc.result import Effect, Result
from atc.schemas.observed import is_documented
from atc.schemas.protocol import Protocol
from atc.settings import Settings
from atc.tools.functions import toolset_of
from atc.tools.tool import Tool, Toolset

if TYPE_CHECKING:
    from atc.catalogue.graph.lessons import Lessons
    from atc.catalogue.graph.store import GraphStore
    from atc.catalogue.tool_list import ToolLister
    from atc.traces.stores.base import StoredRun

STORE = "learnt-"
"""The beginning of the name of the file of what runs have taught; the version of its form follows."""
PATIENCE_S = 0.05
"""Seconds that a sketch waits for what the run before it has taught; without it the sketch is of what was known."""
GIVES_WAY_S = 0.001
"""Seconds that the thread which learns waits at first: else whoever has the result waits for the interpreter."""
MAX_WAITING = 100
"""Runs that wait to be learnt; more are not, and a line says so."""
_log = logging.getLogger(__name__)

Report = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


class Memory(Interface):
    """Describes what a store of lessons must do (:class:`atc.catalogue.graph.store.GraphStore`)."""

    def learnt(self, tools: Mapping[str, Protocol], now: float | None = None) -> Learnt:
        """Return what runs have taught about these tools."""
        ...

    def add(self, lessons: Lessons, tools: Mapping[str, Protocol], now: float | None = None) -> None:
        """Add what a run taught."""
        ...


class Catalogue:
    """Some tools, and everything that is known about them. Several agents may share one.

    Args:
        tools: a toolset; or Python functions, and tools of toolsets, one by one.
        store: what runs have taught; by default the user's own, in the folder of the setting ``catalogue``.
        retriever: finds the tools for a task; the one that the setting ``retrieval`` names when not given.
        settings: those of the environment when not given. ``learn``, ``catalogue``, ``retrieval`` and ``tool_index``
            count.

    Raises:
        UsageError: no tools were given, or a setting names a retriever that cannot be had.
        ToolIndexError: the setting ``tool_index`` names an index that cannot be read.
    """

    def __init__(
        self,
        tools: Toolset | Iterable[Tool | Callable[..., Any]],
        *,
        store: Memory | None = None,
        retriever: Retriever | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.tools = toolset_of(tools)
        settings = settings or Settings.load()
        self._folder, self._learns = settings.catalogue, settings.learn
        self._given = retriever
        self._retriever = retriever or RETRIEVAL.make(settings.retrieval, settings, a=Retriever)  # type: ignore[type-abstract]
        self._store = store
        self._own_store = store is None
        self._lock = threading.Lock()
        self._seen: Any = None
        self._learnt: Learnt = NOTHING_LEARNT
        self._graph: ToolGraph | None = None
        self._whole: tuple[ToolGraph, Sketch] | None = None
        self._fit: dict[ToolRoom, bool] = {}
        self._added = 0
        self._worker: ThreadPoolExecutor | None = None
        self._waiting: list[Future[None]] = []
        self._told: set[str] = set()
        self._observations = Observations()
        self.probed: set[str] = set()
        """Tools that a run has called in this process to see what they answer: that is done once."""

    def __repr__(self) -> str:
        return f"Catalogue({len(self.tools)} tools, {self._folder if self._learns else 'learns nothing'})"

    @property
    def graph(self) -> ToolGraph:
        """Return the graph of all tools, with what runs have taught until now."""
        learnt = self._now_learnt()
        if self._graph is None:
            self._graph = ToolGraph(protocols_of(self.tools), learnt)
        elif self._graph.learnt is not learnt:
            self._graph = self._graph.with_learnt(learnt)
        return self._graph

    # -- sketch --------------------------------------------------------------------------------------------------------

    async def sketch(
        self, task: str, room: ToolRoom, ask: Ask, report: Report | None = None, kept: Sequence[str] = ()
    ) -> Sketch:
        """Return the tools to show for a task, with their layers, what feeds what, substitutes, and why each is there.

        Args:
            task: the user's words.
            room: what a prompt has for tools.
            ask: asks the language model of the run, within its budget.
            report: told, in another thread, how far an index is that has to be made.
            kept: tools that an earlier task used or was shown, the most important first.

        Raises:
            UsageError: the retriever gives no sketch, or the index is of other tools.
            ModelError: the encoder failed in the middle of work.
        """
        if self._given is None and await asyncio.to_thread(self._all_fit, room):
            if self._whole is not None and self._is_current() and self._whole[0] is self.graph:
                return self._whole[1]
            return await asyncio.to_thread(self._of_all)
        graph = await self.current_graph()
        limit = max(1, min(room.limit, len(self.tools) - 1))  # who is asked for all of them puts none in order
        found = await self.find(task, limit, ask, report)
        return await asyncio.to_thread(lambda: self._chosen(found, room, task, kept).with_graph(graph))

    @cached_property
    def lister(self) -> ToolLister:
        """Return what makes the lists of names in prompts."""
        from atc.catalogue.tool_list import ToolLister  # few runs have a list

        return ToolLister(protocols_of(self.tools))

    def _all_fit(self, room: ToolRoom) -> bool:
        if room not in self._fit:
            self._fit[room] = room.fits(self.tools)
        return self._fit[room]

    def _chosen(self, found: Sketch, room: ToolRoom, task: str, kept: Sequence[str]) -> Sketch:
        best = [*found.tools]
        shown = room.shown(best, self.tools, [name for name in kept if name in self.tools])
        listed = self.lister.names(room.names, best, task) if room.names else ()
        return replace(found.offering(self.tools.only(*shown), "earlier"), listed=listed)

    def _of_all(self) -> Sketch:
        graph = self.graph
        made = all_of(self.tools).with_graph(graph)
        self._whole = (graph, made)
        return made

    async def find(self, task: str, limit: int, ask: Ask, report: Report | None = None) -> Sketch:
        """Find as :meth:`sketch` does, with nothing of the graph: the likeliest tools, and why."""
        if isinstance(self._retriever, IndexRetriever):
            found = await self._retriever.search(task, self.tools, limit, report)
        else:
            found = as_sketch(await self._retriever.retrieve(task, self.tools, limit, ask), self._retriever)
        why = {name: found.why.get(name) or Why(kind="given") for name in found.tools}
        return replace(found, of=len(self.tools), why=why)

    # -- what is shown -------------------------------------------------------------------------------------------------

    async def current_graph(self) -> ToolGraph:
        """Return :attr:`graph`; where something has to be waited for or read, in another thread."""
        return self.graph if self._is_current() else await asyncio.to_thread(lambda: self.graph)

    def observe(self, tool: str, value: Any, *, new: bool = False) -> Future[None] | None:
        """Learn the shape of an answer that no program called for, in another thread. Never raises.

        Args:
            tool: its name. One that documents its response, or whose source is not stable, teaches nothing.
            value: what it answered: a JSON value, which is not changed any more.
            new: it is known to show something new: it is not left out where many were learnt already.

        Returns:
            Done when it is learnt; ``None`` where it is not.
        """
        if not self.may_learn(tool):
            return None
        nothing = is_empty(value) or (self._stable[tool].effect is not Effect.WRITE and holds_nothing(value))
        if nothing or not self._observations.take(tool, value, new=new):
            return None
        with suppress(RuntimeError):  # the interpreter is ending
            return self._soon(self._learn_observed)
        return None

    def may_learn(self, tool: str) -> bool:
        """Return whether :meth:`observe` may learn from an answer of a tool."""
        return self._learns and tool in self._stable and not is_documented(self._stable[tool].returns)

    def _learn_observed(self) -> None:
        try:
            if lessons := self._observations.lessons(self._stable):
                self._keep(lessons, {name: self._stable[name] for name in lessons.shapes})
        except Exception as error:  # an answer is worth more than what it teaches
            self._note(f"nothing is learnt from answers now: {_reason(error)}")

    # -- learn ---------------------------------------------------------------------------------------------------------

    def learn(self, run: StoredRun | Result, request: int = 0, *, warned: bool = False) -> None:
        """Learn what a run teaches: names, counts and edges, never values. Never raises: what fails is noted once.

        Only tools of a stable source are learnt: a document, a server, or a function of a module.

        Args:
            run: a stored run, or the result of one.
            request: of a result that belongs to a conversation, the number of its task.
            warned: of a result, that its program ran although the check had warned about its writes.
        """
        if not self._learns:
            return
        try:
            from atc.programs.lessons.reading import lessons_of

            known = {name: self._stable[name] for name in _called(run) if name in self._stable}
            if known and (lessons := lessons_of(run, known, request=request, warned=warned)):
                self._keep(lessons, known)
                if self._seen is not None:
                    self._refresh()  # here, where nobody waits
        except Exception as error:  # a run is worth more than what it teaches
            self._note(f"nothing is learnt from runs now: {_reason(error)}")

    def learn_soon(self, result: Result, request: int = 0, *, warned: bool = False) -> None:
        """Learn as :meth:`learn` does, in another thread, so that nobody waits for a disk. Never raises."""
        if not self._learns:
            return

        def learn() -> None:
            time.sleep(GIVES_WAY_S)
            self.learn(result, request, warned=warned)

        with suppress(RuntimeError):  # the interpreter is ending
            if self._soon(learn) is None:
                self._note(f"some runs are not learnt: {MAX_WAITING} wait already, for {self._folder} is slow")

    def _soon(self, work: Callable[[], None]) -> Future[None] | None:
        """``None`` where too much waits for it. Raises RuntimeError where the interpreter is ending."""
        with self._lock:
            self._waiting = [each for each in self._waiting if not each.done()]
            if len(self._waiting) >= MAX_WAITING:
                return None
            self._worker = self._worker or ThreadPoolExecutor(1, "atc-catalogue")
            self._waiting.append(self._worker.submit(work))
            return self._waiting[-1]

    def _keep(self, lessons: Lessons, known: Mapping[str, Protocol]) -> None:
        self._opened().add(lessons, known)
        self._added += 1
        self._heed_store()

    def settle(self, seconds: float | None = None) -> bool:
        """Wait until the runs that have ended are learnt; whether they are.

        Args:
            seconds: to wait at most; to the end when not given.
        """
        with self._lock:
            waiting = self._waiting[-1:]
        for last in waiting:  # one thread learns one after the other
            with suppress(TimeoutError):
                last.result(seconds)
        return all(each.done() for each in waiting)

    # -- what was learnt -----------------------------------------------------------------------------------------------

    @cached_property
    def _stable(self) -> Mapping[str, Protocol]:
        """Return the protocols of the tools that are known again in another process: by no address in memory."""
        known = protocols_of(self.tools)
        return {
            name: each for name, each in known.items() if each.source.location and " at 0x" not in each.source.location
        }

    def _now_learnt(self) -> Learnt:
        """Where nothing is to be learnt, what the user said counts all the same."""
        self.settle(PATIENCE_S)
        self._refresh()
        return self._learnt

    def _is_current(self) -> bool:
        seen = (self._added, *self._stamps())
        nothing = self._own_store and len(seen) == 1  # was ever learnt
        return self.settle(0) and (nothing or seen == self._seen)

    def _refresh(self) -> None:
        seen = (self._added, *self._stamps())
        if seen == self._seen:
            return
        self._seen = seen
        if self._store is None and len(seen) == 1:
            self._learnt = NOTHING_LEARNT  # nothing was ever learnt: no database is opened for that
            return
        try:
            known = self._opened().learnt(self._stable)
            self._learnt = (known if self._learns else known.corrections) or NOTHING_LEARNT
            self._heed_store()
        except Exception as error:  # the run goes on without
            self._learnt = NOTHING_LEARNT
            self._note(f"what runs have taught cannot be read: {_reason(error)}")

    def _stamps(self) -> Iterator[tuple[str, int, int]]:
        """Yield what changes when the user's own store does; nothing where there is none."""
        if not self._own_store:
            return
        with suppress(OSError), os.scandir(self._folder) as found:
            for each in sorted(found, key=lambda entry: entry.name):
                if each.name.startswith(STORE) and not each.name.endswith("-shm"):
                    state = each.stat()
                    yield each.name, state.st_mtime_ns, state.st_size

    def _opened(self) -> Memory:
        with self._lock:
            if self._store is None:
                self._store = store_in(self._folder)
            return self._store

    def _heed_store(self) -> None:
        if notice := getattr(self._store, "notice", ""):
            self._note(notice)

    def _note(self, text: str) -> None:
        """Log a line once. The trace may have ended by now, so it goes where a trace's own failure goes."""
        if text not in self._told:
            self._told.add(text)
            _log.warning("%s", text)


def store_in(folder: Path) -> GraphStore:
    """Return the store of what runs have taught.

    Args:
        folder: of the setting ``catalogue``.
    """
    from atc.catalogue.graph.store import FILE, GraphStore

    return GraphStore(folder / FILE)


def _called(run: StoredRun | Result) -> dict[str, None]:
    if isinstance(run, Result):
        return dict.fromkeys(call.tool for call in run.calls)
    return dict.fromkeys(str(e["data"].get("tool")) for e in run.latest() if e["kind"] == "call_ended")


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
