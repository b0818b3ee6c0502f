"""Tool calls: what goes out, what comes in, how many at once."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from atc._records.outcome import Outcome
from atc.calls.contract import CallReply, CallRequest
from atc.sandboxes.conformance.kit import Group, Lab, Tool, demand, of_kind, raised, same
from atc.sandboxes.contract import Job

GROUP = Group("calls")
_THREADS = """
import threading
got = {}
def work(n):
    got[n] = f(n)
threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
for thread in threads: thread.start()
for thread in threads: thread.join()
answer = [got[n] for n in range(COUNT)]
"""


def _echo(arguments: dict[str, Any]) -> Any:
    return arguments


class _Gate:
    """A tool that answers when ``wanted`` calls wait for it at once, or after a while; ``most`` is the most it saw."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.waiting, self.most = wanted, 0, 0
        self._open = asyncio.Event()

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        if self.most >= self.wanted:
            self._open.set()
        try:
            await asyncio.wait_for(self._open.wait(), 20)
        except TimeoutError:
            self._open.set()  # let the program end: what was seen says enough
        self.waiting -= 1
        return arguments["n"]

    @property
    def tool(self) -> dict[str, Tool]:
        return {"f": self.__call__}


@GROUP.check("arguments go out and responses come in, whatever they hold")
async def _(lab: Lab) -> None:
    wanted = {"text": "ü😀\x00", "n": [1, {"a": None}], "big": 10**300, "small": 0.1, "yes": True}
    same(await lab.answer(f"answer = f(**{wanted!r})", {"f": _echo}), wanted, "what came back of the arguments")


@GROUP.check("positional arguments take the parameters in their order")
async def _(lab: Lab) -> None:
    got = await lab.answer("answer = f(1, 'two', c=3)", {"f": _echo}, parameters=["a", "b", "c"])
    same(got, {"a": 1, "b": "two", "c": 3}, "the arguments that arrived")


@GROUP.check("wrong arguments are a TypeError where the call stands")
async def _(lab: Lab) -> None:
    tools: dict[str, Tool] = {"f": _echo}
    raised(await lab.run("x = 1\nf(1, 2)", tools, parameters=["a"]), "TypeError", "takes 1", line=2)
    raised(await lab.run("x = 1\nf(1, a=2)", tools, parameters=["a"]), "TypeError", "multiple values", line=2)
    raised(await lab.run("x = 1\nf(object())", tools, parameters=["a"]), "TypeError", "no JSON form", line=2)


@GROUP.check("a tool that was not given is a NameError")
async def _(lab: Lab) -> None:
    raised(await lab.run("x = 1\ng()", {"f": _echo}), "NameError", "g", line=2)


@GROUP.check("a call tells its number, tool, and the line that made it")
async def _(lab: Lab) -> None:
    seen: list[tuple[int, str, int]] = []

    async def call(request: CallRequest) -> CallReply:
        seen.append((request.number, request.tool, request.line))
        return CallReply(value=1)

    program = "f()\ndef h():\n    return g()\nh()\nparallel(lambda: f())\n"
    of_kind(await lab.sandbox.run(Job(program, {"f": (), "g": ()}), call), "finished")
    same([(tool, line) for _, tool, line in seen], [("f", 1), ("g", 3), ("f", 5)], "the calls that were told")
    same(sorted({number for number, _, _ in seen}), [1, 2, 3], "their numbers")


@GROUP.check("a thousand calls are answered in their order")
async def _(lab: Lab) -> None:
    got = await lab.answer("answer = [f(n) for n in range(1000)]", {"f": lambda a: a["n"]}, parameters=["n"])
    demand(got == list(range(1000)), "a thousand calls in a row did not get their own answers in order")


@GROUP.check("parallel() runs calls at once and keeps their order")
async def _(lab: Lab) -> None:
    gate = _Gate(8)
    got = await lab.answer("answer = parallel([lambda n=n: f(n) for n in range(40)])", gate.tool, parameters=["n"])
    same(got, list(range(40)), "the results of parallel()")
    demand(gate.most >= 8, f"parallel() had only {gate.most} calls under way at once")


