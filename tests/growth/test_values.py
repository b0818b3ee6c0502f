"""What values cost the host, by their worst known kinds: what a program gives, a tool answers, a journal holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atc._host.redaction import Redactor
from atc._records.packing import as_text, holds_bytes, pack, unpack
from atc.calls.approval import Approval
from atc.calls.attempt import cut_arguments
from atc.calls.broker import Broker, CallPolicy
from atc.calls.contract import CallRequest
from atc.calls.entry import call_key
from atc.calls.journal import Journal
from atc.calls.json_values import canonical, to_json_value
from atc.calls.own_exceptions import OwnExceptions
from atc.result import Effect
from atc.schemas import cost, validate
from atc.schemas.infer.outline import outline_of
from atc.schemas.infer.shape import Shape
from atc.schemas.infer.text import mask
from atc.schemas.repair import repair_arguments
from atc.schemas.validate import problems
from atc.tools.tool import Toolset
from atc.traces.emitter import emitter
from atc.traces.stores.files import FileTrace
from tests.growth.harness import assert_linear
from tests.support.tools import make_tool

pytestmark = pytest.mark.slow

Make = Callable[[int], Any]
REDACTOR = Redactor(["hunter2-hunter2"], {})
KINDS: dict[str, Make] = {
    "lists": lambda n: [[]] * n,
    "objects": lambda n: [{"a": 1.5, "b\n": "x\ny"} for _ in range(n)],
    "keys": lambda n: {f"key{i}": "$bytes" for i in range(n)},
    "text": lambda n: ["\\" * n, "a\u0301\u0327" * n, "hunter2-" * n],
    "bytes": lambda n: [b"hunter2-" * 10, {"$bytes": 1}] * n,
}
WALKS: dict[str, Callable[[Any], object]] = {
    "canonical": canonical,
    "masked": REDACTOR.value,
    "packed": lambda value: (pack(value), unpack(value), holds_bytes(value)),
    "answer": to_json_value,
    "text": as_text,
    "learnt": lambda value: (mask(value, REDACTOR), outline_of([value]), Shape().add(value)),
}


PAIRS = [(walk, kind) for walk in WALKS for kind in ("lists", "objects", "text") if walk != "learnt"]


@pytest.mark.parametrize(("walk", "kind"), [*PAIRS, ("learnt", "objects"), ("packed", "bytes"), ("canonical", "keys")])
def test_walks(walk: str, kind: str) -> None:
    assert_linear(KINDS[kind], WALKS[walk], n=500, most=30_000)


INTEGERS = {"type": "array", "items": {"type": "integer"}}
SAME = {"type": "array", "items": {"anyOf": [{"type": "integer", "minimum": i} for i in range(10)]}}
NAMED = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"], "additionalProperties": False}
FITTING: dict[str, tuple[dict[str, Any], Make]] = {
    "fitting": (INTEGERS, lambda n: [1] * n),
    "lists": (INTEGERS, lambda n: [[]] * n),
    "numbers as text": (INTEGERS, lambda n: ["12"] * n),
    "the last one": (INTEGERS, lambda n: [1] * n + ["a"]),
    "alternatives": (SAME, lambda n: ["a"] * n),
    "objects": ({"type": "array", "items": NAMED}, lambda n: [{"Id": "1", "x": 2}] * n),
    "keys": (NAMED, lambda n: {f"key{i}": 1 for i in range(n)}),
    "members": ({"additionalProperties": {"type": "integer"}}, lambda n: {f"k{i}": "a" for i in range(n)}),
    "one text": ({"type": "integer"}, lambda n: "a" * 100 * n),
    "large numbers": ({"uniqueItems": True}, lambda n: [10**30 + i for i in range(n)]),
    "pattern": ({"pattern": "(?:[ab]{1,100}){1,6}c"}, lambda n: "ab" * n),
    "multiples": ({"items": {"multipleOf": 1e-300}}, lambda n: [1e300] * n),
}


@pytest.mark.parametrize("what", FITTING)
def test_values_held_to_a_schema_and_repaired(what: str) -> None:
    schema, make = FITTING[what]
    parameters = {"type": "object", "properties": {"v": schema}}
    assert_linear(make, lambda value: problems(schema, value), most=40_000)
    assert_linear(make, lambda value: repair_arguments(parameters, {"v": value}), n=500, most=10_000)


def _twice(n: int, word: str, below: Callable[[dict[str, Any]], dict[str, Any]] = lambda part: part) -> dict[str, Any]:
    """Definitions that each refer twice to the next one."""
    referring = {f"a{i}": {word: [below({"$ref": f"#/$defs/a{i + 1}"})] * 2} for i in range(n)}
    return {"$defs": {**referring, f"a{n}": {"type": "string"}}, "$ref": "#/$defs/a0"}


def _each_other(n: int) -> dict[str, Any]:
    """Definitions that all refer to all."""
    below = [{"properties": {"x": {"$ref": f"#/$defs/n{i}"}}} for i in range(n)]
    parts = {f"n{i}": {"type": "object", "required": ["x"], "anyOf": below} for i in range(n)}
    return {"$defs": parts, "$ref": "#/$defs/n0"}


def _nested(depth: int) -> Any:
    value: Any = "bad"
    for _ in range(depth):
        value = {"x": value}
    return value


SCHEMAS: dict[str, tuple[Callable[[int], dict[str, Any]], Any]] = {
    **{f"twice {word}": (lambda n, word=word: _twice(min(n, 200), word), 1) for word in ("allOf", "anyOf", "oneOf")},
    "twice below": (lambda n: _twice(min(n, 100), "allOf", lambda part: {"properties": {"x": part}}), _nested(100)),
    "each other": (lambda n: _each_other(min(n, 4)), _nested(20)),
    "in one another": (lambda n: _deep(min(n, 100)), {"x": 1}),
    "mixed values": (lambda n: {"items": {"enum": [i if i % 2 else str(i) for i in range(n)]}}, [-1] * 5_000),
    "one value": (lambda n: {"items": {"const": [0] * n}}, [[0]] * 2_000),
    "patterns": (lambda n: {"patternProperties": {f"^{i}.*z$": {} for i in range(n)}}, {f"k{i}": 1 for i in range(99)}),
    "dependent": (lambda n: {"dependentSchemas": {f"k{i}": {"minProperties": 9} for i in range(n)}}, {"k1": 1}),
    "wide": (lambda n: {"items": {"allOf": [{"minLength": 9}] * n}}, ["zz"] * 300),
    "chain": (lambda n: {"$defs": {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(n)}, "$ref": "#/$defs/a0"}, 1),
    "repeated": (lambda n: {"pattern": "a" + "{1,9}" * min(n, 30)}, "a" * 99),
}


def _deep(n: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(n):
        schema = {"allOf": [schema], "unevaluatedProperties": False, "properties": {"x": {}}}
    return schema


@pytest.mark.parametrize("what", SCHEMAS)
def test_schemas(what: str) -> None:
    make, value = SCHEMAS[what]

    def run(schema: dict[str, Any]) -> None:
        for kept in (cost.cost_of, cost._schema, validate._validator, validate._part_validator):
            kept.cache_clear()
        problems(schema, value)

    assert_linear(make, run, n=10, most=1_500)


def _broker(folder: Path, value: Any = None) -> Broker:
    trace = FileTrace(folder / "trace.jsonl")
    tool = make_tool("go", lambda _: value, Effect.READ)
    policy = CallPolicy(max_calls=10**6, replay=False)
    broker = Broker(Toolset([tool]), Journal(), emitter(trace, REDACTOR), policy, Approval(), REDACTOR)
    broker.begin_program()
    return broker


@pytest.mark.parametrize("kind", ["lists", "objects", "text"])
def test_a_call_and_an_answer(kind: str, tmp_path: Path) -> None:
    given, answering = _broker(tmp_path), KINDS[kind]

    def call(broker: Broker, arguments: dict[str, Any]) -> None:
        asyncio.run(broker.call(CallRequest(1, "go", arguments, 1)))
        broker.calls.clear()

    assert_linear(answering, lambda value: call(given, {"n": 1, "v": value}), n=1_000, most=20_000)
    assert_linear(
        lambda n: _broker(tmp_path, answering(n)), lambda broker: call(broker, {"n": 1}), n=1_000, most=20_000
    )


def test_a_journal_that_is_read_back(tmp_path: Path) -> None:
    def make(n: int) -> Path:
        path = tmp_path / f"{n}.jsonl"
        path.unlink(missing_ok=True)
        journal = Journal(path)
        journal.begin_attempt()
        for number in range(n):
            arguments = {"n": number}
            entry = journal.begin(number, call_key("go", arguments), arguments, Effect.READ)
            journal.succeed(entry, [number] * 5)
        journal.close()
        return path

    def run(path: Path) -> None:
        Journal(path).close()

    assert_linear(make, run, n=200, most=2_000)


def test_what_is_cut_for_a_record_and_looked_through_for_an_exception() -> None:
    own = OwnExceptions(REDACTOR, "", [], None)
    make: Make = lambda n: {"a": ["token=" + "x1Y2" * 10, 1] * n}  # noqa: E731
    assert_linear(make, cut_arguments, most=20_000)
    assert_linear(make, lambda arguments: own.masked("token=" + "a1B2" * 50, arguments), most=20_000)
