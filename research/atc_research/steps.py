"""What strategies share that act step by step, each step by the model: what it is shown, and how they end."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from atc import Call, Effect, Ending, Fault, Revision, Run, Tool, Toolset
from atc.plugins.strategies import CallEntry, Cause, FaultCase, FaultKind, advised, fenced, is_down, to_json_value

MAX_STEPS = 10
"""Replies of the model that act, in one run."""
MAX_OBSERVATION = 2_000
"""Characters of what a step brought that the model is shown."""
ROUTED_ROUND: frozenset[Cause] = frozenset({"unreachable", "broken", "bad_response"})
"""Causes by which a read fails that another tool may make up for."""
NO_ACTION = "there was no Action with an Action Input"

_ACTION = re.compile(r"Action:\s*+`?+([\w.-]++)`?+\s++Action Input:\s*+(.*)", re.S)


@dataclass(frozen=True)
class Action:
    """One call as a reply of the model has it: ``Action: NAME``, and ``Action Input:`` with one JSON object.

    Attributes:
        tool: the name, as it is written.
        fault: why it cannot be made; ``None`` where it can.
        begin, end: where it stands in the reply.
    """

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    fault: Fault | None = None
    begin: int = 0
    end: int = 0

    @property
    def key(self) -> str:
        """Equal for actions that make the same call."""
        return json.dumps([self.tool, self.arguments], sort_keys=True)


def actions_of(reply: str, most: int = 1) -> list[Action]:
    """The first actions of a reply, at most so many."""
    found: list[Action] = []
    at = 0
    while len(found) < most and (match := _ACTION.search(reply, at)):
        found.append(_read_action(match))
        at = found[-1].end
    return found


def _read_action(match: re.Match[str]) -> Action:
    text = match[2].removeprefix("```json").lstrip()
    begin = match.start(2) + len(match[2]) - len(text)
    arguments: Any
    try:
        arguments, length = json.JSONDecoder(parse_constant=_no_json).raw_decode(text)
        arguments = to_json_value(arguments)
    except (ValueError, RecursionError) as error:
        problem = Fault(kind="program", reason=f"the Action Input is no JSON object: {error}")
        return Action(match[1], {}, problem, match.start(), begin)
    end = begin + length
    if not isinstance(arguments, dict):
        problem = Fault(kind="arguments", reason=f"{match[1]} takes its arguments as a JSON object")
        return Action(match[1], {}, problem, match.start(), end)
    return Action(match[1], arguments, None, match.start(), end)


def _no_json(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


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
    return fenced(cut(text, MAX_OBSERVATION))


def cut(text: str, limit: int) -> str:
    """The first ``limit`` characters of a text; of a longer one it is said how long it is."""
    return text if len(text) <= limit else f"{text[:limit]} … ({len(text)} characters)"


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


def checked_answer(run: Run, value: Any, written: str | None = None) -> tuple[Any, Fault | None]:
    """A value that a strategy would answer, and what is wrong with its type.

    Args:
        run: the run.
        value: JSON values and bytes.
        written: the text that it was read from: where a text is wanted, ``42`` is one.
    """
    misfit = run.misfit(value)
    if misfit is not None and written is not None and run.misfit(written.strip()) is None:
        return written.strip(), None
    return value, Fault(kind="answer", case=FaultCase.ANSWER_TYPE, misfit=misfit) if misfit is not None else None


def record_step(run: Run, text: str, fault: Fault | None = None) -> None:
    """Record a step: what the model wrote, and what was wrong with it."""
    attempt = len(run.revisions)
    if fault is not None:
        run.emit("fault", {"attempt": attempt, "fault": fault.model_dump()})
    run.record(Revision(attempt=attempt, program=text, fault=fault))


def fault_of_call(call: Call) -> Fault:
    """The fault of a call that did not succeed."""
    refused = call.status == "refused" and call.cause is None
    message = f"{call.tool}: {call.error}"
    kind: FaultKind = "arguments" if refused else "tool"
    fault = Fault(kind=kind, reason=message, tool=call.tool, call=call.index, cause=call.cause)
    return advised(fault, [call], {})


async def routed_round(run: Run, fault: Fault) -> tuple[Fault, str]:
    """A fault, after what can be done about a tool that broke, and what the model is told of that: nothing, or that it
    is down and what gives the same, with the documents of what it has not seen yet.
    """
    shown_before = run.tools

    async def offer(tools: Toolset) -> None:
        await run.offer(run.tools + tools)

    fault = await run.recovery.recovered(fault, offer)
    if not fault.substitutes:
        return fault, ""
    new = [tool for name, tool in run.tools.items() if name not in shown_before]
    return fault, "\n".join([fenced(is_down(fault.tool or "", fault.substitutes)), *tool_lines(new)])


def passed_by(call: Call, fault: Fault) -> bool:
    """Whether it is a read that failed by a cause that other tools may make up for, so that a run may go on."""
    return call.effect is Effect.READ and fault.cause in ROUTED_ROUND


def done_before(run: Run, call: Call) -> CallEntry | None:
    """The same write, done in an earlier stage, for which a call was refused; ``None`` for any other call."""
    if call.error_status != "already_done":
        return None
    return run.broker.journal.committed(run.broker.key_of(call))


def out_of_steps(run: Run, steps: int = MAX_STEPS) -> Ending:
    """The ending without an answer, or with one of another type.

    Args:
        run: the run.
        steps: how many there were at most.
    """
    last = run.revisions[-1].fault if run.revisions else None
    if last is not None and last.case is FaultCase.ANSWER_TYPE:
        return Ending("unsolved", fault=last)
    return Ending("unsolved", fault=Fault(kind="answer", reason=f"no answer in {steps} steps"))
