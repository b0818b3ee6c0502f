"""A shop to try systems in, and a scripted model behind the ruler's gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from atc.errors import ToolError
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.tools.tool import Toolset
from benchmarks.environments import Environment, Episode, Gold, Task
from benchmarks.environments.base import served
from benchmarks.systems import SYSTEMS, System
from benchmarks.tasks.attempt import attempt
from benchmarks.tasks.gateway import Caps, Gateway, Upstream
from benchmarks.tasks.rows import Row
from benchmarks.tasks.run import Plan, run_plan
from tests.support.fake_openai_server import Server, Step, answers, serving

GOOD = '```python\nanswer = order(item="pen")["number"]\n```'
CRASHING = '```python\norder(item="pen")\nanswer = [][0]\n```'


class Shop(Environment):
    """Tasks to order one thing; the answer is the number of the order."""

    name = "shop"

    def tasks(self) -> list[Task]:
        return [
            Task(f"pen-{number}", f"Order a pen (task number{number}). Answer with its number.", ("order",))
            for number in range(3)
        ]

    def open(self, task: Task) -> Episode:
        orders: list[str] = []

        def order(arguments: dict[str, Any]) -> Any:
            if arguments["item"] == "moon":
                raise ToolError("not for sale", status="not_found")
            orders.append(arguments["item"])
            return {"number": 7}

        parameters = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
        protocol = Protocol(name="order", description="Order a thing.", parameters=parameters, effect=Effect.WRITE)
        judge: Callable[[Any], bool] = lambda value: value == 7 and bool(orders)  # noqa: E731
        return Episode(Toolset([served(protocol, order)]), judge, self.gold(task).calls)

    def gold(self, task: Task) -> Gold:
        return Gold((("order", {"item": "pen"}),), 7)


def says(text: str, read: int = 100, written: int = 20) -> Step:
    """A reply of the model, with the tokens that the endpoint counts."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "tiny", "choices": [choice], "usage": usage}
    return answers(200, json.dumps(body).encode())


def source(server: Server, name: str = "tiny") -> Upstream:
    return Upstream(server.url, "tiny", name, 8_192, direct=True)


def tried(
    replies: Sequence[str | Step], system: str | System = "atc", caps: Caps | None = None, kept: Path | None = None
) -> Row:
    """One try of a system at the first task."""
    with serving(*(says(reply) if isinstance(reply, str) else reply for reply in replies)) as server:
        return tried_at(server, system, caps, kept)


def tried_at(server: Server, system: str | System = "atc", caps: Caps | None = None, kept: Path | None = None) -> Row:
    chosen = SYSTEMS[system] if isinstance(system, str) else system

    async def one() -> Row:
        async with Gateway(source(server), kept).opened() as gateway:
            try:
                return await attempt(Shop(), Shop().tasks()[0], chosen, 0, gateway, caps or Caps(), 0.3)
            finally:
                await chosen.aclose()

    return asyncio.run(one())


def ran(
    plan: Plan, replies: Sequence[str | Step], file: Path, model: str = "tiny", kept: Path | None = None
) -> list[Row]:
    """The new rows of a plan."""
    new: list[Row] = []

    async def all_of_it(server: Server) -> None:
        async with Gateway(source(server, model), kept).opened() as gateway:
            await run_plan(plan, gateway, file, new.append)

    with serving(*(says(reply) if isinstance(reply, str) else reply for reply in replies)) as server:
        asyncio.run(all_of_it(server))
    return new
