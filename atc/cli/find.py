"""``atc tools search`` and ``atc tools index``: find tools among many."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.table import Table
from rich.text import Text

from atc._records.choices import WITHOUT_VECTORS
from atc.catalogue.index.adapter import OwnAdapters
from atc.catalogue.index.co_usage import MAX_TOGETHER, Used, read_used
from atc.catalogue.index.index import Hit, ToolIndex
from atc.catalogue.index.index_cache import INDEXES, kept_index
from atc.catalogue.index.minilm import MiniLM
from atc.catalogue.index.planner import FUSIONS, QueryPlanner, Trajectory, nothing_fits, search_without_plan
from atc.catalogue.index.retriever import IDLE_PLANNER, Way, encoder_for
from atc.catalogue.index.scorers import added
from atc.catalogue.index.vectors import Encoder
from atc.cli import options
from atc.cli.console import clean, err, guarded, out, print_json, print_table, short, stages
from atc.errors import EncoderUnavailable, LexicalOnly, UsageError
from atc.models.base import Message, Reply
from atc.models.resolve import resolve_model, resolve_planner
from atc.settings import Settings
from atc.tools.tool import Toolset


@guarded
def index(
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder of the index; what it holds is updated.")
    ],
    tools: options.Tools = None,
    encoder: Annotated[
        str,
        typer.Option(help="Embedding model: minilm (on this machine), or none: only by words."),
    ] = "minilm",
    used_together: Annotated[
        Path | None,
        typer.Option(
            "--used-together",
            metavar="FILE",
            help="Tools that tasks used together, a line each: an object with `tools` (names) and `count`. It "
            "replaces the earlier ones of the index.",
        ),
    ] = None,
    openapi: options.OpenApi = None,
    as_json: options.Json = False,
) -> None:
    """Index tools, so that the right ones are found among thousands. Run it again: only changed tools are embedded."""
    opened = options.opened(options.named_tools(tools), openapi=openapi)
    used = read_used(used_together, frozenset(opened)) if used_together is not None else None
    began = time.perf_counter()
    chosen = _encoder(encoder)
    with stages() as report:
        made = ToolIndex.build(opened, chosen, folder, report)
        if used is not None:
            made.use_together(used.sets.items())
            made.save(folder)
    summary: dict[str, Any] = {
        "index": str(folder), "tools": len(made), "encoder": chosen.name if chosen else None
    }  # fmt: skip
    if used is not None:
        summary["used_together"] = {
            "sets": len(used.sets), "unknown_tools": used.unknown, "sets_too_large": used.too_large
        }  # fmt: skip
    if as_json:
        print_json(summary | {"seconds": round(time.perf_counter() - began, 3)})
        return
    how = f"words and {chosen.name}" if chosen else "words only"
    out.print(f"{len(made)} tools are in {folder}, found by {how}", markup=False)
    if used is not None:
        sets = "1 set" if len(used.sets) == 1 else f"{len(used.sets):,} sets"
        out.print(f"{sets} of tools used together{_left_out(used)}", markup=False)


def _left_out(used: Used) -> str:
    counts = ((used.unknown, "unknown tools"), (used.too_large, f"sets of more than {MAX_TOGETHER} tools"))
    return "".join(f"; {what} left out: {count}" for count, what in counts if count)


@guarded
@options.takes("model", "retrieval")
def search(
    query: Annotated[str, typer.Argument(help="The task of a tool, in your words.")],
    given: options.Given,
    tools: options.Tools = None,
    folder: Annotated[
        Path | None, typer.Option("--index", "-i", help="Folder of an index (`atc tools index`).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Tools to show.")] = 10,
    openapi: options.OpenApi = None,
    as_json: options.Json = False,
) -> None:
    """Find the tools for a task: the likeliest first, and those that they need."""
    sources = tools or ([] if folder is not None else options.default_tools())
    if folder is not None and sources:
        raise UsageError("an index holds its tools: give --index or --tools, not both")
    if folder is None and not sources:
        raise UsageError(
            "say what is searched: tools, such as --tools atlas, or an index (`atc tools index`) with --index DIR"
        )
    settings = Settings.load(**given)
    chosen: str = settings.retrieval
    if chosen not in get_args(Way):
        how = f"give --retrieval NAME: {', '.join(get_args(Way))}"
        raise UsageError(f"the setting retrieval names {chosen!r}, which searches no index: {how}")
    if folder is not None:
        searched = ToolIndex.load(folder)
    else:
        searched = index_of(options.opened(sources, openapi=openapi, look=True), chosen)
    if settings.planner_model and chosen != "planned":
        err.print(IDLE_PLANNER, style="yellow", markup=False)
    on = [name for name in settings.scorers if chosen != "lexical" or name in WITHOUT_VECTORS]
    adapters = OwnAdapters(settings.catalogue)
    learnt = adapters.columns(searched) if settings.learn else ()
    searched = searched.with_scorers((*learnt, *added(on)), on)
    for notice in adapters.notices:
        err.print(clean(notice), style="yellow", markup=False)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", LexicalOnly)
        if chosen == "planned":
            found = asyncio.run(_planned(searched, query, settings))
        else:
            found = search_without_plan(searched, query, limit)
    seconds = time.perf_counter() - began
    for warning in warned:
        err.print(str(warning.message), style="yellow", markup=False)
    ranked = found.ranked(limit)
    if as_json:
        hits = {hit.id: hit for hit in found.turns[0].hits}
        shown = [
            searched.protocol(name).model_dump(mode="json") | {"id": name} | _scores(hits, name) for name in ranked
        ]
        messages = [{"role": message.role, "content": message.content} for message in found.messages]
        made = {"query": query, "seconds": round(seconds, 4), "tools": shown, "said": messages}
        print_json(made | {"nothing_fits": _nothing_fits(found)} | found.summary())
        return
    _print(searched, found, ranked)


def _scores(hits: Mapping[str, Hit], name: str) -> dict[str, Any]:
    """What the scorers gave a tool for the task's own words; a tool that others need may have none."""
    hit = hits.get(name)
    if hit is None:
        return {}
    given = {"score": round(hit.score, 4), "parts": {scorer: round(part, 4) for scorer, part in hit.parts.items()}}
    return given | ({"used_with": hit.used_with} if hit.used_with else {})


