"""What a service accepts, and what its error messages say, become the schema of its arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.errors import UsageError
from atc.probing.arguments import ArgumentEvidence
from atc.schemas.validate import problems
from tests.support.probe_services import FASTAPI


def evidence_of(*accepted: dict[str, Any]) -> ArgumentEvidence:
    evidence = ArgumentEvidence()
    for arguments in accepted:
        evidence.accepted(arguments)
    return evidence


def test_accepted_calls_tell_types_and_what_may_be_left_out() -> None:
    schema = evidence_of({"q": "Rome", "limit": 3}, {"q": "Oslo"}).schema()
    assert schema["required"] == ["q"]
    assert schema["properties"]["q"]["type"] == "string"
    assert schema["properties"]["limit"]["type"] == "integer"
    assert schema["properties"]["q"]["examples"] == ["Rome", "Oslo"]
    assert schema["properties"]["limit"]["x-atc-evidence"] == {"seen": 1, "of": 2}


def test_what_services_usually_make_optional_needs_a_refusal_to_be_required() -> None:
    evidence = evidence_of({"q": "Rome", "limit": 3, "lang": "en"})
    assert evidence.schema()["required"] == ["q"]
    evidence.refused({"q": "Rome", "lang": "en"}, "limit is required", 400)
    assert evidence.schema()["required"] == ["q", "limit"]
    assert evidence.schema()["properties"]["limit"]["x-atc-evidence"] == {"seen": 1, "of": 1, "refused_without": 1}


def test_an_argument_that_an_accepted_call_lacked_is_optional_whatever_was_said() -> None:
    evidence = evidence_of({"q": "Rome"}, {"city": "Oslo"})
    evidence.refused({}, "q is required", 400)
    assert "required" not in evidence.schema()


def test_a_tool_that_was_only_ever_refused_has_the_arguments_that_it_asked_for() -> None:
    evidence = ArgumentEvidence()
    evidence.refused({}, FASTAPI, 422)
    schema = evidence.schema()
    assert schema["required"] == ["q"]
    assert schema["properties"]["u"]["enum"] == ["a", "b", "c"]
    assert schema["properties"]["limit"]["type"] == "integer"
    assert schema["properties"]["n"] == {
        "type": "number",
        "maximum": 50,
        "x-atc-evidence": {"seen": 0, "of": 0, "complaints": 1},
    }
    assert schema["properties"]["on"]["format"] == "date"
    assert "zz" not in schema["properties"]
    assert "user.name" not in schema["properties"]


def test_bounds_and_members_are_those_that_the_service_named() -> None:
    evidence = evidence_of({"limit": 3, "units": "metric"})
    evidence.refused({"limit": 99, "units": "metric"}, "limit must be between 1 and 50", 400)
    evidence.refused({"limit": 3, "units": "x"}, "units must be one of metric, imperial", 400)
    properties = evidence.schema()["properties"]
    assert (properties["limit"]["minimum"], properties["limit"]["maximum"]) == (1, 50)
    assert properties["units"]["enum"] == ["metric", "imperial"]


def test_what_a_service_says_does_not_overrule_what_it_accepts() -> None:
    evidence = evidence_of({"units": "nautical", "limit": 500})
    evidence.refused({"units": "x"}, "units must be one of metric, imperial", 400)
    evidence.refused({"limit": 0}, "limit must be between 1 and 50", 400)
    properties = evidence.schema()["properties"]
    assert "enum" not in properties["units"]
    assert "maximum" not in properties["limit"]
    assert problems(evidence.schema(), {"units": "nautical", "limit": 500}) == []


def test_numbers_given_as_text_are_numbers_if_the_service_says_so() -> None:
    evidence = evidence_of({"limit": "5"}, {"limit": "7"})
    assert evidence.schema()["properties"]["limit"]["type"] == "string"
    evidence.refused({"limit": "x"}, "limit must be an integer", 400)
    assert evidence.schema()["properties"]["limit"]["type"] == "integer"


def test_a_detail_without_a_name_is_of_the_argument_whose_value_it_repeats() -> None:
    evidence = evidence_of({"units": "km", "city": "Rome"})
    evidence.refused({"units": "furlong", "city": "Rome"}, "'furlong' is not one of ['km', 'mi']", 400)
    assert evidence.schema()["properties"]["units"]["enum"] == ["km", "mi"]
    assert "enum" not in evidence.schema()["properties"]["city"]


def test_a_name_that_a_service_writes_differently_is_the_same() -> None:
    evidence = evidence_of({"start_date": "2024-01-01"})
    evidence.refused({}, "Parameter startDate is required", 400)
    assert list(evidence.schema()["properties"]) == ["start_date"]


def test_what_was_called_unknown_and_never_accepted_is_left_out() -> None:
    evidence = evidence_of({"q": "Rome"})
    evidence.refused({"q": "Rome", "foo": 1}, "Unknown parameter: foo", 400)
    assert list(evidence.schema()["properties"]) == ["q"]


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503, "429"])
def test_refusals_that_are_not_about_arguments_are_no_evidence(status: int | str) -> None:
    evidence = evidence_of({"q": "Rome"})
    evidence.refused({"q": "Rome"}, "token is required; region is required", status)
    assert list(evidence.schema()["properties"]) == ["q"]
    assert evidence.refused_count == 0


@pytest.mark.parametrize("status", ["²", "nonsense", "", None, "9" * 5000, -1])
def test_a_status_may_be_anything(status: Any) -> None:
    evidence = evidence_of({"q": "Rome"})
    evidence.refused({}, "q is required", status)
    assert evidence.schema()["properties"]["q"]["x-atc-evidence"]["refused_without"] == 1


@pytest.mark.parametrize("value", [float("nan"), 10**5000, object()], ids=["nan", "huge", "object"])
def test_a_value_that_is_no_json_is_no_example_that_breaks_the_document(value: Any) -> None:
    evidence = evidence_of({"q": value, "n": 1})
    evidence.refused({"q": value, "n": 99}, "99 is greater than the maximum of 50", 400)
    json.dumps([evidence.schema(), evidence.to_json()], allow_nan=False)
    assert evidence.schema()["properties"]["n"]["maximum"] == 50


def test_headers_are_not_arguments() -> None:
    evidence = ArgumentEvidence()
    evidence.refused({}, {"detail": [{"type": "missing", "loc": ["header", "x-token"], "msg": "Field required"}]}, 422)
    assert evidence.schema()["properties"] == {}


def test_values_of_secrets_are_not_shown() -> None:
    evidence = evidence_of({"api_key": "abc123", "q": "sk-" + "a1" * 15})
    text = json.dumps([evidence.schema(), evidence.to_json()])
    assert "abc123" not in text
    assert "a1a1" not in text


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abc"), st.integers() | st.text(max_size=5) | st.none(), max_size=3), max_size=6
    )
)
def test_every_accepted_call_fits(calls: list[dict[str, Any]]) -> None:
    evidence = evidence_of(*calls)
    assert [call for call in calls if problems(evidence.schema(), call)] == []


def test_many_names_and_statements_are_bounded() -> None:
    evidence = ArgumentEvidence()
    for number in range(1000):
        evidence.accepted({f"name{number}": number, "x" * 10_000: 1})
        evidence.refused({"name1": 1}, f"name1 must be at least {number}", 400)
    assert len(json.dumps(evidence.to_json())) < 200_000


@pytest.mark.parametrize(
    "stored", [None, {}, {"version": 2}, {"version": 1, "accepted": 1, "refused": 0, "arguments": {"a": {}}}]
)
def test_damaged_evidence_is_refused_with_what_to_do(stored: Any) -> None:
    with pytest.raises(UsageError, match="probe the tool again"):
        ArgumentEvidence.from_json(stored)


def test_a_type_that_was_seen_once_is_no_rule() -> None:
    evidence = ArgumentEvidence()
    evidence.accepted({"value": 10})
    assert evidence.schema()["properties"]["value"]["x-atc-observed"] is True
    evidence.refused({"value": "abc"}, "not found", 404)  # nothing may have that name
    assert evidence.schema()["properties"]["value"]["x-atc-observed"] is True
    evidence.refused({"value": "abc"}, "bad request", 400)
    known = evidence.schema()["properties"]["value"]
    assert (known["type"], known.get("x-atc-observed")) == ("integer", None)
    stored = ArgumentEvidence.from_json(evidence.to_json())
    assert stored.schema() == evidence.schema()


def test_several_different_values_make_a_type_a_rule() -> None:
    evidence = ArgumentEvidence()
    for value in (10, 25):
        evidence.accepted({"value": value})
    assert "x-atc-observed" not in evidence.schema()["properties"]["value"]
