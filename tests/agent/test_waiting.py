"""A run says where its prompts go, that it waits for the model, and what a reply held in the place of a program."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console

from atc import Agent
from atc.cli.view import RunView
from atc.models.fake import FakeModel
from atc.models.messages import Message, Reply
from atc.models.openai_compatible import OpenAICompatible
from atc.run import asking
from tests.support import fake_openai_server as fake
from tests.support.agent import GOOD, agent, double
from tests.support.fake_openai_server import serving

PROMPT = [Message("user", "hi")]


class Slow(FakeModel):
    """Says a word after the first event that tells of waiting, and the rest after the second."""

    def __init__(self) -> None:
        super().__init__([GOOD])
        self.waited: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def complete(self, messages: Sequence[Message], **options: Any) -> Reply:
        for _ in range(2):
            await self.waited.get()
            options["on_text"]("a word")
        return await super().complete(messages, **options)


def test_silence_of_a_model_is_told_and_ends_with_its_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "WAITING_S", 0.01)
    kinds: list[str] = []
    told: list[dict[str, Any]] = []

    async def ask_and_wait() -> Reply:
        model = Slow()

        def emit(kind: Any, data: dict[str, Any]) -> None:
            kinds.append(kind)
            if kind == "model_waiting":
                told.append(data)
                model.waited.put_nowait(data)

        reply = await asking.ask(model, emit, "program", PROMPT)
        await asyncio.sleep(0.05)  # nothing is told of any more
        return reply

    assert asyncio.run(ask_and_wait()).text == GOOD
    assert kinds == ["model_started", "model_waiting", "model_waiting", "model_ended"]
    assert [each["purpose"] for each in told] == ["program", "program"]
    assert 0 < told[0]["silent"] <= told[0]["seconds"] < told[1]["seconds"]
    assert told[1]["silent"] < told[1]["seconds"]  # a word came between


def test_waiting_ends_when_the_model_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "WAITING_S", 0.01)
    told: list[str] = []

    async def ask_in_vain() -> None:
        with pytest.raises(ZeroDivisionError):
            await asking.ask(FakeModel([ZeroDivisionError()]), lambda kind, data: told.append(kind), "program", PROMPT)
        await asyncio.sleep(0.05)

    asyncio.run(ask_in_vain())
    assert told == ["model_started"]


def test_the_endpoint_stands_in_the_first_line_of_a_run_and_in_its_trace() -> None:
    shown = io.StringIO()
    with serving(fake.says(GOOD)) as server:
        model = OpenAICompatible("tiny", server.url.replace("//", "//user:hunter2@"), "sk-very-secret-0123456789")
        view = RunView(Console(file=shown, width=200))
        made = Agent([double], approve="always", model=model, sentence=False, on_event=view)
        result = made.run("double 21")
    assert result.value == 42
    assert shown.getvalue().splitlines()[0] == f"run {result.run_id}  model tiny at {server.url}"
    started = made.store.find(result.run_id).first("run_started")
    assert started is not None
    assert started["endpoint"] == server.url


def test_a_model_on_this_machine_has_no_endpoint_to_name() -> None:
    shown = io.StringIO()
    solved = agent(GOOD, on_event=RunView(Console(file=shown, width=200)))
    result = solved.run("double 21")
    assert shown.getvalue().splitlines()[0] == f"run {result.run_id}  model fake"


def test_a_reply_that_only_calls_tools_is_a_finding_that_shows_it() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "double", "arguments": '{"n": 21}'}}
    with serving(fake.whole("tool_calls", content=None, tool_calls=[call]), fake.says(GOOD)) as server:
        model = OpenAICompatible("tiny", server.url)
        result = Agent([double], approve="always", model=model, sentence=False).run("double 21")
    assert result.value == 42
    (finding,) = result.revisions[0].findings
    assert finding.kind == "no_program"
    assert 'only calls of tools (double {"n": 21})' in finding.message
    assert finding.message in server.requests[1]["messages"][-1]["content"]


def test_a_refusal_ends_the_run_and_is_its_fault() -> None:
    with serving(fake.whole(content=None, refusal="I cannot help with that.")) as server:
        model = OpenAICompatible("tiny", server.url)
        result = Agent([double], approve="always", model=model, sentence=False).run("double 21")
    assert result.status == "failed"
    assert result.fault is not None
    assert "I cannot help with that." in result.fault.message
    assert len(server.requests) == 1
