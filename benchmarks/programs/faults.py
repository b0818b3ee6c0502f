"""Faulty runs whose culprit is known: programs over Atlas, and what is made to go wrong in them.

The reference programs with a tool that refuses, fails, hangs or drifts; and programs that misread a response, go on
after a failure, or are wrong by themselves, for which this module says which call is to blame.
"""

from __future__ import annotations

import asyncio
import copy
import random
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from atc.atlas import Atlas, atlas_toolset
from atc.errors import ToolError
from atc.tools.tool import Tool, Toolset, Transport
from benchmarks.environments.atlas_tasks import AtlasTask, ReferenceRun

PROGRAMS = Path(__file__).with_name("faulty_programs.toml")
PLACES = [
    {"city": "Lyon", "code": "FR", "other": "Paris", "third": "Marseille", "country": "France"},
    {"city": "Graz", "code": "AT", "other": "Vienna", "third": "Linz", "country": "Austria"},
    {"city": "Porto", "code": "PT", "other": "Lisbon", "third": "Braga", "country": "Portugal"},
    {"city": "Munich", "code": "DE", "other": "Berlin", "third": "Hamburg", "country": "Germany"},
    {"city": "Osaka", "code": "JP", "other": "Tokyo", "third": "Sapporo", "country": "Japan"},
]


def written_cases(places: int) -> Iterator[FaultCase]:
    """All of them, filled in with so many places."""
    document = tomllib.loads(PROGRAMS.read_text(encoding="utf-8"))
    for number, entry in enumerate(document["program"]):
        culprit = Culprit(entry["blame"], entry.get("call", 1) or None) if "blame" in entry else None
        for n, place in enumerate(PLACES[:places]):
            source = Template(entry["source"]).substitute(place, n=n + 1)
            name = f"{entry['kind']} {number + 1}, {place['city']}"
            yield FaultCase(entry["kind"], name, source, culprit, _injection(entry.get("wrong")))


def _injection(wrong: dict[str, Any] | None) -> Injection | None:
    if wrong is None:
        return None
    _, refuse = REFUSALS[0]
    return Injection(wrong["tool"], wrong["call"], refuse if "refused" in wrong else nulled(wrong["null"]))


Change = Callable[[Any], Any]
"""What becomes of a response. It may raise ToolError, or be a coroutine function that takes its time."""


@dataclass(frozen=True)
class Culprit:
    """The call that is to blame: the n-th of its tool, from 1; ``None`` where several are equally."""

    tool: str
    call: int | None = 1


@dataclass(frozen=True)
class Injection:
    """What goes wrong at the n-th call of a tool, from 1."""

    tool: str
    call: int
    change: Change


@dataclass(frozen=True)
class FaultCase:
    """One faulty run. ``culprit`` is ``None`` where no tool is to blame, but the program alone."""

    kind: str
    name: str
    program: str
    culprit: Culprit | None
    injection: Injection | None = None


@dataclass(frozen=True)
class _Injected:
    """A transport that does what its tool does, but once."""

    inner: Transport
    injection: Injection
    made: list[int]

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        self.made.append(1)
        response = await self.inner(arguments)
        if len(self.made) != self.injection.call:
            return response
        changed = self.injection.change(response)
        return await changed if asyncio.iscoroutine(changed) else changed

    def opened(self) -> None:
        return None


def toolset_for(case: FaultCase, *, documented: bool = True) -> Toolset:
    """A fresh Atlas in which the case's injection is at work.

    Args:
        case: the case.
        documented: the tools say what they return; otherwise no drift can be told from a schema.
    """
    tools = atlas_toolset(Atlas())
    if not documented:
        tools = Toolset(Tool(t.protocol.model_copy(update={"returns": None}), t.transport) for t in tools.values())
    injection = case.injection
    if injection is None:
        return tools
    return Toolset(
        Tool(tool.protocol, _Injected(tool.transport, injection, []))
        if name == injection.tool and tool.transport
        else tool
        for name, tool in tools.items()
    )


# The reference programs, with a tool that fails ---------------------------------------------------------------------


def _raises(message: str, status: int | str) -> Change:
    def change(response: Any) -> Any:
        raise ToolError(message, status=status, outcome="unknown" if status == 500 else "refused")

    return change


async def _hang(response: Any) -> Any:
    await asyncio.sleep(5)
    return response


REFUSALS: list[tuple[str, Change]] = [
    ("refused: not found", _raises("there is nothing with this identifier", "not_found")),
    ("refused: invalid", _raises("the argument is not valid here", 422)),
]
FAILURES: list[tuple[str, Change]] = [
    ("failed: server error", _raises("internal server error", 500)),
    ("failed: exception", _raises("ZeroDivisionError: division by zero", "exception")),
    ("failed: timeout", _hang),
]


def failing_tools(task: AtlasTask, run: ReferenceRun, seed: int) -> Iterator[FaultCase]:
    """The reference program of a task, with one call that is refused, and one that fails."""
    random_ = random.Random(f"{seed} {task.id}")
    made = [(call.tool, [c.tool for c in run.calls[: i + 1]].count(call.tool)) for i, call in enumerate(run.calls)]
    for kinds, count in ((REFUSALS, 2), (FAILURES, 2)):
        for tool, call in random_.sample(made, min(count, len(made))):
            kind, change = random_.choice(kinds)
            yield FaultCase(kind, task.id, task.reference, Culprit(tool, call), Injection(tool, call, change))


# The reference programs, with a response that drifts ----------------------------------------------------------------


def _at_key(key: str, change: Callable[[dict[str, Any]], None]) -> Change:
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for item in list(value.values()):
                walk(item)
            if key in value:
                change(value)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    def changed(response: Any) -> Any:
        response = copy.deepcopy(response)
        walk(response)
        return response

    return changed


def _drifts(key: str) -> dict[str, Change]:
    def renamed(value: dict[str, Any]) -> None:
        value[f"{key}_v2"] = value.pop(key)

    def removed(value: dict[str, Any]) -> None:
        del value[key]

    def nulled(value: dict[str, Any]) -> None:
        value[key] = None

    def nested(value: dict[str, Any]) -> None:
        value[key] = {"value": value[key]}

    def list_to_dict(value: dict[str, Any]) -> None:
        if isinstance(value[key], list):
            value[key] = {f"item_{number}": item for number, item in enumerate(value[key])}

    changes = {
        "renamed": renamed,
        "removed": removed,
        "nulled": nulled,
        "nested": nested,
        "list to dict": list_to_dict,
    }
    return {f"drift: field {name}": _at_key(key, change) for name, change in changes.items()}


def drifting_tools(task: AtlasTask, run: ReferenceRun, seed: int) -> Iterator[FaultCase]:
    """The reference program of a task, with one field of one response that is not what it was.

    Whether that makes the run fail is seen when it is run.
    """
    random_ = random.Random(f"{seed} {task.id} drift")
    tools = list(dict.fromkeys(call.tool for call in run.calls))
    keys = sorted({part for part in task.reference.replace("'", '"').split('"') if part.isidentifier()})
    for tool in tools:
        occurrences = sum(call.tool == tool for call in run.calls)
        for key in keys:
            for kind, change in _drifts(key).items():
                call = random_.randint(1, occurrences)
                yield FaultCase(
                    kind,
                    f"{task.id} {tool}[{key!r}]",
                    task.reference,
                    Culprit(tool, call),
                    Injection(tool, call, change),
                )


def nulled(key: str) -> Change:
    """A response whose field is null."""
    return _drifts(key)["drift: field nulled"]
