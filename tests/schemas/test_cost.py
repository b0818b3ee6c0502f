"""Steps of a validation are counted before it begins: what could take minutes is refused, and what fits is not."""

from __future__ import annotations

from typing import Any

import pytest

from atc._records.packing import count_values, json_text
from atc.calls.responses import refuse_too_many
from atc.errors import CallRefused
from atc.schemas.cost import weight_of
from atc.schemas.repair import repair_arguments
from atc.schemas.validate import TOO_MUCH, problems
from tests.support.broker import House
from tests.support.tools import make_tool


def _twice(depth: int) -> dict[str, Any]:
    parts = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(depth)}
    return {"$defs": {**parts, f"a{depth}": {"type": "string"}}, "$ref": "#/$defs/a0"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (_twice(30), "a"),
        ({"pattern": "(?:[ab]{1,100}){1,60}c"}, "ab" * 50_000),
        ({"uniqueItems": True}, [10**30 + i for i in range(10_000)]),
        ({"items": {"enum": [*range(4_000), "a"]}}, [-1] * 10_000),
        ({"uniqueItems": True}, [10**30 + i for i in range(1_500)]),
        ({"items": {"multipleOf": 1e-300}}, [5] * 50_000),
        ({"items": {"multipleOf": 0.5}}, [1e300] * 50_000),
    ],
)
def test_what_could_take_minutes_is_not_begun(schema: dict[str, Any], value: Any) -> None:
    (problem,) = problems(schema, value)
    assert (problem.message, problem.path) == (TOO_MUCH, ())
    parameters = {"type": "object", "properties": {"v": schema}, "$defs": schema.get("$defs", {})}
    (refused,) = repair_arguments(parameters, {"v": value}).problems
    assert refused.message == TOO_MUCH


TREE = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "id": {"type": "integer"}}}


def test_what_is_usual_is_told_exactly() -> None:
    deep: dict[str, Any] = {"id": "x"}
    for _ in range(20):
        deep = {"left": deep, "right": {"id": 1}}
    assert [problem.keyword for problem in problems(TREE, deep)] == ["type"]
    uuid = {
        "properties": {"id": {"pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}, "text": {"type": "string"}}
    }
    assert problems(uuid, {"id": "0" * 8 + "-0000" * 3 + "-" + "0" * 12, "text": "a, " * 500_000}) == []
    codes = {"items": {"enum": [f"c{i}" for i in range(5_000)]}}
    assert problems(codes, ["c4999"] * 10_000) == []
    assert problems({"uniqueItems": True}, [10**17 + i for i in range(4_000)]) == []
    prices = {"items": {"anyOf": [{"multipleOf": 0.25}, {"multipleOf": 1}]}}
    assert problems(prices, [12.25, 123456789012345678, 0.5] * 10_000) == []


@pytest.mark.parametrize(
    ("pattern", "states"), [("a", 2), ("(a{3}b){2}", 11), ("[^]a]{5}", 6), ("a{2,}", 4), ("(", 1), ("\\", 2), (None, 0)]
)
def test_the_states_of_a_pattern(pattern: str | None, states: int) -> None:
    assert weight_of(pattern) == states


def test_values_are_counted_in_their_text() -> None:
    value = [{"a,": "[{,", "b": [[], {}, 1.5]}, None]
    assert count_values(json_text(value) or "") == 8


def test_arguments_with_too_many_values_are_refused_by_name_and_number() -> None:
    refuse_too_many({"n": list(range(90)), "m": b"ab"}, 100)
    with pytest.raises(CallRefused, match=r"hold 161 values, over the limit of 100 a call; 151 are in 'n': give fewer"):
        refuse_too_many({"n": list(range(150)), "m": [""] * 9}, 100)
    house = House(make_tool("go", lambda _: [1] * 200, n={}), max_values=100)
    assert house.call("go", n=[1] * 200).status == "too_large"
    assert house.call("go", n=1).status == "too_large"
    assert "over the limit of 100: ask for less" in str(house.last.error)
