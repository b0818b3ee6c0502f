"""The explanation score: how well a response explains the exception that ended a program."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from atc.outcome import ProgramError
from atc.programs.attribution.python_texts import TEXTS
from atc.programs.attribution.responses import MISSING, drift, is_nothing
from atc.result import Call


@dataclass(frozen=True)
class Suspect:
    """A call, and a place in its response that the failing value is, or (``derived``) was made from.

    ``side`` is the operand that the value is in ``a + b`` or ``a < b``: 0, 1, or ``None``.
    """

    call: Call
    path: tuple[str | int, ...]
    value: Any
    derived: bool = False
    side: int | None = None


def explanation_score(suspect: Suspect, error: ProgramError) -> int:
    """Score how well what a call returned explains an exception, from 0 to 4.

    0: not at all, 1: perhaps, 2: well, 3: exactly. One more, where the response differs from its schema.
    """
    found = _score_of_failed_call(suspect, error) if not suspect.call.succeeded else _score_of_value(suspect, error)
    return found + bool(found and drift(suspect.call, suspect.path))


def wanted_key(error: ProgramError) -> str | None:
    """The key that a ``KeyError`` asked for."""
    if error.type != "KeyError":
        return None
    try:
        return str(ast.literal_eval(error.message))
    except (ValueError, SyntaxError):
        return error.message


def reports_nothing(error: ProgramError) -> bool:
    """Whether the exception says that something was null, empty or not there."""
    missing = error.type in ("KeyError", "StopIteration", "IndexError")
    return missing or TEXTS["null"].find(error.message) is not None or is_of_empty(error)


def is_of_empty(error: ProgramError) -> bool:
    """Whether the exception says that a sequence held nothing: what works on its items was not evaluated then."""
    kinds = ("ValueError", "StatisticsError", "TypeError")
    return error.type in kinds and TEXTS["empty"].find(error.message) is not None


def _score_of_failed_call(suspect: Suspect, error: ProgramError) -> int:
    """A call that failed, and whose failure the program passed over."""
    if not reports_nothing(error):
        return 0
    given = {str(value) for value in suspect.call.arguments.values()}
    return 3 if wanted_key(error) in given else 2


def _score_of_value(suspect: Suspect, error: ProgramError) -> int:
    value, sure = suspect.value, not suspect.derived
    match error.type:
        case "KeyError":
            return 3 if sure and isinstance(value, dict) and wanted_key(error) not in value else 0
        case "IndexError":
            if sure and isinstance(value, list | str):
                return 2 if value else 3
            return 3 if value is MISSING or value == [] else int(error.items == 0)
        case "StopIteration":
            return 3 if value is MISSING or value == [] else 1
        case "ZeroDivisionError":
            return 3 if is_nothing(value) or (value == 0 and not isinstance(value, bool)) else 0
        case "TypeError" | "AttributeError":
            return _score_of_type(suspect, error.message)
        case "ValueError" | "OverflowError" | "InvalidOperation" | "StatisticsError":
            if is_of_empty(error):  # nothing was there, or the program kept nothing of it
                return 3 if value is MISSING or value in ("", [], {}) else 1
            if isinstance(value, str) and len(value) > 1 and value in error.message:
                return 2
            return int(sure and not isinstance(value, dict))
        case _:
            return 0


def _score_of_type(suspect: Suspect, message: str) -> int:
    odd = _odd_types(message, suspect.side)
    kind = "NoneType" if suspect.value is MISSING else type(suspect.value).__name__
    if "NoneType" in odd:
        return 3 if kind == "NoneType" else 0
    return 3 if kind in odd and (not suspect.derived or drift(suspect.call, suspect.path)) else 0


def _odd_types(message: str, side: int | None) -> Sequence[str]:
    """The types that a message names as wrong. Of two operands: the one of ``side``, or the null one."""
    if TEXTS["sliced"].find(message):
        return ["dict"]
    if found := TEXTS["indices"].find(message):
        return [found[1]]
    if pair := TEXTS["operands"].find(message):
        types = [pair[1], pair[2]]
        if "NoneType" in types:
            return ["NoneType"] if side is None or types[side] == "NoneType" else []
        return types if side is None else [types[side]]
    return TEXTS["types"].says.findall(message)
