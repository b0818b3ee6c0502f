"""The systems that go through a sequence: ATC with its defaults, and without each part that may count in one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from atc._records.choices import SCORERS
from atc._records.rules import RULES
from atc.catalogue.index.retriever import IndexRetriever

_BY_RULE = ",".join(f"-{rule.id}" for rule in RULES if rule.step == "call")


@dataclass(frozen=True)
class System:
    """ATC with a part taken away.

    Attributes:
        name: as it is asked for and reported. ``about``: one line about it.
        settings: of the agent, beside those of all systems.
        search: how tools are sought, as arguments of the retriever; ``None`` for the product's own.
        asks: whether the script looks for tools that it is not shown.
    """

    name: str
    about: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, int] | None = None
    asks: bool = True

    def retriever(self, catalogue: Path) -> IndexRetriever | None:
        """Return the retriever, which is the product's own but for ``search``; ``None`` for the product's own."""
        if self.search is None:
            return None
        return IndexRetriever(None, "auto", folder=catalogue / "indexes", scorers=SCORERS, **self.search)  # type: ignore[arg-type]


SYSTEMS: Mapping[str, System] = {
    each.name: each
    for each in (
        System("default", "ATC with its defaults"),
        System("no-learn", "without what runs teach", {"learn": False}),
        System("no-recombine", "without routing round broken tools", {"rules": "-recombine"}),
        System("no-prerequisites", "without tools that supply what found ones need", search={"prerequisites": False}),
        System("no-co-usage", "without what is used together", search={"together": False}),
        System("no-tier-1", "without repairs of arguments by rule", {"rules": _BY_RULE}),
        System("no-search", "whose script never looks for what is not offered", asks=False),
        System("no-services", "without places for tools of the first ones' services", search={"services": False}),
        System("no-both-ways", "without tools that take what found ones hand out", search={"consumers": 0}),
    )
}
