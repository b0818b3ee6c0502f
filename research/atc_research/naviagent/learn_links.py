"""``atc tools learn links``: the link model, drawn towards the user's own runs (NaviAgent §3.2, in small)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

from atc import Protocol, Settings, UsageError
from atc.plugins.commands import (
    SOLVED,
    clean,
    err,
    guarded,
    not_enough,
    options,
    out,
    print_json,
    store_in,
    tools_or_latest,
)
from atc.plugins.learning import GraphStore, RunStore, all_lessons, open_store
from atc_research.naviagent.link_model import predict_feeds
from atc_research.naviagent.links import KINDS, OwnModel, Retrained, TooLittle, Used, retrain


@guarded
@options.takes()
def links(
    source: options.Source = options.NOWHERE,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Go back to what was there before the last time.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Retrain the model that predicts which tool feeds which, and keep the better of it and the one before.

    They are compared on runs that the new one has not seen. It takes 10 runs in which a value went from tool to tool.

    Exit codes: 0 done, 1 too little to learn from, 2 wrong use, 3 something is missing in the environment.
    """
    settings = Settings.load()
    runs = open_store(settings)
    found = tools_or_latest(runs, source)
    protocols = {name: tool.protocol for name, tool in found.items()}
    store = store_in(settings.catalogue)
    own = OwnModel(store.path.parent)
    try:
        if rollback:
            _roll_back(own, store, protocols, as_json=as_json)
        else:
            _learn(own, store, runs, protocols, as_json=as_json)
    finally:
        store.close()
        for notice in filter(None, (own.notice, store.notice)):
            err.print(f"atc: {clean(notice)}", markup=False, style="yellow")


def _learn(
    own: OwnModel, store: GraphStore, runs: RunStore, protocols: Mapping[str, Protocol], *, as_json: bool
) -> None:
    try:
        found = retrain(_used(runs, protocols), protocols, own.or_shipped())
    except TooLittle as error:
        raise not_enough(error, as_json=as_json) from None
    edges = predict_feeds(protocols, model=found.model) if found.good else {}
    store.predict(protocols, edges)  # before the model: where it cannot be kept, nothing has changed
    if found.kept:
        own.keep(found.model)
    if as_json:
        facts = {"runs": found.runs, "edges": found.edges, "held_out": found.held_out, "kept": found.kept}
        print_json({**facts, "before": found.before, "after": found.after, "predicted": len(edges)})
    else:
        _print(found, len(edges))
    raise typer.Exit(SOLVED)


def _print(found: Retrained, edges: int) -> None:
    out.print(f"{found.runs} runs with {found.edges} different edges; compared on {found.held_out} edges of other runs")
    for kind in KINDS:
        if kind in found.before:
            was, now = found.before[kind], found.after[kind]
            out.print(f"  against {kind} pairs: AUC {was:.3f} before, {now:.3f} after", markup=False)
    if found.kept:
        out.print("kept the new model; `atc tools learn links --rollback` goes back")
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
    for stored in runs.list():
        try:
            for lesson in all_lessons(stored, protocols):
                if lesson.answered:
                    feeds = frozenset((provider, consumer) for provider, _, consumer, _ in lesson.feeds)
                    yield Used(lesson.id, frozenset(lesson.calls), feeds)
        except (OSError, UsageError, KeyError, TypeError, ValueError) as error:
            err.print(f"atc: run {stored.run_id} is left out: {clean(str(error))}", markup=False)
