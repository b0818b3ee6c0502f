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
from atc.learn.adapter import (
    BEYOND_NOISE,
    MAX_COMPARED,
    MAX_HARM,
    MIN_HELD_OUT,
    MIN_TOOLS,
    TRIED,
    Compared,
    Progress,
    Ranks,
)
from atc.learn.head import LearntHead, train_head
from atc.learn.pairs import Pair, TooLittle, part_of, usable
from atc.retrieval.code_head import UNITS, CodeHead, Sayer, without_head
from atc.retrieval.codes import Codes
from atc.retrieval.encoder import Floats
from atc.retrieval.fusion import SHARES, fused, top
from atc.retrieval.metrics import ndcg
from atc.retrieval.scorers import Query, SaidCodes, own_scorers

if TYPE_CHECKING:
    from atc.retrieval.index import ToolIndex
    from atc.retrieval.snapshot import Snapshot

SECONDS = 300.0
"""After which each of the two trainings ends with what it has."""
_PLACES, _AT_ONCE = 10, 256


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
    kept = usable(pairs, snapshot.rows)
    known = {id for pair in kept for id in pair.gold}
    if len(known) < MIN_TOOLS or len(kept) < MIN_HELD_OUT:
        raise TooLittle(
            f"too little to learn from: {len(kept)} different queries with tools of these (it takes {MIN_HELD_OUT}), "
            f"for {len(known)} different tools ({MIN_TOOLS})"
        )
    told = progress or (lambda stage, done, total: None)
    batches = []
    for at in range(0, len(kept), _AT_ONCE):
        told("embedding", at, len(kept))
        batches.append(encoder.encode([pair.query for pair in kept[at : at + _AT_ONCE]]))
    asked = np.concatenate(batches)
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
        raise TooLittle(
            f"too little to learn from: {len(others)} queries can be held out (it takes {MIN_HELD_OUT}); "
            f"{len(kept)} different queries for {len(known)} tools are there"
        )
    trial = train(first, "comparing")
    seen, rest = (_compared(snapshot, trial.head, codes, kept, asked, places) for places in (others, apart))
    tried = {share: (seen.compared(share), rest.compared(share)) for share in TRIED}
    harmless = [share for share, (_, unseen) in tried.items() if unseen.least >= -MAX_HARM]
    share = max(harmless or TRIED[:1], key=lambda each: tried[each][0].after)
    held_out, unseen = tried[share]
    found = LearntCodes(len(kept), len(known), held_out, unseen, share, trial.seconds)
    better = held_out.after - held_out.before > BEYOND_NOISE * held_out.noise and held_out.each_tool >= -MAX_HARM
    if not harmless or not better:
        return found
    training = train(np.arange(len(kept)), "training")
    head = replace(training.head, share=share)
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
        given = ((each.name, each.scores(query, None)) for each in own)
        scores = {name: found for name, found in given if found is not None}
        before = _ndcg(snapshot, fused(scores, len(snapshot)), pair)
        after = [before] * len(TRIED)
        said = scorer.scores(query, None)
        if said is not None:
            tried = ({**SHARES, scorer.name: share} for share in TRIED)
            both = {**scores, scorer.name: said}
            after = [_ndcg(snapshot, fused(both, len(snapshot), shares), pair) for shares in tried]
        ranks.add(pair, before, after)
    return ranks


def _ndcg(snapshot: Snapshot, total: Floats, pair: Pair) -> float:
    return ndcg([snapshot.ids[row] for row in top(total, _PLACES)], pair.gold, _PLACES)
