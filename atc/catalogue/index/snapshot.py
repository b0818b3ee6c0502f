"""The content of an index: documents in the order of their ids, the counts of their words, their vectors."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atc.catalogue.index.co_usage import CoUsage, Together
from atc.catalogue.index.documents import (
    Document,
    DocumentFields,
    Documents,
    Interner,
    Joined,
    Spool,
    document_fields,
    service_of,
    text_for_encoder,
)
from atc.catalogue.index.lexical import Counts, LexicalIndex, count, merge
from atc.catalogue.index.vectors import Nearest, Vectors
from atc.errors import ToolIndexError, UsageError
from atc.schemas.protocol import Protocol
from atc.tools.tool import Toolset

Progress = Callable[[str, int, int], None]
"""Called with what is being done (``"reading"``, ``"ordering"``, ``"embedding"``, ``"writing"``, and in large indexes
``"connecting"`` near vectors), how much is done and how much in all (0 where nobody knows)."""

Tools = Toolset | Iterable[Protocol] | Iterable[tuple[str, Protocol]]

DIGEST = 16  # bytes of a text's digest
MOST = 1_000_000
"""Tools of an index at most: some 3 GB of memory while it is built. A stream without end stops here too."""
_EVERY = 1_000


@dataclass(frozen=True)
class Snapshot:
    """An index at one moment; it is never changed, a change makes another.

    Attributes:
        ids: sorted, so that a document's row is its place among equal scores.
        documents: the protocols.
        counts: their words.
        digests: of the text that the encoder reads, a row of bytes for each document.
        services: a number for each document, the same for those of one service.
        lexical: the scores of words.
        vectors: the vectors, or ``None`` where no encoder was there.
        nearest: proposes rows in an index that was saved and is too large to compare all.
        co_usage: what was used together, where it was given.
        notices: what the user may want to know of how it was read, a sentence each.
    """

    ids: Sequence[str]
    documents: Documents
    counts: Counts
    digests: NDArray[np.uint8]
    services: NDArray[np.uint64]
    lexical: LexicalIndex
    vectors: Vectors | None = None
    nearest: Nearest | None = None
    co_usage: CoUsage | None = None
    notices: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def rows(self) -> dict[str, int]:
        """Return the row of each id."""
        return {id: row for row, id in enumerate(self.ids)}

    @cached_property
    def id_digests(self) -> NDArray[np.uint64]:
        """Return the :func:`id_digest` of each id."""
        return np.array([id_digest(id) for id in self.ids], np.uint64)

    @cached_property
    def together(self) -> Together | None:
        """Return what its own column of co-usage says for ranking."""
        if self.co_usage is None or not len(self.co_usage.pairs):
            return None
        return Together(self.co_usage, self.services)


@dataclass(frozen=True)
class Batch:
    """Documents that are to be added, in the order in which they came.

    Attributes:
        digests: of the texts that the encoder reads, of shape ``(documents, 16)``.
        services: a number for the service of each.
    """

    ids: list[str]
    documents: Documents
    counts: Counts
    digests: NDArray[np.uint8]
    services: NDArray[np.uint64]


def read(tools: Tools, progress: Progress, folder: Path | None = None) -> Batch:
    """Take tools apart for an index.

    The protocols of a toolset are in memory anyway and are held. Others may be a long stream: they become lines, which
    take less memory, and of very many a file.

    Args:
        tools: of any number.
        progress: told how many were read.
        folder: of such a file; ``None``: all stays in memory.

    Raises:
        UsageError: two tools have the same id, one is no protocol (the id is named), or they are too many.
        ToolIndexError: the disk is full.
    """
    ids: list[str] = []
    documents = Spool(folder)
    texts, services = bytearray(), array("Q")

    def taken() -> Iterator[DocumentFields]:
        total = len(tools) if isinstance(tools, Toolset | list | tuple) else 0
        seen: set[str] = set()
        interner = Interner() if isinstance(tools, Toolset) else None
        for id, protocol in _pairs(tools):
            if id in seen:
                raise UsageError(f"two tools have the id {id!r}: give each tool of an index an id of its own")
            seen.add(id)
            if len(seen) > MOST:
                raise UsageError(
                    f"an index holds {MOST:,} tools at most, and there are more: build several, by service or by kind"
                )
            found = document_fields(id, protocol)
            ids.append(id)
            documents.add((interner.of(protocol) if interner else None) or line_of(id, protocol))
            texts.extend(digest(text_for_encoder(found)))
            services.append(service_number(service_of(id, protocol)))
            if len(ids) % _EVERY == 0:
                progress("reading", len(ids), total)
            yield found

    counts = count(taken())
    progress("reading", len(ids), len(ids))
    digests = np.frombuffer(texts, np.uint8).reshape(-1, DIGEST)
    return Batch(ids, documents, counts, digests, np.frombuffer(services, np.uint64))


def digest(text: str) -> bytes:
    """Return a digest that identifies a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:DIGEST]


