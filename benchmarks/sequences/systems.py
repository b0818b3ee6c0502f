"""The systems that go through a sequence: ATC with its defaults, and without each part that may count in one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from atc._records.rules import RULES

_BY_RULE = ",".join(f"-{rule.id}" for rule in RULES if rule.step == "call")


@dataclass(frozen=True)
class System:
    """ATC with a part taken away.

    Attributes:
        name: as it is asked for and reported. ``about``: one line about it.
        settings: of the agent, beside those of all systems.
        asks: whether the script looks for tools that it is not shown.
    """

    name: str
    about: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    asks: bool = True


SYSTEMS: Mapping[str, System] = {
    each.name: each
    for each in (
        System("default", "ATC with its defaults"),
        System("no-learn", "without what runs teach", {"learn": False}),
        System("no-recombine", "without routing round broken tools", {"rules": "-recombine"}),
        System("no-tier-1", "without repairs of arguments by rule", {"rules": _BY_RULE}),
        System("no-search", "whose script never looks for what is not offered", asks=False),
    )
}
