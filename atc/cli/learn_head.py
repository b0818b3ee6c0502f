"""``atc learn ranking --codes``: a head that says the codes of an index, learnt from queries and their tools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from atc.cli.console import SOLVED, clean, err, not_enough, out, print_json
from atc.cli.learn_ranking import line, pairs_of_runs
from atc.cli.progress import stages
from atc.errors import UsageError
from atc.learn.code_ranking import LearntCodes, learn_head
from atc.learn.dataset import read_examples
from atc.learn.pairs import Pair, TooLittle
from atc.retrieval.code_head import without_head
from atc.retrieval.index import ToolIndex
from atc.settings import Settings
from atc.traces.stores import open_store


def learn(pairs: Path | None, folder: Path | None, *, rollback: bool, seed: int, as_json: bool) -> None:
    """Learn a head and save it with the index, or take it out; print what came of it, and end with an exit code.

    Raises:
        UsageError: there is no index, it has no codes, or a file is no such file.
        EncoderUnavailable: queries cannot be embedded.
        ToolIndexError: the index cannot be read or written.
    """
    settings = Settings.load()
    if not settings.learn:
        raise UsageError("the setting `learn` is off: ranking neither learns nor uses what was learnt; switch it on")
    folder = folder or (Path(settings.tool_index) if settings.tool_index else None)
    if folder is None:
        raise UsageError("a head is kept with the codes of an index: name its folder with --index")
    if rollback and pairs is not None:
        raise UsageError("--rollback goes back and learns nothing: leave --pairs out")
    examples = read_examples(pairs) if pairs is not None else None
    index = ToolIndex.load(folder)
    for notice in index.notices:
        err.print(f"atc: {clean(notice)}", markup=False, style="yellow")
    if rollback:
        _take_out(index, folder, as_json)
        raise typer.Exit(SOLVED)
    asked: Iterable[Pair] = pairs_of_runs(open_store(settings), silent=as_json)
    if examples is not None:
        asked = [Pair(each.query, each.gold) for each in examples]
    try:
        with stages(silent=as_json) as told:
            found = learn_head(index, asked, seed=seed, progress=told)
    except TooLittle as error:
        raise not_enough(error, as_json=as_json) from None
    if found.kept:
        index.save(folder)
    if as_json:
        print_json(_record(found))
    else:
        _print(found, "codes" in settings.scorers)
    raise typer.Exit(SOLVED)


def _take_out(index: ToolIndex, folder: Path, as_json: bool) -> None:
    codes = index.codes
    if codes is None or len(without_head(codes).arrays) == len(codes.arrays):
        raise UsageError("there is nothing to roll back: the index has no head")
    index.use_codes(without_head(codes))
    index.save(folder)
    if as_json:
        print_json({"taken_out": True})
    else:
        out.print("the head is taken out of the index")


def _record(found: LearntCodes) -> dict[str, Any]:
    return {
        "kept": found.kept,
        "pairs": found.pairs,
        "tools": found.tools,
        "held_out": asdict(found.held_out),
        "unseen": asdict(found.unseen),
        "share": found.share,
        "seconds": round(found.seconds, 1),
    }


def _print(found: LearntCodes, used: bool) -> None:
    out.print(f"{found.pairs} different queries for {found.tools} tools; nDCG of the first ten, held-out queries:")
    line(f"{found.held_out.queries} for tools that other queries are for", found.held_out)
    if found.unseen.queries:
        line(f"{found.unseen.queries} for tools that nothing was learnt for", found.unseen)
    if found.kept and used:
        out.print("kept in the index; `atc learn ranking --codes --rollback` takes it out")
    elif found.kept:
        out.print("kept in the index, and not used: the setting `scorers` leaves `codes` out")
    else:
        out.print("kept nothing: it is not better beyond chance, or worse for other tools")
