"""What :mod:`benchmarks.codes` works with: pools of tools with their vectors, queries, and what was used together.

Queries of a source are split in two by a hash: those that something may be learnt from, and those that are asked. A
tool counts as seen where a query that was learnt from has it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from atc.errors import EnvironmentProblem
from atc.retrieval.co_usage import CoUsage
from atc.retrieval.index import ToolIndex
from atc.retrieval.minilm import MiniLM
from atc.retrieval.snapshot import Snapshot
from atc.retrieval.vectors import Floats
from benchmarks.kept_vectors import KeptVectors
from benchmarks.retrieval_data import Catalogues, Query

RESULTS = Path(__file__).with_name("results") / "codes"
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
