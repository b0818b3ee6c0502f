"""The services of a world: the tools of all environments under one set of names, and tools that nothing needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from atc.calls.json_values import canonical
from atc.errors import ToolError
from atc.result import Effect
from atc.schemas.protocol import Example, Protocol, Source
from atc.tools.openapi.importer import read_openapi
from atc.tools.tool import Transport
from benchmarks.documents.openapi_import import documents
from benchmarks.environments import Environment, Episode, Gold, Task, open_environment
from benchmarks.environments.bfcl import Bfcl
from benchmarks.environments.shops import environments as shops
from benchmarks.tasks.read_tasks import in_part

NO_DATA = ("atlas", "shops")
"""Environments that need no data; the shops are four services."""
WITH_DATA = ("api_bank", "bfcl", "complexfuncbench", "comptoolbench", "restbench", "toolflow", "workbench")
OF_A_DOCUMENT = 12
"""Distractors of one document at most."""


@dataclass(frozen=True)
class Home:
    """An environment in a world.

    Attributes:
        environment: it.
        tasks: those that state all that their solution needs, have an executable solution, and are not sealed.
        golds: their solutions, by the tasks' ids.
        protocols: of all tools of these tasks by the environment's own names, at their services.
        examples: of each tool those that differ by the task, which a protocol does not show.
        holders: for each tool a task whose episode has it.
        names: of the tools in the catalogue, by their own ones.
    """

    environment: Environment
    tasks: Sequence[Task]
    golds: Mapping[str, Gold]
    protocols: Mapping[str, Protocol]
    examples: Mapping[str, Sequence[Example]]
    holders: Mapping[str, Task]
    names: dict[str, str] = field(default_factory=dict)

    def is_public(self, tool: str) -> bool:
        """Tell whether what a read gives is the same for everybody: nothing that it reads can be written.

        Args:
            tool: its name in the catalogue.
        """
        own = self.own_names[tool]
        if self.environment.name == "atlas":
            return not own.endswith(("_trip", "_trips"))
        return self.protocols[own].source.service not in self._written

    @cached_property
    def _written(self) -> frozenset[str]:
        return frozenset(each.source.service for each in self.protocols.values() if each.effect is not Effect.READ)

    @cached_property
    def own_names(self) -> Mapping[str, str]:
        """The environment's names by those of the catalogue."""
        return {name: own for own, name in self.names.items()}


@cache
def homes(data: Path | None, names: Sequence[str]) -> tuple[Home, ...]:
    """The environments of a world, their tools named: the same name in two of them has the environment in front.

    A tool of one service that two environments have is one tool.
    """
    return tuple(named([_home(environment) for name in names for environment in _opened(name, data)]))


def named(some: Sequence[Home]) -> Sequence[Home]:
    """Give the tools of environments their names in the catalogue."""
    shared: dict[str, set[str]] = {}
    for home in some:
        for name, protocol in home.protocols.items():
            shared.setdefault(name, set()).add(_same(protocol))
    for home in some:
        for name in home.protocols:
            home.names[name] = name if len(shared[name]) == 1 else f"{home.environment.name}_{name}"
    return some


def _opened(name: str, data: Path | None) -> list[Environment]:
    return shops() if name == "shops" else [open_environment(name, data)]


def _home(environment: Environment) -> Home:
    tasks, golds = [], {}
    for task in environment.tasks():
        if task.stated and in_part(environment.name, task.id, "open"):
            gold = environment.gold(task)
            if gold is not None and gold.calls:
                tasks.append(task)
                golds[task.id] = _with_look_ups(environment, task, gold)
    protocols: dict[str, Protocol] = {}
    examples: dict[str, dict[str, Example]] = {}
    holders: dict[str, Task] = {}
    for task in tasks:
        for protocol in environment.open(task).tools.protocols:
            holders.setdefault(protocol.name, task)
            protocols.setdefault(protocol.name, _at_service(environment, protocol))
            found = examples.setdefault(protocol.name, {})
            found |= {canonical(each.model_dump(mode="json")): each for each in protocol.examples}
    several = {name: tuple(found.values()) for name, found in examples.items() if len(found) > 1}
    protocols |= {name: protocols[name].model_copy(update={"examples": ()}) for name in several}
    return Home(environment, tasks, golds, protocols, several, holders)


def _with_look_ups(environment: Environment, task: Task, gold: Gold) -> Gold:
    """A solution that asks for the addresses of people whom the task names; WorkBench's just have them."""
    if environment.name != "workbench":
        return gold
    addresses = {value for _, arguments in gold.calls for value in arguments.values() if "@" in str(value)}
    names = {address.partition(".")[0] for address in addresses if address not in task.text}
    calls = [("company_directory_find_email_address", {"name": name}) for name in sorted(names)]
    known = [*gold.calls]
    return replace(gold, calls=(*(call for call in calls if call not in known), *known))