@GROUP.check("parallel() raises what one of its calls raised")
async def _(lab: Lab) -> None:
    program = "answer = parallel(lambda: f(n=1), lambda: f(n=2), lambda: f(n=3))"

    def odd(arguments: dict[str, Any]) -> Any:
        return CallReply(error="not 2") if arguments["n"] == 2 else arguments["n"]

    raised(await lab.run(program, {"f": odd}), "ToolError", "not 2", line=1)


@GROUP.check("parallel(settle=True) gives errors in the place of results, and no exit")
async def _(lab: Lab) -> None:
    program = """
got = parallel(lambda: f(n=1), lambda: f(n=2), lambda: {}["a"], settle=True)
answer = [each.message if isinstance(each, ToolError) else type(each).__name__ for each in got]
"""

    def odd(arguments: dict[str, Any]) -> Any:
        return CallReply(error="not 2") if arguments["n"] == 2 else arguments["n"]

    got = await lab.answer(program, {"f": odd}, parameters=["n"])
    same(got, ["int", "not 2", "KeyError"], "the results of parallel(settle=True)")
    raised(await lab.run("import sys\nparallel(lambda: sys.exit(3), settle=True)"), "SystemExit", "3", line=2)


@GROUP.check("threads may call at the same time")
async def _(lab: Lab) -> None:
    gate = _Gate(20)
    got = await lab.answer(_THREADS.replace("COUNT", "20"), gate.tool, parameters=["n"])
    same(got, list(range(20)), "the answers that the threads got")
    demand(gate.most == 20, f"of 20 threads that call only {gate.most} were heard at once")


@GROUP.check("calls from asyncio run at once")
async def _(lab: Lab) -> None:
    program = """
import asyncio
async def main():
    return await asyncio.gather(*(asyncio.to_thread(f, n) for n in range(4)))
answer = asyncio.run(main())
"""
    gate = _Gate(4)
    same(await lab.answer(program, gate.tool, parameters=["n"]), [0, 1, 2, 3], "the answers")
    demand(gate.most == 4, f"of 4 calls from asyncio only {gate.most} were heard at once")


@GROUP.check("as many calls as allowed are in flight, and never more")
async def _(lab: Lab) -> None:
    most = lab.sandbox.limits.calls_in_flight
    gate = _Gate(most)
    got = await lab.answer(_THREADS.replace("COUNT", str(most + 16)), gate.tool, parameters=["n"])
    same(got, list(range(most + 16)), "the answers that the threads got")
    demand(gate.most == most, f"{gate.most} calls were in flight at once; {most} are allowed")


@GROUP.check("answers that come in another order reach their own calls")
async def _(lab: Lab) -> None:
    async def late(arguments: dict[str, Any]) -> Any:
        await asyncio.sleep(0.02 * (7 - arguments["n"]))
        return arguments["n"]

    got = await lab.answer(_THREADS.replace("COUNT", "8"), {"f": late}, parameters=["n"])
    same(got, list(range(8)), "the answers that the threads got")


@GROUP.check("all_pages() hands a tool's name and arguments over, and its failure is the tool's")
async def _(lab: Lab) -> None:
    asked: list[Any] = []

    def pages(arguments: dict[str, Any]) -> Any:
        asked.append(arguments)
        return CallReply(error="no more", status=404) if arguments["arguments"].get("a") == 3 else [1, 2]

    async def call(request: CallRequest) -> CallReply:
        value = pages(request.arguments) if request.tool == "all_pages" else None
        return value if isinstance(value, CallReply) else CallReply(value=value)

    program = """
answer = [all_pages(f, 1, b=[2]), all_pages("f")]
try:
    all_pages(f, a=3)
except ToolError as e:
    answer += [e.tool, e.message, e.status]
for wrong in (lambda: all_pages(len), lambda: all_pages(f, 1, 2, 3), lambda: all_pages()):
    try:
        wrong()
    except TypeError as e:
        answer.append("TypeError")
"""
    outcome = await lab.sandbox.run(Job(program, {"f": ["a", "b"]}, lab.sandbox.limits), call)
    same(outcome.value, [[1, 2], [1, 2], "f", "no more", 404, *["TypeError"] * 3], "the answer")
    wanted = [{"a": 1, "b": [2]}, {}, {"a": 3}]
    same(asked, [{"tool": "f", "arguments": arguments} for arguments in wanted], "what the host was asked")


