"""What one finished run teaches, as plain facts: names, counts and types (:mod:`atc.programs.lessons` reads them off).

Success counts only in the program of an answered run (NaviAgent Eq. 4 counts successes alone); a run without an
answer teaches failures, and what its tools answered. No value is kept, and no key that may be one.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from atc.catalogue.graph.edges import Path
from atc.catalogue.graph.suppliers import has_place
from atc.schemas.observed import is_documented
from atc.schemas.protocol import JsonSchema, Protocol, parameters_of

if TYPE_CHECKING:
    from atc.schemas.infer.outline import Outline


@dataclass(frozen=True)
class Lessons:
    """What one request of a run teaches. Tools are named as the run named them.

    Attributes:
        id: a digest of the run's name and the request's number: the same run is learnt once. Empty: of no run.
        answered: the run has an answer.
        calls: successes of each tool in the program that answered.
        failed: failed calls, by number in the run, with their tools; not those refused for their arguments.
        follows: of a tool and the next other one whose call counts.
        feeds: of a field and a parameter: calls of the consumer that took the value from there.
        replaced: of a tool and the one that took its place: whether that one answered with something.
        shapes: what tools that document no response answered, in every call that succeeded: what was answered holds
            whatever became of the program.
        observed: the first and the last number of the calls that shapes rest on.
        levels: calls of a tool in a layer of the program's data flow: a call that takes a value of another stands one
            layer behind it.
        respelt: of a tool and a key that no parameter has, the parameter that was meant.
    """

    id: str
    answered: bool = False
    calls: Mapping[str, int] = field(default_factory=dict)
    failed: tuple[tuple[int, str], ...] = ()
    follows: Mapping[tuple[str, str], int] = field(default_factory=dict)
    feeds: Mapping[tuple[str, Path, str, str], int] = field(default_factory=dict)
    replaced: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    shapes: Mapping[str, Outline] = field(default_factory=dict)
    observed: tuple[int, int] = (0, 0)
    levels: Mapping[tuple[str, int], int] = field(default_factory=dict)
    respelt: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.calls or self.failed or self.replaced or self.shapes)


# ----------------------------------------------------------------------------------------------------------------------
# Answers of calls that no program made, as they wait to be learnt: their shapes, never their values.


MAX_HELD = 32
"""Answers that wait at once. Each may have megabytes; one more is let go."""
MAX_OF_A_TOOL = 500
"""Answers of one tool that a process learns from: after these a further one shows nothing new."""


class Observations:
    """Answers that wait until a thread of the catalogue's reads their shapes. Safe among threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[tuple[str, Any]] = []
        self._seen: Counter[str] = Counter()

    def take(self, tool: str, value: Any, *, new: bool) -> bool:
        """Hold an answer; whether there was room.

        Args:
            tool: its name.
            value: what it answered: a JSON value.
            new: it is known to show something new, so it counts however many there were.
        """
        with self._lock:
            if len(self._held) >= MAX_HELD or (not new and self._seen[tool] >= MAX_OF_A_TOOL):
                return False
            self._seen[tool] += 1
            self._held.append((tool, value))
            return True

    def lessons(self, tools: Mapping[str, Protocol]) -> Lessons:
        """What the answers that waited teach; they wait no longer."""
        with self._lock:
            held, self._held = self._held, []
        responses: defaultdict[str, list[Any]] = defaultdict(list)
        for tool, value in held:
            if tool in tools:
                responses[tool].append(value)
        return Lessons("", shapes=Fields(tools, responses).outlines(responses))


# ----------------------------------------------------------------------------------------------------------------------
# Which fields of responses may be remembered: documented ones, and observed ones whose keys are surely names.


MAX_TEXT = 2_000
"""Characters of a description whose words may be parts of fields' names."""


class Fields:
    """The fields that the tools of one run have.

    Args:
        tools: the protocols by name.
        responses: of each tool, the values that its calls returned.
    """

    def __init__(self, tools: Mapping[str, Protocol], responses: Mapping[str, Sequence[Any]]) -> None:
        self._tools, self._responses = tools, responses
        self._outlines: dict[str, Outline] = {}
        self._schemas: dict[str, JsonSchema] = {}

    def are_names(self, tool: str, path: Path) -> bool:
        """Whether each step of a path is a field's name, and no key that is data."""
        if has_place(self._tools[tool].returns, path):
            return True
        if tool not in self._schemas:
            self._schemas[tool] = self._outline(tool).schema_seen()
        return has_place(self._schemas[tool], path)

    def outlines(self, tools: Iterable[str]) -> dict[str, Outline]:
        """The observed responses of those tools that document none."""
        undocumented = [tool for tool in tools if not is_documented(self._tools[tool].returns)]
        return {tool: outline for tool in undocumented if (outline := self._outline(tool)).schema_seen()}

    def _outline(self, tool: str) -> Outline:
        if tool not in self._outlines:
            from atc.schemas.infer.outline import outline_of  # only here: most tools document their responses

            self._outlines[tool] = outline_of(self._responses.get(tool, ()), self._documented)
        return self._outlines[tool]

    @cached_property
    def _documented(self) -> frozenset[str]:
        return frozenset[str]().union(*(words_of_documents(self._tools[tool]) for tool in self._responses))


def words_of_documents(protocol: Protocol) -> frozenset[str]:
    """The words in which a document speaks of a tool and its parameters, as names of fields may be made of them."""
    from atc.schemas.infer.outline import vocabulary  # only here, as above

    return vocabulary(list(_texts(protocol)))


def _texts(protocol: Protocol) -> Iterator[str]:
    yield from (protocol.name, protocol.source.operation[:MAX_TEXT], protocol.description[:MAX_TEXT])
    for parameter in parameters_of(protocol):
        yield parameter.original[:MAX_TEXT]
        yield str(parameter.schema.get("description") or "")[:MAX_TEXT]
