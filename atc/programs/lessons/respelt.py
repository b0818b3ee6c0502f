"""Which keys of arguments meant which parameter, as the repairs of answered calls say (RETO §3.4): names, no values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from atc.programs.lessons.witness import Made
from atc.tools.protocol import Protocol, parameters_of

MAX_KEYS, MAX_KEY = 20, 64
"""Keys of one tool that one run teaches, and characters of one."""


def respelt(calls: Sequence[Made], program: str, tools: Mapping[str, Protocol]) -> dict[tuple[str, str], str]:
    """Of a tool and a key that none of its parameters has, the parameter that was meant.

    Args:
        calls: those whose values reached the answer.
        program: their source. A key that does not stand there may be data.
        tools: the protocols by name.
    """
    found: dict[tuple[str, str], set[str]] = {}
    words = set(re.findall(r"\w+", program))
    for call in calls:
        if call.repairs and call.tool in tools:
            parameters = parameters_of(tools[call.tool])
            names, known = {each.original for each in parameters}, {each.name for each in parameters}
            for key, name in _keys(call):
                if name in names and key in words and key not in names | known:
                    found.setdefault((call.tool, key), set()).add(name)
    counts: dict[str, int] = {}
    made: dict[tuple[str, str], str] = {}
    for (tool, key), meant in found.items():
        counts[tool] = counts.get(tool, 0) + 1
        if len(meant) == 1 and counts[tool] <= MAX_KEYS:
            made[tool, key] = meant.pop()
    return made


def _keys(call: Made) -> list[tuple[str, str]]:
    """The keys of the arguments themselves that became another, and changed nothing else."""
    made = []
    for repair in call.repairs:
        kind, path, name = repair.get("kind"), repair.get("path"), repair.get("name")
        alone = kind == "respelt" or (kind == "model" and repair.get("given") == repair.get("sent"))
        if alone and isinstance(path, list | tuple) and len(path) == 1 and isinstance(name, str):
            key = path[0]
            if isinstance(key, str) and key.isidentifier() and len(key) <= MAX_KEY:
                made.append((key, name))
    return made
