"""What was observed and is not documented is shown as such, and no program is refused by it."""

from __future__ import annotations

from typing import Any

import pytest

from atc.programs.analysis.values import OPEN, shape_at
from atc.programs.check.checker import Checker
from atc.programs.program import Program
from atc.result import Effect
from atc.schemas.observed import MAX_KEYS, is_observed, says_nothing, with_shape
from atc.schemas.protocol import Protocol
from atc.tools.stub_budget import Fitter
from atc.tools.stubs import observed_response, observed_returns, render_stub

SHAPE = {
    "type": "object",
    "properties": {"places": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}}},
    "required": ["places"],
}
SILENT = Protocol(name="locate", description="Find a place.", effect=Effect.READ)
SHOWN = with_shape(SILENT, SHAPE)


def test_a_stub_shows_it_and_says_that_no_document_has_it() -> None:
    assert f"{observed_returns(None)}: {{'places': [{{'id'?: int}}]}}" in render_stub(SHOWN, plain=True)
    assert observed_response(None) in render_stub(SHOWN)
    assert "class LocateResponse(TypedDict)" in render_stub(SHOWN)
    for room in range(60, 400, 20):
        text = Fitter([SHOWN], {}).within(room).text
        assert "places" not in text or observed_returns(None) in text or observed_response(None) in text
    for plain in (False, True):
        assert "not documented" not in render_stub(SILENT.model_copy(update={"returns": SHAPE}), plain=plain)


def test_no_program_is_refused_by_it() -> None:
    assert shape_at(SHOWN.returns, ()) == shape_at(SHOWN.returns, ("places", 0)) == OPEN
    source = "found = locate()\nanswer = found['other'][0]['name'] + found['places'][0]['label']\n"
    assert Checker([SHOWN]).check(Program(source)) == []


@pytest.mark.parametrize("shape", [{}, {"enum": [1]}, {"type": "secret"}, {"$ref": "#/$defs/x"}, {"description": "x"}])
def test_a_shape_without_keys_and_types_is_none(shape: dict[str, Any]) -> None:
    assert with_shape(SILENT, shape) is SILENT


def test_of_a_strangers_shape_only_keys_and_types_pass_and_not_too_many() -> None:
    shape: dict[str, Any] = {
        "type": ["object", "null"],
        "properties": {f"k{n}": {"type": "string", "const": "secret", "default": "secret"} for n in range(10_000)},
        "required": ["k1", "gone"],
        "description": "secret",
        "additionalProperties": {"anyOf": [{"type": "string", "examples": ["secret"]}, {"type": "integer"}]},
    }
    returns = with_shape(SILENT, shape).returns
    assert returns is not None
    assert "secret" not in str(returns)
    assert (len(returns["properties"]), returns["required"]) == (MAX_KEYS, ["k1"])
    assert (is_observed(returns), says_nothing(returns)) == (True, False)
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(1_000):
        deep = {"type": "array", "items": deep}
    assert str(with_shape(SILENT, deep).returns).count("array") < 12


def test_what_says_nothing() -> None:
    assert all(map(says_nothing, [None, {}, {"type": "object"}, {"type": "object", "additionalProperties": True}]))
    assert not any(map(is_observed, [None, SHAPE]))
