"""The first program is written from few documents, and the next one from all that are offered."""

from __future__ import annotations

from typing import Any

from atc import Agent, Toolset
from atc.errors import ModelError
from atc.models.fake import FakeModel
from atc.result import Result
from atc.strategies.few_tools import FEW
from tests.support.tools import make_tool

TASK = "What is the weather in Rome?"
FAILS = "```python\nanswer = get_weather()['nothing']\n```"
WARM = "```python\nanswer = get_weather()['celsius']\n```"


def tools(count: int = 12) -> Toolset:
    warm = make_tool("get_weather", lambda _: {"celsius": 21})
    return Toolset([*(make_tool(f"old_weather_{n}", lambda _, k=n: {"n": k}) for n in range(count)), warm])


def ran(*replies: str, given: Toolset | None = None, **settings: Any) -> tuple[Result, list[str]]:
    model = FakeModel(replies)
    with Agent(given or tools(), model=model, sentence=False, rules="+few-tools-first", **settings) as agent:
        result = agent.run(TASK)
    return result, [prompt[-1].content for prompt in model.prompts]


def documents(prompt: str) -> int:
    return prompt.count("\ndef ")


def test_the_first_prompt_has_the_likeliest_documents_and_the_next_one_all() -> None:
    result, prompts = ran(FAILS, WARM)
    assert (result.value, len(result.revisions)) == (21, 2)
    assert [documents(prompt) for prompt in prompts] == [FEW, 13]
    assert all("def get_weather(" in prompt for prompt in prompts)
    assert "find_tools" not in prompts[0], "all tools can be called: there is nothing to look for"


def test_a_program_may_call_a_tool_whose_document_it_was_not_shown() -> None:
    hidden = next(f"old_weather_{n}" for n in range(12) if f"def old_weather_{n}(" not in ran(WARM)[1][0])
    result, prompts = ran(f"```python\nanswer = {hidden}()['n']\n```")
    assert (result.status, len(prompts)) == ("answered", 1)


def test_where_the_rule_is_off_or_tools_are_few_all_are_shown() -> None:
    model = FakeModel([WARM])
    with Agent(tools(), model=model, sentence=False) as agent:
        assert agent.run(TASK).value == 21
    assert documents(model.prompts[0][-1].content) == 13
    _, prompts = ran(WARM, given=tools(FEW - 1))
    assert documents(prompts[0]) == FEW


def test_of_many_tools_the_first_prompt_has_the_first_of_those_that_were_found() -> None:
    result, prompts = ran(FAILS, WARM, given=tools(60), max_tools=10)
    assert result.value == 21
    assert [documents(prompt) for prompt in prompts] == [FEW + 1, 11], "and `find_tools`"
    assert "def find_tools(" in prompts[0]


def test_a_program_that_only_asks_for_tools_is_the_first_one_too() -> None:
    asks = "```python\nfind_tools(query='a poem')\n```"
    result, prompts = ran(asks, WARM, given=tools(60), max_tools=10)
    assert result.value == 21
    assert documents(prompts[0]) == FEW + 1
    assert documents(prompts[1]) > FEW + 2


def test_a_resumed_run_shows_all() -> None:
    model = FakeModel([FAILS, ModelError("cut")])
    with Agent(tools(), model=model, sentence=False, rules="+few-tools-first") as agent:
        cut = agent.run(TASK)
    assert cut.status == "failed"
    again = FakeModel([WARM])
    with Agent(tools(), model=again, sentence=False, rules="+few-tools-first") as agent:
        assert agent.resume(cut.run_id).value == 21
    assert documents(again.prompts[0][-1].content) == 13
