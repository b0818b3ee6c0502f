"""Codes without training: near for near tools, different for all, the same for the same seed."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_numpy

from atc.catalogue.index.vectors import Floats
from atc.errors import UsageError
from atc_research.toolweaver import smoothing
from atc_research.toolweaver.assignment import assigned, on_grid
from atc_research.toolweaver.clustering import squared_distances
from atc_research.toolweaver.co_usage import CoUsage
from atc_research.toolweaver.smoothing import smoothed
from atc_research.toolweaver.tokenizer import limited, tokenize, useful_size
from atc_research.toolweaver.transport import prices


def grouped(groups: int, each: int, dimensions: int = 16, seed: int = 0) -> Floats:
    """Vectors of length one around some centres."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((groups, dimensions))
    rows = np.repeat(centres, each, axis=0) + 0.2 * random.standard_normal((groups * each, dimensions))
    made: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return made


def pairs(count: int, *together: tuple[int, int]) -> CoUsage:
    ids = [str(row) for row in range(count)]
    used = [([ids[first], ids[second]], 1.0) for first, second in together]
    return CoUsage.of(used, {id: row for row, id in enumerate(ids)}, count)


# Assignment


@given(
    st.tuples(st.integers(1, 4), st.integers(0, 3)).flatmap(
        lambda shape: of_numpy.arrays(np.float64, (shape[0], sum(shape)), elements=st.integers(0, 9).map(float))
    )
)
def test_an_assignment_is_the_cheapest_of_all(costs: np.ndarray) -> None:
    rows, columns = costs.shape
    found = assigned(costs)
    assert len(set(found.tolist())) == rows
    least = min(sum(costs[range(rows), chosen]) for chosen in permutations(range(columns), rows))
    assert costs[range(rows), found].sum() == least


def test_equal_rows_share_the_nearest_columns() -> None:
    costs = np.tile(np.arange(50.0), (40, 1))
    assert sorted(assigned(costs)) == list(range(40))


def test_too_few_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="3 rows"):
        assigned(np.zeros((3, 2)))
    assert not on_grid(np.zeros((2, 2))).any()


def test_a_full_centre_keeps_the_nearest() -> None:
    vectors = np.array([[0.0], [0.1], [0.2], [5.0]], np.float32)
    centres = np.array([[0.0], [5.0], [9.0]], np.float32)
    codes = squared_distances(vectors, centres).argmin(axis=1)
    limited(vectors, centres, codes, squared_distances(vectors, centres).min(axis=1), room=2)
    assert codes.tolist() == [0, 0, 1, 1]


# Transport


def test_prices_give_every_column_its_share() -> None:
    random = np.random.default_rng(1)
    costs = random.random((200, 10)).astype(np.float32)
    costs[:, 0] -= 0.5  # what all want most
    before = np.bincount(costs.argmin(axis=1), minlength=10)
    after = np.bincount((costs - prices(costs, 0.01, 200)).argmin(axis=1), minlength=10)
    assert before.std() > 20
    assert after.std() < 2


@pytest.mark.parametrize("scale", [0.0, 1e-12, 1.0, 1e6])
def test_prices_are_numbers_whatever_the_costs(scale: float) -> None:
    costs = (scale * np.random.default_rng(2).random((30, 7))).astype(np.float32)
    assert np.isfinite(prices(costs)).all()


def test_after_transport_no_two_tools_have_the_same_codes() -> None:
    vectors = grouped(6, 40)
    codes = tokenize(vectors, None, size=32, assignment="sinkhorn")
    assert codes.facts.method == "closed-form-sinkhorn"
    assert len({tuple(row) for row in codes.values.tolist()}) == 240
    plain = tokenize(vectors, None, size=32)
    spread, nearest = (np.bincount(each.values[:, 1], minlength=32).std() for each in (codes, plain))
    assert spread < nearest


@pytest.mark.parametrize("steps", [0, 1, 40])
def test_an_assignment_that_ends_early_keeps_rows_apart(steps: int) -> None:
    rank = np.arange(30.0)
    costs = np.outer(rank, rank)  # all rows want the same columns
    columns = assigned(costs, steps)
    assert len(set(columns.tolist())) == 30
    assert costs[np.arange(30), columns].sum() >= costs[np.arange(30), assigned(costs)].sum()


# Smoothing


def test_smoothing_solves_the_equation_of_the_laplacian() -> None:
    vectors = grouped(5, 8)
    used = pairs(40, (0, 9), (9, 17), (0, 17), (3, 30), (30, 31))
    system = np.eye(40)
    for (first, second), similar in zip(used.pairs, smoothing.similarity(used), strict=True):
        system[first, first] += 2.0 * similar
        system[second, second] += 2.0 * similar
        system[first, second] -= 2.0 * similar
        system[second, first] -= 2.0 * similar
    assert np.allclose(smoothed(vectors, used, 2.0), np.linalg.solve(system, vectors), atol=1e-3)


def test_smoothing_in_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = grouped(5, 8)
    used = pairs(40, *((0, other) for other in range(1, 40)), (9, 17), (3, 30), (30, 31))
    whole = smoothed(vectors, used, 2.0)
    for at_once in (1, 7, 40):
        monkeypatch.setattr(smoothing, "_AT_ONCE", at_once)
        assert (smoothed(vectors, used, 2.0) == whole).all()


