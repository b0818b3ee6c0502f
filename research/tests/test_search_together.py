"""Ranking by what is used together: what it brings in, what it cannot do, and how it joins with the rest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.catalogue.graph.edges import Counts, Learnt
from atc.catalogue.index.index import ToolIndex
from atc.errors import UsageError
from atc_research.toolweaver.co_usage import MAX_TOGETHER, SERVICE, TOOL, CoUsage, Together
from atc_research.toolweaver.together import UsedTogether, used_in_runs
from tests.support.retrieval import HashedWords, protocol, some

WEATHER_AND_WORDS = [(("get_weather", "dictionary"), 9)]
SERVICES = [
    (id, protocol(id.replace("/", "_"), text))
    for id, text in (
        ("video/find", "Find films to watch."),
        ("video/genres", "Genres of films."),
        ("stream/sources", "Where films can be watched."),
        ("stream/prices", "Prices of subscriptions."),
        ("stream/login", "Sign in."),
        ("cinema/find", "Films in a cinema, where they can be watched."),
        ("cinema/seats", "Seats that are free."),
    )
]


def found(index: ToolIndex | UsedTogether, query: str = "the weather by the hour", limit: int = 10) -> list[str]:
    return [hit.id for hit in index.search(query, limit)]


def used(index: ToolIndex, *sets: tuple[tuple[str, ...], float]) -> UsedTogether:
    return UsedTogether(index, CoUsage.of(sets, {id: row for row, id in enumerate(index.ids)}, len(index)))


@pytest.mark.parametrize("encoder", [None, HashedWords()])
def test_a_tool_that_was_used_with_a_likely_one_comes_in(encoder: HashedWords | None) -> None:
    index = ToolIndex.build(some(), encoder)
    before = found(index)
    hits = used(index, *WEATHER_AND_WORDS).search("the weather by the hour", 10)
    assert hits[0].id == before[0] == "get_weather"
    (hit,) = [hit for hit in hits if hit.id == "dictionary"]
    assert hit.rank == 2
    assert hit.score <= hits[0].score * TOOL + 1e-6 or "dictionary" in before


def test_nothing_used_together_changes_no_order() -> None:
    plain = ToolIndex.build(some(), HashedWords())
    for sets in ([], [(("get_weather",), 5)], [(("gone", "nobody"), 5)]):
        assert found(used(plain, *sets), "weather") == found(plain, "weather")


def test_a_service_strengthens_only_what_the_task_speaks_for() -> None:
    index = ToolIndex.build(SERVICES)
    query = "films that can be watched"
    plain = {hit.id: hit.score for hit in index.search(query)}
    after = {hit.id: hit.score for hit in used(index, (("video/genres", "stream/prices"), 20)).search(query, 10)}
    assert set(after) - set(plain) == {"stream/prices"}, "it was used with video/genres itself"
    gained = {id for id, score in after.items() if score > plain.get(id, 0.0) + 1e-6}
    assert {"stream/sources", "video/find"} <= gained
    assert not {"cinema/find", "stream/login"} & gained


def test_poisoned_sets_put_no_tool_first_everywhere() -> None:
    """One tool stands in a set with every other, a million times each; another in one set with all."""
    tools = [protocol(f"tool_{n}", f"Does thing{n} alone.") for n in range(60)] + [protocol("evil"), protocol("odd")]
    index = ToolIndex.build(tools)
    honest = {n: found(index, f"thing{n}", limit=3) for n in range(60)}
    sets = [((f"tool_{n}", "evil"), 1e6) for n in range(60)] + [(tuple(t.name for t in tools), 1e6)]
    searched = used(index, *sets)
    for n in range(60):
        hits = searched.search(f"thing{n}", 3)
        assert hits[0].id == honest[n][0] == f"tool_{n}"
        gained = {hit.id: hit.score / hits[0].score for hit in hits}
        assert gained.get("evil", 0.0) < 0.06, "Eq. 5 divides by what meets everything"


@given(
    st.lists(st.tuples(st.sets(st.integers(0, 7), min_size=1, max_size=6), st.floats(1e-3, 1e6)), max_size=8),
    st.lists(st.floats(0, 1, width=32), min_size=8, max_size=8),
)
def test_what_use_adds_is_bounded(sets: list[tuple[set[int], float]], scores: list[float]) -> None:
    rows = {str(n): n for n in range(8)}
    used = CoUsage.of([({str(n) for n in ids}, count) for ids, count in sets], rows, 8)
    own = np.array(scores, np.float32)
    order = np.argsort(-own)[:4]
    likely = [(int(row), float(own[row])) for row in order]
    gained, by = Together(used, np.arange(8, dtype=np.uint64) // 3).gains(likely, own)
    assert np.all(gained <= TOOL + SERVICE * own + 1e-6)
    assert np.all(gained >= 0)
    assert np.all((by >= 0) == (gained > 0))


def test_a_task_of_very_many_tools_says_nothing() -> None:
    rows = {str(n): n for n in range(MAX_TOGETHER + 1)}
    used = CoUsage.of([(rows, 5.0), (("1", "2"), 1.0)], rows, len(rows))
    assert used.pairs.tolist() == [[1, 2]]
    assert used.totals.sum() == 2.0


def test_damaged_counts_say_nothing() -> None:
    pairs = np.array([[0, 1], [0, 2], [1, 2]], np.int32)
    counts, totals = np.array([np.nan, -5, np.inf], np.float32), np.array([np.nan, -1, np.inf], np.float32)
    likely = [(row, 1.0) for row in range(3)]
    gained, _ = Together(CoUsage(pairs, counts, totals), np.arange(3, dtype=np.uint64)).gains(
        likely, np.ones(3, np.float32)
    )
    assert np.all(np.isfinite(gained))
    assert gained[0] == 0


@pytest.mark.parametrize("count", [0, -1, float("nan"), float("inf")])
def test_a_count_is_a_number_above_0(count: float) -> None:
    with pytest.raises(UsageError, match="a count is a number above 0"):
        used(ToolIndex.build(some()), (("get_weather", "dictionary"), count))


# Runs


def learnt(*follows: tuple[str, str, float], **calls: float) -> Learnt:
    return Learnt(
        calls={tool: Counts(ok) for tool, ok in calls.items()},
        follows={(one, other): Counts(ok) for one, other, ok in follows},
    )


def by_runs(index: ToolIndex, known: Learnt) -> UsedTogether:
    return UsedTogether(index, used_in_runs(known, index.snapshot))


def test_what_runs_used_one_after_the_other_counts() -> None:
    known = learnt(("rentVehicle", "get_weather", 9), ("gone", "get_weather", 9), get_weather=9)
    assert found(by_runs(ToolIndex.build(some()), known))[:2] == ["get_weather", "rentVehicle"]


def test_counts_that_contradict_each_other_make_nothing_surer() -> None:
    """A tool that ran beside everything was called as often, whatever the store says."""
    known = learnt(*(("hub", f"tool_{n}", 50) for n in range(40)), hub=1)
    tools = [protocol("hub", "A hub."), *(protocol(f"tool_{n}", f"thing{n}") for n in range(40))]
    first, *others = by_runs(ToolIndex.build(tools), known).search("thing3", 5)
    assert first.id == "tool_3"
    assert all(hit.score <= TOOL * 0.35 * first.score for hit in others)
