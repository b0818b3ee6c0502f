"""``atc serve``: this machine's sandbox as a service for agents elsewhere."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from atc.cli.console import err, guarded
from atc.errors import EnvironmentProblem, UsageError
from atc.extras import install_command
from atc.sandboxes.drivers import limits_from
from atc.settings import Settings
from atc.telemetry import open_telemetry


@guarded
def serve(
    host: Annotated[
        str, typer.Option(envvar="ATC_SERVE_HOST", help="Address to listen at; 0.0.0.0 for all.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="ATC_SERVE_PORT", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = 8700,
    token_file: Annotated[
        Path | None,
        typer.Option(envvar="ATC_SERVE_TOKEN_FILE", help="File that holds the callers' token; else ATC_SERVE_TOKEN."),
    ] = None,
    tenants: Annotated[
        Path | None, typer.Option(envvar="ATC_SERVE_TENANTS", help="File of lines `tenant token`: several callers.")
    ] = None,
    max_runs: Annotated[
        int,
        typer.Option(
            envvar="ATC_SERVE_MAX_RUNS", min=1, help="Programs at once; a caller with more is told to come back."
        ),
    ] = 32,
    max_runs_per_tenant: Annotated[
        int,
        typer.Option(
            envvar="ATC_SERVE_MAX_RUNS_PER_TENANT", min=0, help="Programs of one tenant at once; 0: its share."
        ),
    ] = 0,
    require: Annotated[
        str | None, typer.Option(help="Least isolation, N, L or F; without it nothing is served. [default: L]")
    ] = None,
    drain_s: Annotated[
        float, typer.Option(envvar="ATC_SERVE_DRAIN_S", min=0, help="Seconds that runs get to end after SIGTERM.")
    ] = 30.0,
    pause_s: Annotated[
        float,
        typer.Option(
            envvar="ATC_SERVE_PAUSE_S", min=0, help="Seconds that a program's caller may stop its clock for a person."
        ),
    ] = 3600.0,
    advertise: Annotated[
        str,
        typer.Option(
            envvar="ATC_SERVE_ADVERTISE",
            help="Address (http or https) of this replica for its runs' channels, behind a balancer.",
        ),
    ] = "",
    tls_cert: Annotated[
        Path | None, typer.Option(envvar="ATC_SERVE_TLS_CERT", help="Certificate chain (PEM): serve https.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(envvar="ATC_SERVE_TLS_KEY", help="Key of the certificate (PEM).")
    ] = None,
) -> None:
    """Run programs for agents elsewhere: `Agent(sandbox="http://HOST:8700")`, with the token in ATC_SANDBOX_TOKEN.

    Their tool calls go back to them: this service executes no tools and holds no credentials. Limits of a program come
    from the settings (ATC_WALL_S, ATC_CPU_S, ATC_MEMORY_MB). It ends on SIGTERM, after its runs.
    """
    try:
        from atc.sandboxes.service.accounts import CountingLoop
        from atc.sandboxes.service.server import serve as run_service
        from atc.sandboxes.service.service import ServiceSettings
        from atc.sandboxes.service.tenants import Tenants, read_tenants, read_token
        from atc.serving import is_loopback, tls_files
    except ImportError as error:
        raise EnvironmentProblem(f"{error.name} is not installed: {install_command('service')}") from None

    settings = Settings.load(sandbox_require=require)
    tokens = read_tenants(tenants) if tenants else {}
    own = read_token(token_file) if token_file else os.environ.get("ATC_SERVE_TOKEN", "").strip()
    if own:
        if "default" in tokens:
            raise UsageError(f"{tenants}: the tenant `default` is who shows the token of --token-file: rename it")
        tokens["default"] = own
    made = ServiceSettings(
        Tenants(tokens),
        limits_from(settings),
        settings.sandbox_require,
        settings.sandbox_preload,
        max_runs,
        max_runs_per_tenant,
        drain_s=drain_s,
        advertise=_address(advertise),
        pause_s=pause_s,
        telemetry=open_telemetry(settings),
    )
    secure = tls_files(tls_cert, tls_key)
    if not secure and not is_loopback(host):
        err.print("atc: serving http without --tls-cert: the way to callers must be encrypted by other means")
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level=logging.INFO)
    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(run_service(made, host, port, **secure))


def _address(advertise: str) -> str:
    if advertise and not advertise.startswith(("http://", "https://")):
        raise UsageError(f"--advertise takes http://HOST:PORT or https://…, not {advertise[:200]!r}")
    return advertise.rstrip("/")
