"""``atc run``: solve one task."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from atc.cli import options
from atc.cli.console import Interrupted, clean, err, exit_code_of_run, guarded, out, print_json
from atc.models.resolve import prepare_model
from atc.wording import outcomes
from atc.wording.went_on import caveats

if TYPE_CHECKING:
    from atc.cli.view import RunView
    from atc.result import Result
    from atc.traces.events import Event

Images = Annotated[
    list[str] | None,
    typer.Option(
        "--image",
        metavar="FILE",
        help="Show the model this PNG, JPEG, WebP or GIF with the task. May be given several times.",
    ),
]


@guarded
@options.takes("model", "strategy", "sandbox", "approve", "read_only", "ask_user", "answer", "instructions")
def run(
    task: Annotated[str, typer.Argument(help="What you want, in plain words; `-` reads it from standard input.")],
    source: options.Source,
    given: options.Given,
    image: Images = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Make only reads; list the calls with effects, and what feeds them.")
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Print the path of the run's trace at the end.", hidden=True)
    ] = False,
    verbose: options.Verbose = False,
    as_json: options.Json = False,
) -> None:
    """Solve a task: write a program that calls the tools, run it in the sandbox, revise it if it fails.

    Exit codes: 0 answered (or planned, with --dry-run), 1 not solved, 2 wrong use, 3 something is missing (a model, a
    sandbox, a credential, a service), 4 a call was not approved, 5 a tool is broken, 6 a call with effects may or may
    not have happened, 7 the program asks you something (`atc resume RUN --reply TEXT` goes on).
    """
    prepare_model(**given)  # it loads while the rest is imported
    from atc.agent import Agent
    from atc.cli.view import RunView

    view = Shown(None if as_json else RunView(out, verbose=verbose))
    agent = Agent(source.opened(), on_event=view, **given)
    with view.shown(kept=agent.settings.keep_runs):
        text = sys.stdin.read() if task == "-" else task
        result = asyncio.run(agent.arun(text, images=image or (), source=source.note, dry_run=dry_run))
    finish(result, as_json=as_json, trace=trace)


class Shown:
    """Hands the events of a run to its view, and says after Ctrl-C how to go on with the run.

    Args:
        view: of the run; ``None`` where nothing is shown.
    """

    def __init__(self, view: RunView | None) -> None:
        self._view = view
        self._run_id = ""

    def __call__(self, event: Event) -> None:
        if event.kind == "run_started" and not event.data.get("dry_run"):  # of that there is nothing to go on with
            self._run_id = event.data["run_id"]
        if self._view is not None:
            self._view(event)

    @contextlib.contextmanager
    def shown(self, *, kept: bool) -> Iterator[None]:
        """Show what happens in a block, which is a run. ``kept``: the run is, and so can be resumed.

        Raises:
            Interrupted: it was stopped by Ctrl-C, and can be gone on with.
        """
        try:
            yield
        except KeyboardInterrupt:
            if kept and self._run_id:
                raise Interrupted(f"`atc resume {self._run_id}` goes on with it") from None
            raise
        finally:
            if self._view is not None:
                self._view.close()


def finish(result: Result, *, as_json: bool, trace: bool) -> None:
    """Print what is left to print, and leave with the exit code of a result."""
    if as_json:
        print_json(result.model_dump(mode="json"))
    report(result, viewed=not as_json)
    if trace and not as_json:
        out.print(f"trace: {result.trace}", markup=False)
    raise typer.Exit(exit_code_of_run(result.status))


def report(result: Result, *, viewed: bool) -> None:
    """Print on stderr what the user must see to: calls in doubt, those not made, and that a run is incomplete.

    Args:
        result: of the run.
        viewed: its events were shown: the last of them says what the result's fault says.
    """
    said = result.fault.call if viewed and result.partial and result.fault is not None else None
    for call in (call for call in result.in_doubt if call.index != said):
        err.print(
            f"in doubt: {call.tool}({clean(str(call.arguments))}) may or may not have happened; check it by hand",
            markup=False,
        )
    refused = [call.error_status for call in result.calls if call.status == "refused"]
    if warned := refused.count("warned"):
        hint = "--approve always --set warnings=allow makes them; on a terminal you are asked"
        err.print(f"not made: {warned} calls that depend on a warning of the check ({hint})", markup=False)
    denied = sum(call.error_status == "denied" and call.refused_by != "user" for call in result.calls)
    if denied and result.status != "denied":  # else the fault says it
        hint = "--approve ask or always makes them; a function of yours that only reads: @atc.tool(effect='read')"
        err.print(f"not approved: {denied} calls ({hint})", markup=False)
    if not viewed and result.status not in ("answered", "planned"):
        for line in outcomes.effects(result.done, result.not_done, in_doubt=result.status == "in_doubt"):
            err.print(clean(line), markup=False)
    for caveat in caveats(result) if not viewed else ():
        err.print(clean(caveat), markup=False)
