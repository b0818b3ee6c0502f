"""Values that stand in a program's scope when it starts: which names they may have, and how large they may be.

An input is data on every step of its way: JSON values and bytes in a frame, then an object in the program's namespace.
It is never written into the program's source.
"""

from __future__ import annotations

import builtins
import json
import keyword
from collections.abc import Container, Mapping
from typing import Any

from atc._host.unicode_forms import normalized
from atc._records.packing import pack
from atc.calls.json_values import to_json_value
from atc.errors import UsageError
from atc.schemas.names import ALL_PAGES, RESERVED_NAMES

MAX_NAME = 200
"""Characters of an input's name."""
MAX_INPUTS = 10_000
"""Inputs of one program."""
MAX_BYTES, MAX_GIVEN = 16 << 20, 4 << 20
"""JSON bytes of all inputs together: the first message to a program has a limit of its own. And of those that a caller
gives with a program of its own."""
_TAKEN = frozenset({*dir(builtins), *RESERVED_NAMES, ALL_PAGES})


def name_problem(name: object, tools: Container[str] = ()) -> str:
    """Return why an input cannot have this name; empty if it can.

    Args:
        name: must be an identifier as Python spells it (NFKC), no keyword, no built-in, and nothing that a program
            is given anyway (``answer``, ``parallel``, ``all_pages``, ``ToolError``).
        tools: names of the program's tools.
    """
    if not isinstance(name, str):
        return f"a name must be text, not {type(name).__name__}"
    if len(name) > MAX_NAME:
        return f"a name may have {MAX_NAME} characters, and this has {len(name):,}"
    if not name.isidentifier() or keyword.iskeyword(name) or normalized("NFKC", name) != name:
        return f"{name!r} is no Python identifier"
    if name.startswith("__") or name in _TAKEN:
        return f"{name!r} means something else in a program"
    return f"{name!r} is the name of a tool" if name in tools else ""


def check_names(inputs: Mapping[str, Any], tools: Container[str]) -> None:
    """Check the names of a job's inputs.

    Raises:
        UsageError: an input cannot have its name, or there are more than :data:`MAX_INPUTS`.
    """
    if len(inputs) > MAX_INPUTS:
        raise UsageError(
            f"a program is given {len(inputs):,} inputs; the limit is {MAX_INPUTS:,}: give many values as one input, "
            "a list or an object"
        )
    for name in inputs:
        if problem := name_problem(name, tools):
            raise UsageError(f"an input of a program has a name that it cannot have: {problem}; give another name")


def packed(inputs: Mapping[str, Any], *, frame_bytes: int, channel_bytes: int, most: int = MAX_BYTES) -> dict[str, Any]:
    """Return the inputs as JSON values, their bytes tagged (:mod:`atc._records.packing`).

    Its time is linear in the inputs, and a second or more for the largest: an event loop has it done in a thread.

    Args:
        inputs: values by name.
        frame_bytes: JSON bytes that one value may take.
        channel_bytes: JSON bytes that all may take together, if that is less than ``most``.
        most: likewise, whatever the channel takes.

    Raises:
        UsageError: a value has no JSON form, or is too large.
    """
    made: dict[str, Any] = {}
    together = 0
    for name, value in inputs.items():
        try:
            made[name] = pack(to_json_value(value))
        except ValueError as error:
            raise UsageError(f"the input {name!r} cannot be given to a program: {error}") from None
        size = len(json.dumps(made[name], ensure_ascii=False, separators=(",", ":")).encode())
        if size > frame_bytes:
            raise UsageError(
                f"the input {name!r} takes {size:,} bytes of JSON; the limit is {frame_bytes:,} (frame_bytes): "
                "give the program less"
            )
        together += size
        if together > min(channel_bytes, most):
            limit = f"the limit is {min(channel_bytes, most):,}"
            raise UsageError(f"the inputs take {together:,} bytes of JSON or more together; {limit}: give fewer")
    return made
