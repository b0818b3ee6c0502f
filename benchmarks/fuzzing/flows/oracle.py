"""Soundness by perturbation: what a tool answers is altered, the program runs again, and an argument that changed must
list that tool among its origins, or be unknown.

Calls are aligned by tool, line and how-manieth. What is not held: that a call is made at all, or how often.
"""

from __future__ import annotations

import ast
import contextlib
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Protocol

from atc._records.origins import CallOrigins, Origin, Origins
from atc.programs.origins.program import ProgramOrigins
from atc.programs.program import Program
from benchmarks.fuzzing.flows.world import (
    INPUT,
    INPUT_TOOL,
    OF_LEAF,
    OF_LIST,
    PARAMETERS,
    PROGRAM,
    Change,
    Ended,
    Run,
    World,
    bounded,
    paths_of,
    response,
)  # fmt: skip

MAX_CHANGES = 12
"""Changes of one program's responses."""
MAX_LITERALS = 2
"""Texts of a program that are altered, one at a time."""
LITERAL = "a literal"
"""What a change names that alters a text of the program."""
MAX_S = 1.0
"""Processor seconds in which an engine answers for one program."""
ANSWER = ("answer", 0)
"""The site that stands for the program's answer."""


class Engine(Protocol):
    """Answers where arguments come from, as :class:`atc.programs.origins.program.ProgramOrigins` does."""

    def of_call(self, tool: str, line: int, arguments: Collection[str]) -> CallOrigins: ...

    def of_variable(self, name: str) -> Origins: ...


Engines = Callable[[str], Engine]


def followed(source: str) -> ProgramOrigins:
    """Return the engine under test for a program."""
    given = frozenset({Origin(kind="tool", tool=INPUT_TOOL)})
    return ProgramOrigins(Program(source), list(PARAMETERS), inputs={INPUT: given})


@dataclass(frozen=True)
class Miss:
    """Holds an argument whose origins leave out a tool that changed it.

    Attributes:
        kind: ``tool``: the tool is not listed. ``path``: it is, at places alone that did not change. ``empty``: no
            origin at all. ``literal``: a text of the program changed it, and none is listed. ``error``: the engine
            raised. ``slow``: it took too long.
        tool: that was called; ``answer`` for the program's answer. ``line`` and ``argument``: of the call.
        change: of the responses.
        before, after: the argument, as JSON text.
        listed: what the engine answered.
    """

    kind: str
    tool: str
    line: int
    argument: str
    change: Change
    before: str
    after: str
    listed: tuple[str, ...]

    @property
    def cause(self) -> tuple[str, str]:
        """What stays the same while the program is made smaller."""
        return self.kind, self.change.tool


@dataclass
class Figures:
    """Counts what was looked at.

    Attributes:
        programs: that ran. ``ended``: those that an error ended. ``flowing``: those in which an argument changed.
        runs: of programs, altered ones included.
        arguments: by whether the program may have tricks. ``unknown``: those of them whose origins are unknown.
        changed: arguments that some change changed.
        listed: pairs of an argument and a tool that its origins list. ``idle``: those whose changes changed nothing.
    """

    programs: int = 0
    ended: int = 0
    flowing: int = 0
    runs: int = 0
    arguments: Counter[bool] = field(default_factory=Counter)
    unknown: Counter[bool] = field(default_factory=Counter)
    changed: int = 0
    listed: int = 0
    idle: int = 0

    def add(self, other: Figures) -> None:
        """Add those of other programs."""
        for name, value in vars(other).items():
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)


