"""Bare ``atc learn``: the link model, drawn towards the user's own runs; and ranking, where they are enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import typer

from atc.catalogue import store_in
from atc.cli import options
from atc.cli.console import NOT_SOLVED, SOLVED, clean, err, out, print_json
from atc.errors import UsageError
from atc.graph.link_model import predict_feeds
from atc.graph.store import GraphStore
from atc.learn.links import KINDS, OwnModel, Retrained, TooLittle, Used, retrain
from atc.programs.lessons.reading import all_lessons
from atc.settings import Settings
from atc.tools.protocol import Protocol
from atc.tools.tool import Toolset
from atc.traces.stores import open_store
from atc.traces.stores.base import RunStore


def learn(
    tools: Sequence[str] | None,
    given: Mapping[str, Any],
    auth: list[str] | None,
    *,
    rollback: bool,
    as_json: bool,
) -> None:
    """Retrain, or roll back; print what came of it, and end with an exit code."""
    settings = Settings.load()
    runs = open_store(settings)
    found = _tools(runs, tools, given, auth)
    protocols = {name: tool.protocol for name, tool in found.items()}
    store = store_in(settings.catalogue)
    own = OwnModel(store.path.parent)
    try:
        if rollback:
            _roll_back(own, store, protocols, as_json=as_json)
        else:
            from atc.cli import learn_ranking

            also = partial(learn_ranking.beside, settings, runs, found, as_json)
            _learn(own, store, runs, protocols, also, as_json=as_json)
    finally:
        store.close()
        for notice in filter(None, (own.notice, store.notice)):
            err.print(f"atc: {clean(notice)}", markup=False, style="yellow")


def _learn(
    own: OwnModel,
    store: GraphStore,
    runs: RunStore,
    protocols: Mapping[str, Protocol],
    also: Callable[[], dict[str, Any] | None],
    *,
    as_json: bool,
) -> None:
    """Learn links, and what else there is enough for; ``also`` prints a line of its own, and gives its record."""
    try:
        found = retrain(_used(runs, protocols), protocols, own.or_shipped())
    except TooLittle as error:
        if not as_json:
            err.print(f"atc: {clean(str(error))}", markup=False)
        ranking = also()
        if as_json:
            print_json({"kept": False, "why": str(error)} | _beside(ranking))
        raise typer.Exit(NOT_SOLVED if ranking is None else SOLVED) from None
    edges = predict_feeds(protocols, model=found.model) if found.good else {}
    store.predict(protocols, edges)  # before the model: where it cannot be kept, nothing has changed
    if found.kept:
        own.keep(found.model)
    if not as_json:
        _print(found, len(edges))
    ranking = also()
    if as_json:
        facts = {"runs": found.runs, "edges": found.edges, "held_out": found.held_out, "kept": found.kept}
        print_json({**facts, "before": found.before, "after": found.after, "predicted": len(edges), **_beside(ranking)})
    raise typer.Exit(SOLVED)


def _beside(ranking: dict[str, Any] | None) -> dict[str, Any]:
    return {} if ranking is None else {"ranking": ranking}


def _print(found: Retrained, edges: int) -> None:
    out.print(f"{found.runs} runs with {found.edges} different edges; compared on {found.held_out} edges of other runs")
    for kind in KINDS:
        if kind in found.before:
            was, now = found.before[kind], found.after[kind]
            out.print(f"  against {kind} pairs: AUC {was:.3f} before, {now:.3f} after", markup=False)
    if found.kept:
        out.print("kept the new model; `atc learn --rollback` goes back")
    else:
        out.print("kept the model before: the new one is not better")
    if found.good:
        out.print(f"{edges} predicted edges are in the graph: the least of its evidence")
    else:
        out.print("no edges are predicted: on your runs neither model is good enough")


def _roll_back(own: OwnModel, store: GraphStore, protocols: Mapping[str, Protocol], *, as_json: bool) -> None:
    model = own.roll_back()
    edges = predict_feeds(protocols, model=model) if model is not None else {}
    store.predict(protocols, edges)
    if as_json:
        print_json({"own": model is not None, "predicted": len(edges)})
    elif model is not None:
        out.print(f"back to the model before ({clean(model.made)}); {len(edges)} predicted edges", markup=False)
    else:
        out.print("back to the model that ships; no edges are predicted")


def _used(runs: RunStore, protocols: Mapping[str, Protocol]) -> Iterator[Used]:
    """What each kept run did; one that cannot be read is left out."""
    for stored in runs.list():
        try:
            for lesson in all_lessons(stored, protocols):
                if lesson.answered:
                    feeds = frozenset((provider, consumer) for provider, _, consumer, _ in lesson.feeds)
                    yield Used(lesson.id, frozenset(lesson.calls), feeds)
        except (OSError, UsageError, KeyError, TypeError, ValueError) as error:
            err.print(f"atc: run {stored.run_id} is left out: {clean(str(error))}", markup=False)


def _tools(runs: RunStore, tools: Sequence[str] | None, given: Mapping[str, Any], auth: list[str] | None) -> Toolset:
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
