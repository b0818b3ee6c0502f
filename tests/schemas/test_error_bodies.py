"""An error in the body of a response is recognised by its structure, and data never is taken for one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.schemas.error_bodies import error_in

ERRORS = [
    ({"error": "Invalid year format"}, "error", "Invalid year format"),
    ({"errors": ["no such tenant"], "data": None}, "errors", "no such tenant"),
    ({"error": {"code": 17, "message": "quota"}}, "error", "quota"),
    ({"success": False, "items": [1]}, "success", "False"),
    ({"Success": "false", "Message": "wrong key"}, "Success", "wrong key"),
    ({"status": "error", "reason": "station closed"}, "status", "station closed"),
    ({"status": "INTERNAL_SERVER_ERROR"}, "status", "INTERNAL_SERVER_ERROR"),
    ({"statusCode": 404, "path": "/a", "message": "nothing there"}, "statusCode", "nothing there"),
    ({"cod": "401", "message": "key"}, "cod", "key"),
    ({"code": 400, "name": "Bad", "etype": "2.0"}, "code", "400"),
    ({"code": -3, "msg": "the id is invalid", "country": "us"}, "code", "the id is invalid"),
    ({"message": "`year` must have four digits"}, "message", "`year` must have four digits"),
    ({"detail": "User not found", "exc_type": "UserNotFound"}, "exc_type", "UserNotFound"),
    ({"name": "ValidationError", "description": "size"}, "name", "size"),
    ({"data": {"message": "Invalid address"}}, "message", "Invalid address"),
]
FINE: list[Any] = [
    {"error": None, "items": [1]},
    {"error": "", "errors": [], "total": 3},
    {"errors": ["one row was skipped"], "rows": [1, 2]},
    {"error": False, "code": 200},
    {"status": "ok", "message": "saved"},
    {"status": 200, "message": "Successful", "data": []},
    {"success": True, "message": "no errors"},
    {"message": "The phone number is: 675151146"},
    {"message": "No matching books"},
    {"code": 404, "name": "Lyon", "people": [1]},
    {"status": "failed", "job_id": "j1", "steps": [{"ok": False}]},
    {"word": "invalid", "language": "en"},
    {"result": "not equal"},
    {"title": "Error", "year": 1999, "actors": ["A"]},
    {},
    [],
    ["error"],
    "Invalid year format",
    None,
    404,
]


@pytest.mark.parametrize(("body", "key", "message"), ERRORS)
def test_an_error_is_recognised_with_its_field_and_words(body: dict[str, Any], key: str, message: str) -> None:
    found = error_in(body)
    assert found is not None
    assert (found.key, found.message) == (key, message)


@pytest.mark.parametrize("body", FINE)
def test_data_and_success_are_none(body: Any) -> None:
    assert error_in(body) is None


def test_what_the_document_describes_is_none_but_for_fields_named_for_errors() -> None:
    names = {"type": "object", "properties": {"status": {}, "message": {}, "error": {}}}
    assert error_in({"status": "failed", "message": "must not be"}, names) is None
    assert error_in({"status": "failed", "more": ""}, names) is not None
    assert error_in({"error": "closed"}, names) is not None
    assert error_in({"status": "failed"}, {"type": "object"}) is not None


def test_a_code_that_an_example_shows_beside_data_is_no_error() -> None:
    shown = {"url": "https://a.org", "status": "reachable", "status_code": 200, "response_ms": 41}
    answered = {**shown, "status": "client_error", "status_code": 403}
    assert error_in(answered, examples=[shown]) is None
    assert error_in(answered) is not None
    assert error_in(answered, examples=[answered, None]) is not None, "an example of a failure describes no data"
    assert error_in({**answered, "error": "refused"}, examples=[shown]) is not None
    assert error_in({**answered, "message": "URL not found"}, examples=[{**shown, "message": ""}]) is not None
    saved = {"status": 200, "message": "saved"}
    assert error_in({"status": 404, "message": ""}, examples=[saved]) is not None, "it carries no data"
    assert error_in({"success": False, "user": "bob"}, examples=[{"success": True, "user": "bob"}]) is not None


def test_words_are_cut_and_deep_wrappings_are_not_followed() -> None:
    found = error_in({"error": "x" * 9_000})
    assert found is not None
    assert len(found.message) == 500
    wrapped: Any = {"error": "closed"}
    for _ in range(9_000):
        wrapped = {"data": wrapped}
    assert error_in(wrapped) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)
KEYS = st.sampled_from(["error", "status", "code", "message", "data", "success", "detail", "x"]) | st.text(max_size=5)


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_body_is_read_without_an_error_of_ours(body: dict[str, Any]) -> None:
    found = error_in(body)
    assert found is None or found.message is not None
