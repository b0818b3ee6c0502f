"""The ways to put tools in layers that :mod:`benchmarks.layers` compares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from atc.graph.edges import Learnt
from atc.graph.tool_graph import ToolGraph
from benchmarks.layers_data import LAYERS, LayerData, LayerTask

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
