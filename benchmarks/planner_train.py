"""A small planner trained for real, and measured before and after: the part ``train`` of :mod:`benchmarks.planner`.

The model of a GGUF file (SmolLM2-135M) learns plans and queries from trajectories with low-rank changes. Held-out
queries of sources that it saw and of sources that it did not see are then searched for by the real
:class:`~atc.retrieval.planner.QueryPlanner`, with the model as given and as trained, beside the query's own words. What
was trained and what was searched for is kept: the same command goes on.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from atc.cli.console import INTERRUPTED, err, guarded
from atc.errors import EnvironmentProblem
from atc.retrieval.index import ToolIndex
from atc.retrieval.metrics import ndcg
from atc.retrieval.minilm import MiniLM
from atc.retrieval.planner import QueryPlanner
from atc_research.toolqp.rewards import recall
from benchmarks.common import print_json
from benchmarks.planner_data import RESULTS, SHORT, TRAINED, is_held_out
from benchmarks.retrieval_data import Catalogues, Query
from benchmarks.retrieval_methods import Bench

if TYPE_CHECKING:
    from atc_research.toolqp.planner import Policy

UNSEEN = ("acebench", "complexfuncbench", "toolalpaca", "workbench")
"""Sources that nothing was learnt of and that are asked."""
_DEPTH = 10
_LAST = 20


def held_out_queries(data: Catalogues, each: int) -> list[Query]:
    """So many held-out queries of each source, always the same ones."""
    found: dict[str, list[Query]] = defaultdict(list)
    for query in data.queries(sources=(*TRAINED, *UNSEEN)):
        if is_held_out(query):
            found[query.source].append(query)
    return [query for name in sorted(found) for query in found[name][:each]]


@guarded
def main(
    trajectories: Annotated[Path, typer.Argument(help="What the part `trajectories` made.")],
    gguf: Annotated[Path, typer.Option(help="The model: a GGUF file, or a folder of transformers.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the checkpoint and the figures are kept.")],
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/.")] = None,
    minutes: Annotated[float, typer.Option(min=0.0, help="Train so long at most; the next call goes on.")] = 600.0,
    longest: Annotated[int, typer.Option(min=64, help="Tokens of a conversation; it loses its end.")] = 448,
    taught: Annotated[int, typer.Option(min=1, help="Trajectories that are learnt from.")] = 400,
    rank: Annotated[int, typer.Option(min=1, help="Of the low-rank changes.")] = 16,
    rate: Annotated[float, typer.Option(help="The highest learning rate.")] = 1e-3,
    asked: Annotated[int, typer.Option(min=1, help="Held-out queries of each source.")] = 8,
    queries: Annotated[int, typer.Option(min=0, help="Queries after the plan at most; 0: the plan alone.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of all random choices.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Train a small planner, and search with it before and after."""
    if data is None:
        raise EnvironmentProblem("held-out queries are the benchmark's: give --data DIR or ATC_DATA")
    from atc_research.toolqp.planner import Planner, Policy, examples, read_lines
    from atc_research.toolweaver.code_decoder import opened, torch
    from atc_research.toolweaver.decoder_training import Options, Progress, train

    torch.set_num_threads(2)
    catalogues = Catalogues(data)
    wanted = held_out_queries(catalogues, asked)
    lines = read_lines(trajectories)
    drawn = np.random.default_rng(seed).permutation(len(lines))[:taught]
    planner = Planner(opened(gguf, "float32", short=True), rank, longest, seed)
    learnt = examples(planner, [lines[row] for row in drawn])
    bench = Bench(catalogues, RESULTS / "retrieval", None, MiniLM())
    progress = Progress(0)

    def told(now: Progress) -> None:
        if now.step % 10 == 0:
            err.print(f"step {now.step} of {now.steps}, loss {np.mean(now.losses[-_LAST:]):.3f}", markup=False)

    def measured(which: str) -> list[dict[str, Any]]:
        place = out / f"{which}-{asked}-{queries}.json"
        if not place.exists():
            planner.longest = 4_096  # of what is read, not of what is taught
            rows = asyncio.run(_ranked(bench, Policy(planner, at_once=32), wanted, queries))
            place.write_text(json.dumps(rows), encoding="utf-8")
        held: list[dict[str, Any]] = json.loads(place.read_text(encoding="utf-8"))
        return held

    try:
        out.mkdir(parents=True, exist_ok=True)
        before = measured("before")
        until = time.monotonic() + 60 * minutes
        options = Options(rank=rank, rate=rate, epochs=1, batch=4, at_once=4, decay=0.01, seed=seed)
        progress = train(planner, learnt, options, out, until=until, report=told)
        after = measured(f"after-{progress.step}")
    except KeyboardInterrupt:
        err.print(f"interrupted; the same command goes on from {out}, a minute before", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    found = {
        "trajectories": len(learnt),
        "tokens_learnt": sum(sum(each.learnt) for each in learnt),
        "steps": [progress.step, progress.steps],
        "seconds": progress.seconds,
        "loss": [float(np.mean(progress.losses[:_LAST])), float(np.mean(progress.losses[-_LAST:]))],
        "queries": len(wanted),
        "parts": {
            part: _table(wanted, before, after, seen)
            for part, seen in (("seen", True), ("unseen", False), ("all", None))
        },
    }
    (out / "figures.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    if as_json:
        print_json(found)
    else:
        _show(found)


async def _ranked(bench: Bench, policy: Policy, wanted: Sequence[Query], queries: int) -> list[dict[str, Any]]:
    """Search for each query with a plan; all at once, so that the model answers them in batches."""
    from atc_research.toolqp.rewards import ends_by_stop, well_formed

    indexes: dict[str, ToolIndex] = {}
    for query in wanted:
        if query.pool not in indexes:
            indexes[query.pool] = bench.index(query.pool).tools
    turns = replace(SHORT, eager=not queries)  # of a plan alone the sub-goals are searched for

    async def one(query: Query) -> dict[str, Any]:
        index = indexes[query.pool]
        planner = QueryPlanner(index, policy, prerequisites=False, adaptive=False, queries=queries, turns=turns)
        done = await planner.search(query.text)
        said = [each.content for each in done.messages if each.role == "assistant"]
        return {
            "id": query.id,
            "formed": well_formed(said),
            "stopped": ends_by_stop(said),
            "goals": len(done.goals),
            "ranked": done.ranked(_DEPTH),
            "words": [hit.id for hit in index.search(query.text, limit=_DEPTH)],
        }

    return await asyncio.gather(*(one(query) for query in wanted))


def _table(
    wanted: Sequence[Query], before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]], seen: bool | None
) -> dict[str, Any]:
    """The figures of a part of the queries: those of sources that were learnt from, or not, or all."""
    gold = {query.id: query.gold for query in wanted if seen is None or (query.source in TRAINED) is seen}
    rows = {
        "before": [row for row in before if row["id"] in gold],
        "after": [row for row in after if row["id"] in gold],
    }
    rows["words"] = [{**row, "ranked": row["words"]} for row in rows["before"]]

    def each(name: str, of: Callable[[list[str], frozenset[str]], float]) -> list[float]:
        return [of(row["ranked"], gold[row["id"]]) for row in rows[name]]

    found: dict[str, Any] = {"queries": len(gold)}
    for name in ("words", "before", "after"):
        found[name] = {
            "ndcg": _mean(each(name, lambda ranked, some: ndcg(ranked, some, _DEPTH))),
            "complete": _mean(each(name, lambda ranked, some: float(recall(ranked, some, _DEPTH) == 1))),
        }
        if name != "words":
            found[name] |= {
                key: _mean([float(row[key]) for row in rows[name]]) for key in ("formed", "stopped", "goals")
            }
    for against in ("before", "words"):
        apart = np.array(each("after", lambda ranked, some: ndcg(ranked, some, _DEPTH))) - np.array(
            each(against, lambda ranked, some: ndcg(ranked, some, _DEPTH))
        )
        found[f"after_less_{against}"] = _interval(apart)
    return found


