"""The server's own tools: what each does with a call. A new one is a function here or in a module of its own."""

from __future__ import annotations

from atc.errors import UsageError
from atc.faces.mcp_server import definitions
from atc.faces.mcp_server.asking import asker_of, carried
from atc.faces.mcp_server.gateway import MAX_FOUND, MAX_NAMES
from atc.faces.mcp_server.progress import told
from atc.faces.mcp_server.reports import ProgramReport
from atc.faces.mcp_server.requests import Answer, Handler, ToolRequest, answer
from atc.faces.mcp_server.resources import blocks

MAX_BUDGET = 50_000
"""Tokens of documents that one call may ask for."""
GOOD = ("answered", "planned")
"""Statuses of a report that are no error."""


async def search_tools(request: ToolRequest) -> Answer:
    """Names of likely tools, with a line each."""
    limit = request.count("limit", 8, MAX_FOUND)
    found = await request.gateway.search(request.client, request.text("query"), limit)
    return answer({"tools": [{"name": each.name, "about": each.about} for each in found]})


async def tool_docs(request: ToolRequest) -> Answer:
    """Tools as typed Python functions."""
    budget = request.count("budget", definitions.DOCS_BUDGET, MAX_BUDGET)
    found = await request.gateway.docs(request.client, request.texts("names", MAX_NAMES), budget)
    unknown = {name: list(near) for name, near in found.unknown.items()}
    missing = [f"# no tool is named {name}" + f": perhaps {', '.join(n)}" * bool(n) for name, n in unknown.items()]
    value = {"stubs": found.stubs} | ({"unknown": unknown} if unknown else {})
    return answer(value, "\n\n".join([found.stubs, *missing]))


async def run_program(request: ToolRequest) -> Answer:
    """Check a program, run it, attribute its failure."""
    inputs = request.arguments.get("inputs")
    if not isinstance(inputs, dict | None):
        raise UsageError("`inputs` must be an object: values by the names of variables")
    async with told(request) as listener:
        report = await request.gateway.run_program(
            request.client,
            request.text("source"),
            inputs=inputs,
            revises=request.text("run", ""),
            dry_run=request.switch("dry_run"),
            asker=asker_of(request),
            listener=listener,
        )
    return answer_of(request, report)


def answer_of(request: ToolRequest, report: ProgramReport) -> Answer:
    """A report as the answer to a call: as JSON, and beside it links to what is kept, images and sounds."""
    beside = blocks(report, request.gateway.values(request.client))
    return answer(report.brief(), beside=beside, is_error=report.status not in GOOD)


HANDLERS: dict[str, Handler] = {
    definitions.SEARCH: search_tools,
    definitions.DOCS: tool_docs,
    definitions.RUN: carried(run_program),
}
"""By the name of the tool."""
