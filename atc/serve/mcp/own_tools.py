"""The tools that the server offers to clients: names, descriptions, schemas, and what each does with a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import mcp_types as types

from atc._host.blocking import in_thread
from atc.errors import RunInUse, UsageError
from atc.result import Effect, Result
from atc.run.apply import apply_plan
from atc.run.given import NAME as GIVEN
from atc.run.given import Facts
from atc.run.given_program import GivenRun
from atc.serve.mcp.asking import asker_of, carried, lapses, waits
from atc.serve.mcp.gateway import MAX_FOUND, MAX_NAMES
from atc.serve.mcp.keeping import KEEP, keep, keep_definition
from atc.serve.mcp.plan_form import NOTHING_MADE, NotApplied, asked_about, said_by
from atc.serve.mcp.probing import PROBE, probe, probe_definition
from atc.serve.mcp.reports import ProgramReport, one_line, report_of
from atc.serve.mcp.requests import Answer, Handler, ToolRequest, answer, told
from atc.serve.mcp.values import content_blocks
from atc.tools.tool import Tool, Toolset
from atc.traces.stores.base import StoredRun, new_run_id
from atc.wording.prompting import prompt

SEARCH, DOCS, RUN = "search_tools", "tool_docs", "run_program"
DOCS_BUDGET = 3_000
"""Tokens of documents that a client gets where it does not say."""
MAX_SOURCES = 8
"""Services that are named."""

TEXT: dict[str, Any] = {"type": "string"}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 1}
REPLY = TEXT | {"description": "to what the run asked"}
ANY: dict[str, Any] = {}


def search_tools(tools: Toolset) -> types.Tool:
    """The tool that finds tools."""
    found = {"type": "array", "items": object_of({"name": TEXT, "about": TEXT})}
    return types.Tool(
        name=SEARCH,
        description=prompt("mcp_search_tools", count=f"{len(tools):,}", sources=_services(tools)),
        input_schema=object_of({"query": TEXT, "limit": COUNT | {"default": 8}}, "query"),
        output_schema=object_of({"tools": found}),
        annotations=types.ToolAnnotations(read_only_hint=True),
    )


def tool_docs() -> types.Tool:
    """The tool that shows tools as typed functions."""
    return types.Tool(
        name=DOCS,
        description=prompt("mcp_tool_docs"),
        input_schema=object_of({"names": TEXTS, "budget": COUNT | {"default": DOCS_BUDGET}}, "names"),
        output_schema=object_of({"stubs": TEXT, "unknown": {"type": "object"}}),
        annotations=types.ToolAnnotations(read_only_hint=True),
    )


def run_program(stubs: str = "") -> types.Tool:
    """The tool that runs a program; ``stubs``: of all tools, where they are few."""
    properties = {
        "source": TEXT,
        "inputs": {"type": "object", "description": "values for variables of the program"},
        "run": {"type": "string", "description": "of a report: this program is its revision; alone: go on"},
        "dry_run": {"type": "boolean", "description": "plan calls with effects, make none"},
        "apply": {"type": "boolean"},  # the report of a dry run says what it is for
    }
    return _tool_that_runs(RUN, prompt("mcp_run_program", stubs=stubs), properties)


def _tool_that_runs(name: str, description: str, properties: dict[str, Any], *required: str) -> types.Tool:
    return types.Tool(
        name=name,
        description=description,
        input_schema=object_of(properties, *required),
        output_schema=_report_schema(),
        annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True),
    )


def _report_schema() -> dict[str, Any]:
    """The schema of a report: what is as usual is not in it, and nothing is required (:func:`.requests.answer`)."""
    many = {"type": "array", "items": {"type": "object"}}
    one = {"type": "object"}
    properties = {"status": TEXT, "run": TEXT, "advice": TEXT, "value": ANY, "preview": TEXT, "links": many}
    properties |= {"said": TEXT, "remark": TEXT, "fault": one, "findings": many, "printed": TEXT, "calls": many}
    properties |= {"partial": {"type": "boolean"}, "done": TEXTS, "in_doubt": TEXTS, "plan": one}
    return object_of(properties)


def object_of(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """The schema of an object with these members, of which some are required."""
    made: dict[str, Any] = {"type": "object", "properties": properties}
    return made | {"required": list(required)} if required else made


def sources_of(tools: Iterable[Tool]) -> list[tuple[str, int]]:
    """What people call the sources of tools, and how many tools each has, the largest first."""
    counted = Counter(one_line(tool.protocol.source.label, 30) for tool in tools)
    counted.pop("", None)
    return counted.most_common()


def _services(tools: Toolset) -> str:
    """The services behind tools, and how many tools each has: who reads it knows what there is to look for."""
    counted = sources_of(tool for tool in tools.values() if tool.protocol.source.remote)
    named = [f"{name} {count:,}" for name, count in counted[:MAX_SOURCES]]
    return ", ".join([*named, *(["…"] if len(counted) > MAX_SOURCES else [])])


# -- what they do ------------------------------------------------------------------------------------------------------

MAX_BUDGET = 50_000
"""Tokens of documents that one call may ask for."""
GOOD = ("answered", "planned", "waiting")
"""Statuses of a report that are no error."""


async def _search(request: ToolRequest) -> Answer:
    limit = request.count("limit", 8, MAX_FOUND)
    return answer({"tools": await request.gateway.search(request.client, request.text("query"), limit)})


async def _docs(request: ToolRequest) -> Answer:
    budget = request.count("budget", DOCS_BUDGET, MAX_BUDGET)
    stubs, unknown = await request.gateway.docs(request.client, request.texts("names", MAX_NAMES), budget)
    missing = [f"# no tool is named {name}" + f": perhaps {', '.join(n)}" * bool(n) for name, n in unknown.items()]
    value = {"stubs": stubs} | ({"unknown": unknown} if unknown else {})
    return answer(value, "\n\n".join([stubs, *missing]))


async def _run(request: ToolRequest) -> Answer:
    if request.switch("apply"):
        return await _apply(request)
    inputs = request.arguments.get("inputs")
    if not isinstance(inputs, dict | None):
        raise UsageError("`inputs` must be an object: values by the names of variables")
    source, run_id = request.arguments.get("source"), request.text("run", "")
    if source is not None or not run_id:  # with a run alone its program goes on
        source = request.text("source")
    async with told(request) as listener:
        report = await request.gateway.run_program(
            request.client,
            source,
            inputs=inputs,
            revises=run_id,
            dry_run=request.switch("dry_run"),
            asker=asker_of(request),
            parks=waits(request),
            lapsed=lapses(request),
            listener=listener,
        )
    return answer_of(request, report)


async def _apply(request: ToolRequest) -> Answer:
    gateway, client, run_id = request.gateway, request.client, request.text("run")
    if others := [name for name in ("source", "inputs", "dry_run") if request.arguments.get(name)]:
        raise UsageError(f"`apply` takes `run` alone, and not `{others[0]}`: nothing but the plan is made")
    await gateway.own(client, run_id)
    stored = gateway.store.run(run_id)
    try:
        planned = await asked_about(request, stored)
        agent = await gateway.agent(client, run_id, asker_of(request))
        with gateway.going(client, run_id):
            async with told(request) as listener:
                by = said_by(client.id.principal, client.id.name)
                seen = planned.digest
                result = await apply_plan(agent, stored, by=by, seen=seen, listener=listener)
    except RunInUse:  # its message names a place of this machine
        raise UsageError(f"another process works on run {run_id} now: try again when it has ended") from None
    except NotApplied as error:
        return answer_of(request, ProgramReport(status="denied", run=run_id, advice=NOTHING_MADE, remark=str(error)))
    return _answered(request, result, by=RUN)


def answer_of(request: ToolRequest, report: ProgramReport) -> types.CallToolResult:
    """A report as the answer to a call: as JSON, and beside it links to what is kept, images and sounds."""
    beside = content_blocks(report.links, request.gateway.values(request.client))
    return answer(report.brief(), beside=beside, is_error=report.status not in GOOD)


HANDLERS: dict[str, Handler] = {
    SEARCH: _search,
    DOCS: _docs,
    RUN: carried(_run),
}
"""By the name of the tool."""


# -- tools that are offered only if asked for (``--with``) -------------------------------------------------------------

RUN_TASK, RESUME = "run_task", "resume"


@dataclass(frozen=True)
class Extra:
    """A tool that is offered if asked for: how it is described, and what it does."""

    definition: Callable[[], types.Tool]
    handler: Handler


async def run_task(request: ToolRequest) -> Answer:
    """Have ATC's own model solve a task."""
    gateway, client, run_id = request.gateway, request.client, new_run_id()
    model, parks = gateway.resources.model(), waits(request) and RESUME in gateway.options.extras  # else it ends there
    agent = await gateway.agent(client, run_id, asker_of(request), parks=parks, model=model, find_tools=True)
    asked = agent._request(request.text("task"))
    with gateway.going(client, run_id):
        client.begin(run_id)
        async with told(request) as listener:
            asked = replace(asked, claim=partial(client.claim, run_id))
            result = await agent._begin(asked, listener=listener, run_id=run_id)
    return _answered(request, result)


