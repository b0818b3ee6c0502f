"""Where a program that is being written departs from its tools' types, and what may stand there instead.

After each statement the check's own flow analysis says what every expression of it can be, also of variables that the
statement itself binds. A departure names its place in the text and the texts that the types allow there:

- ``key``: a key that the documents do not name of this object. Never one whose words all stand in the task;
- ``nesting``: a key of a list, a position of an object, or a loop over an object that holds lists;
- ``argument``: an argument that the tool does not have;
- ``name``: a call of what is nowhere;
- ``id``: an identifier that nobody gave, or another part of a response in its place. What may stand there is a part of
  a response that is at hand, or the call of a tool that gives one;
- ``whole``: a list or an object where one plain value is wanted, and one value where a list is wanted.

What it cannot see: values of an open type (a response without a document), variables of a function that is not called
yet, parts of f-strings where the running Python does not tell their places, everything behind an import with ``*``, and
a program that stands in no fence.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from atc import wording
from atc._records.rules import DEFAULT
from atc.catalogue.graph.suppliers import Supplier
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.interpreter import Access, ToolCall
from atc.programs.analysis.values import ITEM, Shape, Step, Value, shape_at
from atc.programs.check.calls import Names, written
from atc.programs.check.checker import Checker
from atc.programs.edits import RepairContext
from atc.programs.program import Program
from atc.programs.repair.pipeline import repair_program
from atc.programs.syntax import span_of
from atc.result import Effect
from atc.schemas.identifiers import THINGS, is_identifier, singular, words_of
from atc.schemas.protocol import Parameter, Protocol, parameters_of
from atc.schemas.reading import allows_more
from atc.schemas.validate import types_of
from benchmarks.guided_lines import completed

Kind = Literal["key", "nesting", "argument", "name", "id", "whole"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MAX_CHOICES, MAX_CHARACTERS = 200, 20_000
"""Texts that may stand at a place, and their length in all. Of more none is offered: one left out might be right."""
_PLAIN = {"string", "integer", "number", "boolean"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Departure:
    """One place where the text departs from the types.

    Attributes:
        at: offset in the program's text; ``until``: of the end of what stands there.
        choices: the texts that may stand there instead.
        only: nothing else can be right; otherwise the documents only weigh for them.
    """

    kind: Kind
    at: int
    until: int
    choices: tuple[str, ...]
    only: bool


def quoted(key: str, quote: str) -> str | None:
    """Return a key as it stands behind an opening quote, with the closing one; ``None`` if it cannot be printed."""
    if not key.isprintable():
        return None
    return key.replace("\\", "\\\\").replace(quote, f"\\{quote}") + quote


class Types:
    """The types of one task's tools, held to programs over them.

    Args:
        protocols: the tools. ``task``: what the user asks.
        inputs: names that stand in a program's scope before it runs.
    """

    def __init__(self, protocols: Sequence[Protocol], task: str, inputs: Collection[str] = ()) -> None:
        self._inputs = frozenset(inputs)
        self._protocols = {protocol.name: protocol for protocol in protocols}
        self._graph = ToolGraph(list(protocols))
        self._checker = Checker(list(protocols), graph=self._graph)
        self._task = task.casefold()
        words = re.findall(r"\w+", self._task.replace("_", " "))
        self._words = {*words, *map(singular, words)}

    def departure(self, code: str, start: int) -> Departure | None:
        """Return the first departure in the statement that begins at ``start`` and ends the text.

        Args:
            code: whole statements.
        """
        return next(iter(self.departures(code, start)), None)

    def departures(self, code: str, start: int) -> list[Departure]:
        """Return all departures of that statement, in the order of the text."""
        program = Program(completed(code))
        if program.tree is None or not (flow := program.flow(self._protocols)).complete:
            return []
        text = _Text(code, start)
        found = [
            *self._keys(flow, text),
            *self._loops(program, flow, text),
            *self._arguments(flow, text),
            *self._names(program.tree, text),
            *self._ids(program, flow, text),
            *self._whole(flow, text),
        ]
        return sorted((each for each in found if start <= each.at and each.choices), key=lambda each: each.at)

    def certainly_wrong(self, code: str, start: int) -> str:
        """Return why no run gets through the statement that begins at ``start``; empty where one may.

        Only errors of the check count, and only where its repairs leave one.
        """
        program = Program(completed(code))
        if program.problem is not None:
            return program.problem.message
        context = RepairContext(self._protocols, DEFAULT, self._inputs)
        repaired, _ = repair_program(program, context)
        line = code.count("\n", 0, start) + 1
        within = _lines_of_functions(program.module)
        for found in self._checker.check(repaired, inputs=self._inputs):
            later = found.kind in ("undefined_name", "unknown_tool") and found.line in within  # it may be bound by then
            if found.severity == "error" and found.line >= line and not later:
                return wording.finding_alone(found)
        return ""

    # -- fields --------------------------------------------------------------------------------------------------------

    def _keys(self, flow: Flow, text: _Text) -> Iterator[Departure]:
        for access in flow.accesses.values():
            shapes = self._shapes(access.base)
            if not shapes or access.attribute or self._is_forgiven(access, flow) or not text.holds(access.node):
                continue
            if isinstance(access.key, str) and all(shape.kind == "record" for shape in shapes):
                if any(access.key in shape.keys for shape in shapes) or self._in_task(access.key):
                    continue
                yield from self._key(access, shapes, text)
            elif isinstance(access.node, ast.Subscript) and isinstance(access.node.ctx, ast.Load):
                at, until = text.end(access.node.value), text.end(access.node)
                yield from _bounded("nesting", at, until, self._steps(access), only=False)

    def _key(self, access: Access, shapes: Sequence[Shape], text: _Text) -> Iterator[Departure]:
        node, plain = access.node, isinstance(access.node, ast.Subscript)
        literal = (
            node.slice if isinstance(node, ast.Subscript) else node.args[0] if isinstance(node, ast.Call) else None
        )
        if not isinstance(literal, ast.Constant) or (place := text.inside(literal)) is None:
            return
        at, until, quote = place
        keys = dict.fromkeys(key for shape in shapes for key in shape.keys)
        close = "]" if plain and until + 1 == text.end(node) else ""  # or more is written within the brackets
        choices = [made + close for key in keys if (made := quoted(key, quote)) is not None]
        only = plain and all(shape.closed for shape in shapes)
        yield from _bounded("key", at, until + len(close), choices, only=only)

    def _steps(self, access: Access) -> list[str]:
        """Return the look-ups that fit where a list was asked for a key, or an object for a position."""
        shapes = self._shapes(access.base)
        if isinstance(access.key, str) and all(shape.kind == "list" for shape in shapes):
            items = self._shapes(access.base.item(0))
            keys = dict.fromkeys(key for shape in items for key in shape.keys)
            return [f"[0]{_look_up(key)}" for key in keys if key.isprintable()] or (["[0]"] if items else [])
        if isinstance(access.key, int) and all(shape.kind == "record" for shape in shapes):
            return [f"{_look_up(key)}[{access.key}]" for key in self._lists(access.base)]
        return []

    def _loops(self, program: Program, flow: Flow, text: _Text) -> Iterator[Departure]:
        """Yield loops over an object: they see its keys alone."""
        for node in program.nodes:
            if isinstance(node, ast.For | ast.comprehension) and text.holds(node.iter):
                value, at = flow.at(span_of(node.iter)), text.end(node.iter)
                if all(shape.kind == "record" for shape in self._shapes(value)) and (after := text.code[at : at + 1]):
                    choices = [_look_up(key) + after for key in self._lists(value)]
                    yield from _bounded("nesting", at, at + 1, choices, only=False)

    def _lists(self, value: Value) -> list[str]:
        """Return the keys of an object under which lists stand."""
        keys = dict.fromkeys(key for shape in self._shapes(value) for key in shape.keys if key.isprintable())
        return [key for key in keys if all(below.kind == "list" for below in self._shapes(value.key(key)) or [_OPEN])]

    def _shapes(self, value: Value) -> list[Shape]:
        """Return the shapes of all that a value can be; none where it can be something unknown."""
        if value.open or value.cells or value.functions:
            return []
        return [
            shape_at(self._protocols[origin.tool].returns, origin.path) for origin in sorted(value.origins, key=str)
        ]

    def _is_forgiven(self, access: Access, flow: Flow) -> bool:
        """Return whether the program is ready for the key not to be there, put it there, or asked for the type.

        ``get`` is not: it makes a wrong answer out of a wrong key.
        """
        asks = isinstance(access.node, ast.Call)
        if (access.hedged or access.key in flow.tested) and not asks:
            return True
        sites = {origin.site for origin in access.base.origins}
        return bool(access.base.origins & flow.type_tested) or not flow.added.keys().isdisjoint({None, *sites})

    def _in_task(self, key: str) -> bool:
        words = set(words_of(key))
        return bool(words) and words <= self._words

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _arguments(self, flow: Flow, text: _Text) -> Iterator[Departure]:
        for call, protocol in self._calls(flow, text):
            parameters = parameters_of(protocol)
            known = {name for each in parameters for name in (each.name, each.original)}
            given = {name for name, _ in written(call, parameters)}
            choices = [f"{each.name}=" for each in parameters if each.name not in given]
            if all(each.name in given for each in parameters if each.required):
                choices.append(")")  # the call may end behind a comma
            only = protocol.parameters.get("additionalProperties") is False or protocol.effect is not Effect.READ
            for keyword in call.node.keywords:
                if keyword.arg is None or keyword.arg in known or allows_more(protocol.parameters):
                    continue
                at = text.start(keyword)
                if text.code.startswith(f"{keyword.arg}=", at):
                    yield from _bounded("argument", at, at + len(keyword.arg) + 1, choices, only=only)

    def _names(self, tree: ast.Module, text: _Text) -> Iterator[Departure]:
        """Yield calls of what is nowhere. A function's body may call what is defined behind it."""
        within = _lines_of_functions(tree)
        nowhere = {
            id(node) for node in Names(tree, self._protocols, self._inputs).nowhere() if node.lineno not in within
        }
        own = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        choices = [f"{name}(" for name in (*self._protocols, *own)]
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and id(node.func) in nowhere:
                at = text.start(node.func)
                if text.code.startswith(f"{node.func.id}(", at):
                    yield from _bounded("name", at, at + len(node.func.id) + 1, choices, only=True)

    def _ids(self, program: Program, flow: Flow, text: _Text) -> Iterator[Departure]:
        invented: dict[tuple[int, str | None, str], bool] = {}
        for found in self._checker.check(program, self._task, self._inputs):
            if found.kind in ("invented_id", "name_for_id") and found.arguments and not found.name:
                invented[found.line, found.tool, found.arguments[0]] = found.kind == "invented_id"
        for call, protocol in self._calls(flow, text):
            parameters = {each.name: each for each in parameters_of(protocol)}
            for name, node in written(call, [*parameters.values()]):
                place = (call.node.lineno, call.tool, name)
                if name not in parameters or not (place in invented or self._is_other_part(name, flow, node)):
                    continue
                if (span := text.with_next(node)) is not None:
                    choices = self._expressions(call, parameters[name], flow, text)
                    choices = [made + span[2] for made in choices]
                    if place in invented:
                        choices += self._first_calls(call, parameters[name])
                    yield from _bounded("id", span[0], span[1], choices, only=invented.get(place, False))

    def _is_other_part(self, name: str, flow: Flow, node: ast.expr) -> bool:
        """Return whether an identifier is given a part of a response that bears the name of no identifier."""
        value = flow.at(span_of(node))
        if not is_identifier(name, THINGS) or not all(
            shape.kind == "scalar" for shape in self._shapes(value) or [_OPEN]
        ):
            return False
        ends = [next((step for step in reversed(origin.path) if isinstance(step, str)), "") for origin in value.origins]
        return all(end and not is_identifier(end) for end in ends)

    def _expressions(self, call: ToolCall, parameter: Parameter, flow: Flow, text: _Text) -> list[str]:
        """Return what can be an argument, by the tools that supply it, of the variables that were bound before."""
        found = dict[str, None]()
        for supplier in self._graph.suppliers_into(call.tool).get(parameter.original, ()):
            for name, value in flow.scope.names.items():
                if not self._shapes(value) or any(origin.line >= text.line for origin in value.origins):
                    continue
                rests = {_rest(supplier, origin.tool, origin.path) for origin in value.origins}
                if len(rests) == 1 and (rest := rests.pop()) is not None:
                    found[name + rest] = None
        return [*found]

    def _first_calls(self, call: ToolCall, parameter: Parameter) -> list[str]:
        """Return how a call begins of each tool that reads such an argument; the model goes on from there."""
        suppliers = self._graph.suppliers_into(call.tool).get(parameter.original, ())
        reads = [each.tool for each in suppliers if each.known and not each.writes and each.tool != call.tool]
        return [f"{tool}(" for tool in dict.fromkeys(reads)]

    def _whole(self, flow: Flow, text: _Text) -> Iterator[Departure]:
        for call, protocol in self._calls(flow, text):
            parameters = {each.name: each for each in parameters_of(protocol)}
            for name, node in written(call, [*parameters.values()]):
                span = text.with_next(node)
                if name not in parameters or span is None:
                    continue
                source, wanted = text.code[span[0] : span[1] - 1], types_of(parameters[name].schema) - {"null"}
                value = flow.at(span_of(node))
                choices = [f"{source}{each}{span[2]}" for each in self._fitting(value, wanted)]
                if wanted == {"array"} and (self._is_single(value) or _is_plain_literal(node)):
                    choices = [f"[{source}]{span[2]}"]
                yield from _bounded("whole", span[0], span[1], choices, only=False)

    def _fitting(self, value: Value, wanted: set[str] | frozenset[str]) -> list[str]:
        """Return the look-ups into a list or an object that give one plain value of a wanted type."""
        shapes = self._shapes(value)
        if not shapes or not wanted or not wanted <= _PLAIN:
            return []
        if all(shape.kind == "list" for shape in shapes):
            return [f"[0]{each}" for each in self._fitting(value.item(0), wanted)] or (
                ["[0]"] if self._gives(value.item(0), wanted) else []
            )
        keys = shapes[0].keys if len(set(shapes)) == 1 and shapes[0].kind == "record" else ()
        return [_look_up(key) for key in keys if key.isprintable() and self._gives(value.key(key), wanted)]

    def _gives(self, value: Value, wanted: set[str] | frozenset[str]) -> bool:
        shapes = self._shapes(value)
        return bool(shapes) and all(shape.kind == "scalar" and shape.type in wanted for shape in shapes)

    def _is_single(self, value: Value) -> bool:
        shapes = self._shapes(value)
        return bool(shapes) and all(shape.kind in ("scalar", "record") for shape in shapes)

    def _calls(self, flow: Flow, text: _Text) -> Iterator[tuple[ToolCall, Protocol]]:
        for call in flow.calls.values():
            if call.direct and text.holds(call.node):
                yield call, self._protocols[call.tool]


