"""What all commands share: consoles, exit codes, errors in one line, files that they write, bars, and their end."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from atc._host.files import write_whole
from atc.errors import AtcError, EnvironmentProblem, ModelError, UsageError
from atc.result import Result, RunStatus

if TYPE_CHECKING:
    from rich.progress import Progress

SOLVED, NOT_SOLVED, WRONG_USE, ENVIRONMENT, INTERRUPTED = 0, 1, 2, 3, 130
DENIED, TOOL_BROKEN, IN_DOUBT, NEEDS_INPUT, WAITING = 4, 5, 6, 7, 8
_OF_STATUS: dict[RunStatus, int] = {
    "answered": SOLVED,
    "planned": SOLVED,
    "missing": ENVIRONMENT,
    "denied": DENIED,
    "tool_broken": TOOL_BROKEN,
    "in_doubt": IN_DOUBT,
    "needs_input": NEEDS_INPUT,
    "waiting": WAITING,
}

out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 1000)  # in a pipe a row is a line
err = Console(stderr=True, highlight=False, soft_wrap=True)

_WIDEST_PAD = 60
"""Characters that a column is padded to in a pipe: one long cell must not make every row long."""
_DOCTOR = "`atc doctor` lists what is there and what is missing"

P = ParamSpec("P")
R = TypeVar("R")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of what can be gone on with; ``hint`` says how."""

    def __init__(self, hint: str) -> None:
        super().__init__()
        self.hint = hint


def clean(text: str) -> str:
    """Return text from outside without what could steer a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def print_json(value: Any) -> None:
    """Print one JSON document on stdout, in ASCII if stdout takes nothing else."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str) + "\n"
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2, default=str) + "\n"
    sys.stdout.write(text)


def print_error(kind: str, message: str, hint: str = "") -> None:
    """Print an error as a JSON document; ``kind`` names a class of :mod:`atc.errors`, or ``Interrupted``."""
    print_json({"error": {"kind": kind, "message": clean(message), "hint": hint}})


def short(text: str, limit: int) -> str:
    """Return text for one cell of a table: cut on a terminal, whole in a pipe; always one line."""
    line = " ".join(clean(text).split())
    return line if len(line) <= limit or not out.is_terminal else f"{line[: limit - 1]}…"


def print_table(table: Table) -> None:
    """Print a table on a terminal; in a pipe one line for each row, with nothing wrapped or cut."""
    if out.is_terminal:
        out.print(table)
        return
    headings = [str(column.header) for column in table.columns] if table.show_header else []
    columns = ([clean(str(cell)).replace("\n", " ") for cell in column.cells] for column in table.columns)
    rows = [headings, *zip(*columns, strict=True)]
    widths = [min(_WIDEST_PAD, max(map(len, column))) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        out.print(Text(line))


def fail(code: int, message: str) -> NoReturn:
    """Print what is wrong on stderr and exit with ``code``."""
    err.print(f"atc: {clean(message)}", markup=False, style="red")
    raise typer.Exit(code)


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of an error: 3 for the environment, 2 for wrong use, 1 for the rest."""
    if isinstance(error, EnvironmentProblem | ModelError):
        return ENVIRONMENT
    return WRONG_USE if isinstance(error, UsageError) else NOT_SOLVED


def exit_code_of_run(result: Result[Any]) -> int:
    """Return a run's exit code: 0 answered or planned, 3 something is missing, 4 to 6 no other program helps, 7 it
    asks, 8 calls wait for approval, 1 the rest; of these 6 where a call is in doubt: nobody may just try again."""
    code = _OF_STATUS.get(result.status, NOT_SOLVED)
    return IN_DOUBT if code == NOT_SOLVED and result.in_doubt else code


def not_enough(error: AtcError, *, as_json: bool) -> typer.Exit:
    """Say that there is too little to learn from; what to raise for it."""
    if as_json:
        print_json({"kept": False, "why": str(error)})
    else:
        err.print(f"atc: {clean(str(error))}", markup=False)
    return typer.Exit(NOT_SOLVED)


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Turn errors and Ctrl-C into a line on stderr, with ``--json`` a document on stdout too, and an exit code."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        def failed(code: int, kind: str, message: str, hint: str = "") -> NoReturn:
            if kwargs.get("as_json"):
                print_error(kind, message, _DOCTOR if code == ENVIRONMENT else hint)
            fail(code, "; ".join(filter(None, [message, hint])))

        try:
            return command(*args, **kwargs)
        except AtcError as error:
            failed(exit_code_of(error), type(error).__name__, str(error))
        except Interrupted as error:
            failed(INTERRUPTED, "Interrupted", "interrupted; nothing is left running", error.hint)
        except KeyboardInterrupt:
            failed(INTERRUPTED, "Interrupted", "interrupted; nothing is left running")
        except BrokenPipeError:
            # the reader has gone: the exit must not fail on what is left in the buffer
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise typer.Exit(NOT_SOLVED) from None
        except OSError as error:
            failed(ENVIRONMENT, "EnvironmentProblem", str(error))

    return wrapped


GRACE_S = 2.0
"""Seconds that threads get to end by themselves."""
_OF_FUNCTIONS = "AnyIO worker thread"  # in which functions of tools run, and which the interpreter would wait for


@contextlib.contextmanager
def leaving(code_if_broken_off: int) -> Iterator[None]:
    """End the process after the block where a thread that it started goes on, in which no more can be done.

    Args:
        code_if_broken_off: the exit code then, if the block raised; else it is 0.
    """
    before = set(threading.enumerate())
    code = code_if_broken_off
    try:
        yield
        code = 0
    finally:
        deadline = time.monotonic() + GRACE_S
        begun = [each for each in threading.enumerate() if each not in before and each.name.startswith(_OF_FUNCTIONS)]
        for thread in begun:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in begun):
            try:
                with contextlib.suppress(OSError, ValueError):  # nobody reads any more
                    sys.stderr.write("atc: ended while a tool's function still ran\n")
                    sys.stderr.flush()
                atexit._run_exitfuncs()
            finally:
                os._exit(code)


Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]


def writable(file: Path, force: bool) -> None:
    """See before the work that a file may be written.

    Raises:
        UsageError: it is a folder, is there already, or its folder is not.
    """
    if file.is_dir():
        raise UsageError(f"{file} is a folder: name a file")
    if file.exists() and not force:
        raise UsageError(f"{file} is there already: name another file, or write over it with --force")
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent} is no folder: make it first")


def write(file: Path, text: str) -> None:
    """Write a file, whole or not at all.

    Raises:
        EnvironmentProblem: it cannot be written.
    """
    try:
        write_whole(file, text, 0o666)
    except OSError as error:
        raise EnvironmentProblem(f"{file} cannot be written ({error.strerror})", fix="name another place") from None


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
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

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
