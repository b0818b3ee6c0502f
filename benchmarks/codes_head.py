"""The head that says codes, beside search and a plain adapter of queries: ``python -m benchmarks.codes head``.

Queries of a source are learnt from and others of it are asked; of every fifth tool no query is learnt from in the
lines "never seen". The pool of ToolBench's third part has no queries to learn from: there the requests count that a
model wrote (:mod:`benchmarks.codes_queries`), where search by meaning finds their tool among the first 30.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from atc.cli.console import err, guarded, out, print_json
from atc.errors import UsageError
from atc.learn.adapter import Learnt, learn_adapter
from atc.learn.code_ranking import learn_head
from atc.learn.head import PARTS, LearntHead, train_head
from atc.learn.pairs import Pair
from atc.retrieval.code_head import CodeHead, Sayer
from atc.retrieval.code_tree import Rows
from atc.retrieval.codes import Codes, CodesFacts
from atc.retrieval.encoder import Floats
from atc.retrieval.index import ToolIndex
from atc.retrieval.metrics import ndcg, recall
from atc.retrieval.tokenizer import tokenize
from atc.retrieval.vectors import Vectors
from benchmarks.codes_baselines import BASELINES, Sequences
from benchmarks.codes_data import G3, TOOLBENCH, CodesData, Pool, split
from benchmarks.codes_queries import read_queries
from benchmarks.retrieval_data import Query

SOURCES = "metatool,seal_tools,gorilla,nestools,toolbench_g3"
DEPTH, ROUND_TRIP = 10, 30
_SPEED_QUERIES = 300

Ranks = Callable[[Sequence[Query], Floats], list[list[str]]]


@dataclass(frozen=True)
class Line:
    """One way on one part of a source: percent, and the queries asked."""

    source: str
    tools: str
    way: str
    queries: int
    n1: float
    n3: float
    n5: float
    all_found: float
    seconds: float | None = None


@guarded
def main(
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/.")] = None,
    kept: Annotated[Path | None, typer.Option(help="Where vectors of texts are kept between runs.")] = None,
    source: Annotated[str, typer.Option(help="Sources of queries.")] = SOURCES,
    written: Annotated[Path | None, typer.Option(help="Requests that were written for the pool of G3.")] = None,
    most: Annotated[int, typer.Option(min=1, help="Queries asked of a source.")] = 1_000,
    most_learnt: Annotated[int, typer.Option(min=100, help="Queries learnt from, of a source.")] = 4_000,
    by_codes: Annotated[bool, typer.Option("--by-codes", help="Compare ways to make codes, and levels.")] = False,
    speed: Annotated[bool, typer.Option("--speed", help="Processor time a query over all of ToolBench.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The table as JSON.")] = False,
) -> None:
    """Measure the head: nDCG@1, @3, @5, and how often all tools are among ten."""
    bench = CodesData(data, kept)
    if speed:
        _print_speed(bench, as_json)
        return
    lines: list[Line] = []
    for name in (part.strip() for part in source.split(",")):
        if name not in SOURCES.split(","):
            raise UsageError(f"there is no source {name!r}: take of {SOURCES}")
        task = _task(bench, name, written, most, most_learnt)
        for line in _by_codes(bench, task) if by_codes else _lines(task):
            lines.append(line)
            err.print(f"{line.source} {line.tools} {line.way}: {line.n1:.1f}", markup=False, highlight=False)
    if as_json:
        print_json([asdict(line) for line in lines])
    else:
        _print(lines)


@dataclass(frozen=True)
class Task:
    """Queries over a pool: those that are learnt from, and those that are asked, with their vectors."""

    name: str
    pool: Pool
    learnt: list[Query]
    asked: list[Query]
    of_learnt: Floats
    of_asked: Floats

    def rows(self, queries: Sequence[Query]) -> list[Rows]:
        """The rows of their tools."""
        rows = self.pool.snapshot.rows
        return [np.array(sorted(rows[id] for id in query.gold if id in rows), np.int64) for query in queries]

    def without(self, tools: frozenset[str]) -> Task:
        """Nothing learnt of some tools, and only queries for these asked."""
        kept = [place for place, query in enumerate(self.learnt) if not query.gold & tools]
        asked = [place for place, query in enumerate(self.asked) if query.gold <= tools]
        return replace(
            self,
            learnt=[self.learnt[place] for place in kept],
            of_learnt=self.of_learnt[kept],
            asked=[self.asked[place] for place in asked],
            of_asked=self.of_asked[asked],
        )


def _task(bench: CodesData, name: str, written: Path | None, most: int, most_learnt: int) -> Task:
    pool = bench.pool(name)
    if name != G3:
        learnt, asked = split([query for query in bench.queries(name) if query.gold & pool.snapshot.rows.keys()])
    else:
        asked = [query for query in bench.queries(*TOOLBENCH, subset="G3") if query.gold & pool.snapshot.rows.keys()]
        learnt = _written(bench, pool, written)
    learnt, asked = learnt[:most_learnt], asked[:most]
    of_learnt, of_asked = (bench.encoder.encode([query.text for query in part]) for part in (learnt, asked))
    return Task(name, pool, learnt, asked, of_learnt, of_asked)


def _written(bench: CodesData, pool: Pool, file: Path | None) -> list[Query]:
    """The written requests whose tool is found by them."""
    if file is None:
        raise UsageError(
            f"the pool {G3} is learnt from requests that a model wrote: `python -m benchmarks.codes_queries` writes "
            "them; give their file with --written"
        )
    pairs = [(id, text) for id, texts in read_queries(file) if id in pool.snapshot.rows for text in texts]
    if not pairs:
        raise UsageError(f"{file} holds no request for a tool of {G3}")
    cosines = bench.encoder.encode([text for _, text in pairs]) @ pool.vectors.T
    rows = np.array([pool.snapshot.rows[id] for id, _ in pairs])
    better = (cosines > cosines[np.arange(len(rows)), rows][:, None]).sum(axis=1)
    found = [pair for pair, place in zip(pairs, better, strict=True) if place < ROUND_TRIP]
    err.print(f"{len(found)} of {len(pairs)} written requests find their tool", markup=False)
    return [Query(text, text, frozenset({id}), G3, G3, "", "single") for id, text in found]


def _lines(task: Task) -> list[Line]:
    """All ways, on tools that were learnt and on such that were not."""
    codes = _closed_form(task.pool)
    lines = _ways(task, codes, "asked")
    tools = sorted(task.pool.snapshot.ids)
    unseen = task.without(frozenset(tools[::5]))
    return lines + (_ways(unseen, codes, "never seen") if unseen.asked and task.name != G3 else [])


def _ways(task: Task, codes: Codes, tools: str) -> list[Line]:
    adapter = _trained(task, codes, parts=("turn",))
    bent = _trained(task, codes, parts=("turn", "swing"))
    head = _trained(task, codes)
    index = task.pool.index.with_scorers()
    pairs = [Pair(query.text, tuple(sorted(query.gold))) for query in task.learnt]
    adapted, by_adapter = _adapted(index, pairs)
    plain = index.with_scorers()
    index.use_codes(codes)
    by_head = learn_head(index, pairs)
    return [
        _line(task, tools, "cosine", _by_search(plain, "dense")),
        _line(task, tools, "hybrid", _by_search(plain, "hybrid")),
        _line(task, tools, "adapter alone", _by_head(task, codes, adapter.head), adapter.seconds),
        _line(task, tools, "network without codes", _by_head(task, codes, bent.head), bent.seconds),
        _line(task, tools, "head alone", _by_head(task, codes, head.head), head.seconds),
        _line(
            task, tools, f"hybrid + adapter{_said(by_adapter.kept, by_adapter.share)}", _by_search(adapted, "hybrid")
        ),
        _line(task, tools, f"hybrid + head{_said(by_head.kept, by_head.share)}", _by_search(index, "hybrid")),
    ]


def _said(kept: bool, share: float) -> str:
    return f" ({share:g})" if kept else " (not kept)"


def _adapted(index: ToolIndex, pairs: Sequence[Pair]) -> tuple[ToolIndex, Learnt]:
    learnt = learn_adapter(index, pairs)
    return index.with_scorers([learnt.adapter] if learnt.adapter is not None else []), learnt


def _by_codes(bench: CodesData, task: Task) -> list[Line]:
    """The head over codes of other kinds, and where nothing but the codes tells tools apart."""
    lines = []
    for name, codes in _kinds(bench, task.pool):
        start = CodeHead.untrained(codes, task.of_learnt.shape[1])
        head = _trained(task, codes)
        stands_for = _stands_for(codes, task.pool.vectors)
        pure = _trained(task, codes, vectors=stands_for)
        lines += [
            _line(task, "asked", f"{name}: head", _by_head(task, codes, head.head), head.seconds),
            _line(task, "asked", f"{name}: codes alone, untrained", _by_head(task, codes, start, stands_for)),
            _line(task, "asked", f"{name}: codes alone", _by_head(task, codes, pure.head, stands_for), pure.seconds),
        ]
    return lines


def _kinds(bench: CodesData, pool: Pool) -> list[tuple[str, Codes]]:
    found = [(f"closed form, L={levels}", _closed_form(pool, levels=levels)) for levels in (1, 2, 3, 4)]
    if pool.name == G3:
        used = bench.co_usage(pool)
        found += [
            (f"closed form, λ={smoothing:g}", tokenize(pool.vectors, used, smoothing=smoothing)) for smoothing in (0, 1)
        ]
    names = [id.rsplit("/", 1)[-1] for id in pool.snapshot.ids]
    found += [(name, _padded(made(names, pool.vectors, 0))) for name, made in BASELINES.items()]
    random = np.random.default_rng(0)
    shuffled = random.permutation(len(pool.vectors))
    found.append(("drawn, L=2", replace(found[1][1], values=found[1][1].values[shuffled])))
    return found


def _padded(sequences: Sequences) -> Codes:
    """Sequences of any length as codes: at each level a number for what stands there, 0 behind the end."""
    columns = [
        [each[level] if level < len(each) else None for each in sequences] for level in range(max(map(len, sequences)))
    ]
    values = np.zeros((len(sequences), len(columns)), np.int16)
    sizes = []
    for level, column in enumerate(columns):
        known = {said: number for number, said in enumerate(dict.fromkeys([None, *column]))}
        values[:, level] = [known[said] for said in column]
        sizes.append(len(known))
    return Codes(values, tuple(np.zeros((size, 1), np.float32) for size in sizes), CodesFacts("baseline"))


def _closed_form(pool: Pool, levels: int = 2) -> Codes:
    size = len(pool.vectors) if levels == 1 else 1_024
    return tokenize(pool.vectors, None, levels=levels, size=min(size, 8_192), smoothing=0.0)


def _stands_for(codes: Codes, vectors: Floats) -> Floats:
    """What the codes of each tool stand for: level by level the mean of what is left, added up."""
    left = np.array(vectors, np.float32)
    for level in range(codes.levels):
        own = np.asarray(codes.values[:, level], np.int64)
        sums = np.zeros((int(own.max()) + 1, left.shape[1]), np.float32)
        np.add.at(sums, own, left)
        left -= (sums / np.maximum(1, np.bincount(own))[:, None])[own]
    return np.asarray(vectors - left, np.float32)


def _trained(task: Task, codes: Codes, vectors: Floats | None = None, parts: Sequence[str] = PARTS) -> LearntHead:
    tools = task.pool.vectors if vectors is None else vectors
    return train_head(tools, codes, task.of_learnt, task.rows(task.learnt), parts=parts, held_out=0.0)


def _by_search(index: ToolIndex, mode: str) -> Ranks:
    def ranks(queries: Sequence[Query], vectors: Floats) -> list[list[str]]:
        found = index.search_many([query.text for query in queries], DEPTH, mode)  # type: ignore[arg-type]
        return [[hit.id for hit in hits] for hits in found]

    return ranks


def _by_head(task: Task, codes: Codes, head: CodeHead, stands_for: Floats | None = None) -> Ranks:
    vectors = task.pool.snapshot.vectors if stands_for is None else Vectors.of(stands_for)
    assert vectors is not None
    sayer = Sayer.of(head, codes, vectors)
    ids = task.pool.snapshot.ids

    def ranks(queries: Sequence[Query], asked: Floats) -> list[list[str]]:
        return [[ids[row] for row in sayer.said(vector, DEPTH)[0]] for vector in asked]

    return ranks


def _line(task: Task, tools: str, way: str, ranks: Ranks, seconds: float | None = None) -> Line:
    ranked = ranks(task.asked, task.of_asked)
    pairs = list(zip(ranked, task.asked, strict=True))
    n1, n3, n5 = (float(100 * np.mean([ndcg(found, query.gold, k) for found, query in pairs])) for k in (1, 3, 5))
    complete = float(100 * np.mean([recall(found, query.gold, DEPTH) == 1 for found, query in pairs]))
    return Line(task.name, tools, way, len(pairs), n1, n3, n5, complete, seconds)


def _print(lines: Sequence[Line]) -> None:
    table = Table("source", "tools", "way", "queries", "N@1", "N@3", "N@5", "C@10", "s", box=None)
    for line in lines:
        figures = (f"{value:.1f}" for value in (line.n1, line.n3, line.n5, line.all_found))
        seconds = "" if line.seconds is None else f"{line.seconds:.0f}"
        table.add_row(line.source, line.tools, line.way, str(line.queries), *figures, seconds)
    out.print(table)


def _print_speed(bench: CodesData, as_json: bool) -> None:
    pool = bench.pool("toolbench")
    queries = bench.queries(*TOOLBENCH)[:_SPEED_QUERIES]
    asked = bench.encoder.encode([query.text for query in queries])
    stored = pool.snapshot.vectors
    assert stored is not None
    cosines = [np.argsort(-stored.scores(vector))[:DEPTH] for vector in asked]
    found = []
    for levels in (2, 3, 4):
        began = time.process_time()
        codes = _closed_form(pool, levels)
        made = time.process_time() - began
        head = CodeHead.untrained(codes, stored.values.shape[1])
        began = time.process_time()
        sayer = Sayer.of(head, codes, stored)
        opened = time.process_time() - began
        for beam in (8, 32, 128):
            began = time.process_time()
            said = [sayer.said(vector, DEPTH, beam)[0] for vector in asked]
            spent = (time.process_time() - began) / len(asked)
            same = np.mean([len(set(one) & set(other)) / DEPTH for one, other in zip(said, cosines, strict=True)])
            size = sum(array.nbytes for array in head.arrays(codes).values())
            found.append(
                {
                    "levels": levels,
                    "codes": [len(book) for book in codes.books],
                    "beam": beam,
                    "µs": round(1e6 * spent),
                    "of the ten nearest %": round(100 * float(same), 1),
                    "arrays MB": round(size / 1e6, 1),
                    "opened s": round(opened, 2),
                    "codes made s": round(made, 1),
                }
            )
    if as_json:
        print_json(found)
        return
    table = Table(*found[0], box=None)
    for line in found:
        table.add_row(*(str(value) for value in line.values()))
    out.print(table)
