"""``atc runs approvals``, ``atc runs approve``: writes that wait for approval, and the yes or no to each."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from atc import wording
from atc._host.files import read_own
from atc._host.invisible import visible
from atc._records.records import PendingCall
from atc.calls import question
from atc.cli import options
from atc.cli.console import DENIED as NOT_APPROVED
from atc.cli.console import clean, guarded, out, print_json
from atc.cli.kept_source import knows_tools
from atc.errors import UsageError
from atc.run.approvals import Decider, WaitingRun, decide, decider_of, waiting_run, waiting_runs
from atc.run.request import check_rules
from atc.settings import Settings
from atc.traces.index import RunIndex
from atc.traces.stores import open_store
from atc.wording import plans
from atc.wording.origins import careful, untrusted_first

MAX_KEY_FILE = 1_000
"""Bytes of a file with a key."""


@guarded
def approvals(as_json: options.Json = False) -> None:
    """List the calls with effects that wait for your approval, of all runs that are kept.

    `atc runs approve RUN` decides, and `atc resume RUN` then continues the run.
    """
    store = open_store(Settings.load())
    index = RunIndex(store)
    for _ in index.refresh():
        pass
    waiting = waiting_runs(store, [row.run_id for row in index.rows() if row.status in ("waiting", "unreadable")])
    if as_json:
        print_json([_as_json(run) for run in waiting])
        return
    if not waiting:
        out.print(Text(f"no call waits for approval in {store.where}"))
    for run in waiting:
        out.print(Text(f"{run.run_id}  {visible(run.task)}", style="bold"))
        if run.damage:
            out.print(Text(f"  cannot be read: {visible(run.damage)}"))
        if run.asked is not None:
            said = wording.asked_elsewhere(*(str(run.asked.get(name, "")) for name in ("to", "problem", "detail")))
            out.print(Text(f"  {clean(said)}"))
        for call in run.pending:
            until = time.strftime("%Y-%m-%d %H:%M", time.localtime(call.until))
            for line in (*plans.pending_call(call), f"     until {until}"):
                out.print(Text(f"  {clean(line)}"))


@guarded
def approve(
    run: options.RunName,
    call: Annotated[
        list[int] | None, typer.Option("--call", help="Decide only about this call. May be given several times.")
    ] = None,
    deny: Annotated[bool, typer.Option("--deny", help="Deny them, without a question.")] = False,
    key_file: options.KeyFile = None,
    as_json: options.Json = False,
) -> None:
    """Decide about the calls of a run that wait for your approval: the terminal shows each, and asks.

    You approve exactly this call: this tool, these arguments. It calls nothing yet: `atc resume RUN` continues the run.
    An approval needs a terminal, so that no program, and no model with a shell, can pipe one in; a denial needs none.
    If the permissions name approvers, both need the key of one (--key-file, ATC_APPROVER_KEY). With it, you approve
    calls that you name (--call) without a terminal.
    """
    settings = Settings.load()
    stored = open_store(settings).find(run)
    key = None if key_file is None else read_key(key_file)
    decider = decider_of(via="terminal" if question.has_terminal() else "command", key=key, settings=settings)
    if decider.permissions is None:
        check_rules(stored)  # before anybody is asked
    waiting = waiting_run(stored)
    chosen = [each for each in waiting.pending if call is None or each.index in call]
    if missing := sorted(set(call or ()) - {each.index for each in waiting.pending}):
        raise UsageError(_why_not(waiting, missing[0], decider))
    if not chosen:
        raise UsageError(_why_not(waiting, max(waiting.decided, default=None), decider))
    if not deny and not question.has_terminal() and not (decider.is_approver and call):
        raise UsageError(
            "approving needs a terminal, where a person sees the question (--deny needs none)"
            if not decider.is_approver
            else "without a terminal you approve calls that you have seen: name them with --call (`atc runs approvals`)"
        )
    decided: dict[int, bool] = {}
    seen = {each.number: each.digest for each in waiting.calls}
    for each in chosen:
        asks = not deny and question.has_terminal()
        yes = asyncio.run(_asked(each, waiting)) is True if asks else not deny
        decide(stored, [each.index], yes=yes, decider=decider, seen=seen)
        decided[each.index] = yes
    if as_json:
        print_json({"run_id": stored.run_id, "decided": decided})
    else:
        yeses = sum(decided.values())
        left = f", {still} still waiting" if (still := len(waiting.pending) - len(decided)) else ""
        known = knows_tools(stored)
        then = f"`atc resume {stored.run_id}{'' if known else ' --tools …'}` continues it"
        then += "" if known else ", or its MCP client"
        out.print(Text(f"{yeses} approved, {len(decided) - yeses} denied{left}; {then}"))
    if not deny and not all(decided.values()):
        raise typer.Exit(NOT_APPROVED)


def _why_not(waiting: WaitingRun, number: int | None, decider: Decider) -> str:
    if number is not None and (known := waiting.decided.get(number)) is not None:
        return decider.why_decided(waiting.run_id, known)
    run = f"run {waiting.run_id}"
    what = f"{run} has no call that waits" if number is None else f"call {number} of {run} does not wait"
    return f"{what} for approval (`atc runs approvals` lists them)"


def read_key(path: Path) -> str:
    """Return the text of a key's file.

    Raises:
        UsageError: it cannot be read, or others can write it.
    """
    try:
        return read_own(path, MAX_KEY_FILE).decode("ascii")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UsageError(f"the key in {path} cannot be read: {why}") from None


async def _asked(call: PendingCall, run: WaitingRun) -> bool | None:
    heading = f"allow {question.visible_name(call.tool)}? effect: {call.effect}"
    arguments = untrusted_first(call.arguments, call.data_flow)
    about = question.About(
        origins=plans.origins(call.feeds, arguments, call.data_flow),
        careful=careful(call.data_flow),
        done=[wording.call(each) for each in run.done],
    )
    changed = [plans.read_again(each) for each in call.changed] + ([plans.waits_in(call.same_as)] * bool(call.same_as))
    return await question.ask(heading, arguments, [*call.warnings, *changed], about)


def _as_json(run: WaitingRun) -> dict[str, object]:
    calls = {name: [each.model_dump(mode="json") for each in getattr(run, name)] for name in ("pending", "done")}
    damage = {"damage": run.damage} if run.damage else {}
    return {"run_id": run.run_id, "task": run.task, **calls, "asked": run.asked, **damage}
