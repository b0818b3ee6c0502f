"""``agent.call``: one tool without a model, held to its schema first, as a run of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, Toolset, UsageError
from atc.result import Effect
from atc.run.calling import program_of
from atc.tools.tool import Tool
from tests.support.kept import TEXT, kept
from tests.support.tools import make_tool

pytestmark = pytest.mark.inline

COUNT = {"type": "integer", "minimum": 1}


def tools() -> list[Tool]:
    repeat = make_tool("repeat", lambda given: given["text"] * given.get("times", 1), text=TEXT, times=COUNT)
    odd = make_tool("odd", lambda given: sorted(given), **{"from": TEXT, "id": TEXT, "dry_run": TEXT, "a-b": TEXT})
    send = make_tool("send", lambda given: given["text"], Effect.WRITE, text=TEXT)
    return [repeat, odd, send, kept("twice", "answer = repeat(text=text, times=2)", repeat, parameters={"text": TEXT})]


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tools(), runs_dir=tmp_path / "runs", approve="never", learn=False)


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("repeat", {"text": "ab", "times": 2}, "abab"),
        ("twice", {"text": "ab"}, "abab"),
        ("twice", {"text": "ü€😀"}, "ü€😀ü€😀"),
        ("odd", {"from": "a", "id": "b", "dry_run": "c", "a-b": "d"}, ["a-b", "dry_run", "from", "id"]),
        ("odd", {"from_": "a", "id": "b", "dry_run": "c", "a_b": "d"}, ["a-b", "dry_run", "from", "id"]),
    ],
)
def test_a_tool_is_called_without_a_model(agent: Agent, name: str, arguments: dict[str, Any], value: Any) -> None:
    result = agent.call(name, arguments)
    assert (result.status, result.value) == ("answered", value), result.fault and result.fault.message


def test_arguments_may_be_named(agent: Agent) -> None:
    assert agent.call("repeat", text="a", times=3).value == "aaa"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("twise", {}, "there is no tool 'twise': did you mean twice?"),
        ("xyz", {}, "there is no tool 'xyz': `agent.tools` has the names"),
        ("twice", {}, "twice needs 'text': it takes text"),
        ("twice", {"text": "a", "texts": 1}, "twice has no parameter 'texts': did you mean 'text'? it takes text"),
        ("twice", {"text": 3}, r"twice does not take these arguments: $.text: 3 is not of type"),
        ("repeat", {"text": "a", "times": 0}, r"repeat does not take these arguments: $.times: 0 is less than"),
        ("odd", {"from": "a", "from_": "b", "id": "", "dry_run": "", "a-b": ""}, "given twice"),
        ("twice", {"text": {1, 2}}, "an argument of twice is no JSON value"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_run(
    agent: Agent, name: str, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        agent.call(name, arguments)
    assert said in str(refused.value)
    assert agent.store.list() == []


def test_a_write_is_decided_about_as_in_any_run(agent: Agent) -> None:
    assert agent.call("send", text="a").status == "denied"
    planned = agent.call("send", text="a", dry_run=True)
    assert [call.arguments for call in planned.planned] == [{"text": "a"}]


def test_it_is_resumed_as_any_run_is(tmp_path: Path) -> None:
    given: dict[str, Any] = {"runs_dir": tmp_path / "runs", "approve": "park", "learn": False}
    waiting = Agent(tools(), **given).call("send", text="a")
    assert waiting.status == "waiting"
    Agent(tools(), **given).approve(waiting.run_id)
    assert Agent(tools(), **given).resume(waiting.run_id).value == "a"


@pytest.mark.parametrize("name", ["id", "input", "answer", "repeat", "parallel", "_", "print", "ToolError"])
def test_an_argument_with_a_name_that_no_input_can_have_is_given_under_another(name: str) -> None:
    source, inputs = program_of("f", {name: 1, "other": 2}, Toolset(tools()))
    (own,) = [each for each, value in inputs.items() if value == 1]
    assert source == f"answer = f({name}={own}, other=other)"
    assert own == name if name == "_" else own == f"{name}_1"


def test_an_argument_that_the_schema_leaves_open_may_be_a_word_of_python(tmp_path: Path) -> None:
    described = make_tool("tag", lambda given: given, text=TEXT)
    open_ = described.protocol.parameters | {"additionalProperties": True}
    tag = replace(described, protocol=described.protocol.model_copy(update={"parameters": open_}))
    agent = Agent([tag], runs_dir=tmp_path / "runs", learn=False)
    assert agent.call("tag", {"text": "a", "class": "b"}).value == {"text": "a", "class": "b"}


def test_a_parameter_may_have_the_name_of_a_tool_within(tmp_path: Path) -> None:
    repeat = tools()[0]
    inner = kept("twice", "answer = repeat(text=text, times=2)", repeat, parameters={"text": TEXT})
    outer = kept("quoted", "answer = twice(text=repeat)", inner, parameters={"repeat": TEXT})
    agent = Agent([outer], runs_dir=tmp_path / "runs", approve="never", learn=False)
    assert agent.call("quoted", repeat="ab").value == "abab"
