"""The names of what ranks tools (:mod:`atc.catalogue.index.scorers`): settings know them without NumPy."""

from __future__ import annotations

ScorerName = str
SCORERS: tuple[ScorerName, ...] = ("words", "vectors", "adapter", "co-usage")
"""Those of ATC; other packages may add some (:data:`atc.parts.SCORERS`)."""
WITHOUT_VECTORS: frozenset[str] = frozenset({"words", "co-usage"})
"""Those that need no vector of the query."""