async def resume(request: ToolRequest) -> Answer:
    """Go on with a run that was cut off, or that asked something."""
    gateway, client = request.gateway, request.client
    run_id = request.text("run", "") or await _latest(request)
    await gateway.own(client, run_id)
    stored = gateway.store.run(run_id)
    started = await in_thread(stored.first, "run_started") or {}
    if started.get("strategy") == GIVEN:
        async with told(request) as listener:
            report = await gateway.run_program(
                client,
                None,
                revises=run_id,
                dry_run=bool(started.get("dry_run")),
                asker=asker_of(request),
                parks=waits(request),
                listener=listener,
            )
        return answer_of(request, report)
    model = gateway.resources.model()
    agent = await gateway.agent(client, run_id, asker_of(request), parks=waits(request), model=model)
    reply = request.text("reply", "") or None
    with gateway.going(client, run_id):
        return _answered(request, await agent.aresume(run_id, reply=reply))


async def _latest(request: ToolRequest) -> str:
    store = request.gateway.store
    for run_id in sorted(request.client.runs, reverse=True):
        if await in_thread(_is_open, store.run(run_id)):
            return run_id
    raise UsageError("no run of yours was cut off: give `run`, or begin a new one")


def _is_open(stored: StoredRun) -> bool:
    if not stored.exists:
        return False
    ended = stored.last("run_ended")
    stopped = ended is not None and (ended.get("raised") or ended.get("status") in ("failed", "needs_input", "waiting"))
    return ended is None or bool(stopped)


