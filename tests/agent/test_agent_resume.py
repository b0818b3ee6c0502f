"""A run that was cut off goes on where it was."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from atc import ToolError, Toolset, UsageError
from atc.errors import ModelError
from atc.result import Effect
from atc.wording import outcomes
from tests.support.agent import GOOD, agent
from tests.support.tools import make_tool


def cut_off(program: str) -> tuple[str, list[int]]:
    """The id of a run that was stopped in the middle of its third booking, and what it booked."""
    booked: list[int] = []
    third = asyncio.Event()

    async def book(arguments: dict[str, Any]) -> Any:
        booked.append(arguments["n"])
        if arguments["n"] == 3:
            third.set()
            await asyncio.sleep(30)
        return {"id": arguments["n"]}

    made = agent(program, tools=Toolset([make_tool("book", book, Effect.WRITE)]))

    async def go() -> None:
        work = asyncio.create_task(made.arun("book three"))
        await third.wait()
        work.cancel()
        await asyncio.wait([work])

    asyncio.run(go())
    return made.store.find("last").run_id, booked


BOOK = """```python
ids = [book(n=n)['id'] for n in [1, 2]]
try:
    book(n=3)
except ToolError as error:
    ids.append(error.status)
answer = ids
```"""


@pytest.mark.parametrize("keep_runs", [True, False])
def test_a_run_goes_on_where_it_was_cut_off(keep_runs: bool) -> None:
    run_id, booked = cut_off(BOOK)
    assert booked == [1, 2, 3]
    again = agent(
        tools=Toolset([make_tool("book", lambda a: booked.append(a["n"]), Effect.WRITE)]), keep_runs=keep_runs
    )
    result = again.resume(run_id[-6:])
    assert (result.run_id, result.task, result.status, result.partial, result.value) == (
        run_id,
        "book three",
        "in_doubt",
        True,
        [1, 2, "in_doubt"],
    )
    assert booked == [1, 2, 3]
    assert [call.arguments for call in result.in_doubt] == [{"n": 3}]
    assert result.fault is not None
    assert (result.fault.tool, result.fault.call) == ("book", result.in_doubt[0].index)
    once_more = again.resume(run_id)  # nobody has settled it since
    assert (once_more.status, once_more.value, booked) == ("in_doubt", [1, 2, "in_doubt"], [1, 2, 3])


def test_a_resume_offers_what_the_run_called_and_names_what_is_gone() -> None:
    run_id, booked = cut_off(BOOK)
    trace = agent().store.run(run_id).trace
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    for line in lines:
        if line["kind"] == "tools_chosen":
            line["data"]["tools"] = ["other"]  # the last choice was another one than that of the first program
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    book = make_tool("book", lambda a: booked.append(a["n"]), Effect.WRITE)
    other = make_tool("other", lambda a: a["n"])
    result = agent(tools=Toolset([book, other])).resume(run_id)
    assert (result.value, booked, result.remarks) == ([1, 2, "in_doubt"], [1, 2, 3], ())
    assert result.sketch is not None
    assert [*result.sketch.tools] == ["other", "book"]
    program = "```python\nanswer = other(n=5)\n```"
    result = agent(program, program, tools=Toolset([other])).resume(run_id)
    assert [(each.case, each.tool) for each in result.remarks][-1:] == [("tool_gone", "book")]
    assert result.remarks[-1].message == "book, which this run had before, is not there any more"
    assert "is not there any more" in outcomes.remark(result.remarks[-1].message, result.remarks[-1].case)


def test_a_resumed_run_writes_on_in_its_trace() -> None:
    run_id, _ = cut_off(BOOK)
    made = agent(tools=Toolset([make_tool("book", lambda a: None, Effect.WRITE)]))
    trace = made.store.run(run_id).trace
    with trace.open("ab") as file:
        file.write('{"kind": "call_ended", "data": {"value": "ü'.encode()[:-1])
    made.resume(run_id)
    kinds = [event["kind"] for event in made.store.run(run_id).events()]
    assert kinds.count("run_started") == kinds.count("run_ended") == 2
    assert all(json.loads(line) for line in trace.read_bytes().splitlines())


def test_a_run_cut_off_before_its_first_program_starts_anew() -> None:
    made = agent(ModelError("gone"))
    result = made.run("double 21")
    again = agent(GOOD)
    assert again.resume(result.run_id).value == 42


def test_only_one_process_resumes_a_run() -> None:
    run_id, _ = cut_off(BOOK)
    tools = Toolset([make_tool("book", lambda a: time.sleep(0.01), Effect.WRITE)])

    async def go() -> list[Any]:
        both = [agent(tools=tools).aresume(run_id) for _ in range(2)]
        return await asyncio.gather(*both, return_exceptions=True)

    outcomes = asyncio.run(go())
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Result", "RunInUse"]


@pytest.mark.parametrize("name", ["", "last", "20200101-000000-abcdef", "../etc"])
def test_a_run_that_is_not_there_cannot_be_resumed(name: str) -> None:
    with pytest.raises(UsageError, match="no run is named"):
        agent().resume(name)


def test_a_trace_without_a_beginning_cannot_be_resumed() -> None:
    made = agent()
    stored = made.store.run("20200101-000000-abcdef")
    stored.make()
    stored.trace.write_text('garbage\n{"kind": "run_ended"}\nnull\n[1]\n')
    with pytest.raises(UsageError, match="has no beginning"):
        made.resume("abcdef")


def test_a_write_that_failed_before_the_run_was_cut_off_is_told_by_what_its_service_said() -> None:
    waits = asyncio.Event()

    def book(_: dict[str, Any]) -> Any:
        raise ToolError("the database is locked", status=500, outcome="unknown")

    async def rates(_: dict[str, Any]) -> Any:
        waits.set()
        await asyncio.sleep(30)

    tools = Toolset([make_tool("book", book, Effect.WRITE), make_tool("rates", rates)])
    program = "try:\n    book(n=1)\nexcept ToolError:\n    pass\nanswer = rates(n=1)"
    made = agent(f"```python\n{program}\n```", tools=tools)

    async def go() -> None:
        work = asyncio.create_task(made.arun("book one"))
        await waits.wait()
        work.cancel()
        await asyncio.wait([work])

    asyncio.run(go())
    again = agent(tools=Toolset([make_tool("book", book, Effect.WRITE), make_tool("rates", lambda _: 3)]))
    result = again.resume("last")
    assert result.status == "in_doubt"
    assert [call.error for call in result.in_doubt] == ["the database is locked"]
    assert result.fault is not None
    assert "the database is locked" in result.fault.message
