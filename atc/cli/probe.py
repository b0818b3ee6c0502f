"""``atc probe``: undocumented tools document themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from atc._records.choices import ApproveChoice
from atc.calls.approval import ApprovalRequest, Approve, Verdicts, ask_at_terminal, checked_approve
from atc.cli import options
from atc.cli.console import ENVIRONMENT, NOT_SOLVED, SOLVED, Interrupted, err, guarded, out, print_json
from atc.cli.probe_shown import View, check_summary, diff, print_report
from atc.errors import UsageError
from atc.probing.call_policy import Budget
from atc.probing.drift import Drift
from atc.probing.prober import Prober
from atc.probing.report import Report
from atc.settings import Settings

PAGE = "report.html"
_BUDGETS = {
    "tool": "calls_a_tool",
    "minute": "calls_a_minute",
    "calls": "calls",
    "bytes": "response_bytes",
}


@guarded
@options.takes("model", "approve", settable=("max_tries", "rounds"))
def probe(
    given: options.Given,
    tools: options.Tools = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Folder for the documents; probing continues from there."),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Print as a diff what has changed of the tools that this folder documents. It only notes there the "
            "tools whose programs would fail.",
        ),
    ] = None,
    only: options.Only = None,
    openapi: options.OpenApi = None,
    max_tries: Annotated[
        int, typer.Option(min=0, help="Rounds in which a model is asked for values; 0: no model.")
    ] = 3,
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds at most before a model is asked; 1 probes each tool by itself.")
    ] = 4,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N",
            help="Limits: tool=16, minute=300, calls=2000 or bytes=50000000: the most that the service may be asked.",
        ),
    ] = None,
    allow_effects: Annotated[
        list[str] | None,
        typer.Option(help="Call tools of this pattern too, though they may change something; you approve each call."),
    ] = None,
    test_account: Annotated[
        bool,
        typer.Option(
            "--test-account", help="The credentials belong to a test account: make calls with effects without approval."
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Call tools until they are documented: arguments, response fields, an example each. Only reads are called."""
    if check is not None and output is not None:
        raise UsageError("--check writes no documents: leave -o out")
    opened = options.opened(options.named_tools(tools), only=only, openapi=openapi, undeclared=True)
    view = None if as_json else View(err)
    settings = Settings.load(**given)
    decides = "always" if test_account else _approve(settings.approve, view)
    prober = Prober(
        opened,
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
        except KeyboardInterrupt:
            if view is not None:
                view.close()
                if summary := view.summary():
                    err.print(summary, markup=False)
            raise Interrupted(_how_to_go_on(check, output)) from None
        finally:
            if view is not None:
                view.close()
    if isinstance(found, Report):
        _finish(found, output, as_json=as_json)
    else:
        _finish_check(found, as_json=as_json)


def _how_to_go_on(check: Path | None, output: Path | None) -> str:
    if check is not None:
        return "the same command starts the check again"
    if output is not None:
        return f"what is known is in {output}: the same command continues from there"
    return "nothing was kept: with -o FOLDER the same command continues from where it was stopped"


def _approve(choice: ApproveChoice | None, view: View | None) -> Approve:
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


def _finish(report: Report, output: Path | None, *, as_json: bool) -> None:
    if output is not None:
        from atc.serve.pages.probing.page import write_page  # its template engine is loaded for a page alone

        write_page(report, output / PAGE)
    if as_json:
        print_json(report.to_json())
    else:
        print_report(report)
        kept = (
            f"documents and {PAGE} are in {output}" if output else "nothing was written: -o FOLDER keeps the documents"
        )
        if report.replaced:
            kept += f"; {report.replaced:,} of them say something else than those that were there"
        out.print(kept, markup=False)
    raise typer.Exit(SOLVED if report.complete else NOT_SOLVED)


def _finish_check(found: list[Drift], *, as_json: bool) -> None:
    if as_json:
        print_json([drift.model_dump(mode="json") for drift in found])
    else:
        for line in diff(found):
            out.print(line, markup=False)
        err.print(check_summary(found), markup=False)
    if any(drift.moved for drift in found):
        raise typer.Exit(NOT_SOLVED)
    missed = any(drift.problem in ("unreached", "recorded") for drift in found)
    raise typer.Exit(ENVIRONMENT if missed else SOLVED)
