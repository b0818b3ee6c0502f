"""Tools that break, with another service's tool beside them: what breaking costs, and what recombination brings back.

``python -m benchmarks.programs.broken_tools [--json]``

Ten reads and two writes of Atlas have a twin (:mod:`benchmarks.programs.broken_twins`). Each is broken in turn, for
every task whose reference program calls it, in four ways:

- ``raises``: the service says 503. A write did nothing then.
- ``hangs``: no answer within the time of a call. A write has acted by then.
- ``nothing``: the answer is ``{}``, against its schema. A write has acted.
- ``drifts``: every key of the answer has another name. A write has acted.

Only the tools of the task are offered at first. A try is one run of an agent, with the rule ``recombine`` and without.

No model is asked: a script writes the reference program, and, once the prompt shows the twin, the same program with the
twin's call. So it measures what the runtime does, and not whether a model heeds it.

What breaking costs is the share of tries that are solved less once tools are broken, without the rule; what comes back
is the part of it that is solved with the rule. Every write is counted at both services: none may happen twice.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import typer

from atc.agent import Agent
from atc.atlas import Atlas, atlas_toolset
from atc.calls.broker import CallPolicy
from atc.calls.json_values import canonical
from atc.cli.console import guarded
from atc.errors import ToolError
from atc.models.base import Message
from atc.models.fake import FakeModel
from atc.result import Effect
from atc.run.base import Ending
from atc.run.chain import Chain
from atc.run.run import Run
from atc.tools.tool import Tool, Toolset, Transport
from benchmarks.common import ALL, AsJson, print_json, show
from benchmarks.environments.atlas_tasks import AtlasTask, ReferenceRun, check, load_tasks, reference_answer
from benchmarks.programs.broken_twins import READS, TWINS, WRITES, twins_of

Way = Literal["raises", "hangs", "nothing", "drifts"]
WAYS: tuple[Way, ...] = get_args(Way)
RULE = "recombine"
PATIENCE_S = 0.5
"""Seconds of one call where a tool hangs."""
REPLIES = 40


@dataclass(frozen=True)
class Cell:
    """One task with one tool broken in one way; ``way`` is ``None`` where nothing is."""

    task: str
    tool: str
    way: Way | None


@dataclass(frozen=True)
class Try:
    """How one try went. ``twice``: writes that happened more than once, at either service."""

    task: str
    tool: str
    way: Way | None
    rule: bool
    solved: bool
    status: str
    twice: int
    routed: bool


@dataclass
class World:
    """The tools of one try: one of them broken, and a count of all writes by what they ask for."""

    cell: Cell
    atlas: Atlas = field(default_factory=Atlas)
    effects: Counter[str] = field(default_factory=Counter)

    def tools(self) -> Toolset:
        """Atlas's tools and the twins."""
        originals = [self._made(tool) for tool in atlas_toolset(self.atlas).values()]
        return Toolset([*originals, *(self._made(tool) for tool in twins_of(self.atlas))])

    def _made(self, tool: Tool) -> Tool:
        transport = tool.transport
        assert transport is not None
        if tool.protocol.effect is not Effect.READ:
            transport = Acting(transport, lambda arguments: self._count(tool, arguments))
        if tool.name == self.cell.tool and self.cell.way is not None:
            transport = Breaking(transport, self.cell.way)
        return replace(tool, transport=transport)

    def _count(self, tool: Tool, arguments: dict[str, Any]) -> None:
        """What a write asks for, whatever its arguments are called: those of a twin stand in the same order."""
        what = next((name for name, twin in TWINS.items() if twin.name == tool.name), tool.name)
        values = [arguments.get(name) for name in tool.protocol.parameters["properties"]]
        self.effects[canonical([what, values])] += 1


@dataclass(frozen=True)
class Acting:
    """A transport that tells of each effect, once it has happened."""

    inner: Transport
    tell: Callable[[dict[str, Any]], None]

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        value = await self.inner(arguments)
        self.tell(arguments)
        return value

    def opened(self) -> None:
        """Nothing to open."""


@dataclass(frozen=True)
class Breaking:
    """A transport of a service that is broken."""

    inner: Transport
    way: Way

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        if self.way == "raises":
            raise ToolError("503 Service Unavailable", status=503, outcome="refused")
        value = await self.inner(arguments)
        if self.way == "hangs":
            await asyncio.sleep(100 * PATIENCE_S)
        return {} if self.way == "nothing" else renamed(value)

    def opened(self) -> None:
        """Nothing to open."""


def renamed(value: Any) -> Any:
    """The value with other names for all keys, as after a change of the service."""
    if isinstance(value, dict):
        return {f"x{key.title().replace('_', '')}": renamed(item) for key, item in value.items()}
    return [renamed(item) for item in value] if isinstance(value, list) else value


