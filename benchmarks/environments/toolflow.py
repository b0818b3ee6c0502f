"""ToolFlow (Shi et al. 2024, AutoTools, Apache-2.0): 39 of its tasks over four services, judged by the path alone.

The services are TMDB, Genius (music), Spoonacular (food) and Meteosource (weather). What is judged, and what is changed
of the documents, is as in :mod:`benchmarks.environments.restbench`; TMDB's protocols are the same ones. Those of the
others come from their documented parameters and their recorded examples: what is in an example is the response.

A task offers the authors' own candidates (20 of TMDB and music, all 22 of food, all 11 of weather) with what they
forgot. Tasks that ask for the weather are told the day, as a forecast needs one: answers begin with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

from atc.errors import EnvironmentProblem
from atc.result import Effect
from atc.schemas.infer.shape import Shape
from atc.schemas.names import tool_name
from atc.schemas.protocol import JsonSchema, Protocol, Provenance, Source
from benchmarks.environments.base import DataFolder, Task
from benchmarks.environments.restbench import PathEnvironment, labelled, operation_of, read_operations
from benchmarks.environments.restbench_service import Operation, counted
from benchmarks.probing.records import Endpoint, load

Json = dict[str, Any]

BEYOND = frozenset({"tmdb-27", "tmdb-38", "tmdb-43", "music-q24", "music-q28"})
"""Tasks whose solution calls what nobody asked for, or what a correct program calls after other answers only: of
``tmdb-27`` twenty calls where no answer lists more than fourteen things."""
TODAY = date(2024, 4, 16)
TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object"})
DATED = "weather"
"""The service whose tasks speak of today and tomorrow."""


class ToolFlow(PathEnvironment):
    """The tasks of ToolFlow.

    Args:
        data: the directory with ``restbench``.
    """

    name = "toolflow"
    today = TODAY

    def __init__(self, data: Path | None) -> None:
        self._data = DataFolder(data, self.name, "restbench")

    @cached_property
    def records(self) -> dict[str, Json]:
        """The tasks as the data has them, by service and number."""
        return {f"{r['dataset']}-{r['qid']}": r for r in self._data.lines("toolflow_tasks.jsonl.gz")}

    @cached_property
    def operations(self) -> dict[str, dict[str, Operation]]:  # type: ignore[override]
        found = {"tmdb": read_operations(self._data, "tmdb")}
        for service, endpoint, row in self._documented():
            operation = _operation(endpoint, row)
            found.setdefault(service, {})[operation.protocol.name] = operation
        return found

    def _documented(self) -> Iterator[tuple[str, Endpoint, Json]]:
        rows = {(row["dataset"], tool_name(row["name"])): row for row in self._rows}
        usable, _ = load(self._data.path.parent)
        for service, endpoints in usable.items():
            for endpoint in endpoints:
                row = rows.get((service, tool_name(endpoint.name)))
                if service in self._services - {"tmdb"} and row is not None:
                    yield service, endpoint, row

    @cached_property
    def _rows(self) -> list[Json]:
        return self._data.lines("endpoint_docs.jsonl.gz")

    @cached_property
    def _services(self) -> set[str]:
        return {record["dataset"] for record in self.records.values()}

    def tasks(self) -> list[Task]:
        return [
            Task(id, _text(record), self._offered(id, self._names(id, _listed(record))), id not in BEYOND)
            for id, record in self.records.items()
        ]

    def service(self, task: str) -> str:
        return str(self.records[task]["dataset"])

    def needed(self, task: str) -> list[str]:
        steps = [(step, 1) if isinstance(step, str) else step for step in self.records[task]["solution"]]
        return self._names(task, [name for name, times in steps for _ in range(times)])

    def _names(self, task: str, names: list[str]) -> list[str]:
        known = self._known.get(self.service(task), {})
        missing = [name for name in names if name not in known]
        if missing:
            raise EnvironmentProblem(f"toolflow: endpoint_docs.jsonl.gz documents no {missing[0]} of the task {task}")
        return [known[name] for name in names]

    @cached_property
    def _known(self) -> dict[str, dict[str, str]]:
        known: dict[str, dict[str, str]] = {}
        labels = labelled(self.operations["tmdb"].values())
        for row in self._rows:
            service, name = row["dataset"], tool_name(row["name"])
            if service == "tmdb":
                name = labels.get(f"{row['method']} {row['url'].removeprefix(row['servers'][0]['url'])}", "")
            if name in self.operations.get(service, {}):
                known.setdefault(service, {})[row["name"]] = name
        return known


def _text(record: Json) -> str:
    date = f" Today is {TODAY:%A}, {TODAY}." if record["dataset"] == DATED else ""
    return f"{record['query'].strip()}{date}"


def _listed(record: Json) -> list[str]:
    """The names of a task's candidates, which are listed in three ways."""
    return [name if isinstance(name, str) else name["api_name"] for name in record["api_list"]]


def _operation(endpoint: Endpoint, row: Json) -> Operation:
    recorded = counted(_signed(endpoint.answer))
    shape = Shape()
    shape.add(recorded)
    protocol = Protocol(
        name=tool_name(row["name"]),
        description=row["description"],
        parameters=_parameters(endpoint, row),
        returns=shape.schema(),
        effect=Effect.READ,
        provenance=Provenance.IMPORTED,
        source=Source(location=endpoint.service, operation=f"GET {endpoint.path}"),
    )
    return operation_of(protocol, endpoint.service, endpoint.path, recorded)


def _signed(answer: Any) -> Any:
    """An answer in which everything has an author: tasks ask who wrote the latest comment."""
    for part in answer.values() if isinstance(answer, dict) else ():
        items = [item for item in part if isinstance(item, dict)] if isinstance(part, list) else []
        author = next((item["author"] for item in items if item.get("author")), None)
        for item in items:
            if author and item.get("author", author) is None:
                item |= (
                    {"author": author, "anonymous_author": None} if "anonymous_author" in item else {"author": author}
                )
    return answer


def _parameters(endpoint: Endpoint, row: Json) -> JsonSchema:
    written = {raw["name"]: raw for raw in row.get("parameters") or ()}
    properties = {}
    for parameter in endpoint.parameters:
        schema: JsonSchema = {"type": parameter.type} if parameter.type in TYPES else {}
        if about := str(written.get(parameter.name, {}).get("description", "")).strip():
            schema["description"] = about
        if parameter.members:
            schema["enum"] = list(parameter.members)
        if parameter.default is not None:  # of one that must be given it is an example
            schema |= {"examples": [parameter.default]} if parameter.required else {"default": parameter.default}
        properties[parameter.name] = schema
    required = [parameter.name for parameter in endpoint.parameters if parameter.required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
