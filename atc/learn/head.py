"""The training of a head that says codes (:mod:`atc.retrieval.code_head`): softmax over tools, Adam, in NumPy.

Only tools that some query is for are set against each other: of the rest nothing is known, so that they stay where
their meaning puts them. What is held out decides when training ends, and whether anything is kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from atc.errors import UsageError
from atc.retrieval.code_head import SCALE, UNITS, CodeHead, Sayer
from atc.retrieval.code_tree import Rows
from atc.retrieval.codes import Codes
from atc.retrieval.vectors import Floats, Vectors

RATE, BATCH, EPOCHS, PATIENCE = 1e-3, 128, 10, 5
"""Adam's first step, which falls to 0; queries of a step; rounds over all at most; rounds without gain that end it."""
PULL = 0.01
"""Of A, U and F to 0 at each step: what queries do not ask for stays as it is."""
BESIDE = 1_024
"""Tools that a query is set against at once; where more are known so many are drawn for each step."""
SECONDS = 600.0
"""After which training ends with what it has."""
LEAST = 10
"""Queries below which nothing is learnt."""
PARTS = ("turn", "swing", "codes")
"""What is trained: A; W, w and U; what belongs to codes."""
HELD_OUT = 0.1
"""The share of the queries that decides when training ends."""
_ASKED, _STEPS = 500, 20
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8

Progress = Callable[[int, int, float], None]
"""Told after each round: its number, how many there are at most, and the mean reciprocal rank of what is held out."""


@dataclass(frozen=True)
class LearntHead:
    """What training gave.

    Attributes:
        head: the best of all rounds; the untrained one, which gives cosines, where none was better.
        before: the mean reciprocal rank of the held-out queries' tools, among the first ten, before any training.
        after: with the head.
        learnt: queries that it was trained on.
        held_out: queries that it was judged by.
        rounds: that were made.
        seconds: that they took.
        stopped: why it ended: ``rounds``, ``no gain`` or ``time``.
    """

    head: CodeHead
    before: float
    after: float
    learnt: int
    held_out: int
    rounds: int
    seconds: float
    stopped: str

    @property
    def better(self) -> bool:
        """Whether it is worth keeping."""
        return self.after > self.before


