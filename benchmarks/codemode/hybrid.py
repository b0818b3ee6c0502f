"""Direct calls, programs, and both: the same tasks by the same model, as an MCP client gives it the tools.

    python -m benchmarks.codemode.hybrid run --condition hybrid --task lookup --model NAME --out rows.jsonl
    python -m benchmarks.codemode.hybrid table rows.jsonl

``direct``: the server's own tools. ``code``: ``atc mcp`` in front of it. ``hybrid``: ``atc mcp --direct auto``. The
endpoint is that of ``OPENAI_BASE_URL``. The loop is that of any client: the tools and the instructions that the server
gives, the task, and calls until a reply is a text. Questions about writes are answered with yes, and counted.

Tokens are characters by four, of all that the model is given in all turns together, tools and instructions with it. A
row holds no text of the model's and none of a tool's.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import mcp_types as types
import openai
import typer
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from atc.cli.console import err, guarded
from atc.errors import UsageError
from benchmarks.codemode.hybrid_tasks import Json, Task, tasks
from benchmarks.common import ROOT, AsJson, listed, print_json

CONDITIONS = ("direct", "code", "hybrid")
SYSTEM = "You solve the user's task with the tools that you are given. Give the answer when you know it."
MOST_TURNS = 25
"""Replies of one try."""


@dataclass
class Row:
    """One try.

    Attributes:
        right: the answer is the one that is right, and exactly what had to be written was.
        ended: ``answered``, ``turns`` (too many), ``limit`` (no replies are left) or ``endpoint``.
        turns: replies of the model.
        first_tokens: of the first request: instructions, tools and task.
        prompt_tokens, completion_tokens: of all requests, and of all replies.
        client_calls: calls of tools that the model made itself, by name.
        tool_calls: calls that reached the shop's server.
        errors: of the calls of the model, those that were answered with an error.
        asked: questions about writes.
    """

    task: str
    condition: str
    model: str
    right: bool = False
    ended: str = ""
    turns: int = 0
    first_tokens: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    client_calls: dict[str, int] = field(default_factory=dict)
    tool_calls: int = 0
    errors: int = 0
    asked: int = 0


@dataclass
class Replies:
    """The replies that are left for all tries together."""

    left: int


# -- the client --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def connected(
    condition: str, folder: Path, *, many: bool, direct: Sequence[str], row: Row
) -> AsyncIterator[Client]:
    """A client of the server of one condition, whose user says yes."""
    shop = ["-m", "benchmarks.codemode.hybrid_server", str(folder / "calls.jsonl"), *(["--many"] if many else [])]
    command, environment = [sys.executable, *shop], {**os.environ, "PYTHONPATH": str(ROOT)}
    if condition != "direct":
        server = {"command": sys.executable, "args": shop, "env": {"PYTHONPATH": str(ROOT)}}
        (folder / "servers.json").write_text(json.dumps({"mcpServers": {"shop": server}}))
        chosen = [word for name in direct for word in ("--direct", name)] if condition == "hybrid" else []
        command = [sys.executable, "-m", "atc", "mcp", "--tools", str(folder / "servers.json"), *chosen]
        own = {name: str(folder / name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")}
        kept = {"ATC_RUNS_DIR": str(folder / "runs"), "ATC_CATALOGUE": str(folder / "catalogue")}
        plain = {name: value for name, value in environment.items() if not name.startswith("ATC_")}
        environment = {**plain, **own, **kept}

    async def yes(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        row.asked += 1
        asked = params.requested_schema if isinstance(params, types.ElicitRequestFormParams) else {}
        ticked: Any = dict.fromkeys(asked.get("required", ()), True)
        return types.ElicitResult(action="accept", content=ticked)

    parameters = StdioServerParameters(command=command[0], args=command[1:], env=environment, cwd=str(folder))
    with (folder / "log.txt").open("w") as log:
        async with Client(stdio_client(parameters, errlog=log), elicitation_callback=yes, cache=None) as client:
            yield client


def _function(tool: types.Tool) -> Json:
    about = {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema}
    return {"type": "function", "function": about}


def _text(result: types.CallToolResult) -> str:
    parts = []
    for block in result.content:
        if isinstance(block, types.TextContent):
            parts.append(block.text)
        elif isinstance(block, types.ResourceLink):
            parts.append(f"[resource {block.uri}]")
        else:
            parts.append(f"[{block.type}]")
    return "\n".join(parts)


def _tokens(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False)) // 4


# -- one try -----------------------------------------------------------------------------------------------------------


async def attempt(
    task: Task, condition: str, model: str, replies: Replies, *, direct: Sequence[str] = ("auto",)
) -> Row:
    """Try a task.

    Args:
        task: what is asked.
        condition: one of :data:`CONDITIONS`.
        model: its name at the endpoint of ``OPENAI_BASE_URL``.
        replies: that are left.
        direct: what ``--direct`` is given in the condition ``hybrid``.
    """
    row = Row(task.id, condition, model)
    with tempfile.TemporaryDirectory(prefix="atc-hybrid-") as place:
        folder = Path(place)
        async with connected(condition, folder, many=task.many, direct=direct, row=row) as client:
            answer = await _talk(client, task, row, replies)
        made = [json.loads(line) for line in _lines(folder / "calls.jsonl")]
    row.tool_calls = len(made)
    written = [each["write"] for each in made if each["write"] is not None]
    as_asked = sorted(written, key=json.dumps) == sorted(task.writes, key=json.dumps)
    row.right = row.ended == "answered" and as_asked and answer_in(answer) == task.answer
    return row


async def _talk(client: Client, task: Task, row: Row, replies: Replies) -> str:
    tools = [_function(tool) for tool in (await client.list_tools()).tools]
    system = "\n\n".join(filter(None, [SYSTEM, client.instructions or ""]))
    messages: list[Any] = [{"role": "system", "content": system}, {"role": "user", "content": task.text}]
    calls = Counter[str]()
    async with openai.AsyncOpenAI(max_retries=0, timeout=7_200) as endpoint:
        while True:
            if row.turns >= MOST_TURNS or replies.left <= 0:
                row.ended = "turns" if row.turns >= MOST_TURNS else "limit"
                return ""
            row.prompt_tokens += _tokens(messages) + _tokens(tools)
            row.first_tokens = row.first_tokens or row.prompt_tokens
            replies.left -= 1
            try:
                said = await endpoint.chat.completions.create(model=row.model, messages=messages, tools=tools)  # type: ignore[arg-type]
            except openai.OpenAIError as error:
                err.print(f"the endpoint failed: {type(error).__name__}", markup=False)
                row.ended = "endpoint"
                return ""
            row.turns += 1
            message = said.choices[0].message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})
            row.completion_tokens += _tokens({key: part for key, part in message.items() if key != "role"})
            messages.append(message)
            if not message.get("tool_calls"):
                row.ended = "answered"
                return str(message.get("content") or "")
            for call in message["tool_calls"]:
                name = call["function"]["name"]
                calls[name] += 1
                row.client_calls = dict(sorted(calls.items()))
                messages.append(
                    {"role": "tool", "tool_call_id": call["id"], "content": await _called(client, call, row)}
                )


async def _called(client: Client, call: Json, row: Row) -> str:
    try:
        arguments = json.loads(call["function"]["arguments"] or "{}")
        result = await client.call_tool(call["function"]["name"], arguments)
    except Exception as error:  # whatever a client's library raises of a bad call, its model reads
        row.errors += 1
        return f"error: {error}"[:2_000]
    row.errors += bool(result.is_error)
    return _text(result)


def answer_in(text: str) -> Any:
    """The JSON of an answer, which may stand in a fence or behind some words; ``None`` where there is none."""
    for start in (at for at, sign in enumerate(text) if sign == "{"):
        try:
            value, _ = json.JSONDecoder().raw_decode(text[start:])
        except ValueError:
            continue
        return value
    return None


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


# -- rows and the table ------------------------------------------------------------------------------------------------


def read_rows(file: Path) -> list[Row]:
    """The rows of a file, the latest of each try."""
    rows = [Row(**json.loads(line)) for line in _lines(file)]
    return [*{(each.task, each.condition, each.model): each for each in rows}.values()]


def table_of(rows: Iterable[Row]) -> list[Json]:
    """A line for each task, and one for all: of each condition right answers, turns and tokens."""
    rows = list(rows)
    lines = []
    for task in [*tasks(), "all"]:
        mine = [each for each in rows if task in (each.task, "all")]
        if not mine:
            continue
        line: Json = {"task": task}
        for condition in CONDITIONS:
            some = [each for each in mine if each.condition == condition]
            if not some:
                continue
            line[condition] = {
                "tries": len(some),
                "right": sum(each.right for each in some),
                "turns": sum(each.turns for each in some),
                "first_tokens": sum(each.first_tokens for each in some),
                "prompt_tokens": sum(each.prompt_tokens for each in some),
                "completion_tokens": sum(each.completion_tokens for each in some),
                "tool_calls": sum(each.tool_calls for each in some),
            }
        lines.append(line)
    return lines


def markdown_of(rows: Iterable[Row]) -> str:
    """The table as Markdown: of each condition right answers, turns, and tokens read and written."""
    head = ["task", *(f"{way}: {what}" for way in CONDITIONS for what in ("right", "turns", "tokens"))]
    lines = [head, ["---"] * len(head)]
    for line in table_of(rows):
        lines.append([line["task"], *(cell for way in CONDITIONS for cell in _cells(line.get(way)))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(figures: Json | None) -> list[str]:
    if figures is None:
        return ["–"] * 3
    tokens = figures["prompt_tokens"] + figures["completion_tokens"]
    return [f"{figures['right']} of {figures['tries']}", str(figures["turns"]), f"{tokens:,}"]


app = typer.Typer(help=__doc__, no_args_is_help=True)


@app.command()
@guarded
def run(
    out: Annotated[Path, typer.Option(help="File of rows; tries that stand there are not made again.")],
    model: Annotated[str, typer.Option(help="The model's name at the endpoint.")],
    condition: Annotated[str, typer.Option(help=f"Some of {', '.join(CONDITIONS)}.")] = ",".join(CONDITIONS),
    task: Annotated[str, typer.Option(help=f"Some of {', '.join(tasks())}.")] = ",".join(tasks()),
    direct: Annotated[str, typer.Option(help="What --direct is given in the condition hybrid.")] = "auto",
    limit: Annotated[int, typer.Option(min=1, help="Replies of the model, of all tries together.")] = 150,
) -> None:
    """Try tasks, and write a row for each try as it ends."""
    if not os.environ.get("OPENAI_BASE_URL"):
        raise UsageError("no endpoint is named: set OPENAI_BASE_URL, such as http://127.0.0.1:8911/v1")
    os.environ.setdefault("OPENAI_API_KEY", "none")
    known, replies = tasks(), Replies(limit)
    done = {(each.task, each.condition, each.model) for each in read_rows(out) if each.ended in ("answered", "turns")}
    for name in listed(task, known, "task"):
        for way in listed(condition, CONDITIONS, "condition"):
            if (name, way, model) in done:
                continue
            if replies.left <= 0:
                raise UsageError(f"{limit} replies are used up: go on with another --limit")
            row = asyncio.run(attempt(known[name], way, model, replies, direct=direct.split(",")))
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(row)) + "\n")
            tokens = row.prompt_tokens + row.completion_tokens
            right = "right" if row.right else "wrong"
            err.print(f"{name}, {way}: {right}, {row.ended}, {row.turns} turns, {tokens:,} tokens", markup=False)


@app.command()
@guarded
def table(
    rows: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="File of rows.")], as_json: AsJson = False
) -> None:
    """Show right answers, turns and tokens of each condition, by task."""
    found = read_rows(rows)
    if as_json:
        print_json({"tasks": table_of(found)})
        return
    print(markdown_of(found))


if __name__ == "__main__":
    app()
