"""ReAct (Yao et al. 2023), a baseline of ATC §5: thought, one call as JSON, observation, and again."""

from __future__ import annotations

import re

from atc import Ending, Fault, Message, Run, Strategy
from atc.plugins.strategies import ending_of
from atc_research.prompting import prompt
from atc_research.steps import (
    MAX_STEPS,
    NO_ACTION,
    Action,
    actions_of,
    checked_answer,
    fault_of_call,
    out_of_steps,
    read_value,
    record_step,
    routed_round,
    shown,
    tool_lines,
)

_FINAL = re.compile(r"Final Answer:\s*+(.*)", re.S)
_NO_ACTION = f"{NO_ACTION}, and no Final Answer: write one of them"


class ReAct(Strategy):
    """One call of a tool for each reply of the model, at most :data:`~atc_research.steps.MAX_STEPS` replies.

    Every call that succeeds is a stage by itself: a read is made anew each time, and a write that was done is refused.
    """

    name = "react"

    async def solve(self, run: Run) -> Ending:
        system = prompt("react", tools=tool_lines(run.tools.values()))
        task = f"{run.preamble.calls}Task: {run.task_with_type('The final answer, as JSON,')}"
        messages = [Message("system", system), run.task_message(task)]
        for _ in range(MAX_STEPS):
            reply = (await run.ask("step", messages, stop=("\nObservation:",))).text
            action, final = next(iter(actions_of(reply)), None), _FINAL.search(reply)
            if final and not (action and action.begin < final.start()):
                value, fault = checked_answer(run, read_value(final[1]), final[1])
                record_step(run, reply, fault)
                if fault is None:
                    return Ending("answered", value)
                observation = shown(fault.message)
            else:
                reply, observation, fault = await _acted(run, reply, action)
                record_step(run, reply, fault)
            if fault is not None and (ending := ending_of(fault)):
                return ending
            messages += [Message("assistant", reply), Message("user", f"Observation: {observation}")]
        return out_of_steps(run)


async def _acted(run: Run, reply: str, action: Action | None) -> tuple[str, str, Fault | None]:
    """The reply up to its end (what a model goes on to say unseen is dropped), what is observed, the fault."""
    if action is None:
        return reply, _NO_ACTION, Fault(kind="program", reason=_NO_ACTION)
    if action.fault is not None:
        kept = reply if action.fault.kind == "program" else reply[: action.end]
        return kept, action.fault.reason, action.fault
    reply = reply[: action.end]
    call = await run.call(action.tool, action.arguments)
    if call.succeeded:
        return reply, shown(call.observation), None
    fault, instead = await routed_round(run, fault_of_call(call))
    return reply, "\n".join(filter(None, (f"error: {shown(call.error)}", instead))), fault
