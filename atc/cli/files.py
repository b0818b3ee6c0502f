"""Files that a command writes: named by the user, never written over unasked, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from atc.errors import EnvironmentProblem, UsageError
from atc.files import write_whole

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
