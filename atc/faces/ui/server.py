"""Serves the page on this machine's own address, until a signal ends it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import uvicorn

from atc.accepting import Crowd
from atc.agent import Agent
from atc.calls.approval import Approve
from atc.calls.redact import Redactor
from atc.errors import EnvironmentProblem
from atc.faces.ui.app import Ui, make_app
from atc.faces.ui.desk import Desk
from atc.faces.ui.rights import Keys, Right
from atc.faces.ui.streams import Hub
from atc.faces.ui.views import Views, own_views
from atc.faces.ui.work import Work
from atc.serving import DrainingServer, crowded, listen
from atc.settings import Settings
from atc.traces.events import Event
from atc.traces.stores.base import RunStore

HOST = "127.0.0.1"
MAX_OPEN, MAX_SILENT = 256, 64
"""Connections at once, and of these such as owe a request."""
KEEP_S = 30
"""Seconds that a connection is kept for the next request."""

OpenAgent = Callable[[Approve, Callable[[Event], None]], Agent]
"""Opens an agent that asks for approval, and tells its events, as it is given."""


@dataclass(frozen=True)
class Address:
    """Where the page is.

    Attributes:
        port: on this machine.
        path: under which all is served.
        tokens: by the right that each gives.
    """

    port: int
    path: str
    tokens: dict[Right, str]

    def url(self, right: Right | None = None) -> str:
        """The address to open, with the token of a right; without any, what scripts put their paths after."""
        plain = f"http://{HOST}:{self.port}{self.path}/"
        return plain if right is None else f"{plain}?token={self.tokens[right]}"


def make_ui(
    store: RunStore, settings: Settings, open_agent: OpenAgent | None, source: str = "", views: Views | None = None
) -> Ui:
    """The parts of a server.

    Args:
        store: where runs are.
        settings: how long a question waits, whether anything may be approved, and what no page may show.
        open_agent: opens the agent that runs tasks; none begins without.
        source: where its tools are, as traces have it.
        views: how runs are shown; ATC's own by default.

    Raises:
        AtcError: as ``open_agent``.
    """
    hub = Hub()
    desk = Desk(hub, Redactor(settings.secrets), settings.ask_wait_s)
    work = Work(lambda run_id: ui.touched(run_id))
    if open_agent is not None:
        never = settings.approve == "never"
        work.use(open_agent("never" if never else desk.ask, work.heard), source)
    keys = Keys("run" if open_agent is not None else "read")
    ui = Ui(store, views or own_views(), desk, work, hub, keys)
    return ui


async def serve_ui(ui: Ui, port: int, ready: Callable[[Address], None] = lambda address: None) -> None:
    """Serve until a signal ends it: runs that go on are asked to stop.

    Args:
        ui: the parts.
        port: on this machine; 0 takes a free one.
        ready: told the address as soon as a browser can connect.

    Raises:
        EnvironmentProblem: the port cannot be listened at.
    """
    try:
        sock = listen(HOST, port)
    except EnvironmentProblem as error:
        cause = error.__context__
        why = os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno else error
        raise EnvironmentProblem(
            f"the page cannot be served at {HOST} port {port} ({why}): give another --port; 0 takes a free one"
        ) from None
    with closing(sock):
        there = sock.getsockname()[1]
        crowd = Crowd(MAX_OPEN, MAX_SILENT)
        config = uvicorn.Config(
            make_app(ui, there),
            http=crowded(crowd),
            ws="none",
            lifespan="on",
            access_log=False,  # an address may hold a token
            log_level="error",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
            timeout_keep_alive=KEEP_S,
        )
        ready(Address(there, ui.keys.path, dict(ui.keys.tokens)))
        await DrainingServer(config, ui, crowd).serve([sock])
