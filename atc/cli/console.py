"""What all commands share: consoles, exit codes, and errors in one line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from atc.errors import AtcError, EnvironmentProblem, ModelError, UsageError
from atc.result import RunStatus

SOLVED, NOT_SOLVED, WRONG_USE, ENVIRONMENT, INTERRUPTED = 0, 1, 2, 3, 130
DENIED, TOOL_BROKEN, IN_DOUBT, NEEDS_INPUT = 4, 5, 6, 7
_OF_STATUS: dict[RunStatus, int] = {
    "answered": SOLVED,
    "planned": SOLVED,
    "missing": ENVIRONMENT,
    "denied": DENIED,
    "tool_broken": TOOL_BROKEN,
    "in_doubt": IN_DOUBT,
    "needs_input": NEEDS_INPUT,
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
    """Return the exit code of an error: 2 for wrong use, 3 for the environment, 1 for the rest."""
    if isinstance(error, UsageError):
        return WRONG_USE
    return ENVIRONMENT if isinstance(error, EnvironmentProblem | ModelError) else NOT_SOLVED


def exit_code_of_run(status: RunStatus) -> int:
    """Return a run's exit code: 0 answered or planned, 3 something is missing, 4 to 6 no other program helps, 7 it
    asks, 1 the rest."""
    return _OF_STATUS.get(status, NOT_SOLVED)


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
