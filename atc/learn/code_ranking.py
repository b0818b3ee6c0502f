"""A head that says codes, learnt for an index from queries and their tools; kept only where it ranks better.

A fifth of the queries is held out, drawn by the hash of their words, and of these nothing is learnt; a fifth of the
tools is held out too: the queries for these show what becomes of tools that nothing was learnt for. What wins there
gets its weight beside words and vectors there, and is trained once more on all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atc.errors import UsageError
from atc.learn.head import LearntHead, train_head
from atc.learn.keeping import (
    MAX_COMPARED,
    MIN_HELD_OUT,
    Compared,
    Progress,
    Ranks,
    embedded,
    judge,
    learnable,
    too_few_held_out,
)
from atc.learn.pairs import Pair, part_of
from atc.retrieval.code_head import UNITS, CodeHead, Sayer, without_head
from atc.retrieval.codes import Codes
from atc.retrieval.encoder import Floats
from atc.retrieval.scorers import Query, SaidCodes, own_scorers

if TYPE_CHECKING:
    from atc.retrieval.index import ToolIndex
    from atc.retrieval.snapshot import Snapshot

SECONDS = 300.0
"""After which each of the two trainings ends with what it has."""


@dataclass(frozen=True)
class LearntCodes:
    """How a training went; as :class:`~atc.learn.adapter.Learnt`.

    Attributes:
        pairs, tools: that could be learnt from.
        held_out: queries that were held out, for tools that others were for.
        unseen: queries for tools that were held out.
        share: the weight that ranked best.
        seconds: of training.
        training: the last one; ``None`` where nothing was kept.
    """

    pairs: int
    tools: int
    held_out: Compared
    unseen: Compared
    share: float
    seconds: float
    training: LearntHead | None = field(default=None, repr=False)

    @property
    def kept(self) -> bool:
        """Whether the index has the head now."""
        return self.training is not None


def learn_head(
    index: ToolIndex,
    pairs: Iterable[Pair],
    *,
    seed: int = 0,
    seconds: float = SECONDS,
    units: int = UNITS,
    progress: Progress | None = None,
) -> LearntCodes:
    """Train a head for the codes of an index, and put it there where held-out queries are ranked better.

    Until the end the index stays as it was: Ctrl-C loses the training and nothing else.

    Args:
        index: with codes and its encoder; save it afterwards.
        pairs: queries with the ids of their tools; ids that the index lacks count for nothing.
        seed: of all random choices.
        seconds: for each of two trainings.
        units: hidden units.
        progress: told of each stage: ``embedding``, ``comparing``, ``training``.

    Raises:
        TooLittle: there are too few queries or tools.
        UsageError: the index has no codes, or came without its encoder.
        EncoderUnavailable: the encoder cannot be used.
        ModelError: the encoder failed in the middle of work.
    """
    codes, encoder, snapshot = index.codes, index.encoder, index.snapshot
    if codes is None or snapshot.vectors is None:
        raise UsageError("a head is learnt for codes, and the index has none: `atc tools index --codes` makes them")
    if encoder is None:
        raise UsageError("queries must be embedded, and the index came without its encoder: give it to ToolIndex.load")
    encoder.check()
    codes = without_head(codes)
    kept, known = learnable(pairs, snapshot.rows)
    told = progress or (lambda stage, done, total: None)
    asked = embedded(kept, encoder, told)
    # only the tools that queries are for are set against each other: their vectors and codes alone are needed
    near = np.array(sorted(snapshot.rows[id] for id in known), np.int64)
    vectors, near_codes = snapshot.vectors.take(near).floats(), replace(codes, values=np.asarray(codes.values)[near])
    rows = [np.searchsorted(near, [snapshot.rows[id] for id in pair.gold]) for pair in kept]

    def train(places: NDArray[np.int64], stage: str) -> LearntHead:
        def after(number: int, rounds: int, rank: float) -> None:
            told(stage, number, rounds)

        told(stage, 0, 0)
        chosen = [rows[place] for place in places]
        return train_head(
            vectors,
            near_codes,
            asked[places],
            chosen,
            seed=seed,
            seconds=seconds,
            units=units,
            held_out=0.0,
            progress=after,
        )

    hidden = np.array([any(part_of(id) == 0 for id in pair.gold) for pair in kept])
    out = np.array([pair.part == 0 for pair in kept])
    first, others, apart = (np.flatnonzero(chosen) for chosen in (~hidden & ~out, ~hidden & out, hidden))
    if len(others) < MIN_HELD_OUT or len(first) < MIN_HELD_OUT:
        raise too_few_held_out(len(others), len(kept), len(known))
    trial = train(first, "comparing")
    seen, rest = (_compared(snapshot, trial.head, codes, kept, asked, places) for places in (others, apart))
    judged = judge(seen, rest)
    found = LearntCodes(len(kept), len(known), judged.held_out, judged.unseen, judged.share, trial.seconds)
    if not judged.better:
        return found
    training = train(np.arange(len(kept)), "training")
    head = replace(training.head, share=judged.share)
    index.use_codes(replace(codes, arrays={**codes.arrays, **head.arrays(codes)}))
    return replace(found, seconds=trial.seconds + training.seconds, training=training)


def _compared(
    snapshot: Snapshot, head: CodeHead, codes: Codes, pairs: Sequence[Pair], asked: Floats, places: NDArray[np.int64]
) -> Ranks:
    """Rank queries as a search of the index does, with each weight."""
    assert snapshot.vectors is not None
    scorer = SaidCodes(snapshot, Sayer.of(head, codes, snapshot.vectors))
    own = [each for each in own_scorers(snapshot) if each.name != scorer.name]
    ranks = Ranks()
    for place in places[:MAX_COMPARED]:
        pair, query = pairs[place], Query(pairs[place].query, asked[place])
        ranks.compare(snapshot, pair, query, own, scorer)
    return ranks
