"""ComplexFuncBench's service: recorded calls, found again by equal arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from atc.errors import ToolError
from atc.tools.protocol import JsonSchema
from benchmarks.environments.base import GoldCall

Arguments = dict[str, Any]

MAX_TEXT = 120
"""The records cut the texts of responses to so many characters, so no more of a text argument counts."""
NEAR = 0.001
"""Degrees by which two coordinates of one place may differ."""
MAX_NUMBER = 10**18
"""A greater integer is no coordinate, price or identifier, and is compared as text."""
USUAL = {"cabinClass": "ECONOMY", "sort": "BEST"}
"""What the service takes for an argument that is left out, where its documents do not say."""

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
    """The default of each argument, as it is compared; ``None`` where there is none."""
    found: Arguments = {}
    for name, about in schema["properties"].items():
        match = _DEFAULT.search(about["description"])
        found[name] = _normal(match[1] if match else USUAL.get(name))
    return found


def _normal(value: Any) -> Any:
    """A value as it is compared."""
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
