"""What the memory of runs is worth where a service drifts: ``python -m benchmarks.graph.evolution [--tasks 4]``.

* **Atlas**: the 40 reference programs of ``benchmarks/environments/atlas_tasks.toml`` are run and learnt from: how many
  teach, how many of their reads count, and which edges the names in the schemas do not give.
* **Drift**: 30 rounds, one a day, of ``--tasks`` tasks each. Three tools find a station; which of them gives an id that
  the timetable takes changes every ten rounds, and one of them is down for a while. Programs run for real (jail,
  broker, attribution), but no language model writes them: a script takes the suppliers in the order of the graph, with
  or without what was learnt, and the next one after a fault. So this measures how fast the memory's order follows the
  service. It says nothing about what a model would write.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from atc.agent import Agent
from atc.atlas import Atlas, atlas_toolset
from atc.catalogue.graph import weights
from atc.catalogue.graph.edges import NOTHING_LEARNT, Counts, Learnt
from atc.catalogue.graph.store import GraphStore
from atc.catalogue.graph.structure import suppliers_of
from atc.catalogue.graph.suppliers import Supplier
from atc.errors import ToolError
from atc.models.fake import FakeModel
from atc.programs.lessons.reading import lessons_of
from atc.result import Effect, Result
from atc.sandboxes.process.driver import ProcessSandbox
from atc.schemas.protocol import Protocol, Source
from atc.tools.tool import Tool, Toolset
from benchmarks.common import AsJson, median, print_json, run_program, show
from benchmarks.environments.atlas_tasks import load_tasks

DAY_S = weights.DAY_S
BEGIN_S = 20_000 * DAY_S
ROUNDS, PHASE = 30, 10
REVISIONS = 2
"""So that each of three suppliers can be tried in a run."""
SUPPLIERS = ("find_station", "lookup_station", "search_station")


def protocol(name: str, parameters: Mapping[str, Any], returns: dict[str, Any] | None) -> Protocol:
    """Return the protocol of a tool that reads."""
    schema = {"type": "object", "properties": dict(parameters), "required": [*parameters]}
    source = Source(kind="openapi", location="https://drift.test", operation=name)
    return Protocol(name=name, parameters=schema, returns=returns, effect=Effect.READ, source=source)


# -- atlas -----------------------------------------------------------------------------------------------------------


async def atlas() -> dict[str, Any]:
    """What the reference programs of Atlas teach."""
    named = suppliers_of(atlas_toolset(Atlas()).protocols)
    taught = reads = counted = 0
    edges: Counter[tuple[str, Any, str, str]] = Counter()
    took = []
    async with ProcessSandbox() as sandbox:
        tasks = load_tasks()
        for task in tasks:
            toolset = atlas_toolset(Atlas())
            tools = {name: tool.protocol for name, tool in toolset.items()}
            ran = await run_program(task.reference, toolset, sandbox)
            run = Result(
                run_id=task.id, task=task.task, status="answered", program=task.reference, calls=tuple(ran.calls)
            )
            began = time.perf_counter()
            lessons = lessons_of(run, tools)
            took.append(1000 * (time.perf_counter() - began))
            taught += bool(lessons)
            read = {call.tool for call in ran.calls if call.succeeded and call.effect is Effect.READ}
            reads += len(read)
            counted += len(read & lessons.calls.keys())
            edges.update(lessons.feeds)
    new = [edge for edge in edges if all(each.tool != edge[0] for each in named.get((edge[2], edge[3]), ()))]
    return {
        "programs": len(tasks),
        "that teach": taught,
        "tools read": reads,
        "of them counted": counted,
        "different edges": len(edges),
        "whose tool names do not give": len(new),
        "lessons_ms": round(median(took), 2),
    }


# -- drift -----------------------------------------------------------------------------------------------------------


@dataclass
class Service:
    """A timetable whose stations are found by three tools, of which one is right at a time."""

    right: str = SUPPLIERS[0]
    down: str = ""
    calls: int = 0

    def begin(self, number: int) -> None:
        """The state of a round. In the second phase the first tool is down; in the third it gives old ids again."""
        phase = number // PHASE
        self.right, self.down = SUPPLIERS[phase], SUPPLIERS[0] if phase == 1 else ""

    def tools(self) -> Toolset:
        text, number = {"type": "string"}, {"type": "integer"}
        item = {"type": "object", "properties": {"id": number, "name": text}}
        found = {"type": "object", "properties": {"stations": {"type": "array", "items": item}}}
        times = {"type": "object", "properties": {"departures": {"type": "array", "items": text}}}
        made = [Tool(protocol(name, {"name": text}, found), Behind(self, name)) for name in SUPPLIERS]
        return Toolset([*made, Tool(protocol("departures", {"station_id": number}, times), Behind(self, "departures"))])


@dataclass(frozen=True)
class Behind:
    """The transport of one of its tools."""

    service: Service
    name: str

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        self.service.calls += 1
        if self.name == self.service.down:
            raise ToolError("internal error", status=500)
        if self.name == "departures":
            if arguments["station_id"] % 10 != SUPPLIERS.index(self.service.right):
                raise ToolError("no such station", status=404)
            return {"departures": ["09:04", "09:34"]}
        station = sum(map(ord, arguments["name"])) * 10 + SUPPLIERS.index(self.name)
        return {"stations": [{"id": station, "name": arguments["name"]}]}

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        return None


@dataclass
class Arm:
    """One way through the rounds: the runs that were answered, and the calls, round by round."""

    solved: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)


def in_order(tools: Mapping[str, Protocol], learnt: Learnt) -> list[Supplier]:
    """The suppliers of a station's id: by Eq. 4 and 12 and how seldom they fail; of equal ones as the schemas say."""
    calls = learnt.calls.get("departures", Counts()).ok

    def worth(each: Supplier) -> float:
        fed = learnt.feeds.get((each.tool, each.path, "departures", "station_id"), Counts()).ok
        own = learnt.calls.get(each.tool, Counts())
        return (fed / calls if calls else 0.0) * (own.ok + 1) / (own.ok + own.failed + 1)

    found = suppliers_of(tools)["departures", "station_id"]
    return sorted(found, key=lambda each: -worth(each))


