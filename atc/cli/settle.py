"""``atc runs settle``, ``atc runs undo``: what came of a run's calls in doubt; and its calls undone by inverses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.text import Text

from atc._records.records import SettledCall, UndoneCall
from atc.calls import question
from atc.cli import options
from atc.cli.console import DENIED, IN_DOUBT, NOT_SOLVED, clean, guarded, out, print_json
from atc.cli.kept_source import kept_source
from atc.errors import UsageError
from atc.run.settling import in_doubt, settle_by_hand
from atc.settings import Settings
from atc.traces.stores import open_store
from atc.traces.stores.base import StoredRun
from atc.wording import doubts


@guarded
@options.takes()
def settle(
    run: options.RunName,
    given: options.Given,
    call: Annotated[
        list[int] | None, typer.Option("--call", help="Settle only this call. May be given several times.")
    ] = None,
    done: Annotated[
        bool | None,
        typer.Option("--done/--not-done", help="Take your word for the --call: it was done, or it was not."),
    ] = None,
    tools: options.ToolsNow = None,
    openapi: options.OpenApi = None,
    trust_run: options.TrustRun = False,
    as_json: options.Json = False,
) -> None:
    """Find out whether the calls of a run that are in doubt were done: by the reads that your permissions file names.

    It sends nothing again: `atc resume RUN` continues the run. If no read is named, look at the service, and state what
    you found with `--done` or `--not-done`. That needs a terminal, so that no program, and no model with a shell, can
    do it for you.
    """
    stored = open_store(Settings.load(**given)).find(run)
    if done is not None:
        found = _by_hand(stored, call, done=done)
    elif (found := _chosen(stored, call)) and _names_reads(given):
        with _agent(stored, given, tools, openapi, trust_run) as agent:
            found = asyncio.run(agent.asettle(stored.run_id, calls=call))
    if as_json:
        print_json({"run_id": stored.run_id, "settled": [each.model_dump(mode="json") for each in found]})
    else:
        _print(found, doubts.settled_call)
        out.print(Text(clean(_what_now(stored.run_id, found))))
    if any(each.outcome == "in_doubt" for each in found):
        raise typer.Exit(IN_DOUBT)


def _by_hand(stored: StoredRun, call: list[int] | None, *, done: bool) -> tuple[SettledCall, ...]:
    if not call:
        raise UsageError("--done and --not-done are about calls that you looked at: name each with --call")
    if not question.has_terminal():
        raise UsageError(
            "your word needs a terminal, where a person sees the call: run it there, or call "
            "agent.settle(run_id, calls=[…], done=…) in a program of yours"
        )
    found: tuple[SettledCall, ...] = ()
    for each in _chosen(stored, call):
        came = "was done" if done else "was not done"
        heading = f"you say that call {each.index} ({question.visible_name(each.tool)}) {came}?"
        says_so = asyncio.run(question.ask(heading, each.arguments)) is True
        found += settle_by_hand(stored, [each.index], done=done) if says_so else (each,)
    return found


def _chosen(stored: StoredRun, call: list[int] | None) -> tuple[SettledCall, ...]:
    found = in_doubt(stored)
    if missing := sorted(set(call or ()) - {each.index for each in found}):
        raise UsageError(f"call {missing[0]} of run {stored.run_id} is not in doubt")
    return tuple(each for each in found if call is None or each.index in call)


@guarded
@options.takes("approve")
def undo(
    run: options.RunName,
    given: options.Given,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be called.")] = False,
    tools: options.ToolsNow = None,
    openapi: options.OpenApi = None,
    trust_run: options.TrustRun = False,
    as_json: options.Json = False,
) -> None:
    """Undo what a run did, by the inverses that your permissions file or `@tool(undo=…)` names, the newest first.

    Each inverse is a call with effects, and needs your approval as one. It lists calls that have no inverse, are in
    doubt, or were undone before.
    """
    stored = open_store(Settings.load(**given)).find(run)
    with _agent(stored, given, tools, openapi, trust_run) as agent:
        found = asyncio.run(agent.aundo(stored.run_id, dry_run=True))
        if not dry_run and any(each.outcome == "planned" for each in found.calls):
            if not as_json:
                _print(found.calls, doubts.undone_call)
                out.print(Text("── undoing ──", style="bold"))
            found = asyncio.run(agent.aundo(stored.run_id))
    if as_json:
        print_json(found.model_dump(mode="json"))
    elif found.calls:
        _print(found.calls, doubts.undone_call)
        if found.undo_run:
            out.print(Text(f"run {found.undo_run} is this undo: `atc runs show {found.undo_run}`"))
    else:
        out.print(Text(f"run {stored.run_id} made no call with effects"))
    raise typer.Exit(_code(found.calls, dry_run=dry_run))


def _code(calls: tuple[UndoneCall, ...], *, dry_run: bool) -> int:
    left = [each for each in calls if each.outcome not in ("undone", "planned") and each.why != "undone"]
    if dry_run or not left:
        return 0
    if any(each.outcome == "in_doubt" or each.why in ("in_doubt", "undo_in_doubt") for each in left):
        return IN_DOUBT
    return DENIED if any(each.outcome == "denied" for each in left) else NOT_SOLVED


def _agent(
    stored: StoredRun,
    given: dict[str, Any],
    tools: list[str] | None,
    openapi: list[str] | None,
    trust_run: bool,
) -> Any:
    from atc.agent import Agent
    from atc.models.base import NoModel

    source, _ = kept_source(stored, tools, openapi, trust_run=trust_run)
    return Agent(source.opened(), model=NoModel(), **given)


def _names_reads(given: dict[str, Any]) -> bool:
    from atc.calls.permissions.agent_permissions import permissions_named

    found = permissions_named(Settings.load(**given))
    return found is not None and any(table.settle is not None for _, table in found.tools)


def _print(found: tuple[Any, ...], lines: Callable[[Any], list[str]]) -> None:
    for each in found:
        for line in lines(each):
            out.print(Text(f"  {clean(line)}"))


def _what_now(run_id: str, found: tuple[SettledCall, ...]) -> str:
    if not found:
        return f"run {run_id} has no call in doubt"
    if left := [each for each in found if each.outcome == "in_doubt"]:
        return (
            f"{len(left)} in doubt still: look at the service, then `atc runs settle {run_id} --call {left[0].index} "
            "--done` or --not-done"
        )
    return f"{len(found)} settled; `atc resume {run_id}` continues it"