def index_of(tools: Toolset, way: str) -> ToolIndex:
    """An index of tools: the one that a run of this way would search."""
    encoder, notices = encoder_for(len(tools)) if way in ("auto", "planned") else (None, [])
    with stages() as report:
        made, problem = kept_index(tools, encoder, Settings.load().catalogue / INDEXES, report)
    for notice in (*notices, *([problem] if problem else [])):
        err.print(notice, style="yellow", markup=False)
    return made


async def _planned(index: ToolIndex, query: str, settings: Settings) -> Trajectory:
    model = resolve_planner(settings) or resolve_model(settings)

    async def ask(messages: Sequence[Message], max_tokens: int, **form: Any) -> Reply:
        return await model.complete(messages, max_tokens=max_tokens, **form)

    try:
        return await QueryPlanner(index, ask, fusion=FUSIONS[settings.planned_ranking]).search(query)
    finally:
        await model.aclose()


def _nothing_fits(found: Trajectory) -> bool:
    return nothing_fits(hit for turn in found.turns for hit in turn.hits)


def _print(index: ToolIndex, found: Trajectory, ranked: Sequence[str]) -> None:
    if found.stopped:
        how = "with the plan alone" if found.plan else "without a plan"
        err.print(
            f"the model stopped planning, and the search went on {how}: {found.stopped}", style="yellow", markup=False
        )
    if found.plan:
        out.print(Text(clean(found.plan)), "\n")
    if not ranked:
        err.print("no tool has anything in common with that; try other words", markup=False)
        return
    if strange := _nothing_fits(found):
        said = "no tool seems to fit: none has a word in common with that, or is near it in meaning; the nearest are"
        err.print(said, style="yellow", markup=False)
    table = Table("", "tool", "effect", "what it does", box=None, header_style="bold")
    for place, name in enumerate(ranked, 1):
        protocol = index.protocol(name)
        table.add_row(
            str(place), Text(clean(name)), options.effect_text(protocol), Text(short(protocol.description, 100))
        )
    print_table(table)
    for prerequisite in () if strange else found.prerequisites:
        out.print(Text(clean(str(prerequisite))), style="dim")


def _encoder(name: str) -> Encoder | None:
    """Return the encoder of a name; ``None`` for words alone, also if that of this machine is not installed."""
    if name == "none":
        return None
    if name != "minilm":
        raise UsageError(f"there is no embedding model {name!r}: give --encoder minilm or --encoder none")
    encoder = MiniLM()
    try:
        encoder.check()
    except EncoderUnavailable as problem:
        err.print(f"by words only: {problem}", style="yellow", markup=False)
        return None
    return encoder
