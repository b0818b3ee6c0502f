"""A planner that is trained: ``python -m atc_research_benchmarks.planner PART``.

``trajectories`` makes the training data from queries with known tools, none of them held out; ``train`` teaches a small
model (SmolLM2-135M) with it and measures its searches on held-out queries before and after. Each part goes on where it
stopped, prints a table, and gives JSON with ``--json``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import Progress

from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.metrics import ndcg
from atc.catalogue.index.minilm import MiniLM
from atc.cli.console import INTERRUPTED, err, guarded
from atc.errors import EnvironmentProblem, UsageError
from atc.models.messages import Ask
from atc.models.resolve import resolve_model
from atc.settings import Settings
from atc_research.examples import Example
from atc_research.toolqp.dataset import Output
from atc_research.toolqp.dialogue import PRODUCT, Turns
from atc_research.toolqp.document_teacher import NAME, DocumentSynthesiser
from atc_research.toolqp.paper_planner import PAPER
from atc_research.toolqp.planning import QueryPlanner
from atc_research.toolqp.rewards import recall
from atc_research.toolqp.trajectories import Skipped, Synthesiser
from benchmarks.common import RESULTS, AsJson, print_json
from benchmarks.retrieval.data import Catalogues, Query
from benchmarks.retrieval.methods import Bench

TRAINED = ("bfcl", "gorilla", "metatool", "metatool_multi", "seal_tools")
"""Sources that are learnt from. All others are held out whole: ToolQP's own three (App. C.1) are not in the data."""
SHORT = Turns(eager=False, example=False, providers=False, patient=True)
"""Turns that a small model can be taught on a processor: no worked example, one query at a time."""
TURNS = {"product": PRODUCT, "paper": PAPER, "short": SHORT}
_HELD_OUT = 5
"""One query in so many of a source that is learnt from is held out, by its hash."""


def is_held_out(query: Query) -> bool:
    """Whether a query is kept from training: its source is, or the hash of its words says so.

    Two queries of the same words are on the same side.
    """
    words = " ".join(query.text.casefold().split())
    return query.source not in TRAINED or hashlib.sha256(words.encode()).digest()[0] % _HELD_OUT == 0


def training_queries(data: Catalogues, count: int) -> list[Query]:
    """So many queries that may be learnt from, as many of each source, in a fixed order."""
    by_source: dict[str, list[Query]] = defaultdict(list)
    for query in data.queries():
        if not is_held_out(query):
            by_source[query.source].append(query)
    if not by_source:
        raise UsageError(f"the data has none of the sources that are learnt from: {', '.join(TRAINED)}")
    drawn: list[Query] = []
    at = 0
    while len(drawn) < count and any(at < len(some) for some in by_source.values()):
        drawn += [by_source[name][at] for name in sorted(by_source) if at < len(by_source[name])]
        at += 1
    return drawn[:count]


