"""Searches summaries of runs: words of the task, and what must hold of numbers and times."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from datetime import datetime, timedelta

from atc.errors import UsageError
from atc.traces.summary import RunSummary

MAX_QUERY = 500
"""Characters of a query."""
NUMBERS = ("tokens", "calls", "revisions", "seconds", "cost")
FORMS = (
    "words, status:answered, model:NAME, tokens:>1000 (or calls, revisions, seconds, cost), since:2026-01-31, until:"
)
_IS_NUMBER = re.compile(r"(<=|>=|<|>|=?)([0-9]{1,15}(?:\.[0-9]{1,9})?)")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "": operator.eq, "=": operator.eq,
}  # fmt: skip

Test = Callable[[RunSummary], bool]


def search(query: str, status: str = "") -> Test:
    """What tells whether a summary fits a query.

    Args:
        query: all of :data:`FORMS`, apart by spaces; every one must fit. Empty: all fit.
        status: of the run; any without.

    Raises:
        UsageError: a part is not understood.
    """
    if len(query) > MAX_QUERY:
        raise UsageError(f"a query has at most {MAX_QUERY} characters")
    tests = [_test(part) for part in query.split()]
    if status:
        tests.append(lambda row: row.status == status)
    return lambda row: all(test(row) for test in tests)


def _test(part: str) -> Test:
    name, colon, value = part.partition(":")
    if not colon or not value:
        return _word(part)
    match name:
        case "status":
            return lambda row: row.status.replace(" ", "-") == value.replace(" ", "-")
        case "model" | "strategy":
            return lambda row: value.casefold() in getattr(row, name).casefold()
        case "since" | "until":
            return _time(name, value)
        case _ if name in NUMBERS:
            return _number(name, value)
    return _word(part)


def _word(word: str) -> Test:
    wanted = word.casefold()
    return lambda row: any(
        wanted in text.casefold()
        for text in (row.task, row.run_id, row.status, row.model, row.strategy, row.answer or "")
    )


def _number(name: str, value: str) -> Test:
    found = _IS_NUMBER.fullmatch(value)
    if found is None:
        raise UsageError(f"{name}: takes a number such as {name}:>100, not {value!r}")
    compare, wanted = _COMPARE[found[1]], float(found[2])
    return lambda row: (has := getattr(row, name)) is not None and compare(float(has), wanted)


def _time(name: str, value: str) -> Test:
    try:
        at = datetime.fromisoformat(value)
        if name == "until" and len(value) == len("2026-01-31"):
            at += timedelta(days=1)
        bound = at.timestamp()
    except (ValueError, OverflowError, OSError):  # some clocks end before the calendar does
        raise UsageError(
            f"{name}: takes a day or a time such as 2026-01-31 or 2026-01-31T18:00, not {value!r}"
        ) from None
    if name == "since":
        return lambda row: row.began is not None and row.began >= bound
    return lambda row: row.began is not None and row.began < bound
