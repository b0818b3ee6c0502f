"""Long tasks: 8 to 25 calls over 3 to 6 services, composed of steps whose values are arguments of later ones.

To compose a task is to solve it: every step makes its calls on fresh services, reads the responses, and says in a
sentence what it did. So the solution, the answer and what must be left behind come from the run itself. A text says all
that its solution needs, and no value that a call gives. The same seed makes the same tasks on every machine: what is
drawn, is drawn by a hash.

Two thirds are chains: the calls can be planned from the text alone. A third (``decide-…``) needs a decision on a value
that the text does not foretell: at least one branch or loop, and another choice, branch or loop.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

import benchmarks.environments.long.decisions
import benchmarks.environments.long.writes  # noqa: F401 - their steps are in STEPS
from atc.calls.json_values import canonical
from atc.errors import ToolError
from atc.result import Effect
from atc.tools.tool import Toolset
from benchmarks.environments.base import GoldCall
from benchmarks.environments.long.services import ROOMS, SERVICES, World, open_world
from benchmarks.environments.long.steps import STEPS, Json, NotFitting, Solver, Step, Value

SEED = "2026-11"
CHAINS, DECISIONS = 48, 24
CALLS = range(8, 26)
LEAST_SERVICES, MOST_SERVICES = 3, 6
LEAST_DEPTH = 3
"""Steps of which each takes a value of the one before."""
OFFERED, MOST_TOOLS = 20, 14
"""Tools that a task offers, and those of them that its solution calls at most: the others are look-alikes."""
MOST_SOURCES = 3
"""Steps of a task that start from its text alone; all others go on from a value."""
MOST_TRIES = 400
MOST_KEYS = 4
OPENERS = ("Then ", "Next, ", "After that, ")


@dataclass(frozen=True)
class LongTask:
    """A composed task.

    Attributes:
        id: ``chain-NN`` or ``decide-NN``.
        tools: the names of the tools that are offered: those of the solution, and look-alikes.
        calls: of the solution.
        answer: what the solution answers.
        left: what the services hold after it.
        services: whose tools the solution calls.
        steps: the names of its steps, in their order.
        decides: what the text does not foretell: ``choice``, ``if``, ``loop``; empty in a chain.
    """

    id: str
    text: str
    tools: tuple[str, ...]
    calls: tuple[GoldCall, ...]
    answer: Any
    left: Json
    services: frozenset[str]
    steps: tuple[str, ...]
    decides: tuple[str, ...]


def compose(
    seed: str = SEED,
    chains: int = CHAINS,
    decisions: int = DECISIONS,
    services: Sequence[str] = SERVICES,
    least_services: int = LEAST_SERVICES,
) -> list[LongTask]:
    """Compose a set of tasks, no two of the same steps.

    Args:
        services: whose steps are taken; see :data:`benchmarks.environments.long.services.BUNDLED`.
        least_services: that a task must use.

    Raises:
        EnvironmentProblem: a package is missing.
        RuntimeError: the steps give no more tasks.
    """
    made: list[LongTask] = []
    with start_blocking_portal() as portal:
        spare = open_world(services)
        for kind, count in (("chain", chains), ("decide", decisions)):
            used: Counter[str] = Counter()
            for number in range(count):
                task = _composed(f"{kind}-{number:02}", seed, portal, spare, services, least_services, used, made)
                made.append(task)
                used.update(task.steps)
    return made


def _composed(
    id_: str,
    seed: str,
    portal: BlockingPortal,
    spare: World,
    services: Sequence[str],
    least_services: int,
    used: Counter[str],
    made: Sequence[LongTask],
) -> LongTask:
    known = {frozenset(task.steps) for task in made}
    for attempt in range(MOST_TRIES):
        task = _Attempt(id_, f"{seed}/{id_}/{attempt}", portal, spare, services, used).task(least_services)
        if task is not None and frozenset(task.steps) not in known:
            return task
    raise RuntimeError(f"{id_}: {MOST_TRIES} attempts gave no task")


class _Attempt:
    """One attempt to compose a task."""

    def __init__(
        self,
        id_: str,
        seed: str,
        portal: BlockingPortal,
        spare: World,
        services: Sequence[str],
        used: Counter[str],
    ) -> None:
        self.id, self.seed, self.used, self.portal = id_, seed, used, portal
        self.spare, self.services = spare, services
        self.rooms: dict[tuple[str, ...], World] = {}
        self.decides = id_.startswith("decide")
        self.calls: list[GoldCall] = []
        self.branches: set[str] = set()
        self.answers: dict[tuple[str, str], Any] = {}
        self.values: list[Value] = []
        self.found: list[Sequence[Value]] = []
        self.taken: list[Value] = []
        self.depths: dict[str, int] = {}
        """Of each value: how many steps lead to it, one from the other."""
        self.depth = 0
        self.steps: list[Step] = []
        self.sentences: list[str] = []
        self.asked = 9 + self._hash("length") % 10
        """Calls after which no other step is begun."""
        self.sources = 2 + self._hash("sources") % (MOST_SOURCES - 1)

    def task(self, least_services: int) -> LongTask | None:
        while len(self.calls) < self.asked or not self._whole(least_services):
            if not any(self._tried(step) for step in self._candidates()):
                return None
        names = tuple(step.name for step in self.steps)
        decides = tuple(step.decides for step in self.steps if step.decides)
        before = self.spare.state()
        left = before | {name: value for world in self.rooms.values() for name, value in world.state().items()}
        if left == before:
            return None
        answer, asked = self._answer()
        return LongTask(
            self.id,
            f"{self._text()} {asked}",
            self._offered(),
            tuple(self.calls),
            answer,
            left,
            self._services(),
            names,
            decides,
        )

    # Which step

    def _candidates(self) -> Iterator[Step]:
        """The steps that fit now: first what starts from the text, then what goes on from a value, the rare before."""
        groups = {step.group for step in self.steps}
        looked_up = sum(not step.needs for step in self.steps)

        def rank(step: Step) -> tuple[Any, ...]:
            early = looked_up < self.sources
            undecided = not early and self.decides and self._wants_decision() and not step.decides
            return undecided, bool(step.needs) is early, self.used[step.name], self._hash(step.name)

        for step in sorted(STEPS.values(), key=rank):
            if step.group in groups or (step.decides and not self.decides):
                continue
            if step.needs or looked_up < MOST_SOURCES:
                yield step

    def _wants_decision(self) -> bool:
        found = [step.decides for step in self.steps if step.decides]
        return len(found) < 2 or not {"if", "loop"} & set(found)

    def _tried(self, step: Step) -> bool:
        """Take a step, if what it needs is there and it stays within the bounds; else leave all as it was."""
        given = self._given(step)
        if given is None:
            return False
        calls = len(self.calls)
        try:
            told = step.run(Solver(self._call, self._look, f"{self.seed}/{step.name}"), *given)
        except (NotFitting, ToolError):
            told = None
        if told is None or not self._fits(told.branches):
            self._put_back(calls)
            return False
        self.steps.append(step)
        depth = 1 + max((self.depths[value.key] for value in given), default=0)
        self.depth = max(self.depth, depth)
        self.depths |= {value.key: depth for value in told.values}
        self.taken += given
        self.values += told.values
        self.found.append(told.values)
        self.sentences.append(told.text)
        self.branches.update(told.branches)
        return True

    def _fits(self, branches: Sequence[str]) -> bool:
        tools = {tool for tool, _ in self.calls}.union(self.branches, branches)
        return len(self.calls) <= CALLS[-1] and len(self._services()) <= MOST_SERVICES and len(tools) <= MOST_TOOLS

    def _given(self, step: Step) -> list[Value] | None:
        given: list[Value] = []
        for kinds in step.needs:
            fitting = [value for value in self.values if value.kind in kinds and value not in given]
            if not fitting:
                return None
            newest = {value.key: number for number, value in enumerate(self.values)}
            given.append(min(fitting, key=lambda value: (value in self.taken, -newest[value.key])))
        return given

    # What the run needs

    def _call(self, tool: str, arguments: Json) -> Any:
        """Make a call of the solution; one that has been made is not made again, unless its service has changed."""
        key = tool, canonical(arguments)
        if key in self.answers:
            return self.answers[key]
        if tool not in self.spare.tools:
            raise NotFitting(f"no service has {tool}")
        self.calls.append((tool, arguments))
        answer = self._made(tool, arguments)
        if self._writes(tool):
            changed = f"{tool.partition('_')[0]}_"
            self.answers = {known: kept for known, kept in self.answers.items() if not known[0].startswith(changed)}
        else:
            self.answers[key] = answer
        return answer

    def _made(self, tool: str, arguments: Json) -> Any:
        room = next(room for room in ROOMS if tool.partition("_")[0] in room)
        if room not in self.rooms:
            self.rooms[room] = open_world(set(room) & set(self.services))
        return _made(self.portal, self.rooms[room].tools, tool, arguments)

    def _writes(self, tool: str) -> bool:
        return self.spare.tools[tool].protocol.effect is Effect.WRITE

    def _look(self, tool: str, arguments: Json) -> Any:
        return _made(self.portal, self.spare.tools, tool, arguments)

    def _put_back(self, number: int) -> None:
        forgotten = self.calls[number:]
        del self.calls[number:]
        self.answers.clear()
        if any(self._writes(tool) for tool, _ in forgotten):
            self.rooms.clear()
            for tool, arguments in self.calls:
                self._made(tool, arguments)

    # What becomes of it

    def _services(self) -> frozenset[str]:
        return frozenset(tool.partition("_")[0] for tool, _ in self.calls)

    def _whole(self, least_services: int) -> bool:
        if len(self.calls) not in CALLS or len(self._services()) < least_services:
            return False
        if self.depth < LEAST_DEPTH or len(self._unused()) > MOST_KEYS:
            return False
        return any(self._writes(tool) for tool, _ in self.calls) and not (self.decides and self._wants_decision())

    def _text(self) -> str:
        openers = ["First, ", *(OPENERS[self._hash(f"opener {n}") % len(OPENERS)] for n in range(len(self.sentences)))]
        return "\n".join(f"{opener}{text}" for opener, text in zip(openers, self.sentences, strict=False))

    def _answer(self) -> tuple[Any, str]:
        """What is asked for at the end: a value of each step whose values no other step took, else the last value."""
        named = [values[-1] for values in self._unused()] or self._sayable(self.values)[-1:]
        if len(named) == 1:
            return named[0].value, f"\nAnswer with {named[0].exact}, and nothing else."
        keys = [f'"{value.key}" ({value.exact})' for value in named]
        listed = f"{', '.join(keys[:-1])} and {keys[-1]}"
        return {value.key: value.value for value in named}, f"\nAnswer with an object with the keys {listed}."

    def _unused(self) -> list[list[Value]]:
        mine = [self._sayable(values) for values in self.found if values and not any(v in self.taken for v in values)]
        return [values for values in mine if values]

    @staticmethod
    def _sayable(values: Sequence[Value]) -> list[Value]:
        return [value for value in values if value.kind not in ("place", "country")]

    def _offered(self) -> tuple[str, ...]:
        """The tools of all branches of the solution, and look-alikes: most of its services, in no telling order."""
        needed = {tool for tool, _ in self.calls} | self.branches
        services = self._services()
        others = sorted(self.spare.tools.keys() - needed, key=self._hash)
        near = [name for name in others if name.partition("_")[0] in services]
        far = [name for name in others if name.partition("_")[0] not in services]
        room = max(0, OFFERED - len(needed))
        chosen = [*near[: room - room // 4], *far[: room // 4]]
        chosen += [name for name in near if name not in chosen][: room - len(chosen)]
        return tuple(sorted({*needed, *chosen}, key=self._hash))

    def _hash(self, what: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{self.seed}/{what}".encode()).digest()[:6])


def _made(portal: BlockingPortal, tools: Toolset, tool: str, arguments: Json) -> Any:
    if tool not in tools:
        raise NotFitting(f"no service has {tool}")
    transport = tools[tool].transport
    assert transport is not None, tool
    return portal.call(transport, dict(arguments))
