"""What is rewritten in a program, in order: its dialect, its frame, then what the schemas leave one way to mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from atc.programs.dialects.reading import in_plain_python
from atc.programs.program import Program
from atc.programs.repair import frame, schema
from atc.programs.repair.context import Repair, RepairContext
from atc.programs.repair.edits import Rewrite, apply


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
    "name-spelling": schema.correct_names, "list-in-object": schema.take_lists, "key-spelling": schema.correct_keys,
    "argument-spelling": schema.correct_arguments,
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