def test_of_too_many_pairs_the_surest_count(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = grouped(3, 4)
    used = pairs(12, (0, 11), (1, 2), (3, 4))
    used.totals[[0, 1, 3]] = [9, 1, 9]
    monkeypatch.setattr(smoothing, "MOST_PAIRS", 1)
    assert np.flatnonzero((smoothed(vectors, used, 1.0) != vectors).any(axis=1)).tolist() == [1, 2]


def test_tools_that_were_never_used_with_others_keep_their_vectors() -> None:
    vectors = grouped(3, 4)
    made = smoothed(vectors, pairs(12, (0, 11)), 1.0)
    assert (made[1:11] == vectors[1:11]).all()
    assert (smoothed(vectors, None, 1.0) == vectors).all()


@pytest.mark.parametrize("count", [np.nan, np.inf, -3.0, 1e30, 0.0])
def test_counts_that_are_no_counts_move_nothing_out_of_bounds(count: float) -> None:
    vectors = grouped(3, 4)
    used = pairs(12, (0, 1), (2, 3))
    used.counts[0] = used.totals[0] = count
    made = smoothed(vectors, used, 5.0)
    assert np.isfinite(made).all()
    assert np.linalg.norm(made, axis=1).max() <= 1.01


def test_a_tool_that_was_used_with_all_is_solved_too() -> None:
    vectors = grouped(10, 30)
    made = smoothed(vectors, pairs(300, *((0, other) for other in range(1, 300))), 10.0)
    assert np.isfinite(made).all()
    assert np.linalg.norm(made, axis=1).max() <= 1.01


@pytest.mark.parametrize("smoothing", [-1.0, np.nan, np.inf])
def test_a_smoothing_that_is_none_is_refused(smoothing: float) -> None:
    with pytest.raises(UsageError, match="from 0 on"):
        tokenize(grouped(2, 2), None, smoothing=smoothing)


# Codes


@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 3), st.booleans())
def test_no_two_tools_have_the_same_codes(count: int, levels: int, seed: int, equal: bool) -> None:
    vectors = np.ones((count, 8), np.float32) if equal else grouped(1, count, 8, seed)
    codes = tokenize(vectors, None, levels=levels, seed=seed)
    assert codes.values.shape == (count, levels) == (count, codes.levels)
    assert codes.values.dtype == np.int16
    assert len({tuple(row) for row in codes.values.tolist()}) == count
    assert all((codes.values[:, level] < len(book)).all() for level, book in enumerate(codes.books))


def test_a_full_code_book_is_filled_to_the_last_code() -> None:
    codes = tokenize(np.zeros((64, 4), np.float32), None, levels=3, size=4)
    assert len({tuple(row) for row in codes.values.tolist()}) == 64


def test_near_tools_share_their_first_code() -> None:
    values = tokenize(grouped(8, 8), None, size=8).values
    assert all(len(set(values[at : at + 8, 0].tolist())) == 1 for at in range(0, 64, 8))


def test_tools_that_are_used_together_share_their_first_code() -> None:
    vectors = grouped(16, 4)
    together = [(row, row + 32) for row in range(32)]
    alone, joined = (
        tokenize(vectors, pairs(64, *together), size=16, smoothing=smoothing).values[:, 0] for smoothing in (0.0, 5.0)
    )
    assert sum(joined[a] == joined[b] for a, b in together) > sum(alone[a] == alone[b] for a, b in together) + 8


def test_the_same_seed_makes_the_same_codes() -> None:
    first, second, other = (tokenize(grouped(9, 20), None, seed=seed) for seed in (3, 3, 4))
    assert (first.values == second.values).all()
    assert all((a == b).all() for a, b in zip(first.books, second.books, strict=True))
    assert (first.values != other.values).any()


def test_codes_of_no_tool_are_none() -> None:
    assert tokenize(np.zeros((0, 8), np.float32), None).values.shape == (0, 2)


def test_a_small_catalogue_gets_a_small_code_book() -> None:
    assert [useful_size(tools, 2, 1024) for tools in (0, 1, 2, 8, 199, 1_415, 47_092)] == [1, 1, 2, 4, 35, 127, 1_024]
    assert useful_size(5, 1, 1024) == 5


@pytest.mark.parametrize(
    ("levels", "size", "words"),
    [(0, 8, "levels"), (9, 8, "levels"), (2, 0, "codes"), (2, 10**6, "codes"), (2, 3, "tell at most 9")],
)
def test_sizes_that_cannot_be_are_refused(levels: int, size: int, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        tokenize(grouped(5, 2), None, levels=levels, size=size)


def test_a_vector_that_is_none_is_named() -> None:
    vectors = grouped(5, 2)
    vectors[7, 3] = np.nan
    with pytest.raises(UsageError, match="row 7"):
        tokenize(vectors, None)


def test_huge_counts_are_alike_as_small_ones_are() -> None:
    used = pairs(3, (0, 1), (0, 2))
    large = CoUsage(used.pairs, np.full(2, 3e20, np.float32), np.full(3, 3e20, np.float32))
    assert np.allclose(smoothing.similarity(large), 1.0)
