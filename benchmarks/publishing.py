"""Rows for everybody to check: every figure of a try and none of its texts, which may be others' property."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from atc.errors import UsageError
from atc.files import write_whole
from benchmarks.rows import Row

TEXTS = frozenset({"answer", "program", "error"})
"""The fields of a row that hold what a task, a tool or a model said."""
FOLDER = Path(__file__).with_name("published")


def published(row: Row) -> dict[str, Any]:
    """A row without its texts."""
    return {each.name: getattr(row, each.name) for each in fields(row) if each.name not in TEXTS}


def publish(rows: Sequence[Row], file: Path) -> int:
    """Write the rows that have a result into a file in place of what it held, sorted; return how many.

    Raises:
        UsageError: there are none, or the file cannot be written.
    """
    kept = sorted((row for row in rows if row.status != "environment"), key=lambda row: row.key)
    if not kept:
        raise UsageError("--publish: the file has no tries with a result")
    text = "".join(json.dumps(published(row), ensure_ascii=False) + "\n" for row in kept)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text, 0o644)
    except OSError as error:
        raise UsageError(f"--publish: {file} cannot be written: {error.strerror}; make room or name another") from None
    return len(kept)
