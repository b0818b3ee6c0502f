"""What protocols share is written once, read as it was, and believed no further than it is there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from atc.catalogue.index import shared
from atc.catalogue.index.shared import SharedReader, SharedWriter
from atc.schemas.protocol import Protocol

WIDE = {f"k{i}": {"type": "string"} for i in range(30)}


def _protocol(name: str, schema: Any) -> Protocol:
    return Protocol(name=name, returns={"type": "object", "properties": schema, "$defs": WIDE})


@pytest.mark.parametrize("odd", [3, [3], {"a": 1}, None])
def test_what_is_shared_is_written_once_and_read_as_it_was(odd: Any) -> None:
    given = [_protocol("a", {"x": {"$shared": odd}}), _protocol("b", {"$shared": odd, "y": {"const": [WIDE]}})]
    writer = SharedWriter()
    lines = [writer.line(each.name, each) for each in given]
    assert len(writer.texts) == 1
    reader = SharedReader(lines, writer.texts)
    read = [reader[0], reader[1]]
    assert read == given
    assert read[0].returns is not None
    assert read[1].returns is not None
    assert read[0].returns["$defs"] is read[1].returns["$defs"]


@pytest.mark.parametrize("number", [-1, 1, 9, True, "0", {}, [], [1], [{}, {}]])
def test_what_is_not_there_is_refused(number: Any) -> None:
    line = json.dumps({"name": "a", "returns": {"x": {"$shared": 1}}}).encode()
    reader = SharedReader([line], [b"{}", json.dumps({"y": {"$shared": number}}).encode()])
    with pytest.raises(ValueError, match="shares what is not there"):
        reader[0]


def test_what_would_be_huge_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "MOST_VALUES", 10_000)
    texts = [b"[1]", *(json.dumps([{"$shared": n}] * 2).encode() for n in range(60))]
    line = json.dumps({"name": "a", "returns": {"x": {"$shared": 60}}}).encode()
    with pytest.raises(ValueError, match="more than 10,000 values"):
        SharedReader([line], texts)[0]
