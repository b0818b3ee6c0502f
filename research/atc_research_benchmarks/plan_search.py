"""Does a plan find more tools? One planner, 40 queries, and the same searches with and without what it says.

``python -m atc_research_benchmarks.plan_search --data DIR --out ROWS.jsonl`` asks the model that the settings name
(``ATC_MODEL``, ``OPENAI_BASE_URL``). The queries are of sources whose tasks need tools that they do not
mention, and of StableToolBench G3. Each is a line of the file, and the same command goes on from there. Replies are
kept: a search that was cut off asks for none anew, and the arms that share a plan ask for it once. ``--lane 2/3`` takes
every third query, so that several planners can work side by side. ``--summary ROWS`` prints the table.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass as checked_dataclass

from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.index_store import FILE
from atc.catalogue.index.metrics import ndcg
from atc.catalogue.index.minilm import MiniLM
from atc.cli.console import INTERRUPTED, err, guarded, out, print_json
from atc.errors import EnvironmentProblem, UsageError
from atc.models.base import Message, Model, Reply
from atc.models.resolve import resolve_model
from atc.schemas.protocol import Protocol
from atc.settings import Settings
from atc_research.toolqp.planning import QueryPlanner, Trajectory, peak_rank, search_without_plan
from benchmarks.common import RESULTS, AsJson, show
from benchmarks.retrieval.data import Catalogues, Query, in_order
from benchmarks.retrieval.ranking import bootstrapped, completeness
from benchmarks.rows import read_lines

FOLDER = RESULTS / "planner"
SOURCES = {
    "restbench_tmdb": 6,
    "restbench_spotify": 6,
    "api_bank": 3,
    "api_bank_lv3": 3,
    "toolflow": 6,
    "complexfuncbench": 6,
    "stabletoolbench": 10,
}
"""Queries of each source; of StableToolBench those of :data:`SUBSET` alone."""
SUBSET, G3_TOOLS = "G3_instruction", 1_600
"""The tools that the tasks of G3 are searched for in: as many as the paper's I3 has (ToolQP §4.3), of 47,092."""
DEPTH, K = 20, 10
QUERIES = 3
"""Queries that the planner may write after its plan: each is a reply."""
ARMS = ("no plan", "needs", "plan", "plan + queries", "plan, peak", "plan + queries, peak", "as the paper ranks")
"""Words and meaning of the task and its parts; what found tools need beside them (a run without a plan); the plan's
sub-goals beside these; queries of the planner, too. ``peak``: by ``retrieval=planned-peak``. The last one is peak rank
over plan and queries, without what found tools need."""
BASE = "needs"


@checked_dataclass(frozen=True)
class Row:
    """What was found for one query.

    Attributes:
        planner: the model's name.
        query: the query's id. ``gold``: how many tools are wanted.
        places: by arm, the places of the wanted tools among the first :data:`DEPTH`.
        goals: of the plan. ``queries``: that the planner wrote. ``replies``: that it took, by arm.
        tokens: of prompts and replies, by arm.
        stopped: why the search ended early, if it did.
    """

    planner: str
    source: str
    query: str
    gold: int
    places: dict[str, list[int]]
    goals: int
    queries: int
    replies: dict[str, int]
    tokens: dict[str, int]
    seconds: float
    stopped: str = ""


ROWS: TypeAdapter[Row] = TypeAdapter(Row)


def read_rows(file: Path) -> list[Row]:
    """The rows of a file, if it is there."""
    return read_lines(file, ROWS) if file.exists() else []


def drawn(catalogues: Catalogues) -> list[Query]:
    """The queries, sources taking turns: always the same ones, as if drawn at random."""
    by_source: dict[str, list[Query]] = defaultdict(list)
    for query in catalogues.queries(sources=[*SOURCES]):
        if query.source != "stabletoolbench" or query.subset == SUBSET:
            by_source[query.source].append(query)
    chosen = {source: in_order(by_source[source])[:count] for source, count in SOURCES.items()}
    turns = range(max(SOURCES.values()))
    return [chosen[source][turn] for turn in turns for source in SOURCES if turn < len(chosen[source])]


