"""The tools that the server offers to clients: names, descriptions, schemas."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import mcp_types as types

from atc.faces.mcp_server.texts import one_line
from atc.prompting import prompt
from atc.tools.tool import Toolset

SEARCH, DOCS, RUN = "search_tools", "tool_docs", "run_program"
DOCS_BUDGET = 3_000
"""Tokens of documents that a client gets where it does not say."""
MAX_SOURCES = 8
"""Sources of tools that are named."""

TEXT: dict[str, Any] = {"type": "string"}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 1}
ANY: dict[str, Any] = {}


def search_tools(tools: Toolset) -> types.Tool:
    """The tool that finds tools."""
    found = {"type": "array", "items": object_of({"name": TEXT, "about": TEXT})}
    return types.Tool(
        name=SEARCH,
        description=prompt("mcp_search_tools", count=f"{len(tools):,}", sources=_sources(tools)),
        input_schema=object_of({"query": TEXT, "limit": COUNT | {"default": 8}}, "query"),
        output_schema=object_of({"tools": found}, "tools"),
        annotations=types.ToolAnnotations(read_only_hint=True),
    )


def tool_docs() -> types.Tool:
    """The tool that shows tools as typed functions."""
    return types.Tool(
        name=DOCS,
        description=prompt("mcp_tool_docs"),
        input_schema=object_of({"names": TEXTS, "budget": COUNT | {"default": DOCS_BUDGET}}, "names"),
        output_schema=object_of({"stubs": TEXT, "unknown": {"type": "object"}}, "stubs"),
        annotations=types.ToolAnnotations(read_only_hint=True),
    )


def run_program(stubs: str = "") -> types.Tool:
    """The tool that runs a program; ``stubs``: of all tools, where they are few."""
    properties = {
        "source": TEXT,
        "inputs": {"type": "object", "description": "values for variables of the program"},
        "run": {"type": "string", "description": "of a report: this program is its revision"},
        "dry_run": {"type": "boolean", "description": "plan calls with effects, make none"},
    }
    return types.Tool(
        name=RUN,
        description=prompt("mcp_run_program", stubs=stubs),
        input_schema=object_of(properties, "source"),
        output_schema=report_schema(),
        annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True),
    )


def report_schema() -> dict[str, Any]:
    """Of a report: what is as usual is not in it."""
    many = {"type": "array", "items": {"type": "object"}}
    one = {"type": "object"}
    properties = {"status": TEXT, "run": TEXT, "advice": TEXT, "value": ANY, "preview": TEXT, "links": many}
    properties |= {"said": TEXT, "remark": TEXT, "fault": one, "findings": many, "printed": TEXT, "calls": many}
    properties |= {"partial": {"type": "boolean"}, "done": TEXTS, "in_doubt": TEXTS, "plan": one}
    return {"type": "object", "properties": properties, "required": ["status", "run"]}


def object_of(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """The schema of an object with these members, of which some are required."""
    made: dict[str, Any] = {"type": "object", "properties": properties}
    return made | {"required": list(required)} if required else made


def _sources(tools: Toolset) -> str:
    """Where tools come from, and how many from each: who reads it knows what there is to look for."""
    places = (tool.protocol.source.location for tool in tools.values() if tool.protocol.source.remote)
    counted = Counter(one_line(place.rstrip("/").rpartition("/")[2], 30) for place in places)
    counted.pop("", None)
    named = [f"{name} {count:,}" for name, count in counted.most_common(MAX_SOURCES)]
    return ", ".join([*named, *(["…"] if len(counted) > MAX_SOURCES else [])])


@cache
def arguments_of(name: str) -> tuple[str, ...]:
    """The arguments of a tool that is always there."""
    made = (search_tools(Toolset()), tool_docs(), run_program())
    return next(tuple(each.input_schema["properties"]) for each in made if each.name == name)