async def drift(folder: Path, tasks: int, learns: bool) -> Arm:
    """Go through all rounds."""
    service, arm, store = Service(), Arm(), GraphStore(folder / "learnt.db")
    toolset = service.tools()
    tools = {name: tool.protocol for name, tool in toolset.items()}
    for number in range(ROUNDS):
        service.begin(number)
        solved = called = 0
        for task in range(tasks):
            now = BEGIN_S + number * DAY_S + task * 600
            order = in_order(tools, store.learnt(tools, now) if learns else NOTHING_LEARNT)
            town = f"town {number} {task}"
            programs = [
                f"```python\nfound = {each.tool}(name={town!r})['stations']\n"
                "answer = departures(station_id=found[0]['id'])['departures']\n```"
                for each in order
            ]
            service.calls = 0
            agent = Agent(toolset, model=FakeModel(programs), sentence=False, check=False, keep_runs=False,
                          max_revisions=REVISIONS)  # fmt: skip
            result = await agent.arun(f"When do trains leave {town}?")
            solved += result.status == "answered"
            called += service.calls
            if learns:
                store.add(lessons_of(result, tools), tools, now)
        arm.solved.append(solved)
        arm.calls.append(called)
    if store.notice:
        raise SystemExit(store.notice)
    store.close()
    return arm


def of_phases(arm: Arm, tasks: int) -> list[str]:
    """For each phase: the share solved and the calls a task."""
    made = []
    for begin in range(0, ROUNDS, PHASE):
        part = slice(begin, begin + PHASE)
        whole = tasks * PHASE
        made.append(f"{100 * sum(arm.solved[part]) / whole:.0f} %, {sum(arm.calls[part]) / whole:.2f}")
    return made


def main(
    tasks: Annotated[int, typer.Option(min=1, help="Tasks a round.")] = 4,
    as_json: AsJson = False,
) -> None:
    """Measure what learning from runs is worth."""
    with tempfile.TemporaryDirectory(prefix="atc-evolution-") as name:
        figures: dict[str, Any] = {
            "atlas": asyncio.run(atlas()),
            "drift": {
                way: of_phases(asyncio.run(drift(Path(name) / way, tasks, way == "with")), tasks)
                for way in ("without", "with")
            },
        }
    if as_json:
        print_json(figures)
        return
    show("atlas", ["", ""], [[key, value] for key, value in figures["atlas"].items()])
    phases = [[way, *of_way] for way, of_way in figures["drift"].items()]
    show("drift: solved, calls a task", ["", "rounds 1-10", "11-20", "21-30"], phases)


if __name__ == "__main__":
    typer.run(main)
