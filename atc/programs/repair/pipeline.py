"""Repair by the schemas what can only be meant one way, without asking the model.

RETO §3.4 repairs a rejected call by rule before it spends a model call. Here the same is done to a whole program
before it runs. Only an expression that is sure to fail is touched, and only where the schemas leave one repair:

- a name that nothing binds, and that one variable or tool has in another spelling, means that one;
- an argument in another spelling means the one that exists.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from atc.programs.check.calls import Names
from atc.programs.dialects.awaits import in_plain_python
from atc.programs.edits import Edit, Repair, RepairContext, Rewrite, apply, replace
from atc.programs.program import Program
from atc.result import Effect
from atc.schemas.protocol import parameters_of
from atc.schemas.repair.spelling import respelt

MAX_UNKNOWN = 50
"""Unknown arguments of one call of which it is asked what they mean."""


def correct_names(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """A name that nothing binds means the one variable or tool of another spelling."""
    for node, name in Names(program.module, context.protocols, context.inputs).misspelt():
        note = f"line {node.lineno}: read the name {node.id} as {name}"
        yield Rewrite("name-spelling", note, (replace(node, name),))


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


RULES: Mapping[str, Repair] = {"name-spelling": correct_names, "argument-spelling": correct_arguments}
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
