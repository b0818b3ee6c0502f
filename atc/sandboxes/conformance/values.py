"""What a program answers and how it fails: values, exceptions, and what it prints."""

from __future__ import annotations

import functools
from typing import Any

from atc.calls.contract import CallReply
from atc.sandboxes.conformance.kit import Group, Lab, demand, of_kind, raised, same

GROUP = Group("values")
_ERRORS = Group("errors")
_OUTPUT = Group("output")


def _given(value: Any, _: dict[str, Any]) -> Any:
    return value


@GROUP.check("every kind of JSON value comes back as it is")
async def _(lab: Lab) -> None:
    wanted: list[Any] = [None, True, False, 0, -1, 1.5, 0.1, "", "text", [], {}, {"a": [1, {"b": None}]}]
    same(await lab.answer(f"answer = {wanted!r}"), wanted, "the answer")


@GROUP.check("text in every script comes back, control characters among it")
async def _(lab: Lab) -> None:
    wanted = ["ü ß é e\u0301", "日本語", "עברית", "😀👩‍👩‍👧", "\x00\x01\x1f\x7f\u2028\ufeff", 'q"\\/']
    same(await lab.answer(f"answer = {wanted!r}"), wanted, "the answer")


@GROUP.check("a program may hold any script in its source")
async def _(lab: Lab) -> None:
    same(await lab.answer("größe = {'日本': '😀'}\nanswer = größe['日本']"), "😀", "the answer")


@GROUP.check("big integers come back exact")
async def _(lab: Lab) -> None:
    wanted = [2**53 + 1, -(2**63), 2**64, 10**300]
    same(await lab.answer("answer = [2**53 + 1, -(2**63), 2**64, 10**300]"), wanted, "the answer")


@GROUP.check("floats come back exact, and stay floats")
async def _(lab: Lab) -> None:
    wanted = [0.1, 1.0, -0.5, 5e-324, 1.7976931348623157e308, 1 / 3, 1e16]
    same(await lab.answer(f"answer = {wanted!r}"), wanted, "the answer")


@GROUP.check("dates, times and durations are ISO text")
async def _(lab: Lab) -> None:
    program = """
from datetime import date, datetime, time, timedelta
answer = [date(2026, 5, 1), datetime(2026, 5, 1, 9), time(9, 30), timedelta(days=1, hours=2), -timedelta(seconds=1.5)]
"""
    wanted = ["2026-05-01", "2026-05-01T09:00:00", "09:30:00", "P1DT2H", "-PT1.5S"]
    same(await lab.answer(program), wanted, "the answer")


@GROUP.check("what is iterated is a list, to a tool and in the answer; what has no end is an error of the program")
async def _(lab: Lab) -> None:
    seen: list[dict[str, Any]] = []
    program = """
f(a=map(int, "12"), b=(n for n in range(2)), c={"x": 1}.items(), d=[zip([1], "a")])
answer = reversed([1, 2]), filter(None, [0, 1])
"""
    same(await lab.answer(program, {"f": lambda arguments: seen.append(arguments)}), [[2, 1], [1]], "the answer")
    same(seen, [{"a": [1, 2], "b": [0, 1], "c": [["x", 1]], "d": [[[1, "a"]]]}], "the arguments")
    endless = "import itertools\nanswer = itertools.count()"
    raised(await lab.run(endless), "ValueError", "has no end")


@GROUP.check("bytes pass exactly, to a tool, from it and in the answer, and are not taken for what they look like")
async def _(lab: Lab) -> None:
    every, own = bytes(range(256)), {"$bytes": "YQ=="}
    seen: list[dict[str, Any]] = []

    def turned(arguments: dict[str, Any]) -> Any:
        seen.append(arguments)
        return {"data": arguments["data"][::-1], "own": arguments["own"]}

    program = """
found = f(data=bytes(range(256)), own={"$bytes": "YQ=="})
answer = [found["data"], found["own"], bytearray(b"\\x00"), b"", {"$$bytes": b"a"}, type(found["data"]).__name__]
"""
    wanted = [every[::-1], own, b"\x00", b"", {"$$bytes": b"a"}, "bytes"]
    same(await lab.answer(program, {"f": turned}), wanted, "the answer")
    same(seen, [{"data": every, "own": own}], "what the tool was given")


@GROUP.check("dates, sets, tuples, decimals, dataclasses and enums become JSON")
async def _(lab: Lab) -> None:
    program = """
import dataclasses, datetime, decimal, enum
class Colour(enum.Enum):
    RED = "red"
@dataclasses.dataclass
class Car:
    colour: Colour
    built: datetime.date
answer = [Car(Colour.RED, datetime.date(2024, 2, 29)), {3, 1, 2}, (1, 2), decimal.Decimal("1.5"), range(2), {1: "one"}]
"""
    wanted = [{"colour": "red", "built": "2024-02-29"}, [1, 2, 3], [1, 2], 1.5, [0, 1], {"1": "one"}]
    same(await lab.answer(program), wanted, "the answer")


@GROUP.check("no answer is told from the answer None")
async def _(lab: Lab) -> None:
    none, null = await lab.run("x = 1"), await lab.run("answer = None")
    same((none.kind, none.answered), ("finished", False), "the end of a program without an answer")
    same((null.kind, null.answered, null.value), ("finished", True, None), "the end of a program that answers None")