def _mean(some: Sequence[float]) -> float:
    return sum(some) / max(1, len(some))


def _interval(apart: np.ndarray[Any, Any]) -> list[float]:
    """The mean of paired differences, and where 95 % of its bootstrap lies."""
    if not len(apart):
        return [0.0, 0.0, 0.0]
    draws = np.random.default_rng(0).choice(apart, (2_000, len(apart))).mean(1)
    return [float(apart.mean()), *(float(each) for each in np.percentile(draws, [2.5, 97.5]))]


def _show(found: dict[str, Any]) -> None:
    step, steps = found["steps"]
    first, last = found["loss"]
    print(
        f"{step} of {steps} steps in {found['seconds'] / 60:.1f} minutes, {found['trajectories']} trajectories; "
        f"loss a token {first:.2f} → {last:.2f}"
    )
    for part, held in found["parts"].items():
        print(f"{part}, {held['queries']} queries:")
        for name in ("words", "before", "after"):
            each = held[name]
            formed = f"  well-formed {each['formed']:.0%}  sub-goals {each['goals']:.1f}" if "formed" in each else ""
            print(f"  {name:<7} nDCG@10 {each['ndcg']:.1%}  C@10 {each['complete']:.1%}{formed}")
        for against in ("before", "words"):
            mean, low, high = held[f"after_less_{against}"]
            between = f"95 %: {100 * low:+.1f} to {100 * high:+.1f}"
            print(f"  after − {against}: {100 * mean:+.1f} points of nDCG@10 ({between})")
