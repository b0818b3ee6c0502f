"""An MCP client whose model is the one under test: over plain MCP, or over ``atc mcp``.

The model is shown the tools as clients show them, as JSON, and says what it calls. Over plain MCP its reply is held to
a schema. Over ``atc mcp`` a program may stand in a fenced block: small models write a program badly inside JSON. The
client gives the id of the last run along while that has no answer, so that a program after it is its revision. A user
says yes to whatever is asked.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import jinja2

from atc.errors import ModelError
from atc.faces.mcp_server.client import ClientId
from atc.faces.mcp_server.gateway import Gateway
from atc.faces.mcp_server.server import Face
from atc.models.base import Message, Model
from atc.result import Effect
from atc.settings import Settings
from atc.tools.tool import Tool, Toolset
from benchmarks.codemode_desk import Desk, Said, as_shown, opened
from benchmarks.codemode_plain import plain_server
from benchmarks.systems.atc import sources_digest
from benchmarks.systems.base import Answer, Job, System

Types = Literal["documented", "none", "observed"]
RUN, ANSWER = "run_program", "answer"
MAX_SHOWN = 8_000
"""Characters of one answer of a tool that the model is shown."""
MAX_REPLY = 1_000
"""Tokens of one reply."""

_FENCE = re.compile(r"```(?:python|py)?\s*\n(.*?)(?:```|\Z)", re.DOTALL)


class McpClient(System):
    """A client, and what it is connected to.

    Args:
        code: ``atc mcp`` stands before the tools.
        types: of responses. ``none``: the documents lose them. ``observed``: they do, and each reading tool that has an
            example was called once with it before, by a program of its own, which is not counted.
    """

    def __init__(self, name: str, about: str, *, code: bool, types: Types = "documented") -> None:
        self.name, self.about = name, about
        self._code, self._types = code, types

    async def version(self) -> str:
        return sources_digest()

    async def solve(self, job: Job) -> Answer:
        try:
            async with self._desk(job) as desk:
                return await _Talk(desk, job, self._code).held()
        except ModelError as error:
            return Answer("crash", error=str(error))

    @asynccontextmanager
    async def _desk(self, job: Job) -> AsyncIterator[Desk]:
        episode = job.session.episode
        tools = episode.tools if self._types == "documented" else untyped(episode.tools)
        if not self._code:
            async with opened(plain_server(tools)) as desk:
                yield desk
            return
        with TemporaryDirectory(prefix="atc-codemode-") as folder:
            kept = {"runs_dir": Path(folder) / "runs", "catalogue": Path(folder) / "catalogue"}
            gateway = Gateway(tools, Settings.load().model_copy(update={**kept, "warnings": "allow"}))
            try:
                if self._types == "observed":
                    await _observe(gateway, episode.tools)
                    episode.calls.clear()  # those were not the model's
                async with opened(Face(gateway).server) as desk:
                    yield desk
            finally:
                await gateway.aclose()


def untyped(tools: Toolset) -> Toolset:
    """The same tools, whose documents say nothing of a response."""
    bare: dict[str, Any] = {"returns": None, "examples": ()}
    return Toolset(Tool(tool.protocol.model_copy(update=bare), tool.transport) for tool in tools.values())


async def _observe(gateway: Gateway, tools: Toolset) -> None:
    """Let one program call each tool that reads and has an example with it."""
    client = gateway.client(ClientId("local", "earlier"))
    for tool in tools.values():
        if tool.protocol.effect is Effect.READ and tool.protocol.examples:
            given = ", ".join(f"{name}={value!r}" for name, value in tool.protocol.examples[0].arguments.items())
            await gateway.run_program(client, f"answer = {tool.name}({given})", asker=lambda request: True)
    await asyncio.to_thread(gateway.catalogue.settle)


class _Talk:
    """The turns of one try."""

    def __init__(self, desk: Desk, job: Job, code: bool) -> None:
        self._desk, self._job, self._code = desk, job, code
        self._model: Model = job.opened_model()
        self._run, self._program = "", ""
        self._programs, self._failed = 0, 0
        self._faults: Counter[str] = Counter()

    async def held(self) -> Answer:
        shown = [as_shown(tool) for tool in self._desk.tools.values()]
        messages = [
            Message("system", _template().render(tools=shown, code=self._code).strip()),
            Message("user", self._job.text),
        ]
        for _ in range(self._job.caps.model_calls):
            text = (await self._model.complete(messages, max_tokens=MAX_REPLY, **self._form())).text
            name, arguments, problem = read_reply(text, fenced=self._code)
            if name == ANSWER:
                return self._ended("answered", arguments.get("value"))
            told = problem or (await self._called(name, arguments))
            messages += [Message("assistant", text), Message("user", told)]
        return self._ended("unsolved", error=f"no answer in {self._job.caps.model_calls} turns")

    def _form(self) -> dict[str, Any]:
        """Plain MCP: the reply is held to a schema. With programs it is free: a block, or an object."""
        if self._code:
            return {}
        properties = {"tool": {"enum": [*self._desk.tools, ANSWER]}, "arguments": {"type": "object"}}
        return {"schema": {"type": "object", "properties": properties, "required": ["tool", "arguments"]}}

    async def _called(self, name: str, arguments: dict[str, Any]) -> str:
        if name == RUN and self._run:
            arguments = {"run": self._run, **arguments}
        said = await self._desk.call(name, arguments)
        if name == RUN or not self._code:
            self._note(name, arguments, said)
        text = said.text if len(said.text) <= MAX_SHOWN else f"{said.text[:MAX_SHOWN]} …"
        return f"{name} {'failed' if said.is_error else 'answered'}:\n{text}"

    def _note(self, name: str, arguments: dict[str, Any], said: Said) -> None:
        self._programs += 1
        self._program = str(arguments.get("source", f"{name}({json.dumps(arguments, ensure_ascii=False)})"))
        report = said.structured or {}
        self._run = "" if not self._code or report.get("status") == "answered" else str(report.get("run", ""))
        if said.is_error:
            self._failed += 1
            kind = (report.get("fault") or {}).get("kind", "error")
            self._faults["rejected" if report.get("status") == "rejected" else str(kind)] += 1

    def _ended(self, how: Literal["answered", "unsolved"], value: Any = None, error: str = "") -> Answer:
        return Answer(how, value, error, self._program, self._programs, self._failed, dict(self._faults))


def read_reply(text: str, *, fenced: bool) -> tuple[str, dict[str, Any], str]:
    """What a model asks for.

    Args:
        fenced: a fenced block is a program.

    Returns:
        A tool and its arguments, and an empty text; or what is wrong, for the model.
    """
    if fenced and (found := _FENCE.search(text)) and not found[1].lstrip().startswith("{"):
        return RUN, {"source": found[1]}, ""
    start = text.find("{")
    if start >= 0:
        try:
            value, _ = json.JSONDecoder(strict=False).raw_decode(text[start:])
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and isinstance(value.get("tool"), str):
            arguments = value.get("arguments", {})
            if isinstance(arguments, dict):
                return value["tool"], arguments, ""
    form = '{"tool": "NAME", "arguments": {…}}'
    return "", {}, f"That was no call. Reply with {'a ```python block, or ' if fenced else ''}one JSON object: {form}"


@cache
def _template() -> jinja2.Template:
    loader = jinja2.FileSystemLoader(Path(__file__).parents[1] / "prompts")
    made = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True)
    return made.get_template("mcp_client.jinja")


PLAIN = McpClient("mcp-plain", "an MCP client with every tool in its context", code=False)
CODE = McpClient("mcp-code", "an MCP client of `atc mcp`", code=True)
CODE_NONE = McpClient("mcp-code-none", "the same where no response has a type", code=True, types="none")
CODE_OBSERVED = McpClient("mcp-code-observed", "the same where types were observed", code=True, types="observed")
