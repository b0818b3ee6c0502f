"""Pools of tools with their vectors, queries, and what was used together: for measures of a ranking that learns.

Queries of a source are split in two by a hash: those that something may be learnt from, and those that are asked. A
tool counts as seen where a query that was learnt from has it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from atc.catalogue.index import index_store
from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.minilm import MiniLM
from atc.catalogue.index.snapshot import DIGEST, Snapshot, digest
from atc.catalogue.index.vectors import Encoder, Floats, normalised
from atc.errors import EnvironmentProblem
from atc_research.toolweaver.co_usage import CoUsage
from benchmarks import common
from benchmarks.retrieval.data import Catalogues, Query

_AT_ONCE = 256


class KeptVectors:
    """An encoder in front of another, of the same name and digest.

    Args:
        inner: embeds what is not there.
        folder: where vectors are kept, in 16-bit floats, a file a batch; several processes may share it.
    """

    def __init__(self, inner: Encoder, folder: Path) -> None:
        self._inner, self._folder = inner, folder / inner.digest[:16]
        self._dtype = np.dtype([("text", f"S{DIGEST * 2}"), ("vector", "<f2", inner.dimensions)])
        self._known: dict[bytes, np.ndarray] = {}
        self._read: set[str] = set()
        self.name, self.digest, self.dimensions = inner.name, inner.digest, inner.dimensions

    def check(self) -> None:
        self._inner.check()

    def encode(self, texts: Sequence[str]) -> Floats:
        keys = [digest(text).hex().encode() for text in texts]
        if any(key not in self._known for key in keys):
            self._refresh()
        missing = [(key, text) for key, text in zip(keys, texts, strict=True) if key not in self._known]
        wanted = list(dict(missing).items())
        for at in range(0, len(wanted), _AT_ONCE):
            batch = wanted[at : at + _AT_ONCE]
            self.keep([key for key, _ in batch], self._inner.encode([text for _, text in batch]))
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        return normalised(np.array([self._known[key] for key in keys], np.float32))

    def keep(self, keys: Sequence[bytes], vectors: Floats) -> None:
        """Keep vectors under the hexadecimal digests of their texts."""
        block = np.zeros(len(keys), self._dtype)
        block["text"], block["vector"] = list(keys), vectors
        self._known |= dict(zip(keys, block["vector"], strict=True))
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._folder, suffix=".part", delete=False) as out:
            np.save(out, block, allow_pickle=False)
        os.replace(out.name, f"{out.name}.npy")
        self._read.add(f"{Path(out.name).name}.npy")

    def _refresh(self) -> None:
        for path in sorted(self._folder.glob("*.npy")):
            if path.name not in self._read:
                block = np.load(path, allow_pickle=False)
                self._known |= dict(zip(block["text"].tolist(), block["vector"], strict=True))
                self._read.add(path.name)


def main(folder: str, *indexes: str) -> None:
    """Take over the vectors of saved indexes."""
    from atc.catalogue.index.minilm import MiniLM

    kept = KeptVectors(MiniLM(), Path(folder))
    for place in indexes:
        snapshot, coded = index_store.read(Path(place))
        if coded is None or coded.digest != kept.digest or snapshot.vectors is None:
            continue
        values = np.asarray(snapshot.vectors.values, np.float32) * np.asarray(snapshot.vectors.scales)[:, None]
        kept.keep([row.tobytes().hex().encode() for row in snapshot.digests], values)
        print(place, len(snapshot))


RESULTS = common.RESULTS / "codes"
TOOLBENCH = ("toolbench", "stabletoolbench", "anytoolbench")
"""Sources of ToolBench's test queries; there are no others, so that nothing is learnt from them."""
G3 = "toolbench_g3"
"""The pool of the third part, many services a task."""


@dataclass(frozen=True)
class Pool:
    """The tools of a pool."""

    name: str
    index: ToolIndex

    @property
    def snapshot(self) -> Snapshot:
        """The content of the index."""
        return self.index._snapshot

    @cached_property
    def vectors(self) -> Floats:
        """Of the tools, in the order of the rows; of length one, of shape ``(tools, dimensions)``."""
        stored = self.snapshot.vectors
        assert stored is not None
        return np.asarray(stored.values, np.float32) * np.asarray(stored.scales)[:, None]


class CodesData:
    """The data of one directory.

    Args:
        directory: as of :class:`Catalogues`, with ``trajectories/`` for what was used together.
        kept: where vectors of texts are kept between runs.
    """

    def __init__(self, directory: Path | None, kept: Path | None = None) -> None:
        if directory is None:
            raise EnvironmentProblem("the benchmark of codes needs its data: give --data DIR or ATC_DATA")
        self.catalogues = Catalogues(directory)
        self._directory = directory
        self.encoder = KeptVectors(MiniLM(), kept or RESULTS / "vectors")
        self.encoder.check()

    def pool(self, name: str) -> Pool:
        """The tools of a pool, indexed with their vectors."""
        return Pool(name, ToolIndex.build(self.catalogues.pool(name), self.encoder))

    def queries(self, *sources: str, subset: str = "") -> list[Query]:
        """The queries of some sources, in the order of a hash.

        Args:
            subset: how the name of a part of a source begins, such as ``G3``.
        """
        found = self.catalogues.queries(None, sources)
        return [query for query in found if query.subset.startswith(subset)]

    def used_together(self) -> Iterator[tuple[Sequence[str], float]]:
        """The sets of tools of ToolBench's third part, and how often each occurred."""
        path = self._directory / "trajectories" / "cousage_toolbench_g3.jsonl.gz"
        if not path.is_file():
            raise EnvironmentProblem(f"{path} is not there: give the data's directory with --data DIR or in ATC_DATA")
        with gzip.open(path) as file:
            for line in file:
                record = json.loads(line)
                yield record["tools"], float(record["count"])

    def co_usage(self, pool: Pool, part: str = "all") -> CoUsage:
        """What was used together, by the rows of a pool.

        Args:
            part: ``learnt`` or ``held-out`` (one set of five, by a hash), or ``all``.
        """
        sets = (each for each in self.used_together() if part in ("all", _part(" ".join(sorted(each[0])))))
        return CoUsage.of(sets, pool.snapshot.rows, len(pool.snapshot))


def split(queries: Sequence[Query]) -> tuple[list[Query], list[Query]]:
    """Those to learn from, four of five, and those to ask; by a hash of their texts."""
    learnt = [query for query in queries if _part(query.text) == "learnt"]
    return learnt, [query for query in queries if _part(query.text) == "held-out"]


def _part(text: str) -> str:
    return "held-out" if hashlib.sha256(text.encode()).digest()[0] % 5 == 0 else "learnt"
