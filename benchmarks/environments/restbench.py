"""RestBench (Song et al. 2023, RestGPT, MIT): 75 of its tasks over TMDB and Spotify, judged by the path alone.

There is no outcome to check: the real services change from day to day, and their answers are not recorded. A task is
solved when every tool of its own solution was called, and answered, as often as the solution calls it, in any order and
with any arguments, and there was some answer. What is worth reporting are the paper's Path% and Prec%
(:attr:`Episode.path`, :attr:`Episode.precision`), which are over calls.

The setting is that of ATC §5: 20 candidate tools a task, which are the needed ones and others drawn at random. The data
names the authors' own draw; where it does not, a hash of the task's id draws. Protocols come out of the real OpenAPI
documents through :meth:`Toolset.from_openapi`; answers come from :mod:`benchmarks.environments.restbench_service`.

The documents are whole, as an import gives them. Rows of judge 1 are of shorter ones, with at most 700 characters of a
response and 80 of an optional argument: right programs looked wrong there. What is changed of the documents, so that
they can be called as described and answer as they say:

* A response is described by the fields that are in the recorded example (of Spotify, which has none: that are
  documented); what all have is required.
* Examples and statuses are left out: the schema says it, and an answer never has these statuses.
* Spotify's document writes truth values and numbers as text, and asks for a field of a body that it does not describe,
  or for a body that repeats the query. Such are read as they are meant.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

from atc.errors import EnvironmentProblem, ToolError, UsageError
from atc.schemas.protocol import JsonSchema, Protocol
from atc.schemas.validate import types_of
from atc.tools.tool import Tool, Toolset
from benchmarks.environments.base import DataFolder, Environment, Episode, Gold, GoldCall, Task, served
from benchmarks.environments.restbench_schemas import held_to, made, plain
from benchmarks.environments.restbench_service import EITHER, Operation, Simulator

Json = dict[str, Any]

CANDIDATES = 20
"""How many tools a task offers, as in ATC §5, where the service has so many."""
ANY_ANSWER = "done"
BEYOND = frozenset({"tmdb:93", "spotify:115", "spotify:121", "spotify:149"})
"""Tasks whose solution needs what no offered tool tells, or calls what nobody asked for."""
_METHODS = ("get", "put", "post", "delete", "patch")


class PathEnvironment(Environment):
    """Tasks of which only the tools of the solution are known.

    Subclasses read :attr:`operations` and :attr:`records`; see :meth:`Episode.check` for what counts as solved.
    """

    operations: Mapping[str, Mapping[str, Operation]]
    """By service and by the names that programs call them by, in the documents' order."""
    today: date | None = None

    def service(self, task: str) -> str:
        """The service of a task."""
        raise NotImplementedError

    def needed(self, task: str) -> list[str]:
        """The tools of a task's solution in the order of their first use, each as often as the solution calls it."""
        raise NotImplementedError

    def open(self, task: Task) -> Episode:
        simulator = Simulator(task.text, self.today)
        operations = self.operations[self.service(task.id)]
        needed = Counter(self.needed(task.id))

        def judge(value: Any) -> bool:
            return value is not None and needed <= episode.answered

        tools = Toolset(_tool(operations[name], simulator) for name in task.tools)
        episode = Episode(tools, judge, self._calls(task.id))
        return episode

    def simulated(self, service: str) -> Toolset:
        """All tools of a service, answered as in a task of which nothing is known; what names a thing is any thing."""
        simulator = Simulator(today=self.today)
        return Toolset(_tool(operation, simulator) for operation in self.operations[service].values())

    def gold(self, task: Task) -> Gold | None:
        """The solution's calls, with arguments of the right types; ``None`` if one is refused."""
        calls = self._calls(task.id)
        for name, arguments in calls:
            try:
                Simulator(today=self.today).answer(self.operations[self.service(task.id)][name], arguments)
            except ToolError:
                return None
        return Gold(calls, ANY_ANSWER, judged=False)

    def _calls(self, task: str) -> tuple[GoldCall, ...]:
        operations = self.operations[self.service(task)]
        return tuple((name, sample_arguments(operations[name].protocol)) for name in self.needed(task))

    def _offered(self, task: str, listed: Iterable[str]) -> tuple[str, ...]:
        """They stand in the documents' order: where a tool stands says nothing."""
        operations, needed, named = self.operations[self.service(task)], set(self.needed(task)), set(listed)
        others = [name for name in operations if name not in needed]
        others.sort(key=lambda name: (name not in named, _draw(task, name)))
        chosen = needed.union(others[: max(CANDIDATES, len(named)) - len(needed)])
        return tuple(name for name in operations if name in chosen)


