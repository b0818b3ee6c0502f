"""Ranking with each scorer beside search as it is: ``python -m atc_research_benchmarks.used_together --data DIR``.

Of a source with queries to learn from, a fifth is asked, and the tools that the others use count as what runs used
together. ToolBench has none: its file of tool sets counts, as it is and without what lies near a query's tools. Its
third part is split by a hash: one half is to choose constants by, the other to report. Each line is kept as it
ends, so that a stop loses nothing.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.metrics import ndcg
from atc.cli.console import err, guarded, out, print_json
from atc.errors import UsageError
from atc_research.toolqp.planning import search_without_plan, with_providers
from atc_research.toolqp.prerequisites import SURE, Prerequisites
from atc_research.toolqp.rewards import recall
from atc_research.toolweaver.co_usage import CoUsage
from atc_research.toolweaver.together import UsedTogether
from atc_research_benchmarks.search_data import G3, RESULTS, CodesData, split
from benchmarks.common import ROOT, AsJson
from benchmarks.retrieval.methods import Floor

DEPTH = 20
_PLACES = (1, 3, 5, 10)
_DRAWS = 2_000
_TEST = ("toolbench", "stabletoolbench")
Sets = Sequence[tuple[frozenset[str], float]]
Rank = Callable[["Opened", str], list[str]]


@dataclass(frozen=True)
class Asked:
    """A query: its words and its tools."""

    text: str
    gold: frozenset[str]


@dataclass(frozen=True)
class Part:
    """Queries that are asked of one pool.

    Attributes:
        pool: its name. ``only``: keep of it the tools of the services of these queries' tools.
        runs: what earlier runs used together.
        file: what is used together is in ToolBench's file.
    """

    name: str
    pool: str
    asked: Sequence[Asked]
    runs: Sequence[frozenset[str]] = ()
    file: bool = False
    only: bool = False


class Opened:
    """The indexes over the tools of a part, each made when it is first asked for."""

    def __init__(self, data: CodesData, part: Part, before: Opened | None = None) -> None:
        self._data, self._part = data, part
        if before is not None and before._part.pool == part.pool and not (part.only or before._part.only):
            self.__dict__ |= {name: made for name, made in vars(before).items() if name in ("index", "floor")}

    @cached_property
    def index(self) -> ToolIndex:
        tools = self._data.catalogues.pool(self._part.pool)
        if self._part.only:
            services = {id.rpartition("/")[0] for query in self._part.asked for id in query.gold}
            tools = ((id, protocol) for id, protocol in tools if id.rpartition("/")[0] in services)
        return ToolIndex.build(tools, self._data.encoder)

    @cached_property
    def floor(self) -> Floor:
        return Floor(self._data.catalogues, self._part.pool)

    @cached_property
    def with_use(self) -> dict[str, UsedTogether]:
        """Searches with what is used together: all, and without the sets that lie near a query's tools."""
        return {name: self._used(sets) for name, sets in self._sets().items()}

    def _used(self, sets: Sets) -> UsedTogether:
        rows = {id: row for row, id in enumerate(self.index.ids)}
        return UsedTogether(self.index, CoUsage.of(sets, rows, len(self.index)))

    def _sets(self) -> dict[str, Sets]:
        if not self._part.file:
            runs: Sets = [(tools, 1.0) for tools in self._part.runs]
            golds = {query.gold for query in self._part.asked}
            return {"": runs, "apart": [each for each in runs if each[0] not in golds]}
        golds = {query.gold for query in self._data.queries(*_TEST, "anytoolbench")}
        sets = [(frozenset(tools), count) for tools, count in self._data.used_together()]
        services = {_services(gold) for gold in golds if len(_services(gold)) > 1}
        return {
            "": sets,
            "apart": [each for each in sets if not any(each[0] <= gold or gold <= each[0] for gold in golds)],
            "elsewhere": [each for each in sets if _services(each[0]) not in services],
        }


def _services(tools: frozenset[str]) -> frozenset[str]:
    return frozenset(id.rpartition("/")[0] for id in tools)


def _floor(opened: Opened, text: str) -> list[str]:
    return opened.floor.search(text, DEPTH)


def _hybrid(opened: Opened, text: str) -> list[str]:
    return _ids(opened.index, text)


def _needs(opened: Opened, text: str) -> list[str]:
    ranked = _ids(opened.index, text)
    return with_providers(ranked, Prerequisites(opened.index).of(ranked[:SURE], text))