@GROUP.check("a tool called all_pages takes the place of the function")
async def _(lab: Lab) -> None:
    same(await lab.answer("answer = all_pages(1)", {"all_pages": _echo}, parameters=["n"]), {"n": 1}, "the answer")


@GROUP.check("a call may end the program: it gets no reply, and nothing that follows runs")
async def _(lab: Lab) -> None:
    asked: list[str] = []

    async def call(request: CallRequest) -> CallReply:
        asked.append(request.tool)
        return CallReply(ends=request.tool == "g")

    program = "f()\ntry:\n    g()\nexcept BaseException:\n    f()\nfinally:\n    f()\nanswer = 1"
    outcome = await lab.sandbox.run(Job(program, {"f": [], "g": []}, lab.sandbox.limits), call)
    same(asked, ["f", "g"], "the calls")
    same([outcome.kind, outcome.answered, outcome.value], ["finished", False, None], "how it ended")
    same(bool(outcome.isolation), True, "whether its tier is known")


@GROUP.check("a response that cannot be had is an error where the program reads it, and not before")
async def _(lab: Lab) -> None:
    async def call(request: CallRequest) -> CallReply:
        return CallReply(error="it was done", status="too_large", done=True)

    program = """
reads = [
    lambda x: x["a"], lambda x: x.a, lambda x: x.get("a"), bool, len, list, str, repr, int, iter, hash, dir,
    lambda x: x == None, lambda x: x or [], lambda x: x + "a", lambda x: "a" + x, lambda x: x in [1], lambda x: f"{x}",
    lambda x: isinstance(x, dict), lambda x: json.dumps(x), lambda x: f(x), lambda x: f({"b": [x]}), lambda x: {x: 1},
    lambda x: sorted([x, 1]), lambda x: [*x], lambda x: {**x}, print, lambda x: all_pages(f, a=x),
]
import json
kept = {"a": [f(a=1)]}
x = kept["a"][0]
answer = ["null" for _ in range(1) if x is None]
for number, read in enumerate(reads):
    try:
        read(x)
        answer.append(number)
    except ToolError as e:
        answer += [] if (e.tool, e.message, e.status) == ("f", "it was done", "too_large") else [number]
"""
    outcome = await lab.sandbox.run(Job(program, {"f": ["a"]}, lab.sandbox.limits), call)
    same(outcome.value, [], "what it was taken for")
    for program in ("answer = f(a=1)", "x = f(a=1)\nanswer = {'a': x}"):
        outcome = await lab.sandbox.run(Job(program, {"f": ["a"]}, lab.sandbox.limits), call)
        raised(outcome, "ToolError", "f: it was done")


