"""The tables ``[tools."NAME"]`` of a permissions file: how a call of a tool is sent again, settled and undone, and
which of its arguments are targets.

A table widens what is done unasked, so it counts for a tool that its pattern surely names. It is the user's word alone:
no document and no server can write one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from atc.calls.permissions.conditions import MAX_CONDITIONS, Condition, condition_of
from atc.calls.permissions.patterns import Patterns, surely_names
from atc.schemas.protocol import Protocol
from atc.tools.keys import IdempotencyKey, KeyPlace

MAX_CALL_TEXT = 2_000
"""Characters of a call in a table."""
MAX_META = 200
"""Characters of a key of ``_meta``."""
_RESPONSE = "result"
_RESERVED_HEADERS = frozenset(
    """
    accept accept-encoding authorization connection content-length content-type cookie expect host
    proxy-authorization te trailer transfer-encoding upgrade user-agent
    """.split()
)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
_TOKEN = re.compile(
    r"(?:(?P<reference>\$[A-Za-z_][A-Za-z0-9_]*+(?:\.[A-Za-z0-9_-]++|\[[0-9]{1,6}\])*+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*+)"
    r'|(?P<value>"(?:[^"\\]|\\.)*+"|-?[0-9]++(?:\.[0-9]++)?+)|(?P<mark>[(),=]))\s*+'
)
_STEP = re.compile(r"\.([A-Za-z0-9_-]+)|\[([0-9]+)\]")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


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


@dataclass(frozen=True)
class Settle:
    """What settles a call in doubt.

    Attributes:
        read: the call that looks; its tool must be a read.
        done: conditions on its ``status`` and ``body``, which all hold if the call was done; empty: it never says so.
        not_done: likewise, if it was not done.
    """

    read: CallText
    done: tuple[Condition, ...] = ()
    not_done: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class ToolTable:
    """One table, of the tools that a pattern names."""

    tools: Patterns
    idempotency_key: IdempotencyKey | None = None
    settle: Settle | None = None
    undo: CallText | None = None
    targets: Patterns | None = None


def targets_in(tables: Iterable[ToolTable], protocol: Protocol) -> Patterns | None:
    """Return which arguments of a tool are targets: by the first table that names the tool and says it."""
    fitting = (each.targets for each in tables if surely_names(each.tools, protocol))
    return next((targets for targets in fitting if targets is not None), None)


def idempotency_of(tables: Iterable[ToolTable], protocol: Protocol) -> IdempotencyKey | None:
    """Return how the calls of a tool bear a key: by the first table that names the tool and says it."""
    fitting = (each.idempotency_key for each in tables if surely_names(each.tools, protocol))
    return next((key for key in fitting if key is not None), None)


def settle_of(tables: Iterable[ToolTable], protocol: Protocol) -> Settle | None:
    """Return what settles a tool's calls in doubt: by the first table that names the tool and says it."""
    fitting = (each.settle for each in tables if surely_names(each.tools, protocol))
    return next((settle for settle in fitting if settle is not None), None)


def undo_of(tables: Iterable[ToolTable], protocol: Protocol) -> CallText | None:
    """Return the inverse of a tool's calls: by the first table that names the tool and says it."""
    fitting = (each.undo for each in tables if surely_names(each.tools, protocol))
    return next((undo for undo in fitting if undo is not None), None)


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


def outcome_conditions(given: Any) -> tuple[Condition, ...]:
    """Return the conditions of ``done`` or ``not_done``.

    Raises:
        ValueError: they are none; the message says what it takes.
    """
    if not isinstance(given, dict) or not 0 < len(given) <= MAX_CONDITIONS:
        raise ValueError(
            f'takes a table of 1 to {MAX_CONDITIONS} conditions, such as {{status = 404}} or {{"body.state" = "paid"}}'
        )
    made = []
    for path, value in given.items():
        if path.split(".")[0] not in ("status", "body"):
            raise ValueError(f"`{path[:80]}`: the path begins with `status` or `body`")
        try:
            made.append(condition_of(path, value))
        except ValueError as error:
            raise ValueError(f"`{path[:80]}`: {error}") from None
    return tuple(made)


def call_text(text: str, *, response: bool) -> CallText:
    """Read a call such as ``delete_event(event_id=$result.id)``.

    Args:
        text: of the file. ``$x`` is the argument ``x`` of the call that the table speaks of.
        response: ``$result`` is the response of that call; else nobody has it.

    Raises:
        ValueError: it is no call; the message says what it takes.
    """
    if len(text) > MAX_CALL_TEXT:
        raise ValueError(f"has {len(text):,} characters; {MAX_CALL_TEXT:,} at most")
    tokens = _tokens(text)
    kinds = [kind for kind, _ in tokens]
    if kinds[:1] != ["name"] or [token for _, token in tokens[1:2]] != ["("] or tokens[-1] != ("mark", ")"):
        raise _no_call()
    arguments: dict[str, Any] = {}
    inside = tokens[2:-1]
    while inside:
        if [kind for kind, _ in inside[:1]] != ["name"] or inside[1:2] != [("mark", "=")] or len(inside) < 3:
            raise _no_call()
        name, value = inside[0][1], inside[2]
        if name in arguments:
            raise ValueError(f"gives `{name[:60]}` twice")
        arguments[name] = _value(*value, response=response)
        if inside[3:] and (inside[3] != ("mark", ",") or not inside[4:]):
            raise _no_call()
        inside = inside[4:]
    return CallText(text, tokens[0][1], tuple(arguments.items()))


def _no_call() -> ValueError:
    return ValueError(
        "takes a call with named arguments, each `$` with the name of an argument, or a value of JSON: "
        "get_order(order_id=$order_id, full=true)"
    )


def _tokens(text: str) -> list[tuple[str, str]]:
    text = text.strip()
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _no_call()
        found.append((str(match.lastgroup), match[str(match.lastgroup)]))
        at = match.end()
    if not found:
        raise _no_call()
    return found


def _value(kind: str, token: str, *, response: bool) -> Any:
    if kind == "reference":
        return _reference(token, response=response)
    if kind == "value":
        try:
            return json.loads(token)
        except ValueError:
            raise ValueError(f"{token[:60]} is no value of JSON") from None
    if kind == "name" and token in _WORDS:
        return _WORDS[token]
    raise _no_call()


def _reference(token: str, *, response: bool) -> Reference:
    name = re.split(r"[.\[]", token[1:], maxsplit=1)[0]
    steps = tuple(key or int(index) for key, index in _STEP.findall(token[1 + len(name) :]))
    if name != _RESPONSE:
        return Reference("arguments", (name, *steps))
    if not response:
        raise ValueError("`$result` stands in `undo` alone: the response of a call in doubt is not known")
    return Reference("response", steps)
