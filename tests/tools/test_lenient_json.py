"""JSON as services write it: what is odd in it is noted, and nothing else changes."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.tools.lenient_json import Oddities, _Twice

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4))
ODD = st.recursive(
    LEAVES | st.sampled_from([math.nan, math.inf, -math.inf]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def plain(value: Any) -> Any:
    """What a value is without the numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@given(JSON)
def test_json_is_read_as_it_is_and_nothing_is_noted(value: Any) -> None:
    odd = Oddities()
    assert odd.read(json.dumps(value)) == value
    assert odd.notes() == ()


@given(ODD)
def test_only_numbers_that_json_does_not_have_become_null(value: Any) -> None:
    odd = Oddities()
    text = json.dumps(value)
    assert odd.read(text) == plain(value)
    assert odd.null_count == len(
        [each for each in _leaves(value) if isinstance(each, float) and not math.isfinite(each)]
    )
    assert bool(odd.notes()) == bool(odd.null_count)


def _leaves(value: Any) -> list[Any]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [value] if parts is None else [leaf for part in parts for leaf in _leaves(part)]


@pytest.mark.parametrize(
    ("text", "value", "notes"),
    [
        ("NaN", None, ("1 number (NaN or infinite) became null",)),
        ('{"a": 1, "b": 2, "a": 3}', {"a": 3, "b": 2}, ("1 key stood twice, and the last value counts: a",)),
        ('{"a": {"b": 1, "b": {"c": 1, "c": NaN}}}', {"a": {"b": {"c": None}}}, ("a.b.c", "2 keys")),
        ("[NaN, NaN, NaN, NaN]", [None] * 4, ("4 numbers (NaN or infinite) became null: [0], [1], [2], …",)),
    ],
)
def test_each_place_is_named(text: str, value: Any, notes: tuple[str, ...]) -> None:
    odd = Oddities()
    assert odd.read(text) == value
    made = " ".join(sorted(odd.notes()))
    assert all(note in made for note in notes)


def test_a_name_of_a_place_is_short_and_hides_nothing() -> None:
    odd = Oddities()
    odd.read(json.dumps({"x" * 9_000 + "\u202e\n": math.nan, "\u202e": {"y": math.inf}}))
    [note] = odd.notes()
    assert len(note) < 200
    assert note.isprintable()


def test_what_is_no_json_is_refused() -> None:
    for text in ("", "{", "nan", "'a'", "{a: 1}", "[1,]", "1 2"):
        with pytest.raises(ValueError, match=r"Expecting|Extra data|Illegal"):
            Oddities().read(text)


class _Counted(str):
    """Counts how often a key is compared with another."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        _Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_keys_that_stand_twice_are_found_in_one_pass() -> None:
    keys = [_Counted(f"k{n}") for n in range(3000)]
    found = _Twice([(key, 1) for key in [*keys, _Counted("k2999"), _Counted("k7")]])
    assert found.names == ("k2999", "k7")
    assert _Counted.compared < 20 * len(keys)
