"""What the rulers share: options, running a program without a model, the machine, and how figures are printed."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from atc._records.outcome import Outcome
from atc.calls.approval import Approval
from atc.calls.broker import Broker, CallPolicy
from atc.calls.journal import Journal
from atc.errors import UsageError
from atc.result import Call
from atc.sandboxes.contract import Job, Limits, Sandbox
from atc.tools.tool import Toolset, signatures

ROOT = Path(__file__).parents[1]
ALL = 1_000_000
"""Tokens of documents (``stub_tokens``) with which all tools of a task are shown, as far as a prompt has room."""
RESULTS = ROOT / "benchmarks" / "results"
PUBLISHED = ROOT / "benchmarks" / "published"

AsJson = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]
_DATA = typer.Option("--data", envvar="ATC_DATA", help="Directory of the third-party data.")
Data = Annotated[Path, _DATA]
MaybeData = Annotated[Path | None, _DATA]
"""Where a benchmark has something to measure without the data too."""
Documents = Annotated[Path, typer.Option("--documents", exists=True, file_okay=False, help="Of OpenAPI documents.")]


def listed(text: str, allowed: Iterable[str], what: str) -> list[str]:
    """Return the names of a comma-separated option, each once. ``what`` is the option's own name.

    Raises:
        UsageError: a name is not among those that are allowed, or there is none.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    wrong = [name for name in names if name not in allowed]
    if wrong or not names:
        raise UsageError(f"--{what}: there is no {', '.join(wrong) or 'name'}; take some of {', '.join(allowed)}")
    return list(dict.fromkeys(names))


def numbers(text: str, what: str) -> list[int]:
    """Return the numbers of a comma-separated option, all from 1 on. ``what`` is the option's own name.

    Raises:
        UsageError: something is none.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"--{what} takes numbers from 1 and commas, not {text!r}")
    return [int(part) for part in parts]


@dataclass(frozen=True)
class Ran:
    """How a program went: its outcome, and the calls that the broker saw, in order."""

    outcome: Outcome
    calls: list[Call]


async def run_program(
    source: str, tools: Toolset, sandbox: Sandbox, policy: CallPolicy | None = None, *, wall_s: float = 20.0
) -> Ran:
    """Run a program in the sandbox, its calls through a broker with a journal in memory. No model has a part in it."""
    journal = Journal()
    journal.begin_attempt()
    approval = Approval("always")
    broker = Broker(tools, journal, lambda kind, data: None, policy or CallPolicy(retry_wait_s=0.001), approval)
    outcome = await sandbox.run(Job(source, signatures(tools), Limits(wall_s=wall_s)), broker.call)
    return Ran(outcome, sorted(broker.calls, key=lambda call: call.index))


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "")
    return {"python": platform.python_version(), "system": platform.release(), "cpu": cpu, "cores": os.cpu_count()}


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which ``percent`` of all lie; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0.0


def median(values: Sequence[float]) -> float:
    """The median; 0 of none."""
    return statistics.median(values) if values else 0.0


def share(part: int, whole: int) -> str:
    """``95.2 %``."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table."""
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*map(str, row))
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def print_json(figures: dict[str, Any]) -> None:
    """Print figures with the machine they were measured on, for a program to read."""
    print(json.dumps({**figures, "machine": machine()}, indent=1, ensure_ascii=False, default=str))
