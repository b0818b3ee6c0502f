"""Render a result as HTML, for notebooks. Everything that a tool, a model or a task wrote is escaped and bounded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import jinja2

from atc._records.packing import shortened
from atc._records.records import Record

_CALLS, _TEXT, _CELL = 50, 2_000, 160
"""Calls that are shown; characters of each text, and of what stands in one cell."""


def html_of(
    result: Record,
    calls: Sequence[Record],
    *,
    cost: str,
    caveats: Sequence[str],
    effects: Sequence[str],
    pending: str = "",
) -> str:
    """Render what came of a run, its program and its calls: no script, no style sheet, no address."""
    known: dict[str, Any] = {"cost": cost, "caveats": caveats, "effects": effects, "pending": pending}
    known["cell"] = partial(_text, limit=_CELL)
    return _template().render(result=result, calls=calls[:_CALLS], text=_text, **known)


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template("notebook.html.jinja")


def _text(value: Any, limit: int = _TEXT) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shortened(text, limit)