class RestBench(PathEnvironment):
    """The tasks of RestBench.

    Args:
        data: the directory with ``restbench``.
    """

    name = "restbench"

    def __init__(self, data: Path | None) -> None:
        self._data = DataFolder(data, self.name, "restbench")

    @cached_property
    def records(self) -> dict[str, Json]:
        """The tasks as the data has them, by id."""
        return {record["id"]: record for record in self._data.lines("tasks.jsonl.gz")}

    @cached_property
    def operations(self) -> dict[str, dict[str, Operation]]:  # type: ignore[override]
        return {name: read_operations(self._data, name) for name in ("tmdb", "spotify")}

    def tasks(self) -> list[Task]:
        return [
            Task(id, record["query"], self._offered(id, self._listed(record)), id not in BEYOND)
            for id, record in self.records.items()
        ]

    def service(self, task: str) -> str:
        return str(self.records[task]["dataset"])

    def needed(self, task: str) -> list[str]:
        known = self._labels[self.service(task)]
        steps = [_label(step) for step in self.records[task]["solution"]]
        if missing := [step for step in steps if step not in known]:
            raise EnvironmentProblem(
                f"restbench: {self.service(task)}_oas.json.gz has no {missing[0]} of the task {task}"
            )
        return [known[step] for step in steps]

    @cached_property
    def _labels(self) -> dict[str, dict[str, str]]:
        return {service: labelled(operations.values()) for service, operations in self.operations.items()}

    def _listed(self, record: Json) -> list[str]:
        """The authors' candidates; they are written as the corpus of tools has them: ``GET_movie_movie_id``."""
        known = {_words(label): name for label, name in self._labels[record["dataset"]].items()}
        listed = (_words(name.rsplit("/", 1)[-1]) for name in record.get("autotools_candidates") or ())
        return [known[words] for words in listed if words in known]


# Operations of an OpenAPI document ----------------------------------------------------------------------------------


def read_operations(data: DataFolder, service: str) -> dict[str, Operation]:
    """The operations of ``<service>_oas.json.gz`` by their tools' names.

    Raises:
        EnvironmentProblem: the document cannot be read.
    """
    document = _typed(data.document(f"{service}_oas.json.gz"))
    try:
        tools = Toolset.from_openapi(document)
        raw = {
            operation.get("operationId", f"{method.upper()} {path}"): (method.upper(), path, operation)
            for path, item in document["paths"].items()
            for method, operation in item.items()
            if method in _METHODS
        }
    except (UsageError, AttributeError, LookupError, TypeError) as error:
        raise EnvironmentProblem(f"{data.name}: {service}_oas.json.gz is no OpenAPI document: {error}") from None
    found = {}
    for tool in tools.values():
        method, path, operation = raw[tool.protocol.source.operation]
        source = tool.protocol.source.model_copy(update={"location": service, "operation": f"{method} {path}"})
        protocol = tool.protocol.model_copy(
            update={"parameters": _repaired(tool.protocol.parameters), "source": source}
        )
        found[tool.name] = operation_of(protocol, service, path, _recorded(operation))
    return found


