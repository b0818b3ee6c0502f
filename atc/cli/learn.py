"""``atc tools learn``: what the user's runs teach the ranking of tools; and commands of other packages that train."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from atc.catalogue.index.adapter import OwnAdapters
from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.index_cache import INDEXES, kept_index
from atc.catalogue.index.minilm import MiniLM
from atc.catalogue.index.retriever import MAX_EMBEDDED
from atc.catalogue.learn.adapter import Learnt, learn_adapter
from atc.catalogue.learn.examples import Pair, TooLittle, read_examples
from atc.catalogue.learn.keeping import Compared
from atc.cli import command_of, options
from atc.cli.console import SOLVED, clean, err, guarded, not_enough, out, print_json, stages
from atc.errors import EnvironmentProblem, UsageError
from atc.parts import LEARN
from atc.programs.lessons.reading import tasks_of
from atc.settings import Settings
from atc.tools.tool import Toolset
from atc.traces.stores import open_store
from atc.traces.stores.base import RunStore

RESEARCH = frozenset({"codes", "decoder", "links", "planner", "trajectories"})
"""The names of those in ``research/``, a package of its own that who wants to train installs."""


class Learners(TyperGroup):
    """The commands of :data:`atc.parts.LEARN`, each imported when it is named; and all of them for the help."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted({*super().list_commands(ctx), *LEARN.names()})

    def get_command(self, ctx: Any, name: str) -> Any:
        """A command; ``None`` where nothing has this name. One that cannot be had says so when it runs."""
        if (built_in := super().get_command(ctx, name)) is not None:
            return built_in  # no other package can take its name
        try:
            found = learner(name)
        except (UsageError, EnvironmentProblem) as error:
            return _refusing(name, error)
        return None if found is None else command_of(name, found)


def learner(name: str) -> Any:
    """What another package has under a name of `atc tools learn`; ``None`` where there is nothing.

    Raises:
        UsageError: two packages have this name, or its code cannot be imported.
        EnvironmentProblem: it is a name of ``research/``, which is not installed.
    """
    if LEARN.has(name):
        return LEARN.load(name)
    if name in RESEARCH:
        raise EnvironmentProblem(
            f"`atc tools learn {name}` is in the package atc-runtime-research, which is not installed: "
            "run `pip install ./research` in a checkout of ATC"
        )
    return None


def _refusing(name: str, problem: UsageError | EnvironmentProblem) -> Any:
    @guarded
    def refuse(
        given: Annotated[list[str] | None, typer.Argument(hidden=True)] = None, as_json: options.Json = False
    ) -> None:
        raise problem

    return command_of(
        name,
        refuse,
        help=clean(str(problem)),
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
    )


app = typer.Typer(cls=Learners)


@app.callback(invoke_without_command=True)
@guarded
@options.takes()
def learn(
    context: typer.Context,
    pairs: Annotated[
        Path | None,
        typer.Option(help="Queries with known tools: JSON Lines with `query` and `gold`; else your own answered runs."),
    ] = None,
    source: options.Source = options.NOWHERE,
    index: Annotated[
        Path | None, typer.Option("--index", "-i", help="Folder of an index of the tools (`atc tools index`).")
    ] = None,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Go back to what was there before the last time.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Learn from your own runs which tools your tasks are for, so that the right ones come first.

    It takes seconds on this machine, and 25 answered runs or more. It learns one small matrix, which has no text of a
    task. It keeps the matrix only if it ranks held-out queries better, beyond chance, and those for other tools no
    worse. Another package that is installed with ATC may add commands that train something else.
    """
    if context.invoked_subcommand is not None:
        return
    report_links(LEARN.has("links"))
    _learn(pairs, source, index, rollback=rollback, as_json=as_json)


LINKS = "links.json"
"""The model that ``atc tools learn links`` keeps beside what runs taught. What it predicted is in the graph already."""


def _learn(
    pairs: Path | None,
    source: options.Source,
    folder: Path | None,
    *,
    rollback: bool,
    as_json: bool,
) -> None:
    settings = Settings.load()
    if not settings.learn:
        raise UsageError("the setting `learn` is off: ranking neither learns nor uses what was learnt; switch it on")
    if folder is not None and source != options.NOWHERE:
        raise UsageError("give either an index with --index DIR or tools with --tools, not both")
    if rollback and pairs is not None:
        raise UsageError("--rollback goes back and learns nothing: leave --pairs out")
    runs = open_store(settings)
    examples = read_examples(pairs) if pairs is not None else None
    index = _index(settings, runs, source, folder, silent=as_json)
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
            found = learn_adapter(index, asked, progress=told)
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
            f"atc: {file} is not used: `atc tools learn links` is in atc-runtime-research", markup=False, style="yellow"
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
        out.print("kept: searches of these tools use it; `atc tools learn --rollback` goes back")
    else:
        out.print("kept nothing: it is not better beyond chance, or worse for other tools")


def line(what: str, compared: Compared) -> None:
    """Print how queries of a kind are ranked before and after."""
    was, now, noise = (100 * each for each in (compared.before, compared.after, compared.noise))
    out.print(f"  {what}: {was:.1f} before, {now:.1f} after (± {noise:.1f})", markup=False)


def _index(
    settings: Settings, runs: RunStore, source: options.Source, folder: Path | None, *, silent: bool
) -> ToolIndex:
    folder = folder or (Path(settings.tool_index) if settings.tool_index and not source.tools else None)
    if folder is not None:
        return ToolIndex.load(folder)
    found = tools_or_latest(runs, source)
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


def tools_or_latest(runs: RunStore, source: options.Source) -> Toolset:
    """The tools of a source; if it names none, those of the latest run that says where its tools were.

    Raises:
        UsageError: no run says so.
    """
    if source.tools:
        return source.opened()
    latest = latest_source(runs)
    openapi = [*(latest.openapi or ()), *(source.openapi or ())]
    only, documents = source.only or latest.only, source.documents or latest.documents
    return options.Source(latest.tools, only, documents, openapi).opened()


def latest_source(runs: RunStore) -> options.Source:
    """Where the tools of the latest run are that says so. What others may have written is not taken for it.

    Raises:
        UsageError: none does.
    """
    strange = ""
    for stored in runs.list():
        try:
            source = options.Source.of_note((stored.first("run_started") or {}).get("source"))
        except (OSError, UsageError):
            continue
        if source.tools:
            if not (why := stored.why_strange()):
                return source
            strange = strange or f" ({stored.run_id} does, but {why})"
    raise UsageError(f"no run in {runs.where} says where its tools were{strange}: name them with --tools")
