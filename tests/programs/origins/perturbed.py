"""Runs a program with tools of which one answers something else: whatever argument changes must name that tool.

This is what it means that no origin is missed: it asks Python, not the analysis.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from atc.programs.origins.program import ProgramOrigins
from atc.programs.program import Program

READS = ("read_a", "read_b", "read_c")
TOOLS = (*READS, "send", "pay")


class ToolError(Exception):
    """A tool failed."""


def answer_of(name: str) -> dict[str, Any]:
    """Return what a tool answers."""
    return {
        "name": f"{name} name",
        "to": f"{name}@x.org",
        "n": 2,
        "flag": True,
        "body": f'{{"k": "inner {name}", "l": [1, 2]}}',
        "tags": ["x", name, "y"],
        "items": [
            {"id": 1, "who": f"{name} first", "rank": 3, "ok": True},
            {"id": 2, "who": f"{name} second", "rank": 1, "ok": False},
            {"id": 3, "who": f"{name} third", "rank": 2, "ok": True},
        ],
        "map": {"p": {"v": f"{name} p"}, "q": {"v": f"{name} q"}},
    }


def _texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_texts(item) for item in value]
    return "{}" if value == "" else value + "!" if isinstance(value, str) and value[:1] != "{" else value


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return not value if isinstance(value, bool) else 5 - value if isinstance(value, int) else value


def _changed(value: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**value, **fields}


CHANGES: tuple[Callable[[dict[str, Any]], Any], ...] = (
    _texts,
    _numbers,
    lambda value: _changed(value, items=value["items"][::-1], tags=value["tags"][::-1]),
    lambda value: _changed(value, items=value["items"][:1], tags=[]),
    lambda value: _changed(value, items=[], map={}),
    lambda value: _changed(value, flag=False),
    lambda value: _changed(value, n=0),
    lambda value: _changed(value, body='{"k": "other", "l": []}'),
    lambda value: _changed(value, map={"r": {"v": "r"}, **value["map"]}),
    lambda value: {key: item for key, item in value.items() if key not in ("name", "flag")},
    lambda value: None,  # it fails
)


def _calls(
    program: Program, changed: str, change: Callable[[Any], Any] | None
) -> list[tuple[str, int, dict[str, Any]]]:
    made: list[tuple[str, int, dict[str, Any]]] = []

    def tool(name: str) -> Callable[..., Any]:
        def call(**arguments: Any) -> Any:
            frame = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename != "<program>":
                frame = frame.f_back  # type: ignore[assignment]
            made.append((name, frame.f_lineno if frame else 0, copy.deepcopy(_plain(arguments))))
            value = answer_of(name)
            if name == changed and change is not None:
                value = change(value)
                if value is None:
                    raise ToolError(f"{name} failed")
            return value

        call.__name__ = name
        return call

    def parallel(*thunks: Any, settle: bool = False) -> list[Any]:
        def settled(thunk: Callable[[], Any]) -> Any:
            try:
                return thunk()
            except Exception as error:
                if not settle:
                    raise
                return error

        work = list(thunks[0]) if len(thunks) == 1 and not callable(thunks[0]) else thunks
        return [settled(thunk) for thunk in work]

    scope: dict[str, Any] = {name: tool(name) for name in TOOLS}
    scope |= {"__name__": "__main__", "ToolError": ToolError, "parallel": parallel, "given": "from the user"}
    try:
        exec(compile(program.source, "<program>", "exec"), scope)  # noqa: S102 - texts of tests
    except (Exception, SystemExit):
        if change is None:
            raise
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if hasattr(value, "__next__") or isinstance(value, range) or hasattr(value, "mapping"):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def missed(source: str) -> list[str]:
    """Return the arguments that changed with a tool that they do not name.

    A child does the work: what a program does to modules (``decimal.getcontext().prec = 2``) is gone with it.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # no thread of this process is needed in the child
        child = os.fork()
    if not child:
        try:
            found = {"missed": list(_missed(source))}
        except BaseException as error:
            found = {"raised": [repr(error)]}
        with os.fdopen(writer, "w") as pipe:
            json.dump(found, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = json.load(pipe)
    os.waitpid(child, 0)
    assert "raised" not in told, (told, source)
    made: list[str] = told["missed"]
    return made


def all_missed(sources: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return each program of which an argument changed with a tool that it does not name, and those arguments."""
    return [(source, wrong) for source in sources if (wrong := missed(source))]


def _missed(source: str) -> Iterator[str]:
    program = Program(source)
    origins = ProgramOrigins(program, TOOLS)
    before = _by_place(_calls(program, "", None))
    for changed in READS:
        for number, change in enumerate(CHANGES):
            after = _by_place(_calls(program, changed, change))
            for place in before.keys() & after.keys():
                for old, new in zip(before[place], after[place], strict=False):
                    for name in old.keys() & new.keys():
                        if old[name] != new[name]:
                            found = origins.of_call(*place, [name])[name]
                            if not any(o.kind == "unknown" or o.tool == changed for o in found):
                                yield f"{place} {name}: change {number} of {changed}: {old[name]!r} -> {new[name]!r}"


def _by_place(calls: list[tuple[str, int, dict[str, Any]]]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for tool, line, arguments in calls:
        found.setdefault((tool, line), []).append(arguments)
    return found
