"""What searching the tool graph is measured on: solutions of tasks, graphs of their catalogues, and drawn graphs."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from pathlib import Path
from typing import Any, Literal

from atc.errors import EnvironmentProblem
from atc.graph.and_or import Need
from atc.graph.edges import Feed
from atc.graph.identifiers import affinity, ending, endings, owner_of
from atc.graph.search import PRICES, needs_in
from atc.graph.suppliers import Scope, Supplier, fields_of
from atc.graph.tool_graph import ToolGraph
from atc.tools.protocol import Protocol, parameters_of
from atc_research.naviagent.searches import PaperGraph
from benchmarks.environments.restbench import RestBench
from benchmarks.retrieval_data import Catalogues

SOURCES = {
    "nestools": ("nestools",),
    "complexfuncbench": ("complexfuncbench",),
    "api_bank": ("api_bank", "api_bank_lv3"),
    "restbench_tmdb": (),
    "restbench_spotify": (),
}
"""Sources of solutions, and what the data calls their parts."""
FITS = 0.6
"""Name affinity from which a field and a parameter are linked by ``names``."""
Edges = Literal["schemas", "seen", "names"]
"""Which edges a graph has.

``schemas``: those of :class:`ToolGraph`. ``seen``: beside these what the solutions of the other half of the tasks did,
weighted by Eq. 4. ``names``: one wherever the names of a field and a parameter fit.
"""


@dataclass(frozen=True)
class Task:
    """The solution of a task.

    Attributes:
        target: the last tool that it calls.
        chain: the tools that the target depends on by the source's data flow, and the target; all tools of the solution
            where the source does not say what flows.
        gold: all tools of the solution.
        half: of two, by hash; a task is searched for with what the other half did.
        arguments: ``(tool, parameter)`` of each argument. ``flows``: ``(supplier, tool, parameter)`` of those that came
            from another tool's response.
    """

    target: str
    chain: frozenset[str]
    gold: frozenset[str]
    half: int = 0
    arguments: tuple[tuple[str, str], ...] = ()
    flows: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Service:
    """One catalogue, all of it one service, and the tasks over it."""

    name: str
    tools: Mapping[str, Protocol]
    solved: Sequence[Task]

    @property
    def tasks(self) -> list[Task]:
        """Those whose target depends on other tools."""
        return [task for task in self.solved if len(task.chain) > 1]

    def graphs(self, edges: Edges) -> list[tuple[Fed, list[Task]]]:
        """The graph of the catalogue and the tasks to search it for; two where halves of the tasks teach each other."""
        if edges == "names":
            return [(Fed(self.tools, dict(_by_names(self.tools))), self.tasks)]
        graph = ToolGraph(self.tools, scopes={key: Scope(self.name) for key in self.tools})
        known = {key: graph.feeds(key) for key in self.tools}
        if edges == "schemas":
            return [(Fed(self.tools, known), self.tasks)]
        return [
            (Fed(self.tools, _with_seen(known, [each for each in self.solved if each.half != half])), tasks)
            for half in (0, 1)
            if (tasks := [task for task in self.tasks if task.half == half])
        ]


@dataclass(frozen=True)
class Fed:
    """A graph whose edges are known: only the search is measured, not what reads them off the protocols."""

    protocols: Mapping[str, Protocol]
    by_consumer: Mapping[str, Sequence[Feed]]

    def feeds(self, consumer: str) -> Sequence[Feed]:
        return self.by_consumer[consumer]

    @cached_property
    def as_paper(self) -> PaperGraph:
        """The same edges as the paper's searches take them."""
        return PaperGraph.of({
            (key, parameter): {supplier: feed.weight for supplier, feed in feeds.items()}
            for key in self.protocols
            for parameter, feeds in needs_in(self, key)
            if feeds
        })  # fmt: skip


def _with_seen(known: Mapping[str, Sequence[Feed]], solved: Sequence[Task]) -> dict[str, list[Feed]]:
    """Edges with those of solutions; an edge that was seen takes the place of one that was not."""
    given = Counter(argument for task in solved for argument in task.arguments)
    times = Counter(flow for task in solved for flow in task.flows)
    found: dict[str, list[Feed]] = {key: [] for key in known}
    for (supplier, consumer, parameter), count in sorted(times.items()):
        weight = count / max(count, given[consumer, parameter])
        found[consumer].append(Feed(Supplier(supplier), consumer, parameter, "seen", weight, count))
    for key, feeds in known.items():
        seen = {(feed.supplier.tool, feed.parameter) for feed in found[key]}
        found[key] += [feed for feed in feeds if (feed.supplier.tool, feed.parameter) not in seen]
    return found


def _by_names(tools: Mapping[str, Protocol]) -> Iterator[tuple[str, list[Feed]]]:
    fields: dict[str, list[tuple[str, str, frozenset[str], tuple[str, ...]]]] = {}
    for key, protocol in tools.items():
        for path in fields_of(protocol.returns):
            *above, name = [step for step in path if step != "[]"]
            fields.setdefault(ending(name), []).append((key, name, owner_of(above, protocol.name), path))
    for key, protocol in tools.items():
        feeds = []
        for parameter in (each for each in parameters_of(protocol) if each.required):
            for last in sorted(endings(parameter.original)):
                for supplier, name, owner, path in fields.get(last, ()):
                    score = affinity(parameter.original, protocol.name, name, owner)
                    if score >= FITS and supplier != key:
                        feeds.append(Feed(Supplier(supplier, path), key, parameter.original, "names", score))
        yield key, feeds


