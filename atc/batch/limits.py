"""Budgets over all tasks of a batch: what they may spend on models together, and a model that keeps to it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, Protocol

from atc._records.prices import Price
from atc.errors import BudgetExceeded, UsageError
from atc.models.base import Model, WrappedModel
from atc.models.messages import ModelRequest, Reply, estimate_tokens

Which = Literal["model_calls", "tokens", "seconds", "money"]


@dataclass(frozen=True)
class Limits:
    """What all tasks of a batch may spend together. ``None`` is no limit.

    Attributes:
        model_calls: the most calls to a model.
        tokens: the most tokens, of prompts and replies.
        seconds: wall time of this process; what an earlier one took does not count.
        money: the most that replies may cost, in the currency of the settings.
    """

    model_calls: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    money: Decimal | None = None

    def __post_init__(self) -> None:
        for name in ("model_calls", "tokens", "seconds", "money"):
            value = getattr(self, name)
            is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
            if value is not None and not (is_number and not math.isnan(value) and value > 0):
                raise UsageError(f"the budget of {name} over all tasks is a number above 0, not {value!r:.100}")
        if isinstance(self.money, int | float):
            object.__setattr__(self, "money", Decimal(str(self.money)))  # as it was written

    def __bool__(self) -> bool:
        return any(each is not None for each in (self.model_calls, self.tokens, self.seconds, self.money))


NO_LIMITS = Limits()


@dataclass(frozen=True)
class Spent:
    """What was spent."""

    model_calls: int = 0
    tokens: int = 0
    money: Decimal = Decimal(0)

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.model_calls + other.model_calls, self.tokens + other.tokens, self.money + other.money)


class Spending(Protocol):
    """What a run asks before each call of its model."""

    async def begin(self, run_id: str, prompt: int, most: int, price: Price | None) -> int:
        """Count a call and return the tokens that its reply may have, ``most`` at most.

        Raises:
            BudgetExceeded: it would go over a limit of the batch.
        """

    def end(self, run_id: str, reserved: int, used: Spent) -> None:
        """Count what a call has used in place of the tokens that were reserved for it."""


@dataclass
class Ledger:
    """The counters of a batch (a :class:`Spending`), in one event loop.

    A call reserves what it may use at most. One for which too little is left waits while others have reserves: they may
    use less. The last of the budget goes to one reply, which may be short.

    Attributes:
        limits: that hold.
        spent: by calls that have ended, earlier processes' among them.
        closed: the budget that a call would have gone over; no new task begins after that.
    """

    limits: Limits
    spent: Spent = Spent()
    closed: Which | None = None
    _reserved: dict[str, list[tuple[int, Decimal]]] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def seconds_left(self) -> float | None:
        """Until the batch's deadline; ``None`` without one."""
        return None if self.limits.seconds is None else self.limits.seconds - (time.monotonic() - self._began)

    @property
    def used_up(self) -> Which | None:
        """The budget that is used up, so that no new task begins; ``None``: there is room."""
        limits, spent, left = self.limits, self.spent, self.seconds_left
        if left is not None and left <= 0:
            return "seconds"
        if limits.model_calls is not None and spent.model_calls >= limits.model_calls:
            return "model_calls"
        if limits.tokens is not None and spent.tokens >= limits.tokens:
            return "tokens"
        if limits.money is not None and spent.money >= limits.money:
            return "money"
        return self.closed

    async def begin(self, run_id: str, prompt: int, most: int, price: Price | None) -> int:
        while True:
            allowed = self._allowed(prompt, most, price)
            if allowed is not None:
                break
            self._changed.clear()
            await self._changed.wait()
        cost = price.cost(prompt, allowed) if price is not None else Decimal(0)
        self._reserved.setdefault(run_id, []).append((prompt + allowed, cost))
        self.spent += Spent(model_calls=1)
        return allowed

    def _allowed(self, prompt: int, most: int, price: Price | None) -> int | None:
        """Tokens that the reply may have now; ``None``: it must wait."""
        limits, spent = self.limits, self.spent
        if (used_up := self.used_up) is not None:
            raise self._over(used_up)
        held = [each for calls in self._reserved.values() for each in calls]
        fits: list[int] = [most]
        if limits.tokens is not None:
            fits.append(limits.tokens - spent.tokens - sum(tokens for tokens, _ in held) - prompt)
            if fits[-1] < 1 and not held:
                raise self._over("tokens")
        if limits.money is not None and price is not None:
            left = limits.money - spent.money - sum((cost for _, cost in held), Decimal(0)) - price.cost(prompt, 0)
            affordable = price.tokens_for(left) if left >= 0 else 0
            fits.append(most if affordable is None else affordable)
            if fits[-1] < 1 and not held:
                raise self._over("money")
        return None if held and min(fits) < most else min(fits)

    def _over(self, which: Which) -> BudgetExceeded:
        self.closed = self.closed or which
        self._changed.set()
        return BudgetExceeded(which, f"the tasks of the batch have used up their budget of {which} together")

    def end(self, run_id: str, reserved: int, used: Spent) -> None:
        calls = self._reserved.get(run_id, [])
        for number, (tokens, _) in enumerate(calls):
            if tokens == reserved:
                del calls[number]
                break
        if not calls:
            self._reserved.pop(run_id, None)
        self.spent += used
        self._changed.set()

    def release(self, run_id: str) -> None:
        """Give back what a run has reserved whose process has died."""
        self._reserved.pop(run_id, None)
        self._changed.set()


class SpendingModel(WrappedModel):
    """A model that asks the batch's ledger before each call.

    Args:
        inner: the model to ask.
        spending: the ledger.
        run_id: of the run that asks.
        prices: of models' tokens, by the models' names.

    Attributes:
        refused: the budget of the batch that a call would have gone over.
    """

    def __init__(self, inner: Model, spending: Spending, run_id: str, prices: Mapping[str, Price]) -> None:
        super().__init__(inner)
        self._spending, self._run_id, self._prices = spending, run_id, prices
        self._price = prices.get(inner.name)
        self.refused: str | None = None

    def beside(self, other: Model) -> Model:
        return SpendingModel(other, self._spending, self._run_id, self._prices)

    async def generate(self, request: ModelRequest) -> Reply:
        prompt, reply = estimate_tokens(request.messages), None
        try:
            allowed = await self._spending.begin(self._run_id, prompt, request.sampling.max_tokens, self._price)
        except BudgetExceeded as error:
            self.refused = error.which
            raise
        try:
            reply = await super().generate(request.with_tokens(allowed))
        finally:
            used = Spent()
            if reply is not None and not reply.cached:
                used = Spent(0, reply.prompt_tokens + reply.completion_tokens, self._cost(reply))
            self._spending.end(self._run_id, prompt + allowed, used)
        return reply

    def _cost(self, reply: Reply) -> Decimal:
        if self._price is None:
            return Decimal(0)
        return self._price.cost(reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens)
