"""``atc tools search`` and ``atc tools index``: find tools among many."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.table import Table
from rich.text import Text

from atc.catalogue.index.index import Hit, ToolIndex
from atc.catalogue.index.index_cache import INDEXES, kept_index
from atc.catalogue.index.minilm import MiniLM
from atc.catalogue.index.retriever import Way, encoder_for
from atc.catalogue.index.sieve import nothing_fits, sieved
from atc.catalogue.index.vectors import Encoder
from atc.cli import options
from atc.cli.console import clean, err, guarded, out, print_json, print_table, short, stages
from atc.errors import EncoderUnavailable, LexicalOnly, UsageError
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
    openapi: options.OpenApi = None,
    as_json: options.Json = False,
) -> None:
    """Index tools, so that the right ones are found among thousands. Run it again: only changed tools are embedded."""
    opened = options.opened(options.named_tools(tools), openapi=openapi)
    began = time.perf_counter()
    chosen = _encoder(encoder)
    with stages() as report:
        made = ToolIndex.build(opened, chosen, folder, report)
    summary: dict[str, Any] = {
        "index": str(folder), "tools": len(made), "encoder": chosen.name if chosen else None
    }  # fmt: skip
    if as_json:
        print_json(summary | {"seconds": round(time.perf_counter() - began, 3)})
        return
    how = f"words and {chosen.name}" if chosen else "words only"
    out.print(f"{len(made)} tools are in {folder}, found by {how}", markup=False)


@guarded
@options.takes("retrieval")
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
    """Find the tools for a task, the likeliest first."""
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
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", LexicalOnly)
        hits = sieved(searched, query, limit, "lexical" if chosen == "lexical" else None)
    seconds = time.perf_counter() - began
    for warning in warned:
        err.print(str(warning.message), style="yellow", markup=False)
    if as_json:
        shown = [
            searched.protocol(hit.id).model_dump(mode="json") | {"id": hit.id, "score": round(hit.score, 4)}
            for hit in hits
        ]
        made = {"query": query, "seconds": round(seconds, 4), "tools": shown, "nothing_fits": nothing_fits(hits)}
        print_json(made)
        return
    _print(searched, hits)


def index_of(tools: Toolset, way: str) -> ToolIndex:
    """An index of tools: the one that a run of this way would search."""
    encoder, notices = encoder_for(len(tools)) if way == "auto" else (None, [])
    with stages() as report:
        made, problem = kept_index(tools, encoder, Settings.load().catalogue / INDEXES, report)
    for notice in (*notices, *([problem] if problem else [])):
        err.print(notice, style="yellow", markup=False)
    return made


def _print(index: ToolIndex, hits: Sequence[Hit]) -> None:
    if not hits:
        err.print("no tool has anything in common with that; try other words", markup=False)
        return
    if nothing_fits(hits):
        said = "no tool seems to fit: none has a word in common with that, or is near it in meaning; the nearest are"
        err.print(said, style="yellow", markup=False)
    table = Table("", "tool", "effect", "what it does", box=None, header_style="bold")
    for hit in hits:
        protocol = index.protocol(hit.id)
        table.add_row(
            str(hit.rank), Text(clean(hit.id)), options.effect_text(protocol), Text(short(protocol.description, 100))
        )
    print_table(table)


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
