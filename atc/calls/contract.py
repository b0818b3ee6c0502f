"""What a program asks of the host and what it gets: one call, one reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CallRequest:
    """A call as the program asked for it. ``line`` is the program's own claim; 0 when unknown.

    ``page``: which page of an ``all_pages`` the host reads for it, from 1; 0 for a call by itself.
    """

    number: int
    tool: str
    arguments: dict[str, Any]
    line: int
    page: int = 0


@dataclass(frozen=True)
class CallReply:
    """What the host answers to a call: a value, or an error that the program may catch as ``ToolError``."""

    value: Any = None
    error: str | None = None
    status: int | str | None = None


CallHandler = Callable[[CallRequest], Awaitable[CallReply]]
