"""The engine under the evidence is genson: within our bounds it comes to the types that genson alone comes to."""

from __future__ import annotations

from typing import Any

import pytest
from genson import SchemaBuilder, SchemaNode
from hypothesis import given
from hypothesis import strategies as st

from atc.schemas.infer.evidence import MAX_DEPTH, MAX_FIELDS, MAX_NODES, Node, Tree
from atc.schemas.infer.shape import dump, load

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
        root.add_object(value)
    return root


def genson_of(values: list[Any]) -> dict[str, Any]:
    builder = SchemaBuilder(schema_uri=None)
    for value in values:
        builder.add_object(value)
    return dict(builder.to_schema())


def as_set(schema: Any) -> Any:
    """A schema in which the order of alternatives does not count."""
    if isinstance(schema, dict):
        return frozenset((key, as_set(value)) for key, value in schema.items())
    return frozenset(map(as_set, schema)) if isinstance(schema, list) else schema


def test_a_place_is_gensons_node() -> None:
    assert issubclass(Node, SchemaNode)


@given(st.lists(VALUES, min_size=1, max_size=6))
def test_the_types_are_those_that_genson_comes_to(values: list[Any]) -> None:
    assert seen(values).to_schema() == genson_of(values)


@given(st.lists(VALUES, min_size=1, max_size=4), st.lists(VALUES, min_size=1, max_size=4))
def test_merged_evidence_has_the_types_of_all(left: list[Any], right: list[Any]) -> None:
    merged = seen(left)
    merged.merge(seen(right))
    assert as_set(merged.to_schema()) == as_set(genson_of([*left, *right]))


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_stored_evidence_has_the_types_that_were_seen(values: list[Any]) -> None:
    assert as_set(load(dump(seen(values))).to_schema()) == as_set(genson_of(values))


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_what_overflows_the_stack_of_genson_alone_does_not_overflow_ours() -> None:
    deep = nested(5_000)
    with pytest.raises(RecursionError):
        genson_of([deep])
    schema, levels = seen([deep]).to_schema(), 0
    while "items" in schema:
        schema, levels = schema["items"], levels + 1
    assert levels == MAX_DEPTH
    assert schema == {}


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
