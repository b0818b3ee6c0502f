"""A small decoder that says tools by codes, trained for real: the part ``decoder`` of :mod:`benchmarks.codes`.

``python -m benchmarks.codes decoder --data DIR --gguf FILE --out DIR`` teaches the model of a GGUF file (SmolLM2-135M)
stage 1 of ToolWeaver §3.3 on a pool's queries, then asks it those that were held out, beside the cosine and the hybrid
ranking of the same ones. What was trained is kept: the same command goes on where it stopped. It needs torch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from atc.cli.console import INTERRUPTED, err, guarded
from atc.errors import UsageError
from benchmarks.codes_data import RESULTS, CodesData
from benchmarks.codes_decoder_data import task_of
from benchmarks.common import print_json, show

PARTS = ("text", "speed", "train", "ask")
STARTS = ("random", "words")


@guarded
def main(
    gguf: Annotated[Path, typer.Option(help="The model: a GGUF file, or a folder of transformers.")],
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/.")] = None,
    out: Annotated[Path, typer.Option(help="Where checkpoints and figures are kept.")] = RESULTS / "decoder",
    kept: Annotated[Path | None, typer.Option("--vectors", help="Where vectors of texts are kept.")] = None,
    pool: Annotated[str, typer.Option(help="metatool, or toolbench_g3 with --written.")] = "metatool",
    written: Annotated[Path | None, typer.Option(help="Requests that benchmarks.codes_queries made.")] = None,
    start: Annotated[str, typer.Option(help="New tokens begin at: random, or words of their tools.")] = "random",
    examples: Annotated[int, typer.Option(min=0, help="Pairs that are learnt from; 0: all.")] = 0,
    epochs: Annotated[int, typer.Option(min=1, help="Times that each is seen.")] = 1,
    rank: Annotated[int, typer.Option(min=0, help="Of the low-rank changes; 0: all weights are trained.")] = 16,
    rate: Annotated[float, typer.Option(help="The highest learning rate.")] = 1e-3,
    minutes: Annotated[float, typer.Option(min=0.0, help="Train so long at most; the next call goes on.")] = 600.0,
    asked: Annotated[int, typer.Option(min=1, help="Held-out queries of a set, drawn by a hash.")] = 200,
    only: Annotated[list[str] | None, typer.Option(help=f"Parts: {', '.join(PARTS)}; all when not given.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of all random choices.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Train a small decoder to say tools by codes, and ask it."""
    if unknown := set(only or PARTS) - set(PARTS):
        raise UsageError(f"--only: {', '.join(sorted(unknown))}: take {', '.join(PARTS)}")
    if start not in STARTS:
        raise UsageError(f"--start {start}: take random or words")
    from benchmarks.codes_decoder_run import Run  # torch

    wanted = only or PARTS
    task = task_of(CodesData(data, kept), pool, written, asked)
    run = Run(gguf, task, out / f"{pool}-{start}", start, rank, seed)
    found: dict[str, Any] = {"pool": pool, "start": start, "rank": rank, "codes": run.facts()}
    try:
        if "text" in wanted:
            found["perplexity"] = run.text_before()
        if "speed" in wanted:
            found["speed"] = run.speed()
        if {"train", "ask", "text"} & set(wanted):
            found["training"] = run.train(examples, epochs, rate, minutes if "train" in wanted else 0.0)
    except KeyboardInterrupt:
        err.print(f"interrupted; the same command goes on from {out}, a minute before", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    if "text" in wanted:
        found["perplexity"] |= run.text_after()
    if "ask" in wanted:
        found["ranking"] = run.ask()
    (run.folder / "figures.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    if as_json:
        print_json(found)
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    """The tables."""
    codes = found["codes"]
    print(f"{found['pool']}: {codes['tools']} tools, {codes['levels']} levels × {codes['size']} codes")
    print(f"new tokens: {codes['new_tokens']}, one a tool: {codes['tools']}; they start from: {found['start']}")
    if training := found.get("training"):
        show("Stage 1", list(training), [[f"{v:.3f}" if isinstance(v, float) else v for v in training.values()]])
    for name, rows in found.get("ranking", {}).items():
        table = [[way, *(f"{100 * row[f'ndcg@{k}']:.1f}" for k in (1, 3, 5))] for way, row in rows["ways"].items()]
        show(f"{name}: {rows['queries']} held-out queries", ["ranking", *(f"nDCG@{k}" for k in (1, 3, 5))], table)
    if text := found.get("perplexity"):
        show("Perplexity of a plain text", list(text), [[f"{value:.2f}" for value in text.values()]])
    if speed := found.get("speed"):
        show("The constrained beam, by levels", list(speed[0]), [list(row.values()) for row in speed])
