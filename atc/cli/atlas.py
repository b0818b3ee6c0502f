"""``atc tools serve-demo``: the bundled catalogue of offline tools, as an HTTP service."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal

import typer

from atc.cli.console import guarded, out

MAX_OPEN = 256
"""Connections at once."""


@guarded
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8321,
    state: Annotated[
        Path | None, typer.Option(help="File that keeps the trips; without it they are forgotten at the end.")
    ] = None,
    documented: Annotated[
        Literal["full", "described", "bare"], typer.Option(help="How much the OpenAPI document tells.")
    ] = "full",
) -> None:
    """Serve the bundled tools over HTTP, to try an OpenAPI service.

    They are cities, airports, sun and moon, holidays, units, and a store of trips, and need no network. The OpenAPI
    document is at /openapi.json. Ctrl-C ends it.
    """
    from atc.atlas.catalogue import Atlas
    from atc.atlas.server import create_app
    from atc.atlas.trips import TripStore
    from atc.serve.accepting import Crowd, listen
    from atc.serve.http import DrainingServer

    app = create_app(Atlas(TripStore(state)), documented=documented, base_url=f"http://{host}:{port}")
    with closing(listen(host, port)) as sock:
        out.print(
            f"atlas: http://{host}:{port}/openapi.json  (try: atc run '…' --tools http://{host}:{port}/openapi.json)",
            markup=False,
        )
        asyncio.run(DrainingServer(app, None, Crowd(MAX_OPEN)).serve([sock]))
