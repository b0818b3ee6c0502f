"""Protocols as lines of JSON: what many of them share is written once, and is one object again where it is read.

The operations of an OpenAPI document share its definitions. Written out with each, a document of a megabyte would be
hundreds.
"""

from __future__ import annotations

import json
import threading
from typing import Any
from typing import Protocol as Interface

from atc.catalogue.index.snapshot import line_of
from atc.errors import UsageError
from atc.schemas.protocol import Protocol

MANY = 20
"""Items from which an object or a list is written once."""
MOST_VALUES = 5_000_000
"""Values of one protocol that is read, each counted wherever it stands."""
_MARK = "$shared"


class SharedWriter:
    """Writes protocols.

    Attributes:
        texts: what they share, as JSON; one may name those before it by their numbers.
    """

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self._numbers: dict[int, tuple[Any, int]] = {}  # by id, beside the value itself, so that the id stays its own

    def line(self, id: str, document: Protocol | bytes) -> bytes:
        """Return a protocol as a line; what is one already stays.

        Raises:
            UsageError: it cannot be written as JSON.
        """
        if isinstance(document, bytes):
            return document
        try:
            schemas = {name: self._apart(getattr(document, name)) for name in ("parameters", "returns")}
        except (ValueError, TypeError, RecursionError) as error:
            raise UsageError(f"the protocol of {id!r} cannot be written as JSON: {error}") from None
        return line_of(id, document.model_copy(update=schemas))

    def _apart(self, value: Any) -> Any:
        if not isinstance(value, dict | list):
            return value
        if len(value) >= MANY and (known := self._numbers.get(id(value))) is not None:
            return {_MARK: known[1]}
        if isinstance(value, list):
            made: Any = [self._apart(each) for each in value]
        else:
            made = {key: self._apart(each) for key, each in value.items()}
        if len(value) < MANY:
            return {_MARK: [made]} if _MARK in value else made
        self.texts.append(json.dumps(made, separators=(",", ":"), sort_keys=True).encode())
        self._numbers[id(value)] = (value, len(self.texts) - 1)
        return {_MARK: len(self.texts) - 1}


class Lines(Interface):
    """Texts, each made when it is asked for."""

    def __getitem__(self, place: int, /) -> bytes: ...

    def __len__(self) -> int: ...


class SharedReader:
    """Reads them again, each when it is asked for.

    Args:
        lines: of the protocols.
        texts: what they share.
    """

    def __init__(self, lines: Lines, texts: Lines) -> None:
        self._lines, self._texts = lines, texts
        self._made: dict[int, tuple[Any, int]] = {}
        self._room = 0
        self._lock = threading.Lock()

    def __getitem__(self, row: int) -> Protocol:
        with self._lock:
            self._room = MOST_VALUES
            return Protocol.model_validate(self._whole(json.loads(self._lines[row]), len(self._texts)))

    def __len__(self) -> int:
        return len(self._lines)

    def _whole(self, value: Any, below: int) -> Any:
        self._room -= 1
        if self._room < 0:
            raise ValueError(f"it holds more than {MOST_VALUES:,} values")
        if isinstance(value, list):
            return [self._whole(each, below) for each in value]
        if not isinstance(value, dict):
            return value
        number: Any = value[_MARK] if value.keys() == {_MARK} else [value]
        if isinstance(number, list) and len(number) == 1 and isinstance(number[0], dict):  # the object itself
            return {key: self._whole(each, below) for key, each in number[0].items()}
        if type(number) is not int or not 0 <= number < below:
            raise ValueError(f"it shares what is not there: {number!r:.40}")
        if number not in self._made:
            room = self._room
            made = self._whole(json.loads(self._texts[number]), number)
            self._made[number] = (made, room - self._room)
        else:
            self._room -= self._made[number][1]
        return self._made[number][0]
