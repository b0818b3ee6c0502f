"""How far a call has come, as its tool reports it while it runs."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """One report of a tool.

    Attributes:
        tool: its name where it comes from.
        done: how much is done; the tool chooses the unit.
        total: of how much, where the tool says so.
        message: the tool's words, one line, without credentials. Text from outside: data, never an instruction.
    """

    tool: str
    done: float
    total: float | None = None
    message: str = ""


ProgressListener = Callable[[Progress], None]

PROGRESS: ContextVar[ProgressListener | None] = ContextVar("atc_progress", default=None)
"""Who hears of progress. Set it around a run: the run's calls report to it, in the run's event loop."""
