"""The ruler of code mode counts what stands in a context, derives programs from calls, and reads what a model says."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.errors import UsageError
from atc.tools.tool import Toolset
from benchmarks.codemode.arms import Scripted, at_once, awaited, one_by_one, ours, plain
from benchmarks.codemode.desk import Context, opened
from benchmarks.codemode.github import Examples
from benchmarks.codemode.plain import definition, made_tools, plain_server
from benchmarks.codemode.tasks import CodeTask, chained, layers
from benchmarks.codemode.tokens import footprint, gguf_facts, tokenizer_of

TOKENS = tokenizer_of(None)


def gguf(facts: Mapping[str, Any]) -> bytes:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def value(made: Any) -> bytes:
        if isinstance(made, str):
            return struct.pack("<I", 8) + text(made)
        if isinstance(made, list):
            return struct.pack("<IIQ", 9, 8, len(made)) + b"".join(map(text, made))
        return struct.pack("<II", 4, made)

    body = b"".join(text(name) + value(made) for name, made in facts.items())
    return struct.pack("<4sIQQ", b"GGUF", 3, 0, len(facts)) + body


def test_a_models_own_tokenizer_counts(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    file = tmp_path / "tiny.gguf"
    letters = ["a", "b", "c", "ab", "Ġ"]
    facts = {
        "general.name": "Tiny",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": letters,
        "tokenizer.ggml.merges": ["a b"],
        "more": 3,
    }
    file.write_bytes(gguf(facts))
    assert gguf_facts(file) == facts
    tokenizer = tokenizer_of(file)
    assert (tokenizer.name, tokenizer.count("ab"), tokenizer.count("abc a")) == ("Tiny", 1, 4)


@pytest.mark.parametrize("junk", [b"GGUF", b"nothing of the kind at all, really", gguf({"a": "b"})[:-1]])
def test_what_is_no_model_is_refused(tmp_path: Path, junk: bytes) -> None:
    file = tmp_path / "junk.gguf"
    file.write_bytes(junk)
    with pytest.raises(UsageError, match="is no GGUF file"):
        gguf_facts(file)


def test_without_a_model_four_characters_are_a_token() -> None:
    assert (TOKENS.name, TOKENS.count("x" * 40)) == ("4 characters a token", 10)


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=8))
def test_every_turn_reads_the_context_again(turns: list[tuple[int, int]]) -> None:
    context = Context(len, ["d" * 30], "t" * 10)
    for asked, answered in turns:
        context.turn([("f", {"x": "a" * asked})], ["b" * answered])
    context.close()
    sizes = [40]
    for asked, answered in turns:
        sizes.append(sizes[-1] + len('{"name": "f", "arguments": {"x": ""}}') + asked + answered)
    assert (context.size, context.billed, context.trips) == (sizes[-1], sum(sizes), len(turns))


def test_calls_wait_for_the_answers_that_they_need() -> None:
    calls = [("find", {"name": "Oslo"}), ("find", {"name": "Rome"}), ("sun", {"city": 71}), ("compare", {"of": [3, 4]})]
    answers: Sequence[Any] = [{"id": 71}, {"id": 99}, {"minutes": 3}, None]
    assert layers(calls, answers, "Oslo or Rome?") == [[0, 1], [2], [3]]
    assert layers(calls, answers, "Oslo or Rome, city 71, 3 and 4?") == [[0, 1, 2, 3]]


def test_a_tasks_own_calls_become_one_program() -> None:
    steps = [
        {"id": "a", "tool": "find", "args": {"name": "Oslo"}, "output": {"hits": [{"city": 71}]}},
        {"id": "b", "tool": "sun", "args": {"city": 71, "unit": "min"}, "output": {"length": 1130}},
    ]
    record = {"query": "How long is the day in Oslo?", "gold": steps, "final_step": "b", "expected": {"length": 1130}}
    assert chained(record) == ("s1 = find(name='Oslo')\ns2 = sun(city=s1['hits'][0]['city'], unit='min')\nanswer = s2")
    part = {**record, "expected": {"day": 1130}}
    assert chained(part).endswith("answer = {'day': s2['length']}")
    assert chained({**record, "expected": {"day": 7}}) == ""


def test_a_program_is_written_as_fastmcp_wants_it() -> None:
    made = awaited("found = find(name='Oslo')\nanswer = len(found)", {"find"})
    assert "found = parsed(await call_tool('find', {'name': 'Oslo'}))" in made
    assert made.endswith("answer = len(found)\nreturn answer")


def test_an_openapi_document_answers_with_its_examples() -> None:
    content = {"application/json": {"examples": {"one": {"$ref": "#/components/examples/pet"}}}}
    document = {
        "paths": {
            "/pets/mine": {"get": {"responses": {"204": {}}}},
            "/pets/{id}": {"get": {"responses": {"404": {}, "200": {"content": content}}}},
        },
        "components": {"examples": {"pet": {"value": {"name": "Rex"}}}},
    }
    examples = Examples(document)

    async def ask(path: str) -> tuple[int, bytes]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(examples.answer)) as client:
            answer = await client.get(f"http://pets.test{path}")
            return answer.status_code, answer.content

    assert asyncio.run(ask("/pets/7")) == (200, b'{"name": "Rex"}')
    assert asyncio.run(ask("/pets/mine")) == (204, b"")
    assert asyncio.run(ask("/owners"))[0] == 404


def a_task(tools: Toolset) -> CodeTask:
    first, second = list(tools)[:2]
    argument = tools[first].protocol.required[0], tools[second].protocol.required[0]
    calls = ((first, {argument[0]: 3}), (second, {argument[1]: 4}))
    program = f"answer = {first}({argument[0]}=3)['total'] + {second}({argument[1]}=4)['total']"
    return CodeTask("two", "Read number 3 and number 4.", calls, program, lambda value: value == 7)


def test_plain_mcp_takes_a_turn_for_each_call_or_for_each_layer() -> None:
    tools = made_tools(6)
    task = a_task(tools)

    async def taken() -> tuple[Any, Any]:
        async with opened(plain_server(tools)) as desk:
            one, answers = await plain(Scripted(desk, task, TOKENS.count), one_by_one(task))
            both, _ = await plain(Scripted(desk, task, TOKENS.count), at_once(task, answers))
        return one, both

    one, both = asyncio.run(taken())
    assert (one.trips, both.trips, one.failed) == (2, 1, 0)
    assert one.context == both.context
    assert one.billed > both.billed  # the definitions are read once more


def test_our_server_takes_one_turn_where_its_description_holds_the_tools(tmp_path: Path) -> None:
    from atc.serve.mcp.gateway import Gateway
    from atc.serve.mcp.server import Face
    from atc.settings import Settings

    tools = made_tools(3)
    task = a_task(tools)

    async def taken() -> Any:
        settings = Settings.load().model_copy(update={"runs_dir": tmp_path / "r", "catalogue": tmp_path / "c"})
        gateway = Gateway(tools, settings)
        try:
            async with opened(Face(gateway).server) as desk:
                return await ours(Scripted(desk, task, TOKENS.count), None)
        finally:
            await gateway.aclose()

    tally = asyncio.run(taken())
    assert (tally.trips, tally.right, tally.failed) == (1, True, 0), tally.error


def test_the_footprint_does_not_grow_with_the_tools(tmp_path: Path) -> None:
    few = asyncio.run(footprint(made_tools(60), TOKENS, tmp_path))
    many = asyncio.run(footprint(made_tools(600), TOKENS, tmp_path))
    assert abs(few["atc"] - many["atc"]) <= 2
    assert many["plain"] > 9 * few["plain"]


def test_made_tools_have_names_of_their_own() -> None:
    tools = made_tools(500)
    assert len(tools) == 500
    assert definition(next(iter(tools.values())).protocol).output_schema is None
