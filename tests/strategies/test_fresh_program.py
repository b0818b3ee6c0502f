"""A program that the check refused is followed by one that is drawn as the first was, and told nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from atc import Agent, Toolset
from atc.models.base import ModelRequest, Reply
from atc.models.fake import FakeModel
from atc.result import Result
from atc.strategies.writer import SAMPLING_TEMPERATURE
from tests.support.tools import make_tool

TASK = "Turn the heating on, and tell the temperature."
REFUSED = "```python\nanswer = get_wether()\n```"
OTHER = "```python\nanswer = get_wether()['celsius']\n```"
FAILS = "```python\nanswer = get_temperature()['kelvin']\n```"
WARM = "```python\nanswer = get_temperature()['celsius']\n```"
NOTES = "get_wether"


class Sampled(FakeModel):
    """Notes at which temperature each reply was sampled."""

    def __init__(self, replies: Sequence[str]) -> None:
        super().__init__(replies)
        self.temperatures: list[float] = []

    async def generate(self, request: ModelRequest) -> Reply:
        self.temperatures.append(request.sampling.temperature)
        return await super().generate(request)


def ran(*replies: str, rules: str = "+fresh-program", **settings: Any) -> tuple[Result, list[float], list[str]]:
    tools = Toolset([make_tool("get_temperature", lambda _: {"celsius": 21})])
    model = Sampled(replies)
    with Agent(tools, model=model, sentence=False, rules=rules, **settings) as agent:
        result = agent.run(TASK)
    return result, model.temperatures, [prompt[-1].content for prompt in model.prompts]


def test_the_next_prompt_is_the_first_one_and_sampled_hotter() -> None:
    result, temperatures, prompts = ran(REFUSED, WARM)
    assert result.value == 21
    assert prompts[0] == prompts[1]
    assert temperatures == [0.0, SAMPLING_TEMPERATURE]


def test_where_the_rule_is_off_the_notes_tell() -> None:
    result, _, prompts = ran(REFUSED, WARM, rules="all,-fresh-program")
    assert result.value == 21
    assert NOTES in prompts[1]


def test_the_same_program_again_is_drawn_once_more_from_the_same_prompt() -> None:
    result, temperatures, prompts = ran(REFUSED, REFUSED, WARM)
    assert result.value == 21
    assert len(set(prompts)) == 1
    assert temperatures[2] > SAMPLING_TEMPERATURE


def test_once_a_program_ran_its_failure_is_told() -> None:
    result, _, prompts = ran(REFUSED, FAILS, REFUSED, WARM)
    assert result.value == 21
    assert prompts[0] == prompts[1]
    assert all("kelvin" in prompt for prompt in prompts[2:])


@pytest.mark.parametrize("count", [1, 2])
def test_several_are_drawn_alike(count: int) -> None:
    result, _, prompts = ran(*[REFUSED] * 2, *[WARM] * 4, candidates=2, revision_candidates=count)
    assert result.value == 21
    assert len(set(prompts)) == 1
