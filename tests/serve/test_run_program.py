"""What a client's model is told about its programs, and what a revision repeats."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError

from atc import Tool, ToolError
from atc.result import Effect
from atc.serve.mcp.gateway import Gateway, Options
from atc.settings import Settings
from atc.tools.tool import PROGRESS, Progress, Toolset
from tests.support.mcp_face import ACCEPT, DECLINE, LEGACY, MODERN, Book, User, connected, gateway_of, run
from tests.support.tools import make_tool

TEXT = {"type": "string"}
CITIES = {"type": "object", "properties": {"cities": {"type": "array", "items": TEXT}}, "required": ["cities"]}


class Cities:
    """A read that counts how often it was really asked."""

    def __init__(self) -> None:
        self.asked = 0

    def find(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.asked += 1
        return {"cities": ["Oslo"] if arguments.get("city") == "Oslo" else []}

    @property
    def tool(self) -> Tool:
        return make_tool("find_cities", self.find, required=("city",), returns=CITIES, city=TEXT)


@asynccontextmanager
async def client_of(*tools: Tool, user: User | None = None, **more: Any) -> AsyncIterator[Client]:
    async with gateway_of(*tools, jail=True) as gateway, connected(gateway, MODERN, user, **more) as client:
        yield client


async def error(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert isinstance(result.structured_content, dict)
    return str(result.structured_content["error"]["message"])


def test_a_program_and_its_revisions() -> None:
    """One connection: a rejected program, one that fails, one that answers, and one that revises the answer."""
    cities = Cities()

    async def main() -> None:
        async with client_of(cities.tool) as client:
            report = await run(client, "answer = find_citys(city='Oslo')", inputs={"n": 2})
            assert report["status"] == "rejected"
            assert report["findings"][0]["instead"] == ["find_cities"]
            assert "Nothing ran" in report["advice"]

            again = {"run": report["run"]}
            report = await run(client, "c = find_cities(city='Oslo')['cities']\nanswer = c[n]", **again)
            assert report["status"] == "unsolved"
            fault = report["fault"]
            assert (fault["line"], fault["source_line"], fault["tool"]) == (2, "answer = c[n]", "find_cities")
            assert "Oslo" in fault["answered"]
            assert report["calls"] == [{"tool": "find_cities", "line": 1}]

            report = await run(client, "c = find_cities(city='Oslo')['cities']\nanswer = c * n", **again)
            assert (report["status"], report["value"]) == ("answered", ["Oslo", "Oslo"])
            assert report["calls"] == [{"tool": "find_cities", "line": 1, "status": "replayed"}]
            assert cities.asked == 1, "a revision repeats nothing"

            report = await run(client, "answer = find_cities(city='Oslo')['cities'] * n", inputs={"n": 1}, **again)
            assert (report["value"], cities.asked) == (["Oslo"], 1), "nor does one of a run that answered"

            report = await run(client, "answer = find_cities(city='Oslo')")
            assert (report["run"] != again["run"], cities.asked) == (True, 2), "a new run asks anew"

    asyncio.run(main())


def test_what_its_author_can_judge_is_no_failure() -> None:
    async def main() -> None:
        async with client_of(Cities().tool) as client:
            report = await run(client, "answer = sum(range(3))")
            assert (report["status"], report["value"]) == ("answered", 3), "a program that names no tool"
            report = await run(client, "answer = [find_cities(city='X')['cities'] for _ in range(3)][0]")
            assert (report["status"], report["value"]) == ("answered", [])
            assert "empty" in report["remark"]
            assert report["calls"][0]["times"] + report["calls"][-1].get("times", 0) in (3, 4, 6)
            assert {"fault", "findings", "printed", "done"}.isdisjoint(report), "what is as usual is left out"

    asyncio.run(main())


def test_writes_that_are_done_are_told_and_not_repeated() -> None:
    book = Book()

    async def main() -> None:
        async with client_of(book.tool, user=User()) as client:
            report = await run(client, "append_line(text='one')\nanswer = 1/0")
            assert report["status"] == "unsolved"
            assert report["done"] == ["append_line(text='one')"]
            report = await run(client, "append_line(text='one')\nanswer = undefined", run=report["run"])
            assert report["done"] == ["append_line(text='one')"], "also after a program that did not run"
            report = await run(client, "append_line(text='one')\nanswer = 2", run=report["run"])
            assert (report["status"], report["calls"][0]["status"]) == ("answered", "replayed")

    asyncio.run(main())
    assert book.lines == ["one"]


def test_a_large_answer_is_said_to_be_cut_before_anything_else() -> None:
    tool = make_tool("read", lambda arguments: {"text": "x" * 12_000})

    async def main() -> None:
        async with client_of(tool) as client:
            answered = await client.call_tool("run_program", {"source": "answer = [read() for _ in range(4)]"})
            [text, *_] = answered.content
            assert isinstance(text, types.TextContent)
            report = json.loads(text.text)
            assert text.text.startswith('{"cut": "`preview` is a part of the answer: ')
            uri = report["links"][0]["uri"]
            assert uri in report["cut"]
            [whole] = (await client.read_resource(uri)).contents
            assert isinstance(whole, types.TextResourceContents)
            assert json.loads(whole.text) == [{"text": "x" * 12_000}] * 4
            report = await run(client, "answer = read()['text'][:9]")
            assert "cut" not in report

    asyncio.run(main())


@pytest.mark.parametrize(
    "calls",
    [
        "answer = parallel(*[lambda n=n: find_cities(city=n) for n in ('Oslo', 'none', 'Bern')])",
        "answer = []\nfor n in ('Oslo', 'Bern', 'none'):\n    answer.append(find_cities(city=n))",
    ],
)
def test_a_fault_says_how_many_calls_are_in_the_journal(calls: str) -> None:
    asked: list[str] = []

    def find(arguments: dict[str, Any]) -> dict[str, Any]:
        asked.append(arguments["city"])
        if arguments["city"] == "none":
            raise ToolError("no such city", status="not_found")
        return {"cities": [arguments["city"]]}

    async def main() -> None:
        async with client_of(make_tool("find_cities", find, required=("city",), returns=CITIES, city=TEXT)) as client:
            report = await run(client, calls)
            assert report["fault"]["finished"].startswith("2 of the program's 3 calls are in the journal")
            report = await run(client, calls.replace("'none'", "'Rome'"), run=report["run"])
            assert (report["status"], len(report["value"])) == ("answered", 3)

    asyncio.run(main())
    assert sorted(asked) == ["Bern", "Oslo", "Rome", "none"], "what succeeded was not asked again"


REFUSED = "try:\n    append_line(text='one')\nexcept ToolError:\n    pass\nanswer = find_cities(city='Oslo')"


def test_a_refusal_that_a_program_caught_is_told_with_the_value() -> None:
    book = Book()

    async def main() -> None:
        async with client_of(book.tool, Cities().tool, user=User([DECLINE])) as client:
            report = await run(client, REFUSED)
            assert (report["status"], report["partial"], report["value"]) == ("denied", True, {"cities": ["Oslo"]})
            assert (report["fault"]["line"], report["fault"]["tool"]) == (2, "append_line")
            assert report["remark"].startswith("incomplete: line 2: append_line(text='one') refused: ")
            assert report["remark"].endswith(
                "The value rests on a run that went on without this call, which was not done"
            )
            assert "tell the user" in report["advice"]

    asyncio.run(main())
    assert book.lines == []


@pytest.mark.parametrize(
    ("failure", "status", "left"),
    [
        (ToolError("the file is full"), "answered", "which was not done"),
        (OSError("the disk broke"), "in_doubt", "which may have been done"),
    ],
)
def test_a_failure_that_a_program_caught_is_told_with_the_value(failure: Exception, status: str, left: str) -> None:
    async def main() -> None:
        async with client_of(Book(failure=failure).tool, Cities().tool, user=User()) as client:
            report = await run(client, REFUSED)
            assert (report["status"], report["partial"], report["value"]) == (status, True, {"cities": ["Oslo"]})
            assert f"The value rests on a run that went on without this call, {left}" in report["remark"]
            assert ("fault" in report, "in_doubt" in report) == (status == "in_doubt",) * 2

    asyncio.run(main())


def test_a_client_may_write_in_its_own_dialect_and_its_user_is_asked_about_the_tool() -> None:
    book, user = Book(), User((DECLINE, ACCEPT))
    first, second = "mcp__atc__append_line(text='one')", "call_tool('append_line', {'text': 'two'})"
    source = f"```python\nawait {first}\nanswer = {second}\n```"

    async def main() -> None:
        async with client_of(book.tool, user=user) as client:
            assert (await run(client, source))["status"] == "denied"
            assert "append_line" in user.seen[0].message
            assert "mcp__" not in user.seen[0].message
            report = await run(client, source)
            assert (report["status"], report["value"]) == ("answered", {"lines": 2})
            assert [(call["tool"], call["line"]) for call in report["calls"]] == [
                ("append_line", 2),
                ("append_line", 3),
            ]

    asyncio.run(main())
    assert book.lines == ["one", "two"]


def test_a_dry_run_plans_writes() -> None:
    book = Book()

    async def main() -> None:
        async with client_of(book.tool) as client:
            report = await run(client, "answer = append_line(text='one')", dry_run=True)
            assert (report["status"], report["plan"]["calls"]) == ("planned", ["append_line(text='one')"])
            assert "no dry run" not in await error(
                client, "run_program", source="answer = 1", run=report["run"], dry_run="yes"
            )
            assert "dry run" in await error(client, "run_program", source="answer = 1", run=report["run"])

    asyncio.run(main())
    assert book.lines == []


def test_a_value_goes_from_one_program_to_the_next_unseen() -> None:
    async def main() -> None:
        async with client_of(Cities().tool) as client:
            made = await client.call_tool("run_program", {"source": "answer = [*range(5000)]"})
            assert isinstance(made.structured_content, dict)
            assert "value" not in made.structured_content
            [link] = [each for each in made.content if isinstance(each, types.ResourceLink)]
            report = await run(client, "answer = sum(numbers)", inputs={"numbers": {"$resource": link.uri}})
            assert report["value"] == sum(range(5000))
            read = await client.read_resource(f"{link.uri}?from=10&to=12")
            assert getattr(read.contents[0], "text", "") == "[10, 11]"
            [listed] = (await client.list_resources()).resources
            assert listed.uri == link.uri
            made = await client.call_tool("run_program", {"source": r"answer = [b'\x89PNG\r\n\x1a\n']"})
            assert [each.type for each in made.content] == ["text", "resource_link", "image"]
            with pytest.raises(MCPError, match="nothing is kept for you"):
                await client.read_resource("atc://values/guessed")

    asyncio.run(main())


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"source": ""}, "the program is empty"),
    ({"source": "x" * 60_001}, "the limit is 60,000"),
    ({"source": 5}, "`source` must be a text"),
    ({}, "`source` must be a text"),
    ({"code": "answer = 1"}, "no argument 'code'; its arguments are source, inputs, run, dry_run, apply"),
    ({"source": "answer = 1", "dryrun": True}, "run_program has no argument 'dryrun'; its arguments are source"),
    ({"source": "answer = 1", "inputs": [1]}, "`inputs` must be an object"),
    ({"source": "answer = 1", "inputs": {"answer": 1}}, "means something else"),
    ({"source": "answer = 1", "inputs": {"find_cities": 1}}, "is the name of a tool"),
    ({"source": "answer = 1", "inputs": {"a b": 1}}, "no Python identifier"),
    ({"source": "answer = 1", "inputs": {"x": "y" * 3_000_000}}, "the limit is"),
    ({"source": "answer = 1", "inputs": {"x": {"$resource": "atc://values/x"}}}, "nothing is kept for you"),
    ({"source": "answer = 1", "run": "last"}, "you have no run 'last'"),
    ({"source": "answer = 1", "run": "../../etc"}, "you have no run"),
    ({"source": "answer = 1", "run": "20260101-000000-abcdef"}, "you have no run"),
]


def test_a_wrong_call_says_what_is_wrong_and_begins_no_run() -> None:
    async def main() -> None:
        async with gateway_of(Cities().tool) as gateway, connected(gateway, MODERN) as client:
            for arguments, what in WRONG:
                assert what in await error(client, "run_program", **arguments), arguments
            assert gateway.store.list() == []
            assert "there is no tool 'resume'" in await error(client, "resume")

    asyncio.run(main())


def test_no_run_is_another_clients_nor_has_two_programs_at_once() -> None:
    began, go_on = asyncio.Event(), asyncio.Event()
    book = Book()

    async def answers(params: Any) -> Any:
        began.set()
        await go_on.wait()
        return types.ElicitResult(action="accept", content={})

    async def main() -> None:
        async with (
            gateway_of(book.tool, jail=True) as gateway,
            connected(gateway, LEGACY, User([answers])) as client,
            connected(gateway, LEGACY, name="another") as another,
        ):
            report = await run(client, "answer = 1/0")
            first = asyncio.create_task(run(client, "answer = append_line(text='a')", run=report["run"]))
            await began.wait()
            assert "is running" in await error(client, "run_program", source="answer = 1", run=report["run"])
            go_on.set()
            assert (await first)["status"] == "answered"
            assert another is not None

    asyncio.run(main())


def test_nothing_is_left_where_runs_are_not_kept() -> None:
    async def main() -> None:
        gateway = Gateway(Toolset([Cities().tool]), Settings.load(keep_runs=False))
        folder = gateway.settings.runs_dir
        assert "not kept" in gateway.notices[0]
        async with connected(gateway, MODERN) as client:
            report = await run(client, "c = find_cities(city='Oslo')\nanswer = 1/0")
            report = await run(client, "c = find_cities(city='Oslo')\nanswer = 1", run=report["run"])
            assert report["calls"][0]["status"] == "replayed"
        await gateway.aclose()
        assert not folder.exists()

    asyncio.run(main())


def test_the_last_program_is_resumed() -> None:
    cities = Cities()

    async def main() -> None:
        options = Options(extras=("resume",))
        gateway = Gateway(Toolset([cities.tool]), options=options)
        async with connected(gateway, MODERN) as client:
            assert "no run of yours was cut off" in await error(client, "resume")
            run_id = (await run(client, "answer = find_cities(city=name)", inputs={"name": "Oslo"}))["run"]
            result = await client.call_tool("resume", {"run": run_id})
            assert isinstance(result.structured_content, dict)
            assert result.structured_content["value"] == {"cities": ["Oslo"]}
            assert cities.asked == 1
        await gateway.aclose()

    asyncio.run(main())


def test_a_hostile_tool_stops_no_other() -> None:
    broken = make_tool("broken", lambda arguments: 1, Effect.READ, n={"type": "nonsense"})

    async def main() -> None:
        async with gateway_of(Cities().tool, broken) as gateway, connected(gateway, MODERN) as client:
            assert "broken is left out" in gateway.notices[0]
            assert (await run(client, "answer = find_cities(city='Oslo')"))["status"] == "answered"

    asyncio.run(main())


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
def test_what_a_tool_reports_of_its_own_call_is_passed_on(mode: str) -> None:
    told: list[str] = []

    async def main() -> None:
        heard_of = asyncio.Event()

        async def digging(arguments: dict[str, Any]) -> int:
            report = PROGRESS.get()
            assert report is not None
            report(Progress("dig", 3, 10, "deep"))
            await asyncio.wait_for(heard_of.wait(), 30)
            return 1

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            told.append(message or "")
            if "dig is at" in told[-1]:
                heard_of.set()

        async with gateway_of(make_tool("dig", digging), jail=True) as gateway, connected(gateway, mode) as client:
            await client.call_tool("run_program", {"source": "answer = dig(n=1)"}, progress_callback=heard)

    asyncio.run(main())
    assert "call 1: dig is at 3 of 10: deep" in told
    assert any(message.startswith("run ") for message in told), told
