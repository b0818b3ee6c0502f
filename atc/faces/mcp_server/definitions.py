"""The tools that the server offers to clients: names, descriptions, schemas."""

from __future__ import annotations

from typing import Any

import mcp_types as types

from atc.prompting import prompt

SEARCH, DOCS, RUN = "search_tools", "tool_docs", "run_program"
DOCS_BUDGET = 3_000
"""Tokens of documents that a client gets where it does not say."""

_TEXT: dict[str, Any] = {"type": "string"}


def search_tools(count: int) -> types.Tool:
    """The tool that finds tools."""
    return types.Tool(
        name=SEARCH,
        description=prompt("mcp_search_tools", count=count),
        input_schema=_object({"query": _TEXT, "limit": {"type": "integer", "default": 8}}, "query"),
        output_schema=_object({"tools": {"type": "array", "items": _object({"name": _TEXT, "about": _TEXT})}}),
        annotations=types.ToolAnnotations(read_only_hint=True),
    )


def tool_docs() -> types.Tool:
    """The tool that shows tools as typed functions."""
    names = {"type": "array", "items": _TEXT}
    return types.Tool(
        name=DOCS,
        description=prompt("mcp_tool_docs"),
        input_schema=_object({"names": names, "budget": {"type": "integer", "default": DOCS_BUDGET}}, "names"),
        output_schema=_object({"stubs": _TEXT}, "stubs"),
        annotations=types.ToolAnnotations(read_only_hint=True),
    )


def run_program(stubs: str = "") -> types.Tool:
    """The tool that runs a program; ``stubs``: of all tools, where they are few."""
    properties = {
        "source": _TEXT,
        "inputs": {"type": "object", "description": "values for variables of the program"},
        "run": {"type": "string", "description": "of an earlier report: this program is its revision"},
    }
    calls = {"tool": _TEXT, "line": {"type": "integer"}, "status": _TEXT, "error": _TEXT}
    texts = {"type": "array", "items": _TEXT}
    output = {
        "status": _TEXT,
        "run": _TEXT,
        "value": {},
        "printed": _TEXT,
        "calls": {"type": "array", "items": _object(calls)},
        "findings": {"type": "array", "items": {"type": "object"}},
        "fault": {"type": ["object", "null"]},
        "done": texts,
        "in_doubt": texts,
    }
    return types.Tool(
        name=RUN,
        description=prompt("mcp_run_program", stubs=stubs),
        input_schema=_object(properties, "source"),
        output_schema=_object(output, "status", "run"),
        annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True),
    )


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties}
    return made | {"required": list(required)} if required else made
