"""How well tools are put in layers: those that supply others in earlier ones (RETO §3.2).

``python -m atc_research_benchmarks.layers --data DIR`` compares all tools in one layer, what schemas say, the tool's
own habit, and what the product makes of schemas and habits, on the tasks of twelve sources whose calls stand in layers.
A task is left out of the habits that it is asked with. ``--others`` adds tools that a task does not need.
"""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from atc.catalogue.graph.edges import Learnt
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.cli.console import INTERRUPTED, err
from atc.errors import EnvironmentProblem, UsageError
from atc.schemas.protocol import Protocol
from benchmarks.common import AsJson, print_json, show
from benchmarks.retrieval.data import protocol_of, records

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


Layers = Mapping[str, int]


class Method(ABC):
    """A way to put the tools of a task in layers."""

    name: str

    @abstractmethod
    def layers(self, task: LayerTask, tools: Sequence[str]) -> Layers:
        """The layer of each tool.

        Args:
            tools: of the task, in any order; there may be some that it does not need.
        """


class AllInOne(Method):
    """All tools in one layer."""

    name = "all in one"

    def layers(self, task: LayerTask, tools: Sequence[str]) -> Layers:
        return dict.fromkeys(tools, 0)


class Habits:
    """In which layers the tools of a source stood in its other tasks: each left out where it is asked about."""

    def __init__(self, data: LayerData) -> None:
        self._seen: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
        for task in data.tasks:
            for tool, layer in task.layers.items():
                self._seen[task.source, tool][layer] += 1

    def of(self, task: LayerTask, tools: Sequence[str]) -> dict[str, dict[int, float]]:
        """As the store of what runs taught would know them before this task."""
        found = {}
        for tool in tools:
            seen = Counter(self._seen[task.source, tool])
            if tool in task.layers:
                seen[task.layers[tool]] -= 1
            if kept := {layer: float(times) for layer, times in seen.items() if times > 0}:
                found[tool] = kept
        return found


class Known(Method):
    """What the product does: schemas, then habits where they are given."""

    def __init__(self, name: str, data: LayerData, habits: Habits | None = None) -> None:
        self.name, self._data, self._habits = name, data, habits

    def layers(self, task: LayerTask, tools: Sequence[str]) -> Layers:
        learnt = Learnt(habits=self._habits.of(task, tools)) if self._habits else Learnt()
        found = ToolGraph(self._data.of(tools), learnt).layers(tools)
        return {tool: min(place, LAYERS - 1) for place, some in enumerate(found) for tool in some}


class Habit(Method):
    """The tool's own habit alone: the mean of its layers in other tasks of the source."""

    name = "habit"

    def __init__(self, habits: Habits) -> None:
        self._habits = habits

    def layers(self, task: LayerTask, tools: Sequence[str]) -> Layers:
        found = dict.fromkeys(tools, 0)
        for tool, seen in self._habits.of(task, tools).items():
            found[tool] = int(sum(layer * times for layer, times in seen.items()) / sum(seen.values()) + 0.5)
        return found


def methods(data: LayerData) -> list[Method]:
    """The methods, in the order of the tables."""
    habits = Habits(data)
    return [
        AllInOne(),
        Known("schemas", data),
        Habit(habits),
        Known("schemas, habit", data, habits),
    ]


MOST = 400
"""Tasks of one source that are asked about."""


@dataclass(frozen=True)
class Figures:
    """Of some tasks: shares in percent, and Kendall's τ-b.

    Attributes:
        exact: tools in their very layer.
        pairs: of the pairs of tools in different layers, those in the right order; two tools in one layer count half.
        tau: over all pairs of a task, where order that is not there counts too; the mean of the tasks.
    """

    tasks: int
    exact: float
    pairs: float
    tau: float


def tau_b(right: Sequence[int], found: Sequence[int]) -> float:
    """Kendall's τ-b of two sequences of layers, from -1 to 1; 0 where one of them has one layer only."""
    signs = [
        (np.sign(right[i] - right[j]), np.sign(found[i] - found[j])) for i, j in combinations(range(len(right)), 2)
    ]
    both = float(sum(a * b for a, b in signs))
    untied = sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs)
    return both / float(np.sqrt(untied)) if untied else 0.0


def figures(rows: Sequence[tuple[Layers, Layers]]) -> Figures:
    """The figures of some tasks, each by its right layers and those that were found."""
    exact, pairs, taus = [], [], []
    for right, found in rows:
        exact += [found[tool] == layer for tool, layer in right.items()]
        for a, b in combinations(right, 2):
            if right[a] != right[b]:
                first, second = (a, b) if right[a] < right[b] else (b, a)
                pairs.append(1.0 if found[first] < found[second] else 0.5 if found[first] == found[second] else 0.0)
        taus.append(tau_b(list(right.values()), [found[tool] for tool in right]))
    return Figures(len(rows), 100 * float(np.mean(exact)), 100 * float(np.mean(pairs)), float(np.mean(taus)))


def asked(data: LayerData, source: str) -> list[LayerTask]:
    """The tasks of a source that are asked about: those with several layers, at most 400 by hash."""
    some = [task for task in data.tasks if task.source == source and task.ordered]
    return sorted(some, key=lambda task: hashlib.sha1(task.id.encode()).digest())[:MOST]


def measured(data: LayerData, method: Method, *, others: bool) -> list[dict[str, Any]]:
    """The rows of one method: a source each, and the mean of the sources."""
    rows: list[dict[str, Any]] = []
    for source in data.sources:
        found: list[tuple[Layers, Layers]] = []
        for task in asked(data, source):
            tools = _shuffled(task, [*task.layers, *(task.others if others else ())])
            found.append((task.layers, method.layers(task, tools)))
        rows.append({"method": method.name, "source": source, **asdict(figures(found))})
    means = {what: float(np.mean([row[what] for row in rows])) for what in ("exact", "pairs", "tau")}
    tasks = sum(row["tasks"] for row in rows)
    return [*rows, {"method": method.name, "source": "mean", "tasks": tasks, **means}]


def _shuffled(task: LayerTask, tools: Sequence[str]) -> list[str]:
    return sorted(tools, key=lambda tool: hashlib.sha1(f"{task.id} {tool}".encode()).digest())


def _show(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    lines: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        lines[row["source"]][row["method"]] = f"{row['exact']:.0f} / {row['pairs']:.0f} / {row['tau']:.2f}"
        lines[row["source"]]["tasks"] = str(row["tasks"])
    table = [[source, *(cells.get(name, "") for name in ("tasks", *names))] for source, cells in lines.items()]
    show("Layers (exact layer %, right order of pairs %, τ)", ["source", "tasks", *names], table)


def main(
    data: Annotated[
        Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/, trajectories/.")
    ] = None,
    method: Annotated[str, typer.Option(help="Only these, by name, separated by `;`.")] = "",
    others: Annotated[bool, typer.Option("--others", help="Add up to five tools that a task needs not.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure how well tools are put in layers."""
    if data is None:
        raise EnvironmentProblem("the benchmark of layers needs its data: give --data DIR or ATC_DATA")
    found = layer_data(data)
    known = {each.name: each for each in methods(found)}
    names = [name.strip() for name in method.split(";") if name.strip()] or list(known)
    if missing := [name for name in names if name not in known]:
        raise UsageError(f"there is no method {missing[0]!r}: take of {'; '.join(known)}")
    rows: list[dict[str, Any]] = []
    try:
        for name in names:
            rows += measured(found, known[name], others=others)
            err.print(name, markup=False)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json({"others": others, "rows": rows})
        return
    _show(rows, names)


if __name__ == "__main__":
    typer.run(main)
