"""The ways to give tools codes that ToolWeaver compares itself with (§4.3.3): names of tools for a model to say.

Codes are sequences that may differ in length; no two tools have the same. ``python -m benchmarks.codes tokens`` shows
them beside :mod:`atc_research.toolweaver.tokenizer`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from atc.retrieval.clustering import k_means, nearest
from atc.retrieval.vectors import Floats
from atc.retrieval.words import words

Sequences = list[tuple[int | str, ...]]
"""The codes of each tool, by row."""
Baseline = Callable[[Sequence[str], Floats, int], Sequences]
"""Makes codes of the names and vectors of tools, and a seed."""

BRANCHES = 10
"""Of the tree of clusters, and the digits of a number."""


def atomic(names: Sequence[str], vectors: Floats, seed: int) -> Sequences:
    """A code of its own for each tool, as ToolGen."""
    return [(row,) for row in range(len(names))]


def numerical(names: Sequence[str], vectors: Floats, seed: int) -> Sequences:
    """The digits of the tool's number, all of one length."""
    width = len(str(max(0, len(names) - 1)))
    return [tuple(map(int, f"{row:0{width}}")) for row in range(len(names))]


def hierarchical(names: Sequence[str], vectors: Floats, seed: int) -> Sequences:
    """The path in a tree of clusters of ten each; in a cluster of ten tools or fewer, the place."""
    found: Sequences = [()] * len(names)
    open_: list[tuple[tuple[int, ...], NDArray[np.int64]]] = [((), np.arange(len(names)))] if names else []
    random = np.random.default_rng(seed)
    while open_:
        prefix, rows = open_.pop()
        if len(rows) > BRANCHES:
            codes, _ = nearest(vectors[rows], k_means(vectors[rows], BRANCHES, random))
            if codes.min() == codes.max():  # equal vectors, which no clustering tells apart
                codes = np.arange(len(rows)) % BRANCHES
            open_ += [((*prefix, int(code)), rows[codes == code]) for code in np.unique(codes)]
        else:
            for place, row in enumerate(rows.tolist()):
                found[row] = (*prefix, place)
    return found


def semantic(names: Sequence[str], vectors: Floats, seed: int) -> Sequences:
    """The words of the tool's name; a number after them where another tool has the same."""
    said = [tuple(words(name)) or ("?",) for name in names]
    seen: Counter[tuple[str, ...]] = Counter()
    again = Counter(said)
    found: Sequences = []
    for each in said:
        seen[each] += 1
        found.append((*each, seen[each]) if again[each] > 1 else each)
    return found


BASELINES: Mapping[str, Baseline] = {
    "atomic": atomic,
    "numerical": numerical,
    "hierarchical": hierarchical,
    "semantic": semantic,
}
