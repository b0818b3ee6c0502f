"""What replies cost, and a budget in money."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc._records.prices import Price, money_text
from atc.errors import BudgetExceeded, UsageError
from atc.models.budget import Budget, BudgetedModel, missing_price
from atc.models.cache import CachedModel
from atc.models.fake import FakeModel
from atc.models.messages import Message, ModelRequest, Reply
from atc.models.openai_compatible import OpenAICompatible
from tests.support.fake_openai_server import Handler, Step, piece, serving

PROMPT = [Message("user", "x" * 40)]  # about 14 tokens
PRICE = Price(input=Decimal("1"), output=Decimal("2"), cached=Decimal("0.5"))
UNIT = Decimal("0.000001")  # what a token of a prompt costs


def budget(units: int) -> Budget:
    return Budget(money=units * UNIT, price=PRICE, currency="EUR")


def uses(**usage: Any) -> Step:
    def step(handler: Handler) -> None:
        handler.begin_stream()
        handler.send_event(piece("hi", "stop"))
        handler.send_event({"choices": [], "usage": usage})
        handler.end_stream()

    return step


@pytest.mark.parametrize(
    ("usage", "units"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 10}, "120"),
        ({"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 80}}, "80"),
        ({"prompt_tokens": 100, "completion_tokens": 10, "prompt_cache_hit_tokens": 80}, "80"),
        ({"prompt_tokens": 100, "completion_tokens": 10, "prompt_cache_hit_tokens": 800}, "70"),
        ({"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": "x"}}, "120"),
        ({"prompt_tokens": 100, "completion_tokens": 60, "total_tokens": 160}, "220"),
        ({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 160}, "220"),  # thoughts in the sum alone
        ({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 160, "prompt_cache_hit_tokens": 50}, "95"),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 10,
                "total_tokens": 160,
                "prompt_cache_hit_tokens": 80,
                "completion_tokens_details": {"reasoning_tokens": 50},
            },
            "180",
        ),
    ],
)
def test_an_endpoints_own_counts_are_paid_for(usage: dict[str, Any], units: str) -> None:
    spent = budget(1_000)
    with serving(uses(**usage)) as server:
        model = OpenAICompatible("tiny", server.url, "key", context_tokens=8_000)
        asyncio.run(BudgetedModel(model, spent).complete(PROMPT, max_tokens=100))
    assert spent.cost == Decimal(units) * UNIT


def test_a_reply_from_the_disk_costs_nothing(tmp_path: Path) -> None:
    spent = budget(10_000)
    model = BudgetedModel(CachedModel(FakeModel([Reply("a", "stop", 100, 10, 0.0)]), tmp_path), spent)
    for _ in range(2):
        asyncio.run(model.complete(PROMPT))
    assert (spent.cost, spent.tokens_used, spent.calls_used) == (120 * UNIT, 110, 2)


def test_a_reply_may_have_what_the_money_pays_for_and_the_next_is_not_asked_for() -> None:
    asked: list[int] = []

    class Recording(FakeModel):
        async def generate(self, request: ModelRequest) -> Reply:
            asked.append(request.sampling.max_tokens)
            return Reply("a", "stop", 14, request.sampling.max_tokens, 0.0)

    model = BudgetedModel(Recording([]), budget(100))
    asyncio.run(model.complete(PROMPT, max_tokens=30))
    asyncio.run(model.complete(PROMPT, max_tokens=30))
    assert asked == [30, 6]  # (100 - 14 - 60 - 14) / 2
    with pytest.raises(BudgetExceeded, match=r"cost 0\.0001 EUR of its 0\.0001 EUR .* raise budget_money") as raised:
        asyncio.run(model.complete(PROMPT, max_tokens=30))
    assert raised.value.which == "money"
    assert model.budget.calls_used == 2


@given(st.integers(0, 400), st.lists(st.integers(1, 60), min_size=1, max_size=6), st.booleans())
def test_requests_at_the_same_time_stay_within_the_money(units: int, wanted: list[int], failing: bool) -> None:
    class Slow(FakeModel):
        async def generate(self, request: ModelRequest) -> Reply:
            await anyio.lowlevel.checkpoint()
            if failing and request.sampling.max_tokens % 2:
                raise OSError
            return Reply("a", "stop", 14, request.sampling.max_tokens, 0.0)

    spent = budget(units)
    model = BudgetedModel(Slow([]), spent)

    async def all_at_once() -> None:
        asked = [model.complete(PROMPT, max_tokens=most) for most in wanted]
        await asyncio.gather(*asked, return_exceptions=True)

    asyncio.run(all_at_once())
    assert spent.cost is not None
    assert spent.cost <= units * UNIT
    assert spent._reserved_money == 0


def test_many_small_amounts_sum_up_exactly() -> None:
    price = Price(input=Decimal("0.15"), output=Decimal("0.6"))
    spent = Budget(price=price)
    for _ in range(10_000):
        spent.end(PROMPT, spent.begin(PROMPT, 1, price), Reply("a", "stop", 1, 1, 0.0), price)
    assert spent.cost == Decimal("0.0075")
    assert Budget().cost is None


def test_a_price_of_nothing_sets_no_limit() -> None:
    free = Budget(money=UNIT, price=Price(input=Decimal(0), output=Decimal(0)))
    assert free.begin(PROMPT, 1_000, free.price) == 1_000


def test_money_without_a_price_is_wrong_use() -> None:
    with pytest.raises(UsageError, match="price"):
        Budget(money=UNIT)
    assert '[prices."a?b"]' in str(missing_price('a"b'))


@pytest.mark.parametrize(
    ("amount", "shown"),
    [("0", "0.00"), ("0.00213", "0.00213"), ("12.5", "12.50"), ("0.0000004", "under 0.000001"), ("1e-6", "0.000001")],
)
def test_an_amount_is_shown_to_a_millionth(amount: str, shown: str) -> None:
    assert money_text(Decimal(amount), "EUR") == f"{shown} EUR"
