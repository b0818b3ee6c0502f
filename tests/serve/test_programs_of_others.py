"""Programs and clients that other code modes get wrong, each the smallest of its kind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from pydantic import BaseModel

from atc import Agent, tool
from atc.models.base import NoModel
from atc.result import Effect
from atc.tools.tool import Tool
from atc.traces.stores.files import FileStore
from tests.support.mcp_face import LEGACY, MODERN, Book, User, connected, gateway_of, run
from tests.support.permissions import file_of
from tests.support.tools import make_tool

NUMBER = {"type": "integer"}
TREE = {
    "$defs": {
        "Node": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}
    },
    "type": "array",
    "items": {"$ref": "#/$defs/Node"},
}


def doubling(calls: list[int]) -> Tool:
    def double(given: dict[str, Any]) -> dict[str, Any]:
        calls.append(given["n"])
        return {"n": 2 * given["n"]}

    returns = {"type": "object", "properties": {"n": NUMBER}}
    return make_tool("double", double, required=("n",), returns=returns, n=NUMBER)


def tree() -> Tool:
    return make_tool("get_tree", lambda _: [{"children": [{"children": [{"children": []}]}]}], returns=TREE)


EVERY_STATEMENT = """
import contextlib, statistics
from collections import Counter
class Kept:
    def __init__(self, n): self.n = n
@contextlib.contextmanager
def three():
    yield 3
with three() as many:
    kept = [Kept(double(n=n)['n']) for n in range(many)]
del many
match kept[1].n:
    case 2: word = 'two'
    case _: word = 'other'
answer = [Counter(each.n for each in kept)[0], statistics.mean(each.n for each in kept), word]
"""

PROGRAMS: dict[str, tuple[str, Any]] = {
    "statements of every kind": (EVERY_STATEMENT, [1, 2, "two"]),
    "a response that holds itself": ("answer = len(get_tree()[0]['children'][0]['children'])", 1),
    "awaited and not, two tools at once": (
        "import asyncio\na = double(n=1)\nb, c = await asyncio.gather(double(n=2), get_tree())\n"
        "answer = [a['n'], b['n'], len(c)]",
        [2, 4, 1],
    ),
    "awaited and not, within a coroutine": (
        "import asyncio\nasync def main():\n    a = double(n=1)\n    b = await double(n=2)\n"
        "    return [a['n'], b['n'], *[each['n'] for each in await asyncio.gather(double(n=3), double(n=4))]]\n"
        "answer = asyncio.run(main())",
        [2, 4, 6, 8],
    ),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_a_right_program_runs(case: str) -> None:
    source, value = PROGRAMS[case]

    async def main() -> None:
        async with gateway_of(doubling([]), tree(), jail=True) as gateway, connected(gateway, MODERN) as client:
            report = await run(client, source)
            assert (report["status"], report.get("value")) == ("answered", value), report

    asyncio.run(main())


@pytest.mark.parametrize("source", ["answer = dict", "import sys\nanswer = type(sys)"])
def test_a_class_is_no_answer_and_the_report_says_so(source: str) -> None:
    async def main() -> None:
        async with gateway_of(doubling([]), jail=True) as gateway, connected(gateway, MODERN) as client:
            report = await run(client, source)
            assert report["status"] == "unsolved"
            assert "answer" in report["fault"]["message"]

    asyncio.run(main())


@pytest.mark.parametrize("caught", ["BaseException", "Exception", "ToolError"])
def test_a_write_that_is_refused_is_no_success_whatever_the_program_catches(caught: str) -> None:
    book = Book()
    source = f"try:\n    append_line(text='one')\nexcept {caught}:\n    pass\nanswer = 1"

    async def main() -> None:
        async with gateway_of(book.tool, jail=True, approve="never") as gateway, connected(gateway, MODERN) as client:
            report = await run(client, source)
            assert (report["status"], report["partial"], report["value"]) == ("denied", True, 1)

    asyncio.run(main())
    assert book.lines == []


def test_what_a_run_did_before_its_server_ended_amid_a_question_is_done_once(tmp_path: Path) -> None:
    counted, book = list[int](), Book()
    counter = make_tool("add_one", lambda _: counted.append(1) or len(counted), Effect.WRITE)  # type: ignore[func-returns-value]
    given: dict[str, Any] = {"jail": True, "permissions": file_of(tmp_path, '[[rules]]\nallow = "add_one"\n')}

    async def main() -> None:
        async with gateway_of(counter, book.tool, **given) as ends, connected(ends, MODERN, User()) as client:
            asked = await client.session.call_tool(
                "run_program", {"source": "add_one()\nanswer = append_line(text='one')"}, allow_input_required=True
            )
            assert isinstance(asked, types.InputRequiredResult)
        assert (counted, book.lines) == ([1], [])
        (stored,) = FileStore(tmp_path / "runs").list()
        async with gateway_of(counter, book.tool, **given) as later, connected(later, MODERN, User()) as client:
            result = await client.call_tool("run_program", {"run": stored.run_id})
            assert result.structured_content is not None
            assert result.structured_content["status"] == "answered"

    asyncio.run(main())
    assert (counted, book.lines) == ([1], ["one"])


CHANNEL = "by the channel to the host"
WAYS = {
    "by its name": "write_file(text='x')",
    "by the scope": "globals()['write_file'](text='x')",
    "by the module": "import sys\nsys.modules['__main__'].write_file(text='x')",
    "by looking": "for name, each in list(globals().items()):\n    if name.startswith('write'): each(text='x')",
    "by the collector": (
        "import gc\nfor each in gc.get_objects():\n    if getattr(each, '__name__', '') == 'write_file': each(text='x')"
    ),
    CHANNEL: (
        "cells = getattr(double, '__clo' + 'sure__')\n"  # the check refuses the plain name
        "channel = [c.cell_contents for c in cells if hasattr(c.cell_contents, 'call')][0]\n"
        "channel.call('write_file', {'text': 'x'}, {})"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_tool_that_the_permissions_deny_is_reached_in_no_way(way: str, tmp_path: Path) -> None:
    written = list[dict[str, Any]]()
    denied = make_tool("write_file", written.append, Effect.WRITE, required=("text",), text={"type": "string"})
    rules = file_of(tmp_path, '[[rules]]\ndeny = "write_file"\n')
    body = "".join(f"    {line}\n" for line in WAYS[way].splitlines())
    source = f"double(n=1)\ntry:\n{body}except BaseException as error:\n    print(error)\nanswer = 1"

    async def main() -> None:
        made = gateway_of(doubling([]), denied, jail=True, permissions=rules)
        async with made as gateway, connected(gateway, LEGACY, User()) as client:
            report = await run(client, source)
            if way == CHANNEL:  # it comes to the host, which refuses it
                assert [each["status"] for each in report["calls"][1:]] == ["refused"], report

    asyncio.run(main())
    assert written == []


class Query(BaseModel):
    """What is looked for."""

    n: int


def test_an_asynchronous_function_with_a_model_for_an_argument_gets_the_model() -> None:
    @tool(effect="read")
    async def look(query: Query) -> str:
        """Look something up."""
        return f"{type(query).__name__} {query.n}"

    result = Agent([look], model=NoModel()).run_program("answer = look(query={'n': 3})")
    assert (result.status, result.value) == ("answered", "Query 3")
