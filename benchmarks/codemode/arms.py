"""Ways of an MCP client to do a task, with a scripted model: what they put into its context, and in how many turns.

The script always asks for the right thing. So the figures are the machinery's, and say nothing of what a model solves.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp.server import Server, ServerRequestContext

from atc._records.packing import unpack
from atc.serve.mcp.client import ClientId
from atc.serve.mcp.gateway import Gateway
from benchmarks.codemode.desk import Context, Desk, Said, as_shown
from benchmarks.codemode.tasks import CodeTask, layers

Json = dict[str, Any]
FOUND = 8
"""Tools that a search may name, for every arm."""


@dataclass(frozen=True)
class Tally:
    """What one task took over one way.

    Attributes:
        definitions: tokens of the tools that the client shows.
        trips: turns with calls.
        context: tokens at the end.
        billed: tokens that the model read in all turns together.
        written: tokens that it wrote.
        right: whether the program's answer was right; ``None`` where the model itself would answer.
        failed: calls that ended in an error.
        missed: tools that the first search did not name.
    """

    task: str
    definitions: int
    trips: int
    context: int
    billed: int
    written: int
    right: bool | None = None
    failed: int = 0
    missed: int = 0
    error: str = ""


class Scripted:
    """A model that asks for the right things, at one desk."""

    def __init__(self, desk: Desk, task: CodeTask, count: Callable[[str], int]) -> None:
        self.desk, self.task = desk, task
        self.context = Context(count, [as_shown(tool) for tool in desk.tools.values()], task.text)
        self.failed, self.missed, self.error = 0, 0, ""

    async def ask(self, *requests: tuple[str, Json]) -> list[Said]:
        """One turn, with one call or several."""
        answers = [await self.desk.call(name, arguments) for name, arguments in requests]
        self.context.turn(requests, [answer.text for answer in answers])
        for answer in answers:
            if answer.is_error:
                self.failed, self.error = self.failed + 1, self.error or answer.text[:300]
        return answers

    def tally(self, value: Any = None, *, judged: bool = False) -> Tally:
        """The end."""
        context, right = self.context, None
        context.close()
        if judged and self.task.right is not None:
            right = not self.failed and _safely(self.task.right, value)
        return Tally(
            self.task.id, context.base, context.trips, context.size, context.billed, context.written,
            right, self.failed, self.missed, self.error,
        )  # fmt: skip


def _safely(right: Callable[[Any], bool], value: Any) -> bool:
    try:
        return right(value)
    except (TypeError, ValueError, AttributeError, KeyError):
        return False


# Plain MCP ------------------------------------------------------------------------------------------------------------


async def plain(script: Scripted, groups: Sequence[Sequence[int]]) -> tuple[Tally, list[Any]]:
    """Every definition in context, and a turn for each group of calls.

    Returns:
        The tally, and what each call answered with.
    """
    values: list[Any] = [None] * len(script.task.calls)
    for group in groups:
        said = await script.ask(*(script.task.calls[at] for at in group))
        for at, answer in zip(group, said, strict=True):
            values[at] = value_of(answer)
    return script.tally(), values


def value_of(answer: Said) -> Any:
    """What an answer says, as JSON where it is some."""
    if answer.structured is not None:
        return answer.structured
    try:
        return json.loads(answer.text)
    except ValueError:
        return answer.text


# A search and an `execute` without types: a stand-in for servers of that kind ----------------------------------------

SEARCH_ONLY = "Find tools by what they do. Answers with their names, descriptions and input schemas."
EXECUTE_ONLY = (
    "Run a Python program that calls tools as functions with keyword arguments. The value of `answer` comes back."
)


def untyped_server(gateway: Gateway) -> Server[Any]:
    """``search`` answers with input schemas, ``execute`` with the value of a program. It shares our machinery."""
    text: Json = {"type": "string"}

    def tool(name: str, about: str, argument: str) -> types.Tool:
        schema = {"type": "object", "properties": {argument: text}, "required": [argument]}
        return types.Tool(name=name, description=about, input_schema=schema)

    async def list_tools(context: ServerRequestContext[Any], params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[tool("search", SEARCH_ONLY, "query"), tool("execute", EXECUTE_ONLY, "source")]
        )

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        client, given = gateway.client(ClientId("local", "untyped")), params.arguments or {}
        if params.name == "search":
            found = await gateway.search(client, given["query"], FOUND)
            protocols = [gateway.tools[each["name"]].protocol for each in found]
            shown = [{"name": p.name, "description": p.description, "input_schema": p.parameters} for p in protocols]
            return _answered(shown)
        report = await gateway.run_program(client, given["source"], asker=lambda request: True)
        if report.status != "answered":
            return _answered(report.fault.message if report.fault else [each.message for each in report.findings], True)
        return _answered(unpack(report.value))

    return Server("untyped", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


def _answered(value: Any, is_error: bool = False) -> types.CallToolResult:
    block = types.TextContent(type="text", text=json.dumps(value, ensure_ascii=False))
    return types.CallToolResult(content=[block], is_error=is_error)


async def untyped(script: Scripted, groups: Sequence[Sequence[int]]) -> Tally:
    """Search, then a program for each layer: what an answer looks like is seen in whole answers alone."""
    await _find(script, "search", lambda said: {each["name"] for each in json.loads(said.text)}, limit=False)
    for group in groups:
        await script.ask(("execute", {"source": f"answer = {_listed(script.task, group)}"}))
    return script.tally()


# Ours -----------------------------------------------------------------------------------------------------------------


async def ours(script: Scripted, groups: Sequence[Sequence[int]] | None) -> Tally:
    """``atc mcp``: search and documents where ``run_program`` does not hold them, then programs.

    Args:
        groups: a program for each, with whole answers: shapes are not known. ``None``: the one whole program.
    """
    task, run = script.task, ""
    if "search_tools" in script.desk.tools:
        await _find(script, "search_tools", lambda said: {each["name"] for each in (said.structured or {})["tools"]})
        await script.ask(("tool_docs", {"names": task.tools}))
    if groups is None:
        [said] = await script.ask(("run_program", {"source": task.program}))
        return script.tally(unpack((said.structured or {}).get("value")), judged=True)
    for group in groups:
        [said] = await script.ask(("run_program", {"source": f"answer = {_listed(task, group)}", **run_of(run)}))
    return script.tally()


def run_of(run: str) -> Json:
    """The argument that makes a program a revision."""
    return {"run": run} if run else {}


# FastMCP's code mode --------------------------------------------------------------------------------------------------


async def fastmcp(script: Scripted, groups: Sequence[Sequence[int]] | None) -> Tally:
    """``search``, ``get_schema`` and ``execute`` of FastMCP, as they are by default."""
    task = script.task
    await _find(script, "search", lambda said: set(re.findall(r"^- (\w+)", said.text, re.MULTILINE)))
    await script.ask(("get_schema", {"tools": task.tools}))
    if groups is None:
        [said] = await script.ask(("execute", {"code": awaited(task.program, set(task.tools))}))
        return script.tally(_result(said), judged=True)
    for group in groups:
        calls = (f"await call_tool({name!r}, {arguments!r})" for name, arguments in (task.calls[at] for at in group))
        await script.ask(("execute", {"code": f"return [{', '.join(calls)}]"}))
    return script.tally()


def _result(said: Said) -> Any:
    found = said.structured
    if isinstance(found, dict) and set(found) == {"result"}:
        return found["result"]
    return value_of(Said(said.text)) if found is None else found


PARSED = """import json
def parsed(value):
    return json.loads(value) if isinstance(value, str) and value[:1] in '[{' else value
