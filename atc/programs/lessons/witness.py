"""Traces how an answer came about: the calls of the program that gave it, and what fed their arguments, each witnessed.

A :class:`~atc.programs.analysis.flow.Flow` says what may have been; a call that was made says what was. An edge counts
where both say so and the value is the same on both sides. These are the behavioural edges of NaviAgent §3.2.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from atc.calls.json_values import holds_nothing, is_empty
from atc.catalogue.graph.edges import Path
from atc.catalogue.graph.lessons import Fields
from atc.programs.analysis.interpreter import ToolCall
from atc.programs.analysis.values import Origin
from atc.programs.program import Program
from atc.programs.responses import MISSING, places
from atc.result import Effect
from atc.schemas.protocol import Protocol, parameters_of

MAX_LEAVES, MAX_VISITED = 200, 1_000
"""Scalars of a value that can witness an edge, and parts of it that are looked at."""
MAX_COUNT = 100
"""Times that one run counts the same thing: a loop over a thousand items is no thousand pieces of evidence."""
MAX_LEVEL = 9
"""The last layer that is told apart."""
MAX_NUMBER = 10**30
Site = tuple[str, int, int]
"""The place of a call: its tool, line and column."""
_Edge = tuple[str, Path, str, str]


class _Taken(NamedTuple):
    """Holds what a call took of earlier ones.

    Attributes:
        edges: into its arguments, each with the number of the call that gave the value.
        whole: those of the edges whose value is the argument, or an item of it, and no part within a record of it.
    """

    call: Made
    edges: dict[_Edge, int]
    whole: set[_Edge]


class Made(NamedTuple):
    """A call that was made, as far as it teaches: some fields of :class:`atc.result.Call`. ``number`` is its index."""

    number: int
    tool: str
    arguments: Mapping[str, Any]
    value: Any
    status: str
    effect: str
    line: int
    attempt: int
    error_status: int | str | None
    cause: str | None
    repairs: Sequence[Mapping[str, Any]] = ()

    @property
    def succeeded(self) -> bool:
        """Return whether it has a value."""
        return self.status in ("ok", "replayed")

    @property
    def is_empty(self) -> bool:
        """Return whether a read found nothing."""
        return is_empty(self.value) or (self.effect != Effect.WRITE and holds_nothing(self.value))


class Answer:
    """A program that answered, and the calls that it made.

    Args:
        calls: its calls, in order, each with the places in the program where it can have been made.
        tools: the protocols by name.

    Attributes:
        counted: the calls that answered with something.
        fields: of the responses.
    """

    def __init__(self, calls: Sequence[tuple[Made, Sequence[ToolCall]]], tools: Mapping[str, Protocol]) -> None:
        self._tools = tools
        self._counted = [(call, at) for call, at in calls if not call.is_empty]
        self.counted = [call for call, _ in self._counted]
        self._made: dict[Site, list[Made]] = {}
        responses: dict[str, list[Any]] = {}
        for call, at in self._counted:
            if len(kept := responses.setdefault(call.tool, [])) < MAX_COUNT:
                kept.append(call.value)
            for place in at:
                self._made.setdefault(_site(place), []).append(call)
        self.fields = Fields(tools, responses)
        self._tables: dict[tuple[Origin, bool], dict[str, dict[Path, int]]] = {}
        self._records: set[tuple[Origin, Path]] = set()
        self._taken: list[_Taken] | None = None

    @classmethod
    def of(cls, source: str, calls: Sequence[Made], tools: Mapping[str, Protocol]) -> Answer | None:
        """Return the answer of a program; ``None`` where its flow cannot be followed, or the calls are not its own."""
        program = Program(source)
        if program.tree is None:
            return None
        named = {word for node in program.nodes if (word := getattr(node, "id", None) or _text(node))}
        flow = program.flow({name: tools[name] for name in sorted(named & tools.keys())})
        if not flow.complete:
            return None
        placed = []
        on_line: dict[tuple[str, int], list[ToolCall]] = {}
        for call in calls:
            if call.tool in tools and call.succeeded:
                line = call.tool, call.line
                if line not in on_line:
                    some = flow.calls.values()
                    on_line[line] = [each for each in some if each.tool == call.tool and _covers(each, call.line)]
                if not on_line[line]:
                    return None
                placed.append((call, on_line[line]))
        return cls(placed, tools)

    def feeds(self) -> Counter[_Edge]:
        """Return, for each field and parameter, how many calls of the consumer took the value from there.

        A list of records that are made of ids is fed by no place of an id: only what is given as it stands counts.
        """
        found: Counter[_Edge] = Counter()
        for each in self._edges():
            found.update(each.whole)
        return Counter({edge: count for edge, count in found.items() if self.fields.are_names(edge[0], edge[1])})

    def levels(self) -> Counter[tuple[str, int]]:
        """Return, for each tool and layer, the calls there: a layer behind the last one that they took a value of.

        Of values that several calls gave alike, the first call counts.
        """
        level: dict[int, int] = {}
        found: Counter[tuple[str, int]] = Counter()
        for call, edges, _ in self._edges():
            level[call.number] = min(max((level.get(n, 0) + 1 for n in edges.values()), default=0), MAX_LEVEL)
            found[call.tool, level[call.number]] += 1
        return found

    def _edges(self) -> list[_Taken]:
        if self._taken is None:
            self._taken = []
            looked_at: Counter[str] = Counter()
            for call, at in sorted(self._counted, key=lambda each: each[0].number):
                looked_at[call.tool] += 1
                if looked_at[call.tool] <= MAX_COUNT:
                    taken = _Taken(call, {}, set())
                    for place in at:
                        for edge, first, is_whole in self._into(call, place):
                            taken.edges[edge] = min(first, taken.edges.get(edge, first))
                            if is_whole:
                                taken.whole.add(edge)
                    self._taken.append(taken)
        return self._taken

    def _into(self, call: Made, place: ToolCall) -> Iterator[tuple[_Edge, int, bool]]:
        """Yield the edges into the arguments of a call, each with the number of its first call, and if it is whole."""
        parameters = parameters_of(self._tools[call.tool])
        originals = {parameter.name: parameter.original for parameter in parameters}
        for key, value in place.arguments.items():
            if isinstance(key, int):
                name = parameters[key].original if key < len(parameters) else None
            else:
                name = originals.get(key)
            if name is None or name not in call.arguments:
                continue
            given, has_records = set(_scalars(call.arguments[name])), _has_records(call.arguments[name])
            for origin, is_exact in value.parts():
                if origin.tool != call.tool and origin.tool in self._tools:
                    table = self._table(origin, is_exact)
                    same = given & table.keys()
                    for text in same:
                        for path, first in table[text].items():
                            if first < call.number:
                                is_whole = not has_records or (same == given and (origin, path) in self._records)
                                yield (origin.tool, path, call.tool, name), first, is_whole

    def _table(self, origin: Origin, is_exact: bool) -> dict[str, dict[Path, int]]:
        """Return what stands at an origin's place in the responses: each scalar, with its path and its first call."""
        if (origin, is_exact) not in self._tables:
            table: dict[str, dict[Path, int]] = {}
            for call in self._made.get((origin.tool, *origin.site), ())[:MAX_COUNT]:
                for at, value in places(call.value, origin.path):
                    path = _named(origin, at)
                    if path is None or value is MISSING:
                        continue
                    if is_exact and _has_records(value):
                        self._records.add((origin, path))
                    for text in _scalars(value) if is_exact else _scalar(value):
                        table.setdefault(text, {}).setdefault(path, call.number)
            self._tables[origin, is_exact] = table
        return self._tables[origin, is_exact]


