"""How much a regular expression costs for each letter of a text, told from the expression alone."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_COUNT = re.compile(r"\{(\d{1,6})(?:(,)(\d{0,6}))?\}")


@lru_cache(maxsize=4096)
def weight_of(pattern: Any) -> int:
    """States of a regular expression at most: its letters, each as often as it may be repeated."""
    if not isinstance(pattern, str):
        return 0
    sums, last = [0], [0]
    at, end = 0, len(pattern)
    while at < end:
        char = pattern[at]
        counted = _COUNT.match(pattern, at) if char == "{" else None
        if counted is not None:
            last[-1] *= max(int(counted[3] or counted[1]) + (counted[3] == ""), 1)
            at = counted.end()
            continue
        made = 1
        if char == "\\":
            at += 1
        elif char == "[":
            at = _end_of_class(pattern, at)
        elif char == "(":
            sums.append(0)
            last.append(0)
            made = 0
        elif char == ")" and len(sums) > 1:
            made = sums.pop() + last.pop() + 1
        elif char in "*+?|^$":
            made = 0
        if made:
            sums[-1] += last[-1]
            last[-1] = made
        at += 1
    return sum(sums) + sum(last) + 1


def _end_of_class(pattern: str, at: int) -> int:
    """Where a class of characters ends that begins at ``at``."""
    end = at + 1
    if pattern[end : end + 1] == "^":
        end += 1
    if pattern[end : end + 1] == "]":
        end += 1
    while end < len(pattern) and pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    return end
