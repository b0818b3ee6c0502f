"""The process sandbox: what a program gets, what it cannot reach, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from atc.calls.contract import CallReply, CallRequest
from atc.sandboxes.contract import TIERS, Job, Limits
from atc.sandboxes.process.driver import ProcessSandbox
from tests.support.sandbox import forced, in_sandbox, run_once

pytestmark = pytest.mark.usefixtures("nothing_left")


async def _no_tools(request: CallRequest) -> CallReply:
    raise AssertionError("no program of this test calls a tool")


# -- answers ---------------------------------------------------------------------------------------------------------


def test_an_answer_comes_back_as_json_values() -> None:
    values = {
        "6 * 7": 42,
        "{'a': [1, 2.5, None, True], 'b': 'ü 😀'}": {"a": [1, 2.5, None, True], "b": "ü 😀"},
        "(1, 2)": [1, 2],
        "{3, 1, 2}": [1, 2, 3],
        "{1: 'one'}": {"1": "one"},
        "range(3)": [0, 1, 2],
        "{'a': 1}.keys()": ["a"],
        "__import__('datetime').date(2024, 5, 1)": "2024-05-01",
        "__import__('datetime').timedelta(minutes=2)": "PT2M",
        "__import__('decimal').Decimal('1.5')": 1.5,
        "__import__('uuid').UUID(int=1)": "00000000-0000-0000-0000-000000000001",
        "b'bytes'": b"bytes",
        "bytearray(b'\\xff')": b"\xff",
        "{'$bytes': 'YQ=='}": {"$bytes": "YQ=="},
        "'half \\ud83d'": "half ?",
        "2**1000": 2**1000,
    }
    outcome = in_sandbox(f"answer = [{', '.join(values)}]")
    assert (outcome.kind, outcome.answered) == ("finished", True)
    assert outcome.isolation in TIERS
    assert outcome.value == list(values.values())


def test_dataclasses_and_enums_answer_too() -> None:
    program = """
import dataclasses, enum
class Colour(enum.Enum):
    RED = "red"
@dataclasses.dataclass
class Car:
    colour: Colour
    doors: int
answer = [Car(Colour.RED, 4)]
"""
    assert in_sandbox(program).value == [{"colour": "red", "doors": 4}]


@pytest.mark.parametrize(
    ("program", "type_", "words"),
    [
        ("answer = object()", "TypeError", "answer is a object, which has no JSON form"),
        ("answer = {'a': [lambda: 1]}", "TypeError", "answer['a'][0] is a function"),
        ("answer = float('nan')", "ValueError", "answer is nan"),
        ("answer = []\nanswer.append(answer)", "ValueError", "contains itself"),
        ("answer = 10**5000", "ValueError", "give such a number as text"),
        ("answer = 'x' * 5_000_000", "ValueError", "the limit is 2,097,152: give less"),
        ("answer = {(1, 2j): 3, object(): 4}", "TypeError", "a key of type object"),
    ],
)
def test_what_is_no_json_value_is_a_clear_error_in_the_program(program: str, type_: str, words: str) -> None:
    outcome = in_sandbox(program)
    assert outcome.kind == "raised"
    assert outcome.error is not None
    assert outcome.error.type == type_
    assert words in outcome.error.message


def test_a_program_without_an_answer_has_none() -> None:
    outcome = in_sandbox("x = 1")
    assert (outcome.kind, outcome.answered, outcome.value) == ("finished", False, None)


# -- errors ----------------------------------------------------------------------------------------------------------


def test_an_exception_tells_its_line_and_its_span() -> None:
    outcome = in_sandbox("a = {}\n\nb = (1 +\n     a['key'])\n")
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.line, outcome.error.span) == ("KeyError", 4, (4, 4, 5, 13))
    assert outcome.error.trace == (("<module>", 4),)


def test_an_exception_in_a_function_tells_the_way_to_it() -> None:
    outcome = in_sandbox("def f(x):\n    return 1 / x\n\nanswer = f(0)\n")
    assert outcome.error is not None
    assert (outcome.error.line, outcome.error.trace) == (2, (("<module>", 4), ("f", 2)))


@pytest.mark.parametrize(
    ("program", "number"),
    [
        ("fails()", 1),
        ("try:\n    fails()\nexcept ToolError:\n    pass\nfails()", 2),
        ("try:\n    fails()\nexcept ToolError as e:\n    raise KeyError('x') from e", 1),
        ("try:\n    fails()\nexcept ToolError:\n    raise KeyError('x')", 1),
        ("try:\n    fails()\nexcept ToolError:\n    pass\nraise KeyError('x')", None),
        ("class ToolError(Exception):\n    _call = 'seven'\nraise ToolError()", None),
    ],
)
def test_an_exception_tells_which_call_failed(program: str, number: int | None) -> None:
    outcome = in_sandbox(program, {"fails": lambda _: CallReply(error="no")})
    assert outcome.error is not None
    assert outcome.error.call == number


def test_a_stub_that_does_not_take_a_value_tells_its_tool_and_argument() -> None:
    program = "try:\n    fails(a=object())\nexcept TypeError as error:\n    pass\nfails(a=object())"
    outcome = in_sandbox(program, {"fails": lambda _: CallReply(error="no")})
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.tool, outcome.error.parameter) == ("TypeError", "fails", "a")
    assert "no JSON form" in outcome.error.message
    plain = in_sandbox("raise TypeError('fails(a=…) is a object')", {"fails": lambda _: CallReply(error="no")})
    assert plain.error is not None
    assert (plain.error.tool, plain.error.parameter) == (None, None)


def test_a_program_that_does_not_parse_tells_the_line() -> None:
    outcome = in_sandbox("x = 1\ny = = 2\n")
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.line) == ("SyntaxError", 2)


@pytest.mark.parametrize(
    ("leave", "kind"), [("sys.exit()", "finished"), ("sys.exit(0)", "finished"), ("sys.exit('bad')", "raised")]
)
def test_leaving_early_in_peace_keeps_the_answer(leave: str, kind: str) -> None:
    outcome = in_sandbox(f"import sys\nanswer = 1\n{leave}\nanswer = 2")
    assert outcome.kind == kind
    assert outcome.value == (1 if kind == "finished" else None)


def test_a_tool_error_can_be_caught_and_read() -> None:
    program = """
