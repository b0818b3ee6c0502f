"""Calls of tools that broke in this run: they would be refused, so the program does not run."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from atc.facts import Finding
from atc.programs.attribution.trace import may_catch_a_tools_error
from atc.programs.program import Program


def broken_tool_findings(program: Program, broken: Mapping[str, Collection[str]]) -> list[Finding]:
    """One finding for each broken tool that a program calls without being ready for its failure.

    Args:
        program: the program.
        broken: the tools that are not called any more, each with those that give the same.
    """
    if program.tree is None or not broken:
        return []
    ready = {id(node) for made in ast.walk(program.tree) if isinstance(made, ast.Try) and _is_ready(made)
             for statement in made.body for node in ast.walk(statement)}  # fmt: skip
    lines: dict[str, int] = {}
    for node in ast.walk(program.tree):
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and node.id in broken
            and id(node) not in ready
        ):
            lines.setdefault(node.id, node.lineno)
    return [
        Finding(kind="broken_tool", line=line, tool=tool, instead=tuple(broken[tool])) for tool, line in lines.items()
    ]


def _is_ready(made: ast.Try) -> bool:
    return any(may_catch_a_tools_error(handler.type) for handler in made.handlers)
