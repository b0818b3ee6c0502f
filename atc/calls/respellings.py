"""A run's table of respellings: of a tool, the keys that are read as one of its parameters, as earlier runs taught."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_KEYS = 2_000
"""Keys of one run's table, of all tools together: a trace holds it."""

Respellings = Mapping[str, Mapping[str, str]]


def bounded_respellings(learnt: Respellings) -> Respellings:
    """The table of a run that begins, of what was learnt."""
    made: dict[str, dict[str, str]] = {}
    left = MAX_KEYS
    for tool, keys in learnt.items():
        taken = dict(list(keys.items())[:left])
        left -= len(taken)
        if taken:
            made[tool] = taken
    return made


def read_respellings(found: Any) -> Respellings:
    """The table of a run that goes on, from its trace. Anything but names is left out."""
    if not isinstance(found, dict):
        return {}
    made = {
        tool: {key: name for key, name in keys.items() if isinstance(name, str)}
        for tool, keys in found.items()
        if isinstance(keys, dict)
    }
    return bounded_respellings(made)
