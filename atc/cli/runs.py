"""``atc runs``, ``atc show``, ``atc resume``: the runs that were; those that are deleted, and what stays and why."""

from __future__ import annotations

import asyncio
import shutil
import sys
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from rich.table import Table
from rich.text import Text

from atc._records.events import Event
from atc._records.prices import money_text
from atc.agent import Agent
from atc.calls import question
from atc.cli import CommandTable, LazyGroup, options
from atc.cli.console import WRONG_USE, clean, err, fail, guarded, out, print_json, print_table, short, writable, write
from atc.cli.kept_source import kept_source
from atc.cli.run import Images, Shown, finish
from atc.cli.view import RunView
from atc.errors import EnvironmentProblem, TraceError, UsageError
from atc.run.resources import replies_folder
from atc.settings import Settings
from atc.traces.index import RunIndex
from atc.traces.reading import FAILS, damaged
from atc.traces.stores import open_store
from atc.traces.stores.base import Pruned, RunStore, StoredRun, delete, prune
from atc.traces.summary import FORMS, RunSummary, search

MANY = 500
"""Traces that are read without a word about it."""
RunName = Annotated[str, typer.Argument(help="The run's id, its beginning or end, or `last`.")]


class Runs(LazyGroup):
    """The commands about one run, by name."""

    table: ClassVar[CommandTable] = {
        "approve": (
            "approvals:approve",
            "Decide about the calls of a run that wait for your yes: each is shown, and asked about at the terminal.",
        ),
        "apply": (
            "apply:apply",
            "Make what a dry run planned, and nothing else: the plan is shown, and you are asked once.",
        ),
        "record": (
            "record:record",
            "Make a test of a run that was answered: `pytest` replays it offline, without a model and without its "
            "tools.",
        ),
        "settle": (
            "settle:settle",
            "Find out whether the calls of a run that are in doubt were done: by the reads that your permissions file "
            "names.",
        ),
        "undo": (
            "settle:undo",
            "Undo what a run did, by the inverses that your permissions file or `@tool(undo=…)` names, the newest "
            "first.",
        ),
        "keep": (
            "keep:keep",
            "Keep the program of a run that answered as a tool: `atc call NAME` calls it without a model.",
        ),
    }


app = typer.Typer(cls=Runs, help="List the runs that are kept, the latest first; delete some, or approve what waits.")


