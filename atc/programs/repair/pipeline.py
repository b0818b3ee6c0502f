"""Repair by the schemas what can only be meant one way, without asking the model.

RETO §3.4 repairs a rejected call by rule before it spends a model call. Here the same is done to a whole program
before it runs. Only an expression that is sure to fail is touched, and only where the schemas leave one repair:

- a name that nothing binds, and that one variable or tool has in another spelling, means that one;
- a key in another spelling (``productId`` for ``product_id``) means the one that exists;
- an argument in another spelling means the one that exists.

What is read of a response is repaired where its document closes the object (``additionalProperties: false``), and
nowhere else: an open document names some of the keys that are there, and a program may know another one.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping

from atc.programs.analysis.values import Value, schemas_at
from atc.programs.check.calls import Names
from atc.programs.dialects.awaits import in_plain_python
from atc.programs.edits import Edit, Repair, RepairContext, Rewrite, apply, replace
from atc.programs.program import Program
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
    """The objects of responses whose documents close them, as the values of a program surely are them.

    Nothing is sure of what the program itself adds to, or of what it asks which type it has.
    """

    def __init__(self, program: Program, context: RepairContext) -> None:
        self._protocols, self.flow = context.protocols, program.flow(context.protocols)

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


_OPEN: JsonSchema = {}


def _fields(place: JsonSchema) -> Mapping[str, JsonSchema] | None:
    fields = place.get("properties")
    closed = place.get("additionalProperties") is False and not place.get("patternProperties")
    return fields if closed and isinstance(fields, dict) and types_of(place) <= {"object", "null"} else None


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


# ----------------------------------------------------------------------------------------------------------------------
# What is rewritten in a program, in order: its dialect, then what the schemas leave one way to mean.


RULES: Mapping[str, Repair] = {
    "name-spelling": correct_names, "key-spelling": correct_keys, "argument-spelling": correct_arguments,
}  # fmt: skip
"""The rules by their ids, in the order in which they come first to a place."""
ROUNDS = 6
"""How often they look at what they have made: one repair shows the next."""


def repair_program(program: Program, context: RepairContext) -> tuple[Program, tuple[Rewrite, ...]]:
    """Return the repaired program, and what was rewritten, in order; the same program where nothing was.

    A program that does not parse is left alone. Every version of the program is parsed and analysed once.

    Args:
        program: as the model wrote it.
        context: the tools, and the rules that are on.
    """
    made: list[Rewrite] = []
    if context.dialects:
        program, read = in_plain_python(program, context.protocols, context.inputs)
        made += read
    for _ in range(ROUNDS):
        repaired, rewrites = apply(program, _found(program, context))
        if not rewrites:
            break
        program = repaired
        made += rewrites
    return program, tuple(made)


def _found(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    if program.tree is not None:
        for name, rule in RULES.items():
            if name in context.rules:
                yield from rule(program, context)
