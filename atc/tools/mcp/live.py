"""Tools of servers that come and go: there at once from kept lists, and kept true while they are served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from atc.errors import UsageError
from atc.schemas.protocol import Protocol
from atc.tools.documents import drifted_tools, load_protocols
from atc.tools.kept_files import KeptFile
from atc.tools.kept_folders import ReadPlaces, is_kept_place, read_places
from atc.tools.kept_tools import with_kept
from atc.tools.mcp.importer import labels_of, told_apart
from atc.tools.mcp.lists import KeptLists
from atc.tools.mcp.live_server import Entry, Limits, State
from atc.tools.mcp.spec import ServerSpec, read_specs
from atc.tools.sources import mcp_source, open_tools
from atc.tools.tool import Toolset

MAX_SERVERS = 200
"""Servers behind one gateway."""

_SWEEPS_S = 5.0
_TOGETHER_S = 5.0
_LEAST_S = 0.01
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shown:
    """Which tools are served, and with which documents.

    Attributes:
        only: shell patterns of names; all tools where there is none.
        documents: protocols in place of the servers' own, by name.
        drifted: names of tools that answer otherwise than their documents say.
    """

    only: tuple[str, ...] = ()
    documents: Mapping[str, Protocol] = field(default_factory=dict)
    drifted: Collection[str] = ()

    def of(self, tools: Toolset) -> Toolset:
        """The tools that are served of these. A pattern that fits none may fit one tomorrow."""
        if self.only:
            tools = tools.fitting(self.only)
        return tools.with_protocols(self.documents, self.drifted) if self.documents else tools


class LiveTools:
    """Tools of several servers, and others beside them. Enter it to have servers started, listed and held.

    The servers of one ``LiveTools`` are shared by all runs and stay up between them. Without being entered it shows
    what is kept. Everything but :meth:`settled` belongs to the event loop that entered it.

    Args:
        specs: the servers.
        folder: of the kept lists; nothing is kept when not given.
        others: tools of other sources; they keep their names.
        shown: which tools are served.
        limits: of calls, starts and time.
        kept: kept programs, which are there while all tools are that they call.

    Raises:
        UsageError: there are too many servers.
    """

    def __init__(
        self,
        specs: Sequence[ServerSpec],
        *,
        folder: Path | None = None,
        others: Toolset | None = None,
        shown: Shown | None = None,
        limits: Limits | None = None,
        kept: ReadPlaces | None = None,
    ) -> None:
        if len(specs) > MAX_SERVERS:
            raise UsageError(f"{len(specs)} MCP servers are named; the limit is {MAX_SERVERS}: leave some out")
        self._others = others if others is not None else Toolset()
        self._kept = kept or ReadPlaces()
        self._shown, self._limits = shown or Shown(), limits or Limits()
        lists = KeptLists(folder) if folder is not None else None
        self._slots = asyncio.Semaphore(self._limits.at_once)
        self._entries = [
            Entry(label, spec, self._limits, lists, self._slots, self._mark)
            for label, spec in zip(labels_of(specs), specs, strict=True)
        ]
        self._callbacks: list[Callable[[Toolset], None]] = []
        self._changed, self._renewing = asyncio.Event(), asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._entered = 0.0
        self._said: Mapping[str, str] = {}
        self._tools = self._assembled(self._states())

    def __repr__(self) -> str:
        return f"LiveTools({len(self._entries)} servers, {len(self._tools)} tools)"

    @property
    def tools(self) -> Toolset:
        """The tools that are there now. A toolset that was taken earlier stays as it was."""
        return self._tools

    @property
    def others(self) -> Toolset:
        """The tools of other sources than servers, also those that are not served."""
        return self._others

    @property
    def down(self) -> Mapping[str, str]:
        """The servers whose tools are off the list, by name, each with one line of why and what to do."""
        return {entry.label: entry.why for entry in self._entries if entry.why}

    @property
    def coming(self) -> tuple[str, ...]:
        """The servers whose first list is still being read."""
        return tuple(entry.label for entry in self._entries if not entry.settled.is_set()) if self._tasks else ()

    @property
    def counts(self) -> Mapping[str, int]:
        """How many tools each server has that is not down."""
        return {state.label: len(state.tools) for state in self._states() if not state.why}

    def on_change(self, callback: Callable[[Toolset], None]) -> Callable[[], None]:
        """Have a function called with the new tools when tools came, went or changed, or a server went down or came up.

        Returns:
            What takes the function off again.
        """
        self._callbacks.append(callback)

        def forget() -> None:
            with suppress(ValueError):
                self._callbacks.remove(callback)

        return forget

    async def __aenter__(self) -> Self:
        self._entered = asyncio.get_running_loop().time()
        for entry in self._entries:
            await entry.__aenter__()
        self._tasks = [asyncio.create_task(self._publish()), asyncio.create_task(self._sweep())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        leaving = [entry.__aexit__(kind, error, trace) for entry in self._entries]  # all at once: each may take seconds
        await asyncio.gather(*tasks, *leaving, return_exceptions=True)

    async def settled(self, timeout_s: float | None = None) -> None:
        """Wait until every server has been listed once, from what is kept or anew, or is down; not longer than that."""
        await self._listed(timeout_s)
        await self._renew()

    async def begun(self, within_s: float) -> None:
        """As :meth:`settled`, until so many seconds after it was entered; at once when they are over."""
        left = self._entered + within_s - asyncio.get_running_loop().time()
        if self.coming and left > 0:
            await self.settled(left)

    async def _listed(self, timeout_s: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for entry in self._entries:
                    await entry.settled.wait()

    async def refresh(self) -> None:
        """Read every server's list again, and wait for it."""
        await asyncio.gather(*(entry.relisted() for entry in self._entries))
        await self._renew()

    async def add_kept(self, files: Sequence[KeptFile]) -> None:
        """Offer kept programs beside those that were named, in the place of such of the same name."""
        new = {file.name for file in files}
        others = (file for file in self._kept.files if file.name not in new)
        self._kept = replace(self._kept, files=(*others, *files))
        self._mark()
        await self._renew()

    def _mark(self) -> None:
        self._changed.set()

    async def _publish(self) -> None:
        await self._listed(_TOGETHER_S)  # what comes together is told apart once, and told of once
        while True:
            await self._changed.wait()
            await self._renew()

    async def _renew(self) -> None:
        async with self._renewing:
            if not self._changed.is_set():
                return
            self._changed.clear()
            tools, said = await asyncio.to_thread(self._assembled, self._states()), dict(self.down)
            if tools == self._tools and said == self._said:
                return
            self._tools, self._said = (self._tools if tools == self._tools else tools), said
        for callback in [*self._callbacks]:
            try:
                callback(self._tools)
            except Exception:  # whoever hears of it must not end the life of the servers
                _LOG.exception("a listener of changed tools failed")

    def _states(self) -> list[State]:
        return [entry.state() for entry in self._entries]

    def _assembled(self, states: Sequence[State]) -> Toolset:
        taken = {*self._others, *(tool.protocol.plain_name for tool in self._others.values())}
        named = told_apart([(state.label, state.once) for state in states], taken)
        made = dict(self._others)
        for entry, state, names in zip(self._entries, states, named, strict=True):
            for tool in entry.tools(state, names):
                if made.setdefault(tool.name, tool) is not tool:
                    _LOG.warning("two tools are named %s: one of the MCP server %s is left out", tool.name, entry.label)
        tools, left = with_kept(Toolset(made.values()), self._kept.files)
        shown = self._shown.of(tools)
        shown.left_out = (*self._others.left_out, *self._kept.left_out, *left)
        return shown

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(max(_LEAST_S, min(_SWEEPS_S, self._limits.idle_s)))
            for entry in self._entries:
                entry.server.end_idle(self._limits.idle_s)


