"""The documents of an index while it is made: of a long stream they lie in a file, so that memory stays bounded."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import IO
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from atc.errors import ToolIndexError
from atc.tools.protocol import Protocol

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
        """Rows of two: ``row`` of ``old``, or ``-1 - row`` of ``new``."""
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
