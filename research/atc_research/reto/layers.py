"""The layers of a run as its steps: which tools each step offers, and where a run that was cut off goes on.

The order is one of evidence, and evidence may lack: a tool that no step has called yet may be meant for later, if
nothing is known to depend on it, or a later layer may supply it. So it stays on offer; and so do all tools of a step
that was skipped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from atc import Run, Toolset
from atc.plugins.strategies import Feed, StoredRun, name_problem, parameters_of

MAX_LAYERS = 5
"""Steps of a task, L of RETO (§3.2, App. A.1); what would stand in later layers stands in the last one."""


@dataclass(frozen=True)
class Layers:
    """The steps of one task.

    Attributes:
        tools: names of tools, by layer; one may be in several.
        names: of the variable that has what a step found, by step.
        ahead: what each tool feeds, as far as it is known.
    """

    tools: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]
    ahead: Mapping[str, Collection[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run) -> Layers:
        """The layers of the tools that are offered, as is likely for the task; what is not placed comes first."""
        offered = [name for name in run.tools if name in run.all_tools]
        known = [[name for name in layer if name in offered] for layer in run.sketch.layers]
        placed = {name for layer in known for name in layer}
        unplaced = [name for name in offered if name not in placed]
        feeds = _feeds(run, offered)
        found = _folded([[*unplaced, *(known[0] if known else ())], *known[1:]], feeds, run.tools)
        made = at_most(found, MAX_LAYERS)
        return cls(tuple(map(tuple, made)), variables(run, len(made)), _consumers(feeds))

    def offered(self, step: int, done: Set[str], skipped: Collection[int]) -> list[str]:
        """The tools that a step offers: those of its layer, and earlier ones that may be meant for later.

        Args:
            step: from 0.
            done: the tools that were called with success.
            skipped: the steps that called nothing.
        """
        found = list(self.tools[step])
        for number, layer in enumerate(self.tools[:step]):
            later = {name for after in self.tools[number + 1 :] for name in after}
            supplied = {name for supplier in later for name in self.ahead.get(supplier, ())}
            for name in layer:
                if name in done:
                    continue
                if number in skipped or name in supplied or later.isdisjoint(self.ahead.get(name, ())):
                    found.append(name)
        return list(dict.fromkeys(found))


def at_most(layers: Sequence[Sequence[str]], most: int) -> list[list[str]]:
    """So many layers: the first ones, and all that stands behind them as the last one. None is empty."""
    rest = dict.fromkeys(name for layer in layers[most - 1 :] for name in layer)
    return [[*layer] for layer in (*layers[: most - 1], rest) if layer]


def _folded(layers: Sequence[Sequence[str]], feeds: Sequence[Feed], tools: Toolset) -> list[list[str]]:
    """Layers in which a tool stands as early as one supplier of each required argument allows.

    As an order, a tool comes after all that may feed it. A step costs a model call, and a program can call tools of its
    own layer one after the other: so what is optional, and further suppliers of the same argument, part no steps. Where
    a document requires nothing, all counts. What stands later than its edges say does so for another reason, such as
    where it stood in earlier runs: by as much it stays later.
    """
    place = {name: at for at, layer in reversed([*enumerate(layers)]) for name in layer}
    ways: dict[str, dict[str, list[str]]] = {}
    for feed in feeds:
        supplier, consumer = feed.supplier.tool, feed.consumer
        if consumer in place and supplier in place and place[supplier] < place[consumer]:
            ways.setdefault(consumer, {}).setdefault(feed.parameter, []).append(supplier)
    depth: dict[str, int] = {}
    made: dict[int, list[str]] = {}
    for at, layer in enumerate(layers):
        for name in layer:
            if name not in depth:
                into = ways.get(name, {})
                required = {each.original for each in parameters_of(tools[name].protocol) if each.required}
                known = [some for parameter, some in into.items() if parameter in required or not required]
                least = max((1 + min(depth[each] for each in some) for some in known), default=0)
                by_edges = max((1 + place[each] for some in into.values() for each in some), default=0)
                depth[name] = least + place[name] - by_edges
            here = depth[name] if place[name] == at else at  # a tool on two layers stays on the second, too
            if name not in made.setdefault(here, []):
                made[here].append(name)
    return [made[at] for at in sorted(made) if made[at]]


def variables(run: Run, count: int) -> tuple[str, ...]:
    """Names for what the steps find, none of which means anything else in a program."""
    names = []
    for number in range(1, count + 1):
        name = f"step{number}"
        while name in run.inputs or name_problem(name, run.all_tools):
            name += "_"
        names.append(name)
    return tuple(names)


def _feeds(run: Run, names: Sequence[str]) -> list[Feed]:
    graph = run.whole_graph.of(run.all_tools.only(*names).protocols)
    return [feed for name in names for feed in graph.feeds(name)]


def _consumers(feeds: Sequence[Feed]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for feed in feeds:
        found.setdefault(feed.supplier.tool, set()).add(feed.consumer)
    return found


@dataclass(frozen=True)
class CutOff:
    """Where a run was cut off.

    Attributes:
        layers: its steps.
        programs: of the step that was under way, in order.
    """

    layers: Layers
    programs: tuple[str, ...] = ()

    @classmethod
    def of(cls, run: Run, stored: StoredRun) -> CutOff | None:
        """By the trace of a run; ``None`` where no step had begun, or a tool of one is not there any more."""
        began: Mapping[str, Any] | None = None
        programs: list[str] = []
        for event in stored.latest():
            kind, data = event["kind"], event["data"]
            if kind == "layer_started":
                if began is None or began.get("layer") != data.get("layer"):  # else it was resumed before
                    programs = []
                began = data
            elif kind == "stage_started" and began is not None:
                programs = []
            elif kind == "program_written" and isinstance(program := data.get("program"), str):
                programs.append(program)
        if began is None:
            return None
        layers, names = _layers(began.get("layers"), run), began.get("variables")
        if not layers or not isinstance(names, list) or len(names) != len(layers):
            return None
        if any(name_problem(name, run.all_tools) for name in names) or len({*names}) < len(names):
            return None
        if began.get("layer") != sum(name in run.inputs for name in names) + 1:  # the trace was cut off earlier
            programs = []
        ahead = _consumers(_feeds(run, [*dict.fromkeys(name for layer in layers for name in layer)]))
        return cls(Layers(layers, tuple(names), ahead), tuple(programs))


def _layers(found: Any, run: Run) -> tuple[tuple[str, ...], ...]:
    """The layers of a trace, whose file anybody may have edited; empty where they cannot be had any more."""
    if not isinstance(found, Sequence) or not all(isinstance(layer, list) and layer for layer in found):
        return ()
    if not 1 < len(found) <= MAX_LAYERS:
        return ()
    known = all(isinstance(name, str) and name in run.all_tools for layer in found for name in layer)
    return tuple(map(tuple, found)) if known else ()
