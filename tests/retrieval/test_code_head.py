"""A head that says codes: before training it gives cosines, it is saved with the codes, and dropped when unsound."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from atc.errors import UsageError
from atc.learn import head as training
from atc.learn.code_ranking import learn_head
from atc.learn.head import train_head
from atc.learn.pairs import Pair, TooLittle
from atc.retrieval.code_head import CodeHead, Sayer, head_fault
from atc.retrieval.code_tree import CodeTree
from atc.retrieval.codes import Codes, CodesFacts
from atc.retrieval.encoder import normalised
from atc.retrieval.index import ToolIndex
from atc.retrieval.vectors import Floats, Vectors
from tests.support.code_head import EXTRA, SLANG, Small, pairs, tools
from tests.support.retrieval import generation, protocol, some


@cache
def _taught() -> ToolIndex:
    index = ToolIndex.build(tools(), Small())
    index.make_codes()
    assert learn_head(index, pairs(), units=16).kept
    return index


def taught(folder: Path | None = None) -> ToolIndex:
    """An index with codes and a head that knows slang."""
    index = _taught().with_scorers()
    if folder is not None:
        index.save(folder)
    return index


def by_codes(index: ToolIndex) -> list[str]:
    """What the head finds."""
    return [hit.id for hit in index.search("drizzle please") if "codes" in hit.parts]


def drawn(tools: int, levels: int, size: int, seed: int = 0) -> tuple[Codes, Floats]:
    """Codes of some tools, all different, and vectors."""
    random = np.random.default_rng(seed)
    chosen = random.permutation(size**levels)[:tools]
    values = np.stack(np.unravel_index(chosen, (size,) * levels), axis=1).astype(np.int16)
    vectors = normalised(random.standard_normal((tools, 8)).astype(np.float32))
    books = tuple(np.zeros((size, 8), np.float32) for _ in range(levels))
    return Codes(values, books, CodesFacts("drawn")), vectors


@st.composite
def all_codes(draw: st.DrawFn) -> NDArray[np.int16]:
    levels = draw(st.integers(1, 3))
    rows = draw(st.lists(st.tuples(*[st.integers(0, 4)] * levels), max_size=30))
    return np.array(rows, np.int16).reshape(len(rows), levels)


@given(all_codes())
def test_a_tree_holds_each_beginning_once_and_all_rows(values: NDArray[np.int16]) -> None:
    tree = CodeTree.of(values)
    beginnings: list[tuple[int, ...]] = [()] if len(values) else []
    nodes = np.zeros(len(beginnings), np.int64)
    for level in range(values.shape[1]):
        nodes, parents = tree.children(level, nodes)
        beginnings = [
            (*beginnings[parent], int(code)) for parent, code in zip(parents, tree.codes[level][nodes], strict=True)
        ]
        assert beginnings == sorted({tuple(row[: level + 1]) for row in values.tolist()})
        assert [beginnings[node] for node in tree.nodes[level]] == [tuple(row[: level + 1]) for row in values.tolist()]
    rows, leaves = tree.rows(nodes)
    assert sorted(rows) == list(range(len(values)))
    assert [beginnings[leaf] for leaf in leaves] == [tuple(values[row].tolist()) for row in rows]


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_before_training_a_wide_beam_gives_the_cosines(levels: int) -> None:
    codes, vectors = drawn(60, levels, {1: 60, 2: 9, 3: 5}[levels])
    sayer = Sayer.of(CodeHead.untrained(codes, 8), codes, Vectors.of(vectors))
    rows, scores = sayer.said(vectors[7], 60, beam=60)
    cosines = Vectors.of(vectors).scores(vectors[7])
    assert rows[0] == 7
    assert sorted(rows) == list(range(60))
    np.testing.assert_allclose(scores, cosines[rows], atol=1e-6)
    assert (np.diff(scores) <= 0).all()


def test_a_narrow_beam_says_tools_that_exist() -> None:
    codes, vectors = drawn(200, 3, 7)
    sayer = Sayer.of(CodeHead.untrained(codes, 8), codes, Vectors.of(vectors))
    rows, _ = sayer.said(vectors[3], 5, beam=2)
    assert 1 <= len(set(rows)) == len(rows) <= 5


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_training_learns_what_no_vector_says(levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "RATE", 2e-2)
    codes, vectors = drawn(40, levels, {1: 40, 2: 8, 3: 4}[levels])
    random = np.random.default_rng(1)
    gold = random.integers(0, 20, 400)
    asked = normalised((np.roll(vectors, 1, axis=1)[gold] + 0.1 * random.standard_normal((400, 8))).astype(np.float32))
    wanted = [np.array([row]) for row in gold]
    first = train_head(vectors, codes, asked, wanted, seed=3, units=16, rounds=6)
    assert first.after > first.before + 0.2
    again = train_head(vectors, codes, asked, wanted, seed=3, units=16, rounds=6)
    for one, other in zip(first.head.parameters, again.head.parameters, strict=True):
        np.testing.assert_array_equal(one, other)
    assert {tuple(row) for row in first.head.taught.tolist()} <= {tuple(row) for row in codes.values[:20].tolist()}


def test_a_step_goes_down_the_slope() -> None:
    """The gradient, against differences: of all kinds of parameters, with three levels and several tools a query."""
    codes, vectors = drawn(12, 3, 3)
    random = np.random.default_rng(5)
    head = CodeHead.untrained(codes, 8, units=4)
    head = head.with_parameters(
        [each + 0.1 * random.standard_normal(each.shape).astype(np.float32) for each in head.parameters]
    )
    asked = normalised(random.standard_normal((6, 8)).astype(np.float32))
    gold = [np.array(rows) for rows in ([0], [1, 2], [3], [4], [5, 6, 7], [0])]
    weights, rows = np.ones(6, np.float32), np.arange(10)
    loss, slopes = training.slopes(head, vectors, codes.values.astype(np.int64), asked, gold, weights, rows)
    for place, (array, slope) in enumerate(zip(head.parameters, slopes, strict=True)):
        way = random.standard_normal(array.shape).astype(np.float32)
        ends = []
        for sign in (1, -1):
            moved = list(head.parameters)
            moved[place] = array + np.float32(sign * 1e-2) * way
            ends.append(
                training.slopes(
                    head.with_parameters(moved), vectors, codes.values.astype(np.int64), asked, gold, weights, rows
                )[0]
            )
        assert (ends[0] - ends[1]) / 2e-2 == pytest.approx(float((slope * way).sum()), rel=0.05, abs=2e-3)
    assert loss > 0


def test_a_head_is_saved_with_the_codes_and_ranks(tmp_path: Path) -> None:
    index = taught(tmp_path)
    loaded = ToolIndex.load(tmp_path, Small())
    for each in (index, loaded):
        hits = each.search("drizzle please")
        assert hits[0].id == "get_weather"
        assert hits[0].parts["codes"] > 0
    assert loaded.notices == ()
    assert all("codes" not in hit.parts for hit in loaded.with_scorers(on={"words"}).search("weather drizzle"))
    assert all("codes" not in hit.parts for hit in loaded.search("drizzle", mode="dense"))


def test_a_head_has_no_part_where_it_says_a_tool_that_it_never_saw(tmp_path: Path) -> None:
    index = taught(tmp_path)
    index.add([protocol("bake_bread", "Bake sourdough bread in an oven")])
    hits = index.search("bake sourdough bread in an oven")
    assert hits[0].id == "bake_bread"
    assert "codes" not in hits[0].parts
    index.remove(["get_weather"])
    assert "get_weather" not in [hit.id for hit in index.search("drizzle please")]


def test_new_codes_have_no_head() -> None:
    index = taught()
    index.make_codes(seed=1)
    assert by_codes(index) == []


def test_a_head_of_other_codes_is_left_out_with_a_notice(tmp_path: Path) -> None:
    index = taught()
    assert index.codes is not None
    books = tuple(book + 1 for book in index.codes.books)
    index.use_codes(replace(index.codes, books=books))
    assert by_codes(index) == []
    index.save(tmp_path)
    loaded = ToolIndex.load(tmp_path, Small())
    assert loaded.codes is not None
    assert not any(name.startswith("head-") for name in loaded.codes.arrays)
    assert "the head that says codes is left out: it was trained for other codes" in loaded.notices[0]


@pytest.mark.parametrize("name", ["head-00", "head-03", "head-taught", "head-of"])
def test_a_head_with_a_part_of_another_shape_cannot_be_used(name: str) -> None:
    codes = taught().codes
    assert codes is not None
    for array in (np.zeros((2, 3), np.float32), np.zeros((), np.float32)):
        assert head_fault(replace(codes, arrays={**codes.arrays, name: array}))
    rest = {other: array for other, array in codes.arrays.items() if other != name}
    assert head_fault(replace(codes, arrays=rest))
    assert not head_fault(codes)


@pytest.mark.parametrize(
    "given",
    [
        [],
        pairs()[:15],
        [Pair(f"{place} words", ("no_such_tool",)) for place in range(90)],
        [Pair("the same words", (name,)) for name in SLANG.values()] * 30,
    ],
)
def test_too_few_queries_teach_nothing(given: list[Pair]) -> None:
    index = ToolIndex.build(some(), Small())
    with pytest.raises(UsageError, match="has none"):
        learn_head(index, given)
    index.make_codes()
    with pytest.raises(TooLittle, match="too little"):
        learn_head(index, given)


def test_a_head_that_ranks_no_better_is_not_kept() -> None:
    index = ToolIndex.build(tools(), Small())
    index.make_codes()
    own = [
        Pair(f"thing of {name} kind {other}", (f"thing_{name}",)) for name in EXTRA for other in EXTRA if name != other
    ]
    learnt = learn_head(index, own, units=16)
    assert not learnt.kept
    assert learnt.held_out.queries >= 20
    assert by_codes(index) == []


def test_an_interrupted_training_leaves_the_index_as_it_was() -> None:
    def interrupt(stage: str, done: int, total: int) -> None:
        if (stage, done) == ("training", 1):
            raise KeyboardInterrupt

    index = ToolIndex.build(tools(), Small())
    before = index.make_codes()
    with pytest.raises(KeyboardInterrupt):
        learn_head(index, pairs(), units=16, progress=interrupt)
    assert index.codes is before


@pytest.mark.parametrize("described", [["Send a message"], ["Send a message"] * 2, [""] * 3])
def test_one_tool_equal_tools_and_tools_without_a_word(described: list[str]) -> None:
    vectors = np.array([[len(text) > 0, 0, 0, 0] for text in described], np.float32)
    values = np.stack([np.zeros(len(described)), np.arange(len(described))], axis=1).astype(np.int16)
    codes = Codes(values, (np.zeros((1, 4), np.float32), np.zeros((3, 4), np.float32)), CodesFacts("given"))
    asked = normalised(np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32))
    learnt = train_head(vectors, codes, asked, [np.array([0])] * 30, units=4)
    assert all(np.isfinite(each).all() for each in learnt.head.parameters)
    rows, _ = Sayer.of(learnt.head, codes, Vectors.of(vectors)).said(asked[0], 5)
    assert sorted(rows) == list(range(len(described)))
    assert len(Sayer.of(learnt.head, codes, Vectors.of(vectors)).said(np.zeros(4, np.float32), 5)[0]) == 0


def test_a_vector_that_is_no_number_is_refused() -> None:
    codes, vectors = drawn(20, 2, 5)
    asked = np.full((30, 8), np.nan, np.float32)
    with pytest.raises(UsageError, match="no number"):
        train_head(vectors, codes, asked, [np.array([0])] * 30)
    with pytest.raises(UsageError, match="names no tool"):
        train_head(vectors, codes, vectors[:12], [np.array([20])] * 12)


def test_the_manifest_stays_as_it_was(tmp_path: Path) -> None:
    index = taught(tmp_path)
    names = json.loads((tmp_path / "index.json").read_text())["files"]
    assert {name for name in names if "head" in name} == {f"codes-head-{each}.npy" for each in _names(index)}
    assert generation(tmp_path).is_dir()


def _names(index: ToolIndex) -> list[str]:
    assert index.codes is not None
    return [name.removeprefix("head-") for name in index.codes.arrays if name.startswith("head-")]
