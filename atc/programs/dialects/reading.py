"""Reads a program that is written for another runtime as one over plain functions, which tools are here.

Dialects are no rules: none changes what a program would do that runs as it is written. The lines keep their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from atc.facts import Finding
from atc.programs.dialects import awaits, tool_names
from atc.programs.program import Program
from atc.programs.repair.edits import Rewrite, apply
from atc.tools.protocol import Protocol

_FORMS = re.compile(r"\b(?:await|async|asyncio|tools|functions|call_tool|mcp__)")
_ROUNDS = 6
"""How often a program is looked at again: a call of a tool inside another one's arguments is seen in the next round."""


def in_plain_python(
    program: Program, protocols: Mapping[str, Protocol], inputs: Collection[str] = ()
) -> tuple[Program, tuple[Rewrite, ...]]:
    """Return the program over plain functions, and what was rewritten; the same program where it has no such form.

    Args:
        program: as its author wrote it. One that does not parse is left alone.
        protocols: the tools that it may call, by name.
        inputs: the names of the values that stand in its scope before it runs.
    """
    made: list[Rewrite] = []
    if _FORMS.search(program.source) is None:
        return program, ()
    for dialect in (tool_names.rewrites, awaits.rewrites):
        for _ in range(_ROUNDS):
            found = dialect(program, protocols, inputs) if program.tree is not None else ()
            program, rewrites = apply(program, found)
            if not rewrites:
                break
            made += rewrites
    return program, tuple(made)


def unclear_tools(program: Program, protocols: Mapping[str, Protocol], inputs: Collection[str] = ()) -> list[Finding]:
    """The names of this kind that may mean several tools, or name another server than has the tool; each an error."""
    if program.tree is None or _FORMS.search(program.source) is None:
        return []
    return tool_names.unclear(program, protocols, inputs)
