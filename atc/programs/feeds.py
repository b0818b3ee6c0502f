"""Finds where arguments of calls with effects come from: the flow says what may feed them, the responses what did.

Where both name the same value at the same place it is that place (as :mod:`atc.programs.lessons.witness` counts edges).
Without a program that can be followed, an equal value in an earlier response is named as such, and no more.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from atc._records.records import Feed, FeedKind
from atc.programs.analysis.interpreter import ToolCall
from atc.programs.analysis.values import ITEM, NOTHING, UNKNOWN, Origin, Value
from atc.programs.program import Program
from atc.programs.responses import MISSING, places
from atc.result import Call
from atc.schemas.identifiers import THINGS, is_identifier, words_of
from atc.schemas.protocol import Parameter, Protocol, parameters_of
from atc.tools.paging import is_positional

MAX_FEEDS, MAX_INSIDE = 3, 10
"""Feeds that are named of one argument as a whole, and of places within it. How many more there are is said."""
MAX_LEAVES, MAX_ALL = 200, 20_000
"""Scalars of one value, and of all responses, that are compared."""
MAX_PARTS = 2_000
"""Parts of one argument that are followed."""
MAX_COMPARED = 500_000
"""Values that are compared for all calls of a run; the feeds of further ones are named without their places."""
MAX_ROW, MAX_FIELD = 6, 80
"""Fields of a row, and characters of a text in one, that a feed shows."""
MAX_KNOWN = 5
"""Places of one value that are remembered, where no program says how it came."""
MAX_EXPRESSION = 500
"""Characters of an expression of the program."""
_LEAST_TEXT, _LEAST_NUMBER = 3, 10
"""A shorter text or a smaller number is equal to another one by chance."""

Path = tuple[str | int, ...]


class Feeds:
    """Finds what feeds the calls of one program.

    Args:
        program: that ran; ``None`` where none made the calls.
        calls: all calls of the run, in order.
        protocols: of its tools, by name.
        task: in the user's words.
        inputs: the values of earlier stages or tasks, or of whoever began the run.
        by_user: they are the user's own, as the words of the task are.
    """

    def __init__(
        self,
        program: Program | None,
        calls: Sequence[Call],
        protocols: Mapping[str, Protocol],
        task: str,
        inputs: Mapping[str, Any],
        *,
        by_user: bool = False,
    ) -> None:
        self._protocols = protocols
        self.flow = program.flow(dict(protocols)) if program is not None and program.tree is not None else None
        self._answered: list[Call] = []
        self.see(calls)
        self._task = task.casefold()
        self._by_user = by_user
        self._inputs = {text for value in inputs.values() for text, _ in leaves(value)}
        self._known: dict[str, list[tuple[Call, Path]]] = {}
        self._indexed, self._room = 0, MAX_ALL
        self._left = MAX_COMPARED

    def see(self, calls: Sequence[Call]) -> None:
        """Take the calls that were made meanwhile into account: all of the run, in order."""
        self._answered = [call for call in calls if call.succeeded]

    def of(self, call: Call) -> tuple[Feed, ...]:
        """Return what feeds a planned call: its arguments in order, then those that are not known."""
        made: list[Feed] = []
        for name, value in call.arguments.items():
            made += self._of_argument(call, name, value)
        return (*made, *call.awaits)

    def expressions(self, call: Call) -> dict[str, str]:
        """Return the arguments that are not known, each as the program writes it; empty where that is not found."""
        names = dict.fromkeys(feed.argument for feed in call.awaits)
        return {name: self._expression(call, name) for name in names}

    # ------------------------------------------------------------------------------------------------------------------

    def _sites(self, call: Call) -> list[ToolCall]:
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
        given = list(leaves(value))
        found: dict[tuple[Any, ...], Feed] = {}
        at = _position(self._protocols.get(call.tool), name)
        followed = False
        for place in self._sites(call):
            passed = next((place.arguments[key] for key in (name, at[1], at[0]) if key in place.arguments), UNKNOWN)
            followed = followed or not passed.open
            equal = list(self._equal(call, name, value, passed))
            for feed in (*equal, *self._made(call, name, given, passed, {feed.tool for feed in equal})):
                found.setdefault((feed.inside, feed.call, feed.path), feed)
        if found:
            return _bounded([*found.values(), *self._unfed_identifiers(name, given, [*found.values()])])
        if any(text in self._inputs for text, _ in given):
            whole = all(text in self._inputs for text, _ in given)
            return [Feed(argument=name, kind="task" if self._by_user and whole else "input")]
        if not followed and (same := self._same(call, name, given)):
            return same
        in_task = bool(given) and all(self._is_in_task(text.casefold()) for text, _ in given)
        return [Feed(argument=name, kind="task" if in_task else "program")]

    def _is_in_task(self, text: str) -> bool:
        return len(text) <= len(self._task) and bool(re.search(rf"(?<!\w){re.escape(text)}(?!\w)", self._task))

    def _unfed_identifiers(self, name: str, given: Sequence[tuple[str, Path]], feeds: Sequence[Feed]) -> Iterator[Feed]:
        fed = {feed.inside for feed in feeds}
        if any(feed.kind != "response" for feed in feeds):
            return  # it may be what was made from a response
        for text, inside in given:
            around = (inside[:length] for length in range(len(inside) + 1))
            if is_identifier(_field((name, *inside)), THINGS) and fed.isdisjoint(around):
                kind: FeedKind = "task" if self._is_in_task(text.casefold()) else "program"
                yield Feed(argument=name, inside=inside, kind=kind)

    def _sources(self, call: Call, origin: Origin) -> list[Call]:
        before = [c for c in self._answered if c.tool == origin.tool and c.index < call.index]
        return [c for c in before if c.attempt == call.attempt] or before

    def _equal(self, call: Call, name: str, value: Any, passed: Value) -> Iterator[Feed]:
        """The flow is followed into the argument along with its value: a field is compared with what the program put
        there, and with nothing that it put beside it."""
        todo: list[tuple[Any, Path, Value, bool]] = [(value, (), passed, True)]
        below: dict[tuple[int, Any], tuple[Value, bool]] = {}
        known: dict[int, tuple[Value, _Places]] = {}  # the value is kept with them, so that its number stays its own
        for _ in range(MAX_PARTS):
            if not todo:
                return
            part, inside, may_be, sure = todo.pop()
            if id(may_be) not in known:
                known[id(may_be)] = (may_be, self._places_of(call, may_be))
            found = self._found(part, known[id(may_be)][1])
            if not sure:
                found = [each for each in found if _names(_field((name, *inside)), each[0].tool, each[1])]
            if found and not inside:
                yield from (_fed(name, "response", source, path) for source, path in found)
            elif found and (len(found) == 1 or _is_own_id(found[0][1])):
                yield _fed(name, "response", *found[0], inside)
            elif found:  # nobody knows which one of several was meant
                source, path = found[0]
                yield _fed(name, "derived", source, tuple(step for step in path if isinstance(step, str)))
            elif isinstance(part, list) or (isinstance(part, dict) and may_be.cells):
                # a record that no response has as it is came from no row, even if a field of it stands in one
                steps = list(islice(part.items() if isinstance(part, dict) else enumerate(part), MAX_PARTS))
                for step, item in reversed(steps):
                    named = isinstance(step, str) or any(str(step) in cell.fields for cell in may_be.cells)
                    at = (id(may_be), step if named else ITEM)
                    if at not in below:
                        below[at] = _within(may_be, step)
                    inner, explicit = below[at]
                    if inner.origins or inner.cells:
                        todo.append((item, (*inside, step), inner, sure and explicit))

    def _places_of(self, call: Call, may_be: Value) -> _Places:
        found = _Places({}, [])
        for origin in sorted(may_be.origins, key=str) if not may_be.open else ():
            for source in self._sources(call, origin):
                for path, there in places(source.value, origin.path):
                    if self._left <= 0:
                        return found
                    self._left -= 1
                    if there is MISSING or any(str(step).startswith("key ") for step in path):
                        continue
                    if isinstance(there, dict | list):
                        found.containers.append((there, source, path))
                    for text, _ in leaves(there) if not isinstance(there, dict | list) else ():
                        found.scalars.setdefault(text, []).append((source, path))
        return found

    def _found(self, part: Any, known: _Places) -> list[tuple[Call, Path]]:
        if not isinstance(part, dict | list):
            return [each for text, _ in leaves(part) for each in known.scalars.get(text, ())]
        found = []
        for there, source, path in known.containers if part else ():
            if len(there) == len(part):
                self._left -= _size(there, self._left)
                if self._left > 0 and there == part:
                    found.append((source, path))
        return found

    def _made(
        self, call: Call, name: str, given: Sequence[tuple[str, Path]], passed: Value, named: Container[str]
    ) -> Iterator[Feed]:
        """Yield what an argument was made from: the places whose texts stand in it; without one, where the origin
        begins, if no other place of this tool is ``named``.
        """
        for origin, exact in passed.parts():
            here, seen = self._sources(call, origin), False
            for source in here if not exact else ():
                for path, part in places(source.value, origin.path):
                    if part is MISSING or any(str(step).startswith("key ") for step in path):
                        continue
                    if self._left <= 0:
                        break
                    texts = {text: (*path, *within) for text, within in leaves(part)}
                    self._left -= 1 + len(texts) * len(given)
                    if any(
                        distinct(text)
                        and text in other
                        and (text != other or _names(_field((name, *at)), source.tool, place))
                        for text, place in texts.items()
                        for other, at in given
                    ):
                        seen = True
                        yield _fed(name, "derived", source, path)
            if not seen and here and origin.tool not in named:
                steps = [step for step in origin.path if isinstance(step, str)]
                whole_path = tuple(steps) if len(steps) == len(origin.path) else ()
                yield _fed(name, "derived", here[-1], whole_path)

    def _same(self, call: Call, name: str, given: Sequence[tuple[str, Path]]) -> list[Feed]:
        """Equal values in earlier responses, where no program says how they came."""
        for source in self._answered[self._indexed :]:
            for text, path in leaves(source.value, self._room):
                self._room -= 1
                known = self._known.setdefault(text, [])
                if len(known) < MAX_KNOWN:
                    known.append((source, path))
        self._indexed = len(self._answered)
        found: list[Feed] = []
        for text, inside in given:
            if distinct(text):
                field = _field((name, *inside))
                fits = (
                    _fed(name, "same", source, path, inside)
                    for source, path in self._known.get(text, ())
                    if source.index < call.index and _names(field, source.tool, path)
                )
                found += islice(fits, 1)
        return _bounded(found)


class _Places(NamedTuple):
    """Places of responses: of scalars by their text, and of containers."""

    scalars: dict[str, list[tuple[Call, Path]]]
    containers: list[tuple[Any, Call, Path]]


def _size(value: Any, most: int) -> int:
    size, todo = 0, [value]
    while todo and size < most:
        part = todo.pop()
        size += 1
        if isinstance(part, dict | list):
            todo += part.values() if isinstance(part, dict) else part
    return size


def _within(value: Value, step: str | int) -> tuple[Value, bool]:
    """Return what stands at a place of a value; and whether the program put it at that very place."""
    if isinstance(step, int):
        return value.item(step), True
    return value.key(step), all(step in cell.fields and cell.items is NOTHING for cell in value.cells)


def _bounded(feeds: Sequence[Feed]) -> list[Feed]:
    ranked = sorted(feeds, key=lambda feed: feed.kind == "derived")
    most = MAX_INSIDE if any(feed.inside for feed in ranked) else MAX_FEEDS
    kept = ranked[:most]
    if left := len(ranked) - len(kept):
        kept[-1] = kept[-1].model_copy(update={"more": left})
    return kept


def _field(path: Path) -> str:
    return next((step for step in reversed(path) if isinstance(step, str)), "")


def _is_own_id(path: Path) -> bool:
    """Return whether a place is the identifier of the thing that it belongs to: the same thing wherever it stands."""
    return words_of(_field(path)) in {(kind,) for kind in THINGS}


def _names(field: str, tool: str, path: Path) -> bool:
    """An identifier stands only in a field that names its thing: ``product_id`` has the ``id`` of products."""
    if not is_identifier(_field(path), THINGS):
        return True
    words = words_of(field)
    thing = words[:-1] if is_identifier(field, THINGS) else words
    there = {word for step in (tool, *path) if isinstance(step, str) for word in words_of(step)}
    return not thing or thing[-1] in there


def _fed(argument: str, kind: FeedKind, source: Call, path: Path, inside: Path = ()) -> Feed:
    row, rows = _row(source.value, path), _fitted(source, path)
    return Feed(
        argument=argument,
        inside=inside,
        kind=kind,
        call=source.index,
        tool=source.tool,
        path=path,
        row=row,
        rows=rows,
    )


def _fitted(source: Call, path: Path) -> int:
    """The length of the innermost list on a path, of what a call with arguments of its own answered; 0 where it has no
    second item: what a search found is one of those that fit."""
    if all(map(is_positional, source.arguments)):
        return 0
    here, length = source.value, 0
    for step in path:
        if isinstance(step, int) and isinstance(here, list):
            length = len(here)
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return 0
    return length if length > 1 else 0


def _row(value: Any, path: Path) -> dict[str, Any]:
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
    parameters: Sequence[Parameter] = parameters_of(protocol) if protocol is not None else ()
    for position, parameter in enumerate(parameters):
        if parameter.original == original:
            return position, parameter.name
    return len(parameters) + 1_000, original


def leaves(value: Any, most: int = MAX_LEAVES) -> Iterator[tuple[str, Path]]:
    """Yield the scalars in a value as text, with their places, the first of a large one; not nulls and truth values."""
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


def distinct(text: str) -> bool:
    """Return whether a text is equal to another one by more than chance."""
    try:
        return abs(float(text)) >= _LEAST_NUMBER
    except ValueError:
        return len(text) >= _LEAST_TEXT
