"""The list of runs as a page: those that are given, and, where a server sends it, all others as they are looked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atc.serve.pages.kit import page_of
from atc.serve.pages.run.nodes import brief

_HERE = Path(__file__).parent
SCRIPTS = [_HERE.parent / "common.js", _HERE.parent / "parked.js", _HERE / "page.js"]
STYLES = [_HERE.parent / "common.css", _HERE / "page.css"]
_TEXT, _NAME = 300, 120
_TEXTS = {"run_id": _NAME, "status": _NAME, "task": _TEXT, "model": _NAME, "strategy": _NAME, "currency": 12}
_MAY_LACK = {"answer": _TEXT, "damage": _TEXT}
_NUMBERS = ("began", "calls", "replayed", "revisions", "tokens", "seconds", "cost", "remarks")
_FLAGS = ("here", "partial", "unresolved", "waits")


def row_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """A run's summary as the page takes it: its texts cut and harmless, whatever a trace says."""
    made: dict[str, Any] = {name: brief(str(row.get(name, "")), most) for name, most in _TEXTS.items()}
    made |= {name: brief(str(row[name]), most) for name, most in _MAY_LACK.items() if row.get(name) is not None}
    for name in _NUMBERS:
        value = row.get(name)
        number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
        made[name] = value if number else None
    return made | {name: True for name in _FLAGS if row.get(name) is True}


def runs_page(rows: Sequence[Mapping[str, Any]], live: Mapping[str, Any] | None = None) -> str:
    """One self-contained HTML file.

    Args:
        rows: as :meth:`atc.traces.summary.RunSummary.record` gives them, the latest first.
        live: of a page that a server sends: ``api``, the path of its API; ``run``, what stands before a run's id in the
            path of its page; ``rights``, of ``read``, ``approve`` and ``run``; ``more``: there are more rows;
            ``total``: how many there are; ``about``: what a new task will have. Without, the page asks for nothing,
            anywhere.
    """
    return page_of(
        _HERE / "page.html.jinja",
        title="Runs · ATC",
        styles=STYLES,
        script=SCRIPTS,
        data={"runs": [row_of(row) for row in rows], "live": live},
        connect=["'self'"] if live is not None else (),
    )
