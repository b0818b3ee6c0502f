"""Run one program over stubs whose calls go out to the host.

Everything here can be patched by the program it runs: nothing on this side is trusted, and what is reported from here
is only ever a claim. It is written for honest programs, so that their errors are told exactly.
"""

import ast
import contextlib
import functools
import inspect
import itertools
import linecache
import os
import socket
import sys
import threading
from typing import NoReturn

import convert
import frames
import origin
import planned
import start

PROGRAM = "<program>"
ALL_PAGES = "all_pages"
MAX_SAID = 2_001  # characters of what a program says of its answer: one more than a sentence may have
THREADS = 16  # that a `parallel` works with
SOON_S, QUICK = 0.001, 4
"""A `parallel` takes more threads once fewer thunks than that ended in so many seconds: a thread costs as much as a
call, and one that answers at once needs none."""
Awaited = dict[str, tuple[list[planned.Place], object]]
"""Arguments of a call that rest on planned calls, with the places that they take, and how they are made of these."""


def serve(ends: frames.Frames) -> NoReturn:
    """Wait for one program and run it."""
    try:
        given = ends.receive()
    except EOFError:
        os._exit(0)
    assert isinstance(given, dict)
    ends.limit = given["frame_bytes"]
    inputs = {name: convert.from_json(value) for name, value in given["inputs"].items()}
    if "start" in given:
        start.begin(**given["start"])
    else:
        start.be_new()
    dry_run, hoisted = bool(given.get("dry_run")), int(given.get("hoisted", 0))
    run_program(given["program"], given["tools"], inputs, Channel(ends), dry_run=dry_run, hoisted=hoisted)


def rehearse() -> None:
    """Do what every program does and change nothing: the interpreter rewrites code that is run often."""
    start.begin(0.0, "00" * start.SEED_BYTES)
    ours, theirs = socket.socketpair()
    frames.Frames(theirs).send({"op": "reply", "id": 1, "value": {"items": [{"name": "a"}]}})
    channel = Channel(frames.Frames(ours))
    scope = _scope({"tool": ["x"]}, {}, channel)
    _execute("found = tool(x=1)\nanswer = [f'{item!r}' for item in found['items']]", scope)
    channel.send({"op": "done", "value": convert.to_json(scope["answer"], "answer")})
    ours.close()
    theirs.close()
    start.be_new()


class ToolError(Exception):
    """A tool refused or failed: ``tool`` is its name, ``status`` the service's own, ``message`` the reason."""

    def __init__(self, tool: str, message: str, status: object = None, call: int = 0) -> None:
        super().__init__(f"{tool}: {message}")
        self.tool, self.message, self.status, self._call = tool, message, status, call


class StubError(TypeError):
    """A tool's stub does not take what it was given. ``parameter``: the argument that is wrong, if it is one alone."""

    def __init__(self, tool: str, message: str, parameter: str = "") -> None:
        super().__init__(message)
        self.tool, self.parameter = tool, parameter


class Channel:
    """Calls to the host. Several threads may call at once: whoever waits first reads for all."""

    def __init__(self, ends: frames.Frames) -> None:
        self._ends = ends
        self._ids = itertools.count(1)
        self._sending = threading.Lock()
        self._state = threading.Lock()
        self._replies: dict[int, dict[str, object]] = {}
        self._waiting: dict[int, threading.Lock] = {}  # held until there is its reply, or its turn to read
        self._reading = False
        self.origins = origin.Origins()
        self.hoisted = False  # whether the program has functions of kept programs, by which it may call

    def call(self, tool: str, arguments: dict[str, object], unknown: Awaited, named: str = "") -> object:
        """Make one call and return its value.

        Args:
            tool: its name.
            arguments: JSON values.
            unknown: further arguments, which rest on planned calls.
            named: the tool that a ``ToolError`` names, if that is another one.

        Raises:
            ToolError: the tool refused or failed.
            Ended: the program needed a value before that a dry run does not know.
        """
        if planned.stopped() is not None:
            raise planned.Ended
        with self._sending:  # ids go out in order
            number = next(self._ids)
            message = {"op": "call", "id": number, "tool": tool, "args": arguments, "line": _line()}
            if self.hoisted:
                message["outer"] = _line(outermost=True)
            if unknown:
                message["unknown"] = {key: places for key, (places, _) in unknown.items()}
                message["forms"] = {key: form for key, (_, form) in unknown.items() if form is not None}
            self._ends.send(message, f"the arguments of {tool}")
        reply = self._wait(number)
        start.moved(reply.get("passed"))  # type: ignore[arg-type]
        if "error" in reply:
            error = reply["error"]
            assert isinstance(error, dict)
            failed = functools.partial(ToolError, named or tool, error["message"], error["status"], number)
            if reply.get("done"):
                return planned.Unread(failed)
            raise failed()
        if reply.get("planned"):
            return planned.Unknown(named or tool, number)
        self.origins.add(number, reply["value"])
        return reply["value"]

    def _wait(self, number: int) -> dict[str, object]:
        with self._state:
            if number in self._replies:
                return self._replies.pop(number)
            turn = None
            if self._reading:
                turn = self._waiting[number] = threading.Lock()
                turn.acquire()
            self._reading = True
        if turn is not None:
            try:
                turn.acquire()
            except BaseException:  # the handler of a signal raised: others must not wait for this thread
                with self._state:
                    given = self._waiting.pop(number, None) is None and number not in self._replies
                if given:
                    self._pass_on()
                raise
            with self._state:
                if number in self._replies:
                    return self._replies.pop(number)
        try:
            while (reply := self._ends.receive())["id"] != number:  # type: ignore[index]
                self._keep(reply)  # type: ignore[arg-type]
            return reply  # type: ignore[return-value]
        finally:
            self._pass_on()

    def _keep(self, reply: dict[str, object]) -> None:
        number: int = reply["id"]  # type: ignore[assignment]
        with self._state:
            self._replies[number] = reply
            if number in self._waiting:
                self._waiting.pop(number).release()

    def _pass_on(self) -> None:
        with self._state:
            self._reading = bool(self._waiting)
            if self._waiting:
                self._waiting.popitem()[1].release()

    def send(self, message: dict[str, object]) -> None:
        """Send the last message of the program."""
        with self._sending:
            self._ends.send(message, "the answer")


