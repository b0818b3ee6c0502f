"""Serves the sandbox service: drops connections that dawdle, and lets runs end before it ends."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import uvicorn

from atc.accepting import REFUSING, raise_descriptors, require_descriptors
from atc.sandboxes.process.pool import pool_size
from atc.sandboxes.service.app import make_app
from atc.sandboxes.service.protocols import RunSocket, requests_of
from atc.sandboxes.service.service import Service, ServiceSettings
from atc.serving import DrainingServer, listen

KEEP_S = 30
"""Seconds that a connection is kept for the next request."""
PING_S, PONG_S = 20.0, 60.0
"""A caller whose machine is gone is noticed after these; one that merely works for long in a tool is not."""
JAIL_DESCRIPTORS = 4
"""Of one jail: its channel, stdout and stderr, and what it is ended by."""
OTHER_DESCRIPTORS = 128
"""The parents of jails, what is open while a jail is made, and this process's own."""
FEW_PARENTS = 4
"""Parents of jails that there is room for in any case."""

log = logging.getLogger("atc.service")


def make_server(service: Service, **config: Any) -> DrainingServer:
    """A server for a service that was started.

    Args:
        service: what to serve.
        **config: more for :class:`uvicorn.Config`: where to listen, certificates.
    """
    settings = service.settings
    made = uvicorn.Config(
        make_app(service),
        http=requests_of(service.crowd, service.accounts),
        ws=RunSocket,
        ws_max_size=settings.message_bytes,
        ws_ping_interval=PING_S,
        ws_ping_timeout=PONG_S,
        ws_per_message_deflate=False,
        lifespan="off",
        access_log=False,
        log_level="error",  # a warning for each request that is none would let strangers fill the log
        server_header=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=KEEP_S,
        **config,
    )
    return DrainingServer(made, service, service.crowd)


def descriptors(service: Service, kept: int) -> int:
    """Descriptors that a service needs.

    Args:
        kept: parents of jails for which some jails wait.
    """
    jails = service.settings.max_runs + kept * pool_size()
    return service.crowd.most + REFUSING + JAIL_DESCRIPTORS * jails + OTHER_DESCRIPTORS


async def serve(settings: ServiceSettings, host: str, port: int, **config: Any) -> None:
    """Serve until a signal ends it.

    Raises:
        SandboxUnavailable: the isolation that is required cannot be had. Nothing listens then.
        EnvironmentProblem: the address cannot be listened at, or there are too few descriptors.
    """
    what = f"--max-runs {settings.max_runs:,}; a lower one needs fewer"
    service = Service(settings)
    raise_descriptors(descriptors(service, max(FEW_PARENTS, len(settings.tenants))))  # as many as are kept at most
    require_descriptors(descriptors(service, FEW_PARENTS), what)
    with contextlib.closing(listen(host, port)) as sock:
        await service.start()
        server = make_server(service, **config)
        log.info("tier %s at %s:%d", service.tier, *sock.getsockname()[:2])
        await server.serve([sock])
