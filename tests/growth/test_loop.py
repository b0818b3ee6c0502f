"""What strangers send holds the event loop for half a second of its processor time at most, whatever its size."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, Toolset
from atc.errors import UsageError
from atc.models.fake import FakeModel
from atc.result import Effect, Result
from atc.sandboxes.inputs import MAX_INPUTS
from atc.schemas.protocol import Protocol, Source
from atc.serve.mcp.client import ClientId
from atc.serve.mcp.gateway import Gateway
from atc.settings import Settings
from atc.tools.mcp.live import LiveTools
from atc.tools.mcp.spec import read_specs
from atc.tools.tool import Tool, Transport
from tests.growth.harness import STALL_S, assert_no_stall
from tests.support.mcp import raw_server, reading

pytestmark = pytest.mark.slow

TEXT = {"type": "string"}
ME = ClientId("me")


class _Answers(Transport):
    """Answers at once; one that hangs never does."""

    def __init__(self, hangs: bool = False) -> None:
        self._hangs = hangs

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        if self._hangs:
            await asyncio.sleep(600)
        return {"ok": 1}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _tool(name: str, parameters: dict[str, Any], returns: dict[str, Any], effect: Effect, hangs: bool = False) -> Tool:
    source = Source(kind="mcp", location="mcp:stranger", operation=name)
    made = Protocol(name=name, parameters=_object(parameters), returns=_object(returns), effect=effect, source=source)
    return Tool(made, _Answers(hangs))


def _many(n: int) -> Toolset:
    """Tools each of which takes and gives identifiers of its own: no two names end alike."""
    return Toolset(
        [
            _tool(f"t{i}", {f"a{i}_x{i}_id": TEXT, f"thing_k{i}": TEXT}, {f"thing_k{i}": TEXT}, Effect.READ)
            for i in range(n)
        ]
    )


def _gateway(tools: Toolset, folder: Path) -> Gateway:
    settings = Settings.load(runs_dir=folder / "runs", catalogue=folder / "catalogue", retrieval="lexical")
    return Gateway(tools, settings)


def test_the_harness_sees_who_holds_the_loop() -> None:
    async def holds() -> None:
        sum(range(20_000_000))

    with pytest.raises(AssertionError, match="stood still"):
        assert_no_stall(holds, most=STALL_S / 10)
    assert_no_stall(lambda: asyncio.to_thread(sum, range(20_000_000)), most=STALL_S / 10)


@pytest.mark.parametrize(("size", "most"), [(15_000_000, 5_000_000), (6_000_000, 20_000_000)])
def test_a_list_of_tools_of_many_megabytes(size: int, most: int, tmp_path: Path) -> None:
    """It comes over a conversation of the event loop's own: after the first call, and whenever the server says so."""
    answer = _object({f"k{i}": _object({"a": TEXT, "b": TEXT}) for i in range(60)})
    one = reading("t0", outputSchema=answer)
    tools = [one | {"name": f"t{i}"} for i in range(size // len(json.dumps(one)))]
    command, *args = raw_server(tmp_path, calls={"t0": {"pages": [{"tools": tools}]}}, pages=[{"tools": [one]}])

    async def asked() -> None:
        async with LiveTools(read_specs({"command": command, "args": args, "max_bytes": most})) as live:
            await live.settled()
            await live.tools["t0"].transport({})  # type: ignore[misc]
            await live.refresh()
            assert len(live.tools) == (len(tools) if size < most else 0)
            assert size < most or all("allow more with `max_bytes`" in why for why in live.down.values())

    assert_no_stall(asked)


def test_documents_of_some_of_very_many_tools(tmp_path: Path) -> None:
    gateway = _gateway(_many(6_000), tmp_path)

    async def asked() -> None:
        client = gateway.client(ME)
        for _ in range(2):
            await gateway.docs(client, [f"t{i}" for i in range(50)], 3_000)
            done = await gateway.run_program(client, "answer = t1(a1_x1_id='a')", asker=lambda _: False)
            assert done.status == "answered"
        await gateway.aclose()

    assert_no_stall(asked)


def test_a_program_that_names_very_many_tools(tmp_path: Path) -> None:
    gateway = _gateway(_many(1_000), tmp_path)
    named = "\n".join(f"t{i}(thing_k{i}='a')" for i in range(1_000))

    async def asked() -> None:
        done = await gateway.run_program(
            gateway.client(ME),
            f"answer = 1\nif answer > 1:\n    {named.replace(chr(10), chr(10) + '    ')}",
            asker=lambda _: False,
        )
        assert done.status == "answered", done
        await gateway.aclose()

    assert_no_stall(asked)


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


INPUTS: dict[str, Callable[[], dict[str, Any]]] = {
    "names": lambda: {f"v{i}": i for i in range(MAX_INPUTS)},
    "values": lambda: {f"v{i}": {f"k{j}": [] for j in range(20)} for i in range(MAX_INPUTS // 2)},
    "lists": lambda: {"v": [[]] * 190_000},
    "keys": lambda: {"v": {f"key{i}": "$bytes" for i in range(90_000)}},
    "levels": lambda: {"v": [_deep(90) for _ in range(2_000)]},
    "secrets": lambda: {"v": ["token=a1B2c3D4e5F6"] * 50_000},
}


@pytest.mark.parametrize("kind", INPUTS)
def test_inputs_of_a_program(kind: str, tmp_path: Path) -> None:
    given, gateway = INPUTS[kind](), _gateway(_many(1), tmp_path)

    async def asked() -> None:
        done = await gateway.run_program(gateway.client(ME), "answer = 1", inputs=given, asker=lambda _: False)
        assert done.status == "answered"
        await gateway.aclose()

    assert_no_stall(asked)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({f"v{i}": 1 for i in range(MAX_INPUTS + 1)}, "10,001 inputs; the limit is 10,000"),
        ({f"v{i}": "a" * 1_500_000 for i in range(3)}, "the limit is 4,194,304"),
        ({f"v{i}": 1 for i in range(300_000)}, "the limit is 10,000"),
    ],
)
def test_more_inputs_are_refused(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    gateway = _gateway(_many(1), tmp_path)

    async def asked() -> None:
        with pytest.raises(UsageError, match=said):
            await gateway.run_program(gateway.client(ME), "answer = 1", inputs=given, asker=lambda _: False)
        await gateway.aclose()

    assert_no_stall(asked)


@pytest.mark.parametrize("words", [3, 100])
def test_a_write_beside_one_in_doubt(words: int, tmp_path: Path) -> None:
    """Both are as wide as documents may be, and their names as long."""

    def wide(tool: str) -> dict[str, Any]:
        names = ["_".join(f"{tool}{i}w{word}" for word in range(words)) for i in range(119)]
        return {name: {**TEXT, "description": f"the {' '.join(names[:40])}"} for name in names}

    tools = [
        _tool(name, {"x": TEXT, **wide(name)}, wide(name), Effect.WRITE, hangs)
        for name, hangs in (("alpha", True), ("beta", False))
    ]
    program = "try:\n    alpha(x='1')\nexcept ToolError:\n    pass\nanswer = beta(x='2')"
    agent = Agent(
        Toolset(tools),
        model=FakeModel([f"```python\n{program}\n```"]),
        runs_dir=tmp_path,
        sentence=False,
        max_revisions=0,
        approve=lambda _: True,
        call_timeout_s=0.5,
        learn=False,
        find_tools=False,
    )
    ended: list[Result[Any]] = []

    async def asked() -> None:
        ended.append(await agent.arun("x"))
        await agent.aclose()

    assert_no_stall(asked)
    assert [(call.tool, call.status) for call in ended[0].calls] == [("alpha", "in_doubt"), ("beta", "ok")]
