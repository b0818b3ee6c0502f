"""What an agent says as a tool of another framework. The frameworks themselves are tried in tests/frameworks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from atc import Agent, Toolset, to_langchain, to_pydantic_ai, to_smolagents
from atc.calls.approval import ApprovalRequest, Refusal
from atc.errors import EnvironmentProblem, UsageError
from atc.facts import Fault
from atc.result import Call, Effect, Result
from atc.serve.frameworks.delegate import Delegate, NotRun, Waiting, key_of, text_of, told_value
from atc.serve.frameworks.pydantic_ai import _Deferring
from tests.support.agent import GOOD, agent
from tests.support.tools import make_tool


def result(status: Any, *calls: Call, **fields: Any) -> Result[Any]:
    return Result(run_id="r", task="t", status=status, calls=calls, **fields)


def a_call(status: Any, effect: Effect = Effect.WRITE) -> Call:
    return Call(index=1, attempt=0, tool="send", arguments={"to": "ann"}, effect=effect, status=status)


def test_a_description_names_the_tools() -> None:
    said = Delegate(agent()).description
    assert said.endswith("Its tools: double.")
    assert Delegate(agent(), about="Knows the shop.").description == "Knows the shop."
    with pytest.raises(UsageError, match="'a-b' cannot be a tool's name"):
        Delegate(agent(), "a-b")


def test_a_task_is_solved() -> None:
    assert text_of(asyncio.run(Delegate(agent(GOOD)).solve("Twice 21"))) == "42"
    with pytest.raises(NotRun, match="the task is empty"):
        asyncio.run(Delegate(agent()).solve(""))


def test_an_answer_is_its_sentence_and_its_value() -> None:
    assert text_of(result("answered", value={"n": 1}, answer="There is one.")) == 'There is one.\n\n{"n": 1}'
    assert text_of(result("answered", value="one", answer="one")) == "one"


def test_an_answer_that_is_incomplete_says_so() -> None:
    caught = Fault(kind="tool", reason="send(to='x') failed")
    said = text_of(result("answered", value=2, answer="2", partial=True, remarks=(caught,)))
    assert said.startswith("2\n\nincomplete: send(to='x') failed. The value rests on a run that went on")


def test_a_large_value_is_cut_for_the_model_that_called() -> None:
    said = told_value(result("answered", value=list(range(9_000))))
    assert len(said) < 21_000
    assert said.startswith("(cut: ")
    assert "\n[0, 1, 2," in said
    assert "the whole value has 52,890 characters" in said


def test_a_failure_says_what_is_done_already() -> None:
    fault = Fault(kind="limit", reason="no budget is left.")
    ended = result("budget", a_call("ok"), a_call("in_doubt"), a_call("ok", Effect.READ), fault=fault)
    said = Delegate(agent()).failure(ended)
    assert said.count("send(to='ann')") == said.count('send(to="ann")') + 2
    assert "Done already, so never ask for it again: " in said
    assert "In doubt: " in said
    assert ".." not in said


def test_an_approval_is_of_one_call_and_all_that_its_question_says() -> None:
    asked = ApprovalRequest("send", {"to": "ann"}, Effect.WRITE, "Send it.")
    waiting = Waiting()
    assert isinstance(waiting.ask(asked), Refusal)
    allowed = Waiting(frozenset(map(key_of, waiting.requests)))
    assert allowed.ask(asked) is True
    for other in (
        ApprovalRequest("send", {"to": "bob"}, Effect.WRITE, "Send it."),
        ApprovalRequest("send", {"to": "ann"}, Effect.WRITE, "Send it.", warnings=("made up",)),
        ApprovalRequest("send", {"to": "ann"}, Effect.WRITE, "Send it.", repeats="run-1"),
    ):
        assert isinstance(allowed.ask(other), Refusal)


def test_a_run_that_waits_says_for_what_and_that_asking_again_does_not_help() -> None:
    (giving, sent) = sender(WRITES.format("ann"), approve="park")
    waiting = asyncio.run(Delegate(giving).solve("Send it"))
    said = Delegate(giving).failure(waiting)
    assert said.startswith(f"No answer: run {waiting.run_id} waits for approval: send(to='ann') (`atc runs approve")
    assert "the task is not to be given again" in said
    assert (waiting.status, sent) == ("waiting", [])


def test_a_grant_of_the_framework_is_asked_for_though_the_agent_would_wait() -> None:
    (parking, sent) = sender(WRITES.format("ann"), approve="park")
    asked: list[ApprovalRequest] = []
    ended = asyncio.run(Delegate(Delegate(parking).asking(lambda request: not asked.append(request))).solve("Send it"))
    assert (ended.status, sent, len(asked)) == ("answered", ["ann"], 1)


WRITES = "```python\nanswer = send(to='{}')\n```"


def sender(*replies: str, **settings: Any) -> tuple[Agent, list[str]]:
    sent: list[str] = []
    text = {"type": "string"}
    made = make_tool("send", lambda arguments: sent.append(arguments["to"]) or "ok", Effect.WRITE, to=text)
    return agent(*replies, tools=Toolset([made]), **settings), sent


def test_a_grant_is_that_of_one_agent() -> None:
    (giving, sent), (other, kept) = (
        sender(WRITES.format("ann"), approve="always"),
        sender(WRITES.format("ann"), approve="never"),
    )
    deferring = Delegate(other).asking(lambda _: True)

    async def both() -> list[Result[Any]]:
        return list(await asyncio.gather(Delegate(giving).solve("Send it"), Delegate(other).solve("Send it")))

    assert [each.status for each in asyncio.run(both())] == ["answered", "denied"]
    assert (sent, kept) == (["ann"], [])
    assert other._approval is not deferring._approval


def test_of_two_waiting_calls_by_one_name_none_is_approved_for_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    class ApprovalRequired(Exception):
        pass

    module = ModuleType("pydantic_ai.exceptions")
    module.ApprovalRequired = ApprovalRequired  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pydantic_ai", ModuleType("pydantic_ai"))
    monkeypatch.setitem(sys.modules, "pydantic_ai.exceptions", module)
    made, sent = sender(*map(WRITES.format, ("ann", "bob", "cid", "cid")))
    deferring, place = _Deferring(Delegate(made)), ("", "call-1")
    for approved in (False, False, True):  # the second is another conversation's; whose is the yes?
        with pytest.raises(ApprovalRequired):
            asyncio.run(deferring.solve("Send it", place, approved=approved))
    assert sent == []
    result = asyncio.run(deferring.solve("Send it", place, approved=True))
    assert (result.status, sent) == ("answered", ["cid"])


@pytest.mark.parametrize(
    ("module", "make", "package"),
    [
        ("langchain_core.tools", to_langchain, "langchain-core"),
        ("pydantic_ai", to_pydantic_ai, "pydantic-ai-slim"),
        ("smolagents", to_smolagents, "smolagents"),
    ],
)
def test_a_framework_that_is_missing_is_named(
    module: str, make: Callable[[Agent], Any], package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(EnvironmentProblem, match=f"pip install {package}"):
        make(agent())