class Oracle:
    """Looks at programs one after another.

    Args:
        engines: makes the engine of a program.
    """

    def __init__(self, engines: Engines = followed) -> None:
        self._engines, self._world = engines, World()
        self.figures = Figures()

    def misses(self, source: str, choices: random.Random, *, tricks: bool = True) -> list[Miss]:
        """Return what the engine leaves out of one program.

        Args:
            source: the program.
            choices: which changes are tried.
            tricks: the program may have tricks.
        """
        try:
            code = compile(source, PROGRAM, "exec")
        except SyntaxError:
            return []
        base = self._world.run(code)
        figures = Figures(programs=1, ended=int(bool(base.ended)), runs=1)
        seen = _Seen()
        seen.see(base)
        for change in changes_of(source, base, choices):
            seen.compare(base, self._world.run(code, change), change)
            figures.runs += 1
        for literal, altered in _other_literals(source, choices):
            seen.compare(base, self._world.run(altered), literal)
            figures.runs += 1
        figures.flowing = int(any(line for _, line, _ in seen.changed))
        found = _Check(source, self._engines, seen).misses(figures, tricks)
        self.figures.add(figures)
        return found


def changes_of(source: str, base: Run, choices: random.Random) -> list[Change]:
    """Return changes of each tool that answered: all values at once, one place, a list, a failure."""
    certain, further = [], []
    for tool, value in {**base.responses, INPUT_TOOL: response(INPUT_TOOL, "")}.items():
        leaves, lists = paths_of(value)
        certain.append(Change(tool))
        further += [Change(tool, how=how) for how in (choices.choice(("low", "zero", "high")), "none")]
        if tool != INPUT_TOOL:
            further += [Change(tool, how="error"), Change(tool, first=True)]
        further += [Change(tool, path, how) for path in lists for how in choices.sample(OF_LIST, 2)]
        named = [path for path in leaves if path and str(path[-1]) in source]
        further += [Change(tool, path, choices.choice(OF_LEAF)) for path in named]
    return certain + choices.sample(further, max(0, min(MAX_CHANGES - len(certain), len(further))))


def _other_literals(source: str, choices: random.Random) -> Iterable[tuple[Change, CodeType]]:
    """Yield programs in which a text is another one: it is an origin, too, which whoever wrote the program chose."""
    tree = ast.parse(source)
    keys = {id(each) for node in ast.walk(tree) for each in _keys(node)}
    texts = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in keys
    ]
    lines = source.split("\n")
    for text in choices.sample(texts, min(MAX_LITERALS, len(texts))):
        line, begin, end = lines[text.lineno - 1], text.col_offset, text.end_col_offset or 0
        if line[begin : begin + 1] not in ("'", '"'):  # a part of an f-string
            continue
        other = [*lines[: text.lineno - 1], f"{line[:begin]}'other'{line[end:]}", *lines[text.lineno :]]
        with contextlib.suppress(SyntaxError):
            yield Change(LITERAL, (), str(text.value)), compile("\n".join(other), PROGRAM, "exec")


def _keys(node: ast.AST) -> list[ast.expr]:
    """Return constants that say where in a value something is: paths have them, and origins do not."""
    match node:
        case ast.Subscript(slice=key):
            return [key]
        case ast.Dict(keys=keys):
            return [key for key in keys if key is not None]
        case ast.Call(args=[key, *_]) if isinstance(node.func, ast.Attribute):
            return [key]
        case _:
            return []


class _Seen:
    """Collects the arguments of all runs, and what changed them."""

    def __init__(self) -> None:
        self.sites: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.changed: dict[tuple[str, int, str], list[tuple[Change, str, str]]] = defaultdict(list)
        self.answered = False

    def see(self, run: Run) -> None:
        for (tool, line, _), arguments in run.calls.items():
            self.sites[tool, line].update(arguments)
        self.answered = self.answered or run.answer is not None

    def compare(self, base: Run, run: Run, change: Change) -> None:
        self.see(run)
        for site, arguments in run.calls.items():
            before = base.calls.get(site)
            if before is None or before == arguments:
                continue
            for name in {**before, **arguments}:
                old, new = before.get(name, ""), arguments.get(name, "")
                if old != new:
                    self.changed[site[0], site[1], name].append((change, old, new))
        if base.answer is not None and run.answer is not None and base.answer != run.answer:
            self.changed[*ANSWER, ""].append((change, base.answer, run.answer))


