"""What ``atc probe`` shows: how far it is, what it came to, and with ``--check`` what changed."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from atc.cli.console import clean, out, print_table, short
from atc.probing.drift import Change, Drift
from atc.probing.prober import Progress
from atc.probing.record import State
from atc.probing.report import Report

_STYLES = {"documented": "green", "partial": "yellow", "undocumented": "red", "skipped": "dim", "waiting": ""}


class View:
    """How far probing is: on a terminal the tools under way, redrawn; elsewhere, and after a question, a line for each
    change of what is known of a tool.

    Args:
        console: where it is shown.
    """

    def __init__(self, console: Console) -> None:
        self._console, self._began = console, time.monotonic()
        self._under_way: dict[str, Progress] = {}
        self._told: dict[str, str] = {}
        self._last: Progress | None = None
        self._live: Live | None = None
        self._draws = console.is_terminal

    def __call__(self, progress: Progress) -> None:
        """Show one step; the first begins the drawing."""
        self._last, record = progress, progress.record
        if self._draws and self._live is None:
            self._live = Live(get_renderable=self._drawn, console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        if progress.under_way:
            self._under_way[record.name] = progress
            return
        self._under_way.pop(record.name, None)
        now = f"{record.state} {clean(record.reason)[:160]}".rstrip() if progress.round else "checked"
        if self._live is None and self._told.get(record.name) != now:
            self._told[record.name] = now
            round_ = f"[round {progress.round}] " if progress.round else ""
            self._console.print(f"{round_}{record.name}: {now}", markup=False)

    def close(self) -> None:
        """End the drawing; later steps are lines. Twice is once."""
        live, self._live, self._draws = self._live, None, False
        if live is not None:
            live.stop()

    def summary(self) -> str:
        """How many tools are in which state, the calls that are left, and the time; empty before the first step."""
        if self._last is None:
            return ""
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        calls = f"{self._last.calls:,} calls, {self._last.calls_left:,} left"
        return f"{counted(self._last.states())}; {calls}; {minutes}:{seconds:02} min"

    def _drawn(self) -> Group:
        table = Table(box=None, header_style="bold")
        for heading in ("tool", "round", "calls left", "fields", "last refusal"):
            table.add_column(heading, no_wrap=True)
        for progress in list(self._under_way.values()):
            record = progress.record
            left, fields = str(progress.tool_calls_left), str(record.shape.count)
            refused = record.refusals[-1].service_message if record.refusals else ""
            row = (record.name, str(progress.round or ""), left, fields, Text(clean(refused)[:60]))
            table.add_row(*row)
        return Group(table, Text(self.summary(), style="dim"))


def counted(states: Counter[State]) -> str:
    """How many tools are in which state, in words: ``12 documented, 3 skipped``."""
    return ", ".join(f"{states[state]:,} {state}" for state in _STYLES if states[state])  # type: ignore[index]


def print_report(report: Report) -> None:
    """Print a line for each tool, and what probing cost."""
    table = Table(box=None, header_style="bold")
    for heading in ("tool", "state", "round", "calls", "arguments", "fields", "needs", "why"):
        table.add_column(heading)
    for line in report.lines:
        table.add_row(
            line.tool,
            Text(line.state, _STYLES[line.state]),
            str(line.round or ""),
            str(line.calls or ""),
            str(line.arguments),
            str(line.fields or ""),
            ", ".join(line.helpers),
            Text(short(line.reason, 200)),
        )
    print_table(table)
    states = counted(Counter(line.state for line in report.lines))
    model = f"{report.model_calls:,} model calls ({report.prompt_tokens:,}+{report.completion_tokens:,} tokens)"
    out.print(f"{states}; {report.calls:,} calls, {model}", markup=False)


def diff(found: Sequence[Drift]) -> Iterator[str]:
    """What changed, as lines that any viewer of diffs colours: ``-`` as it was documented, ``+`` as it is now.

    ``@@`` heads a tool, ``!`` says that it could not be called any more, ``#`` what was not compared. Tools and
    places come in the order of their names.
    """
    for drift in sorted(found, key=lambda drift: drift.tool):
        tool = clean(drift.tool)
        if drift.problem == "masked":
            yield f"# {tool}: not compared, for its examples hold masked secrets"
        elif drift.problem == "recorded":
            yield f"# {tool}: from a recording, not compared"
        elif drift.problem == "unreached":
            yield f"# {tool}: not compared: {_line(drift.reason)}"
        if not drift.moved:
            continue
        yield f"@@ {tool}{': breaking' if drift.breaks else ''} @@"
        if drift.problem == "gone":
            yield f"! {tool}: it is not there any more, or may not be called"
        elif drift.problem == "unanswered":
            yield f"! {tool}: none of its examples works any more: {_line(drift.reason)}"
        for change in drift.changes:
            if change.kind != "newly_seen":
                yield from _lines(tool, change)


def check_summary(found: Sequence[Drift]) -> str:
    """How many tools changed, how many of them so that programs would fail, and how many were not compared."""
    changed, breaking = sum(drift.moved for drift in found), sum(drift.breaks for drift in found)
    missed = sum(drift.problem in ("masked", "recorded", "unreached") for drift in found)
    compared = len(found) - missed
    same = f"nothing changed: {compared} of {len(found)} tools are as documented"
    same = same if compared else "no tool could be compared"
    parts = [f"{changed} of {len(found)} tools changed" if changed else same]
    parts += [f"{breaking} so that programs would fail"] if breaking else []
    parts += [f"{missed} not compared"] if missed and compared else []
    return ", ".join(parts)


def _lines(tool: str, change: Change) -> Iterator[str]:
    place = clean(f"{tool}{change.path.removeprefix('$')}")
    mark = "  # breaking" if change.breaks else ""
    if change.before is not None:
        yield f"- {place}: {_value(change.before)}{mark if change.after is None else ''}"
    if change.after is not None:
        yield f"+ {place}: {_value(change.after)}{mark}"


def _value(value: object) -> str:
    if isinstance(value, list):  # members of an enum
        return _line(" | ".join(json.dumps(each, ensure_ascii=False) for each in value[:20])) + " …" * (len(value) > 20)
    return _line(str(value))


def _line(text: str) -> str:
    return " ".join(clean(text).split())[:300]
