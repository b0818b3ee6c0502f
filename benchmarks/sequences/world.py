"""The world of a sequence: tasks in an order over one catalogue, whose tools break from the middle on.

The catalogue has the tools of all environments, near-duplicates for a share of the reads that the solutions use
(:mod:`benchmarks.sequences.twins`), and tools of other services, which refuse. Its names and documents are the same at
each step. A step opens an episode of its task's environment, so that its state is fresh and its judge works; the tools
of the others work on episodes of their own.

In the second half reads break that have a near-duplicate and that the half needs, some from its first step on, some a
little later; some come back for the last sixth.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from atc.errors import UsageError
from atc.schemas.identifiers import HANDED_OUT, THINGS, is_identifier
from atc.schemas.protocol import Protocol
from atc.tools.tool import Tool, Toolset
from benchmarks.environments import Environment, Episode, Gold, MadeCall, Task
from benchmarks.environments.atlas_tasks import load_tasks
from benchmarks.sequences.breaking import WAYS, Way, broken
from benchmarks.sequences.services import NO_DATA, WITH_DATA, Home, Refusing, Rooms, distractors, homes, with_examples
from benchmarks.sequences.shop_programs import PROGRAMS
from benchmarks.sequences.twins import Twin, has_keys, twin_of
from benchmarks.tasks.right_programs import RightProgram, places, right_program

ENVIRONMENTS: Sequence[str] = (*NO_DATA, *WITH_DATA)
TWINNED = 0.8
"""Share of the reads of solutions that have a near-duplicate, of those whose documents allow for one."""
BROKEN = 0.75
"""Share of those that break, of what the second half needs."""
BACK = 1 / 3
"""Share of the broken ones that come back."""


@dataclass(frozen=True)
class Step:
    """One task of a sequence.

    Attributes:
        number: of the step, from 0.
        environment: whose task it is.
        task: what is asked. ``task.tools`` has the environment's own names.
        broken: how tools are broken at this step, by their names in the catalogue.
        third: of the sequence in which it stands: 1, 2 or 3.
        tools: the names, in the catalogue, of the tools that its own solution calls, each once, in their order.
    """

    number: int
    environment: str
    task: Task
    broken: Mapping[str, Way]
    third: int
    tools: tuple[str, ...]


@dataclass(frozen=True)
class Opened:
    """A step that was begun: nothing is left of an earlier one.

    Attributes:
        tools: the whole catalogue; the broken ones are broken. Open it (``async with opened.tools.opened()``) before
            calls are made.
        episode: of this step over the whole catalogue: its names are those of the catalogue, its judge is that of the
            task's environment.
    """

    tools: Toolset
    episode: Episode

    @property
    def calls(self) -> Sequence[MadeCall]:
        """The calls so far of all tools, by their names in the catalogue, in the order in which they ended."""
        return self.episode.calls

    def check(self, value: Any) -> bool:
        """Tell whether the task is solved: ``value`` is the answer, as plain JSON values."""
        return self.episode.check(value)

    @property
    def unwanted_writes(self) -> int:
        """Effects that nobody asked for: of tools that the solution does not call, or done again."""
        return self.episode.forbidden_writes + self.episode.repeated_writes


class World:
    """A sequence of tasks over one catalogue of tools.

    It takes some seconds to make, since the solution of each task is tried. A world can be gone through many times.

    Args:
        data: the directory with the environments' data; ``None`` for those that need none.
        seed: draws the tasks, their order, the near-duplicates, the distractors and what breaks.
        tasks: how many at most; of each environment equally many, as far as it has them.
        distractors: tools of OpenAPI documents that refuse when called, at most; none without data.
        environments: whose tasks, of :data:`ENVIRONMENTS`; by default all, or without data those that need none.

    Attributes:
        steps: the tasks in their order.
        protocols: of the whole catalogue by name, the same at each step.
        twins: by the name of the original.
        left_out: tasks that were drawn and whose own solution does not solve them, or has an identifier that it never
            looked up, by environment.

    Raises:
        UsageError: there is no environment of a name.
        EnvironmentProblem: data is missing.
    """

    def __init__(
        self,
        data: Path | None,
        *,
        seed: int = 0,
        tasks: int = 120,
        distractors: int = 200,
        environments: Sequence[str] | None = None,
    ) -> None:
        names = tuple(environments or (NO_DATA if data is None else ENVIRONMENTS))
        if unknown := [name for name in names if name not in ENVIRONMENTS]:
            raise UsageError(f"a sequence has no environment {unknown[0]!r}: take some of {', '.join(ENVIRONMENTS)}")
        self._seed = seed
        with ThreadPoolExecutor(1) as thread:  # environments and solutions need an event loop of their own
            self._homes = thread.submit(homes, data, names).result()
            drawn = thread.submit(asyncio.run, self._drawn(tasks)).result()
        Random(f"{seed}/order").shuffle(drawn)
        self._solutions = [solution for _, _, solution in drawn]
        originals: dict[str, Protocol] = {}
        for home in self._homes:
            originals |= with_examples(home, [task for each, task, _ in drawn if each is home])
        self.twins = self._twinned(originals)
        self.protocols = originals | {twin.name: twin.protocol for twin in self.twins.values()}
        self._refusing = self._refused(data, distractors)
        self.protocols |= {each.name: each for each in self._refusing}
        breaks = self._breaks(originals)
        self.steps = [
            Step(
                number,
                home.environment.name,
                task,
                {tool: way for tool, (way, begin, end) in breaks.items() if begin <= number < end},
                1 + 3 * number // len(drawn),
                solution.tools,
            )
            for number, (home, task, solution) in enumerate(drawn)
        ]

    def open(self, step: Step) -> Opened:
        """Begin a step: all tools of the catalogue on fresh episodes, the broken ones broken."""
        home = next(each for each in self._homes if each.environment.name == step.environment)
        return self._opened(home, step.task, step.broken)

    async def program(self, step: Step) -> str:
        """Return the right program of a step, by the names of the catalogue.

        It calls no near-duplicate, and was seen to solve the task. What an argument or the answer has from an earlier
        response is read from there.
        """
        return self._solutions[step.number].program

    # ------------------------------------------------------------------------------------------------------------------

    async def _drawn(self, most: int) -> list[tuple[Home, Task, _Solution]]:
        left: dict[str, list[tuple[Home, Task]]] = {}
        for home in self._homes:
            group = left.setdefault(_group(home), [])
            group += [(home, task) for task in home.tasks]
        for group in left.values():
            group.sort(key=lambda pair: self._lot(pair[0].environment.name, pair[1].id))
        made: list[tuple[Home, Task, _Solution]] = []
        failed: Counter[str] = Counter()
        while len(made) < most and any(left.values()):
            for group in left.values():
                solution: _Solution | None = None
                while group and len(made) < most and solution is None:
                    home, task = group.pop(0)
                    if (solution := await _solved(_Renamed(home), home, task)) is None:
                        failed[home.environment.name] += 1
                    else:
                        made.append((home, task, solution))
        self.left_out: Mapping[str, int] = dict(failed)
        return made

    def _lot(self, *what: Any) -> str:
        """Where something stands in a draw of this seed."""
        return sha256("/".join(map(str, (self._seed, *what))).encode()).hexdigest()

    def _twinned(self, originals: Mapping[str, Protocol]) -> Mapping[str, Twin]:
        used = sorted({tool for solution in self._solutions for tool in solution.tools})
        taken = [*originals]
        made: dict[str, Twin] = {}
        for name in sorted(used, key=lambda tool: self._lot("twin", tool)):
            public = next(home.is_public(name) for home in self._homes if name in home.own_names)
            if (twin := twin_of(originals[name], taken, public=public)) is not None:
                made[name] = twin
                taken.append(twin.name)
        kept = [*made][: round(TWINNED * len(made))]
        return {name: made[name] for name in kept}

    def _refused(self, data: Path | None, most: int) -> list[Protocol]:
        made, taken = [], {*self.protocols}
        for protocol in distractors(data, most, self._seed):
            name = protocol.name if protocol.name not in taken else protocol.full_name
            if name not in taken:
                taken.add(name)
                made.append(protocol.model_copy(update={"name": name}))
        return made

    def _breaks(self, originals: Mapping[str, Protocol]) -> dict[str, tuple[Way, int, int]]:
        """How each tool that breaks does so, from which step on, and until which."""
        steps = len(self._solutions)
        middle, later, last = steps // 2, steps * 2 // 3, steps * 5 // 6
        needed = {tool for solution in self._solutions[middle:] for tool in solution.tools} & self.twins.keys()
        ordered = sorted(needed, key=lambda tool: self._lot("break", tool))
        chosen = ordered[: round(BROKEN * len(ordered))]
        made: dict[str, tuple[Way, int, int]] = {}
        for place, tool in enumerate(chosen):
            random = Random(self._lot("way", tool))
            begin = middle if random.random() < 0.5 else random.randrange(middle, later + 1)
            end = last if random.random() < BACK else steps
            ways = [way for way in WAYS if way != "changed" or has_keys(originals[tool])]
            made[tool] = ways[place % len(ways)], begin, end
        return made

    def _opened(self, home: Home, task: Task, ways: Mapping[str, Way]) -> Opened:
        rooms = Rooms(home, task)
        inner, gold = rooms.episode(home, task), home.golds[task.id]
        tools: list[Tool] = []
        by_twin = {twin.name: name for name, twin in self.twins.items()}
        refusing = {each.name for each in self._refusing}
        for name, protocol in self.protocols.items():
            if name in refusing:
                tools.append(Tool(protocol, Refusing()))
            elif name in by_twin:
                original = by_twin[name]
                tools.append(self.twins[original].tool(rooms.transport(self._homes, original)))
            else:
                tool = Tool(protocol, rooms.transport(self._homes, name))
                alone = name in self.twins and self.twins[name].same_service
                tools.append(broken(tool, ways[name], alone=alone) if name in ways else tool)
        calls = [(home.names[tool], arguments) for tool, arguments in gold.calls]
        episode = Episode(Toolset(tools), inner.check, calls)
        return Opened(episode.tools, episode)


# Solutions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Solution:
    program: str
    tools: tuple[str, ...]


class _Renamed(Environment):
    """The tasks of an environment over the tools of the catalogue, none of them broken."""

    def __init__(self, home: Home) -> None:
        self.name = home.environment.name
        self._home = home
        self.last: Episode | None = None

    def tasks(self) -> list[Task]:
        return [*self._home.tasks]

    def open(self, task: Task) -> Episode:
        """Begin a task on the tools of its own environment; :attr:`last` is this episode."""
        rooms = Rooms(self._home, task)
        names = dict.fromkeys(tool for tool, _ in self.gold(task).calls)
        made = [
            Tool(
                self._home.protocols[self._home.own_names[name]].model_copy(update={"name": name}),
                rooms.transport([self._home], name),
            )
            for name in names
        ]
        self.last = Episode(Toolset(made), rooms.episode(self._home, task).check)
        return self.last

    def gold(self, task: Task) -> Gold:
        gold = self._home.golds[task.id]
        return Gold(
            tuple((self._home.names[tool], arguments) for tool, arguments in gold.calls),
            gold.answer,
            judged=gold.judged,
        )


async def _solved(renamed: _Renamed, home: Home, task: Task) -> _Solution | None:
    """The solution of a task, made by calls of its tools; ``None`` where the judge does not say that it solves it."""
    gold = renamed.gold(task)
    tools = tuple(dict.fromkeys(tool for tool, _ in gold.calls))
    if (own := _own_program(home, task)) is not None:  # tests hold it
        return _Solution(_under_names(own, home), _in_order(own, home))
    made = await right_program(renamed, task)
    episode = renamed.last
    assert episode is not None
    if any(not call.answered for call in episode.calls) or not made.responses or _invents(gold, made):
        return None
    last = len(made.responses) - 1
    calls = made.source.rpartition("\n")[0]
    if gold.answer is not None and gold.judged and episode.check(gold.answer):
        return _Solution(f"{calls}\nanswer = {_read(gold.answer, made.responses)}", tools)
    return _Solution(made.source, tools) if episode.check(made.responses[last]) else None


def _invents(gold: Gold, made: RightProgram) -> bool:
    """Tell whether a solution has an identifier or an address that neither the task nor a response gives."""
    given = [pair for _, arguments in gold.calls for pair in _named(arguments)]
    invented = {value for values in made.not_given.values() for value in values}
    own = [str(value) for name, value in given if is_identifier(name, THINGS | HANDED_OUT) or "@" in str(value)]
    return not invented.isdisjoint(own)


def _named(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _named(part, key)
    elif isinstance(value, list):
        for part in value:
            yield from _named(part, name)
    else:
        yield name, value


def _own_program(home: Home, task: Task) -> str | None:
    if home.environment.name == "atlas":
        return next(each.reference for each in load_tasks() if each.id == task.id).strip()
    return PROGRAMS.get(home.environment.name, {}).get(task.id)


def _called(program: str, names: Iterable[str]) -> Iterator[str]:
    for found in re.finditer(r"\b(\w+)\(", program):
        if found[1] in names:
            yield found[1]


def _in_order(program: str, home: Home) -> tuple[str, ...]:
    return tuple(dict.fromkeys(home.names[own] for own in _called(program, home.names)))


def _under_names(program: str, home: Home) -> str:
    return re.sub(r"\b(\w+)\(", lambda found: f"{home.names.get(found[1], found[1])}(", program)


def _read(value: Any, responses: Sequence[Any]) -> str:
    for number in reversed(range(len(responses))):
        if responses[number] == value and type(responses[number]) is type(value):
            return f"r{number}"
    if isinstance(value, list) and value:
        return f"[{', '.join(_read(part, responses) for part in value)}]"
    if isinstance(value, dict) and value:
        return f"{{{', '.join(f'{key!r}: {_read(part, responses)}' for key, part in value.items())}}}"
    for number in reversed(range(len(responses))):
        for path, part in places(responses[number]):
            if part == value and type(part) is type(value):
                return f"r{number}{path}"
    return repr(value)


def _group(home: Home) -> str:
    return home.environment.name if home.environment.name in ENVIRONMENTS else "shops"
