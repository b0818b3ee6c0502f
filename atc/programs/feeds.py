"""Where the arguments of calls with effects come from: the flow says what may have fed them, the responses what did.

Where both name the same value at the same place it is that place (as :mod:`atc.programs.lessons.witness` counts edges).
Without a program that can be followed, an equal value in an earlier response is named as such, and no more.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from atc.dry_run_facts import Feed
from atc.programs.analysis.interpreter import ToolCall
from atc.programs.analysis.values import UNKNOWN, Origin
from atc.programs.attribution.responses import MISSING, places
from atc.programs.program import Program
from atc.result import Call
from atc.tools.parameters import Parameter, parameters_of
from atc.tools.protocol import Protocol

MAX_FEEDS = 3
"""Of one argument."""
MAX_LEAVES, MAX_ALL = 200, 20_000
"""Scalars of one value, and of all responses, that are compared."""
MAX_COMPARED = 500_000
"""Values that are compared for all calls of a run; the feeds of further ones are named without their places."""
MAX_ROW, MAX_FIELD = 6, 80
"""Fields of a row, and characters of a text in one, that a feed shows."""
MAX_EXPRESSION = 500
"""Characters of an expression of the program."""
_LEAST_TEXT, _LEAST_NUMBER = 3, 10
"""A shorter text or a smaller number is equal to another one by chance."""

Path = tuple[str | int, ...]


class Feeds:
    """Finds what feeds the calls of one program.

    Args:
        source: the program; empty where none made the calls.
        calls: all calls of the run, in order.
        protocols: of its tools, by name.
        task: in the user's words.
        inputs: the values of earlier stages or tasks.
    """

    def __init__(
        self,
        source: str,
        calls: Sequence[Call],
        protocols: Mapping[str, Protocol],
        task: str,
        inputs: Mapping[str, Any],
    ) -> None:
        program = Program(source)
        self._protocols = protocols
        self.flow = program.flow(dict(protocols)) if source and program.tree is not None else None
        self._answered: list[Call] = []
        self.see(calls)
        self._task = task.casefold()
        self._inputs = {text for value in inputs.values() for text, _ in leaves(value)}
        self._known: dict[str, tuple[Call, Path]] = {}
        self._indexed, self._room = 0, MAX_ALL
        self._left = MAX_COMPARED

    def see(self, calls: Sequence[Call]) -> None:
        """Take the calls that were made meanwhile into account: all of the run, in order."""
        self._answered = [call for call in calls if call.succeeded]

    def of(self, call: Call) -> tuple[Feed, ...]:
        """What feeds a planned call: its arguments in order, then those that are not known."""
        made: list[Feed] = []
        for name, value in call.arguments.items():
            made += self._of_argument(call, name, value)
        return (*made, *call.awaits)

    def expressions(self, call: Call) -> dict[str, str]:
        """The arguments that are not known, each as the program writes it; empty text where that cannot be found."""
        names = dict.fromkeys(feed.argument for feed in call.awaits)
        return {name: self._expression(call, name) for name in names}

    # ------------------------------------------------------------------------------------------------------------------

    def _sites(self, call: Call) -> list[ToolCall]:
        """The places in the program where a call can have been made."""
        if self.flow is None:
            return []
        return [
            place
            for place in self.flow.calls.values()
            if place.tool == call.tool and place.node.lineno <= call.line <= (place.node.end_lineno or 0)
        ]

    def _expression(self, call: Call, name: str) -> str:
        for place in self._sites(call):
            at = _position(self._protocols.get(call.tool), name)
            nodes: list[ast.expr] = [k.value for k in place.node.keywords if k.arg in (name, at[1])]
            nodes += place.node.args[at[0] : at[0] + 1]
            if nodes and not isinstance(nodes[0], ast.Starred):
                with contextlib.suppress(RecursionError):
                    return ast.unparse(nodes[0])[:MAX_EXPRESSION]
        return ""

    def _of_argument(self, call: Call, name: str, value: Any) -> list[Feed]:
        given = [text for text, _ in leaves(value)]
        found: dict[tuple[Any, ...], Feed] = {}
        at = _position(self._protocols.get(call.tool), name)
        followed = False
        for place in self._sites(call):
            passed = next((place.arguments[key] for key in (name, at[1], at[0]) if key in place.arguments), UNKNOWN)
            followed = followed or not passed.open
            for origin, exact in passed.parts():
                for feed in self._from_response(call, name, value, given, origin, exact):
                    found.setdefault((feed.call, feed.path), feed)
        if found:
            return sorted(found.values(), key=lambda feed: feed.kind != "response")[:MAX_FEEDS]
        if any(text in self._inputs for text in given):
            return [Feed(argument=name, kind="input")]
        if not followed and (same := self._same(call, name, given)):
            return same
        in_task = bool(given) and all(self._is_in_task(text.casefold()) for text in given)
        return [Feed(argument=name, kind="task" if in_task else "program")]

    def _is_in_task(self, text: str) -> bool:
        return len(text) <= len(self._task) and bool(re.search(rf"(?<!\w){re.escape(text)}(?!\w)", self._task))

    def _from_response(
        self, call: Call, name: str, value: Any, given: Sequence[str], origin: Origin, exact: bool
    ) -> Iterator[Feed]:
        """The places of an origin that have the value, or a part of it; without one, where the origin begins."""
        before = [c for c in self._answered if c.tool == origin.tool and c.index < call.index]
        here = [c for c in before if c.attempt == call.attempt] or before
        seen = False
        for source in here:
            for path, part in places(source.value, origin.path):
                if part is MISSING or any(str(step).startswith("key ") for step in path):
                    continue
                if self._left <= 0:
                    break
                texts = {text for text, _ in leaves(part)}
                self._left -= 1 + len(texts) * (1 if exact else len(given))
                whole = exact and type(part) is type(value) and part == value
                if whole or (exact and texts.intersection(given)):
                    seen = True
                    yield _fed(name, "response", source, path)
                elif not exact and any(_distinct(text) and text in other for text in texts for other in given):
                    seen = True
                    yield _fed(name, "derived", source, path)
        if not seen and here:
            steps = [step for step in origin.path if isinstance(step, str)]
            whole_path = tuple(steps) if len(steps) == len(origin.path) else ()
            yield _fed(name, "derived", here[-1], whole_path)

    def _same(self, call: Call, name: str, given: Sequence[str]) -> list[Feed]:
        """Equal values in earlier responses, where no program says how they came."""
        for source in self._answered[self._indexed :]:
            for text, path in leaves(source.value, self._room):
                self._room -= 1
                self._known.setdefault(text, (source, path))
        self._indexed = len(self._answered)
        found = [self._known[text] for text in given if _distinct(text) and text in self._known]
        return [_fed(name, "same", source, path) for source, path in found if source.index < call.index][:MAX_FEEDS]


def _fed(argument: str, kind: Any, source: Call, path: Path) -> Feed:
    row = _row(source.value, path)
    return Feed(argument=argument, kind=kind, call=source.index, tool=source.tool, path=path, row=row)


def _row(value: Any, path: Path) -> dict[str, Any]:
    """The fields beside the one that a path leads to, the first short ones; nothing where it leads to no field."""
    if not path or not isinstance(path[-1], str):
        return {}
    ((_, found),) = places(value, path[:-1], exact=True)
    if not isinstance(found, dict):
        return {}
    short: Iterator[tuple[str, Any]] = (
        (key, field)
        for key, field in found.items()
        if key != path[-1]
        and len(key) <= MAX_FIELD
        and (isinstance(field, int | float | bool) or (isinstance(field, str) and 0 < len(field) <= MAX_FIELD))
    )
    return dict(islice(short, MAX_ROW))


def _position(protocol: Protocol | None, original: str) -> tuple[int, str]:
    """The position and the name that a program has for a parameter; a position that nothing has, where it has none."""
    parameters: Sequence[Parameter] = parameters_of(protocol) if protocol is not None else ()
    for position, parameter in enumerate(parameters):
        if parameter.original == original:
            return position, parameter.name
    return len(parameters) + 1_000, original


def leaves(value: Any, most: int = MAX_LEAVES) -> Iterator[tuple[str, Path]]:
    """The scalars in a value as text, with their places, the first of a large one; not nulls and truth values."""
    todo: list[tuple[Any, Path]] = [(value, ())]
    left = most
    while todo and left > 0:
        part, path = todo.pop()
        left -= 1
        if isinstance(part, dict):
            todo += [(item, (*path, key)) for key, item in reversed(part.items())]
        elif isinstance(part, list):
            todo += [(item, (*path, position)) for position, item in reversed([*enumerate(part[:most])])]
        elif isinstance(part, str) and part.strip():
            yield part, path
        elif isinstance(part, int | float) and not isinstance(part, bool):
            yield str(int(part) if abs(part) < 1e15 and part == int(part) else part), path


def _distinct(text: str) -> bool:
    try:
        return abs(float(text)) >= _LEAST_NUMBER
    except ValueError:
        return len(text) >= _LEAST_TEXT
