"""How an argument is made of what planned calls will answer: whole, in a text, or in lists and objects.

A form is JSON: ``{"hole": [CALL, PATH]}`` is a part of an answer, ``{"value": …}`` what is known, ``{"text": […]}`` an
f-string of both, ``{"list": […]}`` and ``{"object": {…}}`` hold forms. A program claims it. It says what a person is
shown, and what the argument has to be once the answers are there; nothing else rests on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Form = dict[str, Any]

MAX_STEPS = 12
"""Steps of a path in an answer."""
MAX_DEPTH = 100
NOTHING: Any = object()
"""Stands for a value that is not there."""


def read_form(raw: Any, number_of: Callable[[int], int], depth: int = 0) -> Form | None:
    """Return a form with the numbers of calls in the run; ``None`` for what is none.

    Args:
        raw: the form, as a program or a journal has it.
        number_of: returns the number in the run of a call by its number in the form; 0 where there is none.
        depth: how deep it stands in another one.
    """
    if not isinstance(raw, dict) or len(raw) != 1 or depth > MAX_DEPTH:
        return None
    ((kind, given),) = raw.items()
    match kind:
        case "value":
            return {"value": given}
        case "hole":
            return _read_hole(given, number_of)
        case "object" if isinstance(given, dict):
            made = {key: read_form(each, number_of, depth + 1) for key, each in given.items()}
            return None if None in made.values() else {"object": made}
        case "list" | "text" if isinstance(given, list):
            parts = [read_form(each, number_of, depth + 1) for each in given]
            is_text = all(part is not None and _may_be_in_text(part) for part in parts)
            return None if None in parts or (kind == "text" and not is_text) else {kind: parts}
    return None


def _read_hole(given: Any, number_of: Callable[[int], int]) -> Form | None:
    if not isinstance(given, list | tuple) or len(given) != 2 or not isinstance(given[1], list | tuple):
        return None
    number, path = given
    well_formed = type(number) is int and len(path) <= MAX_STEPS and all(type(step) in (str, int) for step in path)
    found = number_of(number) if well_formed else 0
    return {"hole": [found, list(path)]} if found else None


def _may_be_in_text(part: Form) -> bool:
    return "hole" in part or "text" in part or isinstance(part.get("value"), str)


def filled(form: Form, answers: Mapping[int, Any]) -> Any:
    """Return the value of a form; :data:`NOTHING` where an answer has not what it needs.

    Args:
        form: as :func:`read_form` gives it.
        answers: of planned calls, by their numbers.
    """
    ((kind, given),) = form.items()
    if kind == "value":
        return given
    if kind == "hole":
        return at(answers.get(given[0], NOTHING), given[1])
    if kind == "object":
        made = {key: filled(each, answers) for key, each in given.items()}
        return NOTHING if any(each is NOTHING for each in made.values()) else made
    parts = [filled(each, answers) for each in given]
    if any(each is NOTHING or (kind == "text" and isinstance(each, list | dict | bytes)) for each in parts):
        return NOTHING
    return parts if kind == "list" else "".join(map(str, parts))


def at(value: Any, path: Sequence[str | int]) -> Any:
    """Return what stands at a path of an answer; :data:`NOTHING` where nothing does."""
    for step in path:
        fits = isinstance(value, dict) if isinstance(step, str) else isinstance(value, list)
        try:
            value = value[step] if fits else NOTHING
        except (KeyError, IndexError):
            return NOTHING
    return value
