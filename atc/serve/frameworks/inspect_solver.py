"""The solver that Inspect finds under the name ``atc/code_mode``. Inspect imports this module; nothing of ATC does, but
:func:`atc.to_inspect`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from inspect_ai.log import transcript
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.solver import solver
from inspect_ai.tool import ToolDef
from inspect_ai.util import registry_info, span

from atc._records.events import Event
from atc._records.packing import pack
from atc.agent import Agent
from atc.calls.approval import ApprovalRequest, Refusal
from atc.errors import UsageError
from atc.result import Result
from atc.serve.frameworks.inspect_sample import SampleCalls, SampleEnded, SampleModel, images_of, task_of
from atc.tools.adapters.inspect import import_inspect

if TYPE_CHECKING:
    from inspect_ai.solver import Generate, Solver, TaskState

_LOGGED = ("tools_chosen", "program_written", "findings", "program_ended", "fault", "run_ended")
"""Events that stand in Inspect's log. Model calls and tool calls are there as Inspect's own."""
_WAIT_S = 24 * 3600.0
"""Seconds of a call and of a program: the limits are Inspect's, and a person may have to approve."""


def _code_mode(
    effects: Mapping[str, Literal["read", "write"]] | None = None,
    untrusted: Sequence[str] | str = (),
    only: Sequence[str] | str | None = None,
    approve: Literal["inspect", "always"] = "inspect",
    sentence: bool = False,
    parse_text: bool = False,
    **settings: Any,
) -> Solver:
    if approve not in ("inspect", "always"):
        raise UsageError(f"approve takes 'inspect' or 'always', not {approve!r}")
    if kept := [name for name in ("model", "keep_runs", "learn", "strategy_given") if name in settings]:
        raise UsageError(f"{kept[0]} is Inspect's here: leave it out")
    own = {"call_timeout_s": _WAIT_S, "wall_s": _WAIT_S} | settings
    marked, kept_tools = _patterns(untrusted), None if only is None else _patterns(only)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        ended, log = SampleEnded(), transcript()
        model = SampleModel(get_model(), ended)
        calls = SampleCalls(state, model, ended)
        defs = [ToolDef(tool) for tool in state.tools]
        # Reading settings, schemas and documents takes a while, and other samples wait in the same loop.
        tools = await asyncio.to_thread(
            import_inspect, defs, calls, only=kept_tools, effects=effects, untrusted=marked, parse_text=parse_text
        )

        def logged(event: Event) -> None:
            if event.kind in _LOGGED:
                log.info({"event": event.kind, **json.loads(json.dumps(event.data, default=str))}, source="atc")

        def agent() -> Agent:
            return Agent(
                tools,
                model=model,
                approve=_yes if approve == "inspect" else _ordinary,
                on_event=logged,
                **{"sentence": sentence, **own, "keep_runs": False, "learn": False},
            )

        async with span(name="atc", type="agent"), await asyncio.to_thread(agent) as opened:
            images = images_of(state.messages)
            result = await _until(ended, opened.arun(task_of(state.messages), images=images))
        state.output = ModelOutput.from_content(model.name, _completion(result, sentence=sentence))
        state.output.metadata = {"atc": _summary(result)}  # not the sample's own, which is the task's
        state.messages.append(state.output.message)
        return state

    return solve


NAME = "atc/code_mode"
code_mode = solver(name=NAME.partition("/")[2])(_code_mode)
if registry_info(code_mode).name != NAME:  # Inspect finds no package of a checkout whose distribution has another name
    code_mode = solver(name=NAME)(_code_mode)


def _patterns(given: Sequence[str] | str) -> list[str]:
    """Return the patterns; on the command line they may be one text with commas."""
    return [each.strip() for each in given.split(",")] if isinstance(given, str) else list(given)


def _yes(_: ApprovalRequest) -> bool:
    """Allow a call: Inspect's own approval is asked where it is made."""
    return True


def _ordinary(request: ApprovalRequest) -> bool | Refusal:
    """Allow a call as ``approve="always"`` does where nobody can be asked: not one that a person should look at."""
    covered = request.is_ordinary
    return covered or Refusal("no approval of all calls covers this one, and no one is available to approve it")


async def _until(ended: SampleEnded, run: Any) -> Result[Any]:
    """The run is a task of its own: a cancel scope of Inspect would cancel the cleaning up of a task within it, too."""
    task: asyncio.Task[Result[Any]] = asyncio.ensure_future(run)
    either: list[asyncio.Future[Any]] = [task, ended]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.shield(asyncio.wait([task]))
    if ended.done():
        if not task.cancelled():
            task.exception()  # of no interest beside the other
        ended.result()
    return task.result()


def _summary(result: Result[Any]) -> dict[str, Any]:
    return {
        "status": result.status,
        "fault": result.fault.message if result.fault is not None else None,
        "programs": len(result.revisions),
        "usage": result.usage.model_dump(mode="json"),
        "isolation": result.isolation,
    }


def _completion(result: Result[Any], *, sentence: bool) -> str:
    """Return the answer as scorers read it: the value, or a sentence about it. Where there is none, the text is empty:
    words about a failure could hold what a scorer looks for."""
    if result.status != "answered":
        return ""
    value = pack(result.json_value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return (result.answer.strip() or text) if sentence else text