class Begun(Chain):
    """The chain, with certain tools offered at first."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._names = names

    async def solve(self, context: Run) -> Ending:
        await context.offer(context.all_tools.only(*self._names))
        return await super().solve(context)


def cells(tasks: Iterable[AtlasTask]) -> list[Cell]:
    """Every task with every tool that its reference program calls and that has a twin, whole and in each way."""
    called = [
        (task.id, tool) for task in tasks for tool in (*READS, *WRITES) if re.search(rf"\b{tool}\(", task.reference)
    ]
    return [Cell(task, tool, way) for task, tool in called for way in (None, *WAYS)]


def script(task: AtlasTask, tool: str) -> Callable[[Sequence[Message]], str]:
    """A writer that needs no model: the reference program; with the twin's call, where the prompt shows the twin."""
    twin = TWINS[tool]
    other = twin.adapter + re.sub(rf"\b{tool}\(", f"_{tool}(", task.reference)

    def write(messages: Sequence[Message]) -> str:
        shown = any(f"def {twin.name}(" in message.content for message in messages)
        return f"```python\n{other if shown else task.reference}\n```"

    return write


async def tried(cell: Cell, task: AtlasTask, expected: ReferenceRun, *, rule: bool) -> Try:
    """One try."""
    world = World(cell)
    async with Agent(
        world.tools(),
        model=FakeModel([script(task, cell.tool)] * REPLIES),
        strategy=Begun(task.tools),
        approve=lambda _: True,
        policy=CallPolicy(retry_wait_s=0.001, call_timeout_s=PATIENCE_S if cell.way == "hangs" else 30.0),
        rules="default" if rule else f"-{RULE}",
        stub_tokens=ALL,
        sentence=False,
        keep_runs=False,
    ) as agent:
        result = await agent.arun(task.task)
    right = result.status == "answered" and check(result.json_value, expected.value, unordered=task.unordered)
    return Try(
        cell.task,
        cell.tool,
        cell.way,
        rule,
        right and world.atlas.trips.state() == expected.trips,
        result.status,
        sum(count - 1 for count in world.effects.values()),
        any(fault.substitutes for fault in result.faults),
    )


async def run() -> list[Try]:
    """All tries: every cell without the rule and with it."""
    tasks = {task.id: task for task in load_tasks()}
    references: dict[str, ReferenceRun] = {}
    todo = cells(tasks.values())
    made: list[Try] = []
    for number, cell in enumerate(todo, 1):
        task = tasks[cell.task]
        if cell.task not in references:
            references[cell.task] = await asyncio.to_thread(reference_answer, task)
        for rule in (False, True):
            made.append(await tried(cell, task, references[cell.task], rule=rule))
            print(f"{number}/{len(todo)} {cell} rule={rule}: {made[-1].status}", file=sys.stderr, flush=True)
    return made


def figures(tries: Sequence[Try]) -> dict[str, Any]:
    """Solved whole, broken without the rule and with it, and what comes back of the loss; by effect and way."""
    groups: dict[str, Any] = {}
    for effect, names in (("read", READS), ("write", WRITES)):
        own = [each for each in tries if each.tool in names]
        whole = [each for each in own if each.way is None and each.rule]
        for way in ("all", *WAYS):
            without, with_rule = (
                [each for each in own if each.way in (WAYS if way == "all" else (way,)) and each.rule is rule]
                for rule in (False, True)
            )
            if not without or not with_rule:
                continue
            before = sum(each.solved for each in whole) / len(whole) if whole else 1.0
            a, b = (sum(each.solved for each in some) / len(some) for some in (without, with_rule))
            groups[f"{effect} {way}"] = {
                "tries": len(without),
                "whole": before,
                "broken": a,
                "recombined": b,
                "back": (b - a) / (before - a) if before > a else None,
                "statuses": dict(Counter(each.status for each in with_rule)),
            }
    return {"groups": groups, "twice": sum(each.twice for each in tries), "tries": len(tries)}


@guarded
def main(
    as_json: AsJson = False,
) -> None:
    """Break tools and count what comes back; exit with 1 where a write happened twice."""
    made = figures(asyncio.run(run()))
    if as_json:
        print_json(made)
    else:
        rows = [
            (name, g["tries"], *(f"{100 * g[k]:.0f} %" for k in ("whole", "broken", "recombined")),
             "–" if g["back"] is None else f"{100 * g['back']:.0f} %",
             ", ".join(f"{n} {s}" for s, n in sorted(g["statuses"].items())))
            for name, g in made["groups"].items()
        ]  # fmt: skip
        columns = ("broken", "tries", "solved whole", "broken", "with recombination", "comes back", "how it ended")
        show("Tools that break, and a script that writes", columns, rows)
        print(f"writes that happened twice: {made['twice']} in {made['tries']} tries")
    raise typer.Exit(1 if made["twice"] else 0)


if __name__ == "__main__":
    typer.run(main)
