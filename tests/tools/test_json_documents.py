"""The JSON form of tools shows their statuses and their first examples, within bounds."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from atc.models.fake import FakeModel
from atc.run.writer import WritingOptions
from atc.schemas.protocol import Example, Protocol, Status
from atc.tools.stubs import shown_examples
from atc.tools.tool import Tool, Toolset
from tests.support.writer import writer_of

PROGRAM = 'lakes = find_lakes(country="Finland")  # all of them\nanswer = get_lake(lake_id=lakes[0]["id"])\n'


def lake(name: str = "get_lake", **fields: Any) -> Protocol:
    example = Example(
        arguments={"lake_id": 3},
        response={"id": 3, "depth": 7.5},
        description="How deep is the first lake?",
        program=PROGRAM.replace("get_lake", name),
    )
    return Protocol(name=name, **{"description": "One lake.", "examples": (example,), **fields})


async def no_call(arguments: dict[str, Any]) -> Any:
    raise AssertionError


def test_the_json_form_keeps_examples_and_statuses() -> None:
    tool = lake(statuses=(Status(code=404, description="no such lake"),))
    tools = Toolset([Tool(tool, no_call), Tool(lake("bare", examples=()), no_call)])
    writer = writer_of("How deep is it?", tools, FakeModel([]), WritingOptions(tools="json"))
    prompt = asyncio.run(writer.messages([], []))[-1].content
    documents = [json.loads(line) for line in prompt.splitlines() if line.startswith("{")]
    assert documents[0]["statuses"] == [{"code": 404, "description": "no such lake"}]
    assert documents[0]["examples"] == [
        {
            "arguments": {"lake_id": 3},
            "response": {"id": 3, "depth": 7.5},
            "description": "How deep is the first lake?",
            "program": PROGRAM,
        }
    ]
    assert not {"statuses", "examples"} & documents[1].keys()


def test_the_json_form_is_bounded() -> None:
    example = Example(arguments={"a": "x" * 5_000}, response=["y" * 5_000], description="q", program="z" * 5_000)
    assert shown_examples(lake(examples=(example,) * 9)) == [{"description": "q"}] * 2
    odd = Example(response={("a", "b"): object()}, description="q")
    assert shown_examples(lake(examples=(odd,))) == [{"description": "q"}]