def pool(catalogues: Catalogues, query: Query) -> list[tuple[str, Protocol]]:
    """The tools that are searched for a query: its source's own, or so many of G3.

    Those of G3 are all tools of the services that a task of G3 needs, and others as if drawn at random.
    """
    tools = dict(catalogues.pool(query.pool))
    if query.source != "stabletoolbench":
        return [*tools.items()]
    asked = catalogues.queries(sources=["stabletoolbench"])
    wanted = {tool for each in asked if each.subset == SUBSET for tool in each.gold}
    services = {tools[tool].source.location for tool in wanted if tool in tools}
    own = [tool for tool, protocol in tools.items() if tool in wanted or protocol.source.location in services]
    others = sorted(tools.keys() - set(own), key=lambda tool: hashlib.sha256(tool.encode()).digest())
    return [(tool, tools[tool]) for tool in sorted([*own, *others[: max(0, G3_TOOLS - len(own))]])]


def index_of(catalogues: Catalogues, query: Query, folder: Path) -> ToolIndex:
    """The index of the tools of a query, by words and meaning; kept."""
    encoder, tools = MiniLM(), pool(catalogues, query)
    lines = "\n".join(f"{tool} {protocol.model_dump_json()}" for tool, protocol in tools)
    kept = folder / f"{query.pool}-{hashlib.sha256(lines.encode()).hexdigest()[:12]}"
    if (kept / FILE).exists():
        return ToolIndex.load(kept, encoder)
    return ToolIndex.build(tools, encoder, kept)


class Asked:
    """Asks the planner, and counts what it costs."""

    def __init__(self, model: Model) -> None:
        self._model, self.tokens = model, 0

    async def __call__(self, messages: Sequence[Message], max_tokens: int) -> Reply:
        reply = await self._model.complete(messages, max_tokens=max_tokens)
        self.tokens += reply.prompt_tokens + reply.completion_tokens
        return reply


async def searched(model: Model, index: ToolIndex, query: Query) -> Row:
    """Search in all ways for the tools of one query.

    Raises:
        EnvironmentProblem: the planner does not answer.
    """
    began = time.monotonic()
    found: dict[str, Trajectory] = {
        "no plan": search_without_plan(index, query.text, DEPTH, prerequisites=False),
        BASE: search_without_plan(index, query.text, DEPTH),
    }
    replies, tokens = dict[str, int](), dict[str, int]()
    for arm, queries in (("plan", 0), ("plan + queries", QUERIES)):
        asked = Asked(model)
        planned = await QueryPlanner(index, asked, queries=queries).search(query.text)
        if planned.stopped and not planned.skipped:
            raise EnvironmentProblem(f"the planner does not answer: {planned.stopped}")
        found[arm], found[f"{arm}, peak"] = planned, replace(planned, fusion=peak_rank)
        replies[arm], tokens[arm] = planned.calls, asked.tokens
    last = found["plan + queries"]
    found["as the paper ranks"] = replace(last, fusion=peak_rank, prerequisites=[])
    return Row(
        model.name,
        query.source,
        query.id,
        len(query.gold),
        {arm: places(found[arm].ranked(DEPTH), query) for arm in ARMS},
        len(last.goals),
        len(last.turns) - 1 - len(last.goals),
        replies,
        tokens,
        round(time.monotonic() - began, 3),
        last.stopped,
    )


def places(ranked: Sequence[str], query: Query) -> list[int]:
    """The places of the wanted tools, from 1."""
    return [place for place, tool in enumerate(ranked, 1) if tool in query.gold]


def scores(row: Row, arm: str) -> tuple[float, float]:
    """nDCG@10 and Completeness@10 of one arm."""
    ranked = [str(-place) for place in range(1, DEPTH + 1)]
    for number, place in enumerate(row.places[arm]):
        ranked[place - 1] = str(number)
    gold = frozenset(str(number) for number in range(row.gold))
    return ndcg(ranked, gold, K), completeness(ranked, gold, K)


def summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A line for each arm, over all queries alike; differences from :data:`BASE` are paired, with their 95 %."""
    lines = []
    for arm in ARMS:
        by_source: Mapping[str, list[tuple[float, ...]]] = defaultdict(list)
        for row in rows:
            own, base = scores(row, arm), scores(row, BASE)
            by_source[row.source].append((*own, own[0] - base[0], own[1] - base[1]))
        values = [each for found in by_source.values() for each in found]
        costs = arm.removesuffix(", peak") if arm.startswith("plan") else "plan + queries" if "paper" in arm else ""
        line: dict[str, Any] = {"arm": arm, "queries": len(rows)}
        for column, name in enumerate(("nDCG@10", "C@10", "nDCG@10 gained", "C@10 gained")):
            line[name] = fmean(each[column] for each in values)
        for column, name in ((2, "nDCG@10 gained"), (3, "C@10 gained")):
            line[f"{name} interval"] = bootstrapped([[each[column] for each in values]])
        line["better"] = sum(each[2] > 0 for each in values)
        line["worse"] = sum(each[2] < 0 for each in values)
        line["replies"] = fmean(row.replies.get(costs, 0) for row in rows)
        line["tokens"] = fmean(row.tokens.get(costs, 0) for row in rows)
        lines.append(line)
    return lines


def print_summary(rows: Sequence[Row]) -> None:
    """The table, and below it nDCG@10 by source."""
    shown = []
    for line in summary(rows):
        low, high = line["nDCG@10 gained interval"]
        shown.append(
            (
                line["arm"],
                f"{100 * line['nDCG@10']:.1f}",
                f"{100 * line['C@10']:.1f}",
                f"{100 * line['nDCG@10 gained']:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})",
                f"{line['better']} / {line['worse']}",
                f"{line['replies']:.1f}",
                f"{line['tokens']:,.0f}",
            )
        )
    planners = ", ".join(sorted({row.planner for row in rows}))
    columns = ("arm", "nDCG@10", "C@10", f"beside {BASE}", "better / worse", "replies", "tokens")
    show(f"{len(rows)} queries, planned by {planners}", columns, shown)
    by_source: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_source[row.source].append(row)
    lines = [
        (source, str(len(found)), *(f"{100 * fmean(scores(row, arm)[0] for row in found):.1f}" for arm in ARMS))
        for source, found in sorted(by_source.items())
    ]
    show("nDCG@10 by source", ("source", "queries", *ARMS), lines)


@guarded
def main(
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/.")] = None,
    file: Annotated[Path, typer.Option("--out", help="Where each query is a JSON line.")] = RESULTS / "rows.jsonl",
    lane: Annotated[str, typer.Option(help="I/N: every N-th query, from the I-th on.")] = "1/1",
    limit: Annotated[int, typer.Option(min=0, help="The first so many of the lane's queries; 0 takes all.")] = 0,
    folder: Annotated[Path, typer.Option("--keep", help="Where indexes and replies are kept.")] = FOLDER,
    tables: Annotated[list[Path] | None, typer.Option("--summary", help="Ask nobody: the table of these rows.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure what a planner adds to the search for tools."""
    if not tables:
        if data is None:
            raise EnvironmentProblem("the benchmark of planning needs its data: give --data DIR or ATC_DATA")
        first, _, of = lane.partition("/")
        if not (first.isdecimal() and of.isdecimal() and 1 <= int(first) <= int(of)):
            raise UsageError(f"--lane takes I/N with I from 1 to N, such as 1/3, not {lane!r}")
        try:
            asyncio.run(_run(Catalogues(data), file, (int(first), int(of)), limit, folder))
        except KeyboardInterrupt:
            err.print(f"interrupted; what was found is in {file}: the same command goes on from there", markup=False)
            raise typer.Exit(INTERRUPTED) from None
    rows = [*{(row.planner, row.query): row for each in tables or [file] for row in read_rows(each)}.values()]
    if not rows:
        raise UsageError("there are no rows yet")
    if as_json:
        print_json(summary(rows))
    else:
        print_summary(rows)


async def _run(catalogues: Catalogues, file: Path, lane: tuple[int, int], limit: int, folder: Path) -> None:
    MiniLM().check()
    model = resolve_model(Settings.load(), cache_dir=folder / "replies")
    done = {row.query for row in read_rows(file) if row.planner == model.name}
    wanted = drawn(catalogues)[lane[0] - 1 :: lane[1]][: limit or None]
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("ab") as rows:
            for number, query in enumerate(wanted, 1):
                if query.id in done:
                    continue
                index = await asyncio.to_thread(index_of, catalogues, query, folder / "indexes")
                row = await searched(model, index, query)
                rows.write(ROWS.dump_json(row) + b"\n")
                rows.flush()
                out.print(
                    f"{number} of {len(wanted)}: {query.id}, {row.replies['plan + queries']} replies", markup=False
                )
    finally:
        await model.aclose()


if __name__ == "__main__":
    typer.run(main)
