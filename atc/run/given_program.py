"""Run a program of the caller's own over an agent's tools: checked, jailed, brokered, attributed, and kept as a run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from atc._host.blocking import in_thread
from atc._host.invisible import visible
from atc._records.packing import unpack
from atc.errors import JournalError, UsageError
from atc.models.base import NoModel
from atc.programs.extract import unfenced
from atc.result import Result
from atc.run.given import NAME, Facts, Given
from atc.run.request import Request, parked_before
from atc.sandboxes.drivers import limits_from
from atc.sandboxes.inputs import MAX_GIVEN, check_names, packed
from atc.traces.emitter import Listener
from atc.traces.stores.base import RUN_ID, StoredRun

if TYPE_CHECKING:
    from atc.agent import Agent

MAX_SOURCE = 60_000
"""Characters of a program."""
MAX_LINE, MAX_TOOLS = 100, 5
"""Characters of a program's first line, and tools, that name its run."""


@dataclass(frozen=True)
class GivenRun:
    """Describes how a given program went."""

    result: Result[Any]
    facts: Facts = field(default_factory=Facts)


async def run_given(
    agent: Agent,
    source: str | None,
    *,
    author: str = "",
    inputs: Mapping[str, Any] | None = None,
    kept: Collection[str] = (),
    by_user: bool = False,
    revises: str | None = None,
    dry_run: bool = False,
    listener: Listener | None = None,
    run_id: str = "",
    tools_from: str | None = None,
    claim: Callable[[], None] | None = None,
) -> GivenRun:
    """Run one program.

    Args:
        agent: whose tools, sandbox, approval and limits count. Its model is not asked.
        source: the program. It leaves its result in ``answer``. ``None``: the last one of the run that it revises,
            which runs again from its start.
        author: who wrote it. The run is named by that, its first line and its tools.
        inputs: JSON values and bytes that stand in the program's scope, by name. A revision that gives none has those
            of the program before it.
        kept: the names of inputs that are no words of the author: earlier runs answered them.
        by_user: the others are no words of the author either: who calls this gave them, and they count as the task.
        revises: id of the run that it is a revision of: what its earlier programs did comes from the journal.
        dry_run: calls with effects are planned, not made.
        listener: told of every event.
        run_id: of a new run; made here when not given.
        tools_from: is noted in the trace of a new run: where the tools are, for whoever goes on with it.
        claim: as :attr:`Request.claim`.

    Raises:
        UsageError: there is no such run, it is of another kind, the program is empty or too long, or an input cannot be
            used.
        JournalError: the run's journal is damaged, or another process works on it.
        EnvironmentProblem: not the isolation that was asked for.
    """
    if source is not None:
        _check_source(source)
    stored: StoredRun | None = None
    if revises is not None:
        revised, request, before = await in_thread(_revised, agent, revises, dry_run)
        stored = revised
        if inputs is None:
            inputs, kept, by_user = before.inputs, before.kept, before.by_user
        program = await in_thread(_last_program, revised) if source is None else source
    elif source is not None:
        program, title = source, await asyncio.to_thread(title_of, source, agent.tools)
        request = agent._request(f"{author}: {title}" if author else title, dry_run=dry_run, source=tools_from)
    else:
        raise UsageError("give a program, or the run whose program goes on")
    await asyncio.to_thread(_check, agent, inputs or {})  # they may be large
    strategy = Given(program, inputs, kept, by_user=by_user)
    result = await agent._begin(
        replace(request, claim=claim),
        resumed=stored,
        strategy=strategy,
        opened_by=NAME,
        listener=listener,
        run_id=run_id,
        model=NoModel(),
    )
    return GivenRun(result, facts=strategy.facts)


def title_of(source: str, tools: Collection[str]) -> str:
    """Return what a list of runs calls a program: its first line, which may be a comment that says what it is for, and
    the tools that it names, in their order."""
    lines = [line.strip() for line in unfenced(source).split("\n")]
    said = [line.strip("# \"'") for line in lines if not line.startswith(("import ", "from "))]
    first = visible(next(filter(None, said), source.strip())[:MAX_LINE])
    named = [name for name in dict.fromkeys(re.findall(r"\w+", source)) if name in tools]
    more = [f"… {len(named) - MAX_TOOLS} more"] if len(named) > MAX_TOOLS else []
    return f"{first} ({', '.join([*named[:MAX_TOOLS], *more])})" if named else first


def _check_source(source: str) -> None:
    if not source.strip():
        raise UsageError("the program is empty: write Python that calls tools and sets `answer`")
    if len(source) > MAX_SOURCE:
        size = f"{len(source):,} characters; the limit is {MAX_SOURCE:,}"
        raise UsageError(f"the program has {size}: give data by `inputs`, and only the program as `source`")


def _last_program(stored: StoredRun) -> str:
    programs = stored.programs()
    if not programs:
        raise UsageError(f"run {stored.run_id} was cut off before its program was there: send the program with it")
    return programs[-1]


def _check(agent: Agent, inputs: Mapping[str, Any]) -> None:
    """Raises UsageError for an input that no program can have, before a run begins for it."""
    check_names(inputs, agent.tools)
    limits = limits_from(agent.settings)
    packed(inputs, frame_bytes=limits.frame_bytes, channel_bytes=limits.channel_bytes, most=MAX_GIVEN)


@dataclass(frozen=True)
class _InputsBefore:
    inputs: dict[str, Any]
    kept: list[str]
    by_user: bool


def _revised(agent: Agent, name: str, dry_run: bool) -> tuple[StoredRun, Request, _InputsBefore]:
    stored = agent.store.run(name) if RUN_ID.fullmatch(name) else agent.store.find(name)
    started = stored.first("run_started") if stored.exists else None
    if started is None or not stored.has_journal:
        raise UsageError(f"run {stored.run_id} is kept no more, so its program cannot be revised: begin a new one")
    if started.get("strategy") != NAME:
        raise UsageError(f"run {stored.run_id} is no run of a given program: begin a new one")
    if bool(started.get("dry_run")) != dry_run:
        raise UsageError(f"run {stored.run_id} was{'' if started.get('dry_run') else ' no'} dry run: begin a new one")
    written = stored.last("program_written") or {}
    try:
        inputs = unpack(written.get("inputs") or {})
    except ValueError as error:
        raise JournalError(f"the trace of run {stored.run_id} is damaged: {error}") from None
    request = replace(agent._request(started["task"], dry_run=dry_run), parks=parked_before(started))
    return stored, request, _InputsBefore(inputs, written.get("kept") or [], is_by_user(stored, written))


def is_by_user(stored: StoredRun, written: Mapping[str, Any]) -> bool:
    """Return whether the user gave the inputs of a program, by its ``program_written``: a trace that others may have
    written does not say so."""
    return written.get("by_user") is True and not stored.why_strange()
