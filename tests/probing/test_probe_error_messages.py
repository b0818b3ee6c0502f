"""Error messages of services are read, whatever framework words them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.probing.arguments import ArgumentEvidence
from atc.probing.error_messages import MAX_DETAILS, read_error_message
from atc.schemas.protocol import Protocol
from atc.schemas.validate import ensure_valid_schema
from atc.tools.stubs import render_stub
from benchmarks.probing.error_messages import bodies, score
from tests.support.probe_services import FASTAPI
from tests.support.time import little_work


def told(body: Any) -> list[tuple[str, str, dict[str, Any]]]:
    return [(each.parameter, each.problem, each.expected) for each in read_error_message(body)]


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
    assert [each.where for each in read_error_message(FASTAPI)] == ["query"] * 6 + ["body"]


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
        (
            "Failed to convert value of type 'java.lang.String' to required type 'int'",
            [("", "type", {"type": "integer"})],
        ),
        (
            "limit must be an integer between 1 and 50",
            [("limit", "type", {"type": "integer"}), ("limit", "range", {"minimum": 1, "maximum": 50})],
        ),
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
)
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
def test_a_refusal_of_another_kind_has_no_details(body: Any) -> None:
    assert read_error_message(body) == []


def test_a_list_that_is_not_told_whole_is_no_enum() -> None:
    assert read_error_message("unit must be one of km, mi, ...")[0].expected == {}


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
    with little_work():
        assert len(read_error_message(body)) <= MAX_DETAILS


def test_the_messages_of_validators_are_understood_as_well_as_they_were() -> None:
    counts: Counter[str] = Counter()
    for row in bodies():
        counts.update(score(row))
    assert counts["problems"] == 454
    assert counts["found"] >= 390
    assert counts["strays"] <= 16


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -(10**400)])
def test_a_bound_that_is_no_number_is_none(number: float) -> None:
    assert told({"loc": ["q"], "type": "too_long", "ctx": {"max_length": number}}) == [("q", "range", {})]
