"""What strategies share that act step by step, each step by the model: what it is shown, and how they end."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from typing import Any

from atc import wording
from atc.calls.json_values import to_json_value
from atc.facts import Fault
from atc.prompting import fenced
from atc.result import Call, Revision
from atc.strategies.base import Ending
from atc.strategies.context import RunContext
from atc.strategies.endings import STATUS, advised
from atc.tools.tool import Tool, Toolset

MAX_STEPS = 10
"""Replies of the model that act, in one run."""
MAX_OBSERVATION = 2_000
"""Characters of what a step brought that the model is shown."""


def tool_lines(tools: Iterable[Tool]) -> list[str]:
    """The tools as JSON documents, one line each."""
    lines = []
    for tool in tools:
        protocol = tool.protocol
        document = {"name": protocol.name, "description": protocol.description, "parameters": protocol.parameters}
        document |= {"returns": protocol.returns} if protocol.returns else {}
        lines.append(fenced(json.dumps(document, ensure_ascii=False)))
    return lines


def shown(value: Any) -> str:
    """A value as the model is shown it: data, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    cut = text if len(text) <= MAX_OBSERVATION else f"{text[:MAX_OBSERVATION]} … ({len(text)} characters)"
    return fenced(cut)


def read_value(text: str) -> Any:
    """The value that an answer in words holds: JSON, Python's way of writing it, or the text itself.

    What has no JSON form (``...``, ``{1, 2}``, ``NaN``) stays a text.
    """
    text = text.strip().removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    for read in (json.loads, ast.literal_eval):
        try:
            return to_json_value(read(text))
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
    return text


def checked_answer(context: RunContext, value: Any, written: str | None = None) -> tuple[Any, Fault | None]:
    """A value that a strategy would answer, and what is wrong with its type.

    Args:
        context: the run.
        value: JSON values and bytes.
        written: the text that it was read from: where a text is wanted, ``42`` is one.
    """
    misfit = context.misfit(value)
    if misfit is not None and written is not None and context.misfit(written.strip()) is None:
        return written.strip(), None
    return value, Fault(kind="answer", case="answer_type", misfit=misfit) if misfit is not None else None


def record_step(context: RunContext, text: str, fault: Fault | None = None) -> None:
    """Record a step: what the model wrote, and what was wrong with it."""
    attempt = len(context.revisions)
    if fault is not None:
        context.emit("fault", {"attempt": attempt, "fault": fault.model_dump()})
    context.record(Revision(attempt=attempt, program=text, fault=fault))


def fault_of_call(call: Call) -> Fault:
    """The fault of a call that did not succeed."""
    refused = call.status == "refused" and call.cause is None
    message = f"{call.tool}: {call.error}"
    return advised(
        Fault(
            kind="arguments" if refused else "tool", reason=message, tool=call.tool, call=call.index, cause=call.cause
        )
    )


async def routed_round(context: RunContext, fault: Fault) -> tuple[Fault, str]:
    """A fault, after what can be done about a tool that broke, and what the model is told of that: nothing, or that it
    is down and what gives the same, with the documents of what it has not seen yet.
    """
    shown_before = context.tools

    async def offer(tools: Toolset) -> None:
        await context.offer(context.tools + tools)

    fault = await context.recovery.recovered(fault, offer)
    if not fault.substitutes:
        return fault, ""
    new = [tool for name, tool in context.tools.items() if name not in shown_before]
    return fault, "\n".join([fenced(wording.is_down(fault.tool or "", fault.substitutes)), *tool_lines(new)])


def ending_of(fault: Fault) -> Ending | None:
    """The ending by a fault that nothing the model writes can help; ``None`` where it can."""
    return Ending(STATUS[fault.cause], fault=fault) if fault.cause is not None and not fault.substitutes else None


def out_of_steps(context: RunContext) -> Ending:
    """The ending without an answer, or with one of another type."""
    last = context.revisions[-1].fault if context.revisions else None
    if last is not None and last.case == "answer_type":
        return Ending("unsolved", fault=last)
    return Ending("unsolved", fault=Fault(kind="answer", reason=f"no answer in {MAX_STEPS} steps"))