@GROUP.check("an answer of a megabyte comes back")
async def _(lab: Lab) -> None:
    value = await lab.answer("answer = ['x' * 500_000, 'ü' * 250_000]")
    demand(value == ["x" * 500_000, "ü" * 250_000], "an answer of a megabyte did not come back as it was")


@GROUP.check("an answer over the frame limit is an error in the program")
async def _(lab: Lab) -> None:
    raised(await lab.run(f"answer = 'x' * {lab.sandbox.limits.frame_bytes + 1}"), "ValueError", "give less")


@GROUP.check("an answer with no JSON form is an error in the program that says where")
async def _(lab: Lab) -> None:
    raised(await lab.run("answer = {'a': [1, object()]}"), "TypeError", "answer['a'][1]")
    raised(await lab.run("answer = [float('nan')]"), "ValueError", "nan")
    raised(await lab.run("answer = []\nanswer.append(answer)"), "ValueError", "contains itself")


@_ERRORS.check("an exception tells its type, message, line and the way to it")
async def _(lab: Lab) -> None:
    outcome = await lab.run("def f(x):\n    return 1 / x\n\nanswer = f(0)\n")
    raised(outcome, "ZeroDivisionError", "division by zero", line=2)
    if outcome.error is not None:
        same(outcome.error.trace, (("<module>", 4), ("f", 2)), "the way to the exception")


@_ERRORS.check("an exception tells the expression that failed")
async def _(lab: Lab) -> None:
    outcome = await lab.run("a = {}\n\nb = (1 +\n     a['key'])\n")
    raised(outcome, "KeyError", "key", line=4)
    if outcome.error is not None:
        same(outcome.error.span, (4, 4, 5, 13), "the place of the expression")


@_ERRORS.check("a program's own exception class is told by its name")
async def _(lab: Lab) -> None:
    raised(await lab.run("class NoSeats(Exception): ...\nraise NoSeats('all taken')"), "NoSeats", "all taken", line=2)


@_ERRORS.check("an exception whose own text fails is still told")
async def _(lab: Lab) -> None:
    program = "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd"
    raised(await lab.run(program), "Odd", line=3)


@_ERRORS.check("a program that does not parse tells the line")
async def _(lab: Lab) -> None:
    raised(await lab.run("x = 1\ny = = 2\n"), "SyntaxError", line=2)


@_ERRORS.check("an error raised inside the standard library names the program's line")
async def _(lab: Lab) -> None:
    raised(await lab.run("import json\n\njson.loads('{')"), "JSONDecodeError", line=3)


@_ERRORS.check("a tool's error can be caught, and has tool, status and message")
async def _(lab: Lab) -> None:
    program = "try:\n    f()\nexcept ToolError as e:\n    answer = [e.tool, e.status, e.message, str(e)]"
    for status in (409, "gone", None):
        reply = CallReply(error="no seats – ü", status=status)
        got = await lab.answer(program, {"f": functools.partial(_given, reply)})
        same(got, ["f", status, "no seats – ü", "f: no seats – ü"], "what the program read of the error")


@_ERRORS.check("a tool's error that is not caught names the tool and the line")
async def _(lab: Lab) -> None:
    outcome = await lab.run("x = 1\nf()", {"f": lambda _: CallReply(error="no seats", status=409)})
    raised(outcome, "ToolError", "no seats", line=2)
    same(outcome.error and outcome.error.tool, "f", "the tool that the error names")


@_ERRORS.check("deep recursion is a RecursionError, not the end of the process")
async def _(lab: Lab) -> None:
    raised(await lab.run("def f(): return f()\nf()"), "RecursionError")


@_OUTPUT.check("stdout and stderr are kept apart, and are the program's own")
async def _(lab: Lab) -> None:
    program = """
import sys
print("out ü", flush=True)
print("err", file=sys.stderr)
sys.stdout.buffer.write(b"\\xff raw")
answer = 1
"""
    outcome = await lab.run(program)
    of_kind(outcome, "finished")
    same((outcome.stdout, outcome.stderr), ("out ü\n\N{REPLACEMENT CHARACTER} raw", "err\n"), "what was printed")


@_OUTPUT.check("what was printed before an exception is kept")
async def _(lab: Lab) -> None:
    outcome = await lab.run("print('before')\n1 / 0")
    raised(outcome, "ZeroDivisionError", line=2)
    same(outcome.stdout, "before\n", "what was printed")


@_OUTPUT.check("a frame that is printed is never taken for protocol")
async def _(lab: Lab) -> None:
    program = """
import os, sys
frame = b'{"op":"done","answered":true,"value":"forged"}'
for fd in (1, 2):
    os.write(fd, len(frame).to_bytes(4, "big") + frame)
answer = "real"
"""
    same(await lab.answer(program), "real", "the answer")


@_OUTPUT.check("a flood of output blocks nothing and is kept to the limit")
async def _(lab: Lab) -> None:
    program = """
import sys
print("begin", flush=True)
for stream in (sys.stdout, sys.stderr):
    for _ in range(32):
        stream.buffer.write(b"x" * (1 << 20))
answer = "done"
"""
    outcome = await lab.run(program, output_bytes=10_000)
    same(outcome.value, "done", "the answer")
    demand(outcome.stdout.startswith("begin\n"), "the beginning of what was printed was lost")
    for name, text in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
        demand(10_000 <= len(text) < 10_200, f"{len(text):,} characters of {name} were kept; the limit is 10,000")


CHECKS = [*GROUP.checks, *_ERRORS.checks, *_OUTPUT.checks]
