"""A head that says codes: for a query's vector the likeliest first codes, then second ones behind each, and so on.

ToolWeaver (§3.3) has a language model say the codes of a tool, with a beam over those that exist. Here a small network
does, over the frozen vectors that dense search compares: a CPU trains it in seconds and asks it in less than a
millisecond. A tool with the codes ``c_1 … c_L`` and the vector ``v`` gets the logit

    s h·v + Σ_l (b_l[c_l] + r·(g_l ∘ F_l[c_l]))

    h = (q + qA + rU) / |q + qA + rU|,   r = relu(qW + w) / √units,   g_l = 1 + Σ_j<l P_lj[c_j]

so that what a code counts depends on the query and on the codes before it. A beginning gets the same sum over its own
codes, with the mean vector of its tools in place of ``v``. Logits are not normalised level by level: the first code
would then have to be right before anything is known of the second. An untrained head gives the cosines, exactly; tools
that it never saw keep about theirs.

:mod:`atc.learn.head` trains it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from atc.retrieval.code_tree import CodeTree, Rows
from atc.retrieval.codes import Codes
from atc.retrieval.encoder import normalised
from atc.retrieval.fusion import CODES_SHARE
from atc.retrieval.vectors import Floats, Vectors

HEAD_VERSION = 1
"""Changes with what the arrays mean; a head of another version is left out."""
BEAM = 32
"""Beginnings of codes that are followed at each level."""
SCALE = 20.0
"""s, what a cosine counts in a logit."""
UNITS = 256
"""Hidden units."""
PREFIX = "head-"
"""How the names of the arrays of a head begin."""
_BLOCK = 8_192
_TAUGHT, _SHARE, _OF = f"{PREFIX}taught", f"{PREFIX}share", f"{PREFIX}of"


@dataclass(frozen=True)
class CodeHead:
    """The network; see the module.

    Attributes:
        turn: A, of shape ``(dimensions, dimensions)``.
        swing: U, of shape ``(units, dimensions)``.
        hidden: W, of shape ``(dimensions, units)``.
        offset: w, of shape ``(units,)``.
        biases: b, for each level an array of shape ``(codes,)``.
        answers: F, for each level an array of shape ``(codes, units)``.
        gates: P, for each level an array of shape ``(codes, units)`` for each earlier level.
        taught: the codes of the tools that it was trained for, of shape ``(tools, levels)``.
        share: its weight beside words and vectors, found on queries that were held out.
    """

    turn: Floats
    swing: Floats
    hidden: Floats
    offset: Floats
    biases: tuple[Floats, ...]
    answers: tuple[Floats, ...]
    gates: tuple[tuple[Floats, ...], ...]
    taught: NDArray[np.int16]
    share: float = CODES_SHARE

    @classmethod
    def untrained(cls, codes: Codes, dimensions: int, units: int = UNITS, seed: int = 0) -> CodeHead:
        """One that gives the cosines: of what is multiplied one side is 0, the other random."""
        random = np.random.default_rng(seed)
        sizes = code_counts(codes)

        def drawn(spread: float, *shape: int) -> Floats:
            return (spread * random.standard_normal(shape)).astype(np.float32)

        return cls(
            np.zeros((dimensions, dimensions), np.float32),
            np.zeros((units, dimensions), np.float32),
            drawn(1.0, dimensions, units),
            np.zeros(units, np.float32),
            tuple(np.zeros(size, np.float32) for size in sizes),
            tuple(np.zeros((size, units), np.float32) for size in sizes),
            tuple(tuple(drawn(0.5, size, units) for size in sizes[:level]) for level in range(len(sizes))),
            np.zeros((0, len(sizes)), np.int16),
        )

    @property
    def parameters(self) -> list[Floats]:
        """What is trained, always in the same order."""
        gates = [gate for level in self.gates for gate in level]
        return [self.turn, self.swing, self.hidden, self.offset, *self.biases, *self.answers, *gates]

    def with_parameters(self, parameters: Sequence[Floats]) -> CodeHead:
        """The same with other :attr:`parameters`."""
        given = iter(parameters)
        turn, swing, hidden, offset = (next(given) for _ in range(4))
        biases, answers = (tuple(next(given) for _ in self.biases) for _ in range(2))
        gates = tuple(tuple(next(given) for _ in level) for level in self.gates)
        return replace(
            self, turn=turn, swing=swing, hidden=hidden, offset=offset, biases=biases, answers=answers, gates=gates
        )

    def turned(self, vectors: Floats) -> Floats:
        """h of each query: of length one, of shape ``(queries, dimensions)``."""
        return normalised(vectors + vectors @ self.turn + self.units(vectors) @ self.swing)

    def units(self, vectors: Floats) -> Floats:
        """r of each query, of shape ``(queries, units)``."""
        units: Floats = np.maximum(vectors @ self.hidden + self.offset, 0.0) / np.float32(math.sqrt(len(self.offset)))
        return units

    def gate(self, level: int, before: Sequence[Rows]) -> Floats | np.float32:
        """g behind the codes of each earlier level, of shape ``(documents, units)``; 1 at the first level."""
        gates = (gate[codes] for gate, codes in zip(self.gates[level], before, strict=True))
        found: Floats | np.float32 = sum(gates, np.float32(1.0))
        return found

    def arrays(self, codes: Codes) -> dict[str, Floats]:
        """As :attr:`Codes.arrays` keeps them, beside a digest of the codebooks that they belong to."""
        named = {f"{PREFIX}{place:02}": array for place, array in enumerate(self.parameters)}
        share = np.array([self.share], np.float32)
        return named | {_TAUGHT: self.taught.astype(np.float32), _SHARE: share, _OF: _digest(codes)}

    @classmethod
    def of(cls, codes: Codes) -> CodeHead | None:
        """The head that some codes have; ``None`` where there is none.

        Raises:
            ValueError: it is of other codes or of another version, or damaged.
        """
        arrays = {name: np.asarray(array) for name, array in codes.arrays.items() if name.startswith(PREFIX)}
        if not arrays:
            return None
        of, taught, share = (arrays.pop(name, None) for name in (_OF, _TAUGHT, _SHARE))
        if of is None or taught is None or share is None or not np.array_equal(of, _digest(codes)):
            raise ValueError("it was trained for other codes, or by another version of ATC")
        parameters = [arrays[name].astype(np.float32) for name in sorted(arrays)]
        if len(parameters) < 2 or parameters[1].ndim != 2 or taught.ndim != 2 or taught.shape[1] != codes.levels:
            raise ValueError("it is damaged")
        units, dimensions = parameters[1].shape
        # the shapes first: an empty array may claim any, and one of that size would fill the memory
        if not units or [each.shape for each in parameters] != _shapes(code_counts(codes), dimensions, units):
            raise ValueError("it is damaged")
        shapes = cls.untrained(codes, dimensions, units)
        if not all(np.isfinite(each).all() for each in parameters) or share.shape != (1,) or not 0 < share[0] <= 10:
            raise ValueError("it is damaged")
        return replace(shapes.with_parameters(parameters), taught=taught.astype(np.int16), share=float(share[0]))


def code_counts(codes: Codes) -> list[int]:
    """The codes of each level."""
    highest = np.asarray(codes.values).max(axis=0, initial=-1)
    return [max(len(book), int(most) + 1) for book, most in zip(codes.books, highest, strict=True)]


def _shapes(sizes: Sequence[int], dimensions: int, units: int) -> list[tuple[int, ...]]:
    """Of the :attr:`CodeHead.parameters` of a head, for so many codes a level."""
    gates = [(size, units) for level in range(len(sizes)) for size in sizes[:level]]
    network = [(dimensions, dimensions), (units, dimensions), (dimensions, units), (units,)]
    return [*network, *((size,) for size in sizes), *((size, units) for size in sizes), *gates]


def centres(tree: CodeTree, vectors: Vectors) -> tuple[Floats, ...]:
    """The mean vector of the documents below each node, for all levels but the last."""
    levels = range(len(tree.codes) - 1)
    found = [np.zeros((len(tree.codes[level]), vectors.values.shape[1]), np.float32) for level in levels]
    for at in range(0, len(tree.order), _BLOCK):
        rows = tree.order[at : at + _BLOCK]
        floats = vectors.take(rows).floats()
        for level in levels:
            nodes = tree.nodes[level][rows]
            starts = np.flatnonzero(np.r_[True, nodes[1:] != nodes[:-1]])
            found[level][nodes[starts]] += np.add.reduceat(floats, starts)
    counts = [np.bincount(tree.nodes[level], minlength=len(found[level])) for level in levels]
    for sums, count in zip(found, counts, strict=True):
        sums /= count[:, None].astype(np.float32)
    return tuple(found)


def head_fault(codes: Codes) -> str:
    """Why the head that some codes have cannot be used; empty where it can, or where there is none."""
    try:
        CodeHead.of(codes)
    except ValueError as problem:
        return str(problem)
    return ""


@dataclass(frozen=True)
class Sayer:
    """A head over the documents of an index.

    Attributes:
        head: says codes.
        tree: the codes that exist.
        vectors: of the documents.
        centres: as :func:`centres` gives them.
    """

    head: CodeHead
    tree: CodeTree
    vectors: Vectors
    centres: tuple[Floats, ...]

    @classmethod
    def of(cls, head: CodeHead, codes: Codes, vectors: Vectors) -> Sayer:
        """Over documents with these codes and vectors."""
        tree = CodeTree.of(codes.values)
        return cls(head, tree, vectors, centres(tree, vectors))

    @cached_property
    def taught(self) -> NDArray[np.bool_]:
        """Of each document, whether the head was trained for its codes."""
        known = {row.tobytes() for row in np.ascontiguousarray(self.head.taught, np.int16)}
        own = np.stack([self._codes(level) for level in range(len(self.tree.codes))], axis=1).astype(np.int16)
        return np.array([row.tobytes() in known for row in own], np.bool_)

    def said(self, vector: Floats, count: int, beam: int = BEAM) -> tuple[Rows, Floats]:
        """The likeliest documents, by a beam over the codes that exist.

        Args:
            vector: of the query, of length one, of shape ``(dimensions,)``.
            count: rows at most.
            beam: beginnings that are followed from each level to the next.

        Returns:
            Rows, the likeliest first, and their logits divided by s: cosines, before any training.
        """
        head, tree = self.head, self.tree
        if not len(tree.order) or not vector.any():
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        turned, units = head.turned(vector[None])[0], head.units(vector[None])[0]
        nodes, learnt = np.zeros(1, np.int64), np.zeros(1, np.float32)
        path: list[Rows] = []
        for level, known in enumerate(tree.codes):
            gated = np.atleast_2d(head.gate(level, path) * units)  # of each beginning
            nodes, parents = tree.children(level, nodes)
            codes = known[nodes]
            if level:
                said = np.einsum("ij,ij->i", head.answers[level][codes], gated[parents])
            else:
                said = (head.answers[level] @ gated[0])[codes]
            learnt = learnt[parents] + head.biases[level][codes] + said
            path = [before[parents] for before in path]
            path.append(codes)
            if level < len(self.centres):
                near = self.centres[level] @ turned if len(nodes) == len(known) else self.centres[level][nodes] @ turned
                best = _best(near + learnt / np.float32(SCALE), nodes, beam)
                nodes, learnt, path = nodes[best], learnt[best], [codes[best] for codes in path]
        rows, leaves = tree.rows(nodes)
        order = np.argsort(rows)
        rows = rows[order]
        scores = self.vectors.take(rows).scores(turned) + learnt[leaves[order]] / np.float32(SCALE)
        best = _best(scores, rows, count)
        return rows[best], scores[best].astype(np.float32)

    def _codes(self, level: int) -> Rows:
        codes: Rows = self.tree.codes[level][self.tree.nodes[level]]
        return codes


def without_head(codes: Codes) -> Codes:
    """The same codes without the arrays of a head."""
    return replace(codes, arrays={name: array for name, array in codes.arrays.items() if not name.startswith(PREFIX)})


def _best(scores: Floats, nodes: Rows, count: int) -> Rows:
    """The places of the best scores, best first; of equal ones the lesser node first."""
    places = np.arange(len(scores))
    if len(scores) > count:
        places = np.flatnonzero(scores >= np.partition(scores, len(scores) - count)[len(scores) - count])
    best: Rows = places[np.lexsort((nodes[places], -scores[places]))][:count]
    return best


def _digest(codes: Codes) -> Floats:
    made = hashlib.sha256(f"{HEAD_VERSION} {codes.facts} {codes.levels}".encode())
    for book in codes.books:
        made.update(np.ascontiguousarray(book, np.float32).tobytes())
    return np.frombuffer(made.digest()[:16], np.uint8).astype(np.float32)
