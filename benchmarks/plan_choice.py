"""Choosing among sampled plans without a label: the cheap alternative to training a planner on labels.

``python -m benchmarks.plan_choice --data DIR [--drawn 8] [--per-source 30] [--samples 4] [--model NAME]``

A model writes one plan at temperature 0 and several at 0.7 (ToolQP §3.1, the plan turn alone). Its sub-goals are
searched beside the task and fused; of the sampled plans one is chosen by what can be seen without the wanted
tools. ``peak``: the mean over the sub-goals of the best cosine that one finds. ``coverage``: the share of the task's
words that the sub-goals, or the first tools that they find, have. ``both``: the sum of the two, each shifted to 0 … 1
among the plans of one task. Beside them the greedy plan, the mean over the samples (a choice by lot), and the oracle,
which knows nDCG@10. Queries take turns over the sources; plans are kept, and rows are gone on from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer
from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass
from rich import box
from rich.progress import Progress
from rich.table import Table

from atc.cli.console import INTERRUPTED, err, guarded, out, print_json
from atc.errors import UsageError
from atc.retrieval.dialogue import PRODUCT, parse_plan
from atc.retrieval.index import Hit
from atc.retrieval.metrics import ndcg
from atc.retrieval.minilm import MiniLM
from atc.retrieval.planner import DEPTH, anchored_similarity
from atc.retrieval.words import STOP_WORDS, words
from benchmarks.retrieval import AT_LEAST, RESULTS, Arm, in_turns
from benchmarks.retrieval_data import Catalogues, Query
from benchmarks.retrieval_methods import METHODS, Bench, Opened
from benchmarks.retrieval_report import Line, bootstrapped, completeness

SAMPLES, TEMPERATURE = 4, 0.7
FIRST = 3
"""Of the tools that a sub-goal finds, those whose words count for coverage."""


@dataclass(frozen=True)
class Planned:
    """One plan of a query, and what came of it.

    Attributes:
        peak: mean best cosine of its sub-goals; 0 where there are none.
        coverage: share of the task's words, 0 … 1.
        ndcg: nDCG@10 of the fused ranking. ``complete``: whether all wanted tools are among ten.
    """

    peak: float
    coverage: float
    ndcg: float
    complete: float


@dataclass(frozen=True)
class Row:
    """The plans of one query: the greedy one, and the sampled ones."""

    query: str
    source: str
    version: str
    greedy: Planned
    sampled: list[Planned]


_ROWS: TypeAdapter[Row] = TypeAdapter(Row)
Choice = Callable[[Row], Planned]


def judged(pool: Opened, query: Query, goals: Sequence[str]) -> Planned:
    """Search for the sub-goals of a plan, and look at what they find."""
    rankings = pool.tools.search_many([query.text, *goals], DEPTH)
    ranked = anchored_similarity(rankings)
    tops = [max((hit.dense or 0.0 for hit in ranking), default=0.0) for ranking in rankings[1:]]
    return Planned(
        fmean(tops) if tops else 0.0,
        _coverage(pool, query.text, goals, rankings[1:]),
        ndcg(ranked, query.gold, 10),
        completeness(ranked, query.gold, 10),
    )


def _coverage(pool: Opened, task: str, goals: Sequence[str], rankings: Sequence[Sequence[Hit]]) -> float:
    asked = set(words(task)) - STOP_WORDS
    had = {word for goal in goals for word in words(goal)}
    for ranking in rankings:
        for hit in ranking[:FIRST]:
            protocol = pool.tools.protocol(hit.id)
            had |= set(words(f"{protocol.name} {protocol.description}"))
    return len(asked & had) / len(asked) if asked else 0.0


def _both(row: Row) -> Planned:
    peaks, coverages = (_shifted([getattr(each, name) for each in row.sampled]) for name in ("peak", "coverage"))
    best = max(range(len(row.sampled)), key=lambda at: peaks[at] + coverages[at])
    return row.sampled[best]


def _shifted(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.0 for value in values]


def _lot(row: Row) -> Planned:
    return Planned(0.0, 0.0, fmean(p.ndcg for p in row.sampled), fmean(p.complete for p in row.sampled))


CHOICES: Mapping[str, Choice] = {
    "greedy": lambda row: row.greedy,
    "by lot": _lot,
    "peak": lambda row: max(row.sampled, key=lambda each: each.peak),
    "coverage": lambda row: max(row.sampled, key=lambda each: each.coverage),
    "both": _both,
    "oracle": lambda row: max(row.sampled, key=lambda each: each.ndcg),
}
"""By the names that the table gives them; of equal plans the first."""


async def planned(bench: Bench, query: Query, version: str, samples: int) -> Row:
    """Have the plans of a query written, and judge each.

    Raises:
        ModelError, ModelUnavailable, BudgetExceeded: from the model.
    """
    pool = bench.index(query.pool)
    messages, tokens = PRODUCT.opening(query.text), PRODUCT.plan_tokens
    greedy = await bench.ask(messages, tokens)
    drawn = await bench.model().sample(messages, samples, max_tokens=tokens, temperature=TEMPERATURE, seed=0)
    first, *others = [judged(pool, query, parse_plan(reply.text).goals) for reply in (greedy, *drawn)]
    return Row(query.id, query.source, version, first, others)


def summary(rows: Sequence[Row]) -> list[Line]:
    """A line for each choice: macro over sources, its 95 % interval, and that of the difference to the greedy plan."""
    sources = sorted({row.source for row in rows})
    by_source = [[row for row in rows if row.source == source] for source in sources]
    lines: list[Line] = []
    for name, choice in CHOICES.items():
        chosen = [[choice(row) for row in found] for found in by_source]
        gains = [
            [plan.ndcg - row.greedy.ndcg for plan, row in zip(plans, found, strict=True)]
            for plans, found in zip(chosen, by_source, strict=True)
        ]
        values = [[plan.ndcg for plan in plans] for plans in chosen]
        lines.append(
            {
                "choice": name,
                "sources": len(sources),
                "queries": len(rows),
                "nDCG@10": fmean(map(fmean, values)),
                "nDCG@10 interval": bootstrapped(values),
                "C@10": fmean(fmean(plan.complete for plan in plans) for plans in chosen),
                "gain": fmean(map(fmean, gains)),
                "gain interval": bootstrapped(gains),
            }
        )
    return lines


def read_plans(file: Path) -> list[Row]:
    """The rows of a file; a line that was cut off is left out."""
    rows = []
    for line in file.read_bytes().splitlines() if file.exists() else ():
        try:
            rows.append(_ROWS.validate_json(line))
        except ValueError:
            continue
    return rows


async def measured(bench: Bench, queries: Sequence[Query], version: str, samples: int, file: Path) -> None:
    """Plan what the file does not hold yet, in turns over the sources."""
    done = {row.query for row in read_plans(file) if row.version == version}
    file.parent.mkdir(parents=True, exist_ok=True)
    order = [query for _, query, _ in in_turns([Arm(METHODS["plan-only"], "hybrid")], queries, False)]
    missing = [query for query in order if query.id not in done]
    try:
        with file.open("ab") as rows, Progress(console=err, transient=True) as progress:
            for query in progress.track(missing, description="planning"):
                rows.write(_ROWS.dump_json(await planned(bench, query, version, samples)) + b"\n")
                rows.flush()
    finally:
        await bench.aclose()


@guarded
def main(
    data: Annotated[Path, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/.")],
    drawn: Annotated[int, typer.Option(min=1, help=f"Sources, drawn of those with {AT_LEAST} queries.")] = 8,
    per_source: Annotated[int, typer.Option(min=1, help="Queries of each source, always the same ones.")] = 30,
    samples: Annotated[int, typer.Option(min=2, help="Plans that are sampled.")] = SAMPLES,
    model: Annotated[str | None, typer.Option(help="As `atc run --model` takes it.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Plan nothing more: the table of what is kept.")] = False,
    file: Annotated[Path, typer.Option("--out", help="Where each query's plans are kept.")] = RESULTS
    / "plan_choice.jsonl",
    as_json: Annotated[bool, typer.Option("--json", help="The table as JSON.")] = False,
) -> None:
    """Measure the choice among sampled plans."""
    catalogues, encoder = Catalogues(data), MiniLM()
    encoder.check()
    queries = catalogues.queries(per_source, catalogues.drawn(drawn, AT_LEAST))
    bench = Bench(catalogues, RESULTS / "retrieval", model, encoder)
    version = f"{bench.version(METHODS['plan-only'])} {samples}"
    try:
        if not report:
            asyncio.run(measured(bench, queries, version, samples, file))
    except KeyboardInterrupt:
        err.print(f"interrupted; what was planned is in {file}: the same command goes on from there", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    known = {query.id for query in queries}
    rows = [row for row in read_plans(file) if row.version == version and row.query in known]
    if not rows:
        raise UsageError(f"no query was planned yet in {file}: leave out --report")
    lines = summary(rows)
    if as_json:
        print_json(lines)
        return
    table = Table("choice", "nDCG@10", "95 %", "C@10", "to greedy", "95 %", box=box.SIMPLE_HEAD)
    for line in lines:
        low, high = line["nDCG@10 interval"]
        less, more = line["gain interval"]
        score, complete, gain = (f"{100 * line[name]:.1f}" for name in ("nDCG@10", "C@10", "gain"))
        spans = (f"{100 * low:.1f}-{100 * high:.1f}", f"{100 * less:+.1f} … {100 * more:+.1f}")
        table.add_row(line["choice"], score, spans[0], complete, gain, spans[1])
    out.print(table)
    out.print(f"{len(rows)} queries of {lines[0]['sources']} sources, {samples} plans sampled of each")


if __name__ == "__main__":
    typer.run(main)