"""


def awaited(program: str, tools: set[str]) -> str:
    """Our form of a program as FastMCP wants it: ``await call_tool(name, {…})``, and ``return`` for the answer.

    A tool that declares no output schema answers with text there: it is parsed.
    """

    class Rewrite(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            if not (isinstance(node.func, ast.Name) and node.func.id in tools):
                return node
            keys: list[ast.expr | None] = [ast.Constant(word.arg) for word in node.keywords]
            given = ast.Dict(keys, [word.value for word in node.keywords])
            called = ast.Await(ast.Call(ast.Name("call_tool"), [ast.Constant(node.func.id), given], []))
            return ast.Call(ast.Name("parsed"), [called], [])

    tree = ast.fix_missing_locations(Rewrite().visit(ast.parse(program)))
    return f"{PARSED}{ast.unparse(tree)}\nreturn answer"


# Shared ---------------------------------------------------------------------------------------------------------------


async def _find(script: Scripted, name: str, names: Callable[[Said], set[str]], *, limit: bool = True) -> None:
    """Search with the task's own text, then for each tool that was not named, with the words of its name."""
    more: Json = {"limit": FOUND} if limit else {}
    [said] = await script.ask((name, {"query": script.task.text, **more}))
    known = names(said)
    for tool in script.task.tools:
        if tool not in known:
            script.missed += 1
            [said] = await script.ask((name, {"query": tool.replace("_", " "), **more}))
            known |= names(said)


def _listed(task: CodeTask, group: Sequence[int]) -> str:
    calls = []
    for at in group:
        name, arguments = task.calls[at]
        calls.append(f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})")
    return f"[{', '.join(calls)}]"


def one_by_one(task: CodeTask) -> list[list[int]]:
    """A turn for each call."""
    return [[at] for at in range(len(task.calls))]


def at_once(task: CodeTask, answers: Sequence[Any]) -> list[list[int]]:
    """A turn for all calls that wait for nothing else."""
    return layers(task.calls, answers, task.text)
