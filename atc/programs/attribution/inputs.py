"""What a failing line worked with: the names in it, and the places of responses that their values came from."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from atc.facts import Fault, LineInput, Place
from atc.programs.analysis.flow import Flow
from atc.programs.attribution.responses import MISSING, places
from atc.programs.attribution.trace import calls_at
from atc.programs.syntax import enclosing, span_of
from atc.result import Call

MAX_INPUTS, MAX_OF_A_NAME = 6, 2


def line_inputs(fault: Fault, tree: ast.Module, flow: Flow, calls: Sequence[Call]) -> tuple[LineInput, ...]:
    """The responses that the line of a fault worked with, in the order in which the line names them.

    Args:
        fault: says the line, and perhaps the place of a response that is at fault: of several items it is shown.
        tree: the program. ``flow``: its analysis.
        calls: that the program made.
    """
    statement, _ = enclosing(tree, fault.line, None)
    found: dict[tuple[int, tuple[str | int, ...]], LineInput] = {}
    for node in _own_parts(statement) if statement is not None else ():
        of_name = 0
        for origin in sorted(flow.at(span_of(node)).derived().origins, key=str):
            answered = [call for call in calls_at(origin, flow, calls) if call.succeeded]
            call = next((call for call in answered if call.index == fault.call), answered[-1] if answered else None)
            if call is None or of_name >= MAX_OF_A_NAME or len(found) >= MAX_INPUTS:
                continue
            path = _place(call, origin.path, fault)
            name = node.id if isinstance(node, ast.Name) else ""
            made = LineInput(name=name, call=call.index, place=Place(tool=call.tool, path=path))
            of_name += found.setdefault((call.index, path), made) is made
    return tuple(found.values())


def _own_parts(node: ast.AST) -> Iterator[ast.expr]:
    """The names that a statement reads and the calls that it makes, without those of statements inside it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) or (isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load)):
            yield child
        if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _own_parts(child)


def _place(call: Call, path: Sequence[str | int], fault: Fault) -> tuple[str | int, ...]:
    """The place in a response that a path of the analysis means, as far as it is there; of items that at fault."""
    at_fault = fault.place.path if fault.place is not None and fault.call == call.index else ()
    known = [at for at, value in places(call.value, path) if value is not MISSING]
    chosen = next((at for at in known if at == at_fault[: len(at)]), known[0] if known else ())
    while chosen and next(places(call.value, chosen, exact=True))[1] is MISSING:
        chosen = chosen[:-1]  # a loop over an object sees its keys, which stand at no place
    return chosen
