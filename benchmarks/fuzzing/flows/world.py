"""Fake tools without a jail: a program runs over them in this process, and what it gave to each call is recorded.

A response is a function of the tool and its arguments alone. So two runs of a program differ only by what was altered.
Only programs that :mod:`benchmarks.fuzzing.flows.writer` made run here: nothing holds one that means harm.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import json
import marshal
import random
import signal
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PROGRAM = "<program>"
MAX_CALLS = 60
"""Calls of one run: a further one ends it."""
MAX_S = 0.5
"""Processor seconds of one run."""
INPUT, INPUT_TOOL = "given", "earlier"
"""The input that programs have, and the tool of an earlier task that it is a response of."""
TEXTS = (
    "ann", "bob", "cy", "dee", "eve@x.io", "R-1", "R-22", "2026-01-05", "a,b", "12", "Zed 7", "open", "EUR", "b", "7",
    "",
)  # fmt: skip

Way = tuple[str | int, ...]
Site = tuple[str, int, int]
"""The tool, the line and the how-manieth of a call."""


def _mail(at: Callable[[int], int]) -> dict[str, Any]:
    return {
        "id": f"M{at(9)}", "sender": TEXTS[at(6)], "subject": TEXTS[at(16)], "body": TEXTS[at(16)], "total": at(9),
        "urgent": at(2) == 1, "tags": [TEXTS[at(15)] for _ in range(at(3) + 1)],
    }  # fmt: skip


def _contact(at: Callable[[int], int]) -> dict[str, Any]:
    return {
        "name": TEXTS[at(6)], "iban": f"IB{at(9)}", "email": TEXTS[at(6)], "limit": at(9), "vip": at(2) == 1,
        "phones": [f"+{at(99)}" for _ in range(at(3) + 1)], "home": {"city": TEXTS[at(9)], "zip": f"{at(99)}"},
    }  # fmt: skip


def _order(at: Callable[[int], int]) -> dict[str, Any]:
    lines = [{"sku": f"K{at(9)}", "count": at(4)} for _ in range(at(2) + 1)]
    return {"id": f"O{at(9)}", "item": TEXTS[at(12)], "amount": at(50), "paid": at(2) == 1, "lines": lines}


def _list(one: Callable[[Callable[[int], int]], dict[str, Any]]) -> Callable[[Callable[[int], int]], Any]:
    return lambda at: [one(at) for _ in range(at(2) + 2)]


_RESPONSES: dict[str, Callable[[Callable[[int], int]], Any]] = {
    "list_mails": _list(_mail),
    "read_mail": _mail,
    "get_contact": _contact,
    "find_contacts": lambda at: {"items": _list(_contact)(at), "total": at(9)},
    "list_orders": lambda at: {"orders": _list(_order)(at), "note": TEXTS[at(16)]},
    "get_rate": lambda at: at(9) + 1,
    "get_note": lambda at: TEXTS[at(16)],
    "has_access": lambda at: at(2) == 1,
    "send_mail": lambda at: {"id": f"S{at(9)}", "status": TEXTS[at(16)]},
    "pay": lambda at: {"ref": f"P{at(9)}", "left": at(50)},
    "invite": lambda at: {"id": f"V{at(9)}", "accepted": [TEXTS[at(9)] for _ in range(at(3))]},
    "delete": lambda at: at(9),
}
PARAMETERS: dict[str, tuple[str, ...]] = {
    "list_mails": ("folder", "limit"),
    "read_mail": ("id",),
    "get_contact": ("name",),
    "find_contacts": ("query", "limit"),
    "list_orders": ("customer", "paid"),
    "get_rate": ("currency",),
    "get_note": ("key",),
    "has_access": ("user",),
    "send_mail": ("to", "subject", "body"),
    "pay": ("iban", "amount", "memo"),
    "invite": ("event", "guests"),
    "delete": ("ids",),
}


def _convert() -> Callable[[object, str], object]:
    """Return the jail's own way from a program's values to JSON."""
    place = Path(__file__).parents[3] / "sandbox" / "convert.py"
    spec = importlib.util.spec_from_file_location("_flows_convert", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.to_json  # type: ignore[no-any-return]


_to_json = _convert()


class Ended(BaseException):
    """The run made too many calls, or took too long."""


class ToolError(Exception):
    """A tool failed, as the jail has it."""

    def __init__(self, tool: str, message: str, status: object = None) -> None:
        super().__init__(f"{tool}: {message}")
        self.tool, self.message, self.status = tool, message, status


@dataclass(frozen=True)
class Change:
    """Alters what one tool answers.

    Attributes:
        tool: its name; ``earlier`` is the input.
        path: leads to the value that is replaced; an int stands for each item of a list. Empty: the whole response.
        how: names the replacement.
        first: alter the tool's first response alone.
    """

    tool: str
    path: Way = ()
    how: str = "other"
    first: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the path's keys alone, as origins have them."""
        return tuple(key for key in self.path if isinstance(key, str))


