"""The content of an index: documents in the order of their ids, the counts of their words, their vectors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atc.catalogue.index.documents import (
    Document,
    DocumentFields,
    Documents,
    HeldDocuments,
    document_fields,
    text_for_encoder,
)
from atc.catalogue.index.lexical import Counts, LexicalIndex, count
from atc.catalogue.index.vectors import Encoder, Vectors
from atc.errors import UsageError
from atc.schemas.protocol import Protocol
from atc.tools.tool import Toolset

Progress = Callable[[str, int, int], None]
"""Called with what is being done (``"reading"``, ``"embedding"``, ``"writing"``), how much is done and how much in all
(0 where nobody knows)."""

Tools = Toolset | Iterable[Protocol] | Iterable[tuple[str, Protocol]]

DIGEST = 16  # bytes of a text's digest
MOST = 50_000
"""Tools of an index at most: the largest catalogue that is measured has 47,092."""
BLOCK = 256
"""Texts that are embedded at a time."""
_EVERY = 1_000


@dataclass(frozen=True)
class Snapshot:
    """An index at one moment; it is never changed, a change makes another.

    Attributes:
        ids: sorted, so that a document's row is its place among equal scores.
        documents: the protocols.
        counts: their words.
        digests: of the text that the encoder reads, a row of bytes for each document.
        lexical: the scores of words.
        vectors: the vectors, or ``None`` where no encoder was there.
    """

    ids: Sequence[str]
    documents: Documents
    counts: Counts
    digests: NDArray[np.uint8]
    lexical: LexicalIndex
    vectors: Vectors | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def rows(self) -> dict[str, int]:
        """Return the row of each id."""
        return {id: row for row, id in enumerate(self.ids)}


def read(tools: Tools, progress: Progress) -> tuple[Snapshot, list[str]]:
    """Take tools apart for an index.

    The protocols of a toolset are in memory anyway and are held. Others may be a stream: they become lines, which take
    less memory.

    Args:
        tools: at most :data:`MOST`.
        progress: told how many were read.

    Returns:
        The index, without vectors; and the text of each of its tools that an encoder reads.

    Raises:
        UsageError: two tools have the same id, one is no protocol (the id is named), or they are too many.
    """
    total = len(tools) if isinstance(tools, Toolset | list | tuple) else 0
    if total > MOST:
        raise UsageError(_too_many(f"{total:,}"))
    ids: dict[str, None] = {}
    held, lines = list[Protocol](), list[bytes]()
    texts = list[str]()

    def taken() -> Iterator[DocumentFields]:
        for id, protocol in _pairs(tools):
            if id in ids:
                raise UsageError(f"two tools have the id {id!r}: give each tool of an index an id of its own")
            if len(ids) == MOST:
                raise UsageError(_too_many("more"))
            ids[id] = None
            found = document_fields(id, protocol)
            if isinstance(tools, Toolset):
                held.append(protocol)
            else:
                lines.append(line_of(id, protocol))
            texts.append(text_for_encoder(found))
            if len(ids) % _EVERY == 0:
                progress("reading", len(ids), total)
            yield found

    counts = count(taken())
    progress("reading", len(ids), len(ids))
    given = list(ids)
    order = sorted(range(len(given)), key=given.__getitem__)
    rows = np.array(order, np.int64)
    counts, texts = counts.take(rows), [texts[row] for row in order]
    made = Snapshot(
        ids=[given[row] for row in order],
        documents=HeldDocuments([held[row] for row in order]) if held else [lines[row] for row in order],
        counts=counts,
        digests=np.frombuffer(b"".join(map(digest, texts)), np.uint8).reshape(-1, DIGEST),
        lexical=LexicalIndex(counts),
    )
    return made, texts


def _too_many(found: str) -> str:
    return (
        f"an index holds {MOST:,} tools at most, and there are {found}: leave out tools that no task needs, or make "
        "several indexes, by service or by kind, and name the one that fits the task"
    )


def embedded(
    made: Snapshot, texts: Sequence[str], old: Snapshot | None, encoder: Encoder, progress: Progress
) -> Vectors:
    """Return the vectors of documents, in their order: a text that several have is embedded once.

    Args:
        made: the documents.
        texts: what the encoder reads of each.
        old: an index of this encoder, whose vectors are taken over where the text is the same.
        encoder: makes what is missing.
        progress: called with the numbers of embedded texts and of all that must be.

    Raises:
        ModelError: the encoder failed in the middle of work.
    """
    found = Vectors(np.zeros((len(made), encoder.dimensions), np.int8), np.zeros(len(made), np.float32))
    known = old.vectors if old is not None else None
    before = {} if old is None or known is None else {old.digests[row].tobytes(): row for row in range(len(old))}
    rows_of: dict[bytes, list[int]] = {}
    for row in range(len(made)):
        rows_of.setdefault(made.digests[row].tobytes(), []).append(row)
    missing = [rows for text, rows in rows_of.items() if text not in before]
    for text in rows_of.keys() & before.keys():
        assert known is not None
        found.put(rows_of[text], known, before[text])
    for at in range(0, len(missing), BLOCK):
        progress("embedding", at, len(missing))
        some = missing[at : at + BLOCK]
        vectors = Vectors.of(encoder.encode([texts[rows[0]] for rows in some]))
        for place, rows in enumerate(some):
            found.put(rows, vectors, place)
    progress("embedding", len(missing), len(missing))
    return found


def digest(text: str) -> bytes:
    """Return a digest that identifies a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:DIGEST]


def protocol_of(document: Document) -> Protocol:
    """Return the protocol that a document is, or that its line holds.

    Raises:
        ValueError: it is none.
    """
    return document if isinstance(document, Protocol) else Protocol.model_validate(json.loads(document))


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
