"""One query over a snapshot of an index: scores, one order, hits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from atc._records.choices import ScorerName
from atc.catalogue.index.scorers import Query, Scorer, fused, shares_of, top
from atc.catalogue.index.snapshot import Snapshot
from atc.catalogue.index.together import UsedTogether
from atc.catalogue.index.vectors import Floats, Rows

Mode = Literal["hybrid", "lexical", "dense"]
LIKELY = 10
"""Documents of the best places from which a second scorer starts (ToolWeaver's co-usage, Eq. 5, at ranking)."""


@dataclass(frozen=True)
class Hit:
    """A tool that was found.

    Attributes:
        id: its id in the index.
        score: comparable within one answer only.
        rank: 1 for the best.
        lexical: its BM25 score; ``None`` where words were not compared.
        dense: the cosine of its vector with the query's; ``None`` where vectors were not compared.
        parts: what each scorer gave it, by the scorer's name.
        used_with: the likely tool by which it gained most, for what tasks used together; empty where it gained nothing.
        before: its place without that gain; ``None`` where it had none among so many.
    """

    id: str
    score: float
    rank: int
    lexical: float | None = None
    dense: float | None = None
    parts: Mapping[ScorerName, float] = field(default_factory=dict, compare=False)
    used_with: str = ""
    before: int | None = field(default=None, compare=False)


def search_snapshot(snapshot: Snapshot, query: Query, limit: int, scorers: Sequence[Scorer]) -> list[Hit]:
    """Return the best documents for one query, best first.

    Args:
        snapshot: what is searched.
        query: what is asked.
        limit: how many at most.
        scorers: of this snapshot, those that start from what the others found at the end.
    """
    first = [scorer for scorer in scorers if not scorer.second]
    parts = _scores(first, query)
    shares = shares_of(scorers)
    total = fused(parts, len(snapshot), shares)
    second = [scorer for scorer in scorers if scorer.second]
    before: dict[int, int] = {}
    gained_by: Rows = np.zeros(0, np.int64)
    if second and len(places := top(total, max(limit, LIKELY))):
        query = _with_likely(query, places, total)
        if added := _scores(second, query):
            before = {int(place): rank for rank, place in enumerate(places[:limit], 1)}
            parts |= added
            total = fused(parts, len(total), shares)
            gained_by = next((each.likely(query) for each in second if isinstance(each, UsedTogether)), gained_by)
    words, vectors = parts.get("words"), parts.get("vectors")
    return [
        Hit(
            snapshot.ids[place],
            float(total[place]),
            rank,
            None if words is None else float(words[place]),
            None if vectors is None else float(vectors[place]),
            {name: float(scores[place]) for name, scores in parts.items()},
            _id(snapshot, gained_by, place),
            before.get(int(place), None if before else rank),
        )
        for rank, place in enumerate(top(total, limit), 1)
    ]


def search_rows(snapshot: Snapshot, query: str, rows: NDArray[np.int64], limit: int) -> list[Hit]:
    """Search as :func:`search_snapshot` does, by words alone and of some rows alone."""
    scores = snapshot.lexical.scores(query)[rows]
    return [
        Hit(snapshot.ids[rows[place]], float(scores[place]), rank, float(scores[place]))
        for rank, place in enumerate(top(scores, limit), 1)
    ]


def _with_likely(query: Query, places: Rows, total: Floats) -> Query:
    """Return the query with what the first scorers found, so that the others can start from it."""
    places, best = places[:LIKELY], total[places[0]]
    return replace(query, likely=(places, total[places] / best), found=np.maximum(total, 0.0) / best)


def _id(snapshot: Snapshot, gained_by: Rows, row: int) -> str:
    """Return the id of the likely tool by which a row gained most; empty for none."""
    return snapshot.ids[gained_by[row]] if len(gained_by) and gained_by[row] >= 0 else ""


def _scores(scorers: Sequence[Scorer], query: Query) -> dict[ScorerName, Floats]:
    given = ((scorer.name, scorer.scores(query)) for scorer in scorers)
    return {name: scores for name, scores in given if scores is not None}


# -- a long task and its parts -----------------------------------------------------------------------------------------
# A long task taken apart without a model, and one ranking out of those of the task and of its parts.
#
# One vector of a task of many services is near none of them, and its many words speak for tools that have a few of
# each. So each part is searched for too. Punctuation of any language ends a part; beside it a few English words do. The
# whole task stays the anchor: what it finds best stands before what one part alone finds best.

LEAST_WORDS = 4
"""Words of a part; what is shorter belongs to its neighbour."""
MAX_PARTS = 8
"""Parts of a task at most; of more, neighbours are put together."""
MAX_TEXT = 8_000
"""Characters of a task that are taken apart."""
SHARE = 0.5
"""Weight of the best part's score of a tool beside 1 for the whole task's."""
DEPTH = 100
"""Tools at least that each search finds, so that the rankings have something in common."""
_SENTENCES = re.compile(r"(?<=[.!?;:])\s+|[\n\r\u2028\u2029。！？；।۔؟•]+")
# it begins at the first of some spaces alone: from each of many, all that follow would be looked at again
_CLAUSES = re.compile(
    r"(?:,|(?<!\s))\s*\b(?:and also|as well as|and then|additionally|also|then|furthermore|moreover|plus|after that"
    r"|finally|along with|in addition)\b[,:]?\s*|,\s+and\s+",
    re.IGNORECASE,
)
_WORDS = re.compile(r"\w+")


def parts_of(task: str) -> list[str]:
    """Return the parts of a task, in its order; one or none where it cannot be taken apart."""
    parts = [part for sentence in _SENTENCES.split(task[:MAX_TEXT]) for part in _joined(_CLAUSES.split(sentence))]
    parts = [part for part in parts if _words(part) >= LEAST_WORDS]
    if len(parts) <= MAX_PARTS:
        return parts
    ends = [len(parts) * place // MAX_PARTS for place in range(MAX_PARTS + 1)]
    return [" ".join(parts[begin:end]) for begin, end in pairwise(ends)]


def one_ranking(rankings: Sequence[Sequence[Hit]], limit: int) -> list[Hit]:
    """Return the tools by their score for the whole task, and :data:`SHARE` of their best score for a part.

    Args:
        rankings: of the whole task, then of each part. Each counts as parts of its best score.
        limit: how many at most.
    """
    whole: dict[str, float] = {}
    part: dict[str, float] = {}
    shown: dict[str, tuple[float, Hit]] = {}  # from the ranking that speaks most for it
    for number, ranking in enumerate(rankings):
        best = max((hit.score for hit in ranking), default=0.0)
        for hit in ranking if best > 0 else ():
            score = hit.score / best * (SHARE if number else 1.0)
            scores = part if number else whole
            scores[hit.id] = max(scores.get(hit.id, 0.0), score)
            if score > shown.get(hit.id, (0.0, hit))[0]:
                shown[hit.id] = (score, hit)
    total = {id: whole.get(id, 0.0) + part.get(id, 0.0) for id in shown}
    order = sorted(total, key=lambda id: (-total[id], id))[:limit]
    before = _best_places(rankings)
    return [
        replace(shown[id][1], score=total[id] / (1 + SHARE), rank=rank, before=before.get(id))
        for rank, id in enumerate(order, 1)
    ]


def _best_places(rankings: Sequence[Sequence[Hit]]) -> dict[str, int]:
    """Return the best place of each tool in any ranking, without what it gained by use."""
    places: dict[str, int] = {}
    for ranking in rankings:
        for hit in ranking:
            if hit.before is not None:
                places[hit.id] = min(places.get(hit.id, hit.before), hit.before)
    return places


def _joined(clauses: Sequence[str]) -> list[str]:
    """Clauses, each with enough words; a short one joins the one before it."""
    found: list[str] = []
    for clause in (each.strip() for each in clauses):
        if clause and found and (_words(clause) < LEAST_WORDS or _words(found[-1]) < LEAST_WORDS):
            found[-1] += f" {clause}"
        elif clause:
            found.append(clause)
    return found


def _words(text: str) -> int:
    return sum(1 for _ in _WORDS.finditer(text))
