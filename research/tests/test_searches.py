"""The paper's searches do what the paper prints, with its constants; they are baselines, not what ATC uses."""

from __future__ import annotations

import random

import pytest

from atc_research.naviagent.searches import PaperGraph, alpha_beta, breadth_first, hybrid

CHAIN = PaperGraph.of({("d", "x"): {"c": 1.0}, ("c", "x"): {"b": 1.0}, ("b", "x"): {"a": 1.0}})


def test_alpha_beta_keeps_the_first_hop_and_prunes_what_lies_behind() -> None:
    # the target's parameter scores 2/3; α is then 0.567; the next one scores 0.333 / (1 + √2) = 0.138, and is pruned
    assert alpha_beta(CHAIN, "d") == {"d", "c"}


def test_alpha_beta_follows_apis_without_pruning_them() -> None:
    follows = {("c", "d"): 0.1, ("b", "c"): 0.1}
    assert alpha_beta(PaperGraph.of({}, follows), "d") == {"b", "c", "d"}


def test_alpha_beta_keeps_no_path_of_more_than_five_edges() -> None:
    follows = {(f"t{n + 1}", f"t{n}"): 0.5 for n in range(9)}
    assert alpha_beta(PaperGraph.of({}, follows), "t0") == {f"t{n}" for n in range(6)}


def test_breadth_first_finds_all_that_is_near() -> None:
    assert breadth_first(CHAIN, "d") == {"b", "c", "d"}  # two edges from API to API: five reach two of them
    assert breadth_first(CHAIN, "d", longest=2) == {"c", "d"}


def test_hybrid_takes_one_supplier_of_each_parameter_and_merges_the_targets() -> None:
    graph = PaperGraph.of({("pay", "order"): {"old": 0.1, "new": 0.9}, ("ship", "to"): {"address": 1.0}})
    found = hybrid(graph, ["pay", "ship"])
    assert {"pay", "ship", "address"} < found
    assert len(found & {"old", "new"}) == 1


def test_hybrid_prefers_what_is_small_and_heavy() -> None:
    graph = PaperGraph.of({
        ("pay", "order"): {"find": 1.0, "make": 0.9},
        **{("make", f"p{n}"): {f"s{n}": 0.5} for n in range(4)},
    })  # fmt: skip
    assert hybrid(graph, ["pay"]) == {"pay", "find"}


@pytest.mark.parametrize("target", ["a", "nowhere"])
def test_a_target_without_suppliers_is_found_alone(target: str) -> None:
    assert alpha_beta(CHAIN, target) == breadth_first(CHAIN, target) == hybrid(CHAIN, [target]) == {target}


def test_cycles_end_and_a_seed_decides_all() -> None:
    draw = random.Random(0)
    tools = [f"t{n}" for n in range(30)]
    supplied = {(tool, "p"): {each: draw.random() for each in draw.sample(tools, 4)} for tool in tools}
    shuffled = dict(draw.sample(sorted(supplied.items()), len(supplied)))
    graph, same = PaperGraph.of(supplied), PaperGraph.of(shuffled)
    for target in tools[:5]:
        assert hybrid(graph, [target], seed=1) == hybrid(same, [target], seed=1)
        assert alpha_beta(graph, target) == alpha_beta(same, target)
