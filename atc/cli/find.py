"""``atc tools search`` and ``atc tools index``: find tools among many."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from atc.cli import index_codes, options
from atc.cli.console import clean, err, guarded, out, print_json, print_table, short
from atc.errors import EncoderUnavailable, LexicalOnly, UsageError
from atc.models import resolve_model
from atc.models.base import Message, Reply
from atc.retrieval.encoder import Encoder
from atc.retrieval.endpoint import EndpointEncoder
from atc.retrieval.index import ToolIndex
from atc.retrieval.index_cache import INDEXES, kept_index
from atc.retrieval.menu import WordGroups
from atc.retrieval.menu_walk import GROUPS, MenuWalk
from atc.retrieval.minilm import MiniLM
from atc.retrieval.planner import QueryPlanner, Trajectory, search_without_plan
from atc.retrieval.retriever import Way, encoder_for
from atc.settings import Settings
from atc.sketch_facts import SketchFacts, Why
from atc.sketch_wording import why
from atc.tools.sources import FORMS
from atc.tools.tool import Toolset

Sources = Annotated[list[str], typer.Argument(help=f"Where the tools are: {FORMS}.")]


@guarded
def index(
    sources: Sources,
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder of the index; what it holds is updated.")],
    encoder: Annotated[
        str, typer.Option(help="minilm (on this machine), a model at your endpoint, or none: by words alone.")
    ] = "minilm",
    codes: index_codes.Codes = False,
    levels: index_codes.Levels = None,
    code_size: index_codes.CodeSize = None,
    smoothing: index_codes.Smoothing = None,
    seed: index_codes.Seed = None,
    openapi: options.OpenApi = None,
    as_json: options.Json = False,
) -> None:
    """Index tools, so that the right ones are found among thousands. Again: only what changed is embedded."""
    wanted = index_codes.wanted(codes, levels, code_size, smoothing, seed)
    tools = options.opened(sources, openapi=openapi)
    began = time.perf_counter()
    chosen = _encoder(encoder)
    if wanted is not None:
        index_codes.check(wanted, chosen, len(tools))
    with progress() as report:
        if (folder / "index.json").exists():
            made = ToolIndex.load(folder, chosen)
            made.update(tools, report)
            made.remove([name for name in made.ids if name not in tools])
            made.save(folder)
        else:
            made = ToolIndex.build(tools, chosen, folder, report)
        if wanted is not None:  # after the index was saved: who stops it here has one without codes
            index_codes.make(made, wanted, report)
            made.save(folder)
    for notice in made.notices:
        err.print(notice, style="yellow", markup=False)
    summary = {"index": str(folder), "tools": len(made), "encoder": chosen.name if chosen else None}
    if (about := index_codes.facts(made)) is not None:
        summary["codes"] = about
    if as_json:
        print_json(summary | {"seconds": round(time.perf_counter() - began, 3)})
        return
    how = f"words and {chosen.name}" if chosen else "words alone"
    out.print(f"{len(made)} tools are in {folder}, found by {how}", markup=False)
    if about is not None:
        out.print(index_codes.line(about), markup=False, highlight=False)


@guarded
def search(
    query: Annotated[str, typer.Argument(help="What a tool must do, in your words.")],
    sources: Annotated[
        list[str] | None, typer.Option("--tools", "-t", help="Tools to search, without an index.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--index", "-i", help="Folder of an index (`atc tools index`).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Tools to show.")] = 10,
    way: Annotated[
        Way | None,
        typer.Option(help="auto (by words, by meaning where an encoder is there), lexical, hybrid, planned or codes."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="That plans or picks; as for `atc run`.")] = None,
    openapi: options.OpenApi = None,
    as_json: options.Json = False,
) -> None:
    """Find the tools for a task: the likeliest first, and those that they need."""
    if (folder is None) == (not sources):
        raise UsageError("give either an index with --index DIR or tools with --tools, not both")
    way = way or Settings.load().retrieval
    if folder is not None:
        searched = ToolIndex.load(folder)
        for notice in searched.notices:
            err.print(notice, style="yellow", markup=False)
    else:
        searched = index_of(options.opened(sources or [], openapi=openapi), way)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", LexicalOnly)
        if way in ("planned", "codes"):
            found = asyncio.run(_by_model(way, searched, query, limit, model))
        else:
            found = search_without_plan(searched, query, limit, "lexical" if way == "lexical" else None)
    seconds = time.perf_counter() - began
    for warning in warned:
        err.print(str(warning.message), style="yellow", markup=False)
    ranked = found.ranked(limit)
    if as_json:
        tools = [searched.protocol(name).model_dump(mode="json") | {"id": name} for name in ranked]
        messages = [{"role": message.role, "content": message.content} for message in found.messages]
        print_json({"query": query, "seconds": round(seconds, 4), "tools": tools, "said": messages} | found.summary())
        return
    _print(searched, found, ranked)


def index_of(tools: Toolset, way: Way) -> ToolIndex:
    """An index of tools: the one that a run of this way would search."""
    encoder, notices = encoder_for(len(tools)) if way in ("auto", "codes") else (None, [])
    with progress() as report:
        made, problem = kept_index(tools, encoder, Settings.load().catalogue / INDEXES, report, codes=way == "codes")
    for notice in (*notices, *([problem] if problem else [])):
        err.print(notice, style="yellow", markup=False)
    return made


async def _by_model(way: Way, index: ToolIndex, query: str, limit: int, spec: str | None) -> Trajectory:
    model = resolve_model(Settings.load(), spec)

    async def ask(messages: Sequence[Message], max_tokens: int, **form: Any) -> Reply:
        return await model.complete(messages, max_tokens=max_tokens, **form)

    try:
        if way == "codes":
            return await MenuWalk(index, WordGroups(index.menu(GROUPS)), ask).search(query, limit)
        return await QueryPlanner(index, ask).search(query)
    finally:
        await model.aclose()


def _print(index: ToolIndex, found: Trajectory, ranked: Sequence[str]) -> None:
    if found.stopped:
        err.print(f"the model's part ended early: {found.stopped}", style="yellow", markup=False)
    if found.plan:
        out.print(Text(clean(found.plan)), "\n")
    if not ranked:
        err.print("no tool has anything in common with that; try other words", markup=False)
        return
    table = Table("", "tool", "effect", "what it does", box=None, header_style="bold")
    for place, name in enumerate(ranked, 1):
        protocol = index.protocol(name)
        table.add_row(str(place), Text(clean(name)), protocol.effect.value, Text(short(protocol.description, 100)))
    print_table(table)
    for each in found.said:
        if each.id in ranked:
            reason = why(Why(kind="said", path=each.path), SketchFacts())
            out.print(Text(clean(f"{each.id}: {reason}")), style="dim")
    for prerequisite in found.prerequisites:
        out.print(Text(clean(str(prerequisite))), style="dim")


def _encoder(name: str) -> Encoder | None:
    """Return the encoder of a name; ``None`` for words alone, also if the encoder of this machine is not installed."""
    if name == "none":
        return None
    if name != "minilm":
        return EndpointEncoder(name)
    encoder = MiniLM()
    try:
        encoder.check()
    except EncoderUnavailable as problem:
        err.print(f"by words alone: {problem}", style="yellow", markup=False)
        return None
    return encoder


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal, nothing elsewhere."""
    with Progress(
        "{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=err, transient=True
    ) as bar:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total or None)
            bar.update(tasks[stage], completed=done, total=total or None)

        yield report
