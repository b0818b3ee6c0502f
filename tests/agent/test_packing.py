"""Bytes pass exactly, in both directions and through every file, and are never taken for what a user has written."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc import Result, tool
from atc._host.redaction import Redactor
from atc._records.outcome import Outcome
from atc._records.packing import as_text, holds_bytes, pack, unpack
from atc._records.strict_json import parse
from atc.calls.contract import CallRequest
from atc.calls.journal import Journal, call_key
from atc.calls.json_values import canonical, to_json_value
from atc.errors import FrameError
from atc.programs.check.checker import Checker
from atc.programs.program import Program
from atc.result import Effect
from atc.run.say import value_text
from atc.sandboxes.channel.session import value_of
from atc.sandboxes.remote import messages
from atc.schemas.infer.shape import mask
from atc.schemas.protocol import without_bytes
from atc.schemas.validate import problems
from atc.tools.functions import tool_from_function
from atc.tools.stubs import render_stub
from tests.support.agent import agent
from tests.support.broker import WRITE, House
from tests.support.convert import sandbox_convert
from tests.support.repairs import repaired
from tests.support.tools import make_tool

convert = sandbox_convert()
KEY = st.sampled_from(["$bytes", "$$bytes", "$$$bytes", "bytes", "$byte"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=3
)
NUMBER = st.integers(-(2**60), 2**60)
SCALAR = st.none() | st.booleans() | NUMBER | st.text("a$bytes", max_size=6) | st.binary(max_size=9)
BASE64 = st.binary(max_size=6).map(lambda data: base64.b64encode(data).decode())
VALUE = st.recursive(
    SCALAR | BASE64, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=2), max_leaves=8
)
BINARY = {"type": "string", "format": "binary"}


@given(VALUE)
def test_every_value_comes_back_as_it_was_from_and_to_the_sandbox(value: Any) -> None:
    wire = json.dumps(pack(value))
    assert exact(unpack(parse(wire))) == exact(value)
    assert exact(convert.from_json(json.loads(wire))) == exact(value)
    from_sandbox = json.dumps(convert.to_json(value, "answer"))
    assert json.loads(from_sandbox) == json.loads(wire)


def exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exact(item) for item in value]
    return type(value), value


@pytest.mark.parametrize("inside", ["YQ", "YR==", "YQ==\n", "Y Q==", "ü", 1, None, ["YQ=="], {"a": 1}])
def test_a_tag_that_holds_no_bytes_breaks_the_rules(inside: Any) -> None:
    with pytest.raises(FrameError, match="bytes"):
        value_of({"a": [{"$bytes": inside}]})


def test_what_holds_no_bytes_is_passed_as_it_is() -> None:
    value = {"a": [1, {"b": "text"}]}
    assert pack(value) is value
    assert unpack(value) is value


def test_bytes_are_not_the_call_with_their_base64_text() -> None:
    values: list[Any] = [b"a", "YQ==", {"$bytes": "YQ=="}, {"$$bytes": "YQ=="}, "a", b"", "", None]
    assert len({canonical(value) for value in values}) == len(values)
    assert len({call_key("send", {"data": value}) for value in values}) == len(values)


def test_a_journal_gives_bytes_back(tmp_path: Path) -> None:
    value = {"data": b"\xff\x00", "own": {"$bytes": "YQ=="}}
    key = call_key("send", value)
    journal = Journal(tmp_path / "journal.jsonl")
    journal.begin_attempt()
    journal.succeed(journal.begin(1, key, value, Effect.WRITE), value)
    journal.close()
    again = Journal(tmp_path / "journal.jsonl")
    again.begin_attempt()
    entry = again.claim(key)
    again.close()
    assert entry is not None
    assert exact(entry.value) == exact(value)
    assert exact(entry.arguments) == exact(value)


def test_the_service_carries_bytes() -> None:
    value = {"data": b"\xff", "own": {"$bytes": b"x"}}
    call = messages.decode(messages.encode(messages.call_message(CallRequest(1, "f", value, 0))).decode())
    assert {name: value_of(item) for name, item in call["args"].items()} == value
    reply = {"op": "reply", "id": 1, "value": pack(value)}
    assert messages.reply_of(messages.decode(messages.encode(reply).decode()))[1].value == value
    end = messages.outcome_message(Outcome("finished", True, value, isolation="N"))
    assert value_of(messages.decode(messages.encode(end).decode())["value"]) == value


# -- the broker --------------------------------------------------------------------------------------------------------


def test_a_response_of_bytes_is_counted_as_it_is_written_and_never_cut() -> None:
    house = House(make_tool("get", lambda _: b"\xff" * 300), response_bytes=420)
    assert house.call("get", n=1).value == b"\xff" * 300
    reply = House(make_tool("get", lambda _: b"\xff" * 300), response_bytes=400).call("get", n=1)
    assert reply.status == "too_large"


def test_bytes_are_replayed_and_an_event_holds_json_alone() -> None:
    house = House(make_tool("put", lambda arguments: arguments["data"][::-1], WRITE, data=BINARY))
    assert house.call("put", data=b"ab\xff").value == b"\xffba"
    house.journal.begin_attempt()
    assert house.call("put", data=b"ab\xff").value == b"\xffba"
    assert house.last.status == "replayed"
    json.dumps(house.events, allow_nan=False)
    assert house.events[0][1]["arguments"] == {"data": {"$bytes": "YWL/"}}


def test_a_secret_inside_bytes_is_masked() -> None:
    redactor = Redactor(["s3cret-s3cret"], {})
    assert redactor.value({"a": [b"\xff key s3cret-s3cret \x00"]}) == {"a": [b"\xff key [secret] \x00"]}
    house = House(make_tool("get", lambda _: b"\xffs3cret-s3cret"), secrets=("s3cret-s3cret",))
    assert house.call("get", n=1).value == b"\xff[secret]"


def test_plain_keeps_bytes_and_what_probing_stores_is_json() -> None:
    assert to_json_value({1: (b"\xff", bytearray(b"a"))}) == {"1": [b"\xff", b"a"]}
    assert len(json.dumps(mask({"image": b"\x89PNG" * 1000}))) < 200


# -- what is shown -----------------------------------------------------------------------------------------------------


def test_people_and_models_read_the_first_bytes() -> None:
    assert as_text({"a": [b"\x89PNG", "ü"]}) == '{"a": [b\'\\x89PNG\', "ü"]}'
    assert as_text(b"x" * 1000) == f"b'{'x' * 60}' … (1,000 bytes)"
    assert value_text(b"\x00") == "b'\\x00'"
    assert not holds_bytes({"a": ["b"]})


def upload(data: bytes, name: str = "a", thumb: bytes | None = None, rest: bytes = b"\xff") -> bytes:
    """Store a file.

    Args:
        data: its content
    """
    return data


def test_a_stub_says_bytes() -> None:
    protocol = tool_from_function(upload).protocol
    assert protocol.returns == BINARY
    stub = render_stub(protocol)
    assert "def upload(data: bytes, name: str = ..., thumb: bytes | None = ..., rest: bytes = ...) -> bytes:" in stub
    assert "binary" not in stub


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        (BINARY, b"x", True),
        (BINARY, "eA==", False),
        (BINARY, {"$bytes": "eA=="}, False),
        (BINARY, None, False),
        (BINARY, 5, False),
        ({**BINARY, "type": ["string", "null"]}, None, True),
        ({**BINARY, "type": ["string", "null"]}, b"x", True),
        ({**BINARY, "type": ["string", "null"]}, "x", False),
        ({"anyOf": [BINARY, {"type": "string"}]}, "x", True),
        ({"anyOf": [BINARY, {"type": "string"}]}, b"x", True),
        ({"type": "string"}, b"x", False),
        ({"type": "object"}, b"x", False),
        ({"type": ["object", "null"]}, b"x", False),
        ({"type": "array"}, b"x", False),
        ({"enum": ["x"]}, b"x", False),
        ({}, b"x", True),
        ({"$ref": "#/$defs/data"}, b"x", True),
        ({"$ref": "#/$defs/data"}, "x", False),
        ({"type": "object"}, {"$bytes": "eA=="}, True),
    ],
)
def test_the_gate_takes_bytes_where_they_are_wanted_and_nowhere_else(schema: Any, value: Any, fits: bool) -> None:
    definitions = {"data": BINARY}
    alone = {"type": "object", "properties": {"data": schema}, "$defs": definitions}
    beside = {"type": "object", "properties": {"data": schema, "other": {}}, "$defs": definitions}
    assert (not problems(alone, {"data": value})) == fits
    assert (not problems(beside, {"data": value, "other": b"bytes are here too"})) == fits
    if value is not None:
        assert repaired(alone, {"data": value}) == ({"data": value}, [])


def test_a_refusal_says_what_to_do() -> None:
    schema = {"type": "object", "properties": {"data": BINARY, "text": {"type": "string"}}}
    told = [str(problem) for problem in problems(schema, {"data": "eA==", "text": b"x"})]
    assert told == [
        "$.data: bytes are wanted, not str: encode text (`text.encode()`), decode base64 text",
        "$.text: b'x' is bytes, which are not taken here: decode text (`data.decode()`)",
    ]


def test_where_only_json_travels_binary_is_text() -> None:
    schema = {"properties": {"format": {"type": "string"}, "data": BINARY}, "default": BINARY}
    wanted = {"properties": {"format": {"type": "string"}, "data": {"type": "string"}}, "default": BINARY}
    assert without_bytes(schema) == wanted


# -- a whole run -------------------------------------------------------------------------------------------------------

SEEN: list[Any] = []


@tool(effect="write")
def flip(data: bytes, notes: dict[str, Any]) -> dict[str, Any]:
    """Turn bytes round.

    Args:
        data: what to turn round
        notes: anything
    """
    SEEN.append((data, notes))
    return {"data": data[::-1], "size": len(data)}


PROGRAM = """```python
found = flip(data=bytes(range(256)), notes={"$bytes": "YQ=="})
answer = found["data"]
```"""


def test_a_run_takes_and_gives_bytes() -> None:
    SEEN.clear()
    under_test = agent(PROGRAM, tools=(flip,))
    result = under_test.run("turn all bytes round")
    assert [(bytes(range(256)), {"$bytes": "YQ=="})] == SEEN
    assert result.status == "answered"
    assert result.value == bytes(range(256))[::-1]
    assert result.calls[0].value == {"data": result.value, "size": 256}
    told = json.loads(json.dumps(result.model_dump(mode="json"), allow_nan=False))
    assert base64.b64decode(told["value"]["$bytes"]) == result.value
    assert told["calls"][0]["arguments"]["notes"] == {"$$bytes": "YQ=="}
    assert Result.model_validate_json(result.model_dump_json()) == result
    answered = under_test.store.find("last").first("answered")
    assert answered is not None
    assert unpack(answered["value"]) == result.value


def test_base64_text_is_refused_before_the_function_is_called() -> None:
    SEEN.clear()
    house = House(tool_from_function(flip))
    reply = asyncio.run(house.acall("flip", data="YQ==", notes={}))
    assert (reply.status, SEEN) == ("invalid_arguments", [])


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("answer = upload(data=b'a').decode()", ""),
        ("answer = upload(data='YQ==')", "bytes are wanted, not str"),
        ("answer = upload(data=b'a', name=b'x')", "b'x' is bytes, which are not taken here"),
    ],
)
def test_the_check_knows_bytes_before_a_program_runs(program: str, told: str) -> None:
    checker = Checker([tool_from_function(upload).protocol])
    found = checker.check(Program(program), "")
    assert [told in finding.message for finding in found] == ([True] if told else [])
