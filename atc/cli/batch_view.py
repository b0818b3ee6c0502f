"""What ``atc batch`` shows: a bar while it works, or a line now and then; and a table at the end."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from atc.cli.console import err, out, print_json, print_table
from atc.faces.batch.book import TaskResult
from atc.prices import money_text

EVERY_S = 15.0
"""Seconds between two lines where there is no terminal."""
NOT_BEGUN = "not begun"


@dataclass
class _Sums:
    """The sums of tasks that ended alike."""

    tasks: int = 0
    model_calls: int = 0
    tokens: int = 0
    seconds: float = 0.0
    cost: Decimal | None = None

    def add(self, result: TaskResult) -> None:
        usage = result.usage
        self.tasks += 1
        self.model_calls += usage.model_calls
        self.tokens += usage.prompt_tokens + usage.completion_tokens
        self.seconds += usage.seconds
        if result.cost is not None:
            self.cost = (self.cost or Decimal(0)) + result.cost

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        cost = None if self.cost is None else float(self.cost)
        return vars(self) | {"seconds": round(self.seconds, 3), "cost": cost}


@dataclass
class BatchView:
    """The progress of a batch.

    Args:
        total: tasks.
        results: the file of results.
        silent: show nothing on the way.
    """

    total: int
    results: Path
    silent: bool = False
    _sums: dict[str, _Sums] = field(default_factory=dict)
    _over: Counter[str] = field(default_factory=Counter)
    _partial: int = 0
    _in_use: int = 0
    _currency: str = ""
    _bar: Progress | None = None
    _task: TaskID | None = None
    _began: float = field(default_factory=time.monotonic)
    _last: float = field(default_factory=time.monotonic)

    def __enter__(self) -> Self:
        if not self.silent and err.is_terminal:
            columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[ends]}"))
            self._bar = Progress(*columns, console=err, transient=True)
            self._bar.start()
            self._task = self._bar.add_task("", total=self.total, ends="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if error is not None and not self.silent:
            err.print(f"{self._so_far()}; run it again to go on", markup=False)

    @property
    def all_answered(self) -> bool:
        """Whether every task has an answer."""
        return self._sums.get("answered", _Sums()).tasks == self.total

    def add(self, result: TaskResult) -> None:
        """Take a result into account."""
        self._sums.setdefault(result.status if result.begun else NOT_BEGUN, _Sums()).add(result)
        self._currency = result.currency or self._currency
        self._partial += result.partial
        self._in_use += result.in_use
        if result.over is not None:
            self._over[result.over] += 1
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, advance=1, ends=self._ends())
        elif not self.silent and (now := time.monotonic()) - self._last >= EVERY_S:
            self._last = now
            err.print(self._so_far(), markup=False)

    def _so_far(self) -> str:
        done = sum(each.tasks for each in self._sums.values())
        return f"{done:,} of {self.total:,} tasks" + (f": {self._ends()}" if done else "")

    def _ends(self) -> str:
        return ", ".join(f"{each.tasks:,} {status}" for status, each in self._sums.items())

    def report(self, *, as_json: bool) -> None:
        """Print the table, or one JSON document."""
        seconds = time.monotonic() - self._began
        if as_json:
            statuses = {status: each.as_json() for status, each in self._sums.items()}
            document = {"results": str(self.results), "tasks": self.total, "seconds": round(seconds, 3)}
            sums = {"statuses": statuses, "partial": self._partial, "in_use": self._in_use, "over": dict(self._over)}
            print_json(document | sums | {"currency": self._currency})
            return
        priced = any(each.cost is not None for each in self._sums.values())
        columns = ("status", "tasks", "model calls", "tokens", *(["cost"] if priced else []), "seconds")
        table = Table(*columns, box=None, header_style="bold")
        for status, each in sorted(self._sums.items(), key=lambda pair: -pair[1].tasks):
            cost = ["-" if each.cost is None else money_text(each.cost, self._currency)] if priced else []
            numbers = (f"{each.tasks:,}", f"{each.model_calls:,}", f"{each.tokens:,}", *cost, f"{each.seconds:,.1f}")
            table.add_row(status, *numbers)
        print_table(table)
        if self._partial:
            err.print(f"incomplete: {self._partial:,} tasks went on without a call that they asked for", markup=False)
        if self._in_use:
            why = "another process works on their runs; run it again once that has ended"
            err.print(f"not ended: {self._in_use:,} tasks, since {why}", markup=False)
        for which, tasks in self._over.items():
            err.print(f"the budget of {which} over all is used up: it ended or kept back {tasks:,} tasks", markup=False)
        out.print(f"{self.total:,} tasks in {seconds:,.1f} s; results: {self.results}", markup=False)
