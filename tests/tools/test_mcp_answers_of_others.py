"""Answers of MCP servers that other clients refuse, or read as something else: the smallest of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from atc import Toolset
from atc.errors import ToolError
from tests.support.mcp import called, raw_server, reading

ANSWERS: dict[str, tuple[dict[str, Any] | None, dict[str, Any], Any]] = {
    "a list in one text": (None, {"content": [{"type": "text", "text": '[{"id": 1}]'}]}, [{"id": 1}]),
    "no blocks beside the structure": (
        {"type": "object", "properties": {"n": {"type": "integer"}}},
        {"content": [], "structuredContent": {"n": 1}},
        {"n": 1},
    ),
    "blocks left out": ({"type": "object"}, {"structuredContent": {"n": 1}}, {"n": 1}),
    "another key than the schema requires": (
        {"type": "object", "required": ["result"], "properties": {"result": {"type": "array"}}},
        {"content": [{"type": "text", "text": '{"emails": []}'}], "structuredContent": {"emails": []}},
        {"emails": []},
    ),
    "null that is said": (
        {"type": ["object", "null"]},
        {"content": [{"type": "text", "text": "null"}], "structuredContent": None},
        None,
    ),
    "null beside an object": (
        {"type": ["object", "null"]},
        {"content": [{"type": "text", "text": '{"n": 1}'}], "structuredContent": None},
        {"n": 1},
    ),
    "a text, and no word of structure": (
        {"type": ["object", "null"]},
        {"content": [{"type": "text", "text": "null"}]},
        "null",
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_program_gets_what_the_server_meant(case: str, tmp_path: Path) -> None:
    schema, result, value = ANSWERS[case]
    tool = reading("look", **({"outputSchema": schema} if schema is not None else {}))
    tools = Toolset.from_mcp(raw_server(tmp_path, [tool], calls={"look": {"reply": {"result": result}}}), timeout_s=60)
    assert called(tools, ("look", {})) == [value]


def test_an_error_that_is_an_image_alone_is_told_without_its_bytes(tmp_path: Path) -> None:
    image = {"type": "image", "data": "QUJD" * 5_000, "mimeType": "image/png"}
    reply = {"reply": {"result": {"isError": True, "content": [image]}}}
    (error,) = called(Toolset.from_mcp(raw_server(tmp_path, calls={"look": reply}), timeout_s=60), ("look", {}))
    assert isinstance(error, ToolError)
    assert error.status == "error"
    assert "QUJD" not in str(error)
    assert len(str(error)) < 200
