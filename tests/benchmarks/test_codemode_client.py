"""A model as an MCP client: over plain MCP it calls tools one by one, over ours it writes programs; tries are kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from atc.tools.protocol import Example, Protocol, Source
from atc.tools.tool import Toolset
from benchmarks import codemode_client
from benchmarks.codemode_client import ARMS, summary
from benchmarks.environments import Episode, Gold, Task
from benchmarks.environments.base import served
from benchmarks.gateway import Caps
from benchmarks.systems.mcp_client import CODE, CODE_NONE, CODE_OBSERVED, PLAIN, untyped
from tests.support.fake_openai_server import serving
from tests.support.ruler import Shop, says, source, tried_at

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's

CALL = '{"tool": "order", "arguments": {"item": "pen"}}'
DONE = '{"tool": "answer", "arguments": {"value": 7}}'
PROGRAM = '```python\nanswer = order(item="pen")["number"]\n```'


def test_over_plain_mcp_a_call_is_a_turn() -> None:
    with serving(says(CALL), says(DONE)) as server:
        row = tried_at(server, PLAIN)
        first, second = (request["messages"] for request in server.requests)
    assert (row.solved, row.model_calls, row.programs, row.tool_calls) == (True, 2, 1, 1)
    assert '"name":"order"' in first[0]["content"]
    assert '{"number": 7}' in second[-1]["content"]
    assert "response_format" in server.requests[0]


def test_over_ours_a_program_stands_in_a_fence_and_its_write_is_approved() -> None:
    with serving(says(PROGRAM), says(DONE)) as server:
        row = tried_at(server, CODE)
        first, second = (request["messages"] for request in server.requests)
    assert (row.solved, row.model_calls, row.programs, row.failed, row.writes) == (True, 2, 1, 0, 1), row.error
    assert '"name":"run_program"' in first[0]["content"]
    assert '"value": 7' in second[-1]["content"]
    assert "response_format" not in server.requests[0]


def test_a_program_after_one_that_failed_is_its_revision() -> None:
    broken = '```python\nfound = order(item="pen")\nanswer = found["nothing"]\n```'
    with serving(says(broken), says(PROGRAM), says(DONE)) as server:
        row = tried_at(server, CODE)
    assert (row.solved, row.programs, row.failed) == (True, 2, 1), row.error
    assert (row.writes, row.repeated_writes) == (1, 0)  # the order of the first program is not made again


def test_what_is_no_call_is_told_and_a_tool_that_is_not_there_too() -> None:
    with serving(says("Let me see."), says('{"tool": "fly", "arguments": {}}'), says(CALL), says(DONE)) as server:
        row = tried_at(server, PLAIN)
        told = [request["messages"][-1]["content"] for request in server.requests[1:3]]
    assert row.solved
    assert "cannot be used" in told[0]  # by the schema; the same reply is asked for again
    assert "there is no tool 'fly'" in told[1]


def test_a_model_that_never_answers_is_stopped() -> None:
    with serving(*[says("Hm.")] * 3) as server:
        row = tried_at(server, CODE, Caps(model_calls=3))
    assert (row.solved, row.model_calls) == (False, 3)


class Library(Shop):
    """One tool that reads; its document has an example, and says nothing else of its response."""

    name = "comptoolbench"

    def tasks(self) -> list[Task]:
        return [Task(f"book-{number}", f"How many pages has book {number}?", ("look_up",)) for number in range(3)]

    def open(self, task: Task) -> Episode:
        def look_up(arguments: dict[str, Any]) -> Any:
            return {"title": "Lakes", "pages": 7}

        parameters = {"type": "object", "properties": {"book": {"type": "integer"}}, "required": ["book"]}
        example = Example(arguments={"book": 9}, response={"title": "Tides", "pages": 3})
        protocol = Protocol(
            name="look_up",
            description="Look a book up.",
            parameters=parameters,
            effect="read",
            examples=(example,),
            source=Source(location="library"),
        )
        return Episode(Toolset([served(protocol, look_up)]), lambda value: value == 7, self.gold(task).calls)

    def gold(self, task: Task) -> Gold:
        return Gold((("look_up", {"book": 1}),), 7)


def test_types_are_observed_before_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {}
    for system in (CODE_NONE, CODE_OBSERVED):
        with serving(says('```python\nanswer = look_up(book=1)["pages"]\n```'), says(DONE)) as server:
            monkeypatch.setattr("tests.support.ruler.Shop", Library)
            row = tried_at(server, system)
            shown[system.name] = server.requests[0]["messages"][0]["content"]
        assert (row.solved, row.tool_calls) == (True, 1), row.error  # what was called before is not counted
    assert "pages" not in shown[CODE_NONE.name]
    assert "pages" in shown[CODE_OBSERVED.name]
    assert "Tides" not in shown[CODE_OBSERVED.name]  # a shape, no value


def test_documents_lose_their_responses_and_nothing_else() -> None:
    tools = Library().open(Library().tasks()[0]).tools
    [bare] = untyped(tools).protocols
    assert (bare.returns, bare.examples) == (None, ())
    assert bare.parameters == tools["look_up"].protocol.parameters


def test_the_same_command_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import contextmanager

    file = tmp_path / "tries.jsonl"
    program = '```python\nanswer = look_up(book=1)["pages"]\n```'
    with serving(*[says(program), says(DONE)] * 4) as server:

        @contextmanager
        def upstream(spec: str) -> Any:
            yield source(server)

        monkeypatch.setattr(codemode_client, "upstream", upstream)
        monkeypatch.setattr(codemode_client, "open_environment", lambda name, data: Library())
        monkeypatch.setattr(codemode_client, "SAMPLES", {"types": {"comptoolbench": 2}})
        monkeypatch.setattr("benchmarks.tasks.in_part", lambda *given: True)
        asyncio.run(codemode_client.run_part("types", file, None, "tiny", Caps(), 2))
        assert len(file.read_text().splitlines()) == 2
        asyncio.run(codemode_client.run_part("types", file, None, "tiny", Caps(), None))
        assert len(file.read_text().splitlines()) == 4
        asyncio.run(codemode_client.run_part("types", file, None, "tiny", Caps(), None))
        assert len(server.requests) == 8
    rows = summary("types", file)
    assert [row["way"] for row in rows] == [system.name for system in ARMS["types"]]
    assert [(row["tasks"], row["solved"], row["failed in a run"]) for row in rows] == [(2, 2, 0), (2, 2, 0)]
