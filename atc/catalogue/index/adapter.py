"""An adapter of queries: a small matrix that draws the vectors of queries towards the tools that were used for such.

It is learnt from queries and their tools (:mod:`atc.catalogue.learn.adapter`); the encoder stays as it is, and so do
the vectors
of an index. The adapted cosines count where the best document by them is one that something was learnt for: elsewhere
the order is as it would be without.
"""

from __future__ import annotations

import base64
import json
import math
import os
import stat
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atc._host.files import make_private, write_whole
from atc._records.choices import ScorerName
from atc.catalogue.index.scorers import Query
from atc.catalogue.index.snapshot import id_digest
from atc.catalogue.index.vectors import Floats, normalised
from atc.errors import UsageError

if TYPE_CHECKING:
    from atc.catalogue.index.index import ToolIndex
    from atc.catalogue.index.snapshot import Snapshot


VERSION = 1
"""The version of the file's form."""
MAX_DIMENSIONS = 2_048
"""Components of the vectors of an encoder that an adapter is learnt for: time and file grow with their square."""
MAX_TOOLS = 50_000
"""Tools that one adapter is learnt for."""
MAX_SHARE = 10.0
"""The largest weight that a file may give."""
ENOUGH = 0.5
"""The part of an adapter's tools that an index must have, that it counts there."""
_ID_BYTES = 8
_LARGEST = 1_000.0  # no component of a matrix that was learnt comes near
MAX_BYTES = 2 * MAX_DIMENSIONS**2 * 4 // 3 + _ID_BYTES * MAX_TOOLS * 4 // 3 + 10_000
"""Bytes of a file; a larger one is none."""


@dataclass(frozen=True, eq=False)
class Adapter:
    """A :class:`~atc.catalogue.index.scorers.Column`: what was learnt of queries, for any index with these tools.

    Attributes:
        matrix: A of q + qA, of shape ``(dimensions, dimensions)``.
        encoder: the digest of the encoder whose vectors it adapts.
        tools: the :func:`~atc.catalogue.index.snapshot.id_digest` of each id that it was learnt for, sorted; no id
        itself.
        share: its weight beside :data:`~atc.catalogue.index.scorers.SHARES`, found on queries that were held out.
        pairs: queries that it was learnt from.
    """

    matrix: Floats
    encoder: str
    tools: NDArray[np.uint64]
    share: float
    pairs: int = 0
    name: ScorerName = "adapter"
    _last: list[tuple[Snapshot, AdaptedCosines | None]] = field(default_factory=list, init=False, repr=False)

    def adapted(self, vectors: Floats) -> Floats:
        """Return vectors of queries, drawn towards the tools: of shape ``(queries, dimensions)``, of length one."""
        return normalised(vectors + vectors @ self.matrix)

    def scorer(self, snapshot: Snapshot) -> AdaptedCosines | None:
        """Return the scorer; ``None`` without vectors of as many components, or with less than half of the tools."""
        for known, made in self._last:
            if known is snapshot:
                return made
        made = None
        if snapshot.vectors is not None and snapshot.vectors.values.shape[1] == len(self.matrix):
            taught = np.isin(snapshot.id_digests, self.tools)
            if taught.sum() >= ENOUGH * len(self.tools) > 0:
                made = AdaptedCosines(snapshot, self, taught)
        self._last[:] = [(snapshot, made)]
        return made

    # -- file ----------------------------------------------------------------------------------------------------------

    def write(self, path: Path) -> None:
        """Put it in a file that its owner alone can read.

        Raises:
            UsageError: it cannot be written.
        """
        record = {
            "version": VERSION,
            "encoder": self.encoder,
            "dimensions": len(self.matrix),
            "share": self.share,
            "pairs": self.pairs,
            "tools": base64.b64encode(self.tools.astype("<u8").tobytes()).decode(),
            "matrix": base64.b64encode(self.matrix.astype("<f2").tobytes()).decode(),
        }
        try:
            make_private(path.parent)
            write_whole(path, json.dumps(record))
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None

    @classmethod
    def read(cls, path: Path) -> Adapter:
        """Return an adapter from its file.

        Raises:
            UsageError: it cannot be read, is too large, damaged, or of another version.
        """
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a pipe would be waited for without end
                    raise UsageError(f"{path} is no file")
                text = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
        if len(text) > MAX_BYTES:
            raise UsageError(f"{path} is larger than an adapter can be")
        try:
            return cls._of(json.loads(text))
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            raise UsageError(f"{path} is damaged, or of another version of ATC") from None

    @classmethod
    def _of(cls, record: Mapping[str, Any]) -> Adapter:
        """Raises ValueError, TypeError or KeyError where it is no adapter of this version."""
        if record["version"] != VERSION or not isinstance(record["encoder"], str):
            raise ValueError
        size, pairs, share = record["dimensions"], record["pairs"], record["share"]
        if type(size) is not int or type(pairs) is not int or not 0 < size <= MAX_DIMENSIONS or pairs < 0:
            raise ValueError
        if type(share) not in (int, float) or not math.isfinite(share) or not 0 < share <= MAX_SHARE:
            raise ValueError
        tools = np.frombuffer(base64.b64decode(record["tools"], validate=True), "<u8").astype(np.uint64)
        matrix = np.frombuffer(base64.b64decode(record["matrix"], validate=True), "<f2").astype(np.float32)
        if not 0 < len(tools) <= MAX_TOOLS or not np.all(tools[1:] > tools[:-1]):
            raise ValueError
        if matrix.size != size * size or not np.all(np.abs(matrix) <= _LARGEST):  # NaN is none
            raise ValueError
        return cls(matrix.reshape(size, size), record["encoder"], tools, float(share), pairs)


