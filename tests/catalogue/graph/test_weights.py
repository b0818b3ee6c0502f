"""The paper's formulas, at the points where their value is known."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.catalogue.graph.edges import Counts
from atc.catalogue.graph.layers import layers_of
from atc.catalogue.graph.weights import reliability, score_after, sigmoid, weight_of


def test_the_weight_of_an_edge_is_its_share() -> None:
    assert (weight_of(3, 4), weight_of(0, 4), weight_of(0, 0), weight_of(2, 0)) == (0.75, 0, 0, 1)


def test_reliability() -> None:
    assert (reliability(Counts()), reliability(Counts(ok=9)), reliability(Counts(failed=1))) == (1, 1, 0.5)


def test_pruning_weighs_failures_and_disuse() -> None:
    one = 1 / (1 + math.exp(-1))
    assert score_after(0, 1, 0) == pytest.approx((0.5 + one) / 2)
    assert score_after(1, 1, 0) == pytest.approx(one)
    assert score_after(0, 0, 0) == pytest.approx((0.5 + 1) / 2)
    assert score_after(5, 10, 90) > score_after(5, 10, 7) > score_after(5, 10, 0) > score_after(0, 10, 0)


@given(st.floats())
def test_a_sigmoid_never_fails(value: float) -> None:
    assert math.isnan(value) or 0 <= sigmoid(value) <= 1


@given(st.dictionaries(st.integers(0, 9), st.dictionaries(st.integers(0, 9), st.floats(0.01, 1), max_size=4)))
def test_layers_hold_all_once_and_keep_every_edge_outside_of_circles(edges: dict[int, dict[int, float]]) -> None:
    nodes = list(range(10))
    layers = layers_of(nodes, edges)
    assert sorted(node for layer in layers for node in layer) == nodes
    assert layers == layers_of(nodes, {node: dict(reversed(to.items())) for node, to in reversed(edges.items())})
    depth = {node: at for at, layer in enumerate(layers) for node in layer}
    reach = {node: {node} for node in nodes}
    for _ in nodes:
        reach = {
            node: ways.union(*(reach[to] for way in ways for to in edges.get(way, ()))) for node, ways in reach.items()
        }
    for node, ways in edges.items():
        for to in ways:
            if node not in reach[to]:
                assert depth[node] < depth[to]


def test_a_long_chain_and_a_great_circle_end() -> None:
    chain = {n: {n + 1: 1.0} for n in range(5_000)}
    assert len(layers_of(list(range(5_001)), chain)) == 5_001
    circle = {n: {(n + 1) % 5_000: 1.0, (n + 7) % 5_000: 0.5} for n in range(5_000)}
    assert sum(map(len, layers_of(list(range(5_000)), circle))) == 5_000
