"""The tables ``[tools."NAME"]`` of a permissions file: how a call of a tool is sent again, settled and undone, and
which of its arguments are targets.

A table widens what is done unasked, so it counts for a tool that its pattern surely names. It is the user's word alone:
no document and no server can write one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from atc.calls.permissions.conditions import Condition, conditions_of
from atc.calls.permissions.facts import MOST, Part
from atc.calls.permissions.patterns import Patterns, PatternsOf, surely_names
from atc.schemas.protocol import Protocol
from atc.tools.keys import IdempotencyKey, KeyPlace

MAX_CALL_TEXT = 2_000
"""Characters of a call in a table."""
MAX_META = 200
"""Characters of a key of ``_meta``."""
_RESERVED_HEADERS = frozenset(
    """
    accept accept-encoding authorization connection content-length content-type cookie expect host
    proxy-authorization te trailer transfer-encoding upgrade user-agent
    """.split()
)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
_NAME = "[A-Za-z_][A-Za-z0-9_]*+"
_CALL = re.compile(rf"\s*+({_NAME})\s*+\(\s*+(.*)\)\s*+", re.DOTALL)
_ARGUMENT = re.compile(
    rf"({_NAME})\s*+=\s*+"
    rf"(?:\$({_NAME})((?:\.[A-Za-z0-9_-]++|\[[0-9]{{1,6}}\])*+)"
    r'|("(?:[^"\\]|\\.)*+"|-?[0-9]++(?:\.[0-9]++)?+|true|false|null))'
    r"\s*+(?:,\s*+(?=.)|\Z)"
)
_STEP = re.compile(r"\.([A-Za-z0-9_-]+)|\[([0-9]+)\]")
_NO_CALL = (
    "takes a call with named arguments, each `$` with the name of an argument, or a value of JSON: "
    "get_order(order_id=$order_id, full=true)"
)
T = TypeVar("T")


@dataclass(frozen=True)
class Reference:
    """A value of the call that a table speaks of.

    Attributes:
        of: its arguments, or its response.
        path: of the value; for an argument its name comes first.
    """

    of: Literal["arguments", "response"]
    path: tuple[str | int, ...]


@dataclass(frozen=True)
class CallText:
    """A call that a table writes: ``get_order(order_id=$order_id)``.

    Attributes:
        text: as it stands in the file.
        tool: the name of the tool.
        arguments: by parameter, each a :class:`Reference` or a value of JSON.
    """

    text: str
    tool: str
    arguments: tuple[tuple[str, Reference | str | int | float | bool | None], ...] = ()


# -- from the file -----------------------------------------------------------------------------------------------------


def place_of(header: str | None, meta: str | None) -> KeyPlace | None:
    """Return where a key is sent.

    Raises:
        ValueError: it cannot be sent there; the message says what it takes.
    """
    if header is not None and meta is not None:
        raise ValueError("takes `header` (of an HTTP service) or `meta` (of an MCP tool), not both")
    if header is not None:
        if _HEADER.match(header) is None or header.lower() in _RESERVED_HEADERS:
            raise ValueError('`header` takes the name of a header that carries nothing else, such as "Idempotency-Key"')
        return KeyPlace("header", header)
    if meta is None:
        return None
    plain = meta.isascii() and meta.isprintable() and " " not in meta
    if not 0 < len(meta) <= MAX_META or not plain or "modelcontextprotocol" in meta:
        raise ValueError(
            f'`meta` takes a key of `_meta`, {MAX_META} characters without blanks at most, such as "com.example/key"'
        )
    return KeyPlace("meta", meta)


def call_text(text: Any, *, response: bool) -> CallText:
    """Read a call such as ``delete_event(event_id=$result.id)``.

    Args:
        text: of the file. ``$x`` is the argument ``x`` of the call that the table speaks of.
        response: ``$result`` is the response of that call; else nobody has it.

    Raises:
        ValueError: it is no call; the message says what it takes.
    """
    if not isinstance(text, str):
        raise ValueError('takes a call as text, such as "get_order(order_id=$order_id)"')
    if len(text) > MAX_CALL_TEXT:
        raise ValueError(f"has {len(text):,} characters; {MAX_CALL_TEXT:,} at most")
    call = _CALL.fullmatch(text)
    if call is None:
        raise ValueError(_NO_CALL)
    arguments: dict[str, Any] = {}
    at = 0
    while at < len(call[2]):
        found = _ARGUMENT.match(call[2], at)
        if found is None:
            raise ValueError(_NO_CALL)
        if found[1] in arguments:
            raise ValueError(f"gives `{found[1][:60]}` twice")
        arguments[found[1]] = _value(found[4]) if found[4] else _reference(found[2], found[3], response=response)
        at = found.end()
    return CallText(text, call[1], tuple(arguments.items()))


def _value(token: str) -> Any:
    try:
        return json.loads(token)
    except ValueError:
        raise ValueError(f"{token[:60]} is no value of JSON") from None


def _reference(name: str, path: str, *, response: bool) -> Reference:
    steps = tuple(key or int(index) for key, index in _STEP.findall(path))
    if name != "result":
        return Reference("arguments", (name, *steps))
    if not response:
        raise ValueError("`$result` stands in `undo` alone: the response of a call in doubt is not known")
    return Reference("response", steps)


# -- the tables --------------------------------------------------------------------------------------------------------


_WHAT = 'conditions, such as {status = 404} or {"body.state" = "paid"}'
_OUTCOME = partial(conditions_of, what=_WHAT, roots=("status", "body"))
Outcome = Annotated[tuple[Condition, ...], BeforeValidator(_OUTCOME)]


class Settle(Part):
    """Describes what settles a call in doubt.

    Attributes:
        read: the call that looks; its tool must be a read.
        done: conditions on its ``status`` and ``body``, which all hold if the call was done; empty: it never says so.
        not_done: likewise, if it was not done.
    """

    read: Annotated[CallText, BeforeValidator(partial(call_text, response=False))]
    done: Outcome = ()
    not_done: Outcome = ()

    @model_validator(mode="after")
    def _some_outcome(self) -> Settle:
        if not (self.done or self.not_done):
            raise ValueError("takes `done`, `not_done` or both: by what the read's answer says so")
        return self


class _KeyText(Part):
    header: str | None = None
    meta: str | None = None
    window_s: float | None = Field(default=None, ge=0, le=MOST, allow_inf_nan=False)

    @model_validator(mode="after")
    def _one_place(self) -> _KeyText:
        place_of(self.header, self.meta)
        return self


class ToolTable(Part):
    """One table, of the tools that a pattern names."""

    idempotency_key: _KeyText | None = None
    settle: Settle | None = None
    undo: Annotated[CallText, BeforeValidator(partial(call_text, response=True))] | None = None
    targets: PatternsOf | None = None

    @property
    def key(self) -> IdempotencyKey | None:
        """Return how calls bear an idempotency key."""
        given = self.idempotency_key
        return None if given is None else IdempotencyKey(place_of(given.header, given.meta), given.window_s)


Tables = Iterable[tuple[Patterns, ToolTable]]


def said_of(tables: Tables, protocol: Protocol, get: Callable[[ToolTable], T | None]) -> T | None:
    """Return what is said of a tool: by the first table that names it and says such a thing."""
    fitting = (get(table) for patterns, table in tables if surely_names(patterns, protocol))
    return next((found for found in fitting if found is not None), None)
