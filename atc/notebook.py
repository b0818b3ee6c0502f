"""A result as HTML, for notebooks. Everything that a tool, a model or a task wrote is escaped and bounded."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from atc.prices import money_text
from atc.wording.outcomes import caveats, effects

if TYPE_CHECKING:
    from atc.result import Result

_CALLS, _TEXT, _CELL = 50, 2_000, 160
"""Calls that are shown; characters of each text, and of what stands in one cell."""


def html_of(result: Result) -> str:
    """Render what came of a run, its program and its calls: no script, no style sheet, no address."""
    cost = "" if result.cost is None else money_text(result.cost, result.currency)
    ended = result.status not in ("answered", "planned")
    changed = effects(result.done, result.not_done, in_doubt=result.status == "in_doubt") if ended else []
    known = {"cost": cost, "caveats": caveats(result), "effects": changed}
    return _template().render(result=result, calls=result.calls[:_CALLS], text=_text, cell=_cell, **known)


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template("notebook.html.jinja")


def _cell(value: Any) -> str:
    return _text(value, _CELL)


def _text(value: Any, limit: int = _TEXT) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= limit else text[:limit] + " …"
