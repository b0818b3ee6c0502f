"""What a run may spend on models, and what it has spent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

import anyio

from atc._records.prices import Price, money_text
from atc.errors import BudgetExceeded, SettingsError, UsageError
from atc.models.base import Model, WrappedModel
from atc.models.messages import Message, ModelRequest, Reply, estimate_tokens


@dataclass
class Budget:
    """Limits and counters of one run. ``None`` is no limit. Replies from the disk cost a call and no tokens.

    Attributes:
        model_calls: the most calls to a model.
        tokens: the most tokens, of prompts and replies together.
        seconds: wall time from the making of this object.
        money: the most that replies may cost, in ``currency``. ``price``: of the model's tokens.
        currency: a word for messages.
        calls_used: calls that were begun; ``calls_answered``: those with a reply.
        prompt_tokens: tokens read.
        completion_tokens: tokens written.
        model_seconds: time spent waiting for replies; parallel calls add up.
        cost: of all replies so far; ``None`` where no price is known.
    """

    model_calls: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    money: Decimal | None = None
    price: Price | None = None
    currency: str = ""
    calls_used: int = field(default=0, init=False)
    calls_answered: int = field(default=0, init=False)
    prompt_tokens: int = field(default=0, init=False)
    completion_tokens: int = field(default=0, init=False)
    model_seconds: float = field(default=0.0, init=False)
    _reserved: int = field(default=0, init=False, repr=False)  # tokens that calls under way may still use
    _spent: Decimal = field(default=Decimal(0), init=False, repr=False)
    _reserved_money: Decimal = field(default=Decimal(0), init=False, repr=False)
    _unpriced: bool = field(default=False, init=False, repr=False)  # a model without a price has replied
    _started: float = field(default_factory=time.monotonic, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.money is not None and self.price is None:
            raise UsageError("a budget in money needs the price of the model's tokens: give price=Price(…)")

    @property
    def cost(self) -> Decimal | None:
        """The cost of all replies so far; ``None`` where no price is known."""
        return None if self.price is None or self._unpriced else self._spent

    @property
    def tokens_used(self) -> int:
        """Tokens of all prompts and replies so far."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline; ``None`` without one. Negative once it has passed."""
        return None if self.seconds is None else self.seconds - (time.monotonic() - self._started)

    def begin(self, messages: Sequence[Message], max_tokens: int, price: Price | None) -> int:
        """Count a call that is about to be made and return the tokens its reply may have, ``max_tokens`` at most.

        Args:
            messages: the prompt.
            max_tokens: the most tokens of the reply.
            price: of the tokens of the model that is asked.

        Raises:
            BudgetExceeded: the call would go over a limit; nothing is counted then.
        """
        if self.model_calls is not None and self.calls_used >= self.model_calls:
            raise BudgetExceeded(
                "model_calls", f"the run has used its {self.model_calls} model calls: raise model_calls to go on"
            )
        left = self.seconds_left
        if left is not None and left <= 0:
            raise self.out_of_time()
        prompt = estimate_tokens(messages)
        if self.tokens is not None:
            room = self.tokens - self.tokens_used - self._reserved - prompt
            if room < 1:
                raise BudgetExceeded(
                    "tokens",
                    f"the run has used {self.tokens_used} of its {self.tokens} tokens "
                    f"and the next prompt has about {prompt}: raise tokens to go on",
                )
            max_tokens = min(max_tokens, room)
        if price is not None:
            max_tokens = self._affordable(prompt, max_tokens, price)
            self._reserved_money += price.cost(prompt, max_tokens)
        self.calls_used += 1
        self._reserved += prompt + max_tokens
        return max_tokens

    def _affordable(self, prompt: int, max_tokens: int, price: Price) -> int:
        """Raises BudgetExceeded where the prompt and one token cost more."""
        if self.money is None:
            return max_tokens
        asked = price.cost(prompt, 0)
        left = self.money - self._spent - self._reserved_money
        tokens = price.tokens_for(left - asked)
        if left < asked or tokens == 0:
            spent, most, next_one = (money_text(each, self.currency) for each in (self._spent, self.money, asked))
            raise BudgetExceeded(
                "money",
                f"the run has cost {spent} of its {most} and the next prompt alone costs about {next_one}: "
                "raise budget_money to go on",
            )
        return max_tokens if tokens is None else min(max_tokens, tokens)

    def end(self, messages: Sequence[Message], max_tokens: int, reply: Reply | None, price: Price | None) -> None:
        """Count what a call begun with these messages and tokens has used; ``reply`` is ``None`` when it failed."""
        prompt = estimate_tokens(messages)
        self._reserved -= prompt + max_tokens
        if price is not None:
            self._reserved_money -= price.cost(prompt, max_tokens)
        self.calls_answered += reply is not None
        if reply is not None and not reply.cached:
            self.prompt_tokens += reply.prompt_tokens
            self.completion_tokens += reply.completion_tokens
            self.model_seconds += reply.seconds
            if price is None:
                self._unpriced = True
            else:
                self._spent += price.cost(reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens)

    def out_of_time(self) -> BudgetExceeded:
        """Whether the deadline has passed."""
        return BudgetExceeded("seconds", f"the run has used its {self.seconds:g} s: raise seconds to go on")


class BudgetedModel(WrappedModel):
    """A model that keeps to a budget: a call that would go over it is not made, one that outlasts it is stopped.

    Args:
        inner: the model to ask.
        budget: limits and counters; several models may share one.
        price: of this model's tokens; the budget's when not given.
    """

    def __init__(self, inner: Model, budget: Budget, price: Price | Literal["budget"] | None = "budget") -> None:
        super().__init__(inner)
        self.budget, self._price = budget, budget.price if price == "budget" else price

    async def generate(self, request: ModelRequest) -> Reply:
        allowed = self.budget.begin(request.messages, request.sampling.max_tokens, self._price)
        reply: Reply | None = None
        try:
            with anyio.move_on_after(self.budget.seconds_left):
                reply = await super().generate(request.with_tokens(allowed))
        except BudgetExceeded:  # of a budget beneath this one: the call was not made
            self.budget.calls_used -= 1
            raise
        finally:
            self.budget.end(request.messages, allowed, reply, self._price)
        if reply is None:
            raise self.budget.out_of_time()
        return reply


def missing_price(model: str) -> SettingsError:
    """The error of a budget in money for a model without a price, with the lines to write."""
    key = "".join(letter if letter.isprintable() and letter not in '"\\' else "?" for letter in model)
    return SettingsError(
        f"budget_money is set, and the settings have no price for the model {model!r}: add its price for a million "
        f'tokens to an atc.toml that you trust (`atc trust`)\n\n[prices."{key}"]\ninput = 0.15    # put its own prices '
        "here\ncached = 0.075\noutput = 0.60\n\nor leave budget_money out"
    )
