"""What a run has learned of its tools, held against the next program before it runs.

A call that found nothing is answered from the journal and finds nothing again. Where a later program repeats it with an
optional argument that the task never gave, that argument is left out: it was made up. And a reading call that was
refused, and whose answer nothing uses, is left out of the next program: it would end it again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from atc.calls.canonical import canonical
from atc.programs.attribution.responses import is_empty_response
from atc.programs.program import Program
from atc.programs.repair.context import RepairContext
from atc.programs.repair.edits import Rewrite, replace
from atc.programs.syntax import idle_values
from atc.result import Effect
from atc.tools.parameters import original_arguments, parameters_of
from atc.tools.protocol import Protocol


def leave_out_invented_arguments(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """Leave out optional arguments that were made up and with which the same call found nothing before.

    A value that stands in the task is never left out.
    """
    empty = {(c.tool, canonical(c.arguments)) for c in context.calls if c.succeeded and is_empty_response(c)}
    for node, protocol in _calls(program, context.observed) if empty else ():
        given = _literals(node)
        if given is None or (protocol.name, canonical(original_arguments(protocol, given))) not in empty:
            continue
        optional, task = {p.name for p in parameters_of(protocol) if not p.required}, context.task.casefold()
        invented = {name for name, value in given.items() if name in optional and str(value).casefold() not in task}
        if invented:
            kept = [f"{k.arg}={ast.unparse(k.value)}" for k in node.keywords if k.arg not in invented]
            names = ", ".join(sorted(invented))
            note = f"line {node.lineno}: left out {names}: {protocol.name} found nothing with it"
            edit = replace(node, f"{protocol.name}({', '.join(kept)})")
            yield Rewrite("invented-argument", note, (edit,))


def leave_out_idle_refusals(program: Program, context: RepairContext) -> Iterator[Rewrite]:
    """Leave out reading calls that failed before and whose answer nothing uses: none is taken, or into a name that
    nothing reads."""
    failed = {(c.tool, canonical(c.arguments)) for c in context.calls if not c.succeeded and c.effect is Effect.READ}
    idle = idle_values(program.nodes) if failed else {}
    for node, protocol in _calls(program, context.observed) if failed else ():
        given = _literals(node)
        known = given is not None and (protocol.name, canonical(original_arguments(protocol, given))) in failed
        if known and node in idle and protocol.effect is Effect.READ:
            note = f"line {node.lineno}: left out {protocol.name}, which failed before and nothing uses"
            nothing = "pass" if isinstance(idle[node], ast.Expr) else "None"
            yield Rewrite("idle-refusal", note, (replace(node, nothing),))


def _calls(program: Program, protocols: Mapping[str, Protocol]) -> Iterator[tuple[ast.Call, Protocol]]:
    """The calls of tools with keyword arguments only."""
    for n in program.nodes:
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in protocols and not n.args:
            yield n, protocols[n.func.id]


def _literals(node: ast.Call) -> dict[str, Any] | None:
    """All arguments, if all are literals."""
    try:
        return {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg is not None}
    except (ValueError, TypeError, SyntaxError):
        return None
