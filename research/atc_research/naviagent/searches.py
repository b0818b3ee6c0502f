"""The searches of NaviAgent, literally as its appendix B.2 prints them: baselines to compare ours with.

They walk a graph of two kinds of nodes, APIs and parameters, backward from a target API, and give a set of APIs without
an order. They are compared with the exact search (:mod:`atc_research.naviagent.search`).

Where the paper contradicts itself the printed algorithm is taken, where it leaves something open a choice is made. Both
are named where they are made.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import exp, floor, log, sqrt

Api = str
Parameter = tuple[str, str]
Node = Api | Parameter
"""An API by its key; a parameter by the API that takes it and its name."""


@dataclass(frozen=True)
class PaperGraph:
    """A weighted graph of APIs and parameters (§3.2.1).

    The paper unifies parameters of different APIs by clustering; here each API has its own, which is what tells an API
    that supplies a parameter from one that only has a parameter of that name.

    Attributes:
        before: of each node those with an edge to it, with the edge's weight, in the order in which they are walked.
    """

    before: Mapping[Node, Sequence[tuple[Node, float]]]

    @classmethod
    def of(
        cls, supplied: Mapping[Parameter, Mapping[Api, float]], follows: Mapping[tuple[Api, Api], float] | None = None
    ) -> PaperGraph:
        """Make one.

        Args:
            supplied: of each parameter the APIs that supply it, with a weight from 0 to 1. The edge from a parameter to
                its own API weighs 1, as a required parameter is in each of its calls (Eq. 4).
            follows: weights of behavioural edges from API to API.
        """
        before: dict[Node, list[tuple[Node, float]]] = {}
        for (api, name), suppliers in supplied.items():
            before.setdefault(api, []).append(((api, name), 1.0))
            before[api, name] = list(suppliers.items())
        for (first, second), weight in (follows or {}).items():
            before.setdefault(second, []).append((first, weight))
        return cls({node: sorted(some, key=_by_weight) for node, some in before.items()})

    def parameters(self, api: Api) -> list[Parameter]:
        """The parameters of an API that others supply."""
        return [node for node, _ in self.before.get(api, ()) if not isinstance(node, str)]


def _by_weight(edge: tuple[Node, float]) -> tuple[float, bool, tuple[str, ...]]:
    """The surest first: the paper gives no order."""
    node, weight = edge
    return -weight, isinstance(node, str), (node,) if isinstance(node, str) else node


# -- algorithm 1 -------------------------------------------------------------------------------------------------------

ALPHA, BETA, LONGEST = 0.4, 0.9, 5


def alpha_beta(graph: PaperGraph, target: Api) -> frozenset[Api]:
    """Alpha-beta backward pruning (Algorithm 1, Eq. 18): the APIs of the subgraph that is left, with the target.

    As printed, against the text: ``β ← max(β, 1.15 s)``, where the text has ``min``; both prunings stand under "if the
    node is a parameter", where the text prunes by β at APIs; pruning by β ends the loop over all predecessors.

    Chosen: "Q.pop()" takes the newest node, since the text speaks of a depth-first search. A target's direct
    predecessor has depth 0; with depth 1 not even the target's own parameters would be left. The weight to "the target
    parameter" is that of the heaviest edge to one of the target's parameters. In ``p → u`` and in ``PathLength(u, …)``
    ``u`` is the node that is in hand.

    What follows from the constants: past the first hop a parameter is kept only if all its three weights are near 1,
    and α soon grows beyond all that is found.
    """
    alpha, beta = ALPHA, BETA
    to_api = dict(graph.before.get(target, ()))
    to_parameter: dict[Node, float] = {}
    for parameter in graph.parameters(target):
        for node, weight in graph.before.get(parameter, ()):
            to_parameter[node] = max(weight, to_parameter.get(node, 0.0))
    depths: dict[Node, int] = {target: -1}
    queue: list[Node] = [target]
    while queue:
        node = queue.pop()
        for before, weight in graph.before.get(node, ()):
            if before in depths:
                continue
            depth = depths[node] + 1
            score = (weight + to_api.get(before, 0.0) + to_parameter.get(before, 0.0)) / 3 / (1 + sqrt(depth))
            if not isinstance(before, str):
                if score < max(0.3, 0.5 * 0.9**depth) and score < alpha:
                    continue
                if score > beta:
                    break
            alpha, beta = max(alpha, score * 0.85), max(beta, score * 1.15)
            depths[before] = depth
            queue.append(before)
    near = _distances(graph, target, frozenset(depths))
    return frozenset(node for node in depths if isinstance(node, str) and near.get(node, LONGEST + 1) <= LONGEST)


def breadth_first(graph: PaperGraph, target: Api, longest: int = LONGEST) -> frozenset[Api]:
    """All APIs from which so many edges lead to the target: the floor, and what the others can find at most."""
    return frozenset(
        node for node, away in _distances(graph, target).items() if away <= longest and isinstance(node, str)
    )


def _distances(graph: PaperGraph, target: Api, within: Collection[Node] | None = None) -> dict[Node, int]:
    away: dict[Node, int] = {target: 0}
    queue: deque[Node] = deque([target])
    while queue:
        node = queue.popleft()
        if away[node] < LONGEST:
            for before, _ in graph.before.get(node, ()):
                if before not in away and (within is None or before in within):
                    away[before] = away[node] + 1
                    queue.append(before)
    return away


# -- algorithm 2 -------------------------------------------------------------------------------------------------------

TEMPERATURE, COOLING, POPULATION, DEEPEST, ELITE, ROUNDS = 200.0, 0.7, 20, 4, 0.6, 10


@dataclass
class _Chromosome:
    """A supplier for each parameter that was reached. What is decoded is the part that leads to the target."""

    genes: dict[Parameter, Api]
    fitness: float = field(default=0.0)


def hybrid(graph: PaperGraph, targets: Iterable[Api], seed: int = 0) -> frozenset[Api]:
    """The hybrid heuristic search (Algorithm 2, Eq. 19): the APIs of the merged subgraphs, with the targets.

    One search for each target, here one after the other; the paper runs them at once.

    Chosen: a chromosome gives each parameter a supplier, drawn by the edges' weights; parameters deeper than the
    largest depth, counted in APIs, have none. Crossover takes each gene from either of two parents of the elite.
    Mutation with intensity ``⌊T/100⌋`` draws so many genes anew. Offspring fill the population up. A draw depends on
    the seed and the target alone.

    What follows from the constants: the temperature is below 1 after nine rounds, and mutation ends after the second.
    """
    return frozenset(chain.from_iterable(_evolved(graph, target, seed) for target in targets))


def _evolved(graph: PaperGraph, target: Api, seed: int) -> frozenset[Api]:
    draw = random.Random(f"{seed}/{target}")
    population = [_grown(graph, target, {}, draw) for _ in range(POPULATION)]
    temperature, k = TEMPERATURE, 0
    while temperature > 1 and k <= ROUNDS:
        population.sort(key=lambda each: -each.fitness)
        elite = population[: floor(ELITE * POPULATION)]
        offspring: list[_Chromosome] = []
        while len(elite) + len(offspring) < POPULATION:
            one, other = draw.sample(elite, 2)
            genes = dict(one.genes)
            for parameter, api in other.genes.items():
                if parameter not in genes or draw.random() < 0.5:
                    genes[parameter] = api
            for parameter in draw.sample(sorted(genes), min(len(genes), floor(temperature / 100))):
                genes[parameter] = _drawn(graph, parameter, draw)
            offspring.append(_grown(graph, target, genes, draw))
        population = elite + offspring
        temperature *= COOLING ** (1 + k / 5)
        k += 1
    best = max(population, key=lambda each: each.fitness)
    return frozenset(node for node in _decoded(graph, target, best.genes)[0] if isinstance(node, str))


def _drawn(graph: PaperGraph, parameter: Parameter, draw: random.Random) -> Api:
    edges = graph.before[parameter]
    return draw.choices([str(api) for api, _ in edges], [max(weight, 1e-9) for _, weight in edges])[0]


def _grown(graph: PaperGraph, target: Api, genes: Mapping[Parameter, Api], draw: random.Random) -> _Chromosome:
    made: dict[Parameter, Api] = {}
    depths: dict[Api, int] = {target: 0}
    queue = deque([target])
    while queue:
        api = queue.popleft()
        if depths[api] >= DEEPEST:
            continue
        for parameter in graph.parameters(api):
            if graph.before.get(parameter):
                made[parameter] = genes[parameter] if parameter in genes else _drawn(graph, parameter, draw)
                if made[parameter] not in depths:
                    depths[made[parameter]] = depths[api] + 1
                    queue.append(made[parameter])
    return _Chromosome(made, _fitness(*_decoded(graph, target, made)))


def _decoded(
    graph: PaperGraph, target: Api, genes: Mapping[Parameter, Api]
) -> tuple[dict[Node, int], list[tuple[Node, Node, float]]]:
    depths: dict[Node, int] = {target: 0}
    edges: list[tuple[Node, Node, float]] = []
    queue = deque([target])
    while queue:
        api = queue.popleft()
        for parameter in graph.parameters(api):
            if parameter not in genes:
                continue
            supplier = genes[parameter]
            depths[parameter] = depths[api]
            edges.append((parameter, api, 1.0))
            edges.append((supplier, parameter, dict(graph.before[parameter])[supplier]))
            if supplier not in depths:
                depths[supplier] = depths[api] + 1
                queue.append(supplier)
    return depths, edges


def _fitness(depths: Mapping[Node, int], edges: Sequence[tuple[Node, Node, float]]) -> float:
    """Eq. 19.

    The paper does not define the last two terms. Chosen: weight quantification is the mean weight of the edges, path
    complexity ``1 / (1 + independent cycles)``. Closeness is taken without directions, as the mean over the APIs.
    """
    nodes, apis = len(depths), [node for node in depths if isinstance(node, str)]
    beside: dict[Node, list[Node]] = {node: [] for node in depths}
    for first, second, _ in edges:
        beside[first].append(second)
        beside[second].append(first)
    closeness = sum(_closeness(node, beside) for node in apis) / len(apis)
    density = (nodes - len(apis)) / nodes
    depth = 0.2 * exp(-sum(depths.values()) / nodes / 10) + 0.8 * exp(-nodes / 8)
    weight = sum(weight for _, _, weight in edges) / len(edges) if edges else 0.0
    complexity = 1 / (1 + max(0, len(edges) - nodes + 1))
    return 0.35 * closeness + 0.15 * log(1 + density) + 0.3 * depth + 0.15 * weight + 0.05 * complexity


def _closeness(node: Node, beside: Mapping[Node, Sequence[Node]]) -> float:
    away = {node: 0}
    queue = deque([node])
    while queue:
        at = queue.popleft()
        for other in beside[at]:
            if other not in away:
                away[other] = away[at] + 1
                queue.append(other)
    total = sum(away.values())
    return (len(away) - 1) / total if total else 0.0