class _Check:
    """Compares what an engine answers with what changed."""

    def __init__(self, source: str, engines: Engines, seen: _Seen) -> None:
        self._source, self._engines, self._seen = source, engines, seen

    def misses(self, figures: Figures, tricks: bool) -> list[Miss]:
        """Return what is left out, and count."""
        try:
            with bounded(MAX_S):
                answers = self._answers(self._engines(self._source))
        except Ended:
            return [Miss("slow", "", 0, "", Change("slow"), "", "", (f"more than {MAX_S:g} s",))]
        except Exception as error:
            text = f"{type(error).__name__}: {error}"[:200]
            return [Miss("error", "", 0, "", Change(type(error).__name__), "", "", (text,))]
        found = []
        for (tool, line), names in {**self._seen.sites, ANSWER: {""}}.items():
            answer = answers[tool, line]
            for name in sorted(names):
                origins = answer.get(name, frozenset())
                changed = self._seen.changed.get((tool, line, name), [])
                if line:
                    self._count(figures, origins, changed, tricks)
                if not origins and (line or self._seen.answered):
                    found.append(Miss("empty", tool, line, name, Change("-"), "", "", ()))
                for part, those in _parts(answer, name):
                    for change, before, after in changed:
                        kind = _missed(those, change, base_of=before) if _at(before, part) != _at(after, part) else ""
                        if kind:
                            way = ".".join((name, *part))
                            found.append(Miss(kind, tool, line, way, change, before, after, told(those)))
        return found

    def _answers(self, engine: Engine) -> dict[tuple[str, int], CallOrigins]:
        answers = {
            site: engine.of_call(*site, [*PARAMETERS[site[0]], *sorted(names - {*PARAMETERS[site[0]]})])
            for site, names in self._seen.sites.items()
        }
        return {**answers, ANSWER: {"": engine.of_variable("answer")}}

    def _count(self, figures: Figures, origins: Origins, changed: list[tuple[Change, str, str]], tricks: bool) -> None:
        figures.arguments[tricks] += 1
        figures.changed += bool(changed)
        if any(each.kind == "unknown" for each in origins):
            figures.unknown[tricks] += 1
            return
        by = {change.tool for change, _, _ in changed}
        listed = {each.tool for each in origins if each.kind == "tool"}
        figures.listed += len(listed)
        figures.idle += len(listed - by)


def _parts(answer: CallOrigins, name: str) -> Iterable[tuple[tuple[str, ...], Origins]]:
    for key, origins in answer.items():
        if key == name:
            yield (), origins
        elif key.startswith(f"{name}."):
            yield tuple(key[len(name) + 1 :].split(".")), origins


def _at(text: str, keys: tuple[str, ...]) -> Any:
    if not keys:
        return text
    value = [json.loads(text)] if text else []
    for key in keys:
        value = [each[key] for each in _items(value) if isinstance(each, Mapping) and key in each]
    return list(value)


def _items(values: list[Any]) -> Iterable[Any]:
    for each in values:
        if isinstance(each, list):
            yield from _items(each)
        else:
            yield each


def _missed(origins: Origins, change: Change, base_of: str) -> str:
    if any(each.kind == "unknown" for each in origins):
        return ""
    if change.tool == LITERAL:
        return "" if any(each.kind in ("literal", "task", "author") for each in origins) else "literal"
    of_tool = [each.path for each in origins if each.kind == "tool" and each.tool == change.tool]
    if not of_tool:
        return "tool"
    keys = change.keys
    if not keys or change.how.startswith("error"):
        return ""
    if any(path == keys[: len(path)] for path in of_tool):
        return ""
    whole = change.how in (*OF_LIST, "none", "gone")
    return "" if whole and any(path[: len(keys)] == keys for path in of_tool) else "path"


def told(origins: Origins) -> tuple[str, ...]:
    """Return origins as texts."""
    return tuple(sorted(f"{'.'.join((each.tool or each.kind, *each.path))} ({each.how})" for each in origins))
