"""What a model that was taught nothing picks from a menu of tools, beside search alone and search with its plan.

``ceiling`` is the same menu with a model that picks the right lines of each page: what the menu itself loses.

``python -m benchmarks.codes menu --data DIR --model embedded --limit-s 3600 --out FILE``. A line is kept for each query
and method as it ends; the same command goes on from there. Queries are drawn by a hash, as many of each source.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any, Literal

import numpy as np
import typer
from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from atc.cli.console import INTERRUPTED, err, guarded
from atc.errors import EnvironmentProblem, UsageError
from atc.models import Model, open_model
from atc.models.base import Message, Reply, estimate_tokens
from atc.models.fake import FakeModel
from atc.retrieval.index import ToolIndex
from atc.retrieval.menu import Line, WordGroups
from atc.retrieval.menu_walk import BEAM, GROUPS, PICKS, MenuWalk
from atc.retrieval.planner import QueryPlanner, Trajectory, search_without_plan
from benchmarks.codes_data import G3, RESULTS, TOOLBENCH, CodesData, split
from benchmarks.common import print_json, show
from benchmarks.retrieval_data import Query

Method = Literal["hybrid", "ceiling", "menu", "planned"]
METHODS: tuple[Method, ...] = ("hybrid", "ceiling", "menu", "planned")
_ASKING = frozenset({"menu", "planned"})
Grouping = Literal["codes", "near"]
SOURCES = ("metatool", "livemcp", G3, "toolbench")
DEPTH = 20
FIRST, STEPS = (1, 5, 10), (1, 2, 3, 4)


@dataclass(frozen=True)
class Case:
    """A query of a source, asked of a pool."""

    id: str
    source: str
    pool: str
    text: str
    gold: frozenset[str]


@dataclass(frozen=True)
class Row:
    """What one method made of one query.

    Attributes:
        model: whose picks or plan; empty for search alone. ``grouping``: of a menu.
        ranked: ids, the likeliest first.
        picked: of these the first that the model picked from a menu.
        longest: tokens of the longest prompt.
        tokens: of all prompts, ``cached`` of these were read before; ``written`` of replies.
        stopped: why the model's part ended early.
    """

    method: Method
    source: str
    query: str
    model: str
    grouping: str
    gold: list[str]
    ranked: list[str]
    picked: list[str]
    calls: int
    tokens: int
    cached: int
    written: int
    longest: int
    seconds: float
    stopped: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        return self.method, self.source, self.query, self.model, self.grouping

    def place(self) -> int | None:
        """From 1: where the first right tool stands."""
        return next((at for at, id in enumerate(self.ranked, 1) if id in self.gold), None)


ROWS: TypeAdapter[Row] = TypeAdapter(Row)


@guarded
def main(
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/.")] = None,
    model: Annotated[str, typer.Option(help="That picks and plans, as `atc run --model` takes it.")] = "embedded",
    per_source: Annotated[int, typer.Option("--per-source", min=1, help="Queries of each source.")] = 40,
    sources: Annotated[str, typer.Option(help="Which, with commas.")] = ",".join(SOURCES),
    methods: Annotated[str, typer.Option(help="Which, with commas.")] = ",".join(METHODS),
    grouping: Annotated[Grouping, typer.Option(help="Menu of codes, or of near tools without codes.")] = "codes",
    limit_s: Annotated[float, typer.Option("--limit-s", min=0, help="Ask for no more after so many seconds.")] = 3600.0,
    vectors: Annotated[Path | None, typer.Option(help="Where vectors of texts are kept.")] = None,
    file: Annotated[Path | None, typer.Option("--out", help="Where the lines are kept.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Figures as JSON.")] = False,
) -> None:
    """What the model picks from a menu, beside search alone and with a plan."""
    wanted, ways = _among(sources, SOURCES, "source"), _among(methods, METHODS, "method")
    out = file or RESULTS / "menu.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    found = CodesData(data, vectors)
    cases = {source: drawn(cases_of(found, source), per_source) for source in wanted}
    try:
        asyncio.run(_run(found, cases, ways, model, grouping, time.monotonic() + limit_s, out))
    except KeyboardInterrupt:
        err.print(f"interrupted; what was asked is in {out}: the same command goes on from there", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    chosen = {(case.source, case.id) for some in cases.values() for case in some}
    rows = [row for row in read_rows(out) if (row.source, row.query) in chosen]
    rows = [row for row in rows if row.method in ways and row.grouping in ("", grouping)]
    figures = summary(rows)
    if as_json:
        print_json({"queries": {source: len(some) for source, some in cases.items()}, "figures": figures})
        return
    columns = list(figures[0]) if figures else []
    show("What a model picks from a menu", columns, [[figure[name] for name in columns] for figure in figures])


def cases_of(data: CodesData, source: str) -> list[Case]:
    """The queries of a source that may be asked."""
    if source == "livemcp":
        return list(sub_queries(data))
    if source == "metatool":
        return [_case(query, source) for query in split(data.queries("metatool"))[1]]
    queries = data.queries(*TOOLBENCH, subset="G3" if source == G3 else "")
    inside = {id for id, _ in data.catalogues.pool(source)}
    return [_case(query, source) for query in queries if query.gold <= inside]


def sub_queries(data: CodesData) -> Iterator[Case]:
    """The searches of agents for one tool, each with the tool that they called next without an error."""
    path = data.catalogues.directory / "trajectories" / "livemcp_agents.jsonl.gz"
    if not path.is_file():
        raise EnvironmentProblem(f"{path} is not there: give the data's directory with --data DIR or in ATC_DATA")
    inside = {id for id, _ in data.catalogues.pool("livemcp")}
    with gzip.open(path) as file:
        for run in map(json.loads, file):
            for number, route in enumerate(run["routes"]):
                called = run["calls"][route["before_call"]] if route["before_call"] < len(run["calls"]) else {}
                if called.get("tool") in inside and not called.get("error"):
                    yield Case(
                        f"{run['id']}#{number}", "livemcp", "livemcp", route["query"], frozenset([called["tool"]])
                    )


def drawn(cases: Iterable[Case], count: int) -> list[Case]:
    """So many, always the same ones; of queries with the same text one."""
    by_text = {case.text: case for case in sorted(cases, key=_order, reverse=True)}
    return sorted(by_text.values(), key=_order)[:count]


def _order(case: Case) -> str:
    return hashlib.sha256(case.id.encode()).hexdigest()


def _case(query: Query, source: str) -> Case:
    return Case(query.id, source, source if source != "metatool" else query.pool, query.text, query.gold)


async def _run(
    data: CodesData,
    cases: dict[str, list[Case]],
    methods: Sequence[Method],
    spec: str,
    grouping: Grouping,
    until: float,
    out: Path,
) -> None:
    done = {row.key for row in read_rows(out)}
    async with aclosing(open_model(spec) if _ASKING & {*methods} else FakeModel([])) as model:
        for some in cases.values():
            asked = [(case, method) for case in some for method in methods]
            missing = [each for each in asked if _key(*each, model, grouping) not in done]
            if not missing or time.monotonic() > until:
                continue
            index = data.pool(missing[0][0].pool).index
            if grouping == "codes":
                index.make_codes()
            groups = WordGroups(index.menu(GROUPS))
            with out.open("ab") as lines:
                for case, method in missing:
                    if time.monotonic() > until:
                        err.print("the time is up; the same command goes on from here", markup=False)
                        return
                    row = await tried(case, method, index, groups, model, grouping)
                    lines.write(ROWS.dump_json(row) + b"\n")
                    lines.flush()
                    took = f"{row.calls} calls, {row.tokens} tokens, {row.seconds:.1f} s"
                    err.print(f"{case.source} {method}: right at {row.place() or '-'} ({took})", markup=False)


class _Ceiling(MenuWalk):
    """Picks of each page what leads to a right tool."""

    def __init__(self, index: ToolIndex, groups: WordGroups, gold: frozenset[str], replies: list[Reply]) -> None:
        super().__init__(index, groups, self._reply, adaptive=False)
        self._gold, self._right, self._replies = np.array(index.rows(sorted(gold))), list[int](), replies

    async def _picked(self, walk: Any, done: Trajectory, page: Sequence[Line], stable: bool) -> list[Line]:
        rows = [self._groups.rows(line.group) if line.row is None else [line.row] for line in page]
        right = [number for number, some in enumerate(rows, 1) if np.isin(self._gold, some).any()]
        self._right = right[: PICKS if all(line.row is not None for line in page) else BEAM]
        return await super()._picked(walk, done, page, stable)

    async def _reply(self, messages: Sequence[Message], max_tokens: int, **form: Any) -> Reply:
        text = json.dumps({"pick": self._right})
        self._replies.append(Reply(text, "stop", estimate_tokens(messages), estimate_tokens(text), 0.0))
        return self._replies[-1]


async def tried(
    case: Case, method: Method, index: ToolIndex, groups: WordGroups, model: Model, grouping: Grouping
) -> Row:
    """One query by one method. The model is always asked, also where one tool fits clearly."""
    replies: list[Reply] = []

    async def ask(messages: Sequence[Message], max_tokens: int, **form: Any) -> Reply:
        reply = await model.complete(messages, max_tokens=max_tokens, **form)
        replies.append(reply)
        return reply

    began = time.perf_counter()
    ways: dict[Method, Callable[[], Any]] = {
        "ceiling": lambda: _Ceiling(index, groups, case.gold, replies).search(case.text, DEPTH),
        "menu": lambda: MenuWalk(index, groups, ask, adaptive=False).search(case.text, DEPTH),
        "planned": lambda: QueryPlanner(index, ask, adaptive=False).search(case.text),
    }
    found: Trajectory = await ways[method]() if method in ways else search_without_plan(index, case.text, DEPTH)
    seconds = time.perf_counter() - began
    return Row(
        *_key(case, method, model, grouping),
        sorted(case.gold),
        found.ranked(DEPTH),
        [each.id for each in found.said],
        len(replies),
        sum(reply.prompt_tokens for reply in replies),
        sum(reply.cached_tokens for reply in replies),
        sum(reply.completion_tokens for reply in replies),
        max((reply.prompt_tokens for reply in replies), default=0),
        round(seconds, 3),
        found.stopped,
    )


def _key(case: Case, method: Method, model: Model, grouping: Grouping) -> tuple[Method, str, str, str, str]:
    of_menu = grouping if method in ("menu", "ceiling") else ""
    return method, case.source, case.id, model.name if method in _ASKING else "", of_menu


def read_rows(file: Path) -> list[Row]:
    """The rows of a file, of the same query the last; a line that was cut off is left out."""
    rows: dict[tuple[str, ...], Row] = {}
    for line in file.read_bytes().splitlines() if file.exists() else ():
        try:
            row = ROWS.validate_json(line)
        except ValueError:
            continue
        rows[row.key] = row
    return list(rows.values())


def summary(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """A line for each source and method. ``first 1``: share of queries with a right tool there; ``picked in 2``: with
    one that the model picked with so many calls."""
    by: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by[row.source, row.method].append(row)
    found = []
    for (source, method), some in sorted(by.items()):
        share = {f"first {k}": _share([(row.place() or k + 1) <= k for row in some]) for k in FIRST}
        said = [bool({*row.picked} & {*row.gold}) for row in some]
        right = {
            f"picked in {k}": _share([hit and row.calls <= k for hit, row in zip(said, some, strict=True)])
            for k in STEPS
        }
        found.append(
            {"source": source, "method": method, "queries": len(some)}
            | share
            | (right if method in ("menu", "ceiling") else dict.fromkeys(right))
            | {
                "calls": round(fmean(row.calls for row in some), 2),
                "read": round(fmean(row.tokens for row in some)),
                "of these new": round(fmean(row.tokens - row.cached for row in some)),
                "written": round(fmean(row.written for row in some)),
                "longest": max(row.longest for row in some),
                "seconds": round(median(row.seconds for row in some), 2),
            }
        )
    return found


def _share(holds: Sequence[bool]) -> float:
    return round(100 * fmean(holds), 1)


def _among(given: str, known: Sequence[Any], what: str) -> list[Any]:
    wanted = [name.strip() for name in given.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            raise UsageError(f"there is no {what} {name!r}: take some of {', '.join(known)}")
    return wanted or list(known)