def _line(*, outermost: bool = False) -> int:
    frame, line = sys._getframe(1), 0
    while frame is not None:
        if frame.f_code.co_filename == PROGRAM:
            line = frame.f_lineno
            if not outermost:
                break
        frame = frame.f_back  # type: ignore[assignment]
    return line


def make_stub(channel: Channel, name: str, parameters: list[str]):  # type: ignore[no-untyped-def]
    """Return the function that a program calls as ``name``; positional arguments take the parameters in order."""

    def tool(*args: object, **kwargs: object) -> object:
        arguments, unknown = bound(name, parameters, args, kwargs)
        return channel.call(name, arguments, unknown)

    tool.__name__ = tool.__qualname__ = name
    return tool


def make_all_pages(channel: Channel, tools: dict[str, list[str]]):  # type: ignore[no-untyped-def]
    """Return ``all_pages(tool, …)``, which gives the items of all pages of a tool as one list. The host turns pages."""

    def all_pages(tool, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        name = tool if isinstance(tool, str) else getattr(tool, "__name__", "")
        if name not in tools:
            raise TypeError(f"{ALL_PAGES}() takes a tool, then the tool's arguments: {ALL_PAGES}(list_things, size=5)")
        arguments, unknown = bound(name, tools[name], args, kwargs)
        return channel.call(ALL_PAGES, {"tool": name, "arguments": arguments}, unknown, name)

    return all_pages


def bound(
    tool: str, parameters: list[str], args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[dict[str, object], Awaited]:
    """Return the arguments of a call by name, as JSON values, and apart from them those that rest on planned calls.

    Raises:
        PlannedValue: an argument was made from such a value in another way.
        StubError: they do not fit the parameters, or a value has no JSON form.
        ValueError: a value's JSON form would be another value.
    """
    if len(args) > len(parameters):
        raise StubError(tool, f"{tool}() takes {len(parameters)} arguments but {len(args)} were given")
    for parameter, value in zip(parameters, args, strict=False):
        if parameter in kwargs:
            raise StubError(tool, f"{tool}() got multiple values for argument {parameter!r}", parameter)
        kwargs[parameter] = value
    known: dict[str, object] = {}
    unknown: Awaited = {}
    for key, value in kwargs.items():
        if convert.is_plain(value):  # as most are
            known[key] = value
            continue
        if not planned.places_in(value):  # what is iterated once must be kept before anything looks into it
            value = convert.listed(value, f"{tool}({key}=…)")
        if at := planned.places_in(value):
            unknown[key] = at, _form(tool, key, value)
            continue
        try:
            known[key] = convert.to_json(value, f"{tool}({key}=…)")
        except TypeError as problem:
            raise StubError(tool, str(problem), key) from None
    return known, unknown


def _form(tool: str, parameter: str, value: object) -> object:
    try:
        return planned.form_of(value, lambda known: convert.to_json(known, f"{tool}({parameter}=…)"))
    except (TypeError, ValueError, RecursionError):
        return None


def parallel(*thunks, settle=False):  # type: ignore[no-untyped-def]
    """Run callables at once and return their results in order: ``parallel(lambda: a(x=1), lambda: b(y=2))``.

    A single list of callables is accepted too. The first exception is raised after all have ended. With ``settle``, an
    exception stands in the place of its result (``isinstance(result, ToolError)``); what is more than an ``Exception``
    is raised all the same: it ends the program.
    """
    work = list(thunks[0]) if len(thunks) == 1 and not callable(thunks[0]) else list(thunks)
    results: list[object] = [None] * len(work)
    errors: dict[int, BaseException] = {}
    taken = 0
    taking, at_work = threading.Lock(), threading.Lock()

    def run() -> None:
        nonlocal taken
        while True:
            with taking:
                number, taken = taken, taken + 1
            if number >= len(work):
                return
            try:
                results[number] = work[number]()
            except BaseException as error:
                errors[number] = error

    def help_later() -> None:
        ended = 0
        while True:
            if at_work.acquire(timeout=SOON_S):
                return
            if taken - ended < QUICK:
                break
            ended = taken
        for helper in helpers[1:]:
            with contextlib.suppress(RuntimeError):  # there is no room for one more: the others do its work
                helper.start()
        run()

    helpers = [threading.Thread(target=run) for _ in range(min(THREADS, len(work)) - 1)]
    if helpers:
        helpers[0] = threading.Thread(target=help_later)
    with at_work:
        for helper in helpers[:1]:
            helper.start()
        run()
    for helper in helpers:
        if helper.ident is not None:
            helper.join()
    for number in sorted(errors):
        if not settle or not isinstance(errors[number], Exception):
            raise errors[number]
        results[number] = errors[number]
    return results


def run_program(
    source: str,
    tools: dict[str, list[str]],
    inputs: dict[str, object],
    channel: Channel,
    *,
    dry_run: bool = False,
    hoisted: int = 0,
) -> NoReturn:
    """Execute a program and report ``done`` or ``raised`` to the host; never returns.

    The last ``hoisted`` statements of the source run first: they define the kept programs that it calls.
    """
    scope = _scope(tools, inputs, channel)
    channel.hoisted = bool(hoisted)
    try:
        if dry_run:
            planned.watch(PROGRAM)
        _execute(source, scope, dry_run=dry_run, hoisted=hoisted)
        answered, answer = "answer" in scope, scope.get("answer")
        if not planned.places_in(answer):
            answer = convert.listed(answer, "answer")
        if planned.stopped() is not None:
            raise planned.Ended
        if planned.places_in(answer):  # all it does is known; not what it would answer
            _finish(channel, {"op": "done", "answered": False, "value": None})
        report = {"op": "done", "answered": answered, "value": convert.to_json(answer, "answer")}
        said = scope.get("say")
        _finish(channel, {**report, "say": said[:MAX_SAID]} if type(said) is str else report)
    except BaseException as error:
        error = planned.stopped() or error
        _finish(channel, {"op": "raised", "error": origin.describe(error, source, PROGRAM, channel.origins)})


def _scope(tools: dict[str, list[str]], inputs: dict[str, object], channel: Channel) -> dict[str, object]:
    stubs = {name: make_stub(channel, name, parameters) for name, parameters in tools.items()}
    builtin_names = {"ToolError": ToolError, "parallel": parallel, ALL_PAGES: make_all_pages(channel, tools)}
    return {**inputs, "__name__": "__main__", **builtin_names, **stubs}


def _execute(source: str, scope: dict[str, object], *, dry_run: bool = False, hoisted: int = 0) -> None:
    linecache.cache[PROGRAM] = (len(source), None, source.splitlines(True), PROGRAM)
    program: str | ast.Module = source
    if dry_run:
        program, scope[planned.TEXT] = planned.rewritten(source, PROGRAM), planned.text
        scope.setdefault("isinstance", planned.is_instance)
    if hoisted:
        tree = ast.parse(source, PROGRAM) if isinstance(program, str) else program
        program, first = ast.Module(tree.body[:-hoisted], []), ast.Module(tree.body[-hoisted:], [])
        _define(first, scope)
    try:
        exec(compile(program, PROGRAM, "exec"), scope)  # noqa: S102 - this is the place where programs run
    except SystemExit as left:
        if left.code not in (None, 0):
            raise  # an exit without an error is one way to end


def _define(definitions: ast.Module, scope: dict[str, object]) -> None:
    """They are compiled apart from the program, whose ``from __future__`` counts for its own text alone."""
    exec(compile(definitions, PROGRAM, "exec"), scope)  # noqa: S102 - this is the place where programs run
    made = {node.name: scope[node.name] for node in definitions.body if isinstance(node, ast.FunctionDef)}
    called = {id(function): make_kept(name, function) for name, function in made.items()}
    scope.update({name: called[id(value)] for name, value in scope.items() if id(value) in called})


def make_kept(name: str, function):  # type: ignore[no-untyped-def]
    """Return the function that a program calls as ``name``, a kept program."""
    signature = inspect.signature(function)

    def kept(*args: object, **kwargs: object) -> object:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as problem:
            raise StubError(name, f"{name}() {problem}") from None
        for key, value in given.arguments.items():  # as of a tool: what is iterated once is a list
            if not planned.places_in(value):
                given.arguments[key] = convert.listed(value, f"{name}({key}=…)")
        answer = function(*given.args, **given.kwargs)
        if planned.places_in(answer):
            return answer
        made = convert.to_json(answer, f"what {name}() returns")
        return answer if made is answer else convert.from_json(made)  # as it is, it is known for what a call answered

    kept.__name__ = kept.__qualname__ = name
    return kept


def _finish(channel: Channel, report: dict[str, object]) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # the program closed it: there is nothing to flush
    channel.send(report)
    os._exit(0)  # no atexit hook and no other thread outlives the report
