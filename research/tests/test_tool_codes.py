"""Codes beside an index: what is written is read, what does not fit is refused, tools that come later get free ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.vectors import Floats
from atc.cli import app
from atc.errors import UsageError
from atc_research.toolweaver.tokenizer import tokenize
from atc_research.toolweaver.tool_codes import FILE, Codes, carried, read_codes, vectors_of, write_codes
from tests.support.retrieval import HashedWords, protocol, some

ENCODER = HashedWords().digest
WIDE = HashedWords.dimensions


def coded(folder: Path) -> tuple[ToolIndex, Codes]:
    """An index, with codes beside it."""
    index = ToolIndex.build(some(), HashedWords(), folder)
    codes = tokenize(vectors_of(index.snapshot), None, encoder=ENCODER)
    write_codes(folder, codes, index.ids)
    return index, codes


def test_codes_are_read_as_they_were_written(tmp_path: Path) -> None:
    index, codes = coded(tmp_path)
    found = read_codes(tmp_path, index.snapshot, ENCODER)
    assert found is not None
    assert found.facts == codes.facts
    assert np.array_equal(found.values, codes.values)
    assert all(map(np.array_equal, found.books, codes.books))
    index.save(tmp_path)
    assert read_codes(tmp_path, index.snapshot, ENCODER) is not None, "saving the index leaves them"
    others = ToolIndex.build([*some(), protocol("tides")], HashedWords())
    with pytest.raises(UsageError, match="other tools"):
        read_codes(tmp_path, others.snapshot, ENCODER)
    (tmp_path / FILE).unlink()
    assert read_codes(tmp_path, index.snapshot, ENCODER) is None


def _book(change: Callable[[Floats], Any]) -> Callable[[Codes], Codes]:
    return lambda codes: replace(codes, books=(change(codes.books[0]), *codes.books[1:]))


def _more(**arrays: Floats) -> Callable[[Codes], Codes]:
    return lambda codes: replace(codes, arrays={name.replace("_", "-"): each for name, each in arrays.items()})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda codes: replace(codes, facts=replace(codes.facts, version=99)), "version 99"),
        (lambda codes: replace(codes, facts=replace(codes.facts, encoder="another")), "another encoder"),
        (lambda codes: replace(codes, values=codes.values[:-1]), "of 5 tools"),
        (lambda codes: replace(codes, values=codes.values[:, 0]), "is damaged"),
        (lambda codes: replace(codes, values=codes.values.astype(np.int64)), "no rows of whole numbers"),
        (lambda codes: replace(codes, values=codes.values * np.int16(0)), "two tools"),
        (lambda codes: replace(codes, values=codes.values - np.int16(9)), "not in its codebook"),
        (lambda codes: replace(codes, values=codes.values + np.int16(99)), "not in its codebook"),
        (_book(lambda book: book * np.float32(np.nan)), "no number"),
        (_book(lambda book: book + np.float32(3e38)), "far too large"),
        (_book(lambda book: book.astype(bool)), "no number"),
        (_book(lambda book: book[None]), "no shape that fits"),
        (lambda codes: replace(codes, books=tuple(book[:, :5] for book in codes.books)), "5 dimensions"),
        (_more(weights=np.full(3, np.inf)), "no number"),
        (_more(encoder_weight_5=np.zeros((3, 3), np.float32)), "is missing"),
        (_more(encoder_weight_0=np.zeros((WIDE, WIDE), np.float32)), "is missing"),
        (_more(encoder_weight_0=np.float32(0), encoder_bias_0=np.float32(0)), "no shape that fits"),
    ],
)
def test_codes_that_do_not_fit_are_refused(tmp_path: Path, change: Callable[[Codes], Codes], why: str) -> None:
    index, codes = coded(tmp_path)
    write_codes(tmp_path, change(codes), index.ids)
    with pytest.raises(UsageError, match=why):
        read_codes(tmp_path, index.snapshot, ENCODER)


def test_a_damaged_file_is_said_to_be_so(tmp_path: Path) -> None:
    index, _ = coded(tmp_path)
    whole = (tmp_path / FILE).read_bytes()
    for content in (b"", b"x", whole[:-20], whole[: len(whole) // 2]):
        (tmp_path / FILE).write_bytes(content)
        with pytest.raises(UsageError, match="damaged"):
            read_codes(tmp_path, index.snapshot, ENCODER)


def vectors(count: int) -> Floats:
    made = np.random.default_rng(0).standard_normal((count, 8)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def test_a_tool_that_comes_later_gets_the_nearest_free_codes() -> None:
    given = vectors(60)
    codes = tokenize(given, None)
    after = carried(codes, np.append(np.arange(60), -1), given[7:8])
    assert after is not None
    assert np.array_equal(after.values[:60], codes.values)
    assert len(np.unique(after.values, axis=0)) == 61
    taken = np.bincount(codes.values[:, 0], minlength=len(codes.books[0]))
    free = np.flatnonzero(taken < math.prod(map(len, codes.books[1:])))
    distances = np.square(codes.books[0] - given[7]).sum(axis=1)
    assert distances[after.values[60, 0]] <= distances[free].min() + 1e-6


def test_codes_grow_until_their_books_are_full() -> None:
    codes = tokenize(vectors(4), None, size=3)
    full = carried(codes, np.array([0, 1, 2, 3, -1, -1, -1, -1, -1]), np.repeat(vectors(1), 5, axis=0))
    assert full is not None
    assert len(np.unique(full.values, axis=0)) == 9
    assert carried(codes, np.array([0, 1, 2, 3] + [-1] * 6), np.repeat(vectors(1), 6, axis=0)) is None


def test_the_command_makes_codes_without_training(tmp_path: Path) -> None:
    index = ToolIndex.build(some(), HashedWords(), tmp_path)

    def learn(*options: str) -> tuple[int, str]:
        ran = CliRunner().invoke(app, ["tools", "learn", "codes", "--index", str(tmp_path), "--closed-form", *options])
        return ran.exit_code, " ".join(ran.output.split())

    code, said = learn("--code-size", "3", "--seed", "3")
    assert (code, "its own of 3 × 3 codes" in said) == (0, True), said
    codes = read_codes(tmp_path, index.snapshot, ENCODER)
    assert codes is not None
    assert (codes.facts.seed, codes.levels) == (3, 2)
    for options, why in ((("--levels", "0"), "levels"), (("--code-size", "2"), "tell at most 4")):
        code, said = learn(*options)
        assert (code, why in said) == (2, True), said
    ToolIndex.build(some()).save(tmp_path)
    code, said = learn()
    assert (code, "has no vectors" in said) == (2, True), said
