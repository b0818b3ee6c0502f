"""Serves the sandbox service: drops connections that dawdle, and lets runs end before it ends."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import uvicorn

from atc.sandboxes.service.app import make_app
from atc.sandboxes.service.service import Service, ServiceSettings
from atc.serving import DrainingServer, PromptProtocol, listen

KEEP_S = 30
"""Seconds that a connection is kept for the next request."""
PING_S, PONG_S = 20.0, 60.0
"""A caller whose machine is gone is noticed after these; one that merely works for long in a tool is not."""

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
        http=PromptProtocol,
        ws="websockets-sansio",
        ws_max_size=settings.message_bytes,
        ws_ping_interval=PING_S,
        ws_ping_timeout=PONG_S,
        ws_per_message_deflate=False,
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=KEEP_S,
        limit_concurrency=4 * settings.max_runs + 256,
        **config,
    )
    return DrainingServer(made, service)


async def serve(settings: ServiceSettings, host: str, port: int, **config: Any) -> None:
    """Serve until a signal ends it.

    Raises:
        SandboxUnavailable: the isolation that is required cannot be had. Nothing listens then.
        EnvironmentProblem: the address cannot be listened at.
    """
    with contextlib.closing(listen(host, port)) as sock:
        service = Service(settings)
        await service.start()
        server = make_server(service, **config)
        log.info("tier %s at %s:%d", service.tier, *sock.getsockname()[:2])
        await server.serve([sock])
