"""The ways to put tools in layers that :mod:`benchmarks.layers` compares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from atc.graph.edges import Learnt
from atc.graph.layer_features import pair_features
from atc.graph.layer_model import LAYERS, LayerModel, layers_by
from atc.graph.link_features import Matrix
from atc.graph.tool_graph import ToolGraph
from atc.learn.layer_fit import OrderedTools, fit
from benchmarks.layers_data import ANNOTATED, LICENSED, LayerData, LayerTask

Layers = Mapping[str, int]


class Method(ABC):
    """A way to put the tools of a task in layers."""

    name: str

    def learn(self, tasks: Sequence[LayerTask]) -> None:
        """Learn from some tasks alone."""
        return  # most have nothing to learn

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
    """What the product does: schemas, then habits where they are given, then a prediction where there is one."""

    def __init__(
        self, name: str, data: LayerData, habits: Habits | None = None, predictor: Method | None = None
    ) -> None:
        self.name, self._data, self._habits, self._predictor = name, data, habits, predictor

    def learn(self, tasks: Sequence[LayerTask]) -> None:
        if self._predictor is not None:
            self._predictor.learn(tasks)

    def layers(self, task: LayerTask, tools: Sequence[str]) -> Layers:
        learnt = Learnt(habits=self._habits.of(task, tools)) if self._habits else Learnt()
        predicted = self._predictor.layers(task, tools) if self._predictor is not None else None
        found = ToolGraph(self._data.of(tools), learnt).layers(tools, predicted)
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


class PairRows:
    """The features of all pairs of a task's tools, each made once."""

    def __init__(self, data: LayerData) -> None:
        self._data = data
        self._made: dict[tuple[str, bool, tuple[str, ...]], Matrix] = {}

    def of(self, task: LayerTask, tools: Sequence[str], *, words: bool) -> Matrix:
        key = task.id, words, tuple(tools)
        if key not in self._made:
            self._made[key] = pair_features(self._data.of(tools), task.text if words else "")
        return self._made[key]


class Predictor(Method):
    """The logistic model that ships, learnt anew from what a split gives.

    Args:
        sources: those that it learns from; all when not given.
        words: with the words of the task; without them where not.
    """

    def __init__(
        self, name: str, rows: PairRows, sources: frozenset[str] | None = LICENSED, *, words: bool = True
    ) -> None:
        self.name, self._rows, self._sources, self._words = name, rows, sources, words
        self.model: LayerModel | None = None

    def learn(self, tasks: Sequence[LayerTask]) -> None:
        some = [task for task in tasks if task.ordered and (self._sources is None or task.source in self._sources)]
        self.model = fit(
            [
                OrderedTools(self._rows.of(task, list(task.layers), words=self._words), tuple(task.layers.values()))
                for task in some
            ]
        )

    def layers(self, task: LayerTask, tools: Sequence[str]) -> Layers:
        assert self.model is not None
        return layers_by(self.model.chances(self._rows.of(task, tools, words=self._words)), tools)


def methods(data: LayerData) -> list[Method]:
    """The methods that need no torch and no model, in the order of the tables."""
    habits = Habits(data)
    rows = PairRows(data)
    ours = Predictor("predictor", rows)
    return [
        AllInOne(),
        Known("schemas", data),
        Habit(habits),
        ours,
        Predictor("predictor, no task", rows, words=False),
        Predictor("predictor, all sources", rows, None),
        Predictor("predictor, data flow", rows, frozenset(data.sources) - ANNOTATED),
        Known("schemas, predictor", data, predictor=ours),
        Known("schemas, habit", data, habits),
        Known("schemas, habit, predictor", data, habits, ours),
    ]
