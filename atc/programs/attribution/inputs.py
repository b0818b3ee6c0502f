"""What a failing line worked with: its names, and the places of responses that their values came from."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import islice

from atc.facts import Fault, LineInput, Place
from atc.programs.analysis.flow import Flow
from atc.programs.attribution.responses import MISSING, places
from atc.programs.attribution.trace import calls_at
from atc.programs.syntax import enclosing, span_of
from atc.result import Call

MAX_INPUTS, MAX_OF_A_NAME, MAX_NODES = 6, 2, 60
"""Places that are named, those of one name among them, and names and calls of a line that are looked at."""


def line_inputs(fault: Fault, tree: ast.Module, flow: Flow, calls: Sequence[Call]) -> tuple[LineInput, ...]:
    """The responses that the line of a fault worked with: first what its names hold, then what these were made from.

    Args:
        fault: says the line, and perhaps the place of a response that is at fault: of several items it is shown.
        tree: the program. ``flow``: its analysis.
        calls: that the program made.
    """
    statement, _ = enclosing(tree, fault.line, None)
    nodes = [*islice(_own_parts(statement, flow), MAX_NODES)] if statement is not None else []
    found: dict[tuple[int, tuple[str | int, ...]], LineInput] = {}
    for held in (True, False):
        for node in nodes:
            value, of_name = flow.at(span_of(node)), 0
            origins = (frozenset() if value.open else value.origins) if held else value.derived().origins
            for origin in sorted(origins, key=str):
                if of_name >= MAX_OF_A_NAME or len(found) >= MAX_INPUTS:
                    break
                answered = [call for call in calls_at(origin, flow, calls) if call.succeeded]
                call = next((call for call in answered if call.index == fault.call), answered[-1] if answered else None)
                if call is None:
                    continue
                path = _place(call, origin.path if held else _whole_lists(origin.path), fault)
                if not held and any(number == call.index and at[: len(path)] == path for number, at in found):
                    continue  # a part of it is shown
                name = node.id if held and isinstance(node, ast.Name) else ""
                made = LineInput(name=name, call=call.index, place=Place(tool=call.tool, path=path))
                of_name += found.setdefault((call.index, path), made) is made
    return tuple(found.values())


def _own_parts(node: ast.AST, flow: Flow) -> Iterator[ast.expr]:
    """The names that a statement reads and the tools that it calls, without those of statements inside it."""
    for child in ast.iter_child_nodes(node):
        reads = isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load)
        if isinstance(child, ast.expr) and (reads or (isinstance(child, ast.Call) and span_of(child) in flow.calls)):
            yield child
        if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _own_parts(child, flow)


def _whole_lists(path: Sequence[str | int]) -> Sequence[str | int]:
    """The part of a path before the first item: of what was made from many items all are shown."""
    return path[: next((at for at, step in enumerate(path) if isinstance(step, int)), len(path))]


def _place(call: Call, path: Sequence[str | int], fault: Fault) -> tuple[str | int, ...]:
    """The place in a response that a path of the analysis means, as far as it is there; of items that at fault."""
    at_fault = fault.place.path if fault.place is not None and fault.call == call.index else ()
    known = [at for at, value in places(call.value, path) if value is not MISSING]
    chosen = next((at for at in known if at == at_fault[: len(at)]), known[0] if known else ())
    while chosen and next(places(call.value, chosen, exact=True))[1] is MISSING:
        chosen = chosen[:-1]  # a loop over an object sees its keys, which stand at no place
    return chosen
