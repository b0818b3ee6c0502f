"""What stands behind the server, whatever carries its messages: the tools, and the clients with their runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from typing import Protocol as Interface

from atc.agent import Agent
from atc.calls.approval import Approval, Asker
from atc.calls.redact import Redactor
from atc.catalogue import Catalogue
from atc.errors import ModelUnavailable, UsageError
from atc.faces.mcp_server.client import Client, ClientId
from atc.faces.mcp_server.reports import ProgramReport, report_of
from atc.faces.mcp_server.running import Runs
from atc.given_program import run_given
from atc.models.messages import Message, Reply, bounded_tokens
from atc.models.no_model import NoModel
from atc.sandboxes.drivers import open_sandbox
from atc.settings import Settings
from atc.tools.fit import Fitter
from atc.tools.tool import Toolset
from atc.traces.emitter import Listener
from atc.traces.store import new_run_id

MAX_SOURCE = 60_000
"""Characters of a program."""
MAX_FOUND = 20
"""Tools that one search may name."""
MAX_NAMES = 50
"""Tools whose documents one call may ask for."""


@dataclass(frozen=True)
class Found:
    """A tool that a search found: its name and what it does, in a line."""

    name: str
    about: str


class Permissions(Interface):
    """What clients may do (:class:`atc.permissions.Permissions`)."""


class LiveTools(Interface):
    """Tools of servers that come and go (:class:`atc.tools.mcp.live.LiveTools`)."""

    @property
    def tools(self) -> Toolset:
        """The tools that are there now."""
        ...

    @property
    def down(self) -> Mapping[str, str]:
        """Servers that are down, with a line each of why."""
        ...

    def on_change(self, callback: Callable[[Toolset], None]) -> object:
        """Have a function told when tools come or go."""
        ...


class Gateway:
    """The tools and their clients. One for each server process; close it with :meth:`aclose`.

    Args:
        tools: that clients may use.
        settings: of the runs; those of the environment when not given.
        permissions: what clients may do; every write is asked about when not given.
        live: where the tools come from, if they come and go.
    """

    def __init__(
        self,
        tools: Toolset,
        settings: Settings | None = None,
        *,
        permissions: Permissions | None = None,
        live: LiveTools | None = None,
    ) -> None:
        settings = settings or Settings.load()
        self.settings = settings.model_copy(
            update={"find_tools": False, "sentence": False, "keep_runs": True, "retrieval": _way(settings)}
        )
        self.permissions, self.live = permissions, live
        self.catalogue = Catalogue(tools, settings=self.settings)
        self.redactor = Redactor(self.settings.secrets)
        self._sandbox = open_sandbox(self.settings)
        self.running = Runs(wait_s=self.settings.ask_wait_s)
        self._clients: dict[ClientId, Client] = {}

    @property
    def tools(self) -> Toolset:
        """The tools that clients may use now."""
        return self.catalogue.tools

    def change_tools(self, tools: Toolset) -> None:
        """Serve other tools from now on. A program that runs keeps those that it began with."""
        self.catalogue = Catalogue(tools, settings=self.settings)

    def client(self, who: ClientId) -> Client:
        """The client of a connection."""
        return self._clients.setdefault(who, Client(who))

    async def prepare(self) -> None:
        """Begin what takes time before the first program."""
        await self._sandbox.prepare()

    async def aclose(self) -> None:
        """End what goes on, and the sandbox."""
        await self.running.aclose()
        await self._sandbox.aclose()

    # -- looking up ----------------------------------------------------------------------------------------------------

    async def search(self, client: Client, query: str, limit: int = 8) -> list[Found]:
        """The likeliest tools for a query, the likeliest first.

        Raises:
            UsageError: the query is empty.
        """
        if not query.strip():
            raise UsageError("the query is empty: say what the tool shall do")
        sketch = await self.catalogue.find(query[:2000], max(1, min(limit, MAX_FOUND)), _ask_nobody)
        return [Found(name, _line(tool.protocol.description)) for name, tool in sketch.tools.items()]

    async def docs(self, client: Client, names: Sequence[str], budget: int) -> str:
        """Tools as typed Python functions, with the responses that are documented or were observed.

        Args:
            names: of the tools; those that are asked for first get the most room.
            budget: tokens, about.

        Raises:
            UsageError: no tool has one of these names, or too many are asked for.
        """
        if len(names) > MAX_NAMES:
            raise UsageError(f"{len(names)} tools are asked for: at most {MAX_NAMES} at once")
        graph = self.catalogue.graph
        known = graph.protocols_with_shapes
        if missing := [name for name in names if name not in known]:
            raise UsageError(f"no tool is named {', '.join(missing[:5])}: search_tools finds names")
        fitter = Fitter([known[name] for name in dict.fromkeys(names)], graph.suppliers)
        return (await fitter.fit(budget, _count)).text

    # -- programs ------------------------------------------------------------------------------------------------------

    async def run_program(
        self,
        client: Client,
        source: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        revises: str = "",
        asker: Asker,
        listener: Listener | None = None,
    ) -> ProgramReport:
        """Check a program, run it in the jail, attribute its failure.

        Args:
            client: whose program it is.
            source: the program.
            inputs: values for its scope, by name.
            revises: id of the client's run that it is a revision of; empty for a new run.
            asker: decides over calls with effects.
            listener: told of every event.

        Raises:
            UsageError: the program is too long, or the client has no such run.
        """
        if len(source) > MAX_SOURCE:
            raise UsageError(f"the program has {len(source):,} characters; the limit is {MAX_SOURCE:,}")
        if revises and revises not in client.runs:
            raise UsageError(f"you have no run {revises[:60]!r}: leave `run` out to begin a new one")
        run_id = revises or new_run_id()
        client.runs.add(run_id)
        approval = Approval(asker, earlier=client.earlier_writes(run_id))
        agent = Agent(
            model=NoModel(), catalogue=self.catalogue, sandbox=self._sandbox, approve=approval, **self._given()
        )
        given = await run_given(
            agent,
            source,
            task=f"a program of {client.id.name or 'an MCP client'}",
            inputs=inputs,
            revises=revises or None,
            listener=listener,
            run_id=run_id,
        )
        return report_of(given, self.redactor)

    def _given(self) -> dict[str, Any]:
        held = {"model", "catalogue", "sandbox", "approve"}  # the gateway's own, for all runs
        return {name: getattr(self.settings, name) for name in self.settings.model_fields_set - held} | {
            "find_tools": False,
            "sentence": False,
            "keep_runs": True,
        }


def _way(settings: Settings) -> str:
    """How tools are found: no model is there to plan or to pick."""
    return settings.retrieval if settings.retrieval in ("lexical", "hybrid") else "auto"


async def _ask_nobody(messages: Sequence[Message], max_tokens: int, **form: Any) -> Reply:
    raise ModelUnavailable("a search of the MCP server asks no model")


async def _count(text: str) -> int:
    return bounded_tokens(text)


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 120 else f"{line[:119]}…"
