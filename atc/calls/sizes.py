"""How many values the arguments of one call may hold: what is done with each of them is the host's time."""

from __future__ import annotations

import json
from typing import Any

from atc.errors import CallRefused
from atc.packing import SMALL, count_values, is_small, json_text, pack

MAX_NAME = 100
"""Characters of an argument's name in a refusal."""


def refuse_too_many(arguments: dict[str, Any], most: int) -> None:
    """Refuse the arguments of a call that hold too many values. A string counts as one, bytes as two.

    Raises:
        CallRefused: they do. It says how many there are, and which argument holds most of them.
    """
    if (most >= SMALL and is_small(arguments)) or _count(arguments, most) <= most:
        return
    counts = {name: _count(value, 0) for name, value in arguments.items()}
    largest = max(counts, key=lambda name: counts[name])
    where = repr(largest[:MAX_NAME]) + (" …" if len(largest) > MAX_NAME else "")
    raise CallRefused(
        f"its arguments hold {sum(counts.values()):,} values, over the limit of {most:,} a call; {counts[largest]:,} "
        f"are in {where}: give fewer, in several calls",
        status="too_large",
    )


def _count(value: Any, enough: int) -> int:
    text = json_text(value)
    return count_values(json.dumps(pack(value), default=str) if text is None else text, enough)