def _parts(opened: Opened, text: str) -> list[str]:
    return search_without_plan(opened.index, text, DEPTH, prerequisites=False).ranked(DEPTH)


def _parts_needs(opened: Opened, text: str) -> list[str]:
    return search_without_plan(opened.index, text, DEPTH).ranked(DEPTH)


def _used(which: str, parts: bool = True, needs: bool = False) -> Rank:
    def rank(opened: Opened, text: str) -> list[str]:
        search = opened.with_use.get(which)
        if search is None:
            return []
        ranked = [hit.id for hit in (search.search_task if parts else search.search)(text, DEPTH)]
        return with_providers(ranked, Prerequisites(opened.index).of(ranked[:SURE], text)) if needs else ranked

    return rank


def _ids(index: ToolIndex, text: str) -> list[str]:
    return [hit.id for hit in index.search(text, DEPTH)]


METHODS: dict[str, Rank] = {
    "bm25": _floor,
    "hybrid": _hybrid,
    "needs": _needs,
    "parts": _parts,
    "parts+needs": _parts_needs,
    "use": _used("", parts=False),
    "parts+use": _used(""),
    "parts+use+needs": _used("", needs=True),
    "parts+use-apart": _used("apart"),
    "parts+use-elsewhere": _used("elsewhere"),
}


@dataclass(frozen=True)
class Line:
    """One method on one part: of 100. 95 % of drawn samples of the queries have an nDCG@5 from ``low`` to ``high``."""

    part: str
    tools: int
    queries: int
    method: str
    ndcg: Mapping[str, float] = field(default_factory=dict)
    all_found: float = 0.0
    low: float = 0.0
    high: float = 0.0


def parts_of(data: CodesData, directory: Path, limit: int) -> Iterator[Part]:
    """All that is asked."""
    for name, subset in (("I1", "G1"), ("I2", "G2")):
        asked = _asked(data.queries(*_TEST, subset=subset))
        yield Part(f"ToolBench {name}, 47k", "toolbench", asked, file=True)
        yield Part(f"ToolBench {name}, its services", "toolbench", asked, file=True, only=True)
    third = _asked(data.queries(*_TEST, subset="G3"))
    halves = [[query for query in third if _half(query.text) == half] for half in (1, 0)]
    for name, asked in (("chosen by", halves[0]), ("reported", halves[1]), ("all", third)):
        yield Part(f"ToolBench I3, 47k, {name}", "toolbench", asked, file=True)
    yield Part("ToolBench I3, its pool", G3, third, file=True)
    for asked, others, name in ((halves[1], halves[0], "reported"), (halves[0], halves[1], "chosen by")):
        yield Part(f"ToolBench I3, 47k, {name}, runs", "toolbench", asked, [each.gold for each in others])
    yield Part("AnyToolBench", "toolbench", _asked(data.queries("anytoolbench")), file=True)
    for source, pool in (
        ("metatool", "metatool"),
        ("metatool_multi", "metatool"),
        ("seal_tools", "seal_tools"),
        ("nestools", "nestools"),
        ("gorilla", "gorilla"),
    ):
        learnt, held_out = split(data.queries(source))
        yield Part(source, pool, _asked(held_out)[:limit], [query.gold for query in learnt])
    yield Part("livemcp", "livemcp", _asked(data.queries("livemcp")))
    yield Part("livemcp routes", "livemcp", _routes(directory)[:limit])


def _asked(queries: Sequence[Any]) -> list[Asked]:
    return [Asked(query.text, query.gold) for query in queries]


def _routes(directory: Path) -> list[Asked]:
    found: dict[str, frozenset[str]] = {}
    with gzip.open(directory / "trajectories" / "livemcp_agents.jsonl.gz") as file:
        for line in file:
            record = json.loads(line)
            for route in record.get("routes", ()):
                call = dict(enumerate(record["calls"])).get(route["before_call"])
                if call is not None and not call.get("error"):
                    found.setdefault(route["query"], frozenset({call["tool"]}))
    return sorted((Asked(*each) for each in found.items()), key=lambda each: _hash(each.text))


