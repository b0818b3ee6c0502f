"""The cost of tokens: the price of one model, the cost of its replies, and amounts of money in words.

Amounts are decimal numbers, so that a sum of many small ones is exact.
"""

from __future__ import annotations

from decimal import ROUND_DOWN, Decimal
from typing import Annotated

from pydantic import Field

from atc._records.records import Record

PER = 6
"""Prices are for ten to this power tokens: a million."""
_SMALLEST = Decimal("0.000001")  # that is shown

Amount = Annotated[Decimal, Field(ge=0, le=1_000_000, max_digits=18, decimal_places=9)]


class Price(Record):
    """The price of a million tokens of one model, in the currency of the settings.

    Attributes:
        input: tokens of a prompt.
        output: tokens of a reply, its thoughts included.
        cached: tokens of a prompt that the endpoint had read before, as it counts them; ``input`` when not given.
    """

    input: Amount
    output: Amount
    cached: Amount | None = None

    def cost(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> Decimal:
        """The cost of so many tokens; ``cached_tokens`` are some of ``prompt_tokens``."""
        cached_tokens = min(cached_tokens, prompt_tokens)
        cached = self.input if self.cached is None else self.cached
        read = self.input * (prompt_tokens - cached_tokens) + cached * cached_tokens
        return (read + self.output * completion_tokens).scaleb(-PER)

    def tokens_for(self, money: Decimal) -> int | None:
        """How many tokens of a reply can be had for an amount; ``None``: they cost nothing."""
        if not self.output:
            return None
        return int((money.scaleb(PER) / self.output).to_integral_value(ROUND_DOWN))


def money_text(amount: Decimal, currency: str) -> str:
    """An amount as it is shown: ``0.00213 USD``, to a millionth."""
    if 0 < amount < _SMALLEST:
        return f"under {_SMALLEST:f} {currency}"
    shown = f"{amount.quantize(_SMALLEST):f}".rstrip("0")
    whole, _, rest = shown.partition(".")
    return f"{whole}.{rest:0<2} {currency}"
