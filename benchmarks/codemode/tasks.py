"""The tasks of the code mode's ruler: each with its calls one by one, and with one program that makes them.

Programs and calls are written by hand, or derived from a task's own solution: no model has a part in them.

* ``atlas``: the reference programs of its forty tasks.
* ``comptoolbench``: each task's own calls; an argument that an earlier call answered with is taken from there.

Others are in :mod:`benchmarks.codemode.others` and :mod:`benchmarks.codemode.github`.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from atc.atlas import Atlas, atlas_toolset
from atc.errors import UsageError
from atc.tools.tool import Toolset
from benchmarks.environments.atlas_tasks import check, load_tasks, reference_answer
from benchmarks.environments.base import GoldCall, Task
from benchmarks.environments.comptoolbench import CompToolBench
from benchmarks.environments.comptoolbench_answers import leaves, solved
from benchmarks.tasks.read_tasks import in_part, order

Json = dict[str, Any]


@dataclass(frozen=True)
class CodeTask:
    """One task.

    Attributes:
        text: what a user asks; a scripted client searches with it.
        calls: one by one, in their order.
        program: that makes the same calls and leaves its result in ``answer``.
        right: whether an answer is right; ``None`` where nothing says.
    """

    id: str
    text: str
    calls: tuple[GoldCall, ...]
    program: str
    right: Callable[[Any], bool] | None = None

    @property
    def tools(self) -> list[str]:
        """The tools that it takes, each once."""
        return list(dict.fromkeys(name for name, _ in self.calls))


@dataclass(frozen=True)
class World:
    """What one task happens in.

    Attributes:
        tools: all of the source, in a fresh state; ``None`` where only ``config`` says what there is.
        config: MCP servers with the same tools, as clients configure them.
        typed: plain MCP has the output schemas of ``tools``.
    """

    config: Mapping[str, Mapping[str, Any]]
    tools: Toolset | None = None
    typed: bool = True


class Source(abc.ABC):
    """Tasks over the same tools.

    Attributes:
        name: as it is asked for and reported.
        note: one line for the table.
    """

    name: str
    note: str = ""

    @abc.abstractmethod
    def tasks(self) -> list[CodeTask]:
        """All tasks, always in the same order.

        Raises:
            EnvironmentProblem: what they need is not there.
        """

    @abc.abstractmethod
    def open(self, task: CodeTask) -> AbstractContextManager[World]:
        """Begin anew."""

    def close(self) -> None:
        """Let go of what :meth:`tasks` made."""
        return


def plain_config(python: str, *options: str) -> dict[str, Json]:
    """An ordinary server over these tools, in a process of its own."""
    return {"tools": {"command": python, "args": ["-m", "benchmarks.codemode.plain", *options]}}


# Bundled tools, and a data set ----------------------------------------------------------------------------------------


class AtlasTasks(Source):
    """The forty tasks over all tools of ``atlas``."""

    name = "atlas"

    def __init__(self, python: str) -> None:
        self._python = python

    def tasks(self) -> list[CodeTask]:
        made = []
        for task in load_tasks():
            run = reference_answer(task)
            right = functools.partial(_is, expected=run.value, unordered=task.unordered)
            calls = tuple((call.tool, call.arguments) for call in run.calls)
            made.append(CodeTask(task.id, task.task, calls, task.reference.strip(), right))
        return made

    def open(self, task: CodeTask) -> AbstractContextManager[World]:
        return nullcontext(World(plain_config(self._python, "--env", "atlas"), world_of("atlas", None)))


class CompToolBenchTasks(Source):
    """Tasks of CompToolBench over all of its 106 tools, none of which documents its response.

    Args:
        most: tasks, drawn by a hash of their names from those that state all and whose answer a program can make.
    """

    name = "comptoolbench"

    def __init__(self, python: str, data: Path | None, most: int = 40) -> None:
        self._python, self._data, self._most = python, data, most
        self._environment = CompToolBench(data)

    def tasks(self) -> list[CodeTask]:
        own = [task for task in self._environment.tasks() if task.stated and in_part(self.name, task.id, "open")]
        drawn = sorted(own, key=lambda task: order(self._environment, task))
        made = (self._made(task) for task in drawn)
        return [task for task in made if task is not None][: self._most]

    def _made(self, task: Task) -> CodeTask | None:
        record = self._environment.records[task.id]
        program = chained(record)
        calls = tuple((step["tool"], step["args"]) for step in record["gold"])
        return (program and CodeTask(task.id, task.text, calls, program, functools.partial(solved, record))) or None

    def open(self, task: CodeTask) -> AbstractContextManager[World]:
        options = ["--env", self.name, *(["--data", str(self._data)] if self._data else [])]
        return nullcontext(World(plain_config(self._python, *options), world_of(self.name, self._data)))


def world_of(name: str, data: Path | None) -> Toolset:
    """All tools of an environment together, in a fresh state.

    Raises:
        UsageError: there is no such world.
    """
    if name == "atlas":
        return atlas_toolset(Atlas())
    if name != "comptoolbench":
        raise UsageError(f"--env takes atlas or comptoolbench, not {name!r}")
    environment = CompToolBench(data)
    task = replace(environment.tasks()[0], tools=tuple(environment.documents))
    return environment.open(task).tools


def _is(value: Any, expected: Any, unordered: bool) -> bool:
    return check(value, expected, unordered=unordered)


def chained(record: Json) -> str:
    """A task's own calls as one program: what an earlier call answered with is taken from there.

    Returns:
        The program; empty where its answer is in no call's output.
    """
    text, lines = record["query"].casefold(), []
    known: list[tuple[str, Any]] = []
    for number, step in enumerate(record["gold"], 1):
        given = ", ".join(f"{name}={_expression(value, known, text)}" for name, value in step["args"].items())
        lines.append(f"s{number} = {step['tool']}({given})")
        known.append((f"s{number}", step["output"]))
    final = next(
        output for (_, output), step in zip(known, record["gold"], strict=True) if step["id"] == record["final_step"]
    )
    name = next(name for name, output in known if output is final)
    expected = record["expected"]
    if check(expected, final):
        return "\n".join([*lines, f"answer = {name}"])
    parts = (
        list(expected.values())
        if isinstance(expected, dict)
        else expected
        if isinstance(expected, list)
        else [expected]
    )
    found = [next((place for name, output in known if (place := _place(name, output, part))), "") for part in parts]
    if not all(found):
        return ""
    if isinstance(expected, dict):
        answer = f"{{{', '.join(f'{key!r}: {place}' for key, place in zip(expected, found, strict=True))}}}"
    else:
        answer = f"[{', '.join(found)}]" if isinstance(expected, list) else found[0]
    return "\n".join([*lines, f"answer = {answer}"])


def _expression(value: Any, known: Sequence[tuple[str, Any]], text: str) -> str:
    """A value in source: from an earlier answer, unless the task itself says it."""
    stated = all(str(leaf).casefold() in text for leaf in leaves(value))
    if not stated:
        for name, output in reversed(known):
            if place := _place(name, output, value):
                return place
    if isinstance(value, list) and not stated:
        return f"[{', '.join(_expression(part, known, text) for part in value)}]"
    return repr(value)


def _place(name: str, output: Any, value: Any) -> str:
    if type(output) is type(value) and output == value:
        return name
    parts: Iterator[tuple[Any, Any]] = iter(())
    if isinstance(output, dict):
        parts = iter(output.items())
    elif isinstance(output, list):
        parts = iter(enumerate(output))
    return next((place for key, part in parts if (place := _place(f"{name}[{key!r}]", part, value))), "")


# What depends on what -------------------------------------------------------------------------------------------------


def layers(calls: Sequence[GoldCall], answers: Sequence[Any], text: str) -> list[list[int]]:
    """The calls that can be made at once: a call waits for an answer that holds one of its arguments.

    A value counts where the task's text does not say it. A number that several answers hold waits for the first.

    Args:
        calls: in their order.
        answers: of each call.
    """
    stated, depth = text.casefold(), [0] * len(calls)
    for number, (_, arguments) in enumerate(calls):
        for leaf in leaves(arguments):
            if isinstance(leaf, bool) or str(leaf).casefold() in stated:
                continue
            holders = [at for at in range(number) if any(_same(leaf, held) for held in leaves(answers[at]))]
            if holders:
                depth[number] = max(depth[number], depth[holders[0]] + 1)
    return [[at for at, level in enumerate(depth) if level == wanted] for wanted in range(max(depth, default=-1) + 1)]


def _same(wanted: Any, held: Any) -> bool:
    if isinstance(held, str) and isinstance(wanted, str):
        return wanted == held or (len(wanted) > 6 and wanted in held)
    return bool(wanted == held)
