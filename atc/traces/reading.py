"""Holds what a trace says to the types of its events: it is a file, and may have been damaged or edited."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NotRequired

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from atc._records.events import DATA, VERSION
from atc._records.packing import shortened
from atc.errors import TraceError, UsageError

FAILS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What code meets that reads a damaged event whose outer form is right."""
_MOST_WHY = 200


class _CallEnded(TypedDict):
    """What is read of an :class:`atc.result.Call`."""

    index: int
    tool: str
    arguments: dict[str, Any]
    status: str
    error: str | None
    seconds: float
    notes: list[str]
    value: NotRequired[Any]
    line: NotRequired[int]
    attempt: NotRequired[int]


class _RunEnded(TypedDict):
    """What is read of an :class:`atc.result.Result`."""

    status: str
    answer: NotRequired[Any]
    program: NotRequired[str]
    usage: dict[str, Any]
    fault: NotRequired[dict[str, Any] | None]
    dry_run: NotRequired[dict[str, Any] | None]
    question: NotRequired[str | None]
    currency: NotRequired[str]


_TYPES: dict[str, Any] = {str(kind): made for kind, made in DATA.items()}
_TYPES |= {"call_ended": _CallEnded, "run_ended": _RunEnded}


def damaged(path: object, line: int, why: BaseException | str) -> TraceError:
    """The error for a line of a trace that cannot be read."""
    what = why if isinstance(why, str) else f"{type(why).__name__}: {why}"
    short = shortened(" ".join(what.split()), _MOST_WHY)
    return TraceError(
        f"{path}, line {line} is damaged ({short}): `atc runs show` reads what is left of the run, and its journal has "
        "what was done; it cannot go on, so begin the task again"
    )


def read_event(path: object, number: int, line: bytes) -> dict[str, Any]:
    """The event of one line.

    Args:
        path: of the trace.
        number: of the line, from 1.
        line: without or with its end.

    Raises:
        TraceError: it is no event.
        UsageError: it is of another format.
    """
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise damaged(path, number, error) from None
    if not isinstance(event, dict) or not isinstance(event.get("data"), dict):
        raise damaged(path, number, "it is no event")
    version = event.get("v", VERSION)
    if type(version) is int and version != VERSION:
        raise UsageError(
            f"{path} has format {version}, and this version of ATC reads format {VERSION} alone: use the version that "
            "wrote it, or delete the run (`atc runs delete`)"
        )
    at = event.get("at")
    kind = event.get("kind")
    if version != VERSION or not isinstance(kind, str) or isinstance(at, bool) or not isinstance(at, int | float):
        raise damaged(path, number, "it is no event")
    if kind in _TYPES:
        try:
            _adapter(kind).validate_python(event["data"], strict=True)
        except ValidationError as error:
            for wrong in error.errors(include_url=False, include_input=False):
                if wrong["type"] != "missing":  # somebody's own tool wrote less
                    where = ".".join(map(str, wrong["loc"]))
                    raise damaged(path, number, f"{kind}, {where}: {wrong['msg']}") from None
        except RecursionError as error:
            raise damaged(path, number, error) from None
    return event


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(_TYPES[kind])
