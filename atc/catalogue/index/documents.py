"""The documents of an index: the fields of a tool's protocol that are indexed, and how protocols are held.

Of a long stream they lie in a file while the index is made, so that memory stays bounded.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from atc.catalogue.graph.suppliers import fields_of
from atc.errors import ToolIndexError
from atc.schemas.protocol import Protocol

MAX_FIELD = 4_000
"""Characters of a field that count: no tool gains by a description without end."""

MAX_PARAMETERS = 64
"""Parameters that count, and response fields: twice as many."""

_ENCODED, _DESCRIBED = 1_000, 20
"""Characters that the encoder is given, about what it reads; and those of a description that speaks for itself."""


@dataclass(frozen=True)
class DocumentFields:
    """The texts of one tool that are indexed.

    Attributes:
        name: the tool's name, and the one it has at its source where that differs.
        service: the parts of the id before its last: ``toolbench/Finance/yahoo/quote`` is of ``Finance yahoo``.
        description: what the tool does.
        parameters: the names of its parameters.
        details: the descriptions of its parameters.
        returns: the names of its response's fields.
    """

    name: str
    service: str
    description: str
    parameters: str
    details: str
    returns: str


def document_fields(id: str, protocol: Protocol) -> DocumentFields:
    """Take a protocol apart.

    Args:
        id: the id of the tool in its index; the parts before its last ``/`` name the service.
        protocol: what is known about the tool.
    """
    given = protocol.parameters.get("properties")
    parameters = list(given.items())[:MAX_PARAMETERS] if isinstance(given, dict) else []
    returned = dict.fromkeys(step for step in _returned(protocol))
    return DocumentFields(
        name=_name(protocol)[:MAX_FIELD],
        service=" ".join(id.split("/")[:-1])[:MAX_FIELD],
        description=protocol.description[:MAX_FIELD],
        parameters=" ".join(str(name) for name, _ in parameters)[:MAX_FIELD],
        details=" ".join(_described(schema) for _, schema in parameters)[:MAX_FIELD],
        returns=" ".join(returned)[:MAX_FIELD],
    )


def service_of(id: str, protocol: Protocol) -> str:
    """Return the service of a tool: by its id, else by the source of its protocol."""
    return id.rpartition("/")[0] or protocol.source.service


def text_for_encoder(found: DocumentFields) -> str:
    """Return one short text: the name and the description, and more only of a tool that is hardly described.

    Longer texts find less and take a third longer to encode.
    """
    name = _spaced(found.name.split()[0])
    if len(found.description) >= _DESCRIBED:
        return f"{name}: {found.description}"[:_ENCODED]
    parts = (name, _spaced(found.service), found.description, _spaced(found.parameters))
    return ": ".join(part for part in parts if part)[:_ENCODED]


def _name(protocol: Protocol) -> str:
    original = protocol.source.operation
    return protocol.name if not original or original == protocol.name else f"{protocol.name} {original}"


def _returned(protocol: Protocol) -> Iterator[str]:
    for path in islice(fields_of(protocol.returns), 2 * MAX_PARAMETERS):
        yield path[-1]


def _described(schema: Any) -> str:
    text = schema.get("description", "") if isinstance(schema, Mapping) else ""
    return text[:MAX_FIELD] if isinstance(text, str) else ""


def _spaced(text: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_/\s]+", " ", text).strip()


# -- where they lie while an index is made -----------------------------------------------------------------------------

Document = Protocol | bytes
"""A protocol as it is held in memory, or its line of JSON."""

IN_MEMORY = 64_000_000
"""Bytes of documents that are held in memory; from more on they lie in a file."""


class Documents(Interface):
    """The documents by row: in memory, or in a file."""

    def __getitem__(self, row: int) -> Document: ...

    def __len__(self) -> int: ...


class Spool:
    """Documents that are added one after the other.

    Args:
        folder: where its file lies, which has no name and is gone with this process; ``None``: all stays in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: list[Document] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._ends = array("q", [0])
        self._first = 0  # documents before this row lie in the file

    def add(self, document: Document) -> None:
        """Add one.

        Raises:
            ToolIndexError: the disk is full.
        """
        self._held.append(document)
        if not isinstance(document, bytes):
            self._folder = None  # it is in memory anyway, and so are its like
            return
        self._bytes += len(document)
        if self._folder is not None and self._bytes > IN_MEMORY:
            self._spill(self._folder)

    def __getitem__(self, row: int) -> Document:
        if row >= self._first:
            return self._held[row - self._first]
        assert self._file is not None
        begin, end = self._ends[row], self._ends[row + 1]
        return os.pread(self._file.fileno(), end - begin, begin)  # no place is kept: several threads may read

    def __len__(self) -> int:
        return self._first + len(self._held)

    def _spill(self, folder: Path) -> None:
        try:
            if self._file is None:
                folder.mkdir(parents=True, exist_ok=True)
                self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - as long as the documents
            self._file.seek(self._ends[-1])
            for document in self._held:
                assert isinstance(document, bytes)
                self._file.write(document)
                self._ends.append(self._ends[-1] + len(document))
            self._file.flush()
        except OSError as error:
            raise ToolIndexError(
                f"the documents of the tools cannot be kept in {folder}: {error.strerror or error}. Check that (a full "
                "disk, or rights); an index that was there before is untouched"
            ) from None
        self._first += len(self._held)
        self._held, self._bytes = [], 0


class Joined:
    """Documents of several parts, in one order.

    Args:
        parts: where they lie.
        part: of each row, which one.
        row: of each row, its place there.
    """

    def __init__(self, parts: Sequence[Documents], part: NDArray[np.int32], row: NDArray[np.int64]) -> None:
        self.parts, self.part, self.row = parts, part, row

    @classmethod
    def of(cls, old: Documents, new: Documents, rows: NDArray[np.int64]) -> Joined:
        """Return rows of two: ``row`` of ``old``, or ``-1 - row`` of ``new``."""
        kept = rows >= 0
        parts: list[Documents] = list(old.parts) if isinstance(old, Joined) else [old]
        part, row = np.full(len(rows), len(parts), np.int32), -1 - rows
        if isinstance(old, Joined):
            part[kept], row[kept] = old.part[rows[kept]], old.row[rows[kept]]
        else:
            part[kept], row[kept] = 0, rows[kept]
        used = np.unique(part)  # a part that has nothing left is let go
        return cls([[*parts, new][each] for each in used], np.searchsorted(used, part).astype(np.int32), row)

    def __getitem__(self, row: int) -> Document:
        part: Documents = self.parts[int(self.part[row])]
        return part[int(self.row[row])]

    def __len__(self) -> int:
        return len(self.part)


# -- what protocols share ----------------------------------------------------------------------------------------------
# Protocols as an index gives them back, without a line of JSON between: what protocols share stays shared.
#
# The tools of a large OpenAPI document share its definitions, and each protocol has all that it reaches. Written out,
# the 452 protocols of Stripe are 169 MB; held so, they are little more than the document of 2.5 MB.

_INTEGERS = 2**63  # larger ones are left to JSON, which has limits of its own


class Interner:
    """Makes protocols whose equal parts are one object. A value that several protocols share is read once.

    It keeps what it has read, for the length of one reading of tools.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Any, Any]] = {}  # by id, beside the value itself, so that the id stays its own

    def of(self, protocol: Protocol) -> Protocol | None:
        """Return the protocol that its line of JSON would give, keys in order; ``None`` where only JSON can tell."""
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
        """Return the value with the keys of its objects sorted.

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
