"""The chain of tools: one whole program, revised until it answers (ATC §3). The main path of ATC, top to bottom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from atc.result import Fault, RunStatus
from atc.strategies.candidates import best_candidate
from atc.strategies.endings import STATUS
from atc.strategies.run import Run
from atc.strategies.writer import Draft

_NOTHING = object()


@dataclass(frozen=True)
class Ending:
    """How a strategy ended."""

    status: RunStatus
    program: str = ""
    value: Any = None
    fault: Fault | None = None


async def chain(run: Run, first: Draft | None = None) -> Ending:
    """Write → check → run → attribute → revise, at most α times.

    Args:
        run: the run's pieces.
        first: a program to begin with instead of writing one (a resumed run has it already).

    Raises:
        ModelError, ModelUnavailable, SandboxUnavailable, BudgetExceeded, JournalError: what ends a run from outside.
    """
    last_value: Any = _NOTHING
    while True:
        draft = first or run.spare() or await _written(run)
        first, fault = None, None
        findings = await run.check(draft)
        if findings and (doubted := run.only_doubted()) is not None:
            draft, findings = doubted, []  # it may be right; what was written in its place cannot run
        if not findings:
            outcome = await run.execute(draft.program)
            if await run.only_asked(outcome):
                continue  # no revision: the next program is shown what this one asked for
            fault = await run.attribute(draft.program, outcome)
            if fault is not None and _insisted(fault, outcome.value, last_value):
                fault = None  # two programs found the same nothing: that is the answer
            last_value = outcome.value
        run.keep(draft, findings, fault)
        if not findings and fault is None:
            return Ending("answered", draft.program, outcome.value)
        if fault is not None and fault.cause is not None:  # no other program can help
            return Ending(STATUS[fault.cause], draft.program, fault=fault)
        if len(run.revisions) > run.settings.max_revisions:
            return Ending("unsolved", draft.program, fault=fault or _as_fault(run))


async def _written(run: Run) -> Draft:
    count = run.settings.revision_candidates if run.revisions else run.settings.candidates
    return await (run.write() if count == 1 else best_candidate(run, count))


def _insisted(fault: Fault, value: Any, before: Any) -> bool:
    return fault.kind == "answer" and value not in (None, "") and before == value


def _as_fault(run: Run) -> Fault:
    """The findings of a last program that never ran, as the run's fault."""
    finding = run.revisions[-1].findings[0]
    return Fault(kind="program", case="findings", finding=finding, line=finding.line, tool=finding.tool)
