"""What a model's reply costs the host, by its worst known kinds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from atc.models.endpoint_client import ReplyAccumulator
from atc.models.messages import split_reasoning
from atc.models.reply_format import ReplyFormat
from atc.programs.extract import extract
from tests.growth.harness import assert_linear

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("piece", ["`", "```\na=1\n", " ", "a=(\n", "a b\n"])
def test_the_program_in_a_reply(piece: str) -> None:
    assert_linear(lambda n: piece * n, lambda reply: extract(reply, ["find"]), most=60_000 // len(piece))


@pytest.mark.parametrize("piece", ["<think>a</think>\n", "\n ", "<think> '</think>' ", "```\n'</think>'\n```\n"])
def test_the_thoughts_in_a_reply(piece: str) -> None:
    assert_linear(lambda n: piece * n, split_reasoning, most=100_000)


@pytest.mark.parametrize("piece", ["{", "```json\n"])
def test_json_in_a_reply(piece: str) -> None:
    wanted = ReplyFormat.of(schema={"type": "object", "properties": {"a": {"type": "string"}}})
    assert wanted is not None
    assert_linear(lambda n: piece * n, wanted.read, most=50_000)


def test_a_reply_that_comes_in_pieces() -> None:
    def read(pieces: list[Any]) -> None:
        accumulator = ReplyAccumulator(10**9, None)
        for piece in pieces:
            accumulator.add(piece)
        assert accumulator.text

    def make(n: int) -> list[Any]:
        deltas = (SimpleNamespace(content=f"a b {i}", tool_calls=None) for i in range(n))
        choices = ([SimpleNamespace(index=0, delta=delta, finish_reason=None)] for delta in deltas)
        return [SimpleNamespace(choices=some, usage=None) for some in choices]

    assert_linear(make, read, most=5_000)


def test_thoughts_full_of_texts_that_end_a_reply() -> None:
    def read(pieces: list[Any]) -> None:
        accumulator = ReplyAccumulator(10**9, None, ["def find("])
        for piece in pieces:
            accumulator.add(piece)

    def make(n: int) -> list[Any]:
        said = ["<think>", *(f"{i} def find(" for i in range(n))]
        deltas = (SimpleNamespace(content=text, tool_calls=None) for text in said)
        choices = ([SimpleNamespace(index=0, delta=delta, finish_reason=None)] for delta in deltas)
        return [SimpleNamespace(choices=some, usage=None) for some in choices]

    assert_linear(make, read, most=5_000)
