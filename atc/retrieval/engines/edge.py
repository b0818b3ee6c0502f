"""Vectors in ``qdrant-edge``: Qdrant's engine inside this process, its files in the index's own folder.

Any number of processes read a collection; one changes it. The package has no partial reads of a file that is being
written, so a collection that is being changed is not opened by readers. It has a write-ahead log, which would keep out
all processes but one; a change that is cut off is found by :class:`~atc.retrieval.engines.base.Facts` instead, and goes
on with what was flushed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from atc.errors import ToolIndexError, VectorsUnavailable
from atc.extras import install_command
from atc.locks import lock
from atc.retrieval.engines.base import Beat, Digests, Facts, Keys
from atc.retrieval.engines.choice import EDGE, FOLDER
from atc.retrieval.vectors import Floats
from atc.whole_file import write_whole

FLAT = 20_000
"""Points up to which all are compared: no graph is made of so few."""
PAGE = 10_000
"""Points that are read at once."""
FLUSH_S = 5.0
"""Seconds of work that a killed change loses at most, about."""
_NEIGHBOURS, _EFFORT_BUILD, _EFFORT_SEARCH = 16, 64, 256
"""As of our own graph (:mod:`atc.retrieval.nearest`), so that the two compare."""
_VECTOR, _TEXT = "tool", "text"
_STATE, _LOCK, _SHARD = "state.json", ".lock", "shard"
_BEAT_S = 0.5

# The engine makes its graph in one call that nothing can interrupt, for minutes: it is made by a process that can.
_CONNECT = "import sys, qdrant_edge as q; s = q.EdgeShard.load(sys.argv[1]); s.optimize(); s.flush(); s.close()"


class EdgeEngine:
    """A collection in the folder of an index.

    Args:
        index: the folder of the index.
    """

    place = EDGE

    def __init__(self, index: Path) -> None:
        self.home: Path | None = index
        self._folder = index / FOLDER
        self._mutex = threading.Lock()
        self._shard: Any = None
        self._locked: IO[Any] | None = None
        self._flushed = time.monotonic()

    def facts(self) -> Facts | None:
        """What its state says; ``None`` also where the state cannot be read, for it is made anew then."""
        try:
            return Facts.of_record(json.loads((self._folder / _STATE).read_bytes()))
        except (OSError, ValueError, RecursionError):
            return None

    def begin(self, facts: Facts) -> None:
        """Lock the collection against other writers, and open it; one that is damaged is deleted and made anew."""
        library = _library()
        self._lock()
        if self.facts() is None:
            shutil.rmtree(self._folder / _SHARD, ignore_errors=True)
        self._write(facts)
        self.close(unlock=False)
        path = self._folder / _SHARD
        if path.exists():
            try:
                self._shard = _told(library.EdgeShard.load, str(path))
                for _ in self.held():
                    pass
            except VectorsUnavailable:
                self.close(unlock=False)
                shutil.rmtree(path)
        if self._shard is None:
            path.mkdir(parents=True)
            self._shard = _told(library.EdgeShard.create, str(path), _config(library, facts.dimensions))

    def held(self) -> Iterator[tuple[Keys, Digests]]:
        library, shard = _library(), self._opened()
        offset = None
        while True:
            asked = library.ScrollRequest(offset=offset, limit=PAGE, with_payload=[_TEXT], with_vector=False)
            records, offset = _told(shard.scroll, asked)
            if records:
                yield _keys([record.id for record in records]), _digests([record.payload for record in records])
            if offset is None:
                return

    def put(self, keys: Keys, digests: Digests, vectors: Floats) -> None:
        library, shard = _library(), self._opened()
        points = [
            library.Point(key, {_VECTOR: vector}, {_TEXT: bytes(digest).hex()})
            for key, digest, vector in zip(keys.tolist(), digests, vectors.tolist(), strict=True)
        ]
        _told(shard.update, library.UpdateOperation.upsert_points(points))
        if time.monotonic() - self._flushed >= FLUSH_S:
            _told(shard.flush)
            self._flushed = time.monotonic()

    def drop(self, keys: Keys) -> None:
        _told(self._opened().update, _library().UpdateOperation.delete_points(keys.tolist()))

    def finish(self, facts: Facts, beat: Beat) -> None:
        shard = self._opened()
        _told(shard.flush)
        many = _told(shard.count, _library().CountRequest()) > FLAT
        self.close(unlock=False)
        if many:
            self._connect(beat)
        self._write(facts)
        self.close()

    def clear(self) -> None:
        self._lock()
        self.close(unlock=False)
        shutil.rmtree(self._folder / _SHARD, ignore_errors=True)
        (self._folder / _STATE).unlink(missing_ok=True)

    def nearest(self, vector: Floats, count: int, among: Keys | None = None) -> tuple[Keys, Floats]:
        library = _library()
        with self._mutex:  # opened once, however many threads come first
            shard = self._opened()
        only = None
        if among is not None:
            only = library.Filter(must=[library.HasIdCondition(set(among.tolist()))])
        asked = library.QueryRequest(
            limit=count,
            query=library.Query.Nearest(vector.tolist(), using=_VECTOR),
            filter=only,
            params=library.SearchParams(hnsw_ef=_EFFORT_SEARCH),
        )
        found = _told(shard.query, asked)
        return _keys([point.id for point in found]), np.array([point.score for point in found], np.float32)

    def close(self, *, unlock: bool = True) -> None:
        if self._shard is not None:
            shard, self._shard = self._shard, None
            _told(shard.close)
        if unlock and self._locked is not None:
            self._locked.close()
            self._locked = None

    def _opened(self) -> Any:
        if self._shard is None:
            library = _library()
            if not (self._folder / _SHARD).is_dir():
                raise VectorsUnavailable(f"there are no vectors in {self._folder}: `atc tools index` makes them anew")
            self._shard = _told(library.EdgeShard.load, str(self._folder / _SHARD))
        return self._shard

    def _lock(self) -> None:
        if self._locked is not None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            handle = (self._folder / _LOCK).open("a+")
            try:
                lock(handle)
            except BlockingIOError:
                handle.close()
                raise ToolIndexError(
                    f"another process is changing the vectors in {self._folder} right now: wait for it, then try again"
                ) from None
        except OSError as error:
            raise ToolIndexError(f"vectors cannot be kept in {self._folder}: {error.strerror or error}") from None
        self._locked = handle

    def _write(self, facts: Facts) -> None:
        try:
            write_whole(self._folder / _STATE, json.dumps(facts.record()))
        except OSError as error:
            raise ToolIndexError(f"vectors cannot be kept in {self._folder}: {error.strerror or error}") from None

    def _connect(self, beat: Beat) -> None:
        """Let a process of its own make the graph; it has the lock as long as it lives, also without this one."""
        assert self._locked is not None
        command = [sys.executable, "-P", "-c", _CONNECT, str(self._folder / _SHARD)]
        handle = self._locked.fileno()
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, pass_fds=(handle,))
        try:
            while True:
                try:
                    _, said = process.communicate(timeout=_BEAT_S)
                    break
                except subprocess.TimeoutExpired:
                    beat()
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        if process.returncode:
            raise VectorsUnavailable(
                f"qdrant-edge could not connect the vectors in {self._folder} (exit code {process.returncode}"
                f"{': ' + said.strip()[-300:] if said.strip() else ''}): free memory and disk, then index again"
            )


def _config(library: Any, dimensions: int) -> Any:
    return library.EdgeConfig(
        vectors={_VECTOR: library.EdgeVectorParams(size=dimensions, distance=library.Distance.Dot)},
        hnsw_config=library.HnswIndexConfig(m=_NEIGHBOURS, ef_construct=_EFFORT_BUILD, full_scan_threshold=10_000),
        wal_enabled=False,
    )


def _told(method: Callable[..., Any], *given: Any) -> Any:
    """Call the engine; whatever it raises says that it cannot be had."""
    try:
        return method(*given)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the engine is no Exception
        raise VectorsUnavailable(
            f"qdrant-edge cannot read or write its vectors ({str(error)[:300]}): `atc tools index` makes them anew"
        ) from None


def _keys(ids: list[Any]) -> Keys:
    try:
        return np.array(ids, np.uint64)
    except (TypeError, ValueError, OverflowError):
        raise VectorsUnavailable("qdrant-edge holds a point that no index put there: index the tools anew") from None


def _digests(payloads: list[Any]) -> Digests:
    try:
        return np.frombuffer(bytes.fromhex("".join(each[_TEXT] for each in payloads)), np.uint8).reshape(-1, 16)
    except (TypeError, KeyError, ValueError):
        raise VectorsUnavailable("qdrant-edge holds a point that no index put there: index the tools anew") from None


def _library() -> Any:
    try:
        import qdrant_edge
    except ImportError:
        raise VectorsUnavailable(
            f"the vectors are kept in qdrant-edge, which is not installed: {install_command('vectors')}"
        ) from None
    return qdrant_edge
