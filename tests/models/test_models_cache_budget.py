"""Replies can be kept on disk, a run's spending has limits, and the fake model does what its script says."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry.context import Context
from opentelemetry.metrics import NoOpMeter
from opentelemetry.trace import NoOpTracer

from atc.batch.limits import NO_LIMITS, Ledger, SpendingModel
from atc.errors import BudgetExceeded, ModelError
from atc.models.base import Model, WrappedModel, bounded_tokens
from atc.models.budget import Budget, BudgetedModel
from atc.models.cache import CachedModel
from atc.models.fake import FakeModel
from atc.models.messages import Message, ModelRequest, Reply
from atc.traces.telemetry.calls import ObservedModel
from atc.traces.telemetry.conventions import Metrics

PROMPT = [Message("user", "x" * 40)]  # about 14 tokens


def ask(model: Model, messages: Sequence[Message] = PROMPT, **options: Any) -> Reply:
    return asyncio.run(model.complete(messages, **options))


# The fake.


def test_the_fake_follows_its_script_and_remembers_the_prompts() -> None:
    whole = Reply("cut", "length", 1, 2, 3.0)
    fake = FakeModel(["a", whole, lambda messages: messages[-1].content.upper(), ModelError("down")])
    assert ask(fake).text == "a"
    assert ask(fake) is whole
    assert ask(fake, [Message("user", "shout")]).text == "SHOUT"
    with pytest.raises(ModelError, match="down"):
        ask(fake)
    with pytest.raises(ModelError, match="4 replies and was asked 5 times"):
        ask(fake)
    assert [prompt[-1].content for prompt in fake.prompts][:3] == ["x" * 40, "x" * 40, "shout"]


# The cache.


def test_the_same_question_is_answered_from_the_disk(tmp_path: Path) -> None:
    fake = FakeModel(["first", "second"])
    assert not ask(CachedModel(fake, tmp_path), seed=1).cached
    seen: list[str] = []
    again = ask(CachedModel(fake, tmp_path), seed=1, on_text=seen.append)
    assert (again.text, again.cached, seen) == ("first", True, ["first"])
    assert len(fake.prompts) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 2},
        {"temperature": 0.5},
        {"max_tokens": 7},
        {"stop": ["END"]},
        {"messages": [Message("system", "x" * 40)]},
    ],
)
def test_any_other_parameter_is_another_question(tmp_path: Path, other: dict[str, Any]) -> None:
    cached = CachedModel(FakeModel(["first", "second"]), tmp_path)
    ask(cached, seed=1)
    assert ask(cached, **{"seed": 1, **other}).text == "second"


def test_another_model_is_another_question(tmp_path: Path) -> None:
    ask(CachedModel(FakeModel(["first"], name="a"), tmp_path))
    assert ask(CachedModel(FakeModel(["second"], name="b"), tmp_path)).text == "second"


@pytest.mark.parametrize("damage", [b"", b"{", b'{"text": 5}', b"[]", b"\xff\xfe"])
def test_a_damaged_entry_is_asked_for_again_and_mended(tmp_path: Path, damage: bytes) -> None:
    cached = CachedModel(FakeModel(["first", "second"]), tmp_path)
    ask(cached)
    (entry,) = tmp_path.iterdir()
    entry.write_bytes(damage)
    assert ask(cached).text == "second"
    assert ask(cached).text == "second"
    assert list(tmp_path.iterdir()) == [entry]


def test_a_cache_that_cannot_be_written_does_not_cost_the_reply(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    assert ask(CachedModel(FakeModel(["fine"]), tmp_path / "file" / "cache")).text == "fine"
    assert "could not keep" in caplog.text


def test_failures_are_not_kept(tmp_path: Path) -> None:
    cached = CachedModel(FakeModel([ModelError("down"), "up"]), tmp_path)
    with pytest.raises(ModelError):
        ask(cached)
    assert ask(cached).text == "up"


# The budget.


def test_calls_and_tokens_are_counted() -> None:
    budget = Budget()
    model = BudgetedModel(FakeModel([Reply("a", "stop", 10, 5, 0.5), Reply("b", "stop", 20, 7, 0.25)]), budget)
    ask(model)
    ask(model)
    assert (budget.calls_used, budget.prompt_tokens, budget.completion_tokens) == (2, 30, 12)
    assert budget.tokens_used == 42
    assert budget.model_seconds == 0.75


def test_the_call_that_is_one_too_many_is_not_made() -> None:
    fake = FakeModel(["a", "b"])
    model = BudgetedModel(fake, Budget(model_calls=1))
    ask(model)
    with pytest.raises(BudgetExceeded, match="1 model calls") as caught:
        ask(model)
    assert caught.value.which == "model_calls"
    assert len(fake.prompts) == 1


def test_a_prompt_that_does_not_fit_is_not_sent() -> None:
    fake = FakeModel(["a"])
    with pytest.raises(BudgetExceeded) as caught:
        ask(BudgetedModel(fake, Budget(tokens=10)))
    assert caught.value.which == "tokens"
    assert fake.prompts == []


def test_a_reply_may_be_as_long_as_what_is_left() -> None:
    asked: list[int] = []

    class Recording(FakeModel):
        async def complete(self, messages: Sequence[Message], **options: Any) -> Reply:
            asked.append(options["max_tokens"])
            return Reply("a", "stop", 14, 1, 0.0)

    ask(BudgetedModel(Recording([]), Budget(tokens=100)), max_tokens=1_000)
    assert asked == [86]


def test_parallel_calls_do_not_spend_the_same_tokens_twice() -> None:
    class Waiting(FakeModel):
        async def generate(self, request: ModelRequest) -> Reply:
            await anyio.lowlevel.checkpoint()  # all four have begun before one ends
            return await super().generate(request)

    model = BudgetedModel(Waiting([Reply("a", "stop", 14, 1, 0.0)] * 4), Budget(tokens=100))

    async def at_once() -> list[Any]:
        return await asyncio.gather(*(model.complete(PROMPT, max_tokens=20) for _ in range(4)), return_exceptions=True)

    *made, last = asyncio.run(at_once())
    assert [reply.text for reply in made] == ["a", "a", "a"]
    assert isinstance(last, BudgetExceeded)
    assert ask(model, max_tokens=20).text == "a"  # what was set aside is free again


def test_a_call_that_outlasts_the_time_is_stopped() -> None:
    class Slow(FakeModel):
        async def complete(self, messages: Sequence[Message], **options: Any) -> Reply:
            await anyio.sleep(60)
            raise AssertionError

    model = BudgetedModel(Slow([]), Budget(seconds=0.05))
    for _ in range(2):  # stopped in the middle, then not begun
        with pytest.raises(BudgetExceeded) as caught:
            ask(model)
        assert caught.value.which == "seconds"


def test_a_failed_call_gives_back_what_was_set_aside() -> None:
    budget = Budget(tokens=100)
    model = BudgetedModel(FakeModel([ModelError("down"), "ok"]), budget)
    with pytest.raises(ModelError):
        ask(model, max_tokens=80)
    assert ask(model, max_tokens=80).text == "ok"


# What every model around another passes through.


class Sized(FakeModel):
    prompt_tokens = 700
    endpoint = "http://h/v1"

    async def context_size(self) -> int:
        return 4321

    async def count_tokens(self, text: str) -> int:
        return len(text.split())


def wrappers(directory: Path) -> list[Model]:
    """One of each kind; a new kind has to be added here."""
    made: dict[type[WrappedModel], Callable[[Model], Model]] = {
        BudgetedModel: lambda inner: BudgetedModel(inner, Budget()),
        CachedModel: lambda inner: CachedModel(inner, directory),
        ObservedModel: lambda inner: ObservedModel(
            inner, NoOpTracer(), Metrics(NoOpMeter("tests")), Context, str, None, baggage=False
        ),
        SpendingModel: lambda inner: SpendingModel(inner, Ledger(NO_LIMITS), "", {}),
    }
    assert set(made) == {kind for kind in WrappedModel.__subclasses__() if kind.__module__.startswith("atc.")}
    return [wrap(Sized([], name="sized", context_tokens=1234)) for wrap in made.values()]


def test_a_model_around_another_tells_what_that_one_tells(tmp_path: Path) -> None:
    for model in (*wrappers(tmp_path), WrappedModel(Sized([], name="sized", context_tokens=1234))):
        told = (model.name, model.context_tokens, model.prompt_tokens, model.endpoint)
        assert told == ("sized", 1234, 700, "http://h/v1")
        assert asyncio.run(model.context_size()) == 4321
        assert asyncio.run(model.count_tokens("three of them")) == 3


def test_every_model_of_this_package_that_holds_another_is_one_of_these() -> None:
    """A model with an ``inner`` that is no :class:`WrappedModel` would forget what it tells."""

    def all_kinds(kind: type[Model]) -> set[type[Model]]:
        return {kind}.union(*(all_kinds(each) for each in kind.__subclasses__()))

    holds = {
        kind
        for kind in all_kinds(Model)
        if kind.__module__.startswith("atc.") and "inner" in inspect.signature(kind).parameters
    }
    assert holds == {WrappedModel, BudgetedModel, CachedModel, ObservedModel, SpendingModel}
    assert all(issubclass(kind, WrappedModel) for kind in holds)


def test_counts_of_tokens_are_kept_beside_the_replies(tmp_path: Path) -> None:
    assert asyncio.run(CachedModel(Sized([]), tmp_path).count_tokens("kept for later")) == 3
    without = CachedModel(FakeModel([]), tmp_path)  # of the same name, and without a tokenizer
    assert asyncio.run(without.count_tokens("kept for later")) == 3
    assert asyncio.run(without.count_tokens("another text!")) == bounded_tokens("another text!")


@pytest.mark.parametrize(
    "vain", [Reply("", "stop", 1, 0, 0.0, problem="the reply is empty"), Reply(" ", "length", 1, 9, 0.0)]
)
def test_a_reply_without_a_text_is_not_kept(tmp_path: Path, vain: Reply) -> None:
    cached = CachedModel(FakeModel([vain, "a text"]), tmp_path)
    assert [ask(cached).text for _ in range(3)] == [vain.text, "a text", "a text"]
