"""Codes in numbers: ``python -m benchmarks.codes tokens --data DIR [--pools …]``.

One set of tools of five that were used together is held out. The columns:

- ``alike``: tools that share all codes with another where each takes the nearest; an assignment then keeps all apart.
- ``perplexity``: e to the entropy of a level's codes, the first and the last.
- ``std``: standard deviation of the tools of a last code, in batches of 5,096 as in ToolWeaver's B.6, and their mean.
- ``shared``: pairs that were held out whose tools have the same first code; ``new``: those of them that no other set
  has; ``chance``: the same tools, paired at random.
- ``error``: mean squared distance between a tool's vector and the sum of its codes' vectors, and what of it is due to
  the assignment.
- ``stays``, ``nearest``: one tool of ten comes later. Tools that keep their codes; those of the new ones that get the
  nearest first code, and the nearest sequence. ``anew``: of the pairs of old tools that share a first code, those that
  do before and after all codes are made anew.
- ``cpu s``: seconds of processor time; ``OMP_NUM_THREADS=1`` makes them comparable on a busy machine.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, sqrt
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from atc.cli.console import err, guarded, out, print_json
from atc.errors import UsageError
from atc.retrieval.clustering import nearest, squared_distances
from atc.retrieval.co_usage import CoUsage
from atc.retrieval.vectors import Floats
from atc_research.toolweaver.smoothing import smoothed
from atc_research.toolweaver.tokenizer import Assignment, tokenize, useful_size
from atc_research.toolweaver.tool_codes import Codes, carried
from atc_research.toolweaver.transport import BATCH, prices
from benchmarks.codes_baselines import BASELINES, Sequences
from benchmarks.codes_data import CodesData, Pool

EPSILONS = (0.005, 0.01, 0.02)
Line = dict[str, Any]


@dataclass(frozen=True)
class Used:
    """A pool and what was used together in it.

    Attributes:
        learnt: what codes may be made from. ``held``: pairs that were held out, of shape ``(pairs, 2)``.
        new: those of them that are not among the learnt.
        smoothings: λ that are tried.
        lines: what was measured already, by what it was measured with.
    """

    pool: Pool
    vectors: Floats
    learnt: CoUsage
    held: NDArray[np.int32]
    new: NDArray[np.int32]
    smoothings: tuple[float, ...] = (1.0,)
    lines: dict[tuple[Any, ...], Line] = field(default_factory=dict)

    @classmethod
    def of(cls, data: CodesData, name: str) -> Used:
        """The pool of a name."""
        pool = data.pool(name)
        learnt, held = data.co_usage(pool, "learnt"), data.co_usage(pool, "held-out").pairs
        known = set(map(tuple, learnt.pairs.tolist()))
        new = [pair for pair in held.tolist() if tuple(pair) not in known]
        return cls(pool, pool.vectors, learnt, held, np.array(new, np.int32).reshape(-1, 2))

    def lift(self, first: NDArray[np.int64]) -> Line:
        """How many pairs share a first code."""
        if not len(self.held):
            return {"shared": None, "new": None, "chance": None}
        random = np.random.default_rng(0)
        mixed = [_same(first, np.stack([self.held[:, 0], random.permutation(self.held[:, 1])], 1)) for _ in range(20)]
        return {
            "shared": _same(first, self.held),
            "new": _same(first, self.new) if len(self.new) else None,
            "chance": float(np.mean(mixed)),
        }


@guarded
def tokens(
    data: Annotated[Path | None, typer.Option("--data", envvar="ATC_DATA", help="The data's directory.")] = None,
    kept: Annotated[Path | None, typer.Option("--kept", help="Where vectors of texts are kept.")] = None,
    pools: Annotated[str, typer.Option("--pools", help="Comma-separated.")] = "toolbench_g3,metatool,toolbench",
    parts: Annotated[
        str, typer.Option("--parts", help="Of: smoothing, size, levels, sinkhorn, baselines.")
    ] = "smoothing,size,levels,sinkhorn,baselines",
    smoothings: Annotated[str, typer.Option("--smoothings", help="λ, comma-separated.")] = "0,0.1,0.5,1,2,10",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all random choices.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False,
) -> None:
    """Codes without training, by λ, K and L, beside other ways to give tools codes."""
    chosen = parts.split(",")
    if unknown := set(chosen) - set(PARTS):
        raise UsageError(f"{sorted(unknown)[0]!r} is no part: take some of {', '.join(PARTS)}")
    source = CodesData(data, kept)
    found: dict[str, list[Line]] = {}
    for name in pools.split(","):
        used = replace(Used.of(source, name), smoothings=tuple(map(float, smoothings.split(","))))
        for part in chosen:
            lines = [{"pool": name} | line for line in PARTS[part](used, seed)]
            found.setdefault(part, []).extend(lines)
            if not as_json:
                _show(f"{name}, {part}", lines)
    if as_json:
        print_json(found)


def by_smoothing(used: Used, seed: int) -> list[Line]:
    """λ; 1 alone where nothing is known to be used together."""
    return [measured(used, seed, smoothing=each) for each in (used.smoothings if len(used.learnt.pairs) else (1.0,))]


def by_size(used: Used, seed: int) -> list[Line]:
    """K, from little more than what tells all tools apart."""
    root = sqrt(len(used.vectors))
    sizes = sorted({useful_size(len(used.vectors), 2, size) for size in (ceil(1.1 * root), ceil(2 * root), 512, 2048)})
    return [measured(used, seed, size=size) for size in sizes]


def by_levels(used: Used, seed: int) -> list[Line]:
    """L, without and with what is used together; with one level each tool has a code of its own."""
    lines = []
    for levels in (1, 2, 3, 4):
        for smoothing in (0.0, 1.0) if len(used.learnt.pairs) else (1.0,):
            try:
                size = 8_192 if levels == 1 else 1024
                lines.append(measured(used, seed, levels=levels, size=size, smoothing=smoothing))
            except UsageError as refused:
                lines.append({"levels": levels, "λ": smoothing, "refused": str(refused)})
    return lines


def by_transport(used: Used, seed: int) -> list[Line]:
    """The paper's assignment beside the exact one; and Sinkhorn-Knopp alone, on one batch of last residuals."""
    lines: list[Line] = [measured(used, seed, assignment=each) for each in ("exact", "sinkhorn")]
    codes = tokenize(used.vectors, used.learnt, seed=seed)
    left = smoothed(used.vectors, used.learnt, 1.0)
    left -= codes.books[0][codes.values[:, 0]]
    rows = np.random.default_rng(seed).permutation(len(left))[:BATCH]
    costs = squared_distances(left[rows], codes.books[-1])
    lines.append({"batch": len(rows), "epsilon": "nearest code"} | _spread(costs))
    for epsilon in EPSILONS:
        began = time.process_time()
        found = prices(costs, epsilon)
        spent = time.process_time() - began
        lines.append({"batch": len(rows), "epsilon": epsilon} | _spread(costs, found) | {"cpu s": spent})
    return lines


