"""Codes without training: smoothed vectors, k-means of what remains at each level, no two tools alike (ToolWeaver §3).

ToolWeaver trains an RQ-VAE. Here the collaborative loss (Eq. 6) is minimised in closed form
(:mod:`.smoothing`), then each level clusters what the levels before left over (Eq. 2 and 3). An exact
assignment inside each bucket of the last level keeps tools apart, in place of Eq. 8 and 9.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from atc import UsageError
from atc.plugins.learning import Floats, Progress
from atc_research.toolweaver.assignment import assigned, on_grid
from atc_research.toolweaver.clustering import k_means, nearest, squared_distances
from atc_research.toolweaver.co_usage import CoUsage
from atc_research.toolweaver.smoothing import smoothed
from atc_research.toolweaver.tool_codes import Codes, CodesFacts
from atc_research.toolweaver.transport import prices_in_batches

Assignment = Literal["exact", "sinkhorn"]
"""How last codes are given: the nearest that keep a bucket's tools apart; or after ToolWeaver's optimal transport, by
which all codes are used alike, the nearest at its prices."""
LEVELS, SIZE, SMOOTHING = 2, 1024, 1.0
"""As ToolWeaver's: L, K and λ (App. A.3)."""
MAX_LEVELS, MAX_SIZE = 8, 8_192
"""Beyond these an assignment inside a bucket, or a column of codes, takes more memory than it is worth."""
_USEFUL = 4 / 3
"""A level of L has at most n^(4/3L) codes: with two levels a first code then holds n^⅓ tools on average."""
_MOVES, _MOVES_A_TOOL = 10_000, 20
"""Moves that an exact assignment looks at in a bucket. Tools that differ need far fewer; thousands that are all but
equal would take their square, to no use."""
_BLOCK = 4_096


def tokenize(
    vectors: Floats,
    co_usage: CoUsage | None,
    *,
    levels: int = LEVELS,
    size: int = SIZE,
    smoothing: float = SMOOTHING,
    seed: int = 0,
    encoder: str = "",
    progress: Progress | None = None,
    assignment: Assignment = "exact",
) -> Codes:
    """Give each tool a sequence of codes: near tools, and tools that are used together, share their first ones.

    Args:
        vectors: of the tools, of length one or zero, of shape ``(tools, dimensions)``.
        co_usage: what was used together, by the same rows.
        levels: L, codes of a tool.
        size: K, the codes of a level at most; a small catalogue gets fewer (:func:`useful_size`).
        smoothing: λ, how near tools come that are used together; 0 looks at the vectors alone.
        seed: of all random choices; the same gives the same codes on the same machine.
        encoder: the digest of the encoder of the vectors.
        progress: told of each stage.
        assignment: of the last codes.

    Returns:
        Codes, no two tools having the same.

    Raises:
        UsageError: levels, size or smoothing are out of range, there are too many tools for them, a vector holds
            something that is no number, or the assignment is unknown.
    """
    report = progress or (lambda stage, done, total: None)
    size = useful_size(len(vectors), levels, size)
    facts = CodesFacts(
        "closed-form" if assignment == "exact" else f"closed-form-{assignment}", seed, float(smoothing), encoder
    )
    if not np.isfinite(vectors).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise UsageError(f"the vector of row {row} holds something that is no number: build the index anew")
    random = np.random.default_rng(seed)
    left = smoothed(vectors, co_usage, smoothing)
    values = np.zeros((len(vectors), levels), np.int16)
    books: list[Floats] = []
    for level in range(levels):
        if len(vectors):
            book = k_means(left, size, random, progress=partial(report, f"clustering, level {level + 1}"))
        else:
            book = np.zeros((size, left.shape[1]), np.float32)
        if level == levels - 1:
            by_batch = prices_in_batches(left, book, random) if assignment == "sinkhorn" else None
            codes = _apart(left, book, _groups(values[:, :level]), by_batch, report)
        else:
            codes = _near(left, book, _groups(values[:, :level]), size ** (levels - level - 1))
        values[:, level] = codes
        for at in range(0, len(left), _BLOCK):  # in blocks: a whole copy of many tools' vectors takes a gigabyte
            left[at : at + _BLOCK] -= book[codes[at : at + _BLOCK]]
        books.append(book)
    return Codes(values, tuple(books), facts)


