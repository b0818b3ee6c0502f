"""What a service accepts and what it complains of become the schema of its arguments."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atc.errors import UsageError
from atc.probing.arguments import ArgumentEvidence, Complaint, read_complaint
from atc.probing.complaints import MAX_COMPLAINTS
from atc.tools.protocol import Protocol
from atc.tools.schemas import ensure_valid_schema, problems
from atc.tools.stubs import render_stub


def told(body: Any) -> list[tuple[str, str, dict[str, Any]]]:
    return [(each.parameter, each.problem, each.expected) for each in read_complaint(body)]


FASTAPI = {
    "detail": [
        {"type": "missing", "loc": ["query", "q"], "msg": "Field required", "input": None},
        {"type": "int_parsing", "loc": ["query", "limit"], "msg": "Input should be a valid integer, unable to parse"},
        {"type": "literal_error", "loc": ["query", "u"], "msg": "Input should be 'a', 'b' or 'c'",
         "ctx": {"expected": "'a', 'b' or 'c'"}},
        {"type": "less_than_equal", "loc": ["query", "n"], "msg": "Input should be less than or equal to 50",
         "ctx": {"le": 50}},
        {"type": "date_from_datetime_parsing", "loc": ["query", "on"], "msg": "Input should be a valid date or …"},
        {"type": "extra_forbidden", "loc": ["query", "zz"], "msg": "Extra inputs are not permitted"},
        {"type": "missing", "loc": ["body", "user", "name"], "msg": "Field required"},
    ]
}  # fmt: skip


def test_fastapi() -> None:
    assert told(FASTAPI) == [
        ("q", "missing", {}),
        ("limit", "type", {"type": "integer"}),
        ("u", "enum", {"enum": ["a", "b", "c"]}),
        ("n", "range", {"maximum": 50}),
        ("on", "format", {"format": "date"}),
        ("zz", "unknown", {}),
        ("user.name", "missing", {}),
    ]
    assert [each.where for each in read_complaint(FASTAPI)] == ["query"] * 6 + ["body"]


@pytest.mark.parametrize("wrapped", [lambda text: f"HTTP 422: {text}", lambda text: text.encode(), lambda text: text])
def test_a_body_is_found_in_text_and_bytes(wrapped: Any) -> None:
    assert told(wrapped(json.dumps(FASTAPI))) == told(FASTAPI)


@pytest.mark.parametrize(
    ("framework", "body", "expected"),
    [
        ("pydantic 1", {"detail": [{"loc": ["query", "q"], "msg": "field required", "type": "value_error.missing"}]},
         [("q", "missing", {})]),
        ("django", {"name": ["This field is required."], "age": ["A valid integer is required."]},
         [("name", "missing", {}), ("age", "type", {"type": "integer"})]),
        ("django", {"units": ['"foo" is not a valid choice.']}, [("units", "enum", {})]),
        ("django", {"on": ["Date has wrong format. Use one of these formats instead: YYYY-MM-DD."]},
         [("on", "format", {"format": "date"})]),
        ("joi", {"details": [{"message": '"limit" must be a number', "path": ["limit"], "type": "number.base"}]},
         [("limit", "type", {"type": "number"})]),
        ("joi", {"details": [{"message": '"unit" must be one of [km, mi]', "path": ["unit"], "type": "any.only",
                              "context": {"valids": ["km", "mi"]}}]}, [("unit", "enum", {"enum": ["km", "mi"]})]),
        ("express-validator", {"errors": [{"type": "field", "msg": "Invalid value", "path": "limit",
                                            "location": "query"}]},
         [("limit", "format", {})]),
        ("ajv", [{"instancePath": "", "keyword": "required", "params": {"missingProperty": "q"},
                  "message": "must have required property 'q'"}], [("q", "missing", {})]),
        ("ajv", [{"instancePath": "/limit", "keyword": "type", "params": {"type": "integer"},
                  "message": "must be integer"}],
         [("limit", "type", {"type": "integer"})]),
        ("ajv", [{"instancePath": "/u", "keyword": "enum", "params": {"allowedValues": ["a", 2]},
                  "message": "must be equal to one of the allowed values"}], [("u", "enum", {"enum": ["a", 2]})]),
        ("ajv", [{"instancePath": "", "keyword": "additionalProperties", "params": {"additionalProperty": "zz"},
                  "message": "must NOT have additional properties"}], [("zz", "unknown", {})]),
        ("spring", {"status": 400, "error": "Bad Request", "path": "/search",
                    "message": "Required request parameter 'q' for method parameter type String is not present"},
         [("q", "missing", {})]),
        ("spring", {"errors": [{"field": "name", "defaultMessage": "must not be null", "code": "NotNull"}]},
         [("name", "missing", {})]),
        ("rails", {"errors": {"name": ["can't be blank"], "age": ["is not a number"]}},
         [("name", "missing", {}), ("age", "type", {"type": "number"})]),
        ("rails", "param is missing or the value is empty: user", [("user", "missing", {})]),
        ("laravel", {"message": "The given data was invalid.",
                     "errors": {"email": ["The email field is required."], "n": ["The n must be an integer."]}},
         [("email", "missing", {}), ("n", "type", {"type": "integer"})]),
        ("openapi-validator", {"message": "request/query must have required property 'q'", "errors": [
            {"path": "/query/q", "message": "must have required property 'q'",
             "errorCode": "required.openapi.validation"}]},
         [("q", "missing", {})]),
        ("connexion", {"detail": "Missing query parameter 'q'", "title": "Bad Request", "status": 400,
                       "type": "about:blank"}, [("q", "missing", {})]),
        ("zod", {"issues": [{"code": "invalid_type", "expected": "number", "received": "undefined", "path": ["limit"],
                             "message": "Required"}]}, [("limit", "missing", {})]),
        ("zod", {"issues": [{"code": "invalid_enum_value", "options": ["a", "b"], "received": "c", "path": ["u"],
                             "message": "Invalid enum value. Expected 'a' | 'b', received 'c'"}]},
         [("u", "enum", {"enum": ["a", "b"]})]),
        ("zod", {"issues": [{"code": "unrecognized_keys", "keys": ["zz"], "path": [],
                             "message": "Unrecognized key(s) in object: 'zz'"}]}, [("zz", "unknown", {})]),
        ("json:api", {"errors": [{"status": "400", "source": {"parameter": "include"}, "title": "Invalid Parameter",
                                  "detail": "include must be one of author, comments"}]},
         [("include", "enum", {"enum": ["author", "comments"]})]),
        ("google", {"error": {"code": 400, "details": [{"fieldViolations": [
            {"field": "page_size", "description": "must be between 1 and 100"}]}]}},
         [("page_size", "range", {"minimum": 1, "maximum": 100})]),
        ("rfc 9457", {"title": "Your request parameters didn't validate.", "invalid-params": [
            {"name": "age", "reason": "must be a positive integer"},
            {"name": "color", "reason": "must be 'green', 'red' or 'blue'"}]},
         [("age", "type", {"type": "integer"}), ("color", "enum", {"enum": ["green", "red", "blue"]})]),
        ("oauth", {"error": "invalid_request", "error_description": "It misses a required parameter: client_id"},
         [("client_id", "missing", {})]),
        ("nest", {"message": ["n must be a number string", "m should not be empty"], "statusCode": 400},
         [("n", "type", {"type": "number"}), ("m", "missing", {})]),
    ],
)  # fmt: skip
def test_frameworks(framework: str, body: Any, expected: list[Any]) -> None:
    assert told(body) == expected, framework


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Missing required parameter: x", [("x", "missing", {})]),
        ("Missing required parameters: a, b and c", [("a", "missing", {}), ("b", "missing", {}), ("c", "missing", {})]),
        ("missing 1 required positional argument: 'city'", [("city", "missing", {})]),
        ("The parameter 'lang' is required", [("lang", "missing", {})]),
        ("city is required", [("city", "missing", {})]),
        ('"q" is a required property', [("q", "missing", {})]),
        ("You must provide a query parameter `q`.", [("q", "missing", {})]),
        ("Please specify start_date", [("start_date", "missing", {})]),
        ("search() got an unexpected keyword argument 'zz'", [("zz", "unknown", {})]),
        ("Unknown parameter: foo", [("foo", "unknown", {})]),
        ("property zz should not exist", [("zz", "unknown", {})]),
        ("Additional properties are not allowed ('x' was unexpected)", [("x", "unknown", {})]),
        ("units must be one of metric, imperial", [("units", "enum", {"enum": ["metric", "imperial"]})]),
        ("invalid value for 'sort': expected one of asc, desc", [("sort", "enum", {"enum": ["asc", "desc"]})]),
        ("Valid values for unit are: km, mi, nm.", [("unit", "enum", {"enum": ["km", "mi", "nm"]})]),
        ("'x' is not one of ['a', 'b']", [("", "enum", {"enum": ["a", "b"]})]),
        ('$.units: "x" is not one of "a", "b" or "c"', [("units", "enum", {"enum": ["a", "b", "c"]})]),
        ('$.units: "x" is not one of "a", "b" or 2 other candidates', [("units", "enum", {})]),
        ('$.limit: "x" is not of type "integer"', [("limit", "type", {"type": "integer"})]),
        ("Failed to convert value of type 'java.lang.String' to required type 'int'",
         [("", "type", {"type": "integer"})]),
        ("limit must be an integer between 1 and 50",
         [("limit", "type", {"type": "integer"}), ("limit", "range", {"minimum": 1, "maximum": 50})]),
        ("n must not be greater than 10", [("n", "range", {"maximum": 10})]),
        ("limit: Must be >= 1", [("limit", "range", {"minimum": 1})]),
        ('$: "q" is a required property; $: "n" is a required property', [("q", "missing", {}), ("n", "missing", {})]),
        ('$.q: "x" is shorter than 2 characters', [("q", "range", {"minLength": 2})]),
        ("$.l: [] has less than 1 item", [("l", "range", {"minItems": 1})]),
        ("51 is greater than the maximum of 50", [("", "range", {"maximum": 50})]),
        ("name must be at least 3 characters long", [("name", "range", {"minLength": 3})]),
        ("date must be in the format YYYY-MM-DD", [("date", "format", {"format": "date"})]),
        ("time data '2024' does not match format '%Y-%m-%d'", [("", "format", {"format": "date"})]),
        ("<html><body><h1>Bad</h1><p>city is required</p></body></html>", [("city", "missing", {})]),
    ],
)  # fmt: skip
def test_sentences(text: str, expected: list[Any]) -> None:
    assert told(text) == expected


@pytest.mark.parametrize(
    "body",
    [
        "API key is required",
        "Authentication required. Please log in.",
        "City not found",
        "Internal Server Error",
        "<html><body><h1>400 Bad Request</h1></body></html>",
        "Value error, end must be after start",
        "You have exceeded your rate limit; try again later",
        {"success": False, "error": {"code": 601, "type": "missing_query", "info": "Please specify a valid location."}},
        {"cod": "400", "message": "Nothing to geocode"},
        {"status_message": "Invalid id: The pre-requisite id is invalid or not found.", "success": False},
        {"title": "Not Found", "status": 404, "type": "about:blank", "instance": "/x"},
        "",
        None,
        [],
        {"detail": None},
        12,
    ],
)
def test_a_refusal_of_another_kind_is_no_complaint(body: Any) -> None:
    assert read_complaint(body) == []


def test_a_list_that_is_not_told_whole_is_no_enum() -> None:
    assert read_complaint("unit must be one of km, mi, ...")[0].expected == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30) | st.sampled_from(
        ["missing", "is required", "must be one of a, b", "loc", "{",
         '{"detail": [{"loc": ["q"], "msg": "m"}]}', "limit must be < 3"]
    ),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["detail", "errors", "loc", "msg", "path", "params", "name", "type", "source", "ctx", "x"]),
        inner, max_size=5,
    ),
    max_leaves=15,
)  # fmt: skip


@given(JSON)
@settings(max_examples=300, deadline=None)
def test_no_body_breaks_the_reader_or_the_schema(body: Any) -> None:
    evidence = ArgumentEvidence()
    evidence.accepted({"x": 1, "name": "a"})
    evidence.refused({"x": 1}, body, 400)
    ensure_valid_schema(evidence.schema(), "arguments")
    render_stub(Protocol(name="probed", parameters=evidence.schema()))
    assert ArgumentEvidence.from_json(json.loads(json.dumps(evidence.to_json()))).schema() == evidence.schema()


@pytest.mark.parametrize(
    "body",
    [
        "missing required parameter: " + "a and " * 20_000,
        "a, " * 50_000 + "is required",
        "must be one of " + "'a', " * 50_000,
        "is required " * 20_000,
        "[" * 50_000,
        '{"detail":' * 20_000,
        "<" * 100_000 + "</",
        "not be " * 20_000,
        "x" * 1_000_000,
        [{"loc": ["q"], "msg": "x is required"}] * 50_000,
        {f"field{i}": ["This field is required."] for i in range(20_000)},
    ],
    ids=lambda body: str(body)[:20],
)
def test_hostile_bodies_are_read_in_bounded_time(body: Any) -> None:
    began = time.perf_counter()
    assert len(read_complaint(body)) <= MAX_COMPLAINTS
    assert time.perf_counter() - began < 1.0


# --- evidence → schema ------------------------------------------------------------------------------------------------


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


def test_a_complaint_without_a_name_is_of_the_argument_whose_value_it_repeats() -> None:
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
@settings(max_examples=100, deadline=None)
def test_every_accepted_call_fits(calls: list[dict[str, Any]]) -> None:
    evidence = evidence_of(*calls)
    assert [call for call in calls if problems(evidence.schema(), call)] == []
    half = evidence_of(*calls[: len(calls) // 2])
    half.merge(evidence_of(*calls[len(calls) // 2 :]))
    assert half.schema().get("required", []) == evidence.schema().get("required", [])


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


def test_a_complaint_is_plain_data() -> None:
    assert read_complaint("city is required") == [Complaint("city", "missing", {}, "")]
