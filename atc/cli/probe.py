"""``atc probe``: undocumented tools document themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from atc._records.choices import ApproveChoice
from atc.calls.approval import ApprovalRequest, Approve, Verdicts, ask_at_terminal, checked_approve
from atc.cli import options
from atc.cli.console import NOT_SOLVED, SOLVED, clean, err, guarded, out, print_json, print_table, short
from atc.errors import UsageError
from atc.probing import Budget, Drift, Prober, Progress, Report
from atc.settings import Settings

PAGE = "report.html"
_BUDGETS = {
    "tool": "calls_a_tool",
    "minute": "calls_a_minute",
    "calls": "calls",
    "bytes": "response_bytes",
}
_STYLES = {"documented": "green", "partial": "yellow", "undocumented": "red", "skipped": "dim", "waiting": ""}


@guarded
@options.takes("model", "approve", settable=("max_tries", "rounds"), old={"sandbox_tenant": "--approve always"})
def probe(
    source: Annotated[str, typer.Argument(help="Where the tools are; as for `atc run --tools`.")],
    given: options.Given,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the documents; probing goes on from there.")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(help="Check whether the tools that this folder documents have changed. Nothing is written."),
    ] = None,
    only: options.Only = None,
    openapi: options.OpenApi = None,
    service_url: options.ServiceUrl = None,
    auth: options.Auth = None,
    max_tries: Annotated[
        int, typer.Option(min=0, help="Programs that the model writes for a tool in a round; 0: no model.")
    ] = 3,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds at most; 1 probes each tool alone.")] = 4,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            help="Limits: tool=16, minute=300, calls=2000 or bytes=50000000: the most that the service may be asked."
        ),
    ] = None,
    allow_effects: Annotated[
        list[str] | None,
        typer.Option(help="Call tools of this pattern too, though they may have effects; each call is asked about."),
    ] = None,
    sandbox_tenant: Annotated[
        bool,
        typer.Option(
            "--sandbox-tenant", help="The credentials belong to a test account: calls with effects are allowed."
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Call tools until they are documented: arguments, response fields, an example each. Only reads are called.

    Exit codes: 0 all that may be called are documented (with --check: nothing changed), 1 not, 2 wrong use, 3 something
    is missing in the environment.
    """
    if check is not None and output is not None:
        raise UsageError("--check writes nothing: leave -o out")
    pairs = options.openapi_pairs(openapi, service_url, auth)
    tools = options.opened([source], only=only, openapi=pairs, undeclared=True)
    view = None if as_json else _View(out.is_terminal)
    settings = Settings.load(**given)
    decides = "always" if sandbox_tenant else _approve(settings.approve, view)
    prober = Prober(
        tools,
        model=settings.model,
        budget=_budget(budget),
        tries=max_tries,
        rounds=rounds,
        allow_effects=tuple(allow_effects or ()),
        approve=decides,
        folder=str(check or output) if check or output else None,
        settings=settings,
        on_progress=view,
    )
    with prober:
        try:
            found = prober.check() if check is not None else prober.probe()
        finally:
            if view is not None:
                view.close()
    if isinstance(found, Report):
        _finish(found, output, as_json=as_json)
    else:
        _finish_check(found, as_json=as_json)


def _approve(choice: ApproveChoice | None, view: _View | None) -> Approve:
    """What was chosen; a question ends the drawing first."""
    approve = checked_approve(choice)
    if approve != "ask" or view is None:
        return approve

    async def ask(request: ApprovalRequest) -> Verdicts:
        view.close()
        return await ask_at_terminal(request)

    return ask


def _budget(pairs: list[str] | None) -> Budget:
    given: dict[str, int] = {}
    for pair in pairs or ():
        name, _, number = pair.partition("=")
        if name not in _BUDGETS or not number.isdecimal() or not int(number):
            raise UsageError(f"--budget takes {', '.join(f'{known}=NUMBER' for known in _BUDGETS)}, not {pair!r}")
        given[_BUDGETS[name]] = int(number)
    return Budget(**given)


class _View:
    """What is known so far, a line a tool: redrawn on a terminal, one after another elsewhere."""

    def __init__(self, terminal: bool) -> None:
        self._lines: dict[str, Progress] = {}
        self._live = Live(console=err, refresh_per_second=4, transient=True) if terminal else None
        if self._live is not None:
            self._live.start()

    def __call__(self, progress: Progress) -> None:
        self._lines[progress.record.name] = progress
        if self._live is not None:
            self._live.update(self._table(progress))
        else:
            record = progress.record
            line = f"[round {progress.round}] {record.name}: {record.state} {clean(record.reason)[:160]}"
            err.print(line.rstrip(), markup=False)

    def close(self) -> None:
        """End the drawing; twice is once."""
        if self._live is not None:
            self._live.stop()

    def _table(self, last: Progress) -> Table:
        table = Table(box=None, header_style="bold", caption=f"{last.calls:,} calls so far")
        for heading in ("tool", "round", "tries", "state", "fields", "why"):
            table.add_column(heading, no_wrap=True)
        for name, progress in list(self._lines.items())[-(max(err.height, 12) - 6) :]:
            record = progress.record
            table.add_row(
                name,
                str(progress.round),
                str(record.tries),
                Text(record.state, _STYLES[record.state]),
                str(record.shape.count),
                Text(clean(record.reason)[:60]),
            )
        return table


def _finish(report: Report, output: Path | None, *, as_json: bool) -> None:
    if output is not None:
        from atc.serve.pages.probing.page import write_page  # its template engine is loaded for a page alone

        write_page(report, output / PAGE)
    if as_json:
        print_json(report.to_json())
    else:
        _print(report, output)
    raise typer.Exit(SOLVED if report.complete else NOT_SOLVED)


def _print(report: Report, output: Path | None) -> None:
    table = Table(box=None, header_style="bold")
    for heading in ("tool", "state", "round", "calls", "arguments", "fields", "needs", "why"):
        table.add_column(heading)
    for line in report.lines:
        table.add_row(
            line.tool,
            Text(line.state, _STYLES[line.state]),
            str(line.round or ""),
            str(line.calls or ""),
            str(line.arguments),
            str(line.fields or ""),
            ", ".join(line.helpers),
            Text(short(line.reason, 200)),
        )
    print_table(table)
    out.print(
        f"{report.count('documented')} documented, {report.count('partial')} partly, "
        f"{report.count('undocumented', 'waiting')} undocumented, "
        f"{report.count('skipped')} not called; {report.calls:,} calls, "
        f"{report.model_calls:,} model calls ({report.prompt_tokens:,}+{report.completion_tokens:,} tokens)",
        markup=False,
    )
    if output is not None:
        out.print(f"documents and {PAGE} are in {output}", markup=False)
    else:
        out.print("nothing was written: -o FOLDER keeps the documents", markup=False)


def _finish_check(found: list[Drift], *, as_json: bool) -> None:
    if as_json:
        print_json([drift.model_dump(mode="json") for drift in found])
    else:
        for drift in found:
            if drift.problem:
                out.print(f"{drift.tool}: {clean(drift.problem)}", markup=False)
            for change in drift.changes:
                out.print(f"{drift.tool}: {clean(str(change))}", markup=False)
        moved = sum(drift.moved for drift in found)
        out.print(f"{moved} of {len(found)} tools moved" if moved else f"all {len(found)} tools are as documented")
    raise typer.Exit(NOT_SOLVED if any(drift.moved for drift in found) else SOLVED)