@dataclass
class Run:
    """Holds what one run of a program did.

    Attributes:
        calls: the arguments of each call, each as JSON text.
        responses: the last one of each tool, where nothing was altered.
        answer: as JSON text; ``None`` without one.
        ended: what ended the program, if not its end.
    """

    calls: dict[Site, dict[str, str]] = field(default_factory=dict)
    responses: dict[str, Any] = field(default_factory=dict)
    answer: str | None = None
    ended: str = ""


class World:
    """Runs programs. It is one for a process: the tools of a program are made once."""

    def __init__(self) -> None:
        self._run, self._change = Run(), Change("")
        self._counts: dict[tuple[str, int], int] = {}
        self._made = 0
        self._altered = False
        self._first: dict[tuple[str, str], str] = {}
        stubs = {name: self._stub(name) for name in PARAMETERS}
        self._names = {"ToolError": ToolError, "parallel": _parallel, "all_pages": self._all_pages, **stubs}

    def run(self, code: CodeType, change: Change | None = None) -> Run:
        """Run a program, with the responses of one tool altered."""
        self._run, self._change = Run(), change or Change("")
        self._counts, self._made, self._altered = {}, 0, False
        given = response(INPUT_TOOL, "")
        if self._change.tool == INPUT_TOOL:
            given = altered(given, self._change)
        scope: dict[str, Any] = {INPUT: given, "__name__": "__main__", **self._names}
        random.seed(7)
        try:
            with bounded(MAX_S):
                exec(code, scope)  # noqa: S102 - see the module's docstring
                if "answer" in scope:
                    self._run.answer = json.dumps(_to_json(scope["answer"], "answer"))
        except Ended as error:
            self._run.ended = str(error)
        except Exception as error:
            self._run.ended = type(error).__name__
        return self._run

    def _stub(self, name: str) -> Callable[..., Any]:
        def tool(*args: object, **kwargs: object) -> Any:
            return self._call(name, args, kwargs)

        tool.__name__ = name
        return tool

    def _call(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        if len(args) > len(PARAMETERS[name]):
            raise TypeError(f"{name}() takes {len(PARAMETERS[name])} arguments but {len(args)} were given")
        for parameter, value in zip(PARAMETERS[name], args, strict=False):
            if parameter in kwargs:
                raise TypeError(f"{name}() got multiple values for argument {parameter!r}")
            kwargs[parameter] = value
        arguments = {key: json.dumps(_to_json(value, key)) for key, value in kwargs.items()}
        self._made += 1
        if self._made > MAX_CALLS:
            raise Ended("too many calls")
        line = _line()
        nth = self._counts.get((name, line), 0)
        self._counts[name, line] = nth + 1
        self._run.calls[name, line, nth] = arguments
        text = "".join([f"{key}{arguments[key]}" for key in sorted(arguments)])
        value = response(name, text)
        if name == self._change.tool and not (self._altered and self._change.first):
            self._altered = True
            value = altered(value, self._change)
        elif not self._change.tool:
            self._run.responses[name] = response(name, text)
        return value

    def _all_pages(self, tool: object, /, *args: object, **kwargs: object) -> list[Any]:
        name = tool if isinstance(tool, str) else getattr(tool, "__name__", "")
        if name not in PARAMETERS:
            raise TypeError("all_pages() takes a tool, then the tool's arguments")
        value = self._call(name, args, kwargs)
        if isinstance(value, list):
            return value
        return next((each for each in value.values() if isinstance(each, list)), [])


def _line() -> int:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == PROGRAM:
            return frame.f_lineno
        frame = frame.f_back
    return 0


def _parallel(*thunks: Any) -> list[Any]:
    """Run one after another what the jail runs at once; the first error is raised after all have ended."""
    work = list(thunks[0]) if len(thunks) == 1 and not callable(thunks[0]) else list(thunks)
    results, errors = [], []
    for thunk in work:
        try:
            results.append(thunk())
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return results


@contextlib.contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raise :class:`Ended` once so much processor time is used."""

    def stop(*_: object) -> None:
        raise Ended("too long")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@functools.lru_cache(maxsize=20_000)
def _response(tool: str, arguments: str) -> bytes:
    numbers = itertools.count(zlib.crc32(f"{tool} {arguments}".encode()))

    def at(most: int) -> int:
        return zlib.crc32(next(numbers).to_bytes(8, "big")) % most

    return marshal.dumps(_RESPONSES[tool](at))


_RESPONSES[INPUT_TOOL] = _contact


def response(tool: str, arguments: str) -> Any:
    """Return what a tool answers, a new value each time."""
    return marshal.loads(_response(tool, arguments))  # what this process wrote: a quick copy


def altered(value: Any, change: Change) -> Any:
    """Return a response as the change has it; the value itself may be changed.

    Raises:
        ToolError: the change is that the tool fails.
    """
    if change.how.startswith("error"):
        raise ToolError(change.tool, change.how, 404 if change.how == "error" else 500)
    return _altered(value, change.path, change.how)


def _altered(value: Any, path: Way, how: str) -> Any:
    if not path:
        return _replaced(value, how)
    key, rest = path[0], path[1:]
    if isinstance(key, int):
        return [_altered(item, rest, how) for item in value] if isinstance(value, list) else value
    if isinstance(value, dict) and key in value:
        if not rest and how == "gone":
            del value[key]
        else:
            value[key] = _altered(value[key], rest, how)
    return value


def _replaced(value: Any, how: str) -> Any:
    if how == "none":
        return None
    if isinstance(value, dict):
        return {key: _replaced(item, how) for key, item in value.items()}
    if isinstance(value, list):
        if how in _LISTS:
            return _LISTS[how](value)
        return [_replaced(item, how) for item in value]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return _NUMBERS.get(how, 3) if how != "other" else value + 5
    if isinstance(value, str):
        return _WORDS.get(how, "q") if how != "other" else f"{value}z"
    return value


_LISTS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "empty": lambda value: [],
    "reversed": lambda value: value[::-1],
    "shorter": lambda value: value[1:],
    "longer": lambda value: value + value[:1],
}
_NUMBERS = {"low": -3, "zero": 0, "high": 40}
_WORDS = {"low": "ann", "zero": "", "high": "zed,y 9"}
OF_LEAF = ("other", "low", "zero", "high", "none", "gone")
OF_LIST = ("empty", "reversed", "shorter", "longer")


def paths_of(value: Any) -> tuple[list[Way], list[Way]]:
    """Return the ways to the scalars of a response, and to its lists; those of list items once."""
    leaves: dict[Way, None] = {}
    lists: dict[Way, None] = {}
    todo: list[tuple[Way, Any]] = [((), value)]
    while todo:
        path, each = todo.pop()
        if isinstance(each, dict):
            todo.extend(((*path, key), item) for key, item in each.items())
        elif isinstance(each, list):
            lists[path] = None
            todo.extend(((*path, 0), item) for item in each[:1])
        else:
            leaves[path] = None
    return list(leaves), list(lists)
