"""``atc batch``: solve the tasks of a file, show how far it is, and write a file of results."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from atc._records.choices import AskUserChoice
from atc._records.prices import money_text
from atc.batch.batch import Batch
from atc.batch.book import Book, TaskResult
from atc.batch.limits import Limits
from atc.batch.tasks import lines_of, read_tasks
from atc.batch.work import Executor, Here, waits_in
from atc.calls.approval import ApprovalRequest, Approve, Refusal
from atc.calls.permissions import Permissions
from atc.calls.permissions.agent_permissions import permissions_of
from atc.cli import options
from atc.cli.console import NOT_SOLVED, SOLVED, WAITING, Interrupted, err, guarded, out, print_json, print_table
from atc.errors import UsageError
from atc.models.resolve import prepare_model
from atc.settings import Settings
from atc.traces.stores import RunStore, open_store

if TYPE_CHECKING:
    from atc.agent import Agent


@dataclass(frozen=True)
class AgentOptions:
    """How the agent of a batch is opened, here or on another machine.

    Attributes:
        source: where its tools are.
        settings: those that were set, in whatever way.
        permissions: of this machine, which hold on the others too.
    """

    source: options.Source
    settings: Mapping[str, Any]
    permissions: Permissions | None = None

    def __call__(self) -> Agent:
        """Open it.

        Raises:
            UsageError: a source, an option or a setting is wrong.
        """
        from atc.agent import Agent

        chosen = dict(self.settings) | ({} if self.permissions is None else {"permissions": self.permissions})
        wanted = chosen.pop("approve", None)
        approve: Approve = wanted if wanted in ("always", "park") else nobody
        asks: AskUserChoice = "stop" if chosen.pop("ask_user", "never") != "never" else "never"
        return Agent(self.source.opened(), approve=approve, ask_user=asks, **chosen)


def nobody(request: ApprovalRequest) -> Refusal:
    """Approve nothing: nobody looks at the runs of a batch. What permissions allow is made all the same."""
    return Refusal("a batch asks no one: --approve always or park, or permissions, let calls with effects be made")


File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="One task a line: a text in quotes, or an object with `task` (and `id`); `-` reads standard input.",
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="File of the results. Default: FILE with .results.jsonl.")
]
Concurrency = Annotated[int, typer.Option("--concurrency", "-c", min=1, max=1000, help="Tasks at a time.")]
Retry = Annotated[bool, typer.Option("--retry", help="Try again tasks that ended without an answer.")]
On = Annotated[
    str | None,
    typer.Option(metavar="WHERE", help="`ray` or `ray:ADDRESS`: on the machines of a cluster; default: here."),
]
OverMoney = Annotated[float | None, typer.Option("--total-money", min=0, help="Most that all tasks may cost together.")]
OverTokens = Annotated[int | None, typer.Option("--total-tokens", min=1, help="Most tokens of all tasks together.")]
OverSeconds = Annotated[float | None, typer.Option("--total-s", min=0, help="Most seconds of all tasks together.")]
OverCalls = Annotated[
    int | None, typer.Option("--total-model-calls", min=1, help="Most model calls of all tasks together.")
]


@guarded
@options.takes(
    "model", "strategy", "sandbox", "approve", "read_only", "answer", "instructions", panels=True,
)  # fmt: skip
def batch(
    file: File,
    source: options.Source,
    given: options.Given,
    output: Output = None,
    concurrency: Concurrency = 4,
    on: On = None,
    retry: Retry = False,
    total_money: OverMoney = None,
    total_tokens: OverTokens = None,
    total_s: OverSeconds = None,
    total_model_calls: OverCalls = None,
    as_json: options.Json = False,
) -> None:
    """Solve the tasks of a file, several at a time, and write a line for each that has ended.

    Run it again to continue: it skips tasks that have ended, and resumes those that were cut off, with nothing done
    twice. It also resumes those whose calls waited for approval (`--approve park`), once all of them are decided.
    """
    if given.get("approve") == "ask":
        raise UsageError("a batch asks no one: give --approve never, always or park, or permissions")
    results = _results(file, output)
    if file == "-":
        tasks = read_tasks(sys.stdin.buffer, "standard input")
    else:
        tasks = read_tasks(lines_of(file), file, Path(file).parent)
    if on is None:
        prepare_model(**given)
    money = None if total_money is None else Decimal(str(total_money))
    limits = Limits(total_model_calls, total_tokens, total_s, money)
    settings = Settings.load(**given | {"keep_runs": True})
    set_here = {name: getattr(settings, name) for name in settings.model_fields_set}
    opened = AgentOptions(source, set_here)
    view = BatchView(len(tasks), results, silent=as_json)
    with Book(results, again=retry, waits=waits_in(open_store(settings))) as book:
        book.check(tasks)
        if on is not None:
            folder = {"runs_dir": settings.runs_dir.absolute()}
            there = replace(opened, settings=set_here | folder, permissions=permissions_of(None, settings))
            _run(Batch(tasks, _cluster(there, on, open_store(settings)), concurrency, limits, book, source.note), view)
        else:
            agent = opened()
            work = Batch(tasks, Here(agent), concurrency, limits, book, source.note)
            _run(work, view, agent)
    view.report(as_json=as_json)
    raise typer.Exit(view.exit_code)


def _run(work: Batch, view: Any, agent: Agent | None = None) -> None:
    async def all_of_it() -> None:
        async with contextlib.AsyncExitStack() as stack:
            if agent is not None:
                stack.push_async_callback(agent.aclose)
            found = await stack.enter_async_context(contextlib.aclosing(work.results()))
            async for result in found:
                view.add(result)

    try:
        with view:
            asyncio.run(all_of_it())
    except KeyboardInterrupt:
        raise Interrupted("the same command continues") from None


def _cluster(opened: AgentOptions, on: str, store: RunStore) -> Executor:
    where, _, address = on.partition(":")
    if where != "ray":
        raise UsageError(f"--on takes ray or ray:ADDRESS, not {on!r:.100}")
    from atc.batch.on_ray import OnRay

    return OnRay(opened, address=address or None, store=store)


def _results(file: str, output: Path | None) -> Path:
    if output is None:
        if file == "-":
            raise UsageError("tasks from standard input need a file for the results: -o FILE")
        return Path(file).with_suffix(".results.jsonl")
    with contextlib.suppress(OSError):
        if file != "-" and os.path.samefile(file, output):
            raise UsageError(f"{output} is the file of tasks: name another one for the results")
    if output.is_dir():
        raise UsageError(f"{output} is a folder: name a file for the results")
    return output


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
    def exit_code(self) -> int:
        """The exit code: whether every task has an answer, or waits for approval."""
        answered, waiting = (self._sums.get(status, _Sums()).tasks for status in ("answered", "waiting"))
        if answered + waiting < self.total:
            return NOT_SOLVED
        return WAITING if waiting else SOLVED

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
        if waiting := self._sums.get("waiting", _Sums()).tasks:
            how = "`atc runs approvals` lists their calls, `atc runs approve RUN` decides; run it again then"
            err.print(f"waiting for approval: {waiting:,} tasks; {how}", markup=False)
        for which, tasks in self._over.items():
            err.print(f"the budget of {which} over all is used up: it ended or kept back {tasks:,} tasks", markup=False)
        out.print(f"{self.total:,} tasks in {seconds:,.1f} s; results: {self.results}", markup=False)
