"""Trained codes beside those in closed form: ``python -m atc_research_benchmarks.codes --data DIR`` (one thread).

One set of tools of five is held out; both kinds of codes are made from the others. ``shared``: pairs of the sets that
were held out whose tools have the same first code; ``new``: those of them that no other set has; ``chance``: any two
tools. ``explained``: the part of the variance of the vectors that first codes explain, and all codes with what decodes
them. ``perplexity``: e to the entropy of a level's codes. ``alike``: tools that share all their codes before an exact
assignment keeps them apart; after it none do. Seconds are of the processor, for one thread: the machine may be busy.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from atc.catalogue.index.vectors import Floats
from atc.cli.console import guarded, out, print_json
from atc_research.toolweaver.clustering import nearest
from atc_research.toolweaver.code_measures import measured
from atc_research.toolweaver.smoothing import smoothed
from atc_research.toolweaver.tokenizer import LEVELS, tokenize, useful_size
from atc_research.toolweaver.tool_codes import Codes, CodesFacts, into_space
from atc_research_benchmarks.search_data import CodesData
from benchmarks.common import AsJson

_VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "trained": {},
    "trained, a layer of 512": {"inner": (512,), "rate": 1e-3},
    "trained, App. A.3": {"inner": (1024, 512, 256, 128), "rate": 3e-4},
}


@guarded
def main(
    data: Annotated[Path | None, typer.Option("--data", envvar="ATC_DATA", help="The data's directory.")] = None,
    kept: Annotated[Path | None, typer.Option("--kept", help="Where vectors of texts are kept.")] = None,
    pools: Annotated[str, typer.Option("--pools", help="Comma-separated.")] = "toolbench_g3,metatool",
    smoothings: Annotated[str, typer.Option("--smoothings", help="λ of both kinds, comma-separated.")] = "0.25,1,4",
    variants: Annotated[str, typer.Option("--variants", help="Of the training, separated by `;`.")] = "trained",
    epochs: Annotated[int | None, typer.Option("--epochs", min=2, help="Passes over all tools.")] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Tools of a step.")] = 256,
    size: Annotated[int, typer.Option("--size", min=1, help="Codes of a level at most, K.")] = 1024,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all random choices.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare trained codes with those in closed form."""
    from atc_research.toolweaver.code_training import Options
    from atc_research.toolweaver.code_training import train as trained
    from atc_research.toolweaver.codes import TRAINED, codes_of

    source = CodesData(data, kept)
    lines: list[dict[str, Any]] = []
    for name in pools.split(","):
        pool = source.pool(name)
        learnt, held = source.co_usage(pool, "learnt"), source.co_usage(pool, "held-out")
        known = set(map(tuple, learnt.pairs.tolist()))
        new = np.array([pair for pair in held.pairs.tolist() if tuple(pair) not in known], np.int32).reshape(-1, 2)
        # without what was used together λ says nothing
        for smoothing in map(float, smoothings.split(",")) if len(learnt.pairs) else (0.0,):
            began = time.process_time()
            codes = tokenize(pool.vectors, learnt, size=size, smoothing=smoothing, seed=seed)
            seconds = time.process_time() - began
            left = smoothed(pool.vectors, learnt, smoothing)
            line = {"pool": name, "codes": "closed form", "λ": smoothing, "processor s": seconds}
            lines.append(line | _figures(codes, pool.vectors, left, _whole(codes), held.pairs, new))
            for variant in variants.split(";"):
                o = replace(Options(smoothing=smoothing, batch=batch), **_VARIANTS[variant])
                if epochs is not None:
                    o = o.for_epochs(epochs)
                began = time.process_time()
                books = (useful_size(len(pool.vectors), LEVELS, size),) * LEVELS
                network = trained(pool.vectors, learnt, books, o, seed)
                codes = codes_of(network, pool.vectors, CodesFacts(TRAINED, seed, smoothing))
                seconds = time.process_time() - began
                left = into_space(codes, pool.vectors)
                line = {"pool": name, "codes": variant, "λ": smoothing, "processor s": seconds}
                lines.append(
                    line | _figures(codes, pool.vectors, left, network.given_back(_whole(codes)), held.pairs, new)
                )
    if as_json:
        print_json(lines)
        return
    table = Table(*lines[0], box=box.SIMPLE_HEAD)
    for line in lines:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in line.values()))
    out.print(table)


def _figures(
    codes: Codes, vectors: Floats, left: Floats, whole: Floats, held: NDArray[np.int32], new: NDArray[np.int32]
) -> dict[str, float | int | None]:
    values = codes.values
    first = measured(values, vectors, held)
    last = np.bincount(values[:, -1], minlength=len(codes.books[-1]))
    return {
        "shared": first.shared if len(held) else None,
        "new": measured(values, vectors, new).shared if len(new) else None,
        "chance": first.chance,
        "explained, first": first.explained,
        "explained, all": _explained(vectors, whole),
        "perplexity, first": perplexity(values[:, 0]),
        "perplexity, last": perplexity(values[:, -1]),
        "std of the last": float(last.std()),
        "mean of the last": float(last.mean()),
        "alike before": _alike(left, codes.books),
        "alike": len(values) - len(np.unique(values, axis=0)),
    }


def _whole(codes: Codes) -> Floats:
    """ẑ of each tool: the sum of the vectors of its codes."""
    found: Floats = np.sum([book[codes.values[:, level]] for level, book in enumerate(codes.books)], axis=0)
    return found


def _alike(left: Floats, books: tuple[Floats, ...]) -> int:
    left, taken = left.copy(), []
    for book in books:
        taken.append(nearest(left, book)[0])
        left -= book[taken[-1]]
    return len(left) - len(np.unique(np.stack(taken, 1), axis=0))


def perplexity(codes: NDArray[Any]) -> float:
    """Return e to the entropy of codes: as many as, used alike, would be used so."""
    parts = np.unique(codes, return_counts=True)[1] / len(codes)
    return float(np.exp(-(parts * np.log(parts)).sum()))


def _explained(vectors: Floats, found: Floats) -> float:
    around = vectors - vectors.mean(axis=0)
    return float(1 - ((vectors - found) ** 2).sum() / (around**2).sum())


if __name__ == "__main__":
    typer.run(main)