_OPEN = Shape("open")


class _Text:
    """The text of a program, and the places of its nodes in it.

    Args:
        code: the text. ``start``: where its last statement begins.
    """

    def __init__(self, code: str, start: int) -> None:
        self.code, self.line = code, code.count("\n", 0, start) + 1
        self._lines = code.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def holds(self, node: ast.expr) -> bool:
        """Return whether a node stands in the last statement."""
        return node.lineno >= self.line and (node.end_lineno or 0) <= len(self._lines)

    def start(self, node: ast.expr | ast.keyword) -> int:
        return self._offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.keyword) -> int:
        return self._offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def inside(self, literal: ast.Constant) -> tuple[int, int, str] | None:
        """Return the span of a text behind its opening quote, and the quote; ``None`` if it is written otherwise."""
        at, until = self.start(literal), self.end(literal)
        quote = self.code[at : at + 1]
        if quote not in ("'", '"') or self.code[at + 1 : until] != f"{literal.value!s}{quote}":
            return None
        return at + 1, until, quote

    def with_next(self, node: ast.expr) -> tuple[int, int, str] | None:
        """Return the span of an argument with the sign behind it, and the sign; ``None`` where it is neither ``,`` nor
        ``)``, as within an f-string, whose parts Python may place anywhere.
        """
        at, until = self.start(node), self.end(node)
        after = self.code[until : until + 1]
        return (at, until + 1, after) if after in (",", ")") and after else None

    def _offset(self, line: int, column: int) -> int:
        """Return the offset of a line, counted from 1, and a column in bytes."""
        if line > len(self._lines):
            return len(self.code)
        text = self._lines[line - 1]
        return self._starts[line - 1] + (
            column if text.isascii() else len(text.encode()[:column].decode("utf-8", "ignore"))
        )


def _bounded(kind: Kind, at: int, until: int, choices: Sequence[str], *, only: bool) -> Iterator[Departure]:
    """Yield a departure with these choices, if there are some, and not too many."""
    if choices and len(choices) <= MAX_CHOICES and sum(map(len, choices)) <= MAX_CHARACTERS:
        yield Departure(kind, at, until, tuple(choices), only)


def _look_up(key: str) -> str:
    return f'["{quoted(key, chr(34))}]'


def _rest(supplier: Supplier, tool: str, path: Sequence[Step]) -> str | None:
    """Return the look-ups from a part of a tool's response to the value that it supplies; ``None``: it has none."""
    steps = ["[]" if step == ITEM or not isinstance(step, str) else step for step in path]
    rest = supplier.path[len(steps) :]
    if supplier.tool != tool or not supplier.known or list(supplier.path[: len(steps)]) != steps:
        return None
    if supplier.inside or not all(map(str.isprintable, rest)):
        return None
    return "".join("[0]" if step == "[]" else _look_up(step) for step in rest)


def _is_plain_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | int | float) and node.value is not True


def _lines_of_functions(tree: ast.Module) -> set[int]:
    """Return the lines of bodies of functions: they run later, if at all."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, _FUNCTIONS)
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
