"""Budgets over all tasks of a batch."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from atc._records.prices import Price
from atc.batch.limits import NO_LIMITS, Ledger, Limits, Spent
from atc.errors import BudgetExceeded, UsageError

PRICE = Price(input=Decimal(1), output=Decimal(2))


@pytest.mark.parametrize(
    "wrong",
    [{"tokens": 0}, {"seconds": -1.0}, {"money": Decimal(0)}, {"model_calls": True}, {"tokens": "5"},
     {"money": Decimal("nan")}],
)  # fmt: skip
def test_a_budget_is_a_number_above_zero(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Limits(**wrong)
    assert not NO_LIMITS


def test_a_call_waits_for_what_others_have_reserved() -> None:
    async def go() -> None:
        ledger = Ledger(Limits(tokens=1_000))
        assert await ledger.begin("a", 100, 700, None) == 700
        waiting = asyncio.ensure_future(ledger.begin("b", 100, 700, None))
        await asyncio.sleep(0)
        assert not waiting.done()
        ledger.end("a", 800, Spent(0, 150))
        assert await waiting == 700
        ledger.release("b")  # its process died: what it reserved is free again
        assert await ledger.begin("c", 100, 900, None) == 750  # the last of it
        ledger.end("c", 850, Spent(0, 900))
        assert ledger.used_up == "tokens"
        with pytest.raises(BudgetExceeded) as raised:
            await ledger.begin("d", 1, 1, None)
        assert raised.value.which == "tokens"

    asyncio.run(go())


def test_calls_money_and_seconds_are_limited() -> None:
    async def go() -> None:
        calls = Ledger(Limits(model_calls=2), Spent(model_calls=2))
        with pytest.raises(BudgetExceeded):
            await calls.begin("a", 1, 1, None)
        assert calls.used_up == "model_calls"
        money = Ledger(Limits(money=Decimal("0.001")))
        assert await money.begin("a", 500, 1_000, PRICE) == 250
        money.end("a", 750, Spent(0, 750, Decimal("0.001")))
        assert money.used_up == "money"
        free = Ledger(Limits(money=Decimal(1)))
        assert await free.begin("a", 500, 1_000, Price(input=Decimal(0), output=Decimal(0))) == 1_000
        late = Ledger(Limits(seconds=1e-9))
        assert late.used_up == "seconds"
        with pytest.raises(BudgetExceeded):
            await late.begin("a", 1, 1, None)

    asyncio.run(go())


def test_what_waits_is_told_when_nothing_is_left() -> None:
    async def go() -> None:
        ledger = Ledger(Limits(tokens=500))
        await ledger.begin("a", 100, 400, None)
        waiting = asyncio.ensure_future(ledger.begin("b", 100, 400, None))
        await asyncio.sleep(0)
        ledger.end("a", 500, Spent(0, 500))
        with pytest.raises(BudgetExceeded):
            await waiting

    asyncio.run(go())


def test_money_may_be_a_float_which_counts_as_it_is_written() -> None:
    assert Limits(money=0.1) == Limits(money=Decimal("0.1"))  # type: ignore[arg-type]
