"""``atc audit``: who approved or refused what."""

from __future__ import annotations

from collections import deque
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from atc.cli import options
from atc.cli.console import clean, err, guarded, out, print_json, print_table, short
from atc.permissions.audit import AuditRecord, read_audit
from atc.permissions.of_agent import permissions_file, user_path
from atc.settings import Settings

Pattern = Annotated[str | None, typer.Option(metavar="<pattern>", help="Only tools whose name fits this pattern.")]
ClientPattern = Annotated[
    str | None,
    typer.Option("--client", metavar="<pattern>", help="Only clients whose principal, or own name, fits this pattern."),
]
Shown = Annotated[Literal["allowed", "refused"] | None, typer.Option("--verdict", help="Only decisions of this kind.")]


@guarded
def audit(
    last: Annotated[int, typer.Option(min=1, max=100_000, help="How many of the latest decisions to show.")] = 50,
    tool: Pattern = None,
    client: ClientPattern = None,
    verdict: Shown = None,
    run: Annotated[str | None, typer.Option(help="Only the run whose id begins with this.")] = None,
    file: Annotated[
        Path | None, typer.Option("--audit", metavar="<file>", help="File where decisions about calls are recorded.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Read who approved or refused which calls, the latest last.

    Exit codes: 0, also where nothing was written down yet; 3 the log cannot be read.
    """
    settings = Settings.load(audit=file)
    path = settings.audit
    found, damaged = _found(path, last, tool, client, verdict, run)
    if not found and not damaged:
        (err if as_json else out).print(Text(clean(_nothing(settings))))
    if as_json:
        print_json([record.model_dump(mode="json") for record in found])
    elif found:
        table = Table("at", "verdict", "by", "who", "call", "run", box=None, header_style="bold")
        for record in found:
            repeats = f" (as run {record.repeats})" if record.repeats else ""
            cells = (record.at[:19], record.verdict, record.by, _who(record), f"{_call(record)}{repeats}", record.run)
            table.add_row(*(Text(short(cell, 100)) for cell in cells))
        print_table(table)
    if damaged:
        where, line = damaged[0]
        what = f"{len(damaged)} lines of {path} cannot be read, the first is line {line} of {where}"
        err.print(f"{clean(what)}: what was decided there is not known", markup=False)


def _nothing(settings: Settings) -> str:
    """What to say where no decision is found: why there is none, and what writes some."""
    if settings.audit.exists():
        return (
            f"no decision in {settings.audit} fits. `atc run`, `atc chat` and `atc ui` write there only with "
            "permissions; what was approved without them, `atc show RUN` says"
        )
    if settings.read_only or permissions_file(settings) is not None:
        return (
            f"nothing is written in {settings.audit} yet: no call that needs a decision was made with your permissions"
        )
    return (
        f"nothing is written in {settings.audit} yet. `atc mcp` writes all its decisions there; `atc run`, `atc chat` "
        "and `atc ui` only with permissions, and you have none: name a file in the setting `permissions`, or "
        f"write {user_path()} (docs/mcp-server.md, Permissions). What was approved without them, `atc show RUN` says"
    )


def _found(
    path: Path, last: int, tool: str | None, client: str | None, verdict: str | None, run: str | None
) -> tuple[list[AuditRecord], list[tuple[Path, int]]]:
    kept: deque[AuditRecord] = deque(maxlen=last)
    damaged: list[tuple[Path, int]] = []
    for record in read_audit(path, lambda *where: damaged.append(where)):
        if record is None:
            continue
        names = (record.principal, record.client)
        if (
            (tool is None or fnmatchcase(record.tool, tool))
            and (client is None or any(fnmatchcase(name, client) for name in names))
            and (verdict is None or record.verdict == verdict)
            and (run is None or record.run.startswith(run))
        ):
            kept.append(record)
    return list(kept), damaged


def _who(record: AuditRecord) -> str:
    return f"{record.principal} ({record.client})" if record.client else record.principal


def _call(record: AuditRecord) -> str:
    return f"{record.tool}({', '.join(f'{name}={value}' for name, value in record.arguments.items())})"
