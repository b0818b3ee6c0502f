"""ComplexFuncBench (Zhong et al. 2025, Apache-2.0): 487 of its tasks over 40 APIs of a travel agency, replayed.

The tasks, the tools and every call with its response come from the data directory. The data holds no final answers, so
an answer is not judged: a task is solved when all calls of its own solution were made and answered, in any order. No
tool changes anything. One kind of call may be missing: a look-up of a place (:data:`LOOKUPS`), where later calls take
something of its response, and all that they take came from other responses too.

The record is all there is of the service. A call answers as the task's own record has it, else as another task's has
it; records show different parts of one response, so of these the longest is taken. A call that nobody recorded finds
nothing. See :class:`Calls` for which calls count as the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from atc.errors import ToolError
from atc.result import Effect
from atc.schemas.infer.shape import Shape
from atc.schemas.names import tool_name
from atc.schemas.protocol import Example, JsonSchema, Protocol, Provenance, Source
from atc.tools.tool import Tool, Toolset
from benchmarks.environments.base import DataFolder, Environment, Episode, Gold, GoldCall, Task, served

Arguments = dict[str, Any]

MAX_TEXT = 120
"""The records cut the texts of responses to so many characters, so no more of a text argument counts."""
NEAR = 0.001
"""Degrees by which two coordinates of one place may differ."""
MAX_NUMBER = 10**18
"""A greater integer is no coordinate, price or identifier, and is compared as text."""
USUAL = {"cabinClass": "ECONOMY", "sort": "BEST"}
"""What the service takes for an argument that is left out, where its documents do not say."""

LOOKUPS = ("_location", "_destination", "location_to_lat_long")
"""How the names of the tools end that look up a place by its name."""
CHEAPEST = "get_min_price"
"""How the names of the tools begin that tell on which day something is cheapest."""

_DEFAULT = re.compile(r"\*\*default\*\* (?:value )?is set to \*\*(\w+)\*\*", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_FILLERS = frozenset({"the", "of", "in", "at", "a"})


@dataclass(frozen=True)
class Recorded:
    """A call that a task's solution makes, and its response."""

    task: str
    tool: str
    arguments: Arguments
    response: Any

    def with_response(self, response: Any) -> Recorded:
        return replace(self, response=response)


