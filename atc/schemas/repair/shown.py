"""Values as the record of a repair shows them."""

from __future__ import annotations

from itertools import islice
from typing import Any

MAX_SHOWN = 200
"""Characters of a value or a name in a repair."""
_FEW = 8


def cut(value: Any, depth: int = 0) -> Any:
    """A value without what is long in it."""
    if isinstance(value, str):
        return value if len(value) <= MAX_SHOWN else value[:MAX_SHOWN] + " …"
    if isinstance(value, bytes):
        return value[:MAX_SHOWN]
    if isinstance(value, dict | list) and depth > 2:
        return "…"
    if isinstance(value, list | tuple):
        return [cut(item, depth + 1) for item in value[:_FEW]] + ["…"] * (len(value) > _FEW)
    if isinstance(value, dict):
        few = {key[:MAX_SHOWN]: cut(item, depth + 1) for key, item in islice(value.items(), _FEW)}
        return {**few, "…": "…"} if len(value) > _FEW else few
    return value
