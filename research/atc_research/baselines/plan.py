"""Plan, then execute: one JSON plan whose steps refer to earlier ones, run without the model; then the answer.

The kind that HuggingGPT, ReWOO and LLMCompiler are of. A plan that fails is shown with what went wrong, and the next
one is made from the beginning: what it has in common with the one before is answered from the journal.
"""

from __future__ import annotations

import json
import re
from typing import Any

from atc import Call, Ending, Fault, Run, Strategy
from atc.plugins.strategies import ending_of, fenced, to_json_value
from atc_research.prompting import prompt
from atc_research.steps import (
    checked_answer,
    fault_of_call,
    read_value,
    record_step,
    routed_round,
    shown,
    tool_lines,
)

_REFERENCE = re.compile(r"\$(\d+)((?:\.\w+|\[\d+\])*)")
_PART = re.compile(r"\.(\w+)|\[(\d+)\]")
_ANSWER_FORM = "Give as your final answer only the value that is asked for: a number, a text or a list."

_TYPED_FORM = "Give as your final answer only the value that is asked for."


class PlanFault(Exception):
    """A plan cannot be run, or failed."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Plan(Strategy):
    """A plan, its calls, and a reply that says the answer; as many plans more as there are revisions."""

    name = "plan"

    async def solve(self, run: Run) -> Ending:
        tools, failed = tool_lines(run.tools.values()), ""
        fault = Fault(kind="answer", reason="no plan was made")
        for _ in range(run.settings.max_revisions + 1):
            text = prompt("plan", tools=tools, failed=failed, preamble=run.preamble.calls, task=run.task)
            reply = (await run.ask("plan", [run.task_message(text)])).text
            try:
                results = await _execute(run, _steps(reply))
            except PlanFault as problem:
                fault, instead = await routed_round(run, problem.fault)
                record_step(run, reply, fault)
                if ending := ending_of(fault):
                    return ending
                failed = "\n".join(filter(None, (shown(reply), shown(fault.message), instead)))
                continue
            record_step(run, reply)
            task = run.task_with_type("The answer")
            typed = run.answer_type is not None
            text = prompt(
                "conclude",
                preamble=run.preamble.calls,
                task=task,
                results=results,
                form=_TYPED_FORM if typed else _ANSWER_FORM,
                typed=typed,
            )
            answer = (await run.ask("conclude", [run.task_message(text)])).text
            value, misfit = checked_answer(run, read_value(answer), answer)
            if misfit is None:
                return Ending("answered", value)
            fault = misfit
            record_step(run, answer, fault)
            failed = f"{shown(reply)}\n{shown(fault.message)}"
        return Ending("unsolved", fault=fault)


async def _execute(run: Run, steps: list[dict[str, Any]]) -> list[str]:
    """Raises PlanFault: a step failed, or refers to what is not there."""
    made: list[Call] = []
    lines = []
    with run.attempt():
        for number, step in enumerate(steps, 1):
            tool, arguments = str(step.get("tool")), _resolved(step.get("args") or {}, made)
            if not isinstance(arguments, dict):
                raise PlanFault(Fault(kind="arguments", reason=f"step {number}: args of {tool} is no JSON object"))
            call = await run.call(tool, arguments)
            if not call.succeeded:
                fault = fault_of_call(call)
                raise PlanFault(fault.model_copy(update={"reason": f"step {number}, {fault.reason}"}))
            made.append(call)
            given, observation = json.dumps(arguments, ensure_ascii=False), shown(call.observation)
            lines.append(fenced(f"{tool}({given}) returned {observation}"))
    return lines


def _steps(reply: str) -> list[dict[str, Any]]:
    """Raises PlanFault where there is no plan."""
    start = reply.find("[")
    if start < 0:
        raise PlanFault(Fault(kind="program", reason="the reply holds no JSON list of steps"))
    try:
        steps, _ = json.JSONDecoder().raw_decode(reply[start:])
        steps = to_json_value(steps)
    except (ValueError, RecursionError) as error:
        raise PlanFault(Fault(kind="program", reason=f"the plan is no JSON: {error}")) from None
    if not steps or not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise PlanFault(Fault(kind="program", reason="the plan is no list of steps"))
    return steps


def _resolved(value: Any, made: list[Call]) -> Any:
    """Whole, or as text inside of a longer text. Raises PlanFault where it refers to what is not there."""
    if isinstance(value, dict):
        return {key: _resolved(item, made) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolved(item, made) for item in value]
    if not isinstance(value, str):
        return value
    if whole := _REFERENCE.fullmatch(value):
        return _referred(whole, made)
    return _REFERENCE.sub(lambda match: str(_referred(match, made)), value)


def _referred(reference: re.Match[str], made: list[Call]) -> Any:
    """What a reference stands for. Raises PlanFault, as :func:`_resolved`."""
    number = int(reference[1][:9])
    if not 1 <= number <= len(made):
        message = f"{reference[0]} refers to step {number}, which has not run"
        raise PlanFault(Fault(kind="program", reason=message))
    if (problem := made[number - 1].error) is not None:
        raise PlanFault(Fault(kind="response", reason=f"{reference[0]}: {problem}"))
    value = made[number - 1].value
    for key, index in _PART.findall(reference[2]):
        try:
            value = value[key] if key else value[int(index)]
        except (LookupError, TypeError, ValueError):
            message = f"{reference[0]}: there is no {key or index} in {shown(value)[:200]}"
            raise PlanFault(Fault(kind="program", reason=message)) from None
    return value
