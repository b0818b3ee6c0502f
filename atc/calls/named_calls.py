"""Fills in the calls that a user's file names: the read that settles a call in doubt, and the inverse that undoes one.

What a call was sent, and what it answered, is handed over as values and never becomes text of a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atc.calls.entry import CallEntry, call_key
from atc.calls.forms import NOTHING, at
from atc.calls.permissions.tool_tables import CallText, Reference
from atc.schemas.protocol import Protocol, original_arguments

MAX_BITS, MAX_DIGITS = 128, 40
"""Of a number that is written as text, or was."""


class NoValue(Exception):
    """Says that a call cannot be filled in. ``what`` is the value that is not there, as the file names it."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def sent_arguments(entry: CallEntry) -> Mapping[str, Any] | None:
    """Return what a call was sent; ``None`` where a credential was masked in the journal, so that nobody knows it."""
    try:
        key = call_key(entry.tool, entry.arguments, entry.key.source)
    except ValueError:
        return None
    return entry.arguments if key.digest == entry.key.digest else None


def filled(
    call: CallText, arguments: Mapping[str, Any], protocol: Protocol | None, response: tuple[Any] | None = None
) -> dict[str, Any]:
    """Return the arguments of a call that a file names.

    Args:
        call: as the file writes it.
        arguments: of the call that it speaks of, as they were sent.
        protocol: of that call's tool, for the names that programs use; ``None``: it is gone.
        response: of that call; ``None`` where it is not known.

    Raises:
        NoValue: a value is not there.
    """
    made: dict[str, Any] = {}
    for name, given in call.arguments:
        if not isinstance(given, Reference):
            made[name] = given
        elif given.of == "arguments":
            made[name] = _at(_named(arguments, str(given.path[0]), protocol), given.path, given)
        elif response is None:
            raise NoValue(as_written(given))
        else:
            made[name] = _at(response[0], ("", *given.path), given)
    return made


def encoded(arguments: Mapping[str, Any], protocol: Protocol) -> dict[str, Any]:
    """Return the arguments of a named call as its tool takes them: by its own names, and a number as the text of it, or
    the other way round, where its schema says so. Nothing else is changed: it would be another value.
    """
    properties = protocol.parameters.get("properties", {})
    made = original_arguments(protocol, dict(arguments))
    return {name: _encoded(value, properties.get(name)) for name, value in made.items()}


def _encoded(value: Any, schema: Any) -> Any:
    wanted = schema.get("type") if isinstance(schema, dict) else None
    if wanted == "string" and type(value) is int and value.bit_length() <= MAX_BITS:
        return str(value)
    if wanted == "integer" and isinstance(value, str) and _is_integer(value):
        return int(value)
    return value


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return len(text) <= MAX_DIGITS and digits.isascii() and digits.isdigit() and str(int(text)) == text


def _named(arguments: Mapping[str, Any], name: str, protocol: Protocol | None) -> Any:
    if name not in arguments and protocol is not None:
        name = next(iter(original_arguments(protocol, {name: None})))
    if name not in arguments:
        raise NoValue(f"${name}")
    return arguments[name]


def _at(value: Any, path: tuple[str | int, ...], given: Reference) -> Any:
    found = at(value, path[1:])
    if found is NOTHING:
        raise NoValue(as_written(given))
    return found


def as_written(given: Reference) -> str:
    """Return a reference as the file writes it: ``$result.items[0]``."""
    name, rest = ("result", given.path) if given.of == "response" else (str(given.path[0]), given.path[1:])
    return f"${name}" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in rest)