def by_baseline(used: Used, seed: int) -> list[Line]:
    """The baselines."""
    names = [used.pool.index.protocol(id).name for id in used.pool.snapshot.ids]
    began = time.process_time()
    codes = tokenize(used.vectors, used.learnt, seed=seed).values.tolist()
    lines = [_described("closed form", codes, used, time.process_time() - began)]
    for name, baseline in BASELINES.items():
        began = time.process_time()
        found = baseline(names, used.vectors, seed)
        lines.append(_described(name, found, used, time.process_time() - began))
    return lines


PARTS: dict[str, Callable[[Used, int], list[Line]]] = {
    "smoothing": by_smoothing,
    "size": by_size,
    "levels": by_levels,
    "sinkhorn": by_transport,
    "baselines": by_baseline,
}


def measured(
    used: Used,
    seed: int,
    *,
    levels: int = 2,
    size: int = 1024,
    smoothing: float = 1.0,
    assignment: Assignment = "exact",
) -> Line:
    """The figures of one way to make codes."""
    vectors = used.vectors
    size = useful_size(len(vectors), levels, size)
    key = (levels, size, smoothing, assignment, seed)
    if key in used.lines:
        return used.lines[key]

    def made(rows: NDArray[np.int64], together: CoUsage) -> Codes:
        return tokenize(
            vectors[rows], together, levels=levels, size=size, smoothing=smoothing, seed=seed, assignment=assignment
        )

    began = time.process_time()
    codes = made(np.arange(len(vectors)), used.learnt)
    spent = time.process_time() - began
    free = _nearest(codes, smoothed(vectors, used.learnt, smoothing))
    first = codes.values[:, 0].astype(np.int64)
    error = _error(codes, codes.values, vectors)
    batches = np.random.default_rng(seed).permutation(len(vectors))
    last = [np.bincount(codes.values[rows, -1], minlength=len(codes.books[-1])) for rows in _batches(batches)]
    used.lines[key] = {
        "λ": smoothing,
        "levels": levels,
        "size": len(codes.books[0]),
        "assignment": assignment,
        "alike": _alike(free),
        "alike after": _alike(codes.values),
        "perplexity": perplexity(codes.values[:, 0]),
        "of the last": perplexity(codes.values[:, -1]),
        "std": float(np.mean([counts.std() for counts in last])),
        "mean": float(np.mean([counts.mean() for counts in last])),
        **used.lift(first),
        "error": error,
        "by assignment": error - _error(codes, free, vectors),
        **_later(used, codes, made),
        "cpu s": spent,
    }
    facts = used.lines[key].items()
    err.print(used.pool.name, *(f"{name} {_text(value)}" for name, value in facts), sep="; ", style="dim")
    return used.lines[key]


