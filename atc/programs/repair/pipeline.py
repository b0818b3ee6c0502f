"""Repair by the schemas what can only be meant one way, without asking the model.

RETO §3.4 repairs a rejected call by rule before it spends a model call. Here the same is done to a whole program
before it runs. Only an expression that is sure to fail is touched, and only where the schemas leave one repair:

- a name that nothing binds, and that one variable or tool has in another spelling, means that one;
- a loop over, or an index into, a response object means the one list in it whose items have the keys that are read;
- a key in another spelling (``productId`` for ``product_id``) means the one that exists;
- an argument in another spelling means the one that exists.

What is read of a response is repaired where its document closes the object (``additionalProperties: false``), and
nowhere else: an open document names some of the keys that are there, and a program may know another one.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from atc._host.syntax import walk
from atc.programs.analysis.values import Value, schemas_at
from atc.programs.check.calls import Names
from atc.programs.dialects.awaits import in_plain_python
from atc.programs.edits import Edit, Repair, RepairContext, Rewrite, apply, insert_after, replace
from atc.programs.program import Program
from atc.programs.repair import frame
from atc.programs.syntax import span_of
from atc.result import Effect
from atc.schemas.protocol import JsonSchema, parameters_of
from atc.schemas.repair.spelling import respelt, spelling_key
from atc.schemas.validate import types_of

MAX_UNKNOWN = 50
"""Unknown arguments of one call of which it is asked what they mean."""


def correct_names(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """A name that nothing binds means the one variable or tool of another spelling."""
    for node, name in Names(program.module, context.protocols, context.inputs).misspelt():
        note = f"line {node.lineno}: read the name {node.id} as {name}"
        yield Rewrite("name-spelling", note, (replace(node, name),))


# -- responses ---------------------------------------------------------------------------------------------------------


class _Closed:
    """The objects of responses whose documents close them, as the expressions of a program surely are them.

    Nothing is sure of what the program itself adds to, or of what it asks which type it has.
    """

    def __init__(self, program: Program, context: RepairContext) -> None:
        self._protocols, self.flow = context.protocols, program.flow(context.protocols)

    def at(self, node: ast.expr) -> Mapping[str, JsonSchema] | None:
        """Return the fields of the closed object that a name, a call or a look-up surely is."""
        if not isinstance(node, ast.Name | ast.Call | ast.Subscript) or node.lineno in self.flow.hedged_lines:
            return None
        return self.of(self.flow.at(span_of(node)))

    def of(self, value: Value) -> Mapping[str, JsonSchema] | None:
        """Return the fields of the closed object that a value surely is; ``None`` unless all that it can be agrees."""
        flow, origins = self.flow, value.origins
        if not flow.complete or not origins or value.open or value.cells or value.functions:
            return None
        if origins & flow.type_tested or not flow.added.keys().isdisjoint({None, *(origin.site for origin in origins)}):
            return None
        places = [found for o in origins for found in schemas_at(self._protocols[o.tool].returns, o.path) or [_OPEN]]
        first = _fields(places[0])
        return first if first is not None and all(_fields(place) == first for place in places) else None

    def items(self, node: ast.expr, key: str) -> Mapping[str, JsonSchema] | None:
        """Return the fields of the items of the list under a key, where the document closes them."""
        return self.of(self.flow.at(span_of(node)).key(key).item(0))


_OPEN: JsonSchema = {}


def _fields(place: JsonSchema) -> Mapping[str, JsonSchema] | None:
    fields = place.get("properties")
    closed = place.get("additionalProperties") is False and not place.get("patternProperties")
    return fields if closed and isinstance(fields, dict) and types_of(place) <= {"object", "null"} else None


def take_lists(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """A loop over, or an index into, a response object means the list in it.

    JSON has no object with a number for a key, and what a loop over an object gives are texts, which have no keys.
    """
    closed = _Closed(program, context)
    for iterated, names, scope in _iterations(program.nodes):
        if keys := _read_of(names, scope):
            yield from _list_inside(closed, iterated, keys)
    around = {id(n.value): n for n in program.nodes if isinstance(n, ast.Subscript)}
    for node in program.nodes:
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
            continue
        if isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
            read = around.get(id(node))
            key = read.slice.value if read is not None and isinstance(read.slice, ast.Constant) else None
            yield from _list_inside(closed, node.value, {key} if isinstance(key, str) else set())


def _list_inside(closed: _Closed, node: ast.expr, read: set[str]) -> Iterator[Rewrite]:
    """Yield the list that is meant by a response object; ``read``: the keys that its items are asked for."""
    fields = closed.at(node) or {}
    lists = [key for key, field in fields.items() if isinstance(field, dict) and types_of(field) == {"array"}]
    if len(lists) > 1:
        items = {key: closed.items(node, key) for key in lists}
        if any(found is None for found in items.values()):
            return  # the items of an open document may have these keys, too
        lists = [key for key, found in items.items() if read and read <= {*(found or ())}]
    if len(lists) == 1:
        note = f"line {node.lineno}: took the list [{lists[0]!r}] of the response object"
        yield Rewrite("list-in-object", note, (insert_after(node, f"[{lists[0]!r}]"),))


def correct_keys(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """A key in another spelling means the one that exists, if the program does not ask whether it is there."""
    closed = _Closed(program, context)
    for access in closed.flow.accesses.values():
        node, key, fields = access.node, access.key, closed.of(access.base)
        if fields is None or access.hedged or key in closed.flow.tested or None in closed.flow.tested:
            continue
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(key, str):
            alike = [name for name in fields if spelling_key(name) == spelling_key(key)]
            if len(alike) == 1 and key not in fields:
                note = f"line {node.lineno}: read {key!r} as {alike[0]!r}"
                yield Rewrite("key-spelling", note, (replace(node.slice, repr(alike[0])),))


# -- arguments ---------------------------------------------------------------------------------------------------------


def correct_arguments(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """An argument in another spelling means the one that exists; of a read, ``id`` the one id that is missing.

    A tool whose document takes arguments that it does not name keeps what it is given.
    """
    for call in program.flow(context.protocols).calls.values():
        protocol, node = context.protocols[call.tool], call.node
        if protocol.parameters.get("additionalProperties") or protocol.parameters.get("patternProperties"):
            continue
        parameters = {parameter.name: parameter.required for parameter in parameters_of(protocol)}
        named = {k.arg: k for k in itertools.takewhile(lambda k: k.arg is not None, node.keywords) if k.arg is not None}
        unknown = [name for name in named if name not in parameters]
        used = {k.arg for k in node.keywords if k.arg is not None} | {*list(parameters)[: len(node.args)]}
        required = [name for name, needed in parameters.items() if needed]
        strict = protocol.effect is not Effect.READ
        few = unknown if len(unknown) <= MAX_UNKNOWN else []
        for given, name in respelt(few, parameters, used, required, strict=strict, endings=not strict).items():
            line, column = named[given].lineno, named[given].col_offset
            edit = Edit((line, column), (line, column + len(given.encode())), name)
            yield Rewrite("argument-spelling", f"line {line}: read the argument {given} as {name}", (edit,))


def _iterations(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, set[str], Sequence[ast.AST]]]:
    """Yield what is iterated, the names that its items get, and where these are used."""
    for node in nodes:
        match node:
            case ast.For():
                yield node.iter, _names(node.target), node.body
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part):
                yield from ((g.iter, _names(g.target), [part, *node.generators]) for g in node.generators)
            case ast.DictComp():
                yield from (
                    (g.iter, _names(g.target), [node.key, node.value, *node.generators]) for g in node.generators
                )
            case ast.Call(func=ast.Name(id="max" | "min" | "sorted"), args=[iterated], keywords=keywords):
                for keyword in keywords:
                    if keyword.arg == "key" and isinstance(keyword.value, ast.Lambda) and keyword.value.args.args:
                        yield iterated, {keyword.value.args.args[0].arg}, [keyword.value.body]


def _names(target: ast.expr) -> set[str]:
    return {target.id} if isinstance(target, ast.Name) else set()


def _read_of(names: set[str], scope: Sequence[ast.AST]) -> set[str]:
    """Return the keys that these names are asked for."""
    return {
        n.slice.value
        for part in scope
        for n in walk(part)
        if isinstance(n, ast.Subscript)
        and isinstance(n.value, ast.Name)
        and n.value.id in names
        and isinstance(n.slice, ast.Constant)
        and isinstance(n.slice.value, str)
    }


# ----------------------------------------------------------------------------------------------------------------------
# What is rewritten in a program, in order: its dialect, its frame, then what the schemas leave one way to mean.


@dataclass(frozen=True)
class Pass:
    """Rules that look at the same version of a program.

    Attributes:
        rules: by their ids, in the order in which they come first to a place.
        rounds: how often they look at what they have made: one repair shows the next.
        first: only the first rule that finds something rewrites.
    """

    rules: Mapping[str, Repair]
    rounds: int = 1
    first: bool = False


FRAME = (
    Pass({"copied-stubs": frame.drop_copies}),
    Pass({"return-as-answer": frame.take_return, "uncalled-function": frame.call_function,
          "last-expression": frame.take_last_expression, "printed-answer": frame.collect_prints,
          "last-variable": frame.take_last_variable}, first=True),
)  # fmt: skip
SCHEMA = Pass({
    "name-spelling": correct_names, "list-in-object": take_lists, "key-spelling": correct_keys,
    "argument-spelling": correct_arguments,
}, rounds=6)  # fmt: skip
PASSES = (*FRAME, SCHEMA)


def repair_program(
    program: Program, context: RepairContext, passes: tuple[Pass, ...] = PASSES
) -> tuple[Program, tuple[Rewrite, ...]]:
    """Return the repaired program, and what was rewritten, in order; the same program where nothing was.

    A program that does not parse is left alone. Every version of the program is parsed and analysed once.

    Args:
        program: as the model wrote it.
        context: the tools, and the rules that are on.
        passes: :data:`FRAME` alone where a program is not to be checked.
    """
    made: list[Rewrite] = []
    if context.dialects:
        program, read = in_plain_python(program, context.protocols, context.inputs)
        made += read
    for each in passes:
        for _ in range(each.rounds):
            repaired, rewrites = apply(program, _found(each, program, context))
            if not rewrites:
                break
            program = repaired
            made += rewrites
    return program, tuple(made)


def _found(each: Pass, program: Program, context: RepairContext) -> Iterator[Rewrite]:
    if program.tree is None:
        return
    for name, rule in each.rules.items():
        found = list(rule(program, context)) if name in context.rules else []
        yield from found
        if found and each.first:
            return
