"""``atc approvals``, ``atc runs approve``: the writes of runs that wait for a yes, and the yes or no to each."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import typer
from rich.text import Text

from atc._host.invisible import visible
from atc._records.records import PendingCall
from atc.calls import question
from atc.cli import options
from atc.cli.console import DENIED as NOT_APPROVED
from atc.cli.console import clean, guarded, out, print_json
from atc.errors import UsageError
from atc.run.approvals import WaitingRun, decide, undecided, waiting_runs
from atc.settings import Settings
from atc.traces.index import RunIndex
from atc.traces.stores import open_store
from atc.wording import plans

RunName = Annotated[str, typer.Argument(help="The run's id, its beginning or end, or `last`.")]


@guarded
def approvals(as_json: options.Json = False) -> None:
    """List the calls with effects that wait for your yes, of all runs that are kept.

    `atc runs approve RUN` decides, and `atc resume RUN` then goes on. Exit codes: 0, also where nothing waits; 3 the
    store cannot be read.
    """
    store = open_store(Settings.load())
    index = RunIndex(store)
    for _ in index.refresh():
        pass
    waiting = waiting_runs(store, [row.run_id for row in index.rows() if row.status == "waiting"])
    if as_json:
        print_json([_as_json(run) for run in waiting])
        return
    if not waiting:
        out.print(Text(f"no call waits for a yes in {store.where}"))
    for run in waiting:
        out.print(Text(f"{run.run_id}  {visible(run.task)}", style="bold"))
        if run.damage:
            out.print(Text(f"  cannot be read: {visible(run.damage)}"))
        for call in run.pending:
            for line in (*plans.pending_call(call), f"     until {_day(call.until)}"):
                out.print(Text(f"  {clean(line)}"))


@guarded
def approve(
    run: RunName,
    call: Annotated[
        list[int] | None, typer.Option("--call", help="Decide about this call alone. May be given several times.")
    ] = None,
    deny: Annotated[bool, typer.Option("--deny", help="Say no to them, without a question.")] = False,
    as_json: options.Json = False,
) -> None:
    """Decide about the calls of a run that wait for your yes: each is shown, and asked about at the terminal.

    A yes is for exactly this call: this tool, these arguments. Nothing is called now: `atc resume RUN` goes on. A yes
    needs a terminal, so that no program, and no model with a shell, can pipe one in; a no needs none.

    Exit codes: 0 all are decided, 2 wrong use (also: a yes without a terminal), 4 you said no to one of them.
    """
    stored = open_store(Settings.load()).find(run)
    waiting = undecided(stored)
    chosen = [each for each in waiting if call is None or each.index in call]
    if missing := sorted(set(call or ()) - {each.index for each in waiting}):
        raise UsageError(
            f"call {missing[0]} of run {stored.run_id} does not wait for a yes (`atc approvals` lists them)"
        )
    if not chosen:
        raise UsageError(f"run {stored.run_id} has no call that waits for a yes (`atc approvals` lists them)")
    if not deny and not question.has_terminal():
        raise UsageError(
            "a yes needs a terminal, where a person sees the question: run it there, or call agent.approve(run_id) in "
            "a program of yours (--deny needs none)"
        )
    decided = {}
    for each in chosen:
        yes = not deny and asyncio.run(_asked(each)) is True
        decide(stored, [each.index], yes=yes)
        decided[each.index] = yes
    if as_json:
        print_json({"run_id": stored.run_id, "decided": decided})
    else:
        yeses = sum(decided.values())
        out.print(
            Text(f"{yeses} approved, {len(decided) - yeses} denied; `atc resume {stored.run_id}` goes on with it")
        )
    if not deny and not all(decided.values()):
        raise typer.Exit(NOT_APPROVED)


async def _asked(call: PendingCall) -> bool | None:
    heading = f"allow {question.visible_name(call.tool)}? effect: {call.effect}"
    about = question.About(plans.origins(call.feeds, call.arguments))
    changed = [plans.read_again(each) for each in call.changed]
    return await question.ask(heading, call.arguments, [*call.warnings, *changed], about)


def _as_json(run: WaitingRun) -> dict[str, object]:
    pending = [each.model_dump(mode="json") for each in run.pending]
    damage = {"damage": run.damage} if run.damage else {}
    return {"run_id": run.run_id, "task": run.task, "pending": pending, **damage}


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
