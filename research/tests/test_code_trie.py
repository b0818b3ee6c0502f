"""The trie of codes finds what a plain scan finds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from atc_research.toolweaver.code_trie import Trie

CODES = arrays(np.int16, array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=12), elements=st.integers(-1, 4))


@given(values=CODES, prefix=st.lists(st.integers(-2, 5), max_size=4), at=st.integers(0, 11), depth=st.integers(0, 12))
def test_it_finds_what_a_scan_finds(values, prefix, at, depth):
    trie = Trie(values)
    prefixes = [prefix] + ([values[at][:depth].tolist()] if at < len(values) else [])
    for prefix in prefixes:
        below = [row for row, codes in enumerate(values.tolist()) if codes[: len(prefix)] == prefix]
        assert trie.rows(prefix).tolist() == below
        assert trie.count(prefix) == len(below)
        assert (prefix in trie) == bool(below)
        following = [values[row, len(prefix)] for row in below] if len(prefix) < values.shape[1] else []
        assert trie.children(prefix).tolist() == sorted(set(following))
        codes, counts = trie.branches(prefix)
        assert codes.tolist() == sorted(set(following))
        assert counts.tolist() == [following.count(code) for code in codes]


@given(values=CODES)
def test_a_walk_to_the_ends_meets_each_document_once(values):
    trie = Trie(values)
    met, open = [], [()]
    while open:
        prefix = open.pop()
        if len(prefix) == trie.levels:
            met += trie.rows(prefix).tolist()
        open += [(*prefix, int(code)) for code in trie.children(prefix)]
    assert sorted(met) == list(range(len(values)))


def test_a_code_that_no_codebook_has_leads_nowhere():
    trie = Trie(np.array([[1, 2], [1, 3]], np.int16))
    assert [trie.count([code]) for code in (1, 65_537, -65_535, 2**70)] == [2, 0, 0, 0]
    assert trie.children([1, 2]).tolist() == [] == trie.rows([1, 2, 3]).tolist()


def test_the_root_of_an_empty_index_has_no_children():
    trie = Trie(np.zeros((0, 2), np.int16))
    assert (len(trie), trie.levels, trie.count(), trie.children().tolist()) == (0, 2, 0, [])


def test_codes_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="a column a level"):
        Trie(np.zeros(3, np.int16))