def live_tools(
    words: Sequence[str],
    *,
    folder: Path | None = None,
    only: Sequence[str] | None = None,
    documents: str | Path | None = None,
    limits: Limits | None = None,
    openapi: Mapping[str, Any] | None = None,
) -> LiveTools:
    """Open sources as :func:`atc.tools.sources.open_tools` does, but leave the MCP servers among them to come and go.

    Args:
        words: sources, of MCP servers and others.
        folder: of the kept lists.
        only: shell patterns of the names of tools that are served; all when not given.
        documents: a folder of protocol documents that stand in place of the tools' own.
        limits: of calls, starts and time.
        openapi: options of the OpenAPI importer.

    Raises:
        ToolImportError: a word names nothing, or what it names holds no tools. That a server is down is no error.
        UsageError: an option does not fit.
    """
    sources = {word: mcp_source(word) for word in dict.fromkeys(words)}
    specs = [spec for source in sources.values() if source is not None for spec in read_specs(source)]
    places = [word for word, source in sources.items() if source is None and is_kept_place(word)]
    others = [word for word, source in sources.items() if source is None and word not in places]
    known, drifted = (
        (load_protocols(documents), drifted_tools(documents)) if documents else (Toolset(), frozenset[str]())
    )
    shown = Shown(tuple(only or ()), {name: tool.protocol for name, tool in known.items()}, drifted)
    narrowed = {"only": list(only), "strict": False} if only and not places else {}  # what else there is is not read
    opened = open_tools(others, **{**(openapi or {}), **narrowed}) if others or not specs else Toolset()
    kept = read_places(places) if places else None
    return LiveTools(specs, folder=folder, others=opened, shown=shown, limits=limits, kept=kept)
