"""Runs that went on from a failure, in words: what an answer does without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atc.result import Result


UNRESOLVED = "unresolved"
"""The case of a remark that is no failure, but a warning."""
_NO_FAILURES = frozenset({UNRESOLVED, "first_part", "no_calls", "tool_gone", "unsaid"})
"""The cases of remarks from which a program did not go on: they say what an answer rests on, or what it lacks."""


def remark(message: str, case: str = "") -> str:
    """A failure that a program caught, or what else is to be known of its answer.

    Args:
        message: the fault's own.
        case: the fault's own.
    """
    return message if case in _NO_FAILURES else f"{message}; the program went on without it"


def incomplete(status: str, fault: str | None, caught: Sequence[str]) -> str:
    """That the value of a run rests on a part of what it was to do.

    Args:
        status: of the run: ``denied``, ``in_doubt`` or ``answered``.
        fault: the message of its fault, where it has one.
        caught: those of its remarks: without a fault, the first is of a write.
    """
    what = fault or next(iter(caught), "a call with effects failed")
    left = "which may have been done" if status == "in_doubt" else "which was not done"
    return f"incomplete: {what}. The value rests on a run that went on without this call, {left}"


def incomplete_run(result: Result[Any]) -> str:
    """:func:`incomplete` of a result; empty where it is not partial."""
    if not result.partial:
        return ""
    fault = result.fault.message if result.fault is not None else None
    return incomplete(result.status, fault, [each.message for each in result.remarks])


def caveats(result: Result[Any]) -> list[str]:
    """What a reader of a value has to know: that it is incomplete, or may be, and the warnings that its run did not
    settle."""
    told = [each.message for each in result.remarks if each.case in _NO_FAILURES and each.case != "unsaid"]
    return [*filter(None, [incomplete_run(result)]), *told]