try:
    book(day=1)
except ToolError as error:
    answer = [error.tool, error.status, error.message, str(error)]
"""
    outcome = in_sandbox(program, {"book": lambda _: CallReply(error="no seats", status=409)})
    assert outcome.value == ["book", 409, "no seats", "book: no seats"]


def test_a_tool_error_that_is_not_caught_names_tool_and_line() -> None:
    outcome = in_sandbox("x = 1\nbook()", {"book": lambda _: CallReply(error="no seats", status=409)})
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.tool, outcome.error.line) == ("ToolError", "book", 2)


# -- calls -----------------------------------------------------------------------------------------------------------


def test_arguments_go_out_and_responses_come_in_whatever_they_hold() -> None:
    seen: list[Any] = []

    def echo(arguments: dict[str, Any]) -> Any:
        seen.append(arguments)
        return arguments

    program = (
        "import datetime\nanswer = echo('ü😀\\x00', n=[1, {'a': None}], when=datetime.date(2024, 1, 2), half='\\udc00')"
    )
    outcome = in_sandbox(program, {"echo": echo}, {"echo": ["text", "n"]})
    assert seen == [{"text": "ü😀\x00", "n": [1, {"a": None}], "when": "2024-01-02", "half": "?"}]
    assert outcome.value == seen[0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("f(float('inf'))", "f(x=…) is inf"),
        ("f(object())", "f(x=…) is a object"),
        ("f(10**400)", "give such a number as text"),
        ("f('x' * 5_000_000)", "the arguments of f would take"),
        ("f(1, 2)", "f() takes 1 arguments but 2 were given"),
        ("f(1, x=2)", "f() got multiple values for argument 'x'"),
    ],
)
def test_arguments_that_cannot_be_sent_raise_where_the_call_stands(call: str, words: str) -> None:
    outcome = in_sandbox(f"y = 1\nf(0)\n{call}", {"f": lambda _: 1}, {"f": ["x"]})
    assert outcome.error is not None
    assert words in outcome.error.message
    assert outcome.error.line == 3


def test_parallel_calls_run_at_once_and_keep_their_order() -> None:
    gate = {"waiting": 0, "most": 0}
    together = asyncio.Event()

    async def slow(arguments: dict[str, Any]) -> Any:
        gate["waiting"] += 1
        gate["most"] = max(gate["most"], gate["waiting"])
        if gate["most"] >= 8:
            together.set()
        await asyncio.wait_for(together.wait(), 30)
        await asyncio.sleep(0.02 * (4 - arguments["n"] % 4))
        gate["waiting"] -= 1
        return arguments["n"]

    program = "answer = parallel([lambda n=n: slow(n=n) for n in range(40)])"
    assert in_sandbox(program, {"slow": slow}).value == list(range(40))
    assert gate["most"] >= 8


def test_what_is_done_in_parallel_may_wait_for_each_other_and_begin_more() -> None:
    program = """
import threading
both, seen = threading.Barrier(16, timeout=20), []
def meet(n):
    both.wait()
    return n
met = parallel([lambda n=n: meet(n) for n in range(16)])
inner = parallel(lambda: parallel(lambda: 1, lambda: 2), lambda: 3)
def fail(n):
    seen.append(n)
    raise ValueError(n)
try:
    parallel(lambda: seen.append(0), lambda: fail(1), lambda: fail(2), lambda: seen.append(3))
except ValueError as error:
    first = error.args[0]
