"""The tasks whose tools stand in layers: ``DIR/trajectories`` and ``DIR/retrieval``, read at run time."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from atc.tools.protocol import Protocol
from benchmarks.links_data import records
from benchmarks.retrieval_data import protocol_of

LAYERS = 5
"""Layers at most (L of the paper); what would stand in later ones stands in the last."""
NEAR, FAR = 3, 2
"""Tools that a task does not need: of the same service, and of the same source."""


@dataclass(frozen=True)
class LayerTask:
    """A task whose tools stand in layers.

    Attributes:
        layers: of each tool that the task needs the layer, shuffled; of a tool on several the first one.
        others: tools of the same source that it does not need.
    """

    id: str
    source: str
    layers: Mapping[str, int]
    others: tuple[str, ...] = ()

    @property
    def ordered(self) -> bool:
        """Whether the tools stand in more layers than one."""
        return len(set(self.layers.values())) > 1


@dataclass(frozen=True)
class LayerData:
    """All tasks, and the protocols of their tools."""

    tasks: Sequence[LayerTask]
    protocols: Mapping[str, Protocol]

    @property
    def sources(self) -> list[str]:
        """The sources that have a task with several layers."""
        return sorted({task.source for task in self.tasks if task.ordered})

    def of(self, tools: Sequence[str]) -> dict[str, Protocol]:
        """The protocols of some tools."""
        return {tool: self.protocols[tool] for tool in tools}


def layer_data(directory: Path) -> LayerData:
    """The tasks of all sources.

    Raises:
        EnvironmentProblem: the data is not there.
    """
    found = [each for each in records(directory / "trajectories/trajectories.jsonl.gz") if each.get("layers")]
    used = {call["tool"] for record in found for call in record["calls"]}
    protocols: dict[str, Protocol] = {}
    for file in ("corpus_other", "corpus_toolbench"):
        for each in records(directory / f"retrieval/{file}.jsonl.gz"):
            if each["id"] in used:
                protocols[each["id"]] = protocol_of(each)
    tasks = []
    for record in found:
        layers: dict[str, int] = {}
        for call, layer in zip(record["calls"], record["layers"], strict=True):
            layers[call["tool"]] = min(layers.get(call["tool"], LAYERS - 1), layer)
        if layers.keys() <= protocols.keys():
            source = "nestful" if record["source"].startswith("nestful") else record["source"]
            order = list(layers)
            random.Random(record["id"]).shuffle(order)
            shuffled = {tool: layers[tool] for tool in order}
            tasks.append(LayerTask(record["id"], source, shuffled))
    return LayerData(_with_others(tasks), protocols)


def _with_others(tasks: Sequence[LayerTask]) -> list[LayerTask]:
    """The tasks, each with tools that it does not need: always the same ones."""
    of_source: defaultdict[str, set[str]] = defaultdict(set)
    for task in tasks:
        of_source[task.source].update(task.layers)
    made = []
    for task in tasks:
        rng = random.Random(f"{task.id} others")
        pool = sorted(of_source[task.source] - task.layers.keys())
        services = {_service(tool) for tool in task.layers}
        near = [tool for tool in pool if _service(tool) in services]
        drawn = rng.sample(near, min(NEAR, len(near))) + rng.sample(pool, min(FAR, len(pool)))
        made.append(replace(task, others=tuple(dict.fromkeys(drawn))))
    return made


def _service(tool: str) -> str:
    return tool.rpartition("/")[0]
