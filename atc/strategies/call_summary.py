"""The execution summary: what the calls of an answer did, a line each, and bounded (RETO §3.3)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from atc import wording
from atc.prompting import fenced
from atc.result import Call

MAX_SUMMARY, MAX_LINE, MAX_LINES = 800, 160, 12
"""Characters of a summary and of a line, and its lines."""
_ARGUMENTS = 60
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=lambda value: f"{type(value).__name__}")


def answering(calls: Sequence[Call]) -> list[Call]:
    """The calls on which an answer rests: of each stage those of its last program, which ended it."""
    last: dict[int, int] = {}
    for call in calls:
        last[call.stage] = max(call.attempt, last.get(call.stage, -1))
    return [call for call in calls if call.attempt == last[call.stage]]


def summary_of(calls: Sequence[Call]) -> str:
    """What calls did, in order. Calls that failed come before others where there is no room for all."""
    lines = {at: _line(call) for at, call in enumerate(calls) if not call.succeeded or call.page <= 1}
    kept, room = set[int](), MAX_SUMMARY
    for at in sorted(lines, key=lambda at: calls[at].succeeded):
        if len(kept) < MAX_LINES and len(lines[at]) < room:
            kept.add(at)
            room -= len(lines[at]) + 1
    more = len(lines) - len(kept)
    shown = [lines[at] for at in sorted(kept)] + ([wording.more_calls(more)] if more else [])
    return fenced("\n".join(shown))


def _line(call: Call) -> str:
    """One call: nothing in it can begin a new line."""
    arguments = ", ".join(f"{name}={brief(value, _ARGUMENTS)}" for name, value in call.arguments.items())
    made = f"{call.tool}({_cut(arguments, _ARGUMENTS)})"
    has_value = call.succeeded and call.error is None
    result = brief(call.value, MAX_LINE) if has_value else " ".join((call.error or "")[:MAX_LINE].split())
    status = call.status if has_value or not call.succeeded else "done"
    return _cut(f"- {wording.outcome(status, made, result)}", MAX_LINE)


def brief(value: Any, limit: int) -> str:
    """A value as JSON text, cut to ``limit`` characters; no more of it is written out than that takes."""
    made, length = [], 0
    try:
        for part in _ENCODER.iterencode(value):
            made.append(part[: limit + 1])
            length += len(part)
            if length > limit:
                break
    except (ValueError, RecursionError):  # a circle, or too deep: no JSON value
        made.append("…")
    return _cut("".join(made), limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} …"
