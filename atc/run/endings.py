"""Failures that no other program can help: how a run ends with each, and what its user can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from atc._records.outcome import Outcome, ProgramError
from atc._records.records import FaultCase
from atc.errors import Cause
from atc.facts import Fault, Finding
from atc.result import Call, RefusedBy, RunStatus
from atc.run.base import Ending
from atc.tools.tool import Tool

if TYPE_CHECKING:
    from atc.calls.permissions.guard import Guard

STATUS: dict[Cause, RunStatus] = {
    "denied": "denied",
    "credential": "missing",
    "unreachable": "missing",
    "broken": "tool_broken",
    "bad_response": "tool_broken",
    "in_doubt": "in_doubt",
}
_DENIED: dict[RefusedBy, str] = {
    "user": "The answer to the question about this call was no, which holds for this run: a new run asks again.",
    "rule": "This call was not done. If it should be allowed, change the rule.",
    "nobody": "This call was not done. Approve it (approve=, --approve).",
}
_OWN = "This call was not done. Approve it (approve=, --approve), or declare a function that only reads as " + (
    "@atc.tool(effect='read')."
)
_NOT_PLANNED = (
    "This call is not the next one of the plan, so it was not made, and what is done stays done: plan the task "
    + ("again (--dry-run), or undo what was done (`atc runs undo`).")
)
_ALONE = (
    "This call was not done. No yes to all calls covers it: a person may approve it (at a terminal, on a page, or "
    "while the run waits), or {}."
)
_A_SESSION = "`--openapi allow_session_writes` names the recorded login for writes"
_A_RULE = "a rule of the permissions file that lists where its arguments came from"
_AFTER = '`after_untrusted = "allow"` of the permissions file, which opens every write of such programs'
_ENDED = " The program ended there: what it would have done after that was not tried."
_ADVICE: dict[Cause, str] = {
    "credential": "Give the service a credential that it accepts, then run again.",
    "unreachable": "See that the service runs at this address, then run again.",
    "broken": "Its arguments were valid, and no others would help: repair the tool, then run again.",
    "bad_response": "No arguments help against a response that is no JSON: repair the tool, then run again.",
    "in_doubt": "It may have been done, and is not repeated: check it by hand, or by a read (`atc runs settle`).",
}


def advised(fault: Fault, calls: Iterable[Call], tools: Mapping[str, Tool], error: ProgramError | None = None) -> Fault:
    """The fault, with what its user can do as its hint where no other program helps.

    Args:
        calls: of the run: who refused a call says what can be done about it.
        tools: of the run, by name: only a function of the user's own can be declared anew.
        error: that ended the program, if one did. After a no, what was next to do may be named nowhere.
    """
    if fault.cause is None:
        return fault
    if fault.difference is not None:
        return fault.model_copy(update={"hint": _NOT_PLANNED, "origins": ()})
    if fault.cause == "denied":
        refused = next((call for call in calls if call.index == fault.call), None)
        by = None if refused is None else refused.refused_by
        tool = tools.get(fault.tool or "")
        is_own = tool is not None and tool.protocol.source.kind == "function"
        hint = _OWN if is_own and by not in ("user", "rule") else _DENIED[by or "nobody"]
        flow = None if refused is None else refused.data_flow
        if by == "nobody" and flow is not None and flow.is_of_strangers:
            ways = [way for way, is_so in ((_AFTER, flow.author_saw), (_A_RULE, flow.untrusted)) if is_so]
            hint = _ALONE.format(" with ".join(ways))
        elif by == "nobody" and flow is not None and flow.is_of_session:
            hint = _ALONE.format(_A_SESSION)
        if by in ("user", "rule") and error is not None and error.call == fault.call:
            hint += _ENDED
        return fault.model_copy(update={"hint": hint, "origins": ()})  # where arguments came from explains no refusal
    return fault.model_copy(update={"hint": _ADVICE[fault.cause]})


def with_settling_read(ending: Ending, policy: Guard | None, tools: Mapping[str, Tool]) -> Ending:
    """Name the read that settles the call in doubt with which a run ended, where the permissions have one."""
    fault = ending.fault
    if ending.status != "in_doubt" or fault is None or policy is None or (tool := tools.get(fault.tool or "")) is None:
        return ending
    if not (read := policy.settling_read(tool.protocol)):
        return ending
    hint = (
        f"It may have been done, and is not repeated: `{read}` says so (`atc runs settle`, or the next `atc resume`)."
    )
    return replace(ending, fault=fault.model_copy(update={"hint": hint}))


def ending_of(fault: Fault) -> Ending | None:
    """The ending by a fault that nothing the model writes can help; ``None`` where it can."""
    return Ending(STATUS[fault.cause], fault=fault) if fault.cause is not None and not fault.substitutes else None


def refused_by_check(findings: Sequence[Finding]) -> Fault:
    """The fault of a program that the check kept from running: its first finding."""
    first = findings[0]
    return Fault(kind="program", case=FaultCase.FINDINGS, finding=first, line=first.line, tool=first.tool)


def ended_by(cause: Cause, fault: Fault, outcome: Outcome) -> Ending:
    """The ending of a run by the failure of its program, which no other program helps.

    A program that caught the refusal of a write and set an answer has no answer to give; what it set is kept.
    """
    status = STATUS[cause]
    if outcome.answered and status in ("denied", "in_doubt"):
        return Ending(status, outcome.value, fault, partial=True)
    return Ending(status, fault=fault)
