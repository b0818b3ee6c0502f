"""Codes of tools by a trained network (ToolWeaver §3.2, App. A.3), beside those that need no training.

They are kept only where they are better: a pair of tools of five is held out, both kinds of codes are made from the
others, and :func:`~.code_measures.better` decides. It needs torch; what it makes is read with NumPy.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from atc import UsageError
from atc.plugins.learning import Floats, Snapshot
from atc_research.toolweaver.co_usage import CoUsage
from atc_research.toolweaver.code_measures import LEAST, CodeFigures, better, held_out, measured
from atc_research.toolweaver.code_network import Network
from atc_research.toolweaver.code_training import Options, train
from atc_research.toolweaver.tokenizer import LEVELS, SIZE, coded, tokenize, useful_size
from atc_research.toolweaver.tool_codes import Codes, CodesFacts, into_space, vectors_of

TRAINED = "trained"
"""The method of :class:`~atc_research.toolweaver.tool_codes.CodesFacts`."""
FOLDER = ".codes-training"
"""Of the index: holds what an interrupted training goes on from."""

Told = Callable[[str, int, int], None]
"""Called with the stage, what is done, and what there is in all."""


class TooLittle(UsageError):
    """There is too little to learn from."""


@dataclass(frozen=True)
class Learnt:
    """What came of a training.

    Attributes:
        codes: the trained codes, made from all pairs; ``None`` where they are not better.
        closed_form: figures of the codes that need no training.
        trained: figures of the trained codes, made from the same pairs.
        pairs: that both were made from; those that were held out are as many as the figures have.
    """

    codes: Codes | None
    closed_form: CodeFigures
    trained: CodeFigures
    pairs: int


def learn(
    snapshot: Snapshot,
    used: CoUsage | None,
    encoder: str,
    *,
    levels: int = LEVELS,
    size: int = SIZE,
    options: Options | None = None,
    seed: int = 0,
    kept: Path | None = None,
    told: Told | None = None,
) -> Learnt:
    """Train codes for the tools of an index, and compare them with those in closed form.

    Args:
        snapshot: of the index; it is not changed.
        used: what was used together, by its rows.
        encoder: the digest of the encoder of its vectors.
        levels: L, codes of a tool.
        size: K, codes of a level at most.
        options: of the network and its training; the closed form has the same λ.
        seed: of all random choices.
        kept: a folder for what an interrupted training goes on from (:func:`forget` deletes it).
        told: told of each stage.

    Raises:
        TooLittle: nothing, or too little, is known of what is used together.
        UsageError: the index has no vectors, or levels and size do not suffice for its tools.
        OSError: nothing can be kept in the folder.
    """
    o, report = options or Options(), told or (lambda stage, done, total: None)
    vectors = vectors_of(snapshot)
    useful_size(len(vectors), levels, size)  # refuses what cannot be
    if used is None or not len(used.pairs):
        raise TooLittle(
            "nothing says which tools are used together (--used-together), and without that training has nothing "
            "beyond the codes that need none: make those with `atc tools learn codes --closed-form`"
        )
    some, out = held_out(used, snapshot.ids)
    if len(out) < LEAST:
        raise TooLittle(
            f"{len(used.pairs)} pairs of tools were used together, and one in five is held out to compare "
            f"on: it takes some {5 * LEAST} pairs. `atc tools learn codes --closed-form` needs no training"
        )
    plain = tokenize(
        vectors,
        some,
        levels=levels,
        size=size,
        smoothing=o.smoothing,
        seed=seed,
        progress=_named("closed form", report),
    )
    first = trained(
        vectors,
        some,
        levels,
        size,
        o,
        seed,
        kept=kept / "compared.pt" if kept else None,
        told=_named("training", report),
    )
    figures = measured(plain.values, vectors, out), measured(first.values, vectors, out)
    codes = None
    if better(figures[1], figures[0]):
        file = kept / "whole.pt" if kept else None
        told_again = _named("training on all pairs", report)
        codes = trained(vectors, used, levels, size, o, seed, encoder=encoder, kept=file, told=told_again)
    return Learnt(codes, *figures, len(some.pairs))


def trained(
    vectors: Floats,
    co_usage: CoUsage | None,
    levels: int = LEVELS,
    size: int = SIZE,
    options: Options | None = None,
    seed: int = 0,
    *,
    encoder: str = "",
    kept: Path | None = None,
    told: Told | None = None,
) -> Codes:
    """Train codes, no two of them the same.

    Args:
        vectors: of the tools, of length one or zero, of shape ``(tools, dimensions)``.
        kept: a file for what an interrupted training goes on from.

    Raises:
        UsageError: levels and size do not suffice for the tools.
    """
    o, report = options or Options(), told or (lambda stage, done, total: None)
    books = (useful_size(len(vectors), levels, size),) * levels
    network = train(vectors, co_usage, books, o, seed, kept=kept, told=lambda n, of, loss: report("epochs", n, of))
    return codes_of(network, vectors, CodesFacts(TRAINED, seed, float(o.smoothing), encoder), report)


def codes_of(network: Network, vectors: Floats, facts: CodesFacts, told: Told | None = None) -> Codes:
    """The codes that a trained network gives tools, each the nearest that keeps them apart."""
    books = tuple(book.detach().numpy().astype(np.float32) for book in network.books)
    made = Codes(np.zeros((len(vectors), len(books)), np.int16), books, facts, network.exported())
    return replace(made, values=coded(into_space(made, vectors), books, told))


def forget(folder: Path) -> None:
    """Delete what an interrupted training would go on from."""
    shutil.rmtree(folder, ignore_errors=True)


def _named(part: str, report: Told) -> Told:
    return lambda stage, done, total: report(f"{part}: {stage}", done, total)
