"""Whether repaired arguments say only what was there before: a repair changes a form, and invents nothing.

A model that is asked to put arguments right may make an id up, a city, a date. So every word and every number of what
it gives must stand in the arguments as they were, in the complaint, or among the values that the schema names. Nor does
it leave out what the tool knows: without its filter, a search answers another question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from atc.calls.repairer import Complaint
from atc.packing import as_text
from atc.unicode_forms import normalized

MAX_SCHEMA = 200_000
"""Characters of a schema in which values are looked for."""
_WORDS = re.compile(r"[^\W\d_]+|\d+")
_WORD = re.compile(r"-?[\w-]{1,64}(?:\.\d{1,20})?")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_VALUES = ("enum", "const", "default", "examples", "example")
_DIGITS = 40
"""Digits of a number; a longer one is a text of digits, and is compared as one."""


def is_grounded(made: dict[str, Any], complaint: Complaint) -> bool:
    """Whether every value in ``made`` rests on what the complaint is about. Linear in both.

    Args:
        made: the arguments after the repair.
        complaint: the arguments before it, why they were refused, and the schema.
    """
    shown = as_text(dict(complaint.arguments))
    known, said = set(_words(shown)), set(_words(complaint.reason))
    text = json.dumps(complaint.protocol.parameters, default=str)
    if len(text) <= MAX_SCHEMA:
        for value in _named_values(complaint.protocol.parameters):
            known.update(_words(as_text(value)))
    return _keeps(made, complaint) and all(
        _is_known(value, known, shown) or _is_said(value, known | said, complaint.reason) for value in _leaves(made)
    )


def _keeps(made: dict[str, Any], complaint: Complaint) -> bool:
    """Whether each argument that the tool knows is still given, or its value is, under another name."""
    names = complaint.protocol.parameters.get("properties")
    gone = [
        as_text(value)
        for name, value in complaint.arguments.items()
        if name not in made and value is not None and isinstance(names, dict) and name in names
    ]
    return not gone or set(gone) <= {as_text(value) for value in made.values()}


def _is_said(value: Any, known: set[str], reason: str) -> bool:
    """Whether a value rests on the reason, too. That is another's text: no address, path or sentence is taken of it."""
    is_word = _WORD.fullmatch(value if isinstance(value, str) else as_text(value)) is not None
    return is_word and _is_known(value, known, reason)


def _is_known(value: Any, known: set[str], shown: str) -> bool:
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = value if isinstance(value, str) else as_text(value)
    if not isinstance(value, str) and value < 0 and text not in shown:
        return False  # it has another sign
    if date := _DATE.fullmatch(text.strip()):
        year, month, day = map(int, date.groups())
        named = 0 < month <= 12 and (str(month) in known or any(w.startswith(_MONTHS[month - 1]) for w in known))
        return named and {str(year), str(day)} <= known
    return all(word in known for word in _words(text))


def _words(text: str) -> Iterator[str]:
    """The words of a text, and its numbers without zeros in front, as they are compared."""
    for match in _WORDS.finditer(normalized("NFKC", text).casefold()):
        word = match[0]
        yield (word.lstrip("0") or "0") if word.isdigit() and len(word) <= _DIGITS else word


def _leaves(value: Any) -> Iterator[Any]:
    """The values in a value that hold no others, and the keys of its objects but for the outermost."""
    waiting: list[tuple[Any, bool]] = [(value, True)]
    while waiting:
        at, outermost = waiting.pop()
        if isinstance(at, dict):
            if not outermost:
                yield from at
            waiting += [(item, False) for item in at.values()]
        elif isinstance(at, list | tuple):
            waiting += [(item, False) for item in at]
        else:
            yield at


def _named_values(schema: Any) -> Iterator[Any]:
    """The values that a schema itself names anywhere, and the names of its properties."""
    waiting = [schema]
    while waiting:
        at = waiting.pop()
        if isinstance(at, dict):
            yield from (at[name] for name in _VALUES if name in at)
            if isinstance(properties := at.get("properties"), dict):
                yield from properties
            waiting += at.values()
        elif isinstance(at, list):
            waiting += at
