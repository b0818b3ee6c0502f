"""Training data of a planner: the part ``trajectories`` of :mod:`benchmarks.planner`."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from atc.cli.console import INTERRUPTED, err, guarded
from atc.errors import EnvironmentProblem, UsageError
from atc.learn.examples import Example
from atc.models import resolve_model
from atc.retrieval.dialogue import PRODUCT, Turns
from atc.retrieval.minilm import MiniLM
from atc.settings import Settings
from atc_research.toolqp.dataset import Output
from atc_research.toolqp.document_teacher import NAME, DocumentSynthesiser
from atc_research.toolqp.paper_planner import PAPER
from atc_research.toolqp.trajectories import Skipped, Synthesiser
from benchmarks.common import print_json
from benchmarks.retrieval_data import Catalogues, Query
from benchmarks.retrieval_methods import Bench

RESULTS = Path(__file__).with_name("results")
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
def main(
    file: Annotated[Path, typer.Option("--out", "-o", help="The file of trajectories; outside the repository.")],
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Tasks to make trajectories of.")] = 1_500,
    teacher: Annotated[str, typer.Option(help="documents, or a model as `atc run --model` takes it.")] = NAME,
    turns: Annotated[str, typer.Option(help=f"How conversations are written: {', '.join(TURNS)}.")] = "short",
    seed: Annotated[int, typer.Option(min=0, help="Of all random choices.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
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
