"""A program that waits for what a tool answered, as if the tool were a coroutine: no tool is at fault for that."""

from __future__ import annotations

import ast

from atc.outcome import ProgramError
from atc.programs.analysis.flow import Flow
from atc.programs.dialects.awaits import awaits_outside
from atc.programs.program import Program
from atc.programs.syntax import span_of

_WAITERS = {"gather", "wait_for", "as_completed", "create_task", "ensure_future", "run_until_complete"}


def awaits_a_value(program: Program, flow: Flow, error: ProgramError) -> bool:
    """Whether an exception comes of ``await``, or of a function of ``asyncio``, on the value of a tool; or of ``await``
    outside a coroutine."""
    if error.type == "SyntaxError":
        return bool(awaits_outside(program))
    for node in program.nodes if error.type == "TypeError" else ():
        if isinstance(node, ast.Await):
            parts = [node.value]
        elif isinstance(node, ast.Call) and _name(node.func) in _WAITERS:
            parts = [*node.args, *(keyword.value for keyword in node.keywords)]
        else:
            continue
        failed = span_of(node) == error.span if error.span else node.lineno <= error.line <= (node.end_lineno or 0)
        if failed and any(flow.at(span_of(part)).derived().origins for part in parts):
            return True
    return False


def _name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
