"""Run a program of the caller's own over an agent's tools: checked, jailed, brokered, attributed, and kept as a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atc.errors import JournalError, UsageError
from atc.request import Request
from atc.result import Result
from atc.strategies.given import NAME, Given
from atc.traces.emitter import Listener
from atc.traces.events import Event
from atc.traces.store import StoredRun

if TYPE_CHECKING:
    from atc.agent import Agent


@dataclass(frozen=True)
class GivenRun:
    """How a given program went.

    Attributes:
        result: of its run.
        stdout: what it printed; the last of it, where that is long. ``stderr``: likewise.
    """

    result: Result[Any]
    stdout: str = ""
    stderr: str = ""


async def run_given(
    agent: Agent,
    source: str,
    *,
    task: str,
    inputs: Mapping[str, Any] | None = None,
    revises: str | None = None,
    dry_run: bool = False,
    listener: Listener | None = None,
    run_id: str = "",
) -> GivenRun:
    """Run one program.

    Args:
        agent: whose tools, sandbox, approval and limits count. Its model is not asked.
        source: the program. It leaves its result in ``answer``.
        task: what it is for, in a line; the trace has it.
        inputs: JSON values and bytes that stand in the program's scope, by name.
        revises: id of the run that it is a revision of: what its earlier programs did comes from the journal.
        dry_run: calls with effects are planned, not made.
        listener: told of every event.
        run_id: of a new run; made here when not given.

    Raises:
        UsageError: there is no such run, it is of another kind, or an input cannot be used.
        JournalError: the run's journal is damaged, or another process works on it.
        EnvironmentProblem: not the isolation that was asked for.
    """
    printed: dict[str, str] = {}

    def heard(event: Event) -> None:
        if event.kind == "program_ended":
            printed.update(stdout=event.data["stdout"], stderr=event.data["stderr"])
        if listener is not None:
            listener(event)

    strategy = Given(source, inputs)
    if revises is None:
        request, stored = agent._request(task, dry_run=dry_run), None
    else:
        stored = agent.store.find(revises)
        request = _revised(agent, stored, dry_run)
    result = await agent._begin(
        request, resumed=stored, strategy=strategy, opened_by=NAME, listener=heard, run_id=run_id
    )
    return GivenRun(result, **printed)


def _revised(agent: Agent, stored: StoredRun, dry_run: bool) -> Request:
    started = stored.first("run_started")
    if started is None or not stored.journal.exists():
        raise JournalError(f"run {stored.run_id} has no beginning or no journal: its program cannot be revised")
    if started.get("strategy") != NAME:
        raise UsageError(f"run {stored.run_id} is no run of a given program: begin a new one")
    if bool(started.get("dry_run")) != dry_run:
        raise UsageError(f"run {stored.run_id} was{'' if started.get('dry_run') else ' no'} dry run: begin a new one")
    return agent._request(started["task"], dry_run=dry_run)