def _half(text: str) -> int:
    return hashlib.sha256(b"half" + text.encode()).digest()[0] % 2


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def measured(opened: Opened, part: Part, name: str, rank: Rank, tools: int) -> Line:
    """Ask all queries of a part."""
    found = [(rank(opened, query.text), query.gold) for query in part.asked]
    at = {str(k): [100 * ndcg(ranked, gold, k) for ranked, gold in found] for k in _PLACES}
    draws = np.random.default_rng(0).choice(np.array(at["5"]), (_DRAWS, len(found))).mean(axis=1)
    low, high = np.percentile(draws, (2.5, 97.5))
    every = [100.0 * (recall(ranked, gold, 10) == 1.0) for ranked, gold in found]
    means = {k: round(float(np.mean(values)), 2) for k, values in at.items()}
    return Line(
        part.name, tools, len(found), name, means, round(float(np.mean(every)), 2), round(float(low), 2),
        round(float(high), 2),
    )  # fmt: skip


class Kept:
    """Lines that were measured before, by this code; one file of JSON lines."""

    def __init__(self, path: Path, limit: int) -> None:
        files = sorted(
            [*ROOT.glob("atc/catalogue/index/*.py"), ROOT / "research/atc_research_benchmarks/used_together.py"]
        )
        self._version = f"{hashlib.sha256(b''.join(each.read_bytes() for each in files)).hexdigest()[:12]} {limit}"
        self._path, self._lines = path, dict[tuple[str, str], Line]()
        for text in path.read_text().splitlines() if path.is_file() else ():
            try:
                record = json.loads(text)
                if record.pop("version") == self._version:
                    self._lines[record["part"], record["method"]] = Line(**record)
            except (ValueError, KeyError, TypeError):
                continue  # a stop cut it short

    def get(self, part: str, method: str) -> Line | None:
        return self._lines.get((part, method))

    def add(self, line: Line) -> None:
        self._lines[line.part, line.method] = line
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as out:
            out.write(json.dumps(vars(line) | {"version": self._version}) + "\n")


@guarded
def main(
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/.")] = None,
    kept: Annotated[Path | None, typer.Option(help="Where vectors of texts are kept between runs.")] = None,
    part: Annotated[str, typer.Option(help="Parts whose names have this in them.")] = "",
    method: Annotated[str, typer.Option(help=f"Of {', '.join(METHODS)}, with commas between; all without it.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="Queries of a source other than ToolBench.")] = 300,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what was measured before.")] = False,
    as_json: AsJson = False,
) -> None:
    """nDCG@1, 3, 5, 10 and all found among 10, for each scorer and each source."""
    chosen = [name for name in method.split(",") if name] or list(METHODS)
    if wrong := [name for name in chosen if name not in METHODS]:
        raise UsageError(f"there is no method {wrong[0]!r}; there are {', '.join(METHODS)}")
    codes_data = CodesData(data, kept)
    assert data is not None
    lines = _measure(codes_data, data, {name: METHODS[name] for name in chosen}, part, limit, fresh)
    if as_json:
        print_json([vars(line) for line in lines])
        return
    table = Table("part", "tools", "queries", "method", "@1", "@3", "@5", "95 %", "@10", "all @10", box=None)
    for line in lines:
        at = [f"{line.ndcg[str(k)]:.1f}" for k in _PLACES]
        table.add_row(
            line.part, f"{line.tools:,}", str(line.queries), line.method, *at[:3], f"{line.low:.1f}-{line.high:.1f}",
            at[3], f"{line.all_found:.0f}",
        )  # fmt: skip
    out.print(table)


def _measure(
    data: CodesData, directory: Path, methods: Mapping[str, Rank], wanted: str, limit: int, fresh: bool
) -> list[Line]:
    kept, lines, before = Kept(RESULTS / "retrieval.jsonl", limit), list[Line](), None
    for part in parts_of(data, directory, limit):
        if wanted not in part.name:
            continue
        opened = Opened(data, part, before)
        before = before if part.only else opened
        for name, rank in methods.items():
            if ("use" in name and not (part.file or part.runs)) or (name.endswith("elsewhere") and not part.file):
                continue
            if name == "bm25" and part.only:
                continue  # it is of whole pools
            line = None if fresh else kept.get(part.name, name)
            if line is None:
                line = measured(opened, part, name, rank, len(opened.index))
                kept.add(line)
            err.print(f"{part.name}: {name} {line.ndcg['5']:.1f}", style="dim", markup=False, highlight=False)
            lines.append(line)
    return lines


if __name__ == "__main__":
    typer.run(main)