def _later(used: Used, codes: Codes, made: Callable[[NDArray[np.int64], CoUsage], Codes]) -> Line:
    """One tool of ten comes later."""
    late = np.array([hashlib.sha256(id.encode()).digest()[0] % 10 == 0 for id in used.pool.snapshot.ids])
    old = np.flatnonzero(~late)
    before = made(old, used.learnt.moved(old))
    rows = np.full(len(late), -1, np.int64)
    rows[old] = np.arange(len(old))
    after = carried(before, rows, used.vectors[late])
    if after is None:
        return {"stays": None, "nearest first": None, "nearest": None, "anew": None}
    free = _nearest(before, used.vectors[late])
    hit = after.values[late] == free
    both, anew = before.values[:, 0], codes.values[old, 0]
    kept, was = _pairs(both.astype(np.int64) * 2**16 + anew), _pairs(both)
    return {
        "stays": float((after.values[old] == before.values).all(axis=1).mean()),
        "nearest first": float(hit[:, 0].mean()),
        "nearest": float(hit.all(axis=1).mean()),
        "anew": kept / was if was else None,
    }


def _nearest(codes: Codes, left: Floats) -> NDArray[np.int64]:
    """The codes where each tool takes the nearest at each level."""
    found = []
    for book in codes.books:
        found.append(nearest(left, book)[0])
        left = left - book[found[-1]]
    return np.stack(found, axis=1)


def _error(codes: Codes, values: NDArray[Any], vectors: Floats) -> float:
    whole = np.sum([book[values[:, level]] for level, book in enumerate(codes.books)], axis=0)
    return float(((vectors - whole) ** 2).sum(axis=1).mean())


def _described(name: str, found: Sequences | list[list[int]], used: Used, spent: float) -> Line:
    """The figures that codes of differing lengths have."""
    lengths = [len(each) for each in found]
    numbers: dict[Any, int] = {}
    first = np.array([numbers.setdefault(each[0], len(numbers)) for each in found])
    return {
        "codes": name,
        "tokens": len({(level, code) for each in found for level, code in enumerate(each)}),
        "length": float(np.mean(lengths)),
        "longest": max(lengths),
        "alike": len(found) - len(set(map(tuple, found))),
        "perplexity": perplexity(first),
        **used.lift(first),
        "cpu s": spent,
    }


def _spread(costs: Floats, of_codes: Floats | None = None) -> Line:
    codes = (costs if of_codes is None else costs - of_codes).argmin(axis=1)
    counts = np.bincount(codes, minlength=costs.shape[1])
    return {
        "std": float(counts.std()),
        "mean": float(counts.mean()),
        "in 3 to 7": float(((counts >= 3) & (counts <= 7)).mean()),
        "cost": float(np.take_along_axis(costs, codes[:, None], axis=1).mean()),
    }


def _batches(rows: NDArray[np.int64]) -> Sequence[NDArray[np.int64]]:
    """Batches of one size; fewer rows are one."""
    return [rows[at : at + BATCH] for at in range(0, len(rows) - BATCH + 1, BATCH)] or [rows]


def _same(first: NDArray[Any], pairs: NDArray[np.int32]) -> float:
    return float((first[pairs[:, 0]] == first[pairs[:, 1]]).mean())


def _pairs(codes: NDArray[Any]) -> int:
    """Pairs of rows that share a code."""
    counts = np.unique(codes, return_counts=True)[1].astype(np.int64)
    return int((counts * (counts - 1) // 2).sum())


def _alike(values: NDArray[Any]) -> int:
    counts = np.unique(values, axis=0, return_counts=True)[1]
    return int(counts[counts > 1].sum())


def perplexity(codes: NDArray[Any]) -> float:
    """Of codes: as many as, used alike, would be used so."""
    parts = np.unique(codes, return_counts=True)[1] / len(codes)
    return float(np.exp(-(parts * np.log(parts)).sum()))


def _show(title: str, lines: list[Line]) -> None:
    names = list(dict.fromkeys(name for line in lines for name in line if name != "pool"))
    table = Table(*names, title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for line in lines:
        table.add_row(*(_text(line.get(name)) for name in names))
    out.print(table)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value >= 0.995 or not value else f"{value:.3f}"
    return "" if value is None else str(value)
