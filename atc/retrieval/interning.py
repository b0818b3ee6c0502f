"""Protocols as an index gives them back, without a line of JSON between: what protocols share stays shared.

The tools of a large OpenAPI document share its definitions, and each protocol has all that it reaches. Written out,
the 452 protocols of Stripe are 169 MB; held so, they are little more than the document of 2.5 MB.
"""

from __future__ import annotations

import math
from typing import Any

from atc.tools.protocol import Protocol

_INTEGERS = 2**63  # larger ones are left to JSON, which has limits of its own


class Interner:
    """Makes protocols whose equal parts are one object. A value that several protocols share is read once.

    It keeps what it has read, for the length of one reading of tools.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Any, Any]] = {}  # by id, beside the value itself, so that the id stays its own

    def of(self, protocol: Protocol) -> Protocol | None:
        """The protocol that its line of JSON would give, keys in order; ``None`` where only JSON itself can tell."""
        try:
            of = self._interned
            examples = tuple(
                example.model_copy(update={"arguments": of(example.arguments), "response": of(example.response)})
                for example in protocol.examples
            )
            schemas = {"parameters": self._interned(protocol.parameters), "returns": self._interned(protocol.returns)}
            return Protocol.model_validate({**dict(protocol), **schemas, "examples": examples})
        except (ValueError, TypeError, RecursionError):
            return None

    def _interned(self, value: Any) -> Any:
        """The value with the keys of its objects sorted.

        Raises:
            ValueError: it has something that JSON does not have, or contains itself.
        """
        kind = type(value)
        if value is None or kind is str or kind is bool:
            return value
        if kind is float and math.isfinite(value):
            return value
        if kind is int and -_INTEGERS <= value < _INTEGERS:
            return value
        if kind is not dict and kind is not list:
            raise ValueError(f"{kind.__name__} is not plain JSON")
        if id(value) not in self._seen:
            self._seen[id(value)] = (value, _UNFINISHED)
            made: Any = [self._interned(each) for each in value] if kind is list else self._sorted(value)
            self._seen[id(value)] = (value, made)
        made = self._seen[id(value)][1]
        if made is _UNFINISHED:
            raise ValueError("it contains itself, or something that is not plain JSON")
        return made

    def _sorted(self, value: dict[Any, Any]) -> dict[str, Any]:
        if not all(type(key) is str for key in value):
            raise ValueError("a key is no text")
        return {key: self._interned(value[key]) for key in sorted(value)}


_UNFINISHED = object()
