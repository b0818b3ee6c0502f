"""Calls that are made on purpose: they tell the types of arguments that a first answer leaves open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from atc.errors import ToolError
from atc.probing.prober import probe
from atc.result import Effect
from atc.tools.tool import Toolset
from tests.support.tools import make_tool


def arguments_of(answer: Callable[[dict[str, Any]], Any], required: tuple[str, ...], **optional: Any) -> dict[str, Any]:
    """What probing comes to know of the arguments of a tool that only reads."""
    schemas = {name: {} for name in (*required, *optional)}
    made = make_tool("look_up", answer, effect=Effect.READ, required=required, **schemas)
    (protocol,) = probe(Toolset([made]), tries=0).protocols
    known: dict[str, Any] = protocol.parameters["properties"]
    return known


def test_a_measure_that_may_be_a_half_is_a_number_and_a_count_stays_whole() -> None:
    def answer(given: dict[str, Any]) -> Any:
        if not isinstance(given["amount"], int | float):
            raise ToolError("amount: must be a number", status=422)
        return {"sum": given["amount"] * 2, "n": given["limit"]}

    known = arguments_of(answer, ("amount", "limit"))
    assert known["amount"]["type"] == "number"
    assert known["limit"]["x-atc-observed"] == ["string", "integer"]  # it takes anything: nothing is enforced


def test_a_measure_that_must_be_whole_stays_whole() -> None:
    def answer(given: dict[str, Any]) -> Any:
        if not isinstance(given["amount"], int):
            raise ToolError("amount: Input should be a valid integer", status=422)
        return {"sum": given["amount"]}

    assert arguments_of(answer, ("amount",))["amount"]["type"] == "integer"


def test_what_a_service_says_of_nonsense_types_its_optional_arguments() -> None:
    kinds: dict[str, type] = {"full": bool, "depth": int, "note": str}
    words = {"full": "boolean", "depth": "integer"}
    asked: list[dict[str, Any]] = []

    def answer(given: dict[str, Any]) -> Any:
        asked.append(given)
        for name, value in given.items():
            if not isinstance(value, kinds[name]):
                raise ToolError(f"{name}: Input should be a valid {words[name]}", status=422)
        return {"found": 3}

    known = arguments_of(answer, (), full=1, depth=1, note=1)
    assert {name: known[name].get("type") for name in kinds} == {
        "full": "boolean",
        "depth": "integer",
        "note": "string",
    }
    assert "examples" not in known["note"]  # nonsense is shown to nobody
    assert len(asked) <= 8
