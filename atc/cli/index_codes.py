"""Codes at ``atc tools index``: the options, and what is shown of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from atc.errors import UsageError
from atc.retrieval.encoder import Encoder
from atc.retrieval.index import ToolIndex
from atc.retrieval.snapshot import Progress
from atc.retrieval.tokenizer import LEVELS, SIZE, SMOOTHING, useful_size

Codes = Annotated[
    bool,
    typer.Option("--codes", help="Give each tool a short sequence of codes, similar for similar tools; made anew."),
]
Levels = Annotated[
    int | None, typer.Option("--levels", help=f"With --codes: how many codes a tool has; {LEVELS} if not given.")
]
CodeSize = Annotated[
    int | None,
    typer.Option("--code-size", help=f"With --codes: how many codes each position can have; {SIZE} if not given."),
]
Smoothing = Annotated[
    float | None,
    typer.Option(
        "--smoothing",
        help=f"With --codes: how near tools that are used together come, from 0 on; {SMOOTHING:g} if not given.",
    ),
]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, help="With --codes: seed of the random choices; 0 if not given.")
]


@dataclass(frozen=True)
class Wanted:
    """How codes are to be made: the arguments of :meth:`~atc.retrieval.index.ToolIndex.make_codes`."""

    levels: int
    size: int
    smoothing: float
    seed: int


def wanted(
    codes: bool, levels: int | None, size: int | None, smoothing: float | None, seed: int | None
) -> Wanted | None:
    """What the options say.

    Raises:
        UsageError: there are numbers for codes, and no ``--codes``.
    """
    numbers = {"--levels": levels, "--code-size": size, "--smoothing": smoothing, "--seed": seed}
    given = [option for option, number in numbers.items() if number is not None]
    if not codes:
        if given:
            raise UsageError(f"{given[0]} is for codes: give --codes with it")
        return None
    return Wanted(
        LEVELS if levels is None else levels,
        SIZE if size is None else size,
        SMOOTHING if smoothing is None else smoothing,
        seed or 0,
    )


def check(asked: Wanted, encoder: Encoder | None, tools: int) -> None:
    """Refuse what cannot be, before anything is embedded.

    Raises:
        UsageError: words alone are asked for, or the numbers do not fit.
    """
    if encoder is None:
        raise UsageError("codes are made of vectors, and --encoder none makes none: leave one of the two out")
    useful_size(tools, asked.levels, asked.size)
    if not 0 <= asked.smoothing < float("inf"):
        raise UsageError(f"--smoothing {asked.smoothing} is not possible: give a number from 0 on")


def make(index: ToolIndex, asked: Wanted, report: Progress) -> None:
    """Make the codes of an index."""
    index.make_codes(levels=asked.levels, size=asked.size, smoothing=asked.smoothing, seed=asked.seed, progress=report)


def facts(index: ToolIndex) -> dict[str, Any] | None:
    """What is to be said of an index's codes; ``None`` where it has none."""
    codes = index.codes
    if codes is None:
        return None
    return {
        "method": codes.facts.method,
        "levels": codes.levels,
        "size": [len(book) for book in codes.books],
        "used": [len(np.unique(codes.values[:, level])) for level in range(codes.levels)],
        "distinct": len(np.unique(codes.values, axis=0)),
        "smoothing": codes.facts.smoothing,
        "seed": codes.facts.seed,
    }


def line(about: dict[str, Any]) -> str:
    """The facts in words."""
    sizes = " × ".join(map(str, about["size"]))
    return f"each has its own of {sizes} codes; {about['used'][0]} first codes are in use"
