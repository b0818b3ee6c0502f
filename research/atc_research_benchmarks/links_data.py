"""The edges that link prediction is measured on: ``DIR/retrieval`` and ``DIR/trajectories``, read at run time."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from atc.schemas.protocol import Protocol
from benchmarks.retrieval.data import protocol_of, records

Pair = tuple[str, str]
"""A provider and the tool that takes its value."""
MEASURED = ("nestools", "ultratool", "nestful", "complexfuncbench", "api_bank")
"""Sources that are reported; all others only teach."""
KINDS = ("random", "same task", "reversed")
"""Of edges that are not there."""
SMALL = 20
"""Tools of one task stay on one side of a split, where tasks hang together in groups of so many at most."""
_RANDOM = 4
_EDGES_HELD_OUT = 5
"""One pair of tools in so many is asked, where edges are held out."""
_SOURCES = {
    "ultratool_gnn": "ultratool",
    "nestful_glaive": "nestful",
    "nestful_exec": "nestful",
    "nestful_sgd": "nestful",
}
_PATH = re.compile(r"^\$(\w+)\.(.+)\$$")


@dataclass
class Gold:
    """The tools of one source, and the edges of its tasks.

    Attributes:
        edges: with the times that each occurs. ``tasks``: the tools of each.
        places: of edges whose field and parameter are known: provider, last name of the field, consumer, parameter.
    """

    source: str
    protocols: dict[str, Protocol]
    edges: Counter[Pair] = field(default_factory=Counter)
    tasks: list[tuple[str, ...]] = field(default_factory=list)
    places: set[tuple[str, str, str, str]] = field(default_factory=set)

    @cached_property
    def groups(self) -> dict[str, str]:
        """For each tool what decides on which side of a split it is: its small group of tasks, or itself."""
        parent: dict[str, str] = {}

        def root(tool: str) -> str:
            while parent.setdefault(tool, tool) != tool:
                tool = parent[tool]
            return tool

        for provider, consumer in sorted(self.edges):
            parent[root(provider)] = root(consumer)
        sizes = Counter(map(root, list(parent)))
        return {tool: root(tool) if sizes[root(tool)] <= SMALL else tool for tool in sorted(parent)}


def gold(directory: Path) -> dict[str, Gold]:
    """The sources that have edges.

    Raises:
        EnvironmentProblem: the data is not there.
    """
    found: dict[str, Gold] = {}
    trajectories = [
        record for record in records(directory / "trajectories/trajectories.jsonl.gz") if record.get("edges")
    ]
    names = {_SOURCES.get(record["source"], record["source"]) for record in trajectories}
    for record in records(directory / "retrieval/corpus_other.jsonl.gz"):
        if record["source"] in names:
            made = found.setdefault(record["source"], Gold(record["source"], {}))
            made.protocols[record["id"]] = protocol_of(record)
    for record in trajectories:
        _add(found[_SOURCES.get(record["source"], record["source"])], record)
    return found


def _add(made: Gold, record: Mapping[str, Any]) -> None:
    calls = record["calls"]
    made.tasks.append(tuple(sorted({call["tool"] for call in calls} & made.protocols.keys())))
    for i, j in record["edges"]:
        provider, consumer = calls[i]["tool"], calls[j]["tool"]
        if provider == consumer or not {provider, consumer} <= made.protocols.keys():
            continue
        made.edges[provider, consumer] += 1
        for parameter, value in (calls[j].get("args") or {}).items():
            named = _PATH.match(value) if isinstance(value, str) else None
            if named and named[1] == calls[i].get("label"):
                last = re.findall(r"[A-Za-z_]\w*", named[2])[-1:]
                made.places.update((provider, name, consumer, parameter) for name in last)


@dataclass(frozen=True)
class Part:
    """Some edges of a source, and pairs of the same tools that are none.

    Attributes:
        edges: in order. ``none``: of each of :data:`KINDS`.
    """

    gold: Gold
    edges: tuple[Pair, ...]
    none: Mapping[str, tuple[Pair, ...]]


def part(source: Gold, keep: Callable[[str], bool], seed: int = 0) -> Part:
    """The edges of which both tools are kept, and their negatives: the same ones for the same seed."""
    linked = set(source.edges)
    either = linked | {(consumer, provider) for provider, consumer in linked}
    edges = tuple(sorted(pair for pair in linked if all(map(keep, pair))))
    rng = random.Random(f"{source.source} {seed}")
    tools = [tool for tool in sorted(source.protocols) if keep(tool)]
    drawn = []
    for _, consumer in edges:
        free = (rng.choice(tools) for _ in range(20 * _RANDOM))
        drawn += [(tool, consumer) for tool in free if tool != consumer and (tool, consumer) not in either][:_RANDOM]
    together = {
        (a, b) for tools in source.tasks for a in tools for b in tools if a != b and keep(a) and keep(b)
    } - either
    beside = sorted(together)
    rng.shuffle(beside)
    back = tuple((consumer, provider) for provider, consumer in edges if (consumer, provider) not in linked)
    return Part(
        source, edges, {"random": tuple(drawn), "same task": tuple(beside[: _RANDOM * len(edges)]), "reversed": back}
    )


@dataclass(frozen=True)
class Split:
    """What is learnt from, and what is asked. ``name``: ``tools``, ``source`` or ``edges``."""

    name: str
    seed: int
    train: tuple[Part, ...]
    test: tuple[Part, ...]


def splits(sources: Mapping[str, Gold], seeds: int) -> Iterator[Split]:
    """Split the edges in three ways.

    By tools, half of all tools, drawn by hash, are never seen. By source, none of one source is. By edges, all tools
    are seen, and a fifth of their pairs is not: the usual way of link prediction, which suits networks best.
    """
    for seed in range(seeds):
        sides = [(each, _sides(each, seed)) for each in sources.values()]
        train = tuple(part(each, lambda tool, side=side: not side(tool), seed) for each, side in sides)  # type: ignore[misc]
        test = tuple(part(each, side, seed) for each, side in sides if each.source in MEASURED)
        yield Split("tools", seed, train, test)
    whole = {name: part(each, lambda tool: True) for name, each in sources.items()}
    measured = [name for name in MEASURED if name in whole]
    for seed, name in enumerate(measured):
        yield Split("source", seed, tuple(each for other, each in whole.items() if other != name), (whole[name],))
    for seed in range(seeds):
        drawn = {name: part(each, lambda tool: True, seed) for name, each in sources.items()}
        train = tuple(_pairs_of(each, seed, asked=False) for each in drawn.values())
        yield Split("edges", seed, train, tuple(_pairs_of(drawn[name], seed, asked=True) for name in measured))


def _pairs_of(whole: Part, seed: int, *, asked: bool) -> Part:
    """A pair and its reverse are on one side, whichever is an edge: else what is learnt would tell what is asked."""

    def some(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
        return tuple(pair for pair in pairs if _is_asked(whole.gold.source, pair, seed) is asked)

    return Part(whole.gold, some(whole.edges), {kind: some(pairs) for kind, pairs in whole.none.items()})


def _is_asked(source: str, pair: Pair, seed: int) -> bool:
    of_pair = f"{seed}:{source}:{'|'.join(sorted(pair))}".encode()
    return hashlib.sha256(of_pair).digest()[0] % _EDGES_HELD_OUT == 0


def _sides(source: Gold, seed: int) -> Callable[[str], bool]:
    groups = source.groups

    def held_out(tool: str) -> bool:
        return hashlib.sha1(f"{seed}:{groups.get(tool, tool)}".encode()).digest()[0] % 2 == 1

    return held_out


def by_consumer(pairs: tuple[Pair, ...]) -> dict[str, list[str]]:
    """The providers in some pairs, by consumer."""
    found: dict[str, list[str]] = defaultdict(list)
    for provider, consumer in pairs:
        found[consumer].append(provider)
    return dict(found)
