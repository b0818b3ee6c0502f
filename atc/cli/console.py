"""What all commands share: consoles, exit codes, and errors said in one line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, ParamSpec, TypeVar

import typer
from rich.console import Console

from atc.errors import AtcError, EnvironmentProblem, ModelError, UsageError
from atc.result import RunStatus

SOLVED, NOT_SOLVED, WRONG_USE, ENVIRONMENT, INTERRUPTED = 0, 1, 2, 3, 130
DENIED, TOOL_BROKEN, IN_DOUBT = 4, 5, 6
_OF_STATUS: dict[RunStatus, int] = {
    "answered": SOLVED,
    "missing": ENVIRONMENT,
    "denied": DENIED,
    "tool_broken": TOOL_BROKEN,
    "in_doubt": IN_DOUBT,
}

out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 1000)  # in a pipe a row is a line
err = Console(stderr=True, highlight=False, soft_wrap=True)

P = ParamSpec("P")
R = TypeVar("R")


def clean(text: str) -> str:
    """Text from outside without what could steer a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def print_json(value: Any) -> None:
    """One JSON document on stdout, in ASCII where stdout takes no more."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str) + "\n"
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2, default=str) + "\n"
    sys.stdout.write(text)


def fail(code: int, message: str) -> NoReturn:
    """Say what is wrong on stderr and leave."""
    err.print(f"atc: {clean(message)}", markup=False, style="red")
    raise typer.Exit(code)


def exit_code_of(error: BaseException) -> int:
    """2 for wrong use, 3 for the environment, 1 for the rest."""
    if isinstance(error, UsageError):
        return WRONG_USE
    return ENVIRONMENT if isinstance(error, EnvironmentProblem | ModelError) else NOT_SOLVED


def exit_code_of_run(status: RunStatus) -> int:
    """0 answered, 3 something is missing, 4 to 6 what no other program can help, 1 for the rest."""
    return _OF_STATUS.get(status, NOT_SOLVED)


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Turn ATC's errors and Ctrl-C into a line on stderr and an exit code."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except AtcError as error:
            fail(exit_code_of(error), str(error))
        except KeyboardInterrupt:
            fail(INTERRUPTED, "interrupted; nothing is left running")
        except BrokenPipeError:
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), 1
            )  # whoever read has gone: let the exit find nothing to complain of
            raise typer.Exit(NOT_SOLVED) from None
        except OSError as error:
            fail(ENVIRONMENT, str(error))

    return wrapped
