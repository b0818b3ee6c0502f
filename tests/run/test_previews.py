"""A value in brief: bounded, on one line, its identifiers whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.run.previews import LEAST, LEFT_OUT, ROOM, preview, previews

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(JSON, st.integers(30, 500))
def test_a_preview_is_one_line_within_its_room_and_whole_where_it_fits(value: Any, room: int) -> None:
    text = preview(value, room)
    assert len(text) <= room
    assert "\n" not in text
    if (
        len(repr(value)) <= room
        and not isinstance(value, bytes)
        and "b'" not in repr(value)
        and 'b"' not in repr(value)
    ):
        assert text == repr(value)


@given(st.dictionaries(st.from_regex(r"step[1-9]", fullmatch=True), JSON, max_size=5))
def test_all_previews_together_are_bounded(values: dict[str, Any]) -> None:
    text = previews(values)
    assert len(text) <= ROOM + len(values) * (LEAST + len("stepN = ") + 1)
    assert [line.partition(" = ")[0] for line in text.splitlines()] == [*values]


def test_a_list_that_is_cut_says_how_many_items_it_has() -> None:
    wide = [{f"key_{n}_{m}": "x" * 20 for m in range(9)} for n in range(2)]
    assert preview({"rows": wide}, 150).startswith("{'rows': [2 items: {'key_0_0': 'xxxxxxxxxxxx'…, ")
    assert preview(wide[:1], 150).startswith("[{'key_0_0'"), "of one item there is nothing to count"


def test_the_latest_value_has_the_most_room() -> None:
    first, last = previews({"step1": ["x" * 30] * 30, "step2": ["y" * 30] * 30}).splitlines()
    assert ("more" in first, "more" in last) == (True, False)


def test_a_small_value_is_whole_beside_a_later_large_one() -> None:
    small = [{"id": n, "name": "x" * 20} for n in range(9)]
    first, last = previews({"small": small, "large": ["y" * 30] * 90}).splitlines()
    assert first == f"small = {small!r}"
    assert "more" in last
    assert len(last) > ROOM // 2


@pytest.mark.parametrize("key", ["id", "cityId", "access_token"])
def test_an_identifier_is_kept_whole_longer_than_a_text(key: str) -> None:
    value = [{key: "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "about": "x" * 500} for _ in range(200)]
    text = preview(value, 400)
    assert "'f81d4fae-7dec-11d0-a765-00a0c91e6bf6'" in text
    assert "more" in text


def test_what_there_is_no_room_for_is_not_visited() -> None:
    class Endless(list[Any]):
        visited = 0

        def __iter__(self) -> Any:
            while True:
                self.visited += 1
                yield "x"

        def __len__(self) -> int:
            return 10**9

    value = Endless()
    assert preview(value, 200).endswith("more]")
    assert value.visited < 2_000


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({}, "{}"),
        ([], "[]"),
        (b"abc", "<3 bytes>"),
        ("one\ntwo", "'one\\ntwo'"),
        ({"a": {"b": [1, 2.5, None, True]}}, "{'a': {'b': [1, 2.5, None, True]}}"),
    ],
)
def test_values_are_written_as_python_writes_them(value: Any, shown: str) -> None:
    assert preview(value, 100) == shown


def test_depth_costs_no_more_than_its_room() -> None:
    value: Any = "deep"
    for _ in range(900):
        value = {"a": [value]}
    assert LEFT_OUT in preview(value, 300)
