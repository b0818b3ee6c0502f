"""The sieve: the order in which a task's words, and their meaning, put the tools. No model is asked.

One vector of a task of many services is near none of them, and its many words speak for tools that have a few of each.
So each part of a long task is searched for too. Punctuation of any language ends a part; beside it a few English words
do. The whole task stays the anchor: what it finds best stands before what one part alone finds best.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.search import Hit, Mode

LEAST_WORDS = 4
"""Words of a part; what is shorter belongs to its neighbour."""
MAX_PARTS = 8
"""Parts of a task at most; of more, neighbours are put together."""
MAX_TEXT = 8_000
"""Characters of a task that are taken apart."""
SHARE = 0.5
"""Weight of the best part's score of a tool beside 1 for the whole task's."""
PARTS_DEPTH = 100
"""Tools at least that each search finds, so that the rankings have something in common."""
_SENTENCES = re.compile(r"(?<=[.!?;:])\s+|[\n\r\u2028\u2029。！？；।۔؟•]+")
# it begins at the first of some spaces alone: from each of many, all that follow would be looked at again
_CLAUSES = re.compile(
    r"(?:,|(?<!\s))\s*\b(?:and also|as well as|and then|additionally|also|then|furthermore|moreover|plus|after that"
    r"|finally|along with|in addition)\b[,:]?\s*|,\s+and\s+",
    re.IGNORECASE,
)
_WORDS = re.compile(r"\w+")


def sieved(index: ToolIndex, task: str, limit: int, mode: Mode | None = None) -> list[Hit]:
    """Return the likeliest tools for a task, by all of its words and by its parts where it has several.

    Args:
        index: of the tools.
        task: the user's words.
        limit: how many at most.
        mode: as :meth:`ToolIndex.search` takes it.
    """
    parts = parts_of(task)
    if len(parts) < 2:
        return index.search(task, limit, mode)
    return one_ranking(index.search_many([task, *parts], max(limit, PARTS_DEPTH), mode), limit)


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
    return [replace(shown[id][1], score=total[id] / (1 + SHARE), rank=rank) for rank, id in enumerate(order, 1)]


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


FAINT = 0.35
"""The cosine below which a tool is not near a task in meaning, as none of the atlas is to "book a hotel room"."""


def nothing_fits(hits: Sequence[Hit]) -> bool:
    """Return whether no tool that was found has a word in common with what was asked, or is near it in meaning."""
    return all(not hit.lexical and (hit.dense or 0.0) < FAINT for hit in hits)
