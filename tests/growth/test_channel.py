"""What a program, or a caller of the sandbox service, sends to the host: its time grows with its bytes."""

from __future__ import annotations

from typing import Any

import pytest

from atc.sandboxes.channel import frames
from atc.sandboxes.channel.session import as_call_request, as_program_error, value_of
from atc.sandboxes.contract import Limits
from atc.sandboxes.inputs import name_problem, packed
from atc.sandboxes.remote import messages
from tests.growth.harness import assert_linear

pytestmark = pytest.mark.slow

_BODIES = {
    "small values": lambda n: b'{"a":[' + b"[]," * n + b"1]}",
    "objects": lambda n: b'{"a":[' + b'{"b":1,"c":""},' * n + b"1]}",
    "escaped quotes without an end": lambda n: b'{"a":"' + b'\\"' * n,
    "texts among brackets": lambda n: b"[" * 200 + b'"a","' * n,
    "half characters": lambda n: b'{"a":"' + b"\\ud83d\\ude00" * n + b'"}',
    "digits": lambda n: b'{"a":[' + b"9" * 400 + b",1e300" * n + b"]}",
}


@pytest.mark.parametrize("kind", _BODIES)
def test_a_frame_is_decoded(kind: str) -> None:
    assert_linear(_BODIES[kind], frames.decode, n=5_000, most=400_000)


def test_many_small_frames_in_one_buffer_are_taken_apart() -> None:
    def take(buffer: bytearray) -> None:
        at = 0
        while (found := frames.next_frame(buffer, at, 1 << 20)) is not None:
            at = found[1]

    one = frames.encode({"op": "call", "id": 1})
    assert_linear(lambda n: bytearray(one * n), take, n=500, most=50_000)


def test_calls_reports_and_values_are_read() -> None:
    def call(n: int) -> dict[str, Any]:
        return {"id": 1, "tool": "t" * n, "args": {f"a{number}": [1] for number in range(n)}, "line": 1}

    def report(n: int) -> dict[str, Any]:
        return {"type": ["x"] * n, "message": {"m": "x" * n}, "trace": [["f" * n, 1]] * n, "span": [1] * n}

    assert_linear(call, as_call_request, n=2_000, most=200_000)
    assert_linear(report, as_program_error, n=2_000, most=500_000)
    assert_linear(lambda n: [{"$bytes": "aGk="}, {"$" * 90 + "bytes": 1}] * n, value_of, n=1_000, most=50_000)


def test_a_run_of_the_service_is_read() -> None:
    limits = Limits()

    def run(n: int) -> dict[str, Any]:
        inputs = {f"é{number}" + "e\u0301" * 30: [None] * 3 for number in range(n)}
        return {"op": "run", "program": "", "tools": {"t": ["p"] * 2_000}, "inputs": inputs}

    assert_linear(run, lambda message: messages.job_of(message, limits), n=500, most=20_000)
    assert_linear(
        lambda n: {"a": [{"b": "x"}] * n},
        lambda inputs: packed(inputs, frame_bytes=1 << 30, channel_bytes=1 << 30),
        n=2_000,
        most=100_000,
    )


def test_a_name_of_marks_is_refused() -> None:
    assert_linear(lambda n: "a" + "\u0301\u0327" * n, name_problem)