def _at_service(environment: Environment, protocol: Protocol) -> Protocol:
    """The protocol as an importer of OpenAPI documents gives it: at a service that has an address."""
    source = protocol.source
    if source.kind != "openapi":
        service, title = _service(environment, source)
        source = Source(kind="openapi", location=f"https://{service}.example", operation=source.operation, title=title)
    return protocol.model_copy(update={"source": source})


def _service(environment: Environment, source: Source) -> tuple[str, str]:
    if isinstance(environment, Bfcl):  # a class is a service: it has its own logins and numbers
        group = environment.documents[source.operation]["group"]
        return group.lower().replace("_", "-"), group
    if environment.name == "workbench":
        domain = source.operation.partition(".")[0]
        return domain.replace("_", "-"), domain.replace("_", " ").title()
    if environment.name == "complexfuncbench":
        return "booking", "Booking"
    if environment.name == "toolflow":
        return source.location, source.location.title()
    return environment.name.replace("_", "-"), environment.name.replace("_", " ").title()


def _same(protocol: Protocol) -> str:
    """Equal for what is the same tool."""
    return canonical(protocol.model_dump(mode="json", exclude={"examples"}))


def with_examples(home: Home, asked: Iterable[Task]) -> dict[str, Protocol]:
    """The protocols of an environment by their names in the catalogue.

    Of examples that differ by the task, the first that is no call of a solution of these tasks is shown.
    """
    calls = {
        (tool, canonical(arguments)) for task in asked for tool, arguments in home.golds[task.id].calls
    }  # the right call of a task is not given away
    made = {}
    for own, protocol in home.protocols.items():
        free = [each for each in home.examples.get(own, ()) if (own, canonical(each.arguments)) not in calls]
        changed: dict[str, Any] = {"name": home.names[own]} | ({"examples": (free[0],)} if free else {})
        made[home.names[own]] = protocol.model_copy(update=changed)
    return made


# Transports ---------------------------------------------------------------------------------------------------------


@dataclass
class Rooms:
    """The episodes of one step: that of its task, and those that tools of others work on, opened when called."""

    home: Home
    task: Task
    opened: dict[tuple[str, str], Episode] = field(default_factory=dict)

    def episode(self, home: Home, task: Task) -> Episode:
        key = home.environment.name, task.id
        if key not in self.opened:
            self.opened[key] = home.environment.open(task)
        return self.opened[key]

    def transport(self, homes: Sequence[Home], name: str) -> Transport:
        """How a tool of the catalogue is called: that of the task itself, where its episode has it."""
        having = [home for home in homes if name in home.own_names]
        if self.home in having:
            episode = self.episode(self.home, self.task)
            if (tool := episode.tools.get(self.home.own_names[name])) is not None and tool.transport is not None:
                return tool.transport
            return Elsewhere(self, self.home, self.home.own_names[name])
        return Elsewhere(self, having[0], having[0].own_names[name])


@dataclass(frozen=True)
class Elsewhere:
    """The transport of a tool that works on an episode of its own, opened by the first call."""

    rooms: Rooms
    home: Home
    tool: str

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        transport = self.rooms.episode(self.home, self.home.holders[self.tool]).tools[self.tool].transport
        assert transport is not None  # an episode has no others
        return await transport(arguments)

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        return None


@dataclass(frozen=True)
class Refusing:
    """The transport of a service for which there is no key."""

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        """Refuse.

        Raises:
            ToolError: always.
        """
        raise ToolError("401 Unauthorized: no key was sent", status=401, cause="credential")

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        return None


# Distractors --------------------------------------------------------------------------------------------------------


@cache
def distractors(data: Path | None, most: int, seed: int) -> tuple[Protocol, ...]:
    """Tools of real services' documents, a few of each; which, the seed draws. Without data there are none."""
    if data is None or most < 1:
        return ()
    found = sorted(
        ((name, document) for name, document in documents(data) if not name.startswith("restbench/")),
        key=lambda pair: _draw(seed, pair[0]),
    )
    made = list[Protocol]()
    for each in _few_of_each(found, seed):
        made.append(each)
        if len(made) == most:
            break
    return tuple(made)


def _few_of_each(found: Iterable[tuple[str, dict[str, Any]]], seed: int) -> Iterator[Protocol]:
    counts: Counter[str] = Counter()
    for name, document in found:
        imported = read_openapi(document, strict=False)
        for protocol in sorted(imported.toolset.protocols, key=lambda each: _draw(seed, f"{name}/{each.name}")):
            if counts[name] < OF_A_DOCUMENT:
                counts[name] += 1
                yield protocol


def _draw(seed: int, text: str) -> str:
    return sha256(f"{seed}/{text}".encode()).hexdigest()
