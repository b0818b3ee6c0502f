"""ComplexFuncBench (Zhong et al. 2025, Apache-2.0): 487 of its tasks over 40 APIs of a travel agency, replayed.

The tasks, the tools and every call with its response come from the data directory. The data holds no final answers, so
an answer is not judged: a task is solved when all calls of its own solution were made and answered, in any order. No
tool changes anything.

The record is all there is of the service. A call answers as the task's own record has it, else as another task's has
it; records show different parts of one response, so of these the longest is taken. A call that nobody recorded finds
nothing. See :class:`Calls` for which calls count as the same.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from atc.result import Effect
from atc.schemas.infer.shape import Shape
from atc.tools.names import tool_name
from atc.tools.protocol import Example, JsonSchema, Protocol, Provenance, Source
from atc.tools.tool import Tool, Toolset
from benchmarks.environments.base import DataFolder, Environment, Episode, Gold, GoldCall, Task, served
from benchmarks.environments.complexfuncbench_service import Calls, Recorded, words

Json = dict[str, Any]

TOOLS = 8
"""How many tools are offered, as long as the solution does not need more."""
FIELDS = 30
"""How many fields of a response are described, the most telling ones: some responses have hundreds."""
MAX_LIST, MAX_TEXT = 2, 80
"""Of an example: items of a list, characters of a text."""

Path_ = tuple[str, ...]
_REFERENCE = re.compile(r"`/?(api/v1/\w+/\w+)`(\*\*\([^*]*\)\*\*)?( endpoints?)?( in \*\*\w+\*\* collection)?")
_WHEN = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d")


class ComplexFuncBench(Environment):
    """The tasks of ComplexFuncBench; :attr:`Gold.answer` is always ``None``: only the calls are judged.

    Args:
        data: the directory with ``executable/complexfuncbench``.
    """

    name = "complexfuncbench"

    def __init__(self, data: Path | None) -> None:
        self._data = DataFolder(data, self.name)
        self._shapes: dict[str, tuple[JsonSchema, list[Recorded]]] = {}

    @cached_property
    def records(self) -> dict[str, Json]:
        """The tasks as the data has them, by id."""
        return {record["id"]: record for record in self._data.lines("tasks.jsonl.gz")}

    @cached_property
    def documents(self) -> dict[str, Json]:
        """The tools as the data has them, by the names that programs call them by."""
        return {tool_name(tool["name"]): tool for tool in self._data.lines("tools.jsonl.gz")}

    @cached_property
    def parameters(self) -> dict[str, JsonSchema]:
        """The arguments of each tool."""
        paths = {tool["endpoint"].strip("/"): name for name, tool in self.documents.items()}
        return {name: _parameters(tool, paths) for name, tool in self.documents.items()}

    @cached_property
    def calls(self) -> Calls:
        """Every call of every solution."""
        steps = [(task["id"], step) for task in self.records.values() for step in task["gold"]]
        return Calls(
            self.parameters,
            [Recorded(task, tool_name(s["tool"]), s["resolved"], s["response"]) for task, s in steps],
        )

    def tasks(self) -> list[Task]:
        return [Task(id, r["query"], self._offered(r), self._stated(r)) for id, r in self.records.items()]

    def open(self, task: Task) -> Episode:
        tools = Toolset(self._tool(name, task.id) for name in task.tools)
        gold = self._gold(task.id)

        def judge(value: Any) -> bool:
            answered = [(call.tool, call.arguments) for call in episode.calls if call.done]
            return all(any(self.calls.same(wanted, made) for made in answered) for wanted in gold)

        episode = Episode(tools, judge, gold)
        return episode

    def gold(self, task: Task) -> Gold:
        return Gold(self._gold(task.id))

    def _gold(self, task: str) -> tuple[GoldCall, ...]:
        """The solution's calls, their arguments of the documented types."""
        steps = [(tool_name(step["tool"]), step["resolved"]) for step in self.records[task]["gold"]]
        return tuple((tool, self.calls.typed(tool, arguments)) for tool, arguments in steps)

    def _offered(self, record: Json) -> tuple[str, ...]:
        """The tools of the solution, and others of the same collections, in the documents' order."""
        needed = {tool_name(step["tool"]) for step in record["gold"]}
        collections = {_collection(self.documents[name]) for name in needed}
        others = [name for name in self.documents if name not in needed and self.calls.of(name)]
        others.sort(key=lambda name: (_collection(self.documents[name]) not in collections, _draw(record["id"], name)))
        chosen = needed.union(others[: max(0, TOOLS - len(needed))])
        return tuple(name for name in self.documents if name in chosen)

    def _tool(self, name: str, task: str) -> Tool:
        document, (returns, examples) = self.documents[name], self._shape(name)
        own = self._gold(task)
        example = next((e for e in examples if not any(self.calls.same(g, (name, e.arguments)) for g in own)), None)
        protocol = Protocol(
            name=name,
            description=document["description"],
            parameters=self.parameters[name],
            returns=returns,
            effect=Effect.READ,
            provenance=Provenance.IMPORTED,
            examples=(Example(arguments=example.arguments, response=example.response),) if example else (),
            source=Source(location=document["host"], operation=document["name"]),
        )
        return served(protocol, lambda arguments: self.calls.answer(task, name, arguments))

    def _shape(self, name: str) -> tuple[JsonSchema, list[Recorded]]:
        """The schema of a tool's responses as far as their telling fields go, and short responses as examples.

        The first examples have the most of these fields.
        """
        if name not in self._shapes:
            recorded, shape = self.calls.of(name), Shape()
            fields = _telling([call.response for call in recorded])
            for call in recorded:
                shape.add(_only(call.response, fields))
            fullest = sorted(recorded, key=lambda call: -len(fields & {path for path, _ in _places(call.response)}))
            short = [call.with_response(_cut(_only(call.response, fields))) for call in fullest]
            self._shapes[name] = shape.schema(), short
        return self._shapes[name]

    # What the text says ---------------------------------------------------------------------------------------------

    def _stated(self, record: Json) -> bool:
        """Tell whether every name and identifier of the solution is in the text or in what an earlier call returned.

        The records show parts of responses: what a later call takes is missing from some of them.
        """
        seen, known = record["query"], list[Any]([record["query"]])
        for step in record["gold"]:
            name = tool_name(step["tool"])
            if not all(self._had(name, argument, value, seen, known) for argument, value in step["resolved"].items()):
                return False
            seen += " " + " ".join(map(str, _leaves(step["response"])))
            known += _leaves(step["response"])
        return True

    def _had(self, tool: str, argument: str, value: Any, seen: str, known: list[Any]) -> bool:
        schema = self.parameters[tool]["properties"].get(argument)
        if schema is None or value in schema.get("enum", ()):
            return True
        if argument == "query":
            asked = words(value)
            return 2 * len(asked & words(seen)) >= max(1, len(asked))
        if not (schema["type"] == "array" or argument.endswith("tude") or "etrieved from" in schema["description"]):
            return True  # a date, a number of guests: said in other words
        leaves = [leaf for leaf in _leaves(value) if not _WHEN.fullmatch(str(leaf))]
        return all(
            any(self.calls.equal(argument, leaf, one) for one in known) or str(leaf).casefold() in known[0].casefold()
            for leaf in leaves
        )


