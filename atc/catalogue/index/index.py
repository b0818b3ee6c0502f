"""The index over tools: by words, by meaning, or both, from a handful of tools to many thousands."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import get_args

from atc.catalogue.index import index_store
from atc.catalogue.index.index_store import Coded
from atc.catalogue.index.search import Hit, Mode, search_snapshot
from atc.catalogue.index.snapshot import Progress, Snapshot, Tools, embedded, protocol_of, read
from atc.catalogue.index.vectors import Encoder, Floats
from atc.catalogue.index.words import words
from atc.errors import EncoderUnavailable, LexicalOnly, ToolIndexError, UsageError
from atc.schemas.protocol import Protocol
from atc.tools.tool import Toolset

__all__ = ["Hit", "Mode", "ToolIndex"]

_NO_VECTORS = "the index has no vectors, for it was built without an encoder: build it with one"


class ToolIndex:
    """Tools that can be searched. Make one with :meth:`build` or :meth:`load`.

    Searching is safe from several threads. An index is made anew when its tools change: :meth:`build`.
    """

    def __init__(self, snapshot: Snapshot, encoder: Encoder | None, coded: Coded | None) -> None:
        self._snapshot = snapshot
        self._encoder = encoder
        self._coded = coded
        self._told = False

    @classmethod
    def build(
        cls,
        tools: Tools,
        encoder: Encoder | None = None,
        folder: str | Path | None = None,
        progress: Progress | None = None,
    ) -> ToolIndex:
        """Index tools.

        Args:
            tools: a toolset (ids are its names), protocols (ids are theirs), or pairs of an id and a protocol. What
                stands before the last ``/`` of an id counts as the tool's service, else where its protocol comes from.
                At most 50,000.
            encoder: makes the vectors of dense search; without one the index works by words alone.
            folder: where it is saved. Of an index that is there, the vectors of the same texts are taken over; one
                that is damaged or of another version is made anew.
            progress: told of each stage.

        Raises:
            UsageError: two tools have the same id, something is no protocol, or they are too many.
            EncoderUnavailable: the encoder cannot be used.
            ToolIndexError: the folder cannot be written.
            ModelError: the encoder failed in the middle of work.
        """
        told = progress or (lambda stage, done, total: None)
        coded = Coded.of(encoder) if encoder is not None else None
        made, texts = read(tools, told)
        old, of = None, None
        if folder is not None:
            with suppress(ToolIndexError):
                old, of = index_store.read(Path(folder))
        if encoder is not None:
            same = of is not None and (of.digest, of.dimensions) == (encoder.digest, encoder.dimensions)
            made = replace(made, vectors=embedded(made, texts, old if same else None, encoder, told))
        index = cls(made, encoder, coded)
        if folder is not None:
            index.save(folder, progress)
        return index

    @classmethod
    def load(cls, folder: str | Path, encoder: Encoder | None = None, tools: Toolset | None = None) -> ToolIndex:
        """Open an index that was saved.

        Args:
            folder: where it is.
            encoder: the one that it was built with; the one of this machine when not given and it is that one's.
            tools: hold the protocols of an index that was saved without them.

        Raises:
            ToolIndexError: there is none, or it is damaged, foreign or of another version.
            UsageError: its vectors are of another encoder.
        """
        snapshot, coded = index_store.read(Path(folder), tools)
        if encoder is None and coded is not None:
            encoder = coded.own()
        elif encoder is not None and coded is not None and encoder.digest != coded.digest:
            raise UsageError(
                f"the vectors in {folder} are of the encoder {coded.name!r}, not of {encoder.name!r}: "
                "load it with that one, or build it anew"
            )
        return cls(snapshot, encoder, coded)

    def __len__(self) -> int:
        return len(self._snapshot)

    def __contains__(self, id: object) -> bool:
        return id in self._snapshot.rows

    def __repr__(self) -> str:
        return f"ToolIndex({len(self)} tools, {self._coded.name if self._coded else 'words only'})"

    @property
    def ids(self) -> Sequence[str]:
        """Return all ids, sorted."""
        return self._snapshot.ids

    @property
    def encoder(self) -> Encoder | None:
        """Return the encoder of queries, if there is one."""
        return self._encoder

    @property
    def encoder_digest(self) -> str:
        """Return the digest of the encoder that the vectors are from; empty where there are none."""
        return self._coded.digest if self._coded else ""

    @property
    def snapshot(self) -> Snapshot:
        """Return what it holds at this moment."""
        return self._snapshot

    def protocol(self, id: str) -> Protocol:
        """Return the protocol of a tool, as its line of JSON gives it. Others may share its schemas: change nothing.

        Raises:
            UsageError: there is no such tool.
            ToolIndexError: its document is damaged.
        """
        row = self._row(id)
        try:
            return protocol_of(self._snapshot.documents[row])
        except (ValueError, RecursionError) as error:
            raise ToolIndexError(f"the document of {id!r} in the index is damaged ({error}): build it anew") from None

    def rows(self, ids: Iterable[str]) -> list[int]:
        """Return the places of tools among :attr:`ids`.

        Raises:
            UsageError: there is no such tool.
        """
        return [self._row(id) for id in ids]

    def save(self, folder: str | Path, progress: Progress | None = None, *, documents: bool = True) -> None:
        """Write the index, in place of one that the folder may hold; who has read that one is not disturbed.

        Args:
            folder: where it is written.
            progress: told of each stage.
            documents: also write the protocols; an index without them is loaded with its tools.

        Raises:
            ToolIndexError: it is too large, or cannot be written.
        """
        index_store.write(Path(folder), self._snapshot, self._coded, progress, documents=documents)

    def search(self, query: str, limit: int = 10, mode: Mode | None = None) -> list[Hit]:
        """Return the tools that fit a query best.

        Args:
            query: words of any kind and number.
            limit: how many at most; fewer are found where no others have anything in common with the query.
            mode: by words, by meaning, or both; when not given, both where the index has vectors. Both becomes words
                alone, with a warning (:class:`~atc.errors.LexicalOnly`, once), where it cannot be had.

        Returns:
            Best first; of equal ones the lesser id first.

        Raises:
            UsageError: an unknown mode, or a limit below 1.
            EncoderUnavailable: dense search was asked for and cannot be had.
            ModelError: the encoder failed.
        """
        return self.search_many([query], limit, mode)[0]

    def search_many(self, queries: Sequence[str], limit: int = 10, mode: Mode | None = None) -> list[list[Hit]]:
        """Search as :meth:`search` does, for several queries: an endpoint is asked for all their vectors at once."""
        mode = mode or ("hybrid" if self._coded is not None else "lexical")
        if mode not in get_args(Mode):
            raise UsageError(f"{mode!r} is no way to search: take one of {', '.join(get_args(Mode))}")
        if limit < 1:
            raise UsageError(f"a search for {limit} tools finds none: take a limit of 1 or more")
        snapshot = self._snapshot
        asked = [query if words(query) else "" for query in queries]
        vectors = self._vectors(asked, mode)
        return [
            search_snapshot(
                snapshot, query, limit, vectors[row] if vectors is not None else None, words=mode != "dense"
            )
            if query
            else []
            for row, query in enumerate(asked)
        ]

    def _warn(self, problem: EncoderUnavailable) -> None:
        if not self._told:
            self._told = True
            warnings.warn(f"tools are searched by words only: {problem}", LexicalOnly, stacklevel=5)

    def _row(self, id: str) -> int:
        try:
            return self._snapshot.rows[id]
        except KeyError:
            raise UsageError(f"the index has no tool {id!r}") from None

    def _vectors(self, queries: Sequence[str], mode: Mode) -> Floats | None:
        if mode == "lexical" or not len(self) or not any(queries):
            return None
        try:
            if self._snapshot.vectors is None:
                raise EncoderUnavailable(_NO_VECTORS)
            if self._encoder is None:
                name = self._coded.name if self._coded else "?"
                raise EncoderUnavailable(f"the index needs its encoder {name!r}: give it to ToolIndex.load")
            self._encoder.check()
        except EncoderUnavailable as problem:
            if mode == "dense":
                raise
            self._warn(problem)
            return None
        return self._encoder.encode(list(queries))
