"""``atc learn``: what the user's tasks, or pairs of a query and its tools, teach the ranking of tools."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from atc.cli import options
from atc.cli.console import SOLVED, clean, err, not_enough, out, print_json
from atc.cli.progress import stages
from atc.errors import UsageError
from atc.learn.adapter import Learnt, learn_adapter
from atc.learn.examples import read_examples
from atc.learn.keeping import Compared
from atc.learn.pairs import Pair, TooLittle
from atc.programs.lessons.reading import tasks_of
from atc.retrieval.adapter import OwnAdapters
from atc.retrieval.index import ToolIndex
from atc.retrieval.index_cache import INDEXES, kept_index
from atc.retrieval.minilm import MiniLM
from atc.retrieval.retriever import MAX_EMBEDDED
from atc.settings import Settings
from atc.tools.tool import Toolset
from atc.traces.stores import open_store
from atc.traces.stores.base import RunStore

LINKS = "links.json"
"""The model that ``atc learn links`` keeps beside what runs taught. What it predicted is in the graph already."""


def learn(
    pairs: Path | None,
    tools: Sequence[str] | None,
    folder: Path | None,
    given: Mapping[str, Any],
    auth: list[str] | None,
    *,
    rollback: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Learn, or roll back; print what came of it, and end with an exit code.

    Raises:
        UsageError: the options do not go together, or a file is no such file.
        EncoderUnavailable: there are no vectors to learn on.
    """
    settings = Settings.load()
    if not settings.learn:
        raise UsageError("the setting `learn` is off: ranking neither learns nor uses what was learnt; switch it on")
    if folder is not None and (tools or any(given.values())):
        raise UsageError("give either an index with --index DIR or tools with --tools, not both")
    if rollback and pairs is not None:
        raise UsageError("--rollback goes back and learns nothing: leave --pairs out")
    runs = open_store(settings)
    examples = read_examples(pairs) if pairs is not None else None
    index = _index(settings, runs, tools, folder, given, auth, silent=as_json)
    own = OwnAdapters(settings.catalogue)
    if rollback:
        back = own.roll_back(index)
        if as_json:
            print_json({"own": back is not None, "share": back.share if back else None})
        else:
            out.print("back to the ranking before" if back else "back to ranking without what was learnt")
        raise typer.Exit(SOLVED)
    if examples is not None:
        asked: Iterable[Pair] = [Pair(each.query, each.gold) for each in examples]
        unknown = sum(not any(id in index for id in each.gold) for each in examples)
    else:
        asked, unknown = pairs_of_runs(runs), 0
    try:
        with stages(silent=as_json) as told:
            found = learn_adapter(index, asked, seed=seed, progress=told)
    except TooLittle as error:
        raise not_enough(error, as_json=as_json) from None
    path = own.keep(found.adapter, index) if found.adapter is not None else None
    for notice in own.notices:
        err.print(f"atc: {clean(notice)}", markup=False, style="yellow")
    if as_json:
        print_json(_record(found, path, unknown))
    else:
        _print(found, unknown, settings.scorers)
    raise typer.Exit(SOLVED)


def report_links(used: bool) -> None:
    """Print a line if the folder has a model of links, and no package that uses it is installed."""
    if not used and (file := Settings.load().catalogue / LINKS).exists():
        err.print(
            f"atc: {file} is not used: `atc learn links` is in atc-runtime-research", markup=False, style="yellow"
        )


def pairs_of_runs(runs: RunStore, *, silent: bool = False) -> Iterator[Pair]:
    """The task of each answered request, with the tools that its last program called. Unreadable runs are left out."""
    for stored in runs.list():
        try:
            for task, called in tasks_of(stored):
                yield Pair(task, called)
        except (OSError, UsageError, KeyError, TypeError, ValueError) as error:
            if not silent:
                err.print(f"atc: run {stored.run_id} is left out: {clean(str(error))}", markup=False)


def _record(found: Learnt, path: Path | None, unknown: int) -> dict[str, Any]:
    return {
        "kept": found.kept,
        "pairs": found.pairs,
        "tools": found.tools,
        "of_other_tools": unknown,
        "held_out": asdict(found.held_out),
        "unseen": asdict(found.unseen),
        "share": found.share,
        "file": str(path) if path is not None else None,
    }


def _print(found: Learnt, unknown: int, scorers: Collection[str]) -> None:
    out.print(f"{found.pairs} different queries for {found.tools} tools; nDCG of the first ten, held-out queries:")
    if unknown:
        out.print(f"  {unknown} queries are for tools that are not there: left out")
    line(f"{found.held_out.queries} for tools that other queries are for", found.held_out)
    if found.unseen.queries:
        line(f"{found.unseen.queries} for tools that nothing was learnt for", found.unseen)
    if found.kept and "adapter" not in scorers:
        out.print("kept, and not used: the setting `scorers` leaves `adapter` out")
    elif found.kept:
        out.print("kept: searches of these tools use it; `atc learn --rollback` goes back")
    else:
        out.print("kept nothing: it is not better beyond chance, or worse for other tools")


def line(what: str, compared: Compared) -> None:
    """Print how queries of a kind are ranked before and after."""
    was, now, noise = (100 * each for each in (compared.before, compared.after, compared.noise))
    out.print(f"  {what}: {was:.1f} before, {now:.1f} after (± {noise:.1f})", markup=False)


def _index(
    settings: Settings,
    runs: RunStore,
    tools: Sequence[str] | None,
    folder: Path | None,
    given: Mapping[str, Any],
    auth: list[str] | None,
    *,
    silent: bool,
) -> ToolIndex:
    """The index that a run with these tools searches."""
    folder = folder or (Path(settings.tool_index) if settings.tool_index and not tools else None)
    if folder is not None:
        return ToolIndex.load(folder)
    found = tools_or_latest(runs, tools, given, auth)
    if len(found) > MAX_EMBEDDED:
        raise UsageError(
            f"to read {len(found):,} tools for their meaning takes minutes: make an index of them with "
            "`atc tools index`, and name it with --index"
        )
    return _index_of(found, settings, silent=silent)


def _index_of(tools: Toolset, settings: Settings, *, silent: bool) -> ToolIndex:
    encoder = MiniLM()
    encoder.check()
    with stages(silent=silent) as told:
        index, problem = kept_index(tools, encoder, settings.catalogue / INDEXES, told)
    if problem:
        err.print(clean(problem), style="yellow", markup=False)
    return index


def tools_or_latest(
    runs: RunStore, tools: Sequence[str] | None, given: Mapping[str, Any], auth: list[str] | None
) -> Toolset:
    """The tools that were named; else those of the latest run that says where its tools were.

    Raises:
        UsageError: no run says so.
    """
    source = {"tools": list(tools), **given} if tools else latest_source(runs)
    kept: dict[str, Any] = {name: source.get(name) for name in ("only", "service_url", "documents", "openapi")}
    kept |= {name: value for name, value in given.items() if value}
    return options.opened(source["tools"], auth=auth, **kept)


def latest_source(runs: RunStore) -> dict[str, Any]:
    """Where the tools of the latest run are that says so. What others may have written is not taken for it.

    Raises:
        UsageError: none does.
    """
    strange = ""
    for stored in runs.list():
        try:
            source = options.source_from((stored.first("run_started") or {}).get("source"))
        except (OSError, UsageError):
            continue
        if source.get("tools"):
            if not (why := stored.why_strange()):
                return source
            strange = strange or f" ({stored.run_id} does, but {why})"
    raise UsageError(f"no run in {runs.where} says where its tools were{strange}: name them with --tools")
