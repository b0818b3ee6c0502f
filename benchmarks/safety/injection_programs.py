"""Write the right program of a task from its solution's calls, so that values really flow from call to call.

A solution states arguments as literals, also where a user could not have known them. Here an argument that stands in
an earlier response is taken from there: by a field, a filter, an extreme, a pattern in a text. What the task's own
words say stays a literal, and so does what no response says (a text that a model would have made up).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from benchmarks.environments.base import GoldCall

Path = tuple[str | int, ...]

SHORTEST = 4
"""Characters of a part of a text that are looked for in responses; what is shorter is there by chance."""
_CONTEXT = 24
_TITLE = re.compile(r"^[^:\n]*: ")


@dataclass(frozen=True)
class Flow:
    """Says that a part of an argument is taken from an earlier response.

    Attributes:
        source: the number of the call that answered.
        path: leads to the place in its response; to a key of an object where ``key``.
        text: what was taken: the whole value, or a part of a text.
        key: it is the name of a field.
        target: the number of the call that takes it. ``argument``: the way to the part of its argument.
    """

    source: int
    path: Path
    text: Any
    target: int
    argument: Path
    key: bool = False


@dataclass(frozen=True)
class RightProgram:
    """A program and what flows in it.

    Attributes:
        lines: a statement for each call of the solution, in order.
        answer: the statement that sets the answer.
        flows: where values come from.
        made_up: literals that stand neither in the task nor in a response.
    """

    lines: tuple[str, ...]
    answer: str
    flows: tuple[Flow, ...]
    made_up: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(["import re", *self.lines, self.answer, ""])


def right_program(task: str, calls: Sequence[GoldCall], responses: Sequence[Any], answer: str) -> RightProgram:
    """Write the program of a task.

    Args:
        task: what the user says.
        calls: of the solution.
        responses: what these calls answer, in their order.
        answer: that of the solution; the program says it as it is, for no rule is about answers.
    """
    writer = _Writer(task, responses)
    lines = []
    for number, (tool, given) in enumerate(calls):
        arguments = (f"{name}={writer.value(each, number, (name,))}" for name, each in given.items())
        lines.append(f"r{number} = {tool}({', '.join(arguments)})")
    return RightProgram(tuple(lines), f"answer = {answer!r}", tuple(writer.flows), tuple(writer.made_up))


class _Writer:
    def __init__(self, task: str, responses: Sequence[Any]) -> None:
        self._task, self._responses = task, responses
        self.flows: list[Flow] = []
        self.made_up: list[str] = []

    def value(self, value: Any, target: int, argument: Path) -> str:
        """Write a value, and note what flows."""
        if isinstance(value, list):
            if (written := self._names(value, target, argument)) is not None:
                return written
            return f"[{', '.join(self.value(each, target, (*argument, n)) for n, each in enumerate(value))}]"
        if isinstance(value, dict):
            parts = (f"{key!r}: {self.value(each, target, (*argument, key))}" for key, each in value.items())
            return f"{{{', '.join(parts)}}}"
        if value is None or isinstance(value, bool):
            return repr(value)
        if self._said(value) and not (_is_short(value) and _is_id(argument[-1])):
            return repr(value)
        for write in (self._whole, self._part, self._around):
            if (written := write(value, target, argument)) is not None:
                return written
        if not self._said(value):
            self.made_up.append(str(value))
        return repr(value)

    def _said(self, value: Any) -> bool:
        text = f"{value:g}" if isinstance(value, float) else str(value)
        return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", self._task, re.IGNORECASE) is not None

    def _names(self, value: list[Any], target: int, argument: Path) -> str | None:
        for source in range(target - 1, -1, -1):
            response = self._responses[source]
            if isinstance(response, str) and len(value) > 1 and _TITLE.sub("", response).strip().split("\n") == value:
                self.flows.append(Flow(source, (), response, target, argument))
                return f"re.sub({_TITLE.pattern!r}, '', r{source}).strip().split('\\n')"
        return None

    def _whole(self, value: Any, target: int, argument: Path) -> str | None:
        found = [
            (source, path, key)
            for source in range(target - 1, -1, -1)
            for path, leaf, key in _leaves(self._responses[source])
            if type(leaf) is type(value) and leaf == value and (not _is_short(value) or _same_name(path, argument))
        ]
        if not found:
            return None
        source, path, key = self._chosen(found)
        self.flows.append(Flow(source, path, value, target, argument, key))
        return self._place(source, path, key)

    def _chosen(self, places: Sequence[tuple[int, Path, bool]]) -> tuple[int, Path, bool]:
        """Return the place that a program finds by what stands there, rather than by its number."""
        return min(places, key=lambda place: not re.search(r"\b(?:max|min|next)\(", self._place(*place)))

    def _part(self, value: Any, target: int, argument: Path) -> str | None:
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        if len(shown) < SHORTEST:
            return None
        for source in range(target - 1, -1, -1):
            for path, leaf, key in _leaves(self._responses[source]):
                if key or not isinstance(leaf, str):
                    continue
                form = re.search(rf"{re.escape(shown)}0*", leaf) if isinstance(value, float) else None
                part = form.group() if form else shown
                if leaf != part and (at := leaf.find(part)) >= 0:
                    self.flows.append(Flow(source, path, part, target, argument))
                    found = f"re.search({_pattern(leaf, at, part)!r}, {self._place(source, path)}, re.S).group(1)"
                    return f"float({found})" if isinstance(value, float) else found
        return None

    def _around(self, value: Any, target: int, argument: Path) -> str | None:
        if not isinstance(value, str):
            return None
        found: dict[str, list[tuple[int, Path, bool]]] = {}
        for source in range(target):
            for path, leaf, key in _leaves(self._responses[source]):
                if isinstance(leaf, str) and len(leaf) >= SHORTEST and leaf in value and not self._said(leaf):
                    found.setdefault(leaf, []).append((source, path, key))
        if not found:
            return None
        leaf = max(found, key=len)
        source, path, key = self._chosen(found[leaf])
        self.flows.append(Flow(source, path, leaf, target, argument, key))
        before, _, after = value.partition(leaf)
        parts = [repr(before)] if before else []
        parts.append(self._place(source, path, key))
        if after:
            parts.append(self._around(after, target, argument) or repr(after))
        return " + ".join(parts)

    # How a place is written -------------------------------------------------------------------------------------------

    def _place(self, source: int, path: Path, key: bool = False) -> str:
        here, value = f"r{source}", self._responses[source]
        for step in path[:-1] if key else path:
            if isinstance(value, list) and isinstance(step, int):
                here = self._record(here, value, step)
            elif len(value) == 1 and _is_name(step):
                here = f"next(iter({here}.values()))"
            else:
                here = f"{here}[{step!r}]"
            value = value[step]
        return self._name(here, value, str(path[-1])) if key else here

    def _record(self, here: str, records: list[Any], number: int) -> str:
        """Write how one of several records is chosen: by a field that the task names, an extreme, or its place."""
        record = records[number]
        if len(records) == 1 or not isinstance(record, dict):
            return f"{here}[{number}]"
        for field, value in record.items():
            if isinstance(value, str) and len(value) >= SHORTEST and self._said(value):
                matching = [each for each in records if isinstance(each, dict) and each.get(field) == value]
                if matching[0] is record:
                    return f"next(each for each in {here} if each[{field!r}] == {value!r})"
        for field, value in record.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                for name, extreme in (("max", max), ("min", min)):
                    if extreme(records, key=itemgetter(field)) is record:
                        return f"{name}({here}, key=lambda each: each[{field!r}])"
        return f"{here}[{number - len(records)}]" if number == len(records) - 1 else f"{here}[{number}]"

    @staticmethod
    def _name(here: str, value: dict[str, Any], key: str) -> str:
        first = r"(\d+(?:\.\d+)?)"
        numbers = {each: re.search(first, str(text)) for each, text in value.items()}
        if len(value) > 1 and all(numbers.values()):
            for name, extreme in (("max", max), ("min", min)):
                if extreme(numbers, key=lambda each: float(numbers[each].group())) == key:  # type: ignore[union-attr]
                    chosen = f"float(re.search({first!r}, str({here}[each])).group(1))"
                    return f"{name}({here}, key=lambda each: {chosen})"
        return f"list({here})[{list(value).index(key)}]"


def _is_short(value: Any) -> bool:
    """Return whether a value may stand in a response by chance."""
    return isinstance(value, int | float) or (isinstance(value, str) and len(value) < SHORTEST)


def _is_name(key: str | int) -> bool:
    return " " in str(key) or "@" in str(key)


def _is_id(name: str | int) -> bool:
    return str(name).strip("_").split("_")[-1] == "id"


def _same_name(path: Path, argument: Path) -> bool:
    field, name = str(path[-1]) if path else "", str(argument[0])
    return field.strip("_") == name.strip("_") or (_is_id(field) and _is_id(name))


def _pattern(text: str, at: int, part: str) -> str:
    line = text[:at].rpartition("\n")[2]
    rest = text[at + len(part) :]
    stop = re.match(r"[^\w\n]*", rest)
    group = r"(\S+?)" if re.fullmatch(r"\S+", part) else r"(.+?)"
    ends = [re.escape(stop.group()) if stop and stop.group() else r"(?:\s|$)", re.escape(rest[:_CONTEXT]) or "$"]
    starts = [re.escape("".join(re.findall(r"\S*\s*", line)[-1 - words : -1])) for words in (1, 2, 3, 5)]
    for start in [*starts, re.escape(line) or r"(?:^|\n)", re.escape(text[:at])]:
        for end in ends:
            found = re.search(start + group + end, text, re.S) if start else None
            if found and found.group(1) == part:
                return f"{start}{group}{end}"
    return re.escape(text[:at]) + group + re.escape(rest) + "$"


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any, bool]]:
    if isinstance(value, dict):
        for key, each in value.items():
            if _is_name(key):
                yield (*path, key), key, True
            yield from _leaves(each, (*path, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _leaves(each, (*path, number))
    else:
        yield path, value, False
