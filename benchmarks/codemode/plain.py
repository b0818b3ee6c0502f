"""An ordinary MCP server over a toolset: a definition for each tool, one call at a time.

What a client has without code mode, and what stands behind it. ``python -m benchmarks.codemode.plain --made 100``
serves made tools over pipes; ``--env atlas`` and ``--env comptoolbench --data DIR`` those of an environment, in a world
of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import anyio
import mcp_types as types
import typer
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from atc.errors import ToolError
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.tools.tool import Toolset
from benchmarks.environments.base import served


def definition(protocol: Protocol, *, typed: bool = True) -> types.Tool:
    """A tool as an ordinary server lists it.

    Args:
        typed: with the schema of its response, where it has one.
    """
    returns = protocol.returns if typed and (protocol.returns or {}).get("type") == "object" else None
    return types.Tool(
        name=protocol.name,
        description=protocol.description,
        input_schema=protocol.parameters,
        output_schema=returns,
        annotations=types.ToolAnnotations(read_only_hint=protocol.effect is Effect.READ),
    )


def plain_server(tools: Toolset, *, typed: bool = True) -> Server[Any]:
    """A server with one tool for each tool.

    Args:
        tools: each with a transport. Who serves them opens them.
        typed: with output schemas, where there are some.
    """
    listed = [definition(tool.protocol, typed=typed) for tool in tools.values()]
    declared = {tool.name for tool in listed if tool.output_schema is not None}

    async def list_tools(context: ServerRequestContext[Any], params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = tools.get(params.name)
        if tool is None or tool.transport is None:
            return _text(f"there is no tool {params.name!r}", is_error=True)
        try:
            value = await tool.transport(params.arguments or {})
        except ToolError as error:
            return _text(error.message, is_error=True)
        structured = value if params.name in declared and isinstance(value, dict) else None
        return _text(json.dumps(value, ensure_ascii=False), structured)

    return Server("plain", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


def _text(text: str, structured: dict[str, Any] | None = None, *, is_error: bool = False) -> types.CallToolResult:
    block = types.TextContent(type="text", text=text)
    return types.CallToolResult(content=[block], structured_content=structured, is_error=is_error)


def made_tools(count: int, first: int = 0) -> Toolset:
    """Tools that answer at once, each of another name."""

    def protocol(number: int) -> Protocol:
        noun, verb = _NOUNS[number % len(_NOUNS)], _VERBS[number // len(_NOUNS) % len(_VERBS)]
        properties: Mapping[str, Any] = {
            f"{noun}_id": {"type": "integer", "description": f"Number of the {noun}."},
            "depth": {"type": "integer", "description": "How many levels to follow.", "default": 1},
        }
        return Protocol(
            name=f"{verb}_{noun}_{number}",
            description=f"{verb.capitalize()} the {noun} of department {number}, with all that belongs to it.",
            parameters={"type": "object", "properties": dict(properties), "required": [f"{noun}_id"]},
            effect=Effect.READ,
        )

    def answer(arguments: dict[str, Any]) -> Any:
        return {"total": sum(value for value in arguments.values() if isinstance(value, int))}

    return Toolset(served(protocol(number), answer) for number in range(first, first + count))


_NOUNS = (
    "invoice parcel customer harbour meter sensor ticket contract shift recipe garden vessel lesson patient".split()
)
_VERBS = "read list count compare rank audit trace price weigh schedule".split()


def main(
    made: Annotated[int, typer.Option(help="So many made tools.")] = 0,
    first: Annotated[int, typer.Option(help="Number of the first of them.")] = 0,
    env: Annotated[str, typer.Option(help="The tools of an environment: atlas, comptoolbench.")] = "",
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="The data directory.")] = None,
    github: Annotated[Path | None, typer.Option(help="GitHub's OpenAPI document, answered by its examples.")] = None,
) -> None:
    """Serve tools over pipes, one definition each."""
    from benchmarks.codemode.github import github_world
    from benchmarks.codemode.tasks import world_of

    if made:
        tools = made_tools(made, first)
    elif github is not None:
        tools = github_world(github)
    else:
        tools = world_of(env, data)

    async def serve() -> None:
        server = plain_server(tools)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(serve)


if __name__ == "__main__":
    typer.run(main)