@app.callback(invoke_without_command=True)
@guarded
def runs(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, help="How many, the latest first.")] = 20,
    keep: Annotated[int | None, typer.Option(min=0, help="Delete all runs but this many of the newest.")] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option(
            "--delete", help="Delete this run, named as for `atc show`, or `all`. May be given several times."
        ),
    ] = None,
    query: Annotated[
        str,
        typer.Option("--search", metavar="<query>", help=f"Only runs that fit: {FORMS}."),
    ] = "",
    in_doubt: Annotated[
        bool, typer.Option("--in-doubt", help="With --delete: also runs with a write in doubt, after a question.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Answer that question with yes.")] = False,
    replies: Annotated[
        bool, typer.Option("--replies", help="With --delete all: also the cache of the model's replies.")
    ] = False,
    lessons: Annotated[
        bool, typer.Option("--lessons", help="With --delete all: also what runs have taught about tools.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """List the runs that are kept, the latest first; or delete some of them.

    A run in progress is never deleted, and one with a write in doubt only with --in-doubt. Each run deletes the oldest
    beyond 500 (ATC_RUNS_KEPT), and those that are older than ATC_RUNS_KEPT_DAYS, if that is set.
    """
    if context.invoked_subcommand is not None:
        return
    if keep is not None or delete or in_doubt or yes or replies or lessons:
        wanted = Wanted(keep, tuple(delete or ()), in_doubt, yes, replies, lessons)
        _show_deleted(deleted(_store(), Settings.load(), wanted), as_json=as_json)
        return
    rows = [row.record() for row in _found(_store(), query, limit)]
    for why in (row["damage"] for row in rows if "damage" in row):
        err.print(Text(f"atc: {clean(why)}", style="yellow"))
    if as_json:
        print_json(rows)
        return
    if not rows:
        out.print(Text(f"no run{' that fits' if query else 's'} in {_store().where}"))
        return
    priced = any(row["cost"] is not None for row in rows)
    columns = ("run", "status", "calls", "revisions", *(["cost"] if priced else []), "task")
    table = Table(*columns, box=None, header_style="bold")
    for row in rows:
        cost = [_cost(row)] if priced else []
        task = Text(short(row["task"], 80))
        calls = f"{row['calls']}, {row['replayed']} replayed" if row["replayed"] else str(row["calls"])
        table.add_row(row["run_id"], _status(row), calls, str(row["revisions"]), *cost, task)
    print_table(table)
    if any(row["status"] == "in_doubt" for row in rows):
        out.print("in_doubt: `atc runs settle RUN` finds out whether the call was done", markup=False)


def _found(store: RunStore, query: str, limit: int) -> list[RunSummary]:
    """The latest runs that fit a query."""
    fits, index = search(query), RunIndex(store)
    if not query:
        return index.latest(limit)
    told = False
    for _ in index.refresh():
        if not told and index.unread > MANY:
            told = True
            err.print(f"atc: reading the traces of {index.unread:,} runs, this once", markup=False)
    return list(islice(filter(fits, index.rows()), limit))


@guarded
def show(
    run: RunName,
    verbose: options.Verbose = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="<file>", help="Write it as one page, which loads nothing; - is standard output."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: options.Json = False,
) -> None:
    """Read a run back: its programs, calls, faults and answer, as they happened.

    Exit codes: 0 it was read, 2 there is no such run, or a line of its trace is damaged: the others are shown.
    """
    stored = _store().find(run)
    damage: list[TraceError] = []
    if html is not None:
        damage = _write_page(stored, html, force=force, as_json=as_json)
    elif as_json:
        print_json([event for _, event in stored.numbered(damage.append)])
    else:
        _show(stored, damage, verbose=verbose)
    if damage:
        more = f" (and {len(damage) - 1} more lines)" if len(damage) > 1 else ""
        fail(WRONG_USE, f"{damage[0]}{more}")


def _write_page(stored: StoredRun, file: Path, *, force: bool, as_json: bool) -> list[TraceError]:
    """Write a run as a page; what cannot be read of it."""
    from atc.serve.pages.run.page import run_file

    piped = str(file) == "-"
    if piped and as_json:
        raise UsageError("--json and --html - would both write to standard output: name a file, or leave --json out")
    if not piped:
        writable(file, force)
    made = run_file(stored)
    if piped:
        sys.stdout.write(made.html)
        sys.stdout.flush()
    else:
        write(file, made.html)
    if as_json:
        size = len(made.html.encode())
        print_json({"file": str(file), "run_id": stored.run_id, "bytes": size, "left_out": made.left_out})
        return made.damage
    if not piped:
        out.print(Text(clean(f"run {stored.run_id} is in {file}")))
    for why in made.left_out:
        err.print(Text(clean(why), style="yellow"))
    return made.damage


def _show(stored: StoredRun, damage: list[TraceError], *, verbose: bool) -> None:
    """Print a run; what cannot be read of it goes to ``damage``."""
    view = RunView(out, stored=True, verbose=verbose)
    task, ended = None, False
    for number, event in stored.numbered(damage.append):
        kind, data = event["kind"], event["data"]
        if kind == "run_started" and (data.get("turn"), data["task"]) != task:
            task = (data.get("turn"), data["task"])  # a conversation has several; a resume none
            view.line(f"task: {task[1]}", "bold")
        ended = kind == "run_ended" or (ended and kind != "run_started")
        if kind in ("indexing", "model_started", "model_waiting"):
            continue
        try:
            view(Event(kind, data, event["at"]))
        except FAILS as error:
            damage.append(damaged(stored.where, number, error))
    view.close()
    if ended:
        return
    if stored.is_held():
        view.line("── running: a process works on it ──", "bold")
    else:
        view.line(f"── cut off: `atc resume {stored.run_id}` goes on with it ──", "bold yellow")


@guarded
@options.takes("model", "approve", "read_only", "ask_user")
def resume(
    run: RunName,
    given: options.Given,
    tools: Annotated[
        list[str] | None, typer.Option("--tools", "-t", help="Where the tools are now, if not where they were.")
    ] = None,
    openapi: options.OpenApi = None,
    image: Images = None,
    auth: options.Auth = None,
    reply: Annotated[
        str | None, typer.Option(metavar="<text>", help="Your answer to the question that the run ended with.")
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            metavar="<type>", help="Type of the answer, if the run was begun with a type that was a Python object."
        ),
    ] = None,
    trust_run: Annotated[
        bool,
        typer.Option("--trust-run", help="Load what its trace names, even if others could have written to its folder."),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Go on with a run that was cut off, waited for your yes, or asks you something (`--reply`).

    What succeeded is not done again; a write in doubt is not repeated. Its tools and its strategy are loaded from where
    its trace says. If somebody else can write to the folder of the run, you are asked before.

    Exit codes are those of `atc run`.
    """
    stored = _store().find(run)
    source, strategy = kept_source(stored, tools, openapi, auth, trust_run=trust_run)
    view = Shown(None if as_json else RunView(out))
    if "ask_user" not in given and _asks(stored):
        given["ask_user"] = "ask"
    agent = Agent(source.opened(), on_event=view, strategy=strategy, **given)
    with view.shown(kept=True):
        result = asyncio.run(
            agent.aresume(stored.run_id, answer=answer, images=image or (), reply=reply, trust_run=trust_run)
        )
    finish(result, as_json=as_json, trace=False)


def _store() -> RunStore:
    return open_store(Settings.load())


def _asks(stored: StoredRun) -> bool:
    """Whether the run ended with a question: who goes on with it at a terminal is asked there."""
    return (stored.last("run_ended") or {}).get("status") == "needs_input"


def _status(row: dict[str, Any]) -> str:
    """The status of a run for a cell."""
    if row["waits"]:
        return "waits for you"
    if row["unresolved"]:
        return f"{row['status']}, unresolved warning"
    count = row["remarks"] if row["status"] == "answered" else 0
    return f"{row['status']}, {count} remark{'s' * (count != 1)}" if count else row["status"]


def _cost(row: dict[str, Any]) -> Text:
    """The cost of a run for a cell; a dash where it is not known."""
    return Text("-" if row["cost"] is None else money_text(Decimal(str(row["cost"])), row["currency"]))


ALL = "all"
"""In place of a run's name: every run."""


@dataclass(frozen=True)
class Wanted:
    """What is to be deleted.

    Attributes:
        keep: all but so many of the newest runs.
        names: runs, or ``all``.
        in_doubt: also those with a write in doubt, after a question; ``yes``: the question is answered.
        replies: also the cache of the model's replies. ``lessons``: also what runs have taught.
    """

    keep: int | None = None
    names: tuple[str, ...] = ()
    in_doubt: bool = False
    yes: bool = False
    replies: bool = False
    lessons: bool = False

    def check(self) -> None:
        """Raises UsageError for what does not go together."""
        if self.keep is not None and self.names:
            raise UsageError("give --keep or --delete, not both")
        if (self.replies or self.lessons) and self.names != (ALL,):
            raise UsageError("--replies and --lessons belong to all runs: give them with --delete all")
        if self.in_doubt and not self.names:
            raise UsageError("--in-doubt says what --delete does: name the runs, or `--delete all`")
        if self.yes and not self.in_doubt:
            raise UsageError("--yes answers the question about runs in doubt: give --in-doubt too")


@dataclass
class Deleted:
    """What was deleted, and what stays.

    Attributes:
        pruned: the runs.
        more: what went beside them, in words.
        left: what stays beside the runs, by its place, each with the reason.
    """

    pruned: Pruned
    more: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """Plain JSON."""
        kept = [{"run_id": run_id, "why": why} for run_id, why in self.pruned.spared.items()]
        beside = {"also_deleted": self.more, "left": [{"path": p, "why": w} for p, w in self.left.items()]}
        return {"deleted": self.pruned.deleted, "kept": kept} | {name: each for name, each in beside.items() if each}


def deleted(store: RunStore, settings: Settings, wanted: Wanted) -> Deleted:
    """Delete what is wanted.

    Raises:
        UsageError: a run is not there, or a named one is in progress or in doubt.
        EnvironmentProblem: the store does not answer.
    """
    wanted.check()
    if wanted.keep is not None:
        store.check()
        return Deleted(prune(store, wanted.keep))
    everything = wanted.names == (ALL,)
    if everything:
        store.check()
        runs = store.everything()
    else:  # all are found before one is deleted
        runs = [*{run.run_id: run for run in map(store.find, wanted.names)}.values()]
    pruned = delete(runs)
    if wanted.in_doubt and pruned.in_doubt and (wanted.yes or _may_go(pruned.in_doubt)):
        again = delete([store.run(run_id) for run_id in pruned.in_doubt], in_doubt=True)
        pruned.deleted += again.deleted
        spared = {run_id: why for run_id, why in pruned.spared.items() if run_id not in pruned.in_doubt}
        pruned = Pruned(pruned.deleted, spared | again.spared)
    if not everything:
        if pruned.spared:
            raise UsageError("; ".join(pruned.spared.values()))
        return Deleted(pruned)
    store.sweep()
    return _beside(Deleted(pruned), settings, wanted)


def _may_go(in_doubt: dict[str, str]) -> bool:
    """Ask whether runs may go of which nothing else tells what may have happened.

    Raises:
        UsageError: nobody can be asked.
    """
    if not question.has_terminal():
        raise UsageError(
            f"{len(in_doubt)} runs have a write in doubt, and nobody can be asked here: give --yes, or leave --in-doubt"
            " out; the others are deleted"
        )
    heading = f"delete {len(in_doubt)} runs with a write in doubt? Nothing else says what may have happened"
    return bool(asyncio.run(question.ask(heading, in_doubt)))


def _beside(found: Deleted, settings: Settings, wanted: Wanted) -> Deleted:
    replies = replies_folder(settings)
    if replies.is_dir():
        if wanted.replies:
            found.more.append(f"the cache of replies, {_files(replies)} files")
            _remove(replies)
        else:
            found.left[str(replies)] = "the model's replies (`cache`): --replies deletes them too"
    if wanted.lessons:
        found.more.append(f"{_forget(settings)} facts that runs had taught")
    elif settings.catalogue.is_dir():
        found.left[str(settings.catalogue)] = "what runs have taught, names and counts: --lessons deletes it too"
    if settings.audit.exists():
        found.left[str(settings.audit)] = "the audit log, which says who allowed what: delete it by hand"
    return found


def _forget(settings: Settings) -> int:
    from atc.catalogue.catalogue import store_in
    from atc.catalogue.index.adapter import OwnAdapters

    lessons = store_in(settings.catalogue)
    try:
        count = lessons.forget(None)
    finally:
        lessons.close()
    return count + OwnAdapters(settings.catalogue).forget(None)


def _files(folder: Path) -> int:
    return sum(1 for each in folder.rglob("*") if each.is_file())


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise EnvironmentProblem(f"{folder} cannot be deleted: {error.strerror or error}") from None


def _show_deleted(found: Deleted, *, as_json: bool) -> None:
    """Print what was deleted, and what stays."""
    if as_json:
        print_json(found.record())
        return
    out.print(f"{len(found.pruned.deleted)} deleted")
    for line in (*(f"deleted: {each}" for each in found.more), *found.pruned.spared.values()):
        out.print(Text(clean(line)))
    for place, why in found.left.items():
        out.print(Text(clean(f"{place} stays: {why}")))
