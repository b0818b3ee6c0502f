"""``atc batch``: solve the tasks of a file, and write a file of results."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atc.calls.approval import ApprovalRequest, Approve, Refusal
from atc.calls.ask_user import AskUserChoice
from atc.cli import options
from atc.cli.console import NOT_SOLVED, SOLVED, Interrupted, guarded
from atc.errors import UsageError
from atc.faces.batch.batch import Batch
from atc.faces.batch.book import Book
from atc.faces.batch.executor import Executor, Here
from atc.faces.batch.limits import Limits
from atc.faces.batch.tasks import BatchTask, lines_of, read_tasks
from atc.models.resolve import prepare_model
from atc.permissions import Permissions
from atc.permissions.of_agent import permissions_of
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
        approve: Approve = "always" if chosen.pop("approve", None) == "always" else nobody
        asks: AskUserChoice = "stop" if chosen.pop("ask_user", "never") != "never" else "never"
        return Agent(self.source.opened(), approve=approve, ask_user=asks, **chosen)


def nobody(request: ApprovalRequest) -> Refusal:
    """Approve nothing: nobody looks at the runs of a batch. What permissions allow is made all the same."""
    return Refusal("nobody is asked in a batch: --approve always, or permissions, let calls with effects be made")


File = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="One task a line, a text in quotes or an object (docs/batch.md); `-` reads standard input."
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="File of the results. Default: FILE with .results.jsonl.")
]
Concurrency = Annotated[int, typer.Option("--concurrency", "-c", min=1, max=1000, help="Tasks at a time.")]
Retry = Annotated[bool, typer.Option("--retry", help="Go on also with tasks that ended without an answer.")]
On = Annotated[
    str | None,
    typer.Option(metavar="<where>", help="`ray` or `ray:ADDRESS`: on the machines of a cluster; default: here."),
]
OverMoney = Annotated[float | None, typer.Option("--budget-money", min=0, help="What all tasks may cost together.")]
OverTokens = Annotated[int | None, typer.Option("--budget-tokens", min=1, help="Tokens that all may use together.")]
OverSeconds = Annotated[float | None, typer.Option("--budget-s", min=0, help="Seconds that all may take together.")]
OverCalls = Annotated[
    int | None, typer.Option("--budget-model-calls", min=1, help="Model calls that all may make together.")
]


@guarded
@options.takes("model", "strategy", "sandbox", "approve", "read_only", "answer", "instructions")
def batch(
    file: File,
    source: options.Source,
    given: options.Given,
    output: Output = None,
    concurrency: Concurrency = 4,
    on: On = None,
    retry: Retry = False,
    budget_money: OverMoney = None,
    budget_tokens: OverTokens = None,
    budget_s: OverSeconds = None,
    budget_model_calls: OverCalls = None,
    as_json: options.Json = False,
) -> None:
    """Solve the tasks of a file, several at a time, and write a line for each that has ended.

    Run it again to go on: tasks that have ended are skipped, and those that were cut off are resumed, with nothing done
    twice. Budgets are for all tasks together.

    Exit codes: 0 all answered, 1 some not, 2 wrong use (all wrong lines are named before anything runs), 3 something is
    missing (a model, a sandbox, a cluster, the store of runs), 130 interrupted.
    """
    from atc.cli.batch_view import BatchView

    if given.get("approve") == "ask":
        raise UsageError("nobody is asked in a batch: --approve never or always, or permissions (docs/batch.md)")
    tasks, results = _tasks(file), _results(file, output)
    if on is None:
        prepare_model(**given)
    money = None if budget_money is None else Decimal(str(budget_money))
    limits = Limits(budget_model_calls, budget_tokens, budget_s, money)
    settings = Settings.load(**given | {"keep_runs": True})
    set_here = {name: getattr(settings, name) for name in settings.model_fields_set}
    opened = AgentOptions(source, set_here)
    view = BatchView(len(tasks), results, silent=as_json)
    with Book(results, again=retry) as book:
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
    raise typer.Exit(SOLVED if view.all_answered else NOT_SOLVED)


def _run(work: Batch, view: Any, agent: Agent | None = None) -> None:
    """Do the tasks; the view is told of each."""

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
        raise Interrupted("the same command goes on") from None


def _cluster(opened: AgentOptions, on: str, store: RunStore) -> Executor:
    """The executor that ``--on`` names.

    Raises:
        UsageError: it names none, or what it needs is not installed.
    """
    where, _, address = on.partition(":")
    if where != "ray":
        raise UsageError(f"--on takes ray or ray:ADDRESS, not {on!r:.100}")
    from atc.faces.batch.on_ray import OnRay

    return OnRay(opened, address=address or None, store=store)


def _tasks(file: str) -> list[BatchTask]:
    if file == "-":
        return read_tasks(sys.stdin.buffer, "standard input")
    return read_tasks(lines_of(file), file, Path(file).parent)


def _results(file: str, output: Path | None) -> Path:
    """The file of results.

    Raises:
        UsageError: it is that of the tasks, or standard input has none.
    """
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
