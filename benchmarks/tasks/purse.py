"""What all tries of a comparison may cost together, kept on disk, so that the same command goes on within it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from atc._host.files import write_whole
from atc._records.prices import Price, money_text
from atc.errors import UsageError


@dataclass
class Purse:
    """Money for the requests of a benchmark.

    A request is made only if its prompt and the longest reply that it allows can be paid. A try begins only while what
    is left pays as much as the dearest try so far; so a try is seldom cut off, and one that is has no result.

    Args:
        file: where what was spent is kept, by model.
        model: its name. ``price``: of its tokens.
        limit: the most that all requests may cost, those of earlier runs with the same file among them.
        tries: what each earlier try of this model cost by its tokens: it counts where the file does not know the model.
    """

    file: Path
    model: str
    price: Price
    limit: Decimal
    currency: str
    tries: Sequence[Decimal] = ()
    spent: Decimal = field(default=Decimal(0), init=False)
    dearest: Decimal = field(default=Decimal(0), init=False)
    closed: str = field(default="", init=False)
    _wanted: Decimal = field(default=Decimal(0), init=False, repr=False)
    _reserved: Decimal = field(default=Decimal(0), init=False, repr=False)
    _before: Decimal = field(default=Decimal(0), init=False, repr=False)
    _kept: Decimal = field(default=Decimal(0), init=False, repr=False)

    def __post_init__(self) -> None:
        self.spent, self.dearest = self._known(read := self._read())
        if self.model not in read:
            self.spent, self.dearest = sum(self.tries, Decimal(0)), max(self.tries, default=Decimal(0))
        self._before = self._kept = self.spent

    @property
    def left(self) -> Decimal:
        """What is left of the money, but for requests under way."""
        return self.limit - self.spent - self._reserved

    @property
    def enough(self) -> Decimal:
        """The least limit with which another try may begin and the request that was refused can be paid."""
        cent = Decimal("0.01")
        least = max(self.spent + max(self._wanted, self.dearest), self.limit + cent)
        return least.quantize(cent, ROUND_CEILING)

    def close_try(self) -> None:
        """Close the books of a try that has ended."""
        self.dearest = max(self.dearest, self.spent - self._before)
        self._before = self.spent
        self._write()

    def next_try(self) -> str:
        """Close the books of the try before; why no further one can be paid, or nothing."""
        self.close_try()
        if not self.closed and (self.left < self.dearest or (self.price.output and self.left <= 0)):
            self.closed = f"{self._words(self.left)} are left, and the dearest try took {self._words(self.dearest)}"
        return self.closed

    def reserve(self, prompt_tokens: int, most_tokens: int) -> Decimal | None:
        """Put aside what a request may cost; ``None`` where it cannot be paid."""
        cost = self.price.cost(prompt_tokens, most_tokens)
        if cost > self.left:
            self._wanted = max(self._wanted, cost)
            self.closed = f"{self._words(self.left)} are left, and the next request may take {self._words(cost)}"
            return None
        self._reserved += cost
        return cost

    def pay(self, reserved: Decimal, cost: Decimal) -> None:
        """Book what a request did cost in the place of what was put aside."""
        self._reserved -= reserved
        self.spent += cost
        self._write()

    def so_far(self) -> str:
        """What was spent, in words."""
        return f"{self._words(self.spent)} of {self._words(self.limit)} so far"

    def _words(self, amount: Decimal) -> str:
        return money_text(max(amount, Decimal(0)), self.currency)

    def _read(self) -> dict[str, Any]:
        try:
            known = json.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise UsageError(f"{self.file} does not say what was spent ({error}): correct or delete it") from None
        if not isinstance(known, dict):
            raise self._unclear()
        return known

    def _known(self, read: dict[str, Any]) -> tuple[Decimal, Decimal]:
        known = read.get(self.model, {})
        try:
            spent, dearest = Decimal(known.get("spent", 0)), Decimal(known.get("dearest", 0))
        except (InvalidOperation, TypeError, AttributeError):
            raise self._unclear() from None
        if not (spent.is_finite() and dearest.is_finite() and spent >= 0):
            raise self._unclear()
        return spent, dearest

    def _unclear(self) -> UsageError:
        return UsageError(f"{self.file} does not say what was spent: correct or delete it")

    def _write(self) -> None:
        read = self._read()
        spent, dearest = self._known(read)  # another process may have spent some since
        self.spent = self._kept = max(self.spent, spent + self.spent - self._kept)
        self.dearest = max(self.dearest, dearest)
        known = read | {self.model: {"spent": f"{self.spent:f}", "dearest": f"{self.dearest:f}"}}
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.file, json.dumps(known, indent=1) + "\n", 0o644)
        except OSError as error:
            raise UsageError(f"what was spent cannot be kept in {self.file}: {error.strerror}; make room") from None
