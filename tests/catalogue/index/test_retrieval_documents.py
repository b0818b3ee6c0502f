"""Tools that are held in memory are found and given back as those that were written as lines of JSON."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from atc import Toolset
from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.retriever import IndexRetriever
from atc.errors import UsageError
from atc.schemas.protocol import Protocol
from atc.tools.tool import Tool
from tests.support.retrieval import files, no_model

OWNER = {"$ref": "#/components/schemas/Owner"}
PET = {"$ref": "#/components/schemas/Pet"}


def document(operations: int = 0) -> dict[str, Any]:
    """A service whose schemas refer to each other in a circle, with keys in no order."""
    paths: dict[str, Any] = {
        "/pets/{pet_id}": {"get": _operation("getPet", "One pet.", PET, "pet_id", "verbose")},
        "/owners": {"get": _operation("listOwners", "All owners.", {"type": "array", "items": OWNER})},
        "/pets": {"get": _operation("findPets", "Pets by name.", {"type": "array", "items": PET}, "name", "age")},
        "/walks/{owner_id}": {"post": _operation("bookWalk", "Book a walk for a pet.", OWNER, "owner_id", "pet_id")},
    }
    paths |= {f"/others/{n}": {"get": _operation(f"other{n}", f"Other {n}.", PET)} for n in range(operations)}
    pet = {"type": "object", "properties": {"pet_id": {"type": "string"}, "owner": OWNER, "age": {"type": "integer"}}}
    owner = {"type": "object", "properties": {"owner_id": {"type": "string"}, "pets": {"type": "array", "items": PET}}}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Pets", "version": "1"},
        "servers": [{"url": "https://pets.example"}],
        "paths": paths,
        "components": {"schemas": {"Pet": pet, "Owner": owner}},
    }


def _operation(name: str, text: str, answer: dict[str, Any], *parameters: str) -> dict[str, Any]:
    """The first parameter is of the path where it is an id; the others are of the query."""
    return {
        "operationId": name,
        "description": text,
        "parameters": [
            {
                "name": each,
                "in": "path" if not place and each.endswith("_id") else "query",
                "required": each.endswith("_id"),
                "schema": {"type": "string"},
            }
            for place, each in enumerate(parameters)
        ],
        "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": answer}}}},
    }


def test_protocols_are_given_back_as_their_lines_give_them(tmp_path: Path) -> None:
    tools = Toolset.from_openapi(document())
    held, lines = ToolIndex.build(tools), ToolIndex.build(tools.protocols)
    for name in tools:
        assert repr(held.protocol(name)) == repr(lines.protocol(name))  # the order of keys, too
    held.save(tmp_path / "held")
    lines.save(tmp_path / "lines")
    assert files(tmp_path / "held") == files(tmp_path / "lines")
    for name in tools:
        assert repr(held.protocol(name)) == repr(lines.protocol(name))


def test_the_same_tools_are_found_whatever_holds_them() -> None:
    tools = Toolset.from_openapi(document(20))
    lines = IndexRetriever(ToolIndex.build(tools.protocols))
    for task in ("take a walk", "one pet", "owners"):
        found = asyncio.run(IndexRetriever().retrieve(task, tools, 20, no_model))
        same = asyncio.run(lines.retrieve(task, tools, 20, no_model))
        assert list(found.tools) == list(same.tools)
        assert found.facts() == same.facts()


def test_what_protocols_share_is_held_once() -> None:
    tools = Toolset.from_openapi(document(20))
    index = ToolIndex.build(tools)
    definitions = [index.protocol(name).returns["$defs"]["Owner"] for name in tools]  # type: ignore[index]
    assert len(definitions) == 24
    assert len({id(definition) for definition in definitions}) == 1


def test_a_protocol_that_contains_itself_is_held_and_not_written(tmp_path: Path) -> None:
    loop: dict[str, Any] = {"type": "object"}
    loop["items"] = loop
    index = ToolIndex.build(Toolset([Tool(Protocol(name="loop").model_copy(update={"returns": loop}))]))
    returns = index.protocol("loop").returns
    assert returns is not None
    assert returns["items"]["items"] is returns["items"]
    with pytest.raises(UsageError, match="'loop' cannot be written as JSON"):
        index.save(tmp_path)
