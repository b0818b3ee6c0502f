"""What the memory of runs costs, and what it is worth where a service drifts.

``python -m benchmarks.evolution [--json] [--runs 10000] [--tasks 4]``, four parts:

* **Atlas**: the 40 reference programs of ``benchmarks/atlas_tasks.toml`` are run and learnt from: how many teach, how
  many of their reads count, and which edges the names in the schemas do not give.
* **Learning**: ``--runs`` made-up runs over 40 tools are learnt one after the other: milliseconds a run, size of the
  file, and milliseconds to read what was learnt about these tools, and about them among 47,000.
* **Two writers**: two processes learn 1,000 runs each at once, 500 of them the same; what is counted afterwards.
* **Drift**: 30 rounds, one a day, of ``--tasks`` tasks each. Three tools find a station; which of them gives an id that
  the timetable takes changes every ten rounds, and one of them is down for a while. Programs run for real (jail,
  broker, attribution), but no language model writes them: a script takes the suppliers in the order of the graph, with
  or without what was learnt, and the next one after a fault. So this measures how fast the memory's order follows the
  service. It says nothing about what a model would write.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from atc.agent import Agent
from atc.atlas import Atlas, atlas_toolset
from atc.errors import ToolError
from atc.graph import weights
from atc.graph.edges import NOTHING_LEARNT, Counts, Learnt
from atc.graph.store import GraphStore
from atc.graph.structure import suppliers_of
from atc.graph.suppliers import Supplier
from atc.models.fake import FakeModel
from atc.programs.lessons.reading import lessons_of
from atc.result import Call, Effect, Result
from atc.sandboxes.process.driver import ProcessSandbox
from atc.tools.protocol import Protocol, Source
from atc.tools.tool import Tool, Toolset
from benchmarks.atlas import load_tasks
from benchmarks.common import machine, median, percentile, print_json, run_program, show

DAY_S = weights.DAY_S
BEGIN_S = 20_000 * DAY_S
ROUNDS, PHASE = 30, 10
REVISIONS = 2
"""So that each of three suppliers can be tried in a run."""
SUPPLIERS = ("find_station", "lookup_station", "search_station")


# -- learning --------------------------------------------------------------------------------------------------------


def made_up_tools(pairs: int = 20) -> dict[str, Protocol]:
    """Tools of which one finds things and the other takes their ids."""
    item = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
    found = {"type": "object", "properties": {"items": {"type": "array", "items": item}}}
    made = {}
    for n in range(pairs):
        made[f"find_{n}"] = protocol(f"find_{n}", {"name": {"type": "string"}}, found)
        made[f"get_{n}"] = protocol(f"get_{n}", {f"thing{n}_id": {"type": "integer"}}, None)
    return made


def protocol(name: str, parameters: Mapping[str, Any], returns: dict[str, Any] | None) -> Protocol:
    schema = {"type": "object", "properties": dict(parameters), "required": [*parameters]}
    source = Source(kind="openapi", location="https://drift.test", operation=name)
    return Protocol(name=name, parameters=schema, returns=returns, effect=Effect.READ, source=source)


def made_up_run(number: int) -> Result[Any]:
    """A run of three pairs of calls, whose answer rests on all."""
    chosen = random.Random(number).sample(range(20), 3)
    lines, calls = ["answer = []"], []
    for place, n in enumerate(chosen):
        lines += [
            f"found = find_{n}(name='x')['items']",
            "one = next(item for item in found if item['id'] > 0)",
            f"answer.append(get_{n}(thing{n}_id=one['id'])['title'])",
        ]
        items = [{"id": number * 10 + i, "name": f"thing {i}"} for i in range(20)]
        at: dict[str, Any] = {"attempt": 0, "effect": Effect.READ, "status": "ok"}
        line = 2 + 3 * place
        calls.append(Call(index=2 * place + 1, tool=f"find_{n}", arguments={"name": "x"}, value={"items": items},
                          line=line, **at))  # fmt: skip
        calls.append(Call(index=2 * place + 2, tool=f"get_{n}", arguments={f"thing{n}_id": items[0]["id"]},
                          value={"title": "t", "total": n, "price": 1.5}, line=line + 2, **at))  # fmt: skip
    program = "\n".join(lines) + "\n"
    return Result(run_id=f"run-{number}", task="t", status="answered", program=program, calls=tuple(calls))


def learning(runs: int, folder: Path, beside: int = 47_000) -> dict[str, Any]:
    """Milliseconds of a run's lessons, and of adding them; the size of the file.

    Args:
        beside: tools that no run called, among which what was learnt is looked up.
    """
    tools, store = made_up_tools(), GraphStore(folder / "learning" / "learnt.db")
    read, added, cpu = [], [], []
    for number in range(runs):
        run = made_up_run(number)
        began, busy = time.perf_counter(), time.process_time()
        lessons = lessons_of(run, tools)
        between = time.perf_counter()
        store.add(lessons, tools, BEGIN_S + number * 60)
        added.append(1000 * (time.perf_counter() - between))
        read.append(1000 * (between - began))
        cpu.append(1000 * (time.process_time() - busy))
    whole = [a + b for a, b in zip(read, added, strict=True)]
    now = BEGIN_S + runs * 60
    learnt = store.learnt(tools, now)
    assert len(learnt.feeds) == 20
    assert not store.notice
    assert runs < 100 or sum(each.ok for each in learnt.calls.values()) == 6 * runs
    store.close()
    size = sum(file.stat().st_size for file in store.path.parent.iterdir())
    many = tools | {f"t{n}": protocol(f"t{n}", {"q": {}}, None) for n in range(beside)}
    figures = {
        "runs": runs,
        "lessons_ms": round(median(read), 2),
        "add_ms": round(median(added), 2),
        "run_ms": round(median(whole), 2),
        "run_p95_ms": round(percentile(whole, 95), 2),
        "run_cpu_ms": round(median(cpu), 2),
        "run_cpu_p95_ms": round(percentile(cpu, 95), 2),
        "size_kb": size // 1024,
        "view_ms": round(median([timed(lambda: store.learnt(tools, now)) for _ in range(9)]), 2),
        "view_47k_ms": round(median([timed(lambda: store.learnt(many, now)) for _ in range(5)]), 1),
    }
    store.close()
    return figures


def timed(work: Any) -> float:
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


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


# -- two writers -----------------------------------------------------------------------------------------------------


def write(path: Path, numbers: Sequence[int]) -> None:
    store, tools = GraphStore(path), made_up_tools()
    for number in numbers:
        store.add(lessons_of(made_up_run(number), tools), tools, BEGIN_S)
    if store.notice:
        raise SystemExit(store.notice)
    store.close()


def two_writers(folder: Path) -> dict[str, Any]:
    """What two processes count that learn at once, and what it had to be."""
    path = folder / "writers" / "learnt.db"
    parts = [range(1000), range(500, 1500)]
    processes = [multiprocessing.get_context("spawn").Process(target=write, args=(path, part)) for part in parts]
    began = time.perf_counter()
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    seconds = time.perf_counter() - began
    store = GraphStore(path)
    counted = sum(each.ok for each in store.learnt(made_up_tools(), BEGIN_S).calls.values())
    store.close()
    failed = sum(process.exitcode != 0 for process in processes)
    return {"seconds": round(seconds, 1), "counted": int(counted), "expected": 6 * 1500, "failed": failed}


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--runs", type=int, default=10_000, help="runs that are learnt")
    parser.add_argument("--tasks", type=int, default=4, help="tasks a round")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="atc-evolution-") as name:
        folder = Path(name)
        figures: dict[str, Any] = {
            "machine": machine(),
            "atlas": asyncio.run(atlas()),
            "learning": learning(options.runs, folder),
            "two writers": two_writers(folder),
            "drift": {
                way: of_phases(asyncio.run(drift(folder / way, options.tasks, way == "with")), options.tasks)
                for way in ("without", "with")
            },
        }
    if options.json:
        print_json(figures)
        return 0
    for title in ("atlas", "learning", "two writers"):
        show(title, ["", ""], [[key, value] for key, value in figures[title].items()])
    show("drift: solved, calls a task", ["", "rounds 1-10", "11-20", "21-30"],
         [[way, *phases] for way, phases in figures["drift"].items()])  # fmt: skip
    lost = figures["two writers"]["counted"] != figures["two writers"]["expected"] or figures["two writers"]["failed"]
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