def service_number(service: str) -> int:
    """Return the number of a service in an index."""
    return int.from_bytes(digest(service)[:8], "little")


def id_digest(id: str) -> int:
    """Return a number that stands for an id where the id itself is not to be kept."""
    return int.from_bytes(digest(id)[:8], "little")


def assembled(old: Snapshot | None, gone: set[str], batch: Batch) -> Snapshot:
    """Old documents without those that go, and new ones.

    Args:
        old: what was there; documents whose ids are in the batch are replaced.
        gone: ids that are left out.
        batch: the new documents.

    Returns:
        The snapshot, without vectors.
    """
    fresh = {id: -1 - row for row, id in enumerate(batch.ids)}
    kept = {id: row for row, id in enumerate(old.ids) if id not in gone and id not in fresh} if old else {}
    origin = fresh if not kept else kept | fresh
    ids = sorted(origin)
    rows = np.array([origin[id] for id in ids], np.int64)
    counts = merge(old.counts if old else count(()), batch.counts, rows)
    return Snapshot(
        ids=ids,
        documents=Joined.of(old.documents if old else [], batch.documents, rows),
        counts=counts,
        digests=_rows_of(
            old.digests if old else np.zeros((0, DIGEST), np.uint8),
            batch.digests,
            rows,
        ),
        services=_rows_of(old.services if old else np.zeros(0, np.uint64), batch.services, rows),
        lexical=LexicalIndex.build(counts),
    )


def _rows_of(old: NDArray[Any], new: NDArray[Any], origin: NDArray[np.int64]) -> NDArray[Any]:
    """Return rows of two arrays: ``row`` of the old one, or ``-1 - row`` of the new one."""
    made = np.empty((len(origin), *new.shape[1:]), new.dtype)
    kept = origin >= 0
    made[kept], made[~kept] = old[origin[kept]], new[-1 - origin[~kept]]
    return made


def protocol_of(document: Document) -> Protocol:
    """Return the protocol that a document is, or that its line holds.

    Raises:
        ValueError: it is none.
    """
    return document if isinstance(document, Protocol) else Protocol.model_validate(json.loads(document))


def text_of(snapshot: Snapshot, row: int) -> str:
    """Return what the encoder reads of a document.

    Raises:
        ToolIndexError: the document is damaged.
    """
    id = snapshot.ids[row]
    try:
        return text_for_encoder(document_fields(id, protocol_of(snapshot.documents[row])))
    except ValueError as error:
        raise ToolIndexError(f"the document of {id!r} in the index is damaged ({error}): build it anew") from None


def line_of(id: str, document: Document) -> bytes:
    """Return a document as a line of JSON.

    Raises:
        UsageError: it cannot be written so.
    """
    if isinstance(document, bytes):
        return document
    try:
        fields = document.model_dump(mode="json", exclude_defaults=True)
        return json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"the protocol of {id!r} cannot be written as JSON: {error}") from None


def _pairs(tools: Tools) -> Iterator[tuple[str, Protocol]]:
    if isinstance(tools, Toolset):
        yield from ((name, tool.protocol) for name, tool in tools.items())
        return
    for item in tools:
        id, protocol = (item.name, item) if isinstance(item, Protocol) else _pair(item)
        yield id, protocol


def _pair(item: Any) -> tuple[str, Protocol]:
    if isinstance(item, tuple) and len(item) == 2:
        id, protocol = item
        if isinstance(id, str) and id and isinstance(protocol, Protocol):
            return id, protocol
    raise UsageError(f"an index takes protocols, or pairs of an id and a protocol, not {item!r:.100}")
