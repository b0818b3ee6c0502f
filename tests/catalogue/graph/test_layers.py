"""Layers of nodes: suppliers before what they supply, whatever else is believed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from atc.catalogue.graph.layers import layers_of, shifted

NODES = list("abcdefgh")
edges = st.dictionaries(st.sampled_from(NODES), st.dictionaries(st.sampled_from(NODES), st.floats(0.1, 1.0)))
own_layers = st.dictionaries(st.sampled_from([*NODES, "gone"]), st.integers(-2, 9))


def places(layers: tuple[tuple[str, ...], ...]) -> dict[str, int]:
    return {node: at for at, some in enumerate(layers) for node in some}


@given(edges, own_layers)
def test_what_edges_say_stays_true_whatever_the_layers_are(
    leads: dict[str, dict[str, float]], own: dict[str, int]
) -> None:
    before, after = places(layers_of(NODES, leads)), places(shifted(NODES, leads, own))
    assert after.keys() == set(NODES)
    for node, ways in leads.items():
        for to in ways:
            if to != node and before[node] < before[to]:
                assert after[node] < after[to]
    assert all(shifted(NODES, leads, own)), "no layer is empty"
    assert all([*some] == sorted(some) for some in shifted(NODES, leads, own)), "the order is kept within a layer"


@given(own_layers)
def test_without_edges_the_layers_are_their_own(own: dict[str, int]) -> None:
    after = places(shifted(NODES, {}, own))
    for one in NODES:
        for other in NODES:
            assert (after[one] < after[other]) == (max(own.get(one, 0), 0) < max(own.get(other, 0), 0))


def test_no_nodes_make_no_layers() -> None:
    assert shifted([], {}, {"a": 1}) == layers_of([], {}) == ()
