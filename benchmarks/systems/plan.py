"""Plan, then execute: one JSON plan whose steps refer to earlier ones, run without the model; a small baseline.

The kind that HuggingGPT, ReWOO and LLMCompiler are of. A step that fails is told and planned anew, three times at most.
"""

from __future__ import annotations

import json
import re
from typing import Any

from atc.errors import ModelError, ModelUnavailable, ToolError
from atc.models.base import Message
from benchmarks.systems.base import ANSWER_FORM, Answer, Job, System
from benchmarks.systems.common import as_json, ask, called, digest, prompt, read_value, shown

PLANS = 4
_REFERENCE = re.compile(r"\$(\d+)((?:\.\w+|\[\d+\])*)")
_PART = re.compile(r"\.(\w+)|\[(\d+)\]")


class PlanThenExecute(System):
    name, about = "plan", "one JSON plan, then its calls, then the answer (our own baseline)"

    async def version(self) -> str:
        return digest("plan")

    async def solve(self, job: Job) -> Answer:
        episode, model = job.session.episode, job.opened_model()
        tools = [as_json(tool.protocol) for tool in episode.tools.values()]
        failed, said = "", ""
        for number in range(1, PLANS + 1):
            try:
                text = prompt("plan", tools=tools, failed=failed, task=job.text)
                said = await ask(model, [Message("user", text)])
                results = await self._execute(job, _steps(said))
                ending = prompt("conclude", task=job.text, results=results, form=ANSWER_FORM)
                answer = await ask(model, [Message("user", ending)])
                return Answer("answered", read_value(answer), program=said, programs=number, crashes=number - 1)
            except (ToolError, ValueError, LookupError, TypeError) as error:
                failed = f"{shown(said)}\n{type(error).__name__}: {error}"
            except (ModelError, ModelUnavailable) as error:
                return Answer("unsolved", error=str(error), program=said, programs=number, crashes=number - 1)
        return Answer("unsolved", error=failed[-500:], program=said, programs=PLANS, crashes=PLANS)

    async def _execute(self, job: Job, steps: list[dict[str, Any]]) -> list[str]:
        """Make the calls; a line about each.

        Raises:
            ToolError, LookupError, TypeError, ValueError: a step failed; the message says which.
        """
        values: list[Any] = []
        lines = []
        for number, step in enumerate(steps, 1):
            arguments = _resolved(step.get("args") or {}, values)
            try:
                values.append(await called(job.session.episode, str(step.get("tool")), arguments))
            except ToolError as error:
                raise ToolError(f"step {number}, {step.get('tool')}: {error.message}") from None
            lines.append(f"{step['tool']}({json.dumps(arguments, ensure_ascii=False)}) returned {shown(values[-1])}")
        return lines


def _steps(said: str) -> list[dict[str, Any]]:
    """Raises ValueError: there is no plan in the reply."""
    start = said.find("[")
    if start < 0:
        raise ValueError("the reply holds no JSON list of steps")
    steps, _ = json.JSONDecoder().raw_decode(said[start:])
    if not steps or not all(isinstance(step, dict) for step in steps):
        raise ValueError("the plan is no list of steps")
    return list(steps)


def _resolved(value: Any, values: list[Any]) -> Any:
    """The value with its references replaced: whole, or as text inside of a longer text.

    Raises:
        LookupError, TypeError: it refers to what is not there.
    """
    if isinstance(value, dict):
        return {key: _resolved(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolved(item, values) for item in value]
    if not isinstance(value, str):
        return value
    if whole := _REFERENCE.fullmatch(value):
        return _looked_up(whole, values)
    return _REFERENCE.sub(lambda match: str(_looked_up(match, values)), value)


def _looked_up(reference: re.Match[str], values: list[Any]) -> Any:
    number = int(reference[1])
    if not 1 <= number <= len(values):
        raise LookupError(f"{reference[0]} refers to step {number}, which has not run")
    value = values[number - 1]
    for key, index in _PART.findall(reference[2]):
        try:
            value = value[key] if key else value[int(index)]
        except (LookupError, TypeError):
            raise LookupError(f"{reference[0]}: there is no {key or index} in {shown(value)[:200]}") from None
    return value
