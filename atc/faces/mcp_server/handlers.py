"""The server's own tools: what each does with a call. A new one is a function here or in a module of its own."""

from __future__ import annotations

from atc.errors import UsageError
from atc.faces.mcp_server import definitions
from atc.faces.mcp_server.asking import asker_of, carried
from atc.faces.mcp_server.gateway import MAX_FOUND, MAX_NAMES
from atc.faces.mcp_server.requests import Answer, Handler, ToolRequest, answer

MAX_BUDGET = 50_000
"""Tokens of documents that one call may ask for."""


async def search_tools(request: ToolRequest) -> Answer:
    """Names of likely tools, with a line each."""
    limit = request.count("limit", 8, MAX_FOUND)
    found = await request.gateway.search(request.client, request.text("query"), limit)
    return answer({"tools": [{"name": each.name, "about": each.about} for each in found]})


async def tool_docs(request: ToolRequest) -> Answer:
    """Tools as typed Python functions."""
    budget = request.count("budget", definitions.DOCS_BUDGET, MAX_BUDGET)
    stubs = await request.gateway.docs(request.client, request.texts("names", MAX_NAMES), budget)
    return answer({"stubs": stubs}, stubs)


async def run_program(request: ToolRequest) -> Answer:
    """Check a program, run it, attribute its failure."""
    inputs = request.arguments.get("inputs") or {}
    if not isinstance(inputs, dict):
        raise UsageError("`inputs` must be an object: values by the names of variables")
    report = await request.gateway.run_program(
        request.client, request.text("source"), inputs=inputs, revises=request.text("run", ""), asker=asker_of(request)
    )
    made = report.model_dump(mode="json", exclude_defaults=True)
    return answer({"value": None, **made}, is_error=report.status != "answered")


HANDLERS: dict[str, Handler] = {
    definitions.SEARCH: search_tools,
    definitions.DOCS: tool_docs,
    definitions.RUN: carried(run_program),
}
"""By the name of the tool."""