def train_head(
    vectors: Floats,
    codes: Codes,
    asked: Floats,
    gold: Sequence[Rows],
    *,
    seed: int = 0,
    rounds: int = EPOCHS,
    seconds: float = SECONDS,
    units: int = UNITS,
    documents: float = 0.0,
    parts: Collection[str] = PARTS,
    held_out: float = HELD_OUT,
    progress: Progress | None = None,
) -> LearntHead:
    """Train a head. The same seed gives the same head, unless the time runs out.

    Args:
        vectors: of the tools, of length one or zero, of shape ``(tools, dimensions)``.
        codes: of the tools, in the same order.
        asked: vectors of queries, of length one, of shape ``(queries, dimensions)``.
        gold: for each query the rows of its tools, at least one.
        seed: of all random choices.
        rounds: over the queries, at most.
        seconds: after which the round in progress is the last one.
        units: hidden units.
        documents: what the documents of the queries' tools count as queries for themselves, beside all queries.
        parts: what is trained, of :data:`PARTS`; the rest stays as it is. ``turn`` alone is an adapter of queries.
        held_out: the share of the queries that is not learnt from: the round after which they are ranked best counts.
            Of 0 the last one does.
        progress: told after each round.

    Raises:
        UsageError: there are too few queries, something is no number, or a row is not there.
    """
    began = time.monotonic()
    _check(vectors, codes, asked, gold)
    random = np.random.default_rng(seed)
    order = random.permutation(len(gold))
    held = order[: math.ceil(held_out * len(gold))]
    learnt = order[len(held) :]
    wanted = [np.unique(np.asarray(gold[place], np.int64)) for place in learnt]
    known = np.unique(np.concatenate(wanted))
    probe = held[:_ASKED]
    untrained = replace(
        CodeHead.untrained(codes, vectors.shape[1], units, seed), taught=np.asarray(codes.values[known], np.int16)
    )
    sayer = Sayer.of(untrained, codes, Vectors.of(vectors))
    before = best = _reciprocal_rank(sayer, asked[probe], [gold[place] for place in probe])
    trainer = _Trainer(untrained, vectors, np.asarray(codes.values, np.int64), parts)
    examples, weights = np.asarray(asked[learnt], np.float32), np.ones(len(learnt), np.float32)
    if documents > 0:
        examples = np.concatenate([examples, vectors[known]])
        wanted += [np.array([row]) for row in known]
        share = np.full(len(known), documents * len(learnt) / len(known), np.float32)
        weights = np.concatenate([weights, share])
    head, best_round, number, stopped = untrained, 0, 0, "rounds"
    size = max(1, min(BATCH, len(examples) // _STEPS))
    for number in range(1, rounds + 1):
        order = random.permutation(len(examples))
        for at in range(0, len(order), size):
            batch = order[at : at + size]
            own = [wanted[place] for place in batch]
            beside = known if len(known) <= BESIDE else random.choice(known, BESIDE, replace=False)
            rate = RATE * (1 - (number - 1 + at / len(order)) / rounds)
            trainer.step(rate, examples[batch], own, weights[batch], np.union1d(np.concatenate(own), beside))
        now = _reciprocal_rank(replace(sayer, head=trainer.head), asked[probe], [gold[place] for place in probe])
        if progress is not None:
            progress(number, rounds, now)
        if now > best or not len(held):
            best, best_round, head = now, number, trainer.copy()
        elif number - best_round >= PATIENCE:
            stopped = "no gain"
            break
        if time.monotonic() - began > seconds:
            stopped = "time"
            break
    return LearntHead(head, before, best, len(learnt), len(held), number, time.monotonic() - began, stopped)


def _check(vectors: Floats, codes: Codes, asked: Floats, gold: Sequence[Rows]) -> None:
    if len(gold) < LEAST or len(asked) != len(gold):
        raise UsageError(f"a head is trained on {LEAST} queries or more, not on {len(gold)}: give more")
    if len(codes.values) != len(vectors):
        raise UsageError(f"there are codes of {len(codes.values)} tools and vectors of {len(vectors)}: make codes anew")
    if not np.isfinite(vectors).all() or not np.isfinite(asked).all():
        raise UsageError("a vector of a tool or of a query holds something that is no number: embed them anew")
    for place, rows in enumerate(gold):
        if not len(rows) or min(rows) < 0 or max(rows) >= len(vectors):
            raise UsageError(f"query {place + 1} names no tool of the index, or one that is not there")


def _reciprocal_rank(sayer: Sayer, asked: Floats, gold: Sequence[Rows]) -> float:
    """The mean of 1 / rank of each query's best tool among the first ten."""
    total = 0.0
    for vector, rows in zip(asked, gold, strict=True):
        places = np.flatnonzero(np.isin(sayer.said(vector, 10)[0], rows))
        total += 1 / (1 + int(places[0])) if len(places) else 0.0
    return total / max(1, len(gold))


class _Trainer:
    """Adam over the parameters of a head, all in place."""

    def __init__(self, head: CodeHead, vectors: Floats, values: Rows, parts: Collection[str]) -> None:
        self.head = head.with_parameters([each.copy() for each in head.parameters])
        self._vectors, self._values = vectors, values
        kinds = ["turn", "swing", "swing", "swing", *["codes"] * (len(head.parameters) - 4)]
        if "codes" in parts:
            kinds[2] = kinds[3] = "codes"  # the hidden layer is of both
        self._trained = [kind in parts for kind in kinds]
        self._first = [np.zeros_like(each) for each in head.parameters]
        self._second = [np.zeros_like(each) for each in head.parameters]
        self._steps = 0

    def copy(self) -> CodeHead:
        """The head as it is now."""
        return self.head.with_parameters([each.copy() for each in self.head.parameters])

    def step(self, rate: float, asked: Floats, gold: Sequence[Rows], weights: Floats, rows: Rows) -> None:
        """Learn from some queries; see :func:`slopes`."""
        _, found = slopes(self.head, self._vectors, self._values, asked, gold, weights, rows)
        pulled = (self.head.turn, self.head.swing, *self.head.answers)
        self._steps += 1
        arrays = zip(self.head.parameters, found, self._first, self._second, self._trained, strict=True)
        for array, slope, first, second, trained in arrays:
            if not trained:
                continue
            slope = slope + PULL * array if any(array is each for each in pulled) else slope
            first += (1 - _FIRST) * (slope - first)
            second += (1 - _SECOND) * (slope * slope - second)
            size = np.sqrt(second / (1 - _SECOND**self._steps)) + _TINY
            array -= np.float32(rate) * (first / (1 - _FIRST**self._steps)) / size


def slopes(
    head: CodeHead, vectors: Floats, values: Rows, asked: Floats, gold: Sequence[Rows], weights: Floats, rows: Rows
) -> tuple[float, list[Floats]]:
    """The cross-entropy of some queries, and its gradient by each parameter of a head.

    Args:
        vectors: of all tools.
        values: their codes.
        asked: vectors of the queries.
        gold: of each its tools.
        weights: of each.
        rows: the tools that they are set against, those of ``gold`` among them; sorted.
    """
    near, codes = vectors[rows], values[rows].T
    units = head.units(asked)
    moved = asked + asked @ head.turn + units @ head.swing
    lengths = np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-6)
    turned = moved / lengths
    gates = [head.gate(level, list(codes[:level])) for level in range(len(codes))]
    answers = [array[own] for array, own in zip(head.answers, codes, strict=True)]
    keys = sum((gate * answer for gate, answer in zip(gates, answers, strict=True)), np.float32(0.0))
    bias = sum((array[own] for array, own in zip(head.biases, codes, strict=True)), np.float32(0.0))
    logits = np.float32(SCALE) * (turned @ near.T) + units @ keys.T + bias
    logits -= logits.max(axis=1, keepdims=True)
    error = np.exp(logits)
    sums = error.sum(axis=1, keepdims=True)
    error /= sums
    logits -= np.log(sums)
    loss = 0.0
    for place, own in enumerate(gold):
        wanted = np.searchsorted(rows, own)
        loss -= float(weights[place] * logits[place, wanted].mean()) / len(gold)
        error[place, wanted] -= 1 / len(own)
    error *= (weights / len(gold))[:, None]

    pulled = np.float32(SCALE) * (error @ near)
    pulled = (pulled - turned * (pulled * turned).sum(axis=1, keepdims=True)) / lengths
    back = (error @ keys + pulled @ head.swing.T) * (units > 0) / np.float32(math.sqrt(units.shape[1]))
    of_keys, of_bias = error.T @ units, error.sum(axis=0)
    found: list[Floats] = [asked.T @ pulled, units.T @ pulled, asked.T @ back, back.sum(axis=0)]
    found += [_summed(of_bias, own, array) for array, own in zip(head.biases, codes, strict=True)]
    found += [_summed(of_keys * gate, own, array) for array, gate, own in zip(head.answers, gates, codes, strict=True)]
    found += [
        _summed(of_keys * answer, own, array)
        for answer, of_level in zip(answers, head.gates, strict=True)
        for array, own in zip(of_level, codes, strict=False)
    ]
    return loss, found


def _summed(values: Floats, codes: Rows, like: Floats) -> Floats:
    """What the rows of each code add up to, in the shape of another array."""
    found = np.zeros_like(like)
    np.add.at(found, codes, values)
    return found
