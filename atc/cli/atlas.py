"""``atc atlas``: the bundled catalogue of offline tools, as an HTTP service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from atc.cli.console import guarded, out

app = typer.Typer(help="The bundled offline tools as an HTTP service.", no_args_is_help=True)


@app.callback()
def atlas() -> None:
    """The bundled catalogue of offline tools: cities, airports, sun and moon, holidays, units, and a trip store."""


@app.command()
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
    """Serve atlas over HTTP, with its OpenAPI document at /openapi.json, until Ctrl-C."""
    from atc.atlas.server import serve as serve_atlas

    out.print(
        f"atlas: http://{host}:{port}/openapi.json  (try: atc run '…' --tools http://{host}:{port}/openapi.json)",
        markup=False,
    )
    serve_atlas(host, port, state_file=state, documented=documented)