@GROUP.check("the value of a call that was only planned can be passed on, and nothing is made of it")
async def _(lab: Lab) -> None:
    asked: list[CallRequest] = []

    async def call(request: CallRequest) -> CallReply:
        asked.append(request)
        return CallReply(planned=request.tool == "f")

    program = """
kept = [f(a=1)]
g(1, b={"c": kept[0]["id"][0], "d": 2})
all_pages(g, a=kept[0].get("x"))
try:
    if kept[0]["ok"]: pass
except BaseException:
    g(2)
g(3)
answer = 1
"""
    job = Job(program, {"f": ["a"], "g": ["a", "b"]}, lab.sandbox.limits, dry_run=True)
    outcome = await lab.sandbox.run(job, call)
    same([(r.tool, r.arguments) for r in asked[:2]], [("f", {"a": 1}), ("g", {"a": 1})], "the calls that were told")
    same([(r.tool, r.arguments["tool"]) for r in asked[2:]], [("all_pages", "g")], "the calls after these")
    places = [{name: list(map(tuple, found)) for name, found in r.unknown.items()} for r in asked]
    same(places, [{}, {"b": [(1, ("id", 0))]}, {"a": [(1, ("x",))]}], "what rests on the planned call")
    made = {"object": {"c": {"hole": [1, ["id", 0]]}, "d": {"value": 2}}}
    same([r.forms for r in asked], [None, {"b": made}, {"a": {"hole": [1, ["x"]]}}], "how it is made of that")
    raised(outcome, "PlannedValue", "f", line=6)
    same(outcome.error and outcome.error.origin, (1, ("ok",)), "what was needed of it")
    asked.clear()
    program = "c = f(a=1)\ntry:\n    ''.join([c])\nexcept Exception:\n    g(1)\nanswer = 1"
    outcome = await lab.sandbox.run(dataclasses.replace(job, program=program), call)
    raised(outcome, "TypeError", line=3)
    same([r.tool for r in asked], ["f"], "the calls of a program that catches what Python refuses")


@GROUP.check("the definitions at the end of a program come first, and are called as tools are")
async def _(lab: Lab) -> None:
    async def call(request: CallRequest) -> CallReply:
        return (
            CallReply(planned=True)
            if request.tool == "g"
            else CallReply({**request.arguments, "line": request.line, "outer": request.outer})
        )

    async def run(own: str, *, dry_run: bool = False) -> Outcome:
        program = f"{own}\ndef kept(a, b=2):\n    return (a, f(b), f'{{a}}')\nother = kept"
        job = Job(program, {"f": ["b"], "g": []}, lab.sandbox.limits, dry_run=dry_run, hoisted=2)
        return await lab.sandbox.run(job, call)

    for dry_run in (False, True):
        outcome = await run(
            "from __future__ import annotations\nanswer = [kept(1), other(x for x in 'y')]", dry_run=dry_run
        )
        found = {"b": 2, "line": 4, "outer": 2}
        same(outcome.value and outcome.value[0], [1, found, "1"], "what it returned, as JSON values")
        same(outcome.value and outcome.value[1][0], ["y"], "an argument that is iterated once")
    outcome = await run("kept = 1\nanswer = kept")
    same(outcome.value, 1, "a name that the program gives to something else")
    outcome = await run("def again():\n    kept(1, c=3)\nagain()")
    raised(outcome, "TypeError", line=2)
    same(outcome.error and (outcome.error.tool, outcome.error.trace), ("kept", (("<module>", 3), ("again", 2))), "who")
    outcome = await run("kept(g()['a'])", dry_run=True)
    of_kind(outcome, "finished")


@GROUP.check("a response of a megabyte comes in")
async def _(lab: Lab) -> None:
    big = ["ü" * 250_000, "x" * 500_000]
    same(await lab.answer("answer = [len(t) for t in f()]", {"f": lambda _: big}), [250_000, 500_000], "the lengths")


@GROUP.check("arguments over the frame limit are an error that the program can catch")
async def _(lab: Lab) -> None:
    size = lab.sandbox.limits.frame_bytes + 1
    program = f"try:\n    f('x' * {size})\nexcept ValueError as e:\n    answer = [str(e), f('small')['a']]"
    text, after = await lab.answer(program, {"f": _echo}, parameters=["a"])
    demand("arguments of f" in text, f"the error does not say which call was too large: {text}")
    same(after, "small", "the answer to the next call")


@GROUP.check("calls beyond the cap end the program")
async def _(lab: Lab) -> None:
    made = 0

    def count(_: dict[str, Any]) -> Any:
        nonlocal made
        made += 1

    program = "while True:\n    try:\n        f()\n    except BaseException:\n        pass"
    outcome = await lab.run(program, {"f": count}, calls=10)
    of_kind(outcome, "limit")
    demand("10 tool calls" in outcome.detail, f"the limit is not named: {outcome.detail}")
    same(made, 10, "the number of calls that were executed")


CHECKS = GROUP.checks
