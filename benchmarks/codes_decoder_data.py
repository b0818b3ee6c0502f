"""What :mod:`benchmarks.codes_decoder` teaches and asks: queries with their tools, of a pool."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from atc.errors import EnvironmentProblem, UsageError
from benchmarks.codes_data import G3, CodesData, Pool, split
from benchmarks.codes_queries import read_queries
from benchmarks.retrieval_data import Query

ROUND_TRIP = 10
"""A written request counts where the hybrid ranking has its tool among so many."""


@dataclass(frozen=True)
class Task:
    """What is learnt, and what is asked.

    Attributes:
        data: where the vectors of queries are.
        texts: of each tool, in the order of the pool's rows, what it is called and does.
        pairs: queries with the id of a tool, in the order of a hash.
        described: descriptions with the id of their tool.
        asked: queries by the name of their set.
        dropped: written requests that did not find their tool.
    """

    data: CodesData
    pool: Pool
    texts: list[str]
    pairs: list[tuple[str, str]]
    described: list[tuple[str, str]]
    asked: dict[str, list[Query]]
    dropped: int = 0


def task_of(data: CodesData, name: str, written: Path | None, count: int) -> Task:
    """The task of a pool.

    Args:
        name: of the pool: a source with queries, or ``toolbench_g3``, which has none to learn from.
        written: the requests that a model wrote for the latter's tools.
        count: held-out queries of a set.

    Raises:
        UsageError: there are no queries to learn from.
        EnvironmentProblem: a file is not there.
    """
    pool = data.pool(name)
    ids = list(pool.snapshot.ids)
    protocols = [pool.index.protocol(id) for id in ids]
    texts = [f"{each.name.replace('_', ' ')}: {each.description}" for each in protocols]
    described = [(each.description, id) for each, id in zip(protocols, ids, strict=True) if each.description.strip()]
    if name != G3:
        if written is not None:
            raise UsageError(f"--written is of {G3}, not of {name}: leave it out")
        learnt, held = split(data.queries(name))
        pairs = [(query.text, tool) for query in learnt for tool in sorted(query.gold & set(ids))]
        if not pairs:
            raise UsageError(f"--pool {name} has no queries to learn from: take metatool, or {G3} with --written")
        return Task(data, pool, texts, pairs, described, {name: held[:count]})
    if written is None:
        raise UsageError(f"{G3} has no queries to learn from: give those of benchmarks.codes_queries (--written FILE)")
    if not written.is_file():
        raise EnvironmentProblem(f"{written} is not there: `python -m benchmarks.codes_queries` makes it")
    made = [(text, tool) for tool, some in read_queries(written) if tool in set(ids) for text in some]
    hits = pool.index.search_many([text for text, _ in made], ROUND_TRIP)
    good = [pair for pair, found in zip(made, hits, strict=True) if pair[1] in {hit.id for hit in found}]
    queries = [
        Query(f"written/{at}", text, frozenset([tool]), "written", G3, "", "single")
        for at, (text, tool) in enumerate(good)
    ]
    learnt, held = split(queries)
    pairs = [(query.text, tool) for query in learnt for tool in query.gold]
    asked = {"written": held[:count], "toolbench G3": data.queries("toolbench", subset="G3")}
    return Task(data, pool, texts, pairs, described, asked, len(made) - len(good))