def _collection(document: Json) -> str:
    collection: str = document["endpoint"].strip("/").split("/")[2]
    return collection


def _draw(task: str, tool: str) -> str:
    return hashlib.sha256(f"{task}/{tool}".encode()).hexdigest()


def _parameters(document: Json, paths: dict[str, str]) -> JsonSchema:
    """The schema of a tool's arguments; where a description names another tool's address it gets the tool's name."""

    def named(match: re.Match[str]) -> str:
        return f"`{paths[match[1]]}`" if match[1] in paths else match[0]

    properties = {}
    for name, about in document["parameters"].items():
        schema = {"type": about["type"], "description": _REFERENCE.sub(named, about["description"]).strip()}
        if about["enum"]:
            schema["enum"] = about["enum"]
        if about["type"] == "array":
            schema["items"] = {"type": "object"}
        properties[name] = schema
    required = [name for name, about in document["parameters"].items() if about["required"]]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


# Parts of a response ------------------------------------------------------------------------------------------------


def _leaves(value: Any) -> Iterator[Any]:
    """The values in a value that are neither objects nor lists."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)
    else:
        yield value


def _places(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, str]]:
    """The values in a value that are neither objects nor lists, with their fields, whatever their place in a list."""
    if isinstance(value, list):
        for item in value:
            yield from _places(item, path)
    elif isinstance(value, dict):
        for key, part in value.items():
            if not key.startswith("_"):  # "__typename" tells nothing to a caller
                yield from _places(part, (*path, key))
    else:
        yield path, str(value)


def _telling(responses: list[Any]) -> set[Path_]:
    """The fields that many responses have with many different values, and those that they are in."""
    counts: Counter[Path_] = Counter()
    values: dict[Path_, set[str]] = {}
    for response in responses:
        places = list(_places(response))
        counts.update({path for path, _ in places})
        for path, text in places:
            values.setdefault(path, set()).add(text)
    ranked = sorted(counts, key=lambda path: (-min(counts[path], len(values[path])), len(path), path))
    return {path[:depth] for path in ranked[:FIELDS] for depth in range(1, len(path) + 1)}


def _only(value: Any, fields: set[Path_], path: Path_ = ()) -> Any:
    if isinstance(value, list):
        return [_only(item, fields, path) for item in value]
    if isinstance(value, dict):
        kept = {key: part for key, part in value.items() if (*path, key) in fields}
        return {key: _only(part, fields, (*path, key)) for key, part in kept.items()}
    return value


def _cut(value: Any) -> Any:
    if isinstance(value, list):
        return [_cut(item) for item in value[:MAX_LIST]]
    if isinstance(value, dict):
        return {key: _cut(part) for key, part in value.items()}
    return value[:MAX_TEXT] if isinstance(value, str) else value
