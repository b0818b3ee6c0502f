"""How far long work is: a bar a stage on a terminal; elsewhere a line now and then, to show that it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from atc.cli.console import err

EVERY_S = 15.0
"""Seconds between two lines where there is no terminal; work that is done sooner says nothing."""

Told = Callable[[str, int, int], None]
"""Called with the stage, what is done, and what there is in all (0 where nobody knows)."""


@contextmanager
def stages(*, silent: bool = False) -> Iterator[Told]:
    """Show the stages of some work on stderr.

    Args:
        silent: show nothing.
    """
    if silent:
        yield lambda stage, done, total: None
    elif not err.is_terminal:
        yield _lines()
    else:
        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=err, transient=True) as bar:
            yield _bars(bar)


def _bars(bar: Progress) -> Told:
    tasks = {}

    def told(stage: str, done: int, total: int) -> None:
        if stage not in tasks:
            tasks[stage] = bar.add_task(stage, total=total or None)
        bar.update(tasks[stage], completed=done, total=total or None)

    return told


def _lines() -> Told:
    last = time.monotonic()

    def told(stage: str, done: int, total: int) -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= EVERY_S:
            last = now
            err.print(f"{stage}: {done:,}{f' of {total:,}' if total else ''}", markup=False, highlight=False)

    return told
