"""What permissions say, in words. The facts are :class:`atc.permissions.facts.Decision`; nothing reads these back."""

from __future__ import annotations

from atc import wording
from atc.calls.approval import ApprovalRequest
from atc.calls.responses import MAX_ERROR
from atc.permissions.facts import Decision
from atc.permissions.permissions import Permissions

_FILE = "the permissions file"


def refusal(decision: Decision, permissions: Permissions) -> str:
    """Why a call is refused, and what would allow it."""
    where = permissions.path or _FILE
    match decision.why:
        case "read_only":
            return "this is read-only mode: no call with effects is made" + (
                f" (`read_only` in {where})" if permissions.path else ""
            )
        case "grant":
            return f"this tool is not granted to this client{to_allow(decision, permissions)}"
        case _ if decision.rule is not None:
            rule = f"rule {decision.rule.number} of {where}"
            return f"{rule} denies it{_too_much(decision)}: no other rule allows what one denies"
    return f"it is not allowed{to_allow(decision, permissions)}"


def to_allow(decision: Decision, permissions: Permissions) -> str:
    """What would allow a call unasked, to stand behind a refusal; empty where nothing would."""
    if decision.verdict == "ask" and decision.rule is not None:
        return f" (rule {decision.rule.number} of {permissions.path or _FILE} wants a question{_too_much(decision)})"
    if not decision.line:
        return ""
    where = permissions.path or "a permissions file (`--set permissions=FILE`)"
    return f"; the user can allow it with this in {where}:\n{decision.line}"


def _too_much(decision: Decision) -> str:
    """Why a rule may count a call that it does not seem to speak of."""
    return ", for its arguments are more than the rules can judge" if decision.unjudged else ""


def oddity(request: ApprovalRequest) -> str:
    """Why a call wants a person though a rule allows such calls."""
    if request.is_repeat:
        return f"{wording.repeat(request.repeats, request.in_doubt, request.same_as)} before"
    if request.instead_of:
        return f"it takes the place of {', '.join(request.instead_of)}"
    return f"it depends on what the check warned about: {'; '.join(request.warnings)[:MAX_ERROR]}"


def decided_by(decision: Decision) -> str:
    """What decided, in one word or two, for the audit."""
    return f"rule {decision.rule.number}" if decision.rule is not None else decision.why
