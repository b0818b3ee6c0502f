"""These checks try what a program is given, what it answers, how it fails, and what it prints."""

from __future__ import annotations

import functools
from typing import Any

from atc.calls.contract import CallReply
from atc.errors import UsageError
from atc.sandboxes.conformance.kit import Group, Lab, demand, of_kind, raised, same

GROUP = Group("values")
_ERRORS = Group("errors")
_OUTPUT = Group("output")
_INPUTS = Group("inputs")
_HOSTILE = "'''\n__import__('os')._exit(3)\n#\\N{BULLET}{0}%s"


def _given(value: Any, _: dict[str, Any]) -> Any:
    return value


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


@_INPUTS.check("inputs stand in the program's scope, whatever they hold")
async def _(lab: Lab) -> None:
    given: dict[str, Any] = {
        "text": "ü😀\x00",
        "numbers": [1, 2.5, True, None, 10**300],
        "data": b"\x00\xff",
        "naïve": {"a b": [{}], "": []},
        "tag": {"$bytes": "aGk="},
        "nested": {"x": {"$$bytes": [b"hi"]}},
    }
    got = await lab.answer(f"answer = [{', '.join(given)}]", inputs=given)
    same(got, list(given.values()), "what the program read")


@_INPUTS.check("an input is data, never code")
async def _(lab: Lab) -> None:
    same(await lab.answer("answer = text", inputs={"text": _HOSTILE}), _HOSTILE, "the text that the program read")
    raised(await lab.run("x = 1\ntext(1)", inputs={"text": _HOSTILE}), "TypeError", "not callable", line=2)


@_INPUTS.check("a program may change its inputs, and the next one does not see that")
async def _(lab: Lab) -> None:
    for _ in range(2):
        given = {"items": [1, 2]}
        same(await lab.answer("items.append(3)\nanswer = items", inputs=given), [1, 2, 3], "the changed input")
        same(given, {"items": [1, 2]}, "the host's own value")
    raised(await lab.run("x = 1\nanswer = items"), "NameError", "items", line=2)


@_INPUTS.check("an input takes the place of nothing else in a program's scope")
async def _(lab: Lab) -> None:
    for name in ("answer", "parallel", "ToolError", "all_pages", "f", "print", "__builtins__", "__name__", "class", ""):
        try:
            await lab.run("f()", {"f": lambda _: 1}, inputs={name: 1})
        except UsageError as error:
            demand(repr(name) in str(error), f"the refusal does not name {name!r}: {error}")
        else:
            raise AssertionError(f"an input could be called {name!r}")


@_INPUTS.check("an input that is too large or no JSON is refused, and its program is not run")
async def _(lab: Lab) -> None:
    def never(_: dict[str, Any]) -> Any:
        raise AssertionError("the program was run")

    large = "x" * lab.sandbox.limits.frame_bytes
    wrong: list[tuple[Any, str]] = [(large, "takes"), (float("nan"), "cannot"), (object(), "cannot")]
    for value, word in wrong:
        try:
            await lab.run("f()", {"f": never}, inputs={"given": value})
        except UsageError as error:
            demand("'given'" in str(error) and word in str(error), f"the refusal does not say what is wrong: {error}")
        else:
            raise AssertionError(f"a program was run with the input {str(value)[:40]}")
    await lab.still_works()


CHECKS = [*GROUP.checks, *_ERRORS.checks, *_OUTPUT.checks, *_INPUTS.checks]
