"""A file of what was used together: a line of JSON for each set of tools, ``{"tools": [ids], "count": n}``."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from atc.errors import UsageError
from atc.retrieval.co_usage import MAX_TOGETHER

MAX_LINE = 1_000_000
"""Bytes of a line."""
MAX_COUNT = 1_000_000.0
"""How often a set may have occurred: more is no count of tasks."""
MAX_PAIRS = 2_000_000
"""Pairs of tools, in all sets that differ."""


@dataclass(frozen=True)
class Used:
    """What a file says.

    Attributes:
        sets: of ids, each with how often it occurred.
        unknown: ids that the index has not.
        too_large: sets of more than :data:`~atc.retrieval.co_usage.MAX_TOGETHER` tools, which say nothing of a pair.
    """

    sets: Mapping[frozenset[str], float]
    unknown: int
    too_large: int


def read_used(path: Path, known: Mapping[str, Any] | frozenset[str]) -> Used:
    """Read a file; ids that are not known count for nothing.

    Args:
        path: of the file.
        known: the ids of the index.

    Raises:
        UsageError: it cannot be read, or says something else than sets of tools: which line, and what is wrong.
    """
    sets: Counter[frozenset[str]] = Counter()
    unknown: set[str] = set()
    too_large = pairs = 0
    try:
        with path.open("rb") as file:
            for number, line in _lines(file, path):
                ids, count = _set_of(line, path, number)
                found = frozenset(id for id in ids if id in known)
                unknown |= ids - found
                if len(found) > MAX_TOGETHER:
                    too_large += 1
                elif found:
                    pairs += 0 if found in sets else len(found) * (len(found) - 1) // 2
                    if pairs > MAX_PAIRS:
                        _refuse(path, number, f"there are more than {MAX_PAIRS:,} pairs of tools by here")
                    sets[found] += count  # type: ignore[assignment]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    return Used(sets, len(unknown), too_large)


def _lines(file: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            _refuse(path, number, f"it is longer than {MAX_LINE:,} bytes")
        if line.strip():
            yield number, line


def _set_of(line: bytes, path: Path, number: int) -> tuple[frozenset[str], float]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        _refuse(path, number, "it is no JSON")
    if not isinstance(record, dict) or not {"tools"} <= record.keys() <= {"tools", "count"}:
        _refuse(path, number, 'it must be {"tools": [ids], "count": n}')
    ids, count = record["tools"], record.get("count", 1)
    if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
        _refuse(path, number, "its tools must be a list of ids")
    # Python reads NaN and numbers without end as JSON; an integer may be too long for a float
    if isinstance(count, bool) or not isinstance(count, int | float) or not math.isfinite(_as_float(count)):
        _refuse(path, number, "its count must be a number")
    if not 0 < count <= MAX_COUNT:
        _refuse(path, number, f"its count must be above 0 and at most {MAX_COUNT:,.0f}")
    return frozenset(ids), float(count)


def _as_float(count: float) -> float:
    try:
        return float(count)
    except OverflowError:
        return math.inf


def _refuse(path: Path, number: int, why: str) -> NoReturn:
    raise UsageError(f"{path}, line {number}: {why}. Correct the line, or take it out")
