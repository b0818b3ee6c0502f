"""Tools that the server offers only if asked to (``--with``): a task for ATC's own model, and to go on with a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mcp_types as types

from atc.errors import UsageError
from atc.faces.mcp_server import probing
from atc.faces.mcp_server.asking import asker_of, carried
from atc.faces.mcp_server.definitions import TEXT, object_of, report_schema
from atc.faces.mcp_server.handlers import answer_of
from atc.faces.mcp_server.progress import told
from atc.faces.mcp_server.reports import report_of
from atc.faces.mcp_server.requests import Answer, Handler, ToolRequest
from atc.given_program import GivenRun
from atc.prompting import prompt
from atc.result import Effect, Result
from atc.strategies.given import NAME as GIVEN
from atc.strategies.given import Facts
from atc.traces.stores.base import StoredRun, new_run_id

RUN_TASK, RESUME, PROBE = "run_task", "resume", probing.PROBE


@dataclass(frozen=True)
class Extra:
    """A tool that is offered if asked for: how it is described, and what it does."""

    definition: Callable[[], types.Tool]
    handler: Handler


async def run_task(request: ToolRequest) -> Answer:
    """Have ATC's own model solve a task."""
    gateway, client, run_id = request.gateway, request.client, new_run_id()
    agent = gateway.agent(client, run_id, asker_of(request), model=gateway.held.model(), find_tools=True)
    asked = agent._request(request.text("task"))
    with gateway.going(client, run_id):
        client.begin(run_id)
        async with told(request) as listener:
            result = await agent._begin(asked, listener=listener, run_id=run_id)
    return _answered(request, result)


async def resume(request: ToolRequest) -> Answer:
    """Go on with a run that was cut off, or that asked something."""
    gateway, client = request.gateway, request.client
    run_id = request.text("run", "") or await _latest(request)
    await gateway.own(client, run_id)
    stored = gateway.store.run(run_id)
    started = await asyncio.to_thread(stored.first, "run_started") or {}
    if started.get("strategy") == GIVEN:
        source = (await asyncio.to_thread(stored.programs))[-1:]
        if not source:
            raise UsageError(f"run {run_id} was cut off before its program was there: send it with `run_program`")
        async with told(request) as listener:
            report = await gateway.run_program(
                client,
                source[0],
                revises=run_id,
                dry_run=bool(started.get("dry_run")),
                asker=asker_of(request),
                listener=listener,
            )
        return answer_of(request, report)
    agent = gateway.agent(client, run_id, asker_of(request), model=gateway.held.model())
    reply = request.text("reply", "") or None
    with gateway.going(client, run_id):
        return _answered(request, await agent.aresume(run_id, reply=reply))


async def _latest(request: ToolRequest) -> str:
    """The latest run of a client that did not come to its end.

    Raises:
        UsageError: there is none.
    """
    store = request.gateway.store
    for run_id in sorted(request.client.runs, reverse=True):
        if await asyncio.to_thread(_is_open, store.run(run_id)):
            return run_id
    raise UsageError("no run of yours was cut off: give `run`, or begin a new one")


def _is_open(stored: StoredRun) -> bool:
    if not stored.exists:
        return False
    ended = stored.last("run_ended")
    stopped = ended is not None and (ended.get("raised") or ended.get("status") in ("failed", "needs_input"))
    return ended is None or bool(stopped)


def _answered(request: ToolRequest, result: Result[Any]) -> Answer:
    done = tuple(call for call in result.calls if call.effect is not Effect.READ and call.succeeded)
    last = max((call.attempt for call in result.calls), default=-1)
    given = GivenRun(result, facts=Facts(done=done, attempt=last))
    report = report_of(given, request.gateway.redactor, request.gateway.values(request.client))
    return answer_of(request, report.model_copy(update={"said": result.answer or result.question or ""}))


def _run_task() -> types.Tool:
    return types.Tool(
        name=RUN_TASK,
        description=prompt("mcp_run_task"),
        input_schema=object_of({"task": TEXT}, "task"),
        output_schema=report_schema(),
        annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True),
    )


def _resume() -> types.Tool:
    about = {"type": "string", "description": "to what the run asked"}
    return types.Tool(
        name=RESUME,
        description=prompt("mcp_resume"),
        input_schema=object_of({"run": TEXT, "reply": about}),
        output_schema=report_schema(),
        annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True),
    )


EXTRAS: dict[str, Extra] = {
    RUN_TASK: Extra(_run_task, carried(run_task)),
    RESUME: Extra(_resume, carried(resume)),
    PROBE: Extra(probing.definition, carried(probing.probe)),
}
"""By the name of the tool."""