@dataclass(frozen=True)
class AdaptedCosines:
    """The cosines of the documents' vectors with the adapted query's.

    Attributes:
        taught: of each row, whether the adapter was learnt for its tool.
    """

    snapshot: Snapshot
    adapter: Adapter
    taught: NDArray[np.bool_]
    name: ScorerName = "adapter"
    second: bool = False

    @property
    def share(self) -> float:
        """Return a weight in place of the scorer's own."""
        return self.adapter.share

    def scores(self, query: Query) -> Floats | None:
        vectors = self.snapshot.vectors
        if query.vector is None or vectors is None or not len(vectors):
            return None
        found = vectors.scores(self.adapter.adapted(query.vector.reshape(1, -1))[0])
        return found if self.taught[int(np.argmax(found))] else None


# -- the user's own ----------------------------------------------------------------------------------------------------
# The user's own adapters of queries: private files in the folder of the catalogue, one for each family of tools.

MAX_FILES = 64
"""Adapters that are looked at, the newest."""
_DRAFT_S = 3_600
"""Seconds after which nobody writes a draft any more."""
_PREFIX, _SUFFIX, _BEFORE = "ranking-", ".json", ".before.json"


class OwnAdapters:
    """The adapters in one folder. Reading never fails: a damaged file counts as none.

    Args:
        folder: of the setting ``catalogue``.

    Attributes:
        notices: which files do not count, and why, as of the last reading.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, tuple[tuple[int, int], Adapter | str]] = {}
        self.notices: tuple[str, ...] = ()

    def columns(self, index: ToolIndex) -> Sequence[Adapter]:
        """Return what counts for an index: one adapter at most."""
        return [adapter for _, adapter in filter(None, [self.find(index)])]

    def find(self, index: ToolIndex) -> tuple[Path, Adapter] | None:
        """Return the adapter with the most of its tools in an index, at least half, and its encoder; with its file."""
        best: tuple[int, str, Path, Adapter] | None = None
        for path, adapter in self._read():
            if adapter.encoder == index.encoder_digest and (scorer := adapter.scorer(index.snapshot)) is not None:
                found = (int(scorer.taught.sum()), path.name, path, adapter)
                best = max(best or found, found, key=lambda each: each[:2])
        return None if best is None else best[2:]

    def keep(self, adapter: Adapter, index: ToolIndex) -> Path:
        """Keep an adapter, in the place of the one that counts for the index until now, which can be had back.

        Raises:
            UsageError: it cannot be written.
        """
        for draft in self._drafts():
            with suppress(OSError):
                if time.time() - draft.stat().st_mtime > _DRAFT_S:
                    draft.unlink()
        known = self.find(index)
        if known is None:
            path = self._folder / f"{_PREFIX}{id_digest(adapter.encoder + str(adapter.tools.tolist())):016x}{_SUFFIX}"
            _before(path).unlink(missing_ok=True)
        else:
            path, old = known
            old.write(_before(path))
        adapter.write(path)
        return path

    def roll_back(self, index: ToolIndex) -> Adapter | None:
        """Go back to the adapter before; ``None``: there was none, and ranking is as without.

        Raises:
            UsageError: nothing was learnt for these tools, or a file cannot be changed.
        """
        known = self.find(index)
        if known is None:
            raise UsageError("there is nothing to roll back: no ranking was learnt for these tools")
        path, _ = known
        try:
            if _before(path).exists():
                os.replace(_before(path), path)
            else:
                path.unlink()
        except OSError as error:
            raise UsageError(f"{path} cannot be rolled back: {error.strerror}") from None
        found = self.find(index)
        return None if found is None else found[1]

    def forget(self, ids: Collection[str] | None = None) -> int:
        """Delete the adapters that were learnt for some tools, and those before them; all when not given.

        An adapter cannot forget one of its tools alone. Damaged ones are deleted too: nobody can say what is in them.

        Returns:
            How many files are gone.

        Raises:
            UsageError: a file cannot be deleted; those before it are gone.
        """
        named = None if ids is None else np.array([id_digest(id) for id in ids], np.uint64)
        gone = 0
        for draft in self._drafts():
            with suppress(OSError):
                draft.unlink()
        for path in self._files(before=True):
            adapter = _read(path)
            if named is None or isinstance(adapter, str) or bool(np.isin(named, adapter.tools).any()):
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    raise UsageError(f"{path} cannot be deleted: {error.strerror}. Delete it by hand") from None
                gone += 1
        return gone

    def _read(self) -> Iterator[tuple[Path, Adapter]]:
        """Yield the adapters; a file that has not changed is not read again."""
        known, notices = {}, []
        found: list[tuple[tuple[int, int], Path]] = []
        for path in self._files():
            with suppress(OSError):
                state = path.stat()
                found.append(((state.st_mtime_ns, state.st_size), path))
        for stamp, path in sorted(found, reverse=True)[:MAX_FILES]:
            before = self._known.get(path)
            adapter = before[1] if before is not None and before[0] == stamp else _read(path)
            known[path] = (stamp, adapter)
            if isinstance(adapter, str):
                notices.append(f"what was learnt of ranking does not count: {adapter}; `atc tools learn` makes it anew")
        self._known, self.notices = known, tuple(notices)
        for path, (_, adapter) in known.items():
            if not isinstance(adapter, str):
                yield path, adapter

    def _drafts(self) -> list[Path]:
        """Return what a process that was killed while it wrote has left, and what another one writes right now."""
        with suppress(OSError):
            return sorted(self._folder.glob(f".{_PREFIX}*{_SUFFIX}.*"))
        return []

    def _files(self, *, before: bool = False) -> list[Path]:
        with suppress(OSError):
            found = sorted(self._folder.glob(f"{_PREFIX}*{_SUFFIX}"))
            return [path for path in found if before or not path.name.endswith(_BEFORE)]
        return []


def _before(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(_SUFFIX) + _BEFORE)


def _read(path: Path) -> Adapter | str:
    """Return an adapter, or what is wrong with its file."""
    try:
        return Adapter.read(path)
    except UsageError as error:
        return str(error)