def operation_of(protocol: Protocol, service: str, path: str, recorded: Any = None) -> Operation:
    """An operation out of an imported protocol.

    Args:
        protocol: with the whole schema of its response.
        service: whose it is.
        path: with parameters in braces.
        recorded: a response of the real service.
    """
    response = plain(protocol.returns, protocol.returns) if protocol.returns is not None else None
    if response is not None and types_of(response) != {"null"}:
        partly = "enum" in protocol.parameters["properties"].get("type", {}).get("items", {})  # of several sections
        values = [made(response, protocol.name) if recorded is None else recorded, *([{}] if partly else [])]
        response = held_to(response, values)
    shown = protocol.model_copy(update={"examples": (), "statuses": (), "returns": response})
    if response is None or types_of(response) == {"null"}:
        return Operation(shown, service, path, None)
    return Operation(shown, service, path, response, recorded)


def as_told(protocol: Protocol) -> Protocol:
    """A probed document as the true ones are: how the tool was called stays, what it answered does not."""
    examples = tuple(example.model_copy(update={"response": None}) for example in protocol.examples[:1])
    returns = plain(protocol.returns, protocol.returns) if protocol.returns else protocol.returns
    return protocol.model_copy(update={"examples": examples, "statuses": (), "returns": returns})


def labelled(operations: Iterable[Operation]) -> dict[str, str]:
    """The names of tools by method and path."""
    return {operation.protocol.source.operation: operation.protocol.name for operation in operations}


def _tool(operation: Operation, simulator: Simulator) -> Tool:
    return served(operation.protocol, lambda arguments: simulator.answer(operation, arguments))


def _recorded(operation: Json) -> Any:
    content = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
    examples = content.get("examples", {})
    return next((example["value"] for example in examples.values() if "value" in example), None)


def _typed(value: Any) -> Any:
    """A document with truth values and numbers in place of their texts, where OpenAPI wants such."""
    if isinstance(value, list):
        return [_typed(part) for part in value]
    if not isinstance(value, dict):
        return value
    made = {key: _typed(part) for key, part in value.items()}
    for key in ("required", "nullable"):
        if made.get(key) in ("true", "false"):
            made[key] = made[key] == "true"
    for key in ("minimum", "maximum", "default"):
        if made.get("type") == "integer" and re.fullmatch(r"-?\d{1,9}", str(made.get(key))):
            made[key] = int(made[key])
    return made


def _repaired(parameters: JsonSchema) -> JsonSchema:
    """Arguments whose bodies ask for nothing that they do not describe, and are no must where a query says the same."""
    properties = dict(parameters["properties"])
    required = list(parameters.get("required", ()))
    body = properties.get("body", {})
    if isinstance(body.get("properties"), dict):
        wanted = [name for name in body.get("required", ()) if name in body["properties"]]
        properties["body"] = {**body, "required": wanted}
        if "body" in required and any(set(pair) <= properties.keys() for pair in EITHER):
            required.remove("body")
    return {**parameters, "properties": properties, "required": required}


def _label(step: str) -> str:
    return " ".join(step.split())


def _words(text: str) -> str:
    return "_".join(re.findall(r"[A-Za-z0-9]+", text))


def _draw(task: str, tool: str) -> str:
    return hashlib.sha256(f"{task}/{tool}".encode()).hexdigest()


# Arguments of a solution --------------------------------------------------------------------------------------------


def sample_arguments(protocol: Protocol) -> Json:
    """Arguments of the documented types, as few as a call needs."""
    properties = protocol.parameters["properties"]
    names: Sequence[str] = protocol.required
    either = [pair[0] for pair in EITHER if set(pair) <= properties.keys() and not set(pair) & set(names)]
    return {name: _sample(name, properties[name]) for name in (*names, *either)}


def _sample(name: str, schema: JsonSchema) -> Any:
    kinds = types_of(schema)
    for value in (*schema.get("enum", ()), *schema.get("examples", ())):
        if "integer" in kinds and re.fullmatch(r"\d{1,9}", str(value)):
            return int(value)
        if "string" in kinds and isinstance(value, str):
            return value
    if "array" in kinds:
        return [_sample(name, schema.get("items", {"type": "string"}))]
    if "object" in kinds:
        return {key: _sample(key, part) for key, part in schema.get("properties", {}).items()}
    return "2023-01-01" if name == "date" else "1" if "string" in kinds else 1
