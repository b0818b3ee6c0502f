"""The page of a run: a pure function of its shown events (:mod:`atc.serve.pages.run.shown`); also as a file of its
own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from atc.errors import TraceError
from atc.serve.pages.kit import page_of
from atc.serve.pages.run.nodes import Limits, as_json, brief
from atc.serve.pages.run.shown import LIMITS, damage, shown, whole_value
from atc.traces.stores.base import StoredRun

_HERE = Path(__file__).parent
SCRIPTS = [
    _HERE.parent / "common.js",
    _HERE.parent / "parked.js",
    *(_HERE / f"{name}.js" for name in "model values code sketch ribbon calls views plan keep live page".split()),
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
        events: as :func:`atc.serve.pages.run.shown.shown` gives them, in order.
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
    task, run_id = (started.get(name) for name in ("task", "run_id")) if isinstance(started, Mapping) else ("", "")
    task = task.get("t") if isinstance(task, Mapping) else task
    return task if isinstance(task, str) else "", run_id if isinstance(run_id, str) else ""


MOST_SHOWN = 3_000_000
"""Characters of all values together that stand open to view, about; a run of many calls shows less of each."""
MOST_WHOLE = 8_000_000
"""Characters of whole values that are in the file besides, to be opened."""
MOST_EVENTS = 40_000
_LEAST = 300


@dataclass
class RunFile:
    """A run as a file.

    Attributes:
        html: the page.
        damage: lines of the trace that cannot be read; the page shows where they were.
        left_out: sentences that say what did not fit; the page has them too.
    """

    html: str = ""
    damage: list[TraceError] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def run_file(stored: StoredRun, *, most_whole: int = MOST_WHOLE) -> RunFile:
    """The page of a stored run, for a file that asks for nothing: bounded, with what it cuts whole where that fits.

    Args:
        stored: the run.
        most_whole: characters of whole values that are put in.

    Raises:
        OSError: there is no trace, or it cannot be read.
        UsageError: a newer version of ATC wrote it.
    """
    made, limits = RunFile(), _limits(stored)
    events: list[dict[str, Any]] = []
    wholes: dict[str, str] = {}
    room, parts, dropped, told = most_whole, 0, 0, 0
    for number, event in stored.numbered(made.damage.append):
        for error in made.damage[told:]:
            events.append(damage(error))
        told = len(made.damage)
        each = shown(number, event, limits)
        if each is None:
            continue
        if len(events) >= MOST_EVENTS:
            dropped += 1
            continue
        events.append(each)
        for pointer in _pointers(each["data"]):
            text = as_json(whole_value(event, pointer)) if room > 0 else ""
            if not text or len(text) > room:
                parts += 1
                continue
            room -= len(text)
            wholes[f"w{number}-{pointer}"] = text
    events += map(damage, made.damage[told:])
    rest = f"`atc runs show {stored.run_id} --json` has all of it"
    if parts:
        what = "1 value is" if parts == 1 else f"{parts:,} values are"
        made.left_out.append(f"{what} here in part: the whole would make this file too large. {rest}.")
    if dropped:
        made.left_out.append(f"The last {dropped:,} events are not here: a page holds {MOST_EVENTS:,}. {rest}.")
    made.html = run_page(events, wholes=wholes, left_out=made.left_out)
    return made


def _limits(stored: StoredRun) -> Limits:
    calls = sum(event["kind"] == "call_ended" for event in stored.events())
    return Limits(room=max(_LEAST, min(LIMITS.room, MOST_SHOWN // (2 * calls or 1))))


def _pointers(shown: Any) -> Iterator[str]:
    if isinstance(shown, dict):
        if isinstance(at := shown.get("at"), str):
            yield at
            return
        for each in shown.values():
            yield from _pointers(each)
    elif isinstance(shown, list):
        for each in shown:
            yield from _pointers(each)
