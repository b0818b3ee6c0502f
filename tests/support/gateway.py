"""A gateway before a scripted endpoint, and a task whose tools tell the weather."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from atc.errors import ToolError
from atc.result import Effect
from atc.tools.tool import Toolset
from benchmarks.environments.base import Episode
from benchmarks.systems.base import Answer, Job, System
from benchmarks.tasks.gateway import Caps, Gateway, Session, Upstream
from tests.support.fake_openai_server import Step, answers, serving
from tests.support.tools import make_tool

Calls = Sequence[tuple[str, dict[str, Any]]]
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
}
ROUTE = {"type": "array", "items": {"type": "string"}}


def replies(text: str | None = None, calls: Calls = (), usage: tuple[int, int] = (11, 7)) -> Step:
    """Answer with a whole chat completion: a text, or calls of tools."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": f"call-{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for i, (name, arguments) in enumerate(calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    count = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "tiny", "choices": [choice], "usage": count}
    return answers(200, json.dumps(reply).encode())


def weather_episode() -> Episode:
    """A task that is solved by 21. ``weather`` knows no Nowhere; ``route`` has an argument that Python cannot write."""

    def weather(arguments: dict[str, Any]) -> Any:
        if arguments["city"] == "Nowhere":
            raise ToolError("there is no city Nowhere", status="not_found")
        return {"city": arguments["city"], "degrees": 21}

    unit = {"type": "string", "enum": ["c", "f"], "description": "The scale."}
    city = {"type": "string", "description": "Which city."}
    places: dict[str, dict[str, Any]] = {
        "from": {"type": "string"},
        "to": {"type": "string"},
        "via": {"type": ["string", "null"]},
    }
    tools = [
        make_tool("weather", weather, required=("city",), returns=WEATHER, city=city, unit=unit),
        make_tool(
            "route", lambda a: [a["from"], a["to"]], Effect.WRITE, required=("from", "to"), returns=ROUTE, **places
        ),
    ]
    return Episode(Toolset(tools), lambda value: value == 21)


class World:
    """One try: its session, its address and what reached the endpoint."""

    def __init__(self, session: Session, address: str, requests: list[dict[str, Any]]) -> None:
        self.session, self.address, self.requests = session, address, requests

    @property
    def spent(self) -> Any:
        return self.session.spent

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        return [(call.tool, call.arguments) for call in self.session.episode.calls]

    def job(self, text: str = "How warm is Rome?") -> Job:
        return Job(text, self.address, self.session, "tiny", 8_000, self.session.caps)


@asynccontextmanager
async def a_try(
    *steps: Step, caps: Caps | None = None, kept: Path | None = None, seed: int = 1
) -> AsyncIterator[World]:
    """A try of the weather task, before an endpoint that answers with these steps."""
    with serving(*steps) as server:
        upstream = Upstream(server.url, "tiny", "tiny", 8_000, api_key="secret", direct=True)
        session = Session(weather_episode(), caps or Caps(), 0.3, seed)
        async with Gateway(upstream, kept).opened() as gateway, gateway.session(session) as address:
            yield World(session, address, server.requests)


def solved(
    system: System, *steps: Step, caps: Caps | None = None, see: Callable[[World], None] | None = None
) -> Answer:
    """Let a system try the weather task; ``see`` looks at what is left before the try ends."""

    async def main() -> Answer:
        async with a_try(*steps, caps=caps) as world:
            answer = await system.solve(world.job())
            if see:
                see(world)
            return answer

    return asyncio.run(main())
