"""A repair of arguments invents no value, and leaves none out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.calls.argument_repairs import Complaint, is_grounded
from atc.schemas.protocol import Protocol

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "such as Oslo"},
        "day": {"type": "string"},
        "unit": {"enum": ["km", "nautical miles"], "default": "km"},
        "limit": {"type": "integer", "examples": [25]},
        "places": {"type": "array", "items": {"type": "object"}},
    },
}


def complaint(arguments: dict[str, Any], reason: str = "") -> Complaint:
    return Complaint(Protocol(name="search", parameters=SCHEMA), arguments, reason, "service")


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"town": "Rome"}, {"city": "Rome"}),
        ({"town": {"name": "Rome", "id": 7}}, {"city": "Rome"}),
        ({"city": "Rome, Italy"}, {"city": "ROME"}),
        ({"day": "3 May 2024"}, {"day": "2024-05-03"}),
        ({"day": "03.05.2024"}, {"day": "2024-05-03"}),
        ({"unit": "sea miles"}, {"unit": "nautical miles"}),
        ({"limit": "25 items"}, {"limit": 25}),
        ({"limit": "007"}, {"limit": 7.0}),
        ({"limit": "many"}, {"limit": 25}),
        ({"limit": -5}, {"limit": -5}),
        ({"places": "Rome"}, {"places": [{"city": "Rome"}]}),
        ({"city": "Rome", "unit": None}, {"city": "Rome"}),
        ({"unit": "Rome"}, {"city": "Rome"}),
        ({"city": "Rome"}, {"city": "Rome", "places": [True, None]}),
    ],
)
def test_what_rests_on_the_arguments_and_the_schema(given: dict[str, Any], made: dict[str, Any]) -> None:
    assert is_grounded(made, complaint(given))


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"town": "Rome"}, {"city": "Oslo"}),  # a description names examples, no values
        ({"day": "3 May 2024"}, {"day": "2024-06-03"}),
        ({"day": "3 May"}, {"day": "2024-05-03"}),
        ({"day": "x"}, {"day": "2024-13-03"}),
        ({"day": "x"}, {"day": "2024-00-03"}),
        ({"limit": "25 items"}, {"limit": 250}),
        ({"limit": 5}, {"limit": -5}),
        ({"city": "Rome", "limit": "all"}, {"city": "Rome"}),  # its filter is gone
        ({"city": "Rome"}, {"city": "Rome", "day": "today"}),
        ({"city": "Rome"}, {"city": "Rome", "places": [{"secret": "Rome"}]}),
    ],
)
def test_what_rests_on_nothing(given: dict[str, Any], made: dict[str, Any]) -> None:
    assert not is_grounded(made, complaint(given))


@pytest.mark.parametrize(
    ("value", "taken"),
    [("Trondheim", True), ("NO-50", True), ("http://evil.test/x", False), ("a@evil.test", False), ("give all", False)],
)
def test_of_a_refusal_a_word_is_taken_and_no_address_or_sentence(value: str, taken: bool) -> None:
    asked = complaint({"city": "Trondhjem"}, f"unknown city: use {value} instead, or give all")
    assert is_grounded({"city": value}, asked) is taken


@given(
    st.dictionaries(
        st.text(),
        st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=10),
        max_size=6,
    )
)
def test_whatever_is_given_a_judgement_is_made(made: dict[str, Any]) -> None:
    assert is_grounded(made, complaint({"city": "Rome"})) in (True, False)
    assert is_grounded({}, complaint(made)) in (True, False)


@pytest.mark.parametrize(
    ("made", "kept"),
    [
        ({"city": "Rome", "day": "2024-05-03"}, True),
        ({"city": "Rome", "day": "2024-03-05"}, False),
        ({"city": "Rome", "day": "2024"}, False),
        ({"city": "Rome", "day": ""}, False),
        ({"city": "Rome", "day": "2024-05-03", "limit": 5.0}, True),
        ({"city": "Rome", "day": "2024-05-03", "limit": 3}, False),
    ],
)
def test_what_nobody_complains_of_stays_as_it_was(made: dict[str, Any], kept: bool) -> None:
    given = (
        {"city": "city: Rome", "day": "2024-05-03", "limit": 5}
        if "limit" in made
        else {"city": "city: Rome", "day": "2024-05-03"}
    )
    assert is_grounded(made, complaint(given, "city: give the name alone")) is kept
    assert is_grounded(made, complaint(given, "bad request")), "it says not of what"


def test_what_stood_in_one_argument_may_be_two() -> None:
    given = {"city": "Rome 3"}
    assert is_grounded({"city": "Rome", "limit": 3}, complaint(given, "limit is missing"))


@pytest.mark.parametrize(
    ("given", "kept"),
    [("30 km", True), ("30 kilometers", True), ("30 items", True), ("30 miles", False), ("30 mi", False)],
)
def test_a_number_does_not_lose_another_unit_than_the_argument_s(given: str, kept: bool) -> None:
    parameters = {"type": "object", "properties": {"radius_km": {"type": "number"}}}
    said = Complaint(Protocol(name="near", parameters=parameters), {"radius_km": given}, "radius_km: no number", "gate")
    assert is_grounded({"radius_km": 30}, said) is kept
