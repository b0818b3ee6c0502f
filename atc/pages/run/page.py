"""The page of a run: a pure function of its shown events (:mod:`atc.pages.run.shown`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atc.pages.kit import page_of
from atc.pages.run.nodes import as_json, brief

_HERE = Path(__file__).parent
SCRIPTS = [
    _HERE.parent / "common.js",
    *(_HERE / f"{name}.js" for name in "model values code sketch ribbon calls views live page".split()),
]
STYLES = [_HERE.parent / "common.css", _HERE / "page.css"]


def run_page(
    events: Sequence[Mapping[str, Any]],
    live: Mapping[str, Any] | None = None,
    *,
    wholes: Mapping[str, str] | None = None,
    left_out: Sequence[str] = (),
) -> str:
    """One self-contained HTML file.

    Args:
        events: as :func:`atc.pages.run.shown.shown` gives them, in order.
        live: of a page that a server sends: ``api``, the path of its API; ``rights``, of ``read``, ``approve`` and
            ``run``; ``run_id``; ``after``, the number of the last line among the events; ``ended``; ``home``, the path
            of the list; ``headers`` for what it fetches. Without, the page asks for nothing, anywhere.
        wholes: whole values as JSON text of their nodes, by ``w`` + line + ``-`` + pointer.
        left_out: sentences that say what is not in the page.
    """
    named = live.get("run_id") if live is not None else None
    task, run_id = next((_named(event["data"]) for event in events if event["kind"] == "run_started"), ("", ""))
    return page_of(
        _HERE / "page.html.jinja",
        title=" · ".join(filter(None, (brief(task, 80), run_id or str(named or "a run"), "ATC"))),
        styles=STYLES,
        script=SCRIPTS,
        more={"data": as_json({"events": events, "live": live, "left_out": left_out})} | dict(wholes or {}),
        connect=["'self'"] if live is not None else (),
    )


def _named(started: Any) -> tuple[str, str]:
    """Task and id of a run by its first event, as it is shown; empty where it is damaged."""
    task, run_id = (started.get(name) for name in ("task", "run_id")) if isinstance(started, Mapping) else ("", "")
    task = task.get("t") if isinstance(task, Mapping) else task
    return task if isinstance(task, str) else "", run_id if isinstance(run_id, str) else ""
