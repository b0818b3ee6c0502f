"""``atc runs apply``: what a dry run planned is shown, asked about once, and made exactly."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from atc.calls import question
from atc.cli import options
from atc.cli.approvals import read_key
from atc.cli.console import DENIED, guarded, out
from atc.errors import UsageError
from atc.result import Effect
from atc.settings import Settings
from atc.traces.stores import open_store
from atc.traces.stores.base import StoredRun
from atc.wording import applied, plans
from atc.wording.origins import careful_of_plan


@guarded
@options.takes("approve", "read_only", "ask_user")
def apply(
    run: Annotated[str, typer.Argument(help="The dry run's id, its beginning or end, or `last`.")],
    given: options.Given,
    tools: options.ToolsNow = None,
    openapi: options.OpenApi = None,
    key_file: options.KeyFile = None,
    as_json: options.Json = False,
) -> None:
    """Make what a dry run planned, and nothing else: you see the plan, and approve it once.

    The same program runs again, this time with its writes, and repeats its reads. If it makes a call with effects that
    is not the next planned one, that call is not made, and the run ends. No model takes part. Your approval needs a
    terminal. After a crash the same command continues. If the permissions name approvers, the approval needs the key
    of one (--key-file, ATC_APPROVER_KEY).
    """
    from atc.agent import Agent
    from atc.cli.run import Shown, finish
    from atc.cli.view import RunView
    from atc.run.apply import PlannedRun, apply_plan, planned_run
    from atc.run.approvals import decider_of

    settings = Settings.load()
    key = None if key_file is None else read_key(key_file)
    decider_of(key=key, settings=settings)  # who may not decide is not asked
    stored = open_store(settings).find(run)
    planned: PlannedRun = planned_run(stored)
    source = _source_of(stored, planned.started, tools)
    source = replace(source, openapi=[*(source.openapi or ()), *(openapi or ())])
    if not question.has_terminal():
        raise UsageError(
            "approving a plan needs a terminal, where a person sees it: run it there, or call agent.apply(run_id) in a "
            "program of yours"
        )
    calls = {f"{call.index}. {call.tool}": call for call in planned.found.planned}
    writes = sum(call.effect != Effect.READ.value for call in calls.values())
    asked = question.ask(
        applied.to_apply(writes, planned.goes_on),
        {name: call.arguments | plans.unknown_arguments(call) for name, call in calls.items()},
        [*_warnings(planned)],
        question.About(
            origins={name: [*_origins(call)] for name, call in calls.items()},
            careful=careful_of_plan(planned.found.planned),
        ),
    )
    if asyncio.run(asked) is not True:
        raise typer.Exit(DENIED)
    view = Shown(None if as_json else RunView(out))
    agent = Agent(source.opened(), on_event=view, **given)
    with view.shown(kept=True):
        result = asyncio.run(apply_plan(agent, stored, key=key, seen=planned.digest))
    finish(result, as_json=as_json, trace=False)


def _source_of(stored: StoredRun, started: dict[str, Any], tools: list[str] | None) -> options.Source:
    """Of a trace that others may have written nothing is taken."""
    source, strange = options.Source.of_note(started.get("source")), stored.why_strange()
    if tools:
        return options.Source(tools, openapi=None if strange else source.openapi)
    if strange:
        raise UsageError(f"run {stored.run_id} is not applied with the tools that it names, for {strange}: use --tools")
    if not source.tools:
        raise UsageError(f"run {stored.run_id} does not say where its tools were: name them with --tools")
    return source


def _origins(call: Any) -> Iterator[tuple[str, str]]:
    for name, sources in plans.origins(call.feeds, call.arguments, call.data_flow).items():
        yield from ((part or name, text) for part, text in sources)


def _warnings(planned: Any) -> Iterator[str]:
    found = planned.found
    for call in found.planned:
        yield from (f"call {call.index}: {text}" for text in call.warnings)
    if found.stop is not None:
        yield plans.stop(found.stop, found.planned)
    if found.unseen:
        yield plans.unseen(found.unseen)