answer = [met, inner, first, sorted(seen), parallel(), parallel([])]
"""
    assert in_sandbox(program).value == [list(range(16)), [[1, 2], 3], 1, [0, 1, 2, 3], [], []]


def test_parallel_may_give_errors_in_the_place_of_results() -> None:
    program = """
def fail(n):
    raise ValueError(n)
got = parallel([lambda n=n: n if n % 2 else fail(n) for n in range(40)], settle=True)
named = [n for n, each in enumerate(got) if isinstance(each, ValueError) and each.args == (n,)]
answer = [named == list(range(0, 40, 2)), got[1::2] == list(range(1, 40, 2)), parallel(settle=True)]
"""
    assert in_sandbox(program).value == [True, True, []]


@pytest.mark.parametrize("ends", ["sys.exit(3)", "(_ for _ in ()).throw(KeyboardInterrupt)"])
def test_what_ends_a_program_is_settled_by_nobody(ends: str) -> None:
    outcome = in_sandbox(f"import sys\nparallel(lambda: {ends}, lambda: 1, settle=True)\nanswer = 1")
    assert outcome.kind == "raised"


def test_an_error_is_no_answer_and_no_argument() -> None:
    outcome = in_sandbox("answer = [1, *parallel(lambda: {}['a'], settle=True)]")
    assert outcome.error is not None
    assert outcome.error.message == (
        "answer[1] is an error (KeyError: 'a') and no value: leave it out, or give its text"
    )
    outcome = in_sandbox("f(x=parallel(lambda: 1 / 0, settle=True))", {"f": lambda _: 1}, {"f": ["x"]})
    assert outcome.error is not None
    assert (outcome.error.parameter, outcome.error.message[:20]) == ("x", "f(x=…)[0] is an erro")


def test_little_memory_is_enough_for_parallel_calls() -> None:
    program = "answer = parallel([lambda n=n: f(n=n) for n in range(40)])"
    assert in_sandbox(program, {"f": lambda a: a["n"]}, memory_bytes=256 << 20).value == list(range(40))


@pytest.mark.parametrize("tier", ["N", "L"])
def test_a_thread_that_has_no_room_for_its_first_steps_is_refused_and_not_waited_for(tier: str) -> None:
    """Whatever is left of the memory behind the last stack: here from nothing to 1 MiB."""
    program = """
import threading
refused = 0
for step in range(64):
    filled = None
    filled, stop, threads = bytes(100_000_000 + 16_384 * step), threading.Event(), []
    try:
        while True:
            thread = threading.Thread(target=stop.wait)
            thread.start()
            threads.append(thread)
    except RuntimeError:
        refused += 1
    stop.set()
    for thread in threads:
        thread.join()
answer = refused
"""
    outcome = run_once(forced(tier, Limits(wall_s=30.0, memory_bytes=256 << 20)), program)
    assert outcome.value == 64, outcome


def test_many_threads_may_call_at_once() -> None:
    """More calls than may be in flight wait their turn; none is lost and nothing hangs."""

    async def big(arguments: dict[str, Any]) -> Any:
        await asyncio.sleep(0.01)
        return [arguments["n"], "x" * 200_000]

    program = """
import threading
got = []
threads = [threading.Thread(target=lambda n=n: got.append(big(n=n, pad="y" * 50_000)[0])) for n in range(40)]
[t.start() for t in threads]
[t.join() for t in threads]
answer = sorted(got)
"""
    outcome = in_sandbox(program, {"big": big}, calls_in_flight=4)
    assert outcome.value == list(range(40)), outcome


def test_a_call_tells_the_line_that_made_it() -> None:
    lines: list[int] = []

    async def go() -> None:
        async def call(request: CallRequest) -> CallReply:
            lines.append(request.line)
            return CallReply(value=1)

        async with ProcessSandbox() as sandbox:
            program = "f()\ndef g():\n    return f()\ng()\nparallel(lambda: f(),\n         lambda: g())\n"
            await sandbox.run(Job(program, {"f": ()}), call)

    asyncio.run(go())
    assert sorted(lines) == [1, 3, 3, 5]


def test_asyncio_works_inside_a_program() -> None:
    program = """
import asyncio
async def main():
    loop = asyncio.get_running_loop()
    return await asyncio.gather(*(loop.run_in_executor(None, lambda n=n: f(n=n)) for n in range(3)))
answer = asyncio.run(main())
"""
    assert in_sandbox(program, {"f": lambda a: a["n"]}).value == [0, 1, 2]


@pytest.mark.parametrize(
    ("program", "items"), [("a = [1, 2]\na[5]", 2), ("[][0]", 0), ("'ab'[9]", 2), ("{}['a']", None)]
)
def test_how_long_a_list_was_stands_beside_the_exception(program: str, items: int | None) -> None:
    error = in_sandbox(program).error
    assert error is not None
    assert (error.items, error.hint) == (items, "")
    assert "items" not in error.message
