"""``atc sandbox``: see that a sandbox keeps what it promises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from atc.cli import options
from atc.cli.console import NOT_SOLVED, clean, err, guarded, out, print_json, print_table
from atc.sandboxes.conformance import CHECKS, Report, Verdict, check_sandbox, factory_for
from atc.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Check that a sandbox keeps its promises.")

_MARKS = {"passed": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("–", "yellow")}


@app.callback()
def _group() -> None:
    """Check that a sandbox keeps its promises."""


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
        str | None, typer.Option(help="For process: just this tier, N, L or F, not the strongest there is.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Run the suite that every driver must pass: values, errors, calls, limits, isolation, endings, all of Python.

    Exit code 0: every check passed; 1: some failed; 3: the driver cannot be had.
    """
    factory = factory_for(Settings.load(sandbox=driver), tier)
    with _progress() as tell:
        report = asyncio.run(check_sandbox(factory, tell=tell))
    if as_json:
        print_json(report.as_json())
    else:
        _print(report)
    if not report.ok:
        raise typer.Exit(NOT_SOLVED)


@contextmanager
def _progress() -> Iterator[Callable[[Verdict], None]]:
    """A bar on a terminal, a line every twenty checks elsewhere; on stderr, for the result is on stdout."""
    if not err.is_terminal:
        done = 0

        def count(verdict: Verdict) -> None:
            nonlocal done
            done += 1
            if done % 20 == 0:
                err.print(f"{done} of {len(CHECKS)} checks")

        yield count
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("", total=len(CHECKS))
        yield lambda verdict: bar.update(task, advance=1, description=verdict.name)


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
