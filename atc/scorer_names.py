"""The names of what ranks tools (:mod:`atc.retrieval.scorers`): settings know them without NumPy."""

from __future__ import annotations

from typing import Literal, get_args

ScorerName = Literal["words", "vectors", "adapter", "co-usage"]
SCORERS: tuple[ScorerName, ...] = get_args(ScorerName)
WITHOUT_VECTORS: frozenset[str] = frozenset({"words", "co-usage"})
"""Those that need no vector of the query."""
