"""Idempotency keys: where a call bears one, and for how long its service takes a second call with it for the first.

A key goes out only where the service's own document declares the header, or the user's permissions name a place.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from atc.tools.tool import Transport

WINDOW_S = 3_600.0
"""Seconds after the first sending within which a call may be sent again with its key. Services keep keys for a day or
so; few say for how long."""
HEADERS = frozenset({"idempotency-key", "x-idempotency-key"})
"""Names of header parameters, in small letters, that are idempotency keys wherever a document declares them."""
SAMPLE = "8f14e45f-ceea-467f-a0e0-37b8a2f9d2c1"
"""A key as they are made: documents often ask for a UUID."""


@dataclass(frozen=True)
class KeyPlace:
    """Where a call bears its idempotency key.

    Attributes:
        kind: a header of its HTTP request, or an entry of the ``_meta`` of its MCP request.
        name: of the header or the entry.
    """

    kind: Literal["header", "meta"]
    name: str


@dataclass(frozen=True)
class IdempotencyKey:
    """What a user says of the idempotency keys of a tool's calls.

    Attributes:
        place: where they are sent; ``None``: where the tool's own document declares it.
        window_s: seconds after the first sending within which a call in doubt is sent again with its key; 0: never.
            ``None``: :data:`WINDOW_S`.
    """

    place: KeyPlace | None = None
    window_s: float | None = None


@dataclass(frozen=True)
class KeyRule:
    """How the calls of a tool bear an idempotency key."""

    place: KeyPlace
    window_s: float = WINDOW_S


class KeyedTransport(abc.ABC):
    """Mixin of a transport whose calls can bear an idempotency key."""

    key_kind: ClassVar[Literal["header", "meta"]]
    """The kind of places that it can put a key in."""

    @property
    def key_place(self) -> KeyPlace | None:
        """The place that the service's own document declares; ``None`` where it declares none, as no MCP server can: a
        hint that a tool is idempotent says nothing of keys."""
        return None

    @abc.abstractmethod
    def keyed(self, place: KeyPlace, key: str) -> Transport:
        """The same transport, for one call that bears this key. Two tries of the call bear the same."""

    def argument_at(self, place: KeyPlace) -> str | None:
        """The argument that would stand at this place, where the document makes it one."""
        return None
