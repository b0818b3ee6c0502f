"""Which keys of tools' responses and arguments are worth the room that they take in a prompt.

One ranking for all the tools of a prompt: a record that several of them return (an OpenAPI document's ``Customer``) has
one set of shown keys, so that it can stand in the prompt once. What is never shown is never looked at: a response that
unfolds without end costs as much as the keys that are taken from it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from atc.catalogue.graph.suppliers import Suppliers
from atc.schemas.identifiers import NAMES, is_identifier, words_of
from atc.schemas.protocol import JsonSchema, Protocol, parameters_of
from atc.schemas.reading import CHOICES, Reader

MAX_KEYS = 48
"""Keys of a tool that are ranked, on average over the tools of a prompt."""
_MAX_SUPPLIERS = 8
"""Tools whose key is kept because an argument of another can come from it."""
_MAX_STEPS = 60
"""Schemas that one type is unfolded to (lists, choices, references) before it comes to records."""
_PER_LEVEL, _PER_LIST = 4.0, 0.5
"""A key of a nested object is worth less than a key beside it; keys of list items are worth most."""
_NEEDED, _DEMANDED = -100.0, -50.0
_LINKS = frozenset({"url", "uri", "href", "link", "self", "etag", "metadata", "extension", "deprecated"})
"""Last words of keys that are mostly about the service's own ways."""


@dataclass
class Record:
    """An object type, met once or at many places.

    Attributes:
        schema: with all its keys.
        root: the schema that its references point into.
        name: of the definition that it is; ``None`` where it has no name.
        ranks: its keys that are worth showing, and how many keys a tool were taken before each, on average.
    """

    schema: JsonSchema
    root: JsonSchema
    name: str | None
    ranks: dict[str, float] = field(default_factory=dict)

    @property
    def properties(self) -> dict[str, Any]:
        """The schemas of the object's keys."""
        found: dict[str, Any] = self.schema["properties"]
        return found

    def shown(self, keys: float) -> list[str]:
        """The keys that are shown at this rank, in the order of the document."""
        return [key for key in self.properties if self.ranks.get(key, math.inf) < keys]


class Outline:
    """Ranks the keys of some tools, the most useful first.

    A key that another tool's argument can come from is first, with all that lies above it; then what the outermost
    records hold: identifiers, what the task's words name, what is always there, names.

    Args:
        protocols: the tools; they must not change meanwhile.
        suppliers: who can supply which argument (:attr:`atc.catalogue.graph.tool_graph.ToolGraph.suppliers`).
        task: the user's words.
    """

    def __init__(self, protocols: Sequence[Protocol], suppliers: Suppliers, task: str) -> None:
        self._words = words_of_task(task)
        self._records: dict[int, Record] = {}
        self._readers: dict[int, Reader] = {}
        self._needed: set[tuple[int, str]] = set()
        self._heap: list[tuple[float, int, Record, str, float, bool]] = []
        self._pushed = 0
        returns = {protocol.name: protocol.returns for protocol in protocols if protocol.returns is not None}
        for sources in suppliers.values():
            for source in sources[:_MAX_SUPPLIERS]:
                if source.tool in returns and source.path:
                    self._mark(returns[source.tool], source.path)
        for protocol in protocols:
            if protocol.returns is not None:
                self._push(protocol.returns, protocol.returns, 0.0, False)
            for parameter in parameters_of(protocol):
                if parameter.required or names_a_word(parameter.original, parameter.schema, self._words):
                    self._push(protocol.parameters, parameter.schema, 0.0, True)
        self._rank(max(1, len(protocols)))

    def record_at(self, schema: Any) -> Record | None:
        """The record of an object type, found by its very schema; ``None`` where it has no known keys."""
        return self._records.get(id(schema))

    def reader(self, root: JsonSchema) -> Reader:
        """What reads the schemas of one of the tools' documents."""
        if id(root) not in self._readers:  # of a tool, which outlives this
            self._readers[id(root)] = Reader(root)
        return self._readers[id(root)]

    def _rank(self, tools: int) -> None:
        for count in range(MAX_KEYS * tools):
            if not self._heap:
                return
            _, _, record, key, depth, argument = heapq.heappop(self._heap)
            record.ranks[key] = count / tools
            listed = depth == 0 and "items" in self.reader(record.root).follow(record.properties[key])[0]
            below = depth + (_PER_LIST if listed else _PER_LEVEL)
            self._push(record.root, record.properties[key], below, argument)

    def _push(self, root: JsonSchema, schema: Any, depth: float, argument: bool) -> None:
        for place, name in records_in(self.reader(root), schema):
            if id(place) in self._records:
                continue  # ranked where it was met first
            record = self._records[id(place)] = Record(place, root, name)
            required = frozenset(name for name in place.get("required") or () if isinstance(name, str))
            scored = sorted(
                (self._cost(place, key, value, required, argument), number, key)
                for number, (key, value) in enumerate(record.properties.items())
            )
            for position, (cost, _, key) in enumerate(scored):
                self._pushed += 1
                total = cost + depth + (math.log2(1 + position) if cost > _DEMANDED else 0.0)
                heapq.heappush(self._heap, (total, self._pushed, record, key, depth, argument))

    def _cost(self, place: Any, key: str, schema: Any, required: Collection[str], argument: bool) -> float:
        if (id(place), key) in self._needed:
            return _NEEDED
        if argument and key in required:
            return _DEMANDED
        words = words_of(key)
        cost = 0.0
        if is_identifier(key):
            cost -= 3.0
        if words[-1:] and words[-1] in NAMES:
            cost -= 1.5
        cost -= 3.0 * len(self._words.intersection(words)) / max(1, len(words))
        if key in required:
            cost -= 0.5
        if words[-1:] and words[-1] in _LINKS:
            cost += 2.0
        if isinstance(schema, dict) and schema.get("deprecated") is True:
            cost += 4.0
        return cost

    def _mark(self, root: JsonSchema, path: Iterable[str]) -> None:
        here: list[Any] = [root]
        for step in path:
            if step == "[]":
                continue
            below = []
            for schema in here:
                for place, _ in records_in(self.reader(root), schema):
                    if step in place["properties"]:
                        self._needed.add((id(place), step))
                        below.append(place["properties"][step])
            here = below[:_MAX_STEPS]


def records_in(reader: Reader, schema: Any) -> Iterator[tuple[JsonSchema, str | None]]:
    """The object types that a type is made of: itself, the items of a list, the members of a choice.

    Yields:
        the schema with all its keys (the reader gives the same object each time), and the name of its definition.
    """
    todo: list[Any] = [schema]
    for _ in range(_MAX_STEPS):
        if not todo:
            return
        place, name = reader.follow(todo.pop())
        members = next((place[choice] for choice in CHOICES if isinstance(place.get(choice), list)), None)
        if members is not None:
            todo += reversed(members)
        elif isinstance(place.get("properties"), dict) and place["properties"]:
            yield place, name or None
        else:
            todo += [place[keyword] for keyword in ("items", "additionalProperties") if keyword in place]


def words_of_task(task: str) -> frozenset[str]:
    """The words of a task that a key or an argument may be named by."""
    return frozenset(word for word in words_of(task) if len(word) > 2 or word == "id")


def names_a_word(name: str, schema: JsonSchema, words: Collection[str]) -> bool:
    """Whether the task names an argument, or one of the values that it takes."""
    if any(word in words for word in words_of(name) if word != "id"):
        return True
    values = schema.get("enum")
    listed = values[:40] if isinstance(values, list) else []
    return any(word in words for value in listed if isinstance(value, str) for word in words_of(value[:40]))
