"""The smallest inputs that together reach what all of them reach, by the lines of ATC that follow each other."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.fuzzing.target import Target, finding_of

Step = tuple[str, int, int]


def covering(target: Target, inputs: Iterable[Path], most: int) -> Iterator[bytes]:
    """The inputs that reach something which no smaller one reached, the smallest first.

    Args:
        target: reads them.
        inputs: files.
        most: bytes of what is given back together.
    """
    reached: set[Step] = set()
    for data in sorted({path.read_bytes() for path in inputs}, key=lambda data: (len(data), data)):
        new = _steps(target, data) - reached
        if new and (most := most - len(data)) >= 0:
            reached |= new
            yield data


def _steps(target: Target, data: bytes) -> set[Step]:
    found: set[Step] = set()

    def called(frame: FrameType, event: str, given: Any) -> Any:
        name = frame.f_code.co_filename
        if "/atc/" not in name:
            return None
        last = 0

        def line(frame: FrameType, event: str, given: Any) -> Any:
            nonlocal last
            if event == "line":
                found.add((name, last, frame.f_lineno))
                last = frame.f_lineno
            return line

        return line

    sys.settrace(called)
    try:
        finding_of(target, data)
    finally:
        sys.settrace(None)
    return found
