"""What stands behind the server, whatever carries its messages: the tools, their finder, the clients and their runs."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from atc._host.blocking import in_thread
from atc._host.redaction import Redactor
from atc._records.events import Event
from atc.agent import Agent
from atc.calls.approval import Asker
from atc.calls.permissions import Permissions
from atc.catalogue.catalogue import Catalogue
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.catalogue.sketch import FEW
from atc.errors import AtcError, RunInUse, UsageError
from atc.models.base import NoModel
from atc.models.messages import bounded_tokens
from atc.result import Effect
from atc.run.given_program import GivenRun, run_given
from atc.run.kept_checks import fitting
from atc.run.resources import Resources
from atc.sandboxes.drivers import open_sandbox
from atc.serve.mcp.client import Client, ClientId, Clients
from atc.serve.mcp.finder import Finder, retrieval_way
from atc.serve.mcp.guards import Guards, usable_tools
from atc.serve.mcp.reports import ProgramReport, one_line, report_of
from atc.serve.mcp.running import Runs
from atc.serve.mcp.values import LARGE, Shelf, Values
from atc.serve.mcp.waiting import refuse_to_wait, refuse_unanswered, until_lapsed
from atc.settings import Settings
from atc.tools.kept_folders import read_places
from atc.tools.kept_tools import with_kept
from atc.tools.mcp.live import LiveTools
from atc.tools.stub_budget import Fit, Fitter
from atc.tools.tool import Toolset
from atc.traces.emitter import Listener
from atc.traces.stores import open_store
from atc.traces.stores.base import new_run_id
from atc.wording import left_out

DIRECT_TOKENS = 600
"""Tokens that the definitions of tools may take together which ``--direct auto`` chooses, if nobody says otherwise."""
STUB_TOKENS = 450
"""Tokens that the stubs of all tools may take in the description of ``run_program``, if nobody says otherwise."""


@dataclass(frozen=True)
class Options:
    """How a gateway serves.

    Attributes:
        stub_tokens: of stubs in the description of ``run_program``; where all tools do not fit, they are searched.
        large: characters of JSON above which a value is kept, and a client gets a preview and a link.
        extras: names of tools that are offered beside the usual ones (:mod:`.extras`).
        direct: names of tools that are listed themselves, or ``auto`` (:mod:`.direct`).
        direct_tokens: of the definitions of those that ``auto`` chooses.
    """

    stub_tokens: int = STUB_TOKENS
    large: int = LARGE
    extras: Collection[str] = ()
    direct: Sequence[str] = ()
    direct_tokens: int = DIRECT_TOKENS


# -- the gateway -------------------------------------------------------------------------------------------------------

_log = logging.getLogger(__name__)
MAX_FOUND = 20
"""Tools that one search may name."""
LISTED_S = 10.0
"""Seconds from the start for which requests wait for servers that are listed for the first time."""
MAX_NAMES = 50
"""Tools whose documents one call may ask for."""
MAX_HIDDEN, MAX_STUBS, MAX_VIEWS = 200, 32, 8
"""Hidden tools that a search looks past, sets of tools whose stubs are remembered, and those that are kept open."""
MAX_NOTICES = 100
"""Notices that are kept: a server may change its tools for ever."""
MAX_ABOUT = 120
"""Characters of the line that says what a tool does."""
LEAST_STUB = 15
"""Tokens of the shortest stub."""


class Gateway:
    """The tools and their clients. One for each server process; close it with :meth:`aclose`.

    Args:
        tools: that clients may use.
        settings: of the runs; those of the environment when not given. Without ``keep_runs`` the runs are kept in a
            folder of this process, which goes with it.
        permissions: what clients may do; every write is asked about when not given.
        live: where the tools come from, if they come and go.
        options: how it serves.

    Attributes:
        notices: lines for whoever runs the server.
        keeps_runs: runs are there after this process.
        on_kept: is called with the tools when a program was kept, where they do not come and go by themselves.
    """

    def __init__(
        self,
        tools: Toolset,
        settings: Settings | None = None,
        *,
        permissions: Permissions | None = None,
        live: LiveTools | None = None,
        options: Options | None = None,
    ) -> None:
        settings = settings or Settings.load()
        self.options, self.notices = options or Options(), list[str]()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        update = {"find_tools": False, "sentence": False, "keep_runs": True, "retrieval": retrieval_way(settings)}
        if not settings.keep_runs:
            self._folder = tempfile.TemporaryDirectory(prefix="atc-mcp-")
            update |= {"runs_dir": Path(self._folder.name), "kept_dir": settings.kept_dir, "store": None}
            self.notices.append(
                "runs are not kept (keep_runs): after this server ends, no run can be revised, and what a killed "
                "server was doing is not known"
            )
        self.settings = settings.model_copy(update=update)
        self.keeps_runs = settings.keep_runs
        self.guards, self.live = Guards(permissions, self.settings), live
        self.redactor = Redactor(self.settings.secrets)
        self.shelf = Shelf(self.options.large)
        self.store = open_store(self.settings)
        self._given: Toolset | None = None
        self._catalogue: Catalogue | None = None
        self._views: dict[frozenset[str], Catalogue] = {}
        self._finder: Finder | None = None
        self._stubs: dict[frozenset[str] | None, tuple[object, str | None]] = {}
        self._preparing: asyncio.Task[None] | None = None
        self._old: set[asyncio.Task[None]] = set()
        self.change_tools(tools)
        self.sandbox = open_sandbox(self.settings)
        self.resources = Resources(self.settings, None, self.sandbox)
        self.running = Runs(wait_s=self.settings.ask_wait_s)
        self._going_on: set[str] = set()
        self._clients = Clients(self.store)
        self.on_kept: Callable[[Toolset], None] = self.change_tools

    @property
    def tools(self) -> Toolset:
        """The tools that clients may use now."""
        return self._catalogue.tools if self._catalogue is not None else Toolset()

    @property
    def catalogue(self) -> Catalogue:
        """The tools, and what is known of them.

        Raises:
            UsageError: there is no tool now.
        """
        if self._catalogue is None:
            down = self.live.down if self.live is not None else {}
            why = "".join(f"; {one_line(f'{name}: {line}', 300)}" for name, line in [*down.items()][:10])
            raise UsageError(f"no tool is here now{why}")
        return self._catalogue

    def change_tools(self, tools: Toolset) -> None:
        """Serve other tools from now on. A program that runs keeps those that it began with."""
        if tools is self._given:
            return
        self._given = tools
        fit = fitting(tools)
        usable, notices = usable_tools(self.guards.graded(fit), FEW)
        notices += [one_line(left_out(each.name, each.reason), 500) for each in fit.left_out]
        self.notices += [each for each in notices if each not in self.notices][: MAX_NOTICES - len(self.notices)]
        if self._finder is not None:
            self._close_soon(self._finder)
        self._catalogue = Catalogue(usable, settings=self.settings) if usable else None
        self._finder = Finder(self._catalogue, self.settings) if self._catalogue is not None else None
        self._stubs, self._views = {}, {}

    async def add_kept(self, path: Path) -> None:
        """Offer a kept program beside the tools from now on, while all are there that it calls."""
        read = await asyncio.to_thread(read_places, [path], self.settings.kept_dir)
        if self.live is not None:
            await self.live.add_kept(read.files)
        else:
            self.on_kept((await asyncio.to_thread(with_kept, self._given or Toolset(), read.files))[0])

    def visible(self, client: Client) -> Toolset:
        """The tools that a client may know of."""
        return self.guards.visible(client.id, self.tools)

    def seen_by(self, client: Client) -> Catalogue:
        """The tools that a client may know of, and what is known of them: nothing else is in its programs' reach.

        Raises:
            UsageError: there is no such tool now.
        """
        whole, seen = self.catalogue, self.visible(client)
        if len(seen) == len(whole.tools):
            return whole
        if not seen:
            raise UsageError("no tool is here for you: the permissions leave none to this client")
        key = frozenset(seen)
        if key not in self._views:
            while len(self._views) >= MAX_VIEWS:
                del self._views[next(iter(self._views))]
            self._views[key] = Catalogue(seen, settings=self.settings)
        return self._views[key]

    def client(self, who: ClientId, session: str = "") -> Client:
        """The client of a connection; ``session``: of the protocol, where it has one."""
        return self._clients.of(who, session)

    def shows_kept(self, client: Client) -> None:
        """Note that the client's model is shown what was kept for it, perhaps by another of its sessions."""
        client.past.saw |= self._clients.sessions.seen_by(client.id.principal)

    def values(self, client: Client) -> Values:
        """What is kept for a client."""
        return Values(self.shelf, client.id)

    async def prepare(self) -> None:
        """Begin what takes time before the first program; nobody waits for it. To be closed in the same event loop."""
        if self._preparing is None:
            if self.live is not None:
                await self.live.__aenter__()
            self._preparing = asyncio.create_task(self._prepare())

    async def _prepare(self) -> None:
        try:
            await self.sandbox.prepare()
        except AtcError as error:  # the first program says so, too, and to the client
            _log.warning("%s", error)
        if self._finder is not None and len(self.tools) > self.options.stub_tokens // LEAST_STUB:
            await self._finder.prepare()

    async def listed(self) -> None:
        """Wait until servers of which nothing is kept have listed their tools, if it is not long since the start."""
        if self.live is not None:
            await self.live.begun(LISTED_S)

    async def aclose(self) -> None:
        """End what goes on, and the sandbox."""
        await self.running.aclose()
        if self._preparing is not None:
            self._preparing.cancel()
            await asyncio.wait([self._preparing])
            if self.live is not None:
                await self.live.__aexit__(None, None, None)
        if self._finder is not None:
            await self._finder.aclose()
        await self.resources.aclose()
        await self.sandbox.aclose()
        await in_thread(self.store.close)
        if self._folder is not None:
            await asyncio.to_thread(self._folder.cleanup)

    # -- looking up ----------------------------------------------------------------------------------------------------

    async def search(self, client: Client, query: str, limit: int = 8) -> list[dict[str, str]]:
        """The likeliest tools for a query, the likeliest first: the ``name`` of each, and ``about`` it in a line.

        Raises:
            UsageError: the query is empty, or there is no tool.
        """
        if not query.strip():
            raise UsageError("the query is empty: say what the tool shall do")
        seen, hidden = self.visible(client), len(self.catalogue.tools)
        hidden -= len(seen)
        assert self._finder is not None
        found = await self._finder.search(query, max(1, min(limit, MAX_FOUND)) + min(hidden, MAX_HIDDEN))
        shown = [(name, tool) for name, tool in found.items() if name in seen][:limit]
        return [{"name": name, "about": one_line(tool.protocol.description, MAX_ABOUT)} for name, tool in shown]

    async def docs(self, client: Client, names: Sequence[str], budget: int) -> tuple[str, dict[str, list[str]]]:
        """Tools as typed Python functions, with the responses that are documented or were observed.

        And the names that no tool has, each with names that may be meant.

        Args:
            names: of the tools; those that are asked for first get the most room.
            budget: tokens, about.

        Raises:
            UsageError: no tool has any of these names, or too many are asked for.
        """
        if len(names) > MAX_NAMES:
            raise UsageError(f"{len(names)} tools are asked for: at most {MAX_NAMES} at once")
        if not names:
            raise UsageError("no tool is asked for: give `names`")
        graph, names = await self.seen_by(client).current_graph(), [*dict.fromkeys(names)]
        missing = [name for name in names if name not in graph.protocols]
        near = await self._near(client, missing)
        if len(missing) == len(names):
            meant = "".join(f"; perhaps {', '.join(found)}" for found in [*near.values()][:1])
            raise UsageError(f"no tool is named {', '.join(name[:80] for name in missing[:5])}{meant}")
        fit = await _fitted(graph, [name for name in names if name in graph.protocols], budget)
        return fit.text, {name[:80]: near.get(name, []) for name in missing}

    async def few_stubs(self, client: Client) -> str | None:
        """All tools as functions, where they fit the description of ``run_program``; ``None`` where they do not."""
        seen = self.visible(client)
        if not seen or len(seen) > self.options.stub_tokens // LEAST_STUB:
            return None
        graph, key = self.seen_by(client).graph, frozenset(seen)
        if key not in self._stubs or self._stubs[key][0] is not graph:
            fit = await _fitted(graph, [*graph.protocols], self.options.stub_tokens, plain=True)
            while len(self._stubs) >= MAX_STUBS:
                del self._stubs[next(iter(self._stubs))]
            self._stubs[key] = graph, None if fit.shortened else fit.text
        return self._stubs[key][1]

    # -- programs ------------------------------------------------------------------------------------------------------

    async def run_program(
        self,
        client: Client,
        source: str | None,
        *,
        inputs: Mapping[str, Any] | None = None,
        revises: str = "",
        dry_run: bool = False,
        asker: Asker,
        parks: bool = False,
        lapsed: asyncio.Event | None = None,
        listener: Listener | None = None,
    ) -> ProgramReport:
        """Check a program, run it in the jail, attribute its failure.

        Args:
            client: whose program it is.
            source: the program; ``None``: the last one of the run that it revises, which runs again from its start.
            inputs: values for its scope by name, or references to what is kept for the client; those of the program
                before it when not given.
            revises: id of the client's run that it is a revision of; empty for a new run.
            dry_run: calls with effects are planned, not made.
            asker: decides over calls with effects.
            parks: such a call waits for approval instead, and the run ends as ``waiting``.
            lapsed: set once a question was left unanswered. The program is ended then, and its jail with it; it runs
                again from its start, so that the call waits.
            listener: told of every event.

        Raises:
            UsageError: the program is too long, an input cannot be used, the client has no such run, or a program of
                that run is running.
        """
        if revises:
            await self.own(client, revises)
        values = self.values(client)
        given = await asyncio.to_thread(values.inputs, dict(inputs)) if inputs is not None else None
        if kept := values.kept_in(inputs or {}):  # what the program does with it is as if its author had read it
            self.shows_kept(client)
        run_id, under_way = revises or new_run_id(), set[int]()

        def heard(event: Event) -> None:
            if event.kind == "run_started":
                client.begin(run_id)  # it is the client's own from now on, however it ends
            elif event.kind == "call_started" and event.data["effect"] != Effect.READ.value:
                under_way.add(event.data["index"])
            elif event.kind == "call_ended":
                under_way.discard(event.data["index"])
            if listener is not None:
                listener(event)

        async def run(source: str | None, revises: str | None, asker: Asker, *, parks: bool) -> GivenRun:
            return await run_given(
                await self.agent(client, run_id, asker, parks=parks),
                source,
                author=one_line(client.id.name, 60) or "an MCP client",
                inputs=given,
                kept=kept,
                revises=revises,
                dry_run=dry_run,
                listener=heard,
                run_id=run_id,
                claim=partial(client.claim, run_id),
            )

        with self.going(client, run_id):
            try:
                done = await until_lapsed(lapsed, run(source, revises or None, asker, parks=parks), under_way)
                if done is None:
                    done = await run(source, run_id, refuse_unanswered, parks=True)
            except RunInUse:  # its message names a place of this machine
                raise UsageError(f"another process works on run {run_id} now: try again when it has ended") from None
        return await self._with_suggestions(
            client, report_of(done, self.redactor, values, outlives=self.keeps_runs), done.facts.unknown
        )

    async def own(self, client: Client, run_id: str) -> None:
        """Check that a run is a client's own.

        Raises:
            UsageError: it is not.
        """
        if run_id not in client.runs and not await in_thread(client.owns, run_id):
            raise UsageError(f"you have no run {run_id[:60]!r}: leave `run` out to begin a new one")

    @contextmanager
    def going(self, client: Client, run_id: str) -> Iterator[None]:
        """While a program of a run is running.

        Raises:
            UsageError: another one is, or the client's caps allow no more at once.
        """
        if run_id in self._going_on:
            raise UsageError(f"a program of run {run_id} is running: wait for its report, then revise it")
        self._going_on.add(run_id)
        try:
            with self.guards.run(client.id):
                yield
        finally:
            self._going_on.discard(run_id)

    async def agent(self, client: Client, run_id: str, asker: Asker, *, parks: bool = False, **given: Any) -> Agent:
        """What runs a program or a task of a client.

        Args:
            client: whose it is.
            run_id: of its run.
            asker: decides over calls with effects, but for those that somebody decided about while the run waited.
            parks: such a call waits for approval, if not too many runs of the client wait already.
            given: other arguments of :class:`atc.Agent`.
        """
        can_wait = self.keeps_runs
        if (parks or self.guards.permissions.may_park) and await self._clients.waiting.full(
            client.id.principal, run_id
        ):
            asker = refuse_to_wait if parks else asker
            parks = can_wait = False
        guard = self.guards.guard(client.id, asker, parks=parks).of_run(run_id)
        held = {"model", "catalogue", "sandbox", "approve", "permissions", "read_only"}  # the gateway's own
        settings = {name: getattr(self.settings, name) for name in self.settings.model_fields_set - held}
        made: dict[str, Any] = (
            {"model": NoModel(), "catalogue": self.seen_by(client), "sandbox": self.sandbox} | settings | given
        )
        limits = self.guards.limits(client.id, self.settings)
        approval = replace(guard.approval(client.earlier_writes(run_id)), can_wait=can_wait)
        agent = Agent(approve=replace(approval, approve="park") if parks else approval, **made | limits)
        agent.store = self.store  # one set of connections for all
        agent.past = client.past
        return agent

    async def _with_suggestions(
        self, client: Client, report: ProgramReport, unknown: Mapping[int, str]
    ) -> ProgramReport:
        if not unknown:
            return report
        near = await self._near(client, [*dict.fromkeys(unknown.values())][:MAX_FOUND])
        findings = [
            found.model_copy(update={"instead": near.get(unknown.get(number, ""), [])})
            for number, found in enumerate(report.findings)
        ]
        return report.model_copy(update={"findings": findings})

    async def _near(self, client: Client, names: Sequence[str]) -> dict[str, list[str]]:
        if not names or self._finder is None:
            return {}
        found = await asyncio.to_thread(self._finder.near, names)
        for name in names:
            if name not in found and "_" in name and len(self.tools) > MAX_FOUND:
                found[name] = [*await self._finder.search(name.replace("_", " "), 3)][:3]
        seen = self.visible(client)
        return {name: [each for each in near if each in seen] for name, near in found.items()}

    def _close_soon(self, finder: Finder) -> None:
        try:
            task = asyncio.get_running_loop().create_task(finder.aclose())
        except RuntimeError:  # no loop runs, so it does nothing
            return
        self._old.add(task)
        task.add_done_callback(self._old.discard)


async def _fitted(graph: ToolGraph, names: Sequence[str], budget: int, *, plain: bool = False) -> Fit:
    """The stubs of some tools, in a thread: of 30,000 tools it takes seconds to find what supplies their arguments."""

    def fitter() -> Fitter:
        protocols = [graph.protocols_with_shapes[name] for name in names]
        return Fitter(protocols, graph.suppliers_of(names), pages=True, plain=plain)

    return await (await asyncio.to_thread(fitter)).fit(budget, _count)


async def _count(text: str) -> int:
    return bounded_tokens(text)
