"""``atc runs`` and ``atc resume``: the runs that were, one read back, and one continued."""

from __future__ import annotations

import asyncio
import sys
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
from atc.cli import CommandTable, LazyGroup, options
from atc.cli.console import (
    WRONG_USE,
    Force,
    clean,
    err,
    fail,
    guarded,
    out,
    print_json,
    print_table,
    short,
    writable,
    write,
)
from atc.cli.kept_source import kept_source
from atc.cli.run import Images, Shown, finish
from atc.cli.view import RunView
from atc.errors import TraceError, UsageError
from atc.settings import Settings
from atc.traces.index import RunIndex
from atc.traces.reading import FAILS, damaged
from atc.traces.stores import open_store
from atc.traces.stores.base import RunStore, StoredRun
from atc.traces.summary import FORMS, RunSummary, search

MANY = 500
"""Traces that are read without a word about it."""


class Runs(LazyGroup):
    """The commands about runs, by name; without one, the latest runs are listed."""

    table: ClassVar[CommandTable] = {
        "list": ("runs:list_runs", "List the runs that are kept, the latest first."),
        "show": ("runs:show", "Read a run back: its programs, calls, faults and answer, as they happened."),
        "search": ("runs:search_runs", "List the runs that fit a query, the latest first."),
        "delete": ("delete:delete_runs", "Delete runs, or all of them."),
        "approvals": ("approvals:approvals", "List the calls with effects that wait for your approval."),
        "approve": (
            "approvals:approve",
            "Decide about the calls of a run that wait for your approval: the terminal shows each, and asks.",
        ),
        "apply": (
            "apply:apply",
            "Make what a dry run planned, and nothing else: you see the plan, and approve it once.",
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
            "Keep the program of a run that answered as a tool: `atc tools call NAME` calls it without a model.",
        ),
    }


app = typer.Typer(cls=Runs, help="List runs, read one back, approve what waits, search, delete.")
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, the latest first.")]


@app.callback(invoke_without_command=True)
@guarded
def runs(context: typer.Context, limit: Limit = 20, as_json: options.Json = False) -> None:
    """List runs, read one back, approve what waits, search, delete. Without a command it lists the latest.

    Each run deletes the oldest beyond 500 (ATC_RUNS_KEPT), and those older than ATC_RUNS_KEPT_DAYS, if that is set.
    """
    if context.invoked_subcommand is None:
        _list("", limit, as_json=as_json)


@guarded
def list_runs(limit: Limit = 20, as_json: options.Json = False) -> None:
    """List the runs that are kept, the latest first."""
    _list("", limit, as_json=as_json)


@guarded
def search_runs(
    query: Annotated[str, typer.Argument(help=f"Conditions: {FORMS}.")],
    limit: Limit = 20,
    as_json: options.Json = False,
) -> None:
    """List the runs that fit a query, the latest first."""
    _list(query, limit, as_json=as_json)


def _list(query: str, limit: int, *, as_json: bool) -> None:
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
    run: options.RunName,
    verbose: options.Verbose = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write it as one page, which loads nothing; - is standard output."),
    ] = None,
    force: Force = False,
    as_json: options.Json = False,
) -> None:
    """Read a run back: its programs, calls, faults and answer, as they happened."""
    stored = _store().find(run)
    damage: list[TraceError] = []
    if output is not None:
        damage = _write_page(stored, output, force=force, as_json=as_json)
    elif as_json:
        print_json([event for _, event in stored.numbered(damage.append)])
    else:
        _show(stored, damage, verbose=verbose)
    if damage:
        more = f" (and {len(damage) - 1} more lines)" if len(damage) > 1 else ""
        fail(WRONG_USE, f"{damage[0]}{more}")


def _write_page(stored: StoredRun, file: Path, *, force: bool, as_json: bool) -> list[TraceError]:
    from atc.serve.pages.run.page import run_file

    piped = str(file) == "-"
    if piped and as_json:
        raise UsageError("--json and --output - would both write to standard output: name a file, or leave --json out")
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
    view = RunView(out, stored=True, verbose=verbose)
    task, ended = None, False
    for number, event in stored.numbered(damage.append):
        kind, data = event["kind"], event["data"]
        if kind == "run_started" and (data.get("turn"), data["task"]) != task:
            task = (data.get("turn"), data["task"])  # a conversation has several; a resume none
            view.line(f"task: {task[1]}", "bold")
        ended = kind == "run_ended" or (ended and kind != "run_started")
        if kind in ("indexing", "model_started", "model_waiting", "store_waiting"):
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
        view.line(f"── cut off: `atc resume {stored.run_id}` continues it ──", "bold yellow")


@guarded
@options.takes("model", "approve", "read_only", "ask_user")
def resume(
    run: options.RunName,
    given: options.Given,
    tools: options.ToolsNow = None,
    openapi: options.OpenApi = None,
    image: Images = None,
    reply: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Your answer to the question that the run ended with.")
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE", help="Type of the answer, if the run was begun with a type that was a Python object."
        ),
    ] = None,
    trust_run: options.TrustRun = False,
    as_json: options.Json = False,
) -> None:
    """Continue a run that was cut off, waited for your approval, or asks you something (`--reply`).

    It does not repeat calls that succeeded, or a write in doubt. It loads the tools and the strategy from where the
    trace names them. If somebody else can write to the folder of the run, it asks you first.
    """
    stored = _store().find(run)
    source, strategy = kept_source(stored, tools, openapi, trust_run=trust_run)
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
    if row["waits"]:
        return "waits for you"
    if row["unresolved"]:
        return f"{row['status']}, unresolved warning"
    count = row["remarks"] if row["status"] == "answered" else 0
    return f"{row['status']}, {count} remark{'s' * (count != 1)}" if count else row["status"]


def _cost(row: dict[str, Any]) -> Text:
    return Text("-" if row["cost"] is None else money_text(Decimal(str(row["cost"])), row["currency"]))
