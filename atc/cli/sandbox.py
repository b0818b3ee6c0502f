"""``atc sandbox``: see that a sandbox keeps what it promises, and serve it to agents elsewhere."""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from atc._host.extras import install_command
from atc.cli import options
from atc.cli.console import NOT_SOLVED, clean, err, guarded, out, print_json, print_table, stages
from atc.errors import EnvironmentProblem, UsageError
from atc.sandboxes.drivers import limits_from
from atc.settings import Settings
from atc.traces.telemetry.seam import open_telemetry

if TYPE_CHECKING:
    from atc.sandboxes.conformance import Report

app = typer.Typer(
    no_args_is_help=True, help="Check that a sandbox keeps its promises, or serve one to agents elsewhere."
)

_MARKS = {"passed": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("–", "yellow")}


@app.callback()
def _group() -> None:
    """Check that a sandbox keeps its promises, or serve one to agents elsewhere."""


@app.command()
@guarded
def check(
    driver: Annotated[
        str | None,
        typer.Argument(
            help="Driver: process, docker, docker:strict, a service's address, or the name of an added driver. "
            "Default: the setting `sandbox`."
        ),
    ] = None,
    tier: Annotated[
        str | None, typer.Option(help="For process: only this tier, N (namespaces), L (Landlock) or F (no-open).")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Run the suite that every driver must pass: values, errors, calls, limits, isolation, endings, all of Python."""
    from atc.sandboxes.conformance import CHECKS, check_sandbox, factory_for

    factory, done = factory_for(Settings.load(sandbox=driver), tier), count(1)
    with stages() as told:
        report = asyncio.run(check_sandbox(factory, tell=lambda _: told("checks", next(done), len(CHECKS))))
    if as_json:
        print_json(report.as_json())
    else:
        _print(report)
    if not report.ok:
        raise typer.Exit(NOT_SOLVED)


def _print(report: Report) -> None:
    table = Table("", "what", "check", "ms", "", box=None, header_style="bold")
    table.columns[3].justify = "right"
    for verdict in report.verdicts:
        sign, colour = _MARKS[verdict.result]
        time = f"{verdict.seconds * 1000:.0f}"
        table.add_row(Text(sign, colour), verdict.group, Text(verdict.name), time, Text(clean(verdict.why), colour))
    print_table(table)
    counts = f"{report.count('passed')} passed, {report.count('failed')} failed, {report.count('skipped')} skipped"
    where = f"{report.driver}, tier {report.isolation}"
    out.print(Text(f"{where}: {counts} in {report.seconds:.1f} s", "green" if report.ok else "red"))


@app.command()
@guarded
@options.takes(settable=("drain_s", "max_runs_per_tenant", "pause_s", "advertise"))
def serve(
    given: options.Given,
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
            envvar="ATC_SERVE_MAX_RUNS", min=1, help="Programs at once; a caller with more gets an answer to try later."
        ),
    ] = 32,
    max_runs_per_tenant: Annotated[
        int,
        typer.Option(
            envvar="ATC_SERVE_MAX_RUNS_PER_TENANT", min=0, help="Programs of one tenant at once; 0: its share."
        ),
    ] = 0,
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
    from the settings (--set wall_s=60, or ATC_WALL_S). It ends on SIGTERM, after its runs.
    """
    try:
        from atc._host.addresses import is_loopback
        from atc.serve.http import tls_files
        from atc.serve.sandbox.accounts import CountingLoop
        from atc.serve.sandbox.server import serve as run_service
        from atc.serve.sandbox.service import ServiceSettings
        from atc.serve.tokens import Tenants, tokens_given
    except ImportError as error:
        raise EnvironmentProblem(f"{error.name} is not installed: {install_command('service')}") from None

    settings = Settings.load(**given)
    made = ServiceSettings(
        Tenants(tokens_given(tenants, token_file, "ATC_SERVE_TOKEN", "default")),
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
        raise UsageError(f"advertise takes http://HOST:PORT or https://…, not {advertise[:200]!r}")
    return advertise.rstrip("/")