@guarded
def trajectories(
    file: Annotated[Path, typer.Option("--out", "-o", help="The file of trajectories; outside the repository.")],
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Tasks to make trajectories of.")] = 1_500,
    teacher: Annotated[str, typer.Option(help="documents, or a model as `atc run --model` takes it.")] = NAME,
    turns: Annotated[str, typer.Option(help=f"How conversations are written: {', '.join(TURNS)}.")] = "short",
    seed: Annotated[int, typer.Option(min=0, help="Of all random choices.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Make trajectories of queries that are not held out (ToolQP Alg. 1), and count them."""
    if data is None:
        raise EnvironmentProblem("training data is made of the benchmark's data: give --data DIR or ATC_DATA")
    if turns not in TURNS:
        raise UsageError(f"--turns {turns}: take {', '.join(TURNS)}")
    catalogues = Catalogues(data)
    queries = training_queries(catalogues, count)
    try:
        with Output(file) as output:
            asyncio.run(_make(catalogues, queries, output, teacher, TURNS[turns], seed))
    except KeyboardInterrupt:
        err.print(f"interrupted; what was made is in {file}: the same command goes on from there", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    found = facts(file, queries)
    if as_json:
        print_json(found)
        return
    for name, each in [*found["sources"].items(), ("all", found)]:
        print(
            f"{name:<14} {each['tasks']:>6} tasks  {each['trajectories']:>6} kept ({each['share']:.0%})  "
            f"{each['queries']:>6} queries  mean rank {each['mean_rank']:.2f}"
        )
    print(f"SHA-256 {found['sha256']}")


async def _make(
    catalogues: Catalogues, queries: Sequence[Query], output: Output, teacher: str, turns: Turns, seed: int
) -> None:
    """Pool by pool: one index is held at a time. The lines of the file are in that order."""
    bench = Bench(catalogues, RESULTS / "retrieval", None, MiniLM())
    by_pool: dict[str, list[Query]] = defaultdict(list)
    for query in queries:
        by_pool[query.pool].append(query)
    model = None if teacher == NAME else resolve_model(Settings.load(), teacher)
    try:
        with Progress(console=err, transient=True) as progress:
            for pool, some in sorted(by_pool.items()):
                examples = [Example(query.id, query.text, tuple(sorted(query.gold))) for query in some]
                missing = [example for example in examples if not output.known(example)]
                if not missing:
                    continue
                index = bench.index(pool).tools
                maker = (
                    DocumentSynthesiser(index, seed=seed, turns=turns)
                    if model is None
                    else Synthesiser(index, model, seed=seed, turns=turns)
                )
                for example in progress.track(missing, description=pool):
                    if absent := [tool for tool in example.gold if tool not in index]:
                        output.write(Skipped(example, f"the index has no tool {absent[0]!r}"))
                    else:
                        output.write(await maker.make(example))
    finally:
        await bench.aclose()
        if model is not None:
            await model.aclose()


def facts(file: Path, queries: Sequence[Query]) -> dict[str, Any]:
    """What a file of trajectories holds, in all and by source; the digest is of the whole file."""
    source = {query.id: query.source for query in queries}
    tasks = Counter(source.values())
    kept: Counter[str] = Counter()
    ranks: dict[str, list[float]] = defaultdict(list)
    turns: Counter[str] = Counter()
    text = file.read_bytes() if file.exists() else b""
    for line in text.splitlines():
        about = json.loads(line)["metadata"]
        if (name := source.get(about["id"])) is not None:
            kept[name] += 1
            turns[name] += len(about["queries"])
            ranks[name] += [each["rank"] for each in about["queries"] if each["valid"]]

    def of(names: Sequence[str]) -> dict[str, Any]:
        found = [rank for name in names for rank in ranks[name]]
        asked, held = sum(tasks[name] for name in names), sum(kept[name] for name in names)
        return {
            "tasks": asked,
            "trajectories": held,
            "share": held / max(1, asked),
            "queries": sum(turns[name] for name in names),
            "mean_rank": sum(found) / max(1, len(found)),
        }

    names = sorted(tasks)
    return of(names) | {
        "sha256": hashlib.sha256(text).hexdigest(),
        "sources": {name: of([name]) for name in names},
    }


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
def train(
    file: Annotated[Path, typer.Argument(help="What the part `trajectories` made.")],
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
    as_json: AsJson = False,
) -> None:
    """Train a small planner, and search with it before and after."""
    if data is None:
        raise EnvironmentProblem("held-out queries are the benchmark's: give --data DIR or ATC_DATA")
    from atc_research.toolqp.planner import Planner, Policy, examples, read_lines
    from atc_research.toolweaver.code_decoder import opened, torch
    from atc_research.toolweaver.decoder_training import Options, Progress
    from atc_research.toolweaver.decoder_training import train as trained

    torch.set_num_threads(2)
    catalogues = Catalogues(data)
    wanted = held_out_queries(catalogues, asked)
    lines = read_lines(file)
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
            rows = asyncio.run(ranked_by(bench, Policy(planner, at_once=32), wanted, queries))
            place.write_text(json.dumps(rows), encoding="utf-8")
        held: list[dict[str, Any]] = json.loads(place.read_text(encoding="utf-8"))
        return held

    try:
        out.mkdir(parents=True, exist_ok=True)
        before = measured("before")
        until = time.monotonic() + 60 * minutes
        options = Options(rank=rank, rate=rate, epochs=1, batch=4, at_once=4, decay=0.01, seed=seed)
        progress = trained(planner, learnt, options, out, until=until, report=told)
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
            part: table(wanted, before, after, seen)
            for part, seen in (("seen", True), ("unseen", False), ("all", None))
        },
    }
    (out / "figures.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    if as_json:
        print_json(found)
    else:
        _show(found)


async def ranked_by(bench: Bench, ask: Ask, wanted: Sequence[Query], queries: int) -> list[dict[str, Any]]:
    """Search for each query with a plan; all at once, so that the model answers them in batches."""
    from atc_research.toolqp.rewards import ends_by_stop, well_formed

    indexes: dict[str, ToolIndex] = {}
    for query in wanted:
        if query.pool not in indexes:
            indexes[query.pool] = bench.index(query.pool).tools
    turns = replace(SHORT, eager=not queries)  # of a plan alone the sub-goals are searched for

    async def one(query: Query) -> dict[str, Any]:
        index = indexes[query.pool]
        planner = QueryPlanner(index, ask, prerequisites=False, adaptive=False, queries=queries, turns=turns)
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


def table(
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
    show_parts(found["parts"])


def show_parts(parts: Mapping[str, Any]) -> None:
    """Print the figures of each part of the queries."""
    for part, held in parts.items():
        print(f"{part}, {held['queries']} queries:")
        for name in ("words", "before", "after"):
            each = held[name]
            formed = f"  well-formed {each['formed']:.0%}  sub-goals {each['goals']:.1f}" if "formed" in each else ""
            print(f"  {name:<7} nDCG@10 {each['ndcg']:.1%}  C@10 {each['complete']:.1%}{formed}")
        for against in ("before", "words"):
            mean, low, high = held[f"after_less_{against}"]
            between = f"95 %: {100 * low:+.1f} to {100 * high:+.1f}"
            print(f"  after − {against}: {100 * mean:+.1f} points of nDCG@10 ({between})")


app = typer.Typer(help=__doc__, no_args_is_help=True)


@app.callback()
def _main() -> None:
    """Train a planner of searches, and measure it."""


app.command(short_help="Make training data, with counts and a digest.")(trajectories)
app.command(short_help="Train a small planner, and search with it before and after.")(train)

if __name__ == "__main__":
    app()