def _text(node: object) -> str | None:
    """Return a text in a program: ``all_pages`` may be given a tool's name."""
    value = getattr(node, "value", None)
    return value if isinstance(value, str) else None


def _covers(place: ToolCall, line: int) -> bool:
    return place.node.lineno <= line <= (place.node.end_lineno or place.node.lineno)


def _site(place: ToolCall) -> Site:
    return place.tool, place.node.lineno, place.node.col_offset


def _named(origin: Origin, at: Sequence[str | int]) -> Path | None:
    path: list[str] = []
    for step, found in zip(origin.path, at, strict=False):
        if isinstance(step, str):
            path.append(step)
        elif isinstance(found, int):
            path.append("[]")
        else:
            return None
    return tuple(path) if len(at) == len(origin.path) else None


def _has_records(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(each, dict) for each in value))


def _scalars(value: Any) -> Iterator[str]:
    todo, left = [value], MAX_LEAVES
    for _ in range(MAX_VISITED):
        if not todo or left <= 0:
            return
        part = todo.pop()
        if isinstance(part, dict):
            todo += part.values()
        elif isinstance(part, list):
            todo += part
        else:
            for text in _scalar(part):
                left -= 1
                yield text


def _scalar(value: Any) -> Iterator[str]:
    """5, 5.0 and "5" are the same value; truth values are none, for they agree by chance."""
    if isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_NUMBER:
        yield str(int(value) if value == int(value) else value)