def service(data: Path, source: str) -> Service:
    """One source.

    Raises:
        EnvironmentProblem: its data is not there.
    """
    tools, tasks = _restbench(data, source) if source.startswith("restbench") else _trajectories(data, source)
    return Service(source, tools, tasks)


def _restbench(data: Path, source: str) -> tuple[dict[str, Protocol], list[Task]]:
    environment, name = RestBench(data), source.rpartition("_")[2]
    tools = {key: operation.protocol for key, operation in environment.operations[name].items()}
    needed = [environment.needed(task) for task in environment.records if environment.service(task) == name]
    return tools, [Task(each[-1], frozenset(each), frozenset(each)) for each in needed]


def _trajectories(data: Path, source: str) -> tuple[dict[str, Protocol], list[Task]]:
    tools = dict(Catalogues(data).pool(source))
    file = data / "trajectories" / "trajectories.jsonl.gz"
    if not file.is_file():
        raise EnvironmentProblem(f"{file} is not there: give the data's directory with --data DIR or in ATC_DATA")
    tasks = []
    with gzip.open(file) as lines:
        for line in lines:
            record = json.loads(line)
            called = [call["tool"] for call in record["calls"]]
            if record["source"] not in SOURCES[source] or not tools.keys() >= set(called):
                continue
            gold = frozenset(called)
            chain = frozenset(called[place] for place in _upstream(record.get("edges", ()), len(called) - 1))
            half = hashlib.sha256(record["id"].encode()).digest()[0] % 2
            arguments = tuple((call["tool"], name) for call in record["calls"] for name in call.get("args") or ())
            flows = tuple(flows_of(record))
            tasks.append(Task(called[-1], chain if "edges" in record else gold, gold, half, arguments, flows))
    return tools, tasks


def flows_of(record: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The arguments that came from earlier calls: by what the source refers to them with, else by the value itself."""
    calls = record["calls"]
    for first, second in record.get("edges", ()):
        supplier, consumer = calls[first], calls[second]
        references = (f"${supplier['label']}.",) if "label" in supplier else (f"API_call_{first}",)
        output = json.dumps(supplier.get("output"), ensure_ascii=False)
        for name, value in (consumer.get("args") or {}).items():
            text = json.dumps(value, ensure_ascii=False)
            if any(each in text for each in references) or ("output" in supplier and text.strip('"') in output):
                yield supplier["tool"], consumer["tool"], name


def _upstream(edges: Sequence[Sequence[int]], last: int) -> set[int]:
    found, todo = {last}, [last]
    while todo:
        at = todo.pop()
        new = {first for first, second in edges if second == at} - found
        found |= new
        todo += new
    return found


# -- drawn graphs ------------------------------------------------------------------------------------------------------

Shape = Literal["usual", "dense"]


@dataclass(frozen=True)
class Drawn:
    """A drawn graph, in the form of each search.

    Attributes:
        needs: of each node, as the exact search takes them.
        paper: as the paper's searches do; ``t5`` is node 5.
        targets: tools that need something.
        nodes: tools and parameters. ``edges``: supplier to parameter, parameter to tool.
    """

    needs: Sequence[Sequence[Need]]
    paper: PaperGraph
    targets: Sequence[str]
    nodes: int
    edges: int


def drawn(edges: int, shape: Shape, targets: int) -> Drawn:
    """A graph of about so many edges, always the same one.

    ``usual``: a third of the tools need nothing, as look-ups do, the others one to three parameters, each with three
    suppliers in the mean. ``dense``: a tenth need nothing, and a parameter has six. Suppliers are drawn from all tools,
    so there are cycles; weights lie between 0.3 and 1.
    """
    draw = random.Random(f"{shape}/{edges}")
    shares, mean = ((35, 35, 20, 10), 3.0) if shape == "usual" else ((10, 40, 30, 20), 6.0)
    per_tool = sum(count * share for count, share in enumerate(shares)) / 100 * (1 + mean)
    tools = max(8, round(edges / per_tool))
    supplied = {
        (f"t{tool}", f"p{number}"): {
            f"t{supplier}": draw.uniform(0.3, 1.0)
            for supplier in {draw.randrange(tools) for _ in range(draw.randint(1, round(2 * mean) - 1))} - {tool}
        }
        for tool in range(tools)
        for number in range(draw.choices(range(4), shares)[0])
    }
    needs: list[list[Need]] = [[] for _ in range(tools)]
    for (tool, _), suppliers in supplied.items():
        priced = sorted((round(-1000 * log(weight)), int(name[1:])) for name, weight in suppliers.items())
        needs[int(tool[1:])].append(Need(round(1000 * PRICES.open), priced))
    count = len(supplied) + sum(map(len, supplied.values()))
    asked = [f"t{tool}" for tool in draw.sample(range(tools), tools) if needs[tool]][:targets]
    return Drawn(needs, PaperGraph.of(supplied), asked, tools + len(supplied), count)
