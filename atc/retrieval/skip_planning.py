"""When a search needs no plan: a task of a single step that one tool fits clearly (ToolQP, Limitations: left open).

How often that is so, and how good the ranking is then: ``python -m benchmarks.retrieval_clear``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from atc.retrieval.search import Hit

MARGIN = 0.1
"""The lead that the first tool needs; the best of both views has 1. Chosen by the benchmark named above."""
MAX_WORDS = 30
_BEST = 0.999
_END = re.compile(r"[.?!;。？！]\s+|\n")
_STEPS = re.compile(
    r"(?i)\b(?:and|then|also|after|before|both|each|every|all|as well|finally|next|plus|followed|compare|respectively"
    r"|once|if|additionally)\b"
)


def single_step(task: str) -> bool:
    """Whether a task's words speak of one step: one short sentence without a word that joins or repeats steps.

    The words are English. In other languages more tasks count as one step, and :func:`one_tool_suffices` still asks for
    a tool that leads by words and by meaning.
    """
    sentences = [part for part in _END.split(task.strip()) if len(part.split()) > 2]
    return len(sentences) <= 1 and len(task.split()) <= MAX_WORDS and not _STEPS.search(task)


def one_tool_suffices(task: str, hits: Sequence[Hit]) -> bool:
    """Whether a plan would add nothing: a single step, and one tool that leads, first by words and by meaning.

    Args:
        task: the user's words.
        hits: what they find, by words and meaning; where meaning was not searched, no tool suffices.
    """
    if not hits or hits[0].dense is None or not single_step(task):
        return False
    first, second = (_by_itself(hit) for hit in hits[:2]) if len(hits) > 1 else (_by_itself(hits[0]), 0.0)
    return first >= _BEST and first - second >= MARGIN


def _by_itself(hit: Hit) -> float:
    """What words and meaning say for a tool at least, without what it gained by use."""
    return hit.score - hit.parts.get("co-usage", 0.0)
