"""The agent: every way a run can end, where and how often it runs, and what it waits for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, Result, RunFailed, UsageError
from atc.errors import ModelError, ModelUnavailable
from atc.models.base import Message, Reply
from atc.models.fake import FakeModel, Scripted
from atc.sandboxes.process.driver import ProcessSandbox
from tests.support.agent import BAD, GOOD, agent, double, slow
from tests.support.fake_openai_server import fails, says, serving
from tests.support.tools import make_tool

# -- how a run ends --------------------------------------------------------------------------------------------------


def test_a_task_is_answered() -> None:
    result = agent(GOOD).run("double 21")
    assert (result.status, result.value, result.unwrap(), result.answer) == ("answered", 42, 42, "42")
    assert result.program == "answer = double(n=21)\n"
    assert [(call.tool, call.arguments, call.value, call.line) for call in result.calls] == [
        ("double", {"n": 21}, 42, 1)
    ]
    assert result.isolation in ("process/N", "process/L")
    assert (result.usage.model_calls, result.usage.tool_calls) == (1, 1)
    assert result.fault is None


def test_tools_of_toolsets_stand_beside_functions() -> None:
    triple = make_tool("triple", lambda arguments: 3 * arguments["n"])
    made = agent("```python\nanswer = triple(n=double(n=7))\n```", tools=[double, triple])
    assert made.run("six times 7").value == 42


def test_a_program_that_fails_is_revised_with_what_went_wrong() -> None:
    made = agent(BAD, GOOD)
    result = made.run("double 21")
    assert (result.status, result.value, len(result.revisions)) == ("answered", 42, 2)
    assert [(call.attempt, call.status) for call in result.calls] == [(0, "ok"), (1, "replayed")]
    assert result.faults[0].line == 1


def test_a_run_without_an_answer_raises_only_when_it_is_unwrapped() -> None:
    result = agent(*["no code here"] * 99, max_revisions=1).run("double 21")
    assert (result.status, result.value, result.answer, len(result.revisions)) == ("unsolved", None, "", 2)
    assert result.fault is not None
    with pytest.raises(RunFailed, match=f"run {result.run_id} ended as unsolved: ") as caught:
        result.unwrap()
    assert caught.value.result is result


@pytest.mark.parametrize(
    "junk",
    ["", "   ", "I cannot do that.", "```python\n```", "```python\nprint('hi')\n```", "```python\nwhile",
     "\x00\ud800", "{" * 5000,
     Reply("```python\nanswer = [" + "1, " * 2000, "length", 10, 6000, 0.0)],
)  # fmt: skip
def test_a_junk_reply_costs_a_revision_and_no_more(junk: Scripted) -> None:
    result = agent(junk, junk, junk, junk, GOOD, max_revisions=3).run("double 21")
    assert result.status in ("answered", "unsolved")
    first = result.revisions[0]
    assert first.findings or first.fault
    result = agent(junk, GOOD).run("double 21")
    assert (result.status, result.value) == ("answered", 42)


def test_a_program_that_comes_again_costs_a_revision_and_the_next_prompt_says_so() -> None:
    model = FakeModel([BAD, BAD, GOOD])
    result = Agent([double], model=model, approve="always", sentence=False).run("double 21")
    assert (result.value, len(result.revisions)) == (42, 3)
    said = ["The same program was written again." in prompt[-1].content for prompt in model.prompts]
    assert said == [False, False, True]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"budget_model_calls": 1}, "1 model calls"),
        ({"budget_tokens": 20}, "tokens"),
        ({"budget_s": 0.4, "tools": (slow,)}, "0.4 s"),
    ],
)
def test_a_budget_that_is_used_up_ends_the_run(settings: dict[str, Any], words: str) -> None:
    program = GOOD.replace("double", "slow") if "tools" in settings else BAD
    began = time.monotonic()
    result = agent(program, program, **settings).run("double 21")
    assert result.status == "budget"
    assert result.fault is not None
    assert result.fault.kind == "limit"
    assert words in result.fault.message
    assert time.monotonic() - began < 25
    with pytest.raises(RunFailed, match="budget"):
        result.unwrap()


def test_a_model_that_fails_in_the_middle_is_a_result() -> None:
    result = agent(BAD, ModelError("the endpoint broke off")).run("double 21")
    assert result.status == "failed"
    assert result.fault is not None
    assert "the endpoint broke off" in result.fault.message
    assert len(result.calls) == 1


@pytest.mark.parametrize("failure", [ModelError("gone"), ModelUnavailable("gone"), None])
def test_a_computed_answer_stands_when_its_sentence_fails(failure: Exception | None) -> None:
    replies: list[Scripted] = [GOOD] if failure is None else [GOOD, failure]
    budget: dict[str, Any] = {"budget_model_calls": 1} if failure is None else {}
    result = agent(*replies, sentence=True, **budget).run("double 21")
    assert (result.status, result.value, result.answer) == ("answered", 42, "42")


def test_a_sentence_that_takes_too_long_does_not_cost_the_answer() -> None:
    for budget_s in (1.0, 10.0, 30.0):  # a busy machine may use up the first before the sentence is asked for
        asked: list[Any] = []

        def late(prompt: Any, asked: list[Any] = asked, budget_s: float = budget_s) -> str:
            asked.append(prompt)
            time.sleep(budget_s + 0.2)
            return "It is 42."

        result = agent(GOOD, late, sentence=True, budget_s=budget_s).run("double 21")
        if asked:
            break
    assert result.value == 42


# -- where and how often it runs -------------------------------------------------------------------------------------


def test_run_works_inside_a_running_loop() -> None:
    async def notebook() -> Result:
        return agent(GOOD).run("double 21")

    assert asyncio.run(notebook()).value == 42

    async def failing() -> Result:
        return agent(GOOD).run("   ")

    with pytest.raises(UsageError, match="the task is empty"):
        asyncio.run(failing())


def test_two_runs_at_once_do_not_meet() -> None:
    def reply(messages: Sequence[Message]) -> str:  # which of the two asks first is open
        return GOOD if "double 21" in messages[-1].content else GOOD.replace("21", "4")

    made = Agent([double], model=FakeModel([reply, reply]), approve="always", sentence=False)

    async def go() -> list[Result]:
        return await asyncio.gather(made.arun("double 21"), made.arun("double 4"))

    results = asyncio.run(go())
    assert [result.value for result in results] == [42, 8]
    assert len({result.run_id for result in results}) == 2
    assert all(len(result.calls) == 1 for result in results)


def test_threads_may_share_an_agent() -> None:
    made = Agent([double], model=FakeModel([GOOD] * 3), approve="always", sentence=False)
    values: list[Any] = []
    threads = [threading.Thread(target=lambda: values.append(made.run("double 21").value)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == [42] * 3


@pytest.mark.usefixtures("nothing_left")
def test_one_agent_with_a_real_endpoint_and_its_own_sandbox_runs_many_times() -> None:
    with serving(says(GOOD), says(GOOD), fails(401)) as server:
        sandbox = ProcessSandbox()
        with Agent(
            [double], model="tiny", base_url=server.url, api_key="sk-12345678", approve="always", sentence=False,
            sandbox=sandbox,
        ) as made:  # fmt: skip
            assert made.run("double 21").value == 42
            assert made.run("double 21 again").value == 42
            with pytest.raises(ModelUnavailable):
                made.run("double 21 once more")
        made.close()


@pytest.mark.usefixtures("nothing_left")
def test_an_asynchronous_with_lets_go_of_model_and_sandbox() -> None:
    async def go() -> tuple[Result, Agent]:
        async with agent(GOOD) as made:
            return await made.arun("double 21"), made

    result, made = asyncio.run(go())
    assert result.value == 42
    assert (made._resources._opened, made._resources._own_sandbox) == (None, None)


def test_the_sandbox_is_closed_though_the_model_fails_to() -> None:
    closed: list[str] = []

    class Held:
        def __init__(self, name: str) -> None:
            self.name = name

        async def aclose(self) -> None:
            closed.append(self.name)
            if self.name == "model":
                raise OSError("it does not end")

    made = agent(GOOD)
    made._resources._opened, made._resources._own_sandbox = Held("model"), Held("sandbox")
    with pytest.raises(OSError, match="does not end"):
        made.close()
    assert closed == ["model", "sandbox"]
    made.close()
    assert len(closed) == 2


def test_keep_runs_false_leaves_nothing(tmp_path: Path) -> None:
    result = agent(GOOD, keep_runs=False, runs_dir=tmp_path / "none").run("double 21")
    assert (result.value, result.trace) == (42, None)
    assert not (tmp_path / "none").exists()


def test_runs_are_for_their_owner_only() -> None:
    result = agent(GOOD).run("double 21")
    assert result.trace is not None
    folder = Path(result.trace).parent
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