class Calls:
    """All recorded calls.

    Two calls are the same if every documented argument has an equal value in both. Equal are a number and its text,
    ``True`` and ``"true"``, an argument with its default and one that is left out or empty, the parts of a text between
    commas in any order, texts that differ in case and blanks only or after their 120th character, and coordinates
    within a thousandth of a degree. The ``query`` of a search is free text: it will do if the words of one are among
    the words of the other and are at least half of them. A better match is preferred.

    Args:
        parameters: the schema of each tool's arguments.
        recorded: the calls.
    """

    def __init__(self, parameters: Mapping[str, JsonSchema], recorded: Iterable[Recorded]) -> None:
        self._parameters = parameters
        self._defaults = {tool: _defaults(schema) for tool, schema in parameters.items()}
        self._recorded: dict[str, list[tuple[Recorded, Arguments]]] = {}
        for call in recorded:
            self._recorded.setdefault(call.tool, []).append((call, self._normal(call.tool, call.arguments)))
        for calls in self._recorded.values():
            calls.sort(key=lambda pair: -len(json.dumps(pair[0].response)))

    def of(self, tool: str) -> list[Recorded]:
        """The recorded calls of a tool, those with long responses first."""
        return [call for call, _ in self._recorded.get(tool, ())]

    def answer(self, task: str, tool: str, arguments: Arguments) -> Any:
        """What the service answers to a call during a task.

        Raises:
            ToolError: an argument is missing or wrong (422), or there is nothing for these arguments (404).
        """
        self._check(tool, arguments)
        asked, calls = self._normal(tool, arguments), self._recorded.get(tool, [])
        own = [pair for pair in calls if pair[0].task == task]
        rules: tuple[Callable[[Any, Any], bool], ...] = (_equal_texts, _alike)
        for among in (own, calls):
            for rule in rules:
                for call, given in among:
                    if _same(given, asked, rule):
                        return call.response
        raise ToolError(f"{tool}: nothing was found for these parameters", status=404)

    def same(self, one: GoldCall, other: GoldCall) -> bool:
        """Tell whether two calls are the same."""
        return one[0] == other[0] and _same(self._normal(*one), self._normal(*other), _alike)

    def equal(self, argument: str, one: Any, other: Any) -> bool:
        """Tell whether two values of an argument are equal."""
        return _same({argument: _normal(one)}, {argument: _normal(other)}, _alike)

    def typed(self, tool: str, arguments: Arguments) -> Arguments:
        """The documented ones of some arguments, each of its documented type where it can be had."""
        properties = self._parameters[tool]["properties"]
        return {name: _typed(value, properties[name]) for name, value in arguments.items() if name in properties}

    def _normal(self, tool: str, arguments: Arguments) -> Arguments:
        defaults = self._defaults[tool]
        given = {name: _normal(value) for name, value in arguments.items() if name in defaults}
        return {name: value for name, value in given.items() if value not in (None, "", defaults[name])}

    def _check(self, tool: str, arguments: Arguments) -> None:
        schema = self._parameters[tool]
        for name in schema["required"]:
            if arguments.get(name) in (None, ""):
                raise ToolError(f"{tool}: the parameter {name} is required", status=422)
        for name, about in schema["properties"].items():
            value = arguments.get(name)
            if value not in (None, "") and not _fits(value, about["type"]):
                raise ToolError(f"{tool}: the parameter {name} must be of type {about['type']}", status=422)
            allowed = about.get("enum")
            if value not in (None, "") and allowed and _normal(value) not in [_normal(one) for one in allowed]:
                raise ToolError(f"{tool}: the parameter {name} must be one of {', '.join(allowed)}", status=422)


def words(text: Any) -> set[str]:
    """The words of a text that tell something."""
    return set(re.findall(r"\w+", str(text).casefold())) - _FILLERS


def _defaults(schema: JsonSchema) -> Arguments:
    found: Arguments = {}
    for name, about in schema["properties"].items():
        match = _DEFAULT.search(about["description"])
        found[name] = _normal(match[1] if match else USUAL.get(name))
    return found


