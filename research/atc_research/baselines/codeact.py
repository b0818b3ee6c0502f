"""CodeAct (Wang et al. 2024), a baseline of ATC §5: code, what it printed, more code; variables stay.

Every step is a program in a jail of its own, which first runs the code of the steps before, in silence. The journal
answers the calls that these made, so nothing is done twice and all variables are there again: whatever Python can hold
survives, but for what a step took from a clock or at random.
"""

from __future__ import annotations

from collections.abc import Sequence

from atc import Ending, Fault, Message, Outcome, Run, Strategy
from atc.plugins.strategies import ending_of, extract, render_stub
from atc_research.prompting import prompt
from atc_research.steps import (
    MAX_STEPS,
    checked_answer,
    fault_of_call,
    out_of_steps,
    read_value,
    record_step,
    routed_round,
    shown,
)

FINAL = "final_answer"
_NO_CODE = "There was no ```python block. Write one."
_SESSION = f"""\
import contextlib as _contextlib, io as _io
def {FINAL}(value):
    global answer
    answer = value
    raise SystemExit
({{tools}})  # the steps before may call them: the record answers what it answered then
for _step in {{steps!r}}:
    with _contextlib.redirect_stdout(_io.StringIO()), _contextlib.suppress(Exception, SystemExit):
        exec(compile(_step, "<an earlier step>", "exec"), globals())
globals().pop("answer", None)
"""


class CodeAct(Strategy):
    """One piece of code for each reply of the model, at most :data:`~atc_research.steps.MAX_STEPS` replies.

    As in the paper, a reply without code is a message to the user: after a step it is the answer.
    """

    name = "codeact"

    async def solve(self, run: Run) -> Ending:
        stubs = "\n\n\n".join(render_stub(tool.protocol) for tool in run.tools.values())
        task = f"{run.preamble.programs}Task: {run.task_with_type('The final answer')}"
        messages = [Message("system", prompt("codeact", stubs=stubs)), run.task_message(task)]
        steps: list[str] = []
        for _ in range(MAX_STEPS):
            reply = (await run.ask("step", messages)).text
            messages.append(Message("assistant", reply))
            code = extract(reply, [*run.tools, FINAL]).source
            if not code and steps:
                value, fault = checked_answer(run, read_value(reply), reply)
                if fault is None:
                    return Ending("answered", value)
                record_step(run, reply, fault)
                messages.append(Message("user", shown(fault.message)))
                continue
            if not code:
                record_step(run, reply, Fault(kind="program", reason=_NO_CODE))
                messages.append(Message("user", _NO_CODE))
                continue
            tools = "".join(f"{name}, " for name in run.tools)
            outcome = await run.execute(_SESSION.format(steps=steps, tools=tools) + code)
            answered = outcome.kind == "finished" and outcome.answered
            fault = checked_answer(run, outcome.value)[1] if answered else _fault_of(run, outcome)
            instead = ""
            if fault is not None:
                fault, instead = await routed_round(run, fault)
            record_step(run, code, fault)
            if answered and fault is None:
                return Ending("answered", outcome.value)
            if fault is not None and (ending := ending_of(fault)):
                return ending
            steps.append(code)
            messages.append(
                Message(
                    "user", f"It printed:\n{_printed(outcome, fault) or '(nothing)'}" + f"\n{instead}" * bool(instead)
                )
            )
        return out_of_steps(run)


def _printed(outcome: Outcome, fault: Fault | None) -> str:
    parts: Sequence[str] = (outcome.stdout.rstrip("\n"), fault.message if fault is not None else "")
    return shown("\n".join(part for part in parts if part))


def _fault_of(run: Run, outcome: Outcome) -> Fault | None:
    if outcome.kind == "finished":
        return None
    error, last = outcome.error, run.last_calls[-1:]
    if error is None:
        return Fault(kind="limit" if outcome.kind == "limit" else "sandbox", reason=outcome.detail)
    message = f"{error.type}: {error.message}"
    if error.type == "ToolError" and last and not last[0].succeeded:
        return fault_of_call(last[0]).model_copy(update={"reason": message})
    return Fault(kind="program", reason=message)
