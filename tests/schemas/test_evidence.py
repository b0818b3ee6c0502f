"""Evidence of values is bounded whatever is fed, and says the same merged, stored and read back."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from atc.schemas.infer.evidence import MAX_DEPTH, MAX_FIELDS, MAX_NODES, Node, Tree
from atc.schemas.infer.shape import dump, load, write

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6)
VALUES = st.recursive(
    SCALARS,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.sampled_from("abcde"), inside, max_size=4),
    max_leaves=12,
)


def seen(values: list[Any]) -> Node:
    root = Node(Tree())
    for value in values:
        root.tree.serial += 1
        root.add(value)
    return root


@given(st.lists(VALUES, min_size=1, max_size=4), st.lists(VALUES, min_size=1, max_size=4))
def test_merged_evidence_is_that_of_all(left: list[Any], right: list[Any]) -> None:
    merged, together = seen(left), seen([*left, *right])
    merged.merge(seen(right))
    assert in_order(write(merged)) == in_order(write(together))


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_stored_evidence_is_read_back_as_it_was(values: list[Any]) -> None:
    made = seen(values)
    assert dump(load(dump(made))) == dump(made)
    assert write(load(dump(made))) == write(made)


def in_order(stored: Any) -> Any:
    """Evidence in which the order of what was met first does not count."""
    if isinstance(stored, dict):
        return sorted((key, in_order(value)) for key, value in stored.items())
    return list(map(in_order, stored)) if isinstance(stored, list) else repr(stored)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_what_lies_too_deep_may_be_anything_and_overflows_no_stack() -> None:
    place, levels = seen([nested(5_000)]), 0
    while place.arrays is not None and place.arrays.items is not None:
        place, levels = place.arrays.items, levels + 1
    assert (levels, place.opaque) == (MAX_DEPTH, True)


def test_keys_and_places_are_bounded_whatever_is_fed() -> None:
    wide = seen([{f"key{n}": n for n in range(100_000)}])
    assert wide.objects is not None
    assert wide.objects.fields == {}
    assert wide.tree.left >= MAX_NODES - MAX_FIELDS - 2
    bushy = seen([[{f"k{n}": {f"k{m}": m for m in range(300)} for n in range(300)}]])
    assert bushy.tree.left == 0


def test_a_value_that_is_no_json_leaves_the_place_open() -> None:
    place = seen([[1], {"a": 1}, object(), [2], {"b": 2}, b"x", "text", None])
    assert place.opaque
    assert (place.arrays, place.objects) == (None, None)
    assert place.strings is not None
    assert (place.nulls, place.count) == (1, 8)