def _normal(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _normal(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_normal(part) for part in value]
    if isinstance(value, bool):
        return str(value).casefold()
    if isinstance(value, str):
        text = " ".join(value[:MAX_TEXT].casefold().split())
        if _NUMBER.fullmatch(text):
            return float(text) if "." in text else int(text)
        return ",".join(sorted(part.strip() for part in text.split(",")))
    if isinstance(value, int) and abs(value) > MAX_NUMBER:
        return f"{value:x}"[:MAX_TEXT]  # hexadecimal: Python refuses to write very long decimals
    return value


def _same(one: Arguments, other: Arguments, texts: Callable[[Any, Any], bool]) -> bool:
    return one.keys() == other.keys() and all(_equal(name, one[name], other[name], texts) for name in one)


def _equal(name: str, one: Any, other: Any, texts: Callable[[Any, Any], bool]) -> bool:
    if name == "query":
        return texts(one, other)
    if name.endswith("tude") and isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= NEAR
    equal: bool = one == other
    return equal


def _equal_texts(one: Any, other: Any) -> bool:
    return words(one) == words(other)


def _alike(one: Any, other: Any) -> bool:
    short, long = sorted((words(one), words(other)), key=len)
    return short <= long and 2 * len(short) >= len(long) > 0


def _fits(value: Any, kind: str) -> bool:
    """Whether a value is of a type, or can be read as one: the service gets all of them as text."""
    if kind == "array":
        return isinstance(value, list) and all(isinstance(item, dict) for item in value)
    if isinstance(value, list | dict):
        return False
    return kind != "number" or isinstance(_normal(value), int | float)


def _typed(value: Any, schema: JsonSchema) -> Any:
    if schema["type"] == "number" and isinstance(value, str):
        return _normal(value)
    if schema["type"] == "string" and isinstance(value, int | float):
        return str(value)
    return value


Json = dict[str, Any]

TOOLS = 8
"""How many tools are offered, as long as the solution does not need more."""
FIELDS = 30
"""How many fields of a response are described, the most telling ones: some responses have hundreds."""
MAX_LIST, MAX_SHOWN = 2, 80
"""Of an example: items of a list, characters of a text."""

Path_ = tuple[str, ...]
_REFERENCE = re.compile(r"`/?(api/v1/\w+/\w+)`(\*\*\([^*]*\)\*\*)?( endpoints?)?( in \*\*\w+\*\* collection)?")
_DAY = re.compile(r"\d{4}-(?:0\d|1[0-2])-(?:0[1-9]|[12]\d|3[01])")
_COUNTED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
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

        taken = self._taken(task.id)

        def judge(value: Any) -> bool:
            answered = [(call.tool, call.arguments) for call in episode.calls if call.done]
            told = {str(leaf) for call in episode.calls if call.answered for leaf in _leaves(call.answer)}
            missing = [
                number
                for number, wanted in enumerate(gold)
                if not any(self.calls.same(wanted, made) for made in answered)
            ]
            return all(taken[number] and taken[number] <= told for number in missing)

        episode = Episode(tools, judge, gold)
        return episode

    def gold(self, task: Task) -> Gold:
        return Gold(self._gold(task.id))

    def _taken(self, task: str) -> list[frozenset[str]]:
        """For each call of the solution what later calls take of its response; of other tools than look-ups nothing."""
        steps, found = self.records[task]["gold"], list[frozenset[str]]()
        for number, step in enumerate(steps):
            later = {str(leaf) for other in steps[number + 1 :] for leaf in _leaves(other["resolved"])}
            own = {str(leaf) for leaf in _leaves(step["response"]) if leaf not in (None, "")}
            found.append(frozenset(own & later if tool_name(step["tool"]).endswith(LOOKUPS) else ()))
        return found

    def _gold(self, task: str) -> tuple[GoldCall, ...]:
        steps = [(tool_name(step["tool"]), step["resolved"]) for step in self.records[task]["gold"]]
        return tuple((tool, self.calls.typed(tool, arguments)) for tool, arguments in steps)

    def _offered(self, record: Json) -> tuple[str, ...]:
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
        """Of a tool's responses as far as their telling fields go; the first examples have the most of these."""
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
        """The records show parts of responses: what a later call takes is missing from some of them, and from some the
        cheapest day, which later calls are to be made for."""
        seen, known, cheapest = record["query"], list[Any]([record["query"]]), False
        for step in record["gold"]:
            name = tool_name(step["tool"])
            if cheapest and not all(_follows(day, known) for day in _days(step["resolved"])):
                return False
            cheapest |= name.startswith(CHEAPEST)
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


def _days(value: Any) -> list[date]:
    return [date.fromisoformat(day) for leaf in _leaves(value) for day in _DAY.findall(str(leaf))]


def _follows(day: date, known: list[Any]) -> bool:
    """Whether a day is told by the text, which comes first of what is known, or by a response, or follows such a day as
    closely as the text says: by one, a week, or a number of days in it."""
    text = str(known[0]).casefold()
    numbers = {int(number) for number in re.findall(r"(?<!\d)\d{1,2}(?!\d)", text)}
    counted = {number for number, word in enumerate(_COUNTED) if re.search(rf"\b{word}\b", text)}
    apart = {
        0,
        1,
        *(number for number in numbers | counted if number < len(_COUNTED)),
        *({7} if "week" in text else ()),
    }
    told = set(_days(known[1:]))
    return any(before in told or before.day in numbers for before in (day - timedelta(number) for number in apart))


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
    return value[:MAX_SHOWN] if isinstance(value, str) else value
