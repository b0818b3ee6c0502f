"""The rewards of ToolQP §3.3 and App. C.4: what each pays for, with the paper's weights, and what it forgives not."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from atc_research.toolqp.dialogue import PRODUCT, STOP, Plan, parse_plan, show_query
from atc_research.toolqp.paper_planner import PAPER
from atc_research.toolqp.rewards import (
    Weights,
    cosine,
    ends_by_stop,
    format_reward,
    plan_reward,
    retrieval_reward,
    reward,
    well_formed,
    with_plan,
)

WORDS = Plan("Tell the weather of a city.", ("find the city", "tell its weather"))
PLAN, QUERY = PRODUCT.plan(WORDS), show_query("weather by city: string")
ROLLOUT = [PLAN, QUERY, QUERY, STOP]


def bag(texts: Sequence[str]) -> list[list[float]]:
    vocabulary = sorted({word for text in texts for word in text.split()})
    return [[float(text.split().count(word)) for word in vocabulary] for text in texts]


def test_retrieval_pays_for_what_planning_gained_over_one_search() -> None:
    assert retrieval_reward(["a", "b"], ["x"], {"a", "b"}) == pytest.approx(5.0 + 2.5)
    assert retrieval_reward(["x"], ["a", "b"], {"a", "b"}) == pytest.approx(-7.5)
    assert retrieval_reward(["a", "x"], ["a", "x"], {"a"}) == 0


def test_a_better_place_pays_by_ndcg_alone() -> None:
    assert retrieval_reward(["a", "x"], ["x", "a"], {"a"}) == pytest.approx(5.0 * (1 - 1 / math.log2(3)))


def test_what_stands_beyond_the_fifth_place_pays_nothing() -> None:
    assert retrieval_reward([*"vwxyz", "a"], [], {"a"}) == 0
    assert retrieval_reward([*"vwxyz", "a"], [], {"a"}, k=6) > 0


def test_nothing_wanted_is_an_error_not_a_reward() -> None:
    with pytest.raises(ValueError, match="wanted"):
        retrieval_reward(["a"], [], set())


def test_a_rollout_in_full_form_has_the_full_format_reward() -> None:
    assert well_formed(ROLLOUT) == 1
    assert format_reward(ROLLOUT) == pytest.approx(1.5 + 0.6)
    assert format_reward(ROLLOUT, Weights(form=1, stop=1)) == 2


def test_without_a_stop_its_share_is_lost() -> None:
    assert format_reward(ROLLOUT[:-1]) == pytest.approx(1.5)
    assert not ends_by_stop([STOP])  # there was nothing to end


@pytest.mark.parametrize(
    "turn",
    [
        "weather by city",
        "<query></query>",
        "<query> - </query>",
        "<query>a</query><query>b</query>",
        "<query>a",
        "I search: <query>a</query>",
        "<query><plan></query>",
        STOP,
        f"{STOP} <query>a</query>",
        "",
        PLAN,
    ],
)
def test_a_turn_in_another_form_costs_its_share(turn: str) -> None:
    assert well_formed([PLAN, turn, QUERY, STOP]) == 3 / 4


@pytest.mark.parametrize("plan", ["1. find", "<plan>find</plan>", "<plan></plan>", f"{PLAN}\n{QUERY}", QUERY, "", STOP])
def test_a_first_turn_that_is_no_plan_costs_its_share(plan: str) -> None:
    assert well_formed([plan, QUERY, STOP]) == pytest.approx(2 / 3)


def test_queries_without_end_pay_less_and_less() -> None:
    assert well_formed([PLAN, *[QUERY] * 10, STOP]) == 1
    assert well_formed([PLAN, *[QUERY] * 19]) == pytest.approx(11 / 20)


def test_silence_earns_nothing() -> None:
    assert format_reward([]) == 0
    assert plan_reward(" ", "find the city", bag) == 0


def test_a_plan_pays_by_its_likeness_to_the_reference() -> None:
    assert plan_reward("find the city", "find the city", bag) == pytest.approx(1)
    assert plan_reward("sing a song", "find the city", bag) == 0
    assert 0 < plan_reward("find a city", "find the city", bag) < 1
    with pytest.raises(ValueError, match="reference"):
        plan_reward("find the city", "", bag)


def test_the_cosine_is_bounded_and_minds_lengths() -> None:
    assert cosine([0.1] * 3, [0.3] * 3) == pytest.approx(1)
    assert cosine([1, 0], [-1, 0]) == -1
    assert cosine([0, 0], [1, 0]) == 0
    with pytest.raises(ValueError, match="shorter"):
        cosine([1, 0], [1])


def test_the_whole_reward_is_the_sum_of_its_parts() -> None:
    got = reward(ROLLOUT, ["a"], [], {"a"}, parse_plan(PLAN).text, bag)
    assert (got.retrieval, got.form) == (pytest.approx(7.5), pytest.approx(2.1))
    assert got.plan == pytest.approx(1)
    assert got.total == pytest.approx(10.6)
    assert reward([], [], [], {"a"}, PLAN, bag).total == 0


@pytest.mark.parametrize(
    "plan",
    [
        PLAN,
        "<task_breakdown>words</task_breakdown>",
        "<task_breakdown>words</task_breakdown><sub_goals>1. find</sub_goals>",
        '<task_breakdown> </task_breakdown><sub_goals>["find"]</sub_goals>',
        '<task_breakdown>words</task_breakdown><sub_goals>["find", 2]</sub_goals>',
        "<task_breakdown>words</task_breakdown><sub_goals>[]</sub_goals>",
        '<sub_goals>["find"]</sub_goals>',
    ],
)
def test_the_papers_form_wants_words_and_a_list_of_texts(plan: str) -> None:
    assert well_formed([PAPER.plan(WORDS), QUERY, STOP], "paper") == 1
    assert well_formed([plan, QUERY, STOP], "paper") == pytest.approx(2 / 3)
    assert well_formed([PAPER.plan(WORDS), QUERY, STOP]) == pytest.approx(2 / 3)


def test_the_plan_is_rewarded_by_its_words_and_not_by_its_sub_goals() -> None:
    said = [PAPER.plan(WORDS), QUERY, STOP]
    assert reward(said, ["a"], [], {"a"}, WORDS.text, bag, form="paper").plan == pytest.approx(1)
    assert reward(said, ["a"], [], {"a"}, "sing", bag, form="paper").plan == 0


def test_a_search_with_the_plan_is_one_text() -> None:
    assert with_plan("rain?", "Tell the weather.") == "rain?\nTell the weather."
    assert with_plan("rain?", "") == "rain?"