def coded(vectors: Floats, books: tuple[Floats, ...], progress: Progress | None = None) -> NDArray[np.int16]:
    """The codes of vectors for codebooks that are there (Eq. 2 and 3), no two the same.

    Args:
        vectors: in the space of the codebooks, of shape ``(tools, dimensions)``; fewer than the codes tell apart.
        books: a codebook a level, all with the same number of codes.
        progress: told of the last level.

    Returns:
        Of shape ``(tools, levels)``.
    """
    left = np.array(vectors, np.float32)
    values = np.zeros((len(left), len(books)), np.int16)
    for level, book in enumerate(books):
        groups = _groups(values[:, :level])
        if level == len(books) - 1:
            values[:, level] = _apart(left, book, groups, None, progress or (lambda stage, done, total: None))
        else:
            values[:, level] = _near(left, book, groups, len(book) ** (len(books) - level - 1))
        left -= book[values[:, level]]
    return values


def useful_size(tools: int, levels: int, size: int) -> int:
    """The codes of a level for a number of tools: ``size``, or n^(4/3L) where that is less.

    Raises:
        UsageError: levels or size are out of range, or so many tools cannot all have different codes.
    """
    if not 1 <= levels <= MAX_LEVELS:
        raise UsageError(f"codes of {levels} levels cannot be made: take 1 to {MAX_LEVELS}")
    if not 1 <= size <= MAX_SIZE:
        raise UsageError(f"a level of {size} codes cannot be made: take 1 to {MAX_SIZE:,}")
    if size**levels < tools:
        raise UsageError(
            f"{levels} levels of {size:,} codes tell at most {size**levels:,} tools apart, and there are {tools:,}: "
            "take more levels or more codes"
        )
    if levels == 1:
        return max(1, min(size, tools))
    wanted: int = math.ceil(round(max(tools, 1) ** (_USEFUL / levels), 9))
    while wanted**levels < tools:  # of rounding
        wanted += 1
    return min(size, wanted)


def limited(vectors: Floats, centres: Floats, codes: NDArray[np.int64], distances: Floats, room: int) -> None:
    """Let no centre hold more than ``room`` rows; ``codes`` is changed.

    A centre with too many keeps the nearest. The others, in the order of their rows, go to the nearest that has room.
    """
    counts = np.bincount(codes, minlength=len(centres))
    if counts.max(initial=0) <= room:
        return
    order = np.lexsort((np.arange(len(codes)), distances, codes))
    starts = np.cumsum(counts) - counts
    place = np.empty(len(codes), np.int64)
    place[order] = np.arange(len(codes)) - starts[codes[order]]
    moved = np.flatnonzero(place >= room)
    free = room - np.minimum(counts, room)
    for at in range(0, len(moved), _BLOCK):
        rows = moved[at : at + _BLOCK]
        block = squared_distances(vectors[rows], centres)
        block[:, free <= 0] = np.inf
        for row, far in zip(rows, block, strict=True):
            code = int(np.where(free > 0, far, np.inf).argmin())
            codes[row] = code
            free[code] -= 1


def _near(left: Floats, book: Floats, groups: list[NDArray[np.int64]], room: int) -> NDArray[np.int64]:
    """The nearest code of each row; none holds more rows of one group than the levels below can tell apart."""
    codes, distances = nearest(left, book)
    for rows in groups:
        if len(rows) > room:
            of_group = codes[rows]
            limited(left[rows], book, of_group, distances[rows], room)
            codes[rows] = of_group
    return codes


def _apart(
    left: Floats,
    book: Floats,
    groups: list[NDArray[np.int64]],
    by_batch: tuple[Floats, NDArray[np.int64]] | None,
    report: Progress,
) -> NDArray[np.int64]:
    """The last codes: of the rows of a group each has its own, and together they are as near as can be."""
    codes = np.zeros(len(left), np.int64)
    done = 0
    for rows in groups:
        if (
            by_batch is None and (left[rows] == left[rows[:1]]).all()
        ):  # tools without texts, say; assigned() is slow there
            codes[rows] = squared_distances(left[rows[:1]], book)[0].argsort(kind="stable")[: len(rows)]
        else:
            costs = squared_distances(left[rows], book)
            if by_batch is not None:
                prices, batch_of = by_batch
                costs -= prices[batch_of[rows]]
            codes[rows] = assigned(on_grid(costs), _MOVES + _MOVES_A_TOOL * len(rows))
        done += len(rows)
        report("assigning", done, len(left))
    return codes


def _groups(prefixes: NDArray[np.int16]) -> list[NDArray[np.int64]]:
    if not len(prefixes):
        return []
    if not prefixes.shape[1]:
        return [np.arange(len(prefixes))]
    order = np.lexsort(prefixes.T[::-1])
    changes = np.flatnonzero((prefixes[order][1:] != prefixes[order][:-1]).any(axis=1)) + 1
    return list(np.split(order, changes))
