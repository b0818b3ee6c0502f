"""Forty tasks over Atlas, in three depths, with the answers that their reference programs compute.

``python -m benchmarks.environments.atlas_tasks`` runs every reference program against a fresh Atlas, holds each to what
its task says of itself (depth, tools, writes), and prints the answers. No model has a part in it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from anyio.from_thread import BlockingPortal, start_blocking_portal
from rich.console import Console
from rich.table import Table

from atc.atlas import Atlas, atlas_toolset
from atc.result import Effect
from atc.tools.tool import Tool

TASKS = Path(__file__).with_name("atlas_tasks.toml")

Depth = Literal["shallow", "middle", "deep"]
CALLS: dict[Depth, tuple[int, int]] = {"shallow": (1, 2), "middle": (3, 5), "deep": (7, 100)}
"""Tool calls of a reference program, at least and at most."""

RELATIVE, ABSOLUTE = 0.005, 0.01
"""How far a number may lie from the expected one: the larger of the two counts."""

# One number with at most a unit behind it: "943 min", "1,234.5 km", "12 %", and not "12h30".
_NUMBER = re.compile(r"\s*([-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)\s*[^\d\s.,;:+-]*\.?\s*")


@dataclass(frozen=True)
class AtlasTask:
    """One task.

    Attributes:
        id: its name.
        depth: how many calls it takes: ``shallow`` 1–2, ``middle`` 3–5, ``deep`` 7 and more.
        task: what a user asks.
        tools: the names of the tools that are offered: the needed ones and some others.
        reference: a program that solves it; its answer is what is expected.
        writes: how many calls with a write effect it takes.
        unordered: whether a list may be in any order.
    """

    id: str
    depth: Depth
    task: str
    tools: tuple[str, ...]
    reference: str
    writes: int = 0
    unordered: bool = False


class ReferenceCall(NamedTuple):
    """One call that a reference program made."""

    tool: str
    effect: Effect
    arguments: dict[str, Any]


class ReferenceRun(NamedTuple):
    """What a reference program leaves: its answer, the trip store and the calls."""

    value: Any
    trips: list[dict[str, Any]]
    calls: list[ReferenceCall]


def load_tasks() -> list[AtlasTask]:
    """Read the tasks, in the order of the file."""
    document = tomllib.loads(TASKS.read_text(encoding="utf-8"))
    return [AtlasTask(**{**entry, "tools": tuple(entry["tools"])}) for entry in document["task"]]


def reference_answer(task: AtlasTask) -> ReferenceRun:
    """Run a task's reference program against a fresh Atlas.

    Raises:
        ToolError: a call failed, which a reference program does not allow for.
        KeyError: the program set no ``answer``.
    """
    atlas = Atlas()
    calls: list[ReferenceCall] = []
    with start_blocking_portal() as portal:
        offered = atlas_toolset(atlas).only(*task.tools)
        scope: dict[str, Any] = {name: _callable(tool, portal, calls) for name, tool in offered.items()}
        # A program of this repository, not of a model: it needs no sandbox, and no other program comes here.
        exec(compile(task.reference, f"<reference of {task.id}>", "exec"), scope)  # noqa: S102
    return ReferenceRun(scope["answer"], atlas.trips.state(), calls)


def _callable(tool: Tool, portal: BlockingPortal, calls: list[ReferenceCall]) -> Callable[..., Any]:
    transport = tool.transport
    assert transport is not None, f"{tool.name} cannot be called"

    def call(**arguments: Any) -> Any:
        calls.append(ReferenceCall(tool.name, tool.protocol.effect, arguments))
        return portal.call(transport, arguments)

    return call


# Judging an answer --------------------------------------------------------------------------------------------------


def check(value: Any, expected: Any, *, unordered: bool = False) -> bool:
    """Tell whether an answer is the expected one.

    Numbers may differ by 0.5 % or 0.01 and may be given as text with a unit; text is compared without regard to case
    and spaces; lists are ordered unless said otherwise; objects have the same keys.

    Args:
        value: the answer, as plain JSON values.
        expected: what the reference program computed.
        unordered: whether lists may be in any order.
    """
    if expected is None:
        return value is None
    if isinstance(expected, bool):
        return value is expected or (isinstance(value, str) and _fold(value) in _words(expected))
    if isinstance(expected, int | float):
        number = _number(value)
        return number is not None and abs(number - expected) <= max(ABSOLUTE, RELATIVE * abs(expected))
    if isinstance(expected, str):
        return isinstance(value, str) and _fold(value) == _fold(expected)
    if isinstance(expected, dict):
        return isinstance(value, dict) and _same_object(value, expected, unordered)
    if not isinstance(value, list | tuple) or len(value) != len(expected):
        return False
    if unordered:
        return _same_items(list(value), expected)
    return all(check(one, other) for one, other in zip(value, expected, strict=True))


def _same_object(value: dict[Any, Any], expected: dict[str, Any], unordered: bool) -> bool:
    given = {_fold(str(key)): item for key, item in value.items()}
    wanted = {_fold(key): item for key, item in expected.items()}
    return given.keys() == wanted.keys() and all(check(given[k], wanted[k], unordered=unordered) for k in wanted)


def _same_items(value: list[Any], expected: list[Any]) -> bool:
    rest = list(value)
    for wanted in expected:
        found = next((index for index, item in enumerate(rest) if check(item, wanted, unordered=True)), None)
        if found is None:
            return False
        del rest[found]
    return True


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    return float(match[1].replace(",", "")) if match else None


def _words(truth: bool) -> tuple[str, str]:
    return ("true", "yes") if truth else ("false", "no")


def _fold(text: str) -> str:
    return "".join(text.split()).casefold()


# Self-check ---------------------------------------------------------------------------------------------------------


def problems(task: AtlasTask, run: ReferenceRun) -> list[str]:
    """What a task says of itself that its reference program does not bear out."""
    least, most = CALLS[task.depth]
    writes = sum(call.effect is Effect.WRITE for call in run.calls)
    found = []
    if not least <= len(run.calls) <= most:
        found.append(f"{len(run.calls)} calls do not fit the depth {task.depth!r} ({least} to {most})")
    if writes != task.writes:
        found.append(f"{writes} writes, not {task.writes}")
    if not 4 <= len(task.tools) <= 9:
        found.append(f"{len(task.tools)} tools are offered, not 4 to 9")
    if not check(run.value, run.value, unordered=task.unordered):
        found.append(f"the answer {run.value!r} does not equal itself")
    return found


def main() -> None:
    """Run every reference program and print a table; exit with 1 if a task is not what it says."""
    table = Table("task", "depth", "calls", "writes", "answer", title="Atlas: reference answers")
    found: list[str] = []
    for task in load_tasks():
        run = reference_answer(task)
        found += [f"{task.id}: {problem}" for problem in problems(task, run)]
        table.add_row(task.id, task.depth, str(len(run.calls)), str(task.writes), repr(run.value))
    Console().print(table)
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
