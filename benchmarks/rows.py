"""Rows in a file of JSON lines: each is written as it ends, so that a stop loses nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from atc._host.files import write_whole
from atc.cli.console import err
from atc.errors import UsageError

T = TypeVar("T")


def append_line(file: Path, line: bytes) -> None:
    """Write a line at the end of a file, and begin one that was cut off anew.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab+") as lines:
            end = lines.seek(0, 2)
            lines.seek(max(0, end - 1))
            if end and lines.read(1) != b"\n":
                lines.write(b"\n")  # a line that was cut off stays a line of its own
            lines.write(line + b"\n")
    except OSError as error:
        raise UsageError(
            f"the results cannot be kept in {file}: {error.strerror}; make room, and the same command goes on"
        ) from None


def read_lines(file: Path, row: TypeAdapter[T]) -> list[T]:
    """The rows of a file. A line that is no row is left out, with a warning.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"the results {file} cannot be read: {error.strerror}; name another file") from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(row.validate_json(line))
        except ValueError:
            err.print(f"{file}, line {number}: not a result, left out", markup=False)
    return rows


def publish_lines(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows into a file in place of what it held.

    Raises:
        UsageError: it cannot be written.
    """
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text, 0o644)
    except OSError as error:
        raise UsageError(f"--publish: {file} cannot be written: {error.strerror}; make room or name another") from None
