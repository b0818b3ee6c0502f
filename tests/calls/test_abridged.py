"""A value in bounded room: what is cut is counted, nothing hides, and no value is too deep, wide or odd."""

from __future__ import annotations

from ast import literal_eval
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc._host.invisible import is_invisible
from atc.calls import question
from atc.wording.abridged import abridged

HIDDEN = "\u200b\u202e\ufe0f\u3164\U000e0041\U000e0101\u034f\u2800\x1b\u00ad"
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters() | st.sampled_from(HIDDEN)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=40,
) | st.binary(max_size=300)


def nested(depth: int) -> Any:
    value: Any = "x"
    for number in range(depth):
        value = [value] if number % 2 else {"k": value}
    return value


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError


@given(values, st.integers(80, 400))
def test_the_text_is_bounded_and_hides_nothing(value: Any, room: int) -> None:
    found = abridged(value, room)
    assert len(found.text) <= room + 60
    assert found.text.isprintable()
    assert not any(map(is_invisible, found.text))
    if isinstance(value, str) and not found.cut:
        assert literal_eval(found.text) == value  # what is whole is as Python writes it


def test_what_is_cut_says_how_long_it_is() -> None:
    assert abridged("a" * 48_211, 80).text == f"'{'a' * 53}' … '{'a' * 26}' (48,211 characters)"
    assert abridged(b"a" * 1_000, 80).text.endswith("' (1,000 bytes)")
    assert abridged(list(range(1_000)), 80).text.endswith("… 985 of 1,000 items]")
    assert "of 1,000 keys}" in abridged({f"k{n}": n for n in range(1_000)}, 80).text
    assert "hexadecimal digits)" in abridged(1 << 100_000, 80).text
    assert abridged(Rude(), 80) == abridged(Rude(), 80)
    assert abridged(Rude(), 80).cut


def test_no_field_hides_behind_a_long_one() -> None:
    text = abridged({"to": "ann@example.org", "body": "x" * 50_000, "bcc": "eve@example.org"}, 300).text
    assert "'to': 'ann@example.org'" in text
    assert "(50,000 characters)" in text
    assert text.endswith("'bcc': 'eve@example.org'}")


def test_a_value_cannot_pretend_to_be_cut() -> None:
    found = abridged("harmless' … 'so' (9 characters)", 80)
    assert found.text == "\"harmless' … 'so' (9 characters)\""
    assert not found.cut


def test_no_depth_is_too_deep() -> None:
    assert abridged(nested(100_000), 80).cut
    whole = abridged(nested(20_000), 1_000_000)
    assert not whole.cut
    assert "'x'" in whole.text


@pytest.mark.slow
def test_the_whole_question_is_bounded_whatever_is_given() -> None:
    arguments = {"\u202e" * 500 + str(n): {"\U000e0041" * 300: ["\x1b" * 9_000] * 500} for n in range(500)}
    for whole, most in ((False, 20_000), (True, 2 * question.MOST_WHOLE)):
        lines, cut = question._lines(arguments, whole)
        assert cut
        assert len("".join(lines)) < most
        says = "characters are shown at most" if whole else "more arguments that are not shown"
        assert any(says in line for line in lines)
        assert all(line.isprintable() for line in lines)