def _answered(request: ToolRequest, result: Result[Any], by: str = RESUME) -> Answer:
    done = tuple(call for call in result.calls if call.effect is not Effect.READ and call.succeeded)
    last = max((call.attempt for call in result.calls), default=-1)
    given = GivenRun(result, facts=Facts(done=done, attempt=last))
    report = report_of(given, request.gateway.redactor, request.gateway.values(request.client), by=by)
    return answer_of(request, report.model_copy(update={"said": result.answer or result.question or ""}))


EXTRAS: dict[str, Extra] = {
    RUN_TASK: Extra(
        lambda: _tool_that_runs(RUN_TASK, prompt("mcp_run_task"), {"task": TEXT}, "task"), carried(run_task)
    ),
    RESUME: Extra(
        lambda: _tool_that_runs(RESUME, prompt("mcp_resume"), {"run": TEXT, "reply": REPLY}), carried(resume)
    ),
    PROBE: Extra(probe_definition, carried(probe)),
    KEEP: Extra(keep_definition, carried(keep)),
}
"""By the name of the tool."""

OWN_NAMES = frozenset([*HANDLERS, *EXTRAS])
"""Names that no tool behind the server is listed by."""


@cache
def arguments_of(name: str) -> tuple[str, ...]:
    """The arguments of one of the server's own tools."""
    extra = EXTRAS.get(name)
    made = [extra.definition()] if extra is not None else [search_tools(Toolset()), tool_docs(), run_program()]
    return next(tuple(each.input_schema["properties"]) for each in made if each.name == name)
