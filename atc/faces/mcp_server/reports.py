"""How a program went, as a client's model is told: facts, bounded, as JSON values."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from atc.calls.redact import Redactor
from atc.facts import Fault, Finding
from atc.given_program import GivenRun
from atc.packing import as_text, pack
from atc.result import Call, Effect, RunStatus

MAX_CALLS, MAX_TEXT, MAX_PRINTED = 50, 500, 4_000
"""Calls of a report, characters of a text in it, and of what the program printed."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CallReport(_Record):
    """One call of the program: what it was, and how it ended. ``replayed``: answered from the journal."""

    tool: str
    line: int = 0
    status: str
    error: str = ""


class FindingReport(_Record):
    """What the check found before the program ran. An ``error`` kept it from running."""

    severity: Literal["error", "warning"]
    kind: str
    line: int = 0
    tool: str = ""
    message: str


class FaultReport(_Record):
    """Why the program gave no answer: the tool at fault, if one is, the line, and what the tool really answered."""

    kind: str
    line: int = 0
    tool: str = ""
    message: str
    answered: str = ""


class ProgramReport(_Record):
    """How a program went.

    Attributes:
        status: as :class:`atc.result.Result` has it; ``rejected``: the check kept it from running.
        run: to be given with a revision.
        value: of ``answer``.
        done: calls with effects that are done; a revision gets their answers from the journal.
        in_doubt: calls with effects of which nobody knows whether they were done.
    """

    status: RunStatus | Literal["rejected"]
    run: str
    value: Any = None
    printed: str = ""
    calls: list[CallReport] = Field(default_factory=list)
    more_calls: int = 0
    findings: list[FindingReport] = Field(default_factory=list)
    fault: FaultReport | None = None
    done: list[str] = Field(default_factory=list)
    in_doubt: list[str] = Field(default_factory=list)
    rewrites: list[str] = Field(default_factory=list)


def report_of(given: GivenRun, redactor: Redactor) -> ProgramReport:
    """The report of a run that has ended."""
    result = given.result
    last = result.revisions[-1] if result.revisions else None
    found = last.findings if last is not None else ()
    own = [call for call in result.calls if last is None or call.attempt == max(c.attempt for c in result.calls)]
    rejected = result.status == "unsolved" and result.fault is None and bool(found)
    done = [call for call in own if call.effect is not Effect.READ and call.succeeded]
    doubtful = [call for call in result.calls if call.status == "in_doubt"]
    return ProgramReport(
        status="rejected" if rejected else result.status,
        run=result.run_id,
        value=pack(redactor.value(result.json_value)) if result.status == "answered" else None,
        printed=_cut(redactor.text(given.stdout), MAX_PRINTED),
        calls=[] if rejected else [_call(call) for call in own[:MAX_CALLS]],
        more_calls=0 if rejected else max(0, len(own) - MAX_CALLS),
        findings=[_finding(each) for each in found],
        fault=_fault(result.fault, result.calls) if result.fault is not None else None,
        done=[_shown(call) for call in done[:MAX_CALLS]],
        in_doubt=[_shown(call) for call in doubtful[:MAX_CALLS]],
        rewrites=list(last.rewrites) if last is not None else [],
    )


def _call(call: Call) -> CallReport:
    return CallReport(tool=call.tool, line=call.line, status=call.status, error=_cut(call.error or "", MAX_TEXT))


def _finding(found: Finding) -> FindingReport:
    return FindingReport(
        severity=found.severity,
        kind=found.kind,
        line=found.line or 0,
        tool=found.tool or "",
        message=_cut(found.message, MAX_TEXT),
    )


def _fault(fault: Fault, calls: tuple[Call, ...]) -> FaultReport:
    made = next((call for call in calls if call.index == fault.call), None)
    answered = as_text(made.value) if made is not None and made.succeeded else ""
    return FaultReport(
        kind=fault.kind,
        line=fault.line or 0,
        tool=fault.tool or "",
        message=_cut(fault.message, 2 * MAX_TEXT),
        answered=_cut(answered, MAX_TEXT),
    )


def _shown(call: Call) -> str:
    arguments = ", ".join(f"{name}={as_text(value)}" for name, value in call.arguments.items())
    return _cut(f"{call.tool}({arguments})", MAX_TEXT)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} …"
