"""The inputs of a failing line: its names, and the places of responses that their values came from."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from atc._host.syntax import child_nodes
from atc._records.outcome import ProgramError
from atc._records.records import LineInput, Misfit, Place
from atc.facts import Fault
from atc.programs.analysis.flow import Flow
from atc.programs.analysis.values import NOTHING, Origin
from atc.programs.attribution.trace import calls_at, suspects_of
from atc.programs.dialects.awaits import awaits_outside
from atc.programs.program import Program
from atc.programs.responses import MISSING, answered, places
from atc.programs.syntax import enclosing, span_of
from atc.result import Call

if TYPE_CHECKING:
    from atc.programs.answers.types import AnswerType

MAX_INPUTS, MAX_OF_A_NAME, MAX_NODES = 6, 2, 60
"""Places that are named, those of one name among them, and names and calls of a line that are looked at."""


def line_inputs(fault: Fault, tree: ast.Module, flow: Flow, calls: Sequence[Call]) -> tuple[LineInput, ...]:
    """Return the responses that the line of a fault worked with: what its names hold, then what made that.

    A name is given where it is sure what it holds. Where it may be one of several items, their list is given.

    Args:
        fault: says the line, and perhaps the place of a response that is at fault: of several items it is shown.
        tree: the program. ``flow``: its analysis.
        calls: that the program made.
    """
    statement, _ = enclosing(tree, fault.line, None)
    nodes = [*islice(_own_parts(statement, flow), MAX_NODES)] if statement is not None else []
    found: dict[tuple[int, tuple[str | int, ...]], LineInput] = {}
    named = {(origin, node.id) for node in nodes if isinstance(node, ast.Name) for origin in _held(node, flow)}
    names_of = Counter((origin.tool, origin.line) for origin, _ in named)
    for held in (True, False):
        for node in nodes:
            value, of_name = flow.at(span_of(node)), 0
            origins = (frozenset() if value.open else value.origins) if held else value.derived().origins
            shared = {(origin.tool, origin.line) for origin in origins if names_of[origin.tool, origin.line] > 1}
            made = _made_at(sorted(origins, key=str), flow, calls, fault, shared)
            for origin, call in made:
                if of_name >= MAX_OF_A_NAME or len(found) >= MAX_INPUTS:
                    break
                path, sure = _place(call, origin.path if held else _whole_lists(origin.path), fault)
                if not held and any(number == call.index and _shows(call, at, path) for number, at in found):
                    continue
                name = node.id if held and sure and len(made) == 1 and isinstance(node, ast.Name) else ""
                new = LineInput(name=name, call=call.index, place=Place(tool=call.tool, path=path))
                of_name += found.setdefault((call.index, path), new) is new
                if name and not found[call.index, path].name:
                    found[call.index, path] = new
    return tuple(found.values())


def _held(node: ast.Name, flow: Flow) -> frozenset[Origin]:
    value = flow.at(span_of(node))
    return frozenset() if value.open else value.origins


def _made_at(
    origins: Sequence[Origin],
    flow: Flow,
    calls: Sequence[Call],
    fault: Fault,
    shared: Collection[tuple[str, int]] = (),
) -> list[tuple[Origin, Call]]:
    """Return the calls that answered what a name can hold: of those of one place the one at fault, else the latest two.
    The journal knows only the lines of calls, so two places on a line are told apart by none; nor is which of several
    names holds what was answered there (``shared``: such places), as those of a ``parallel``.
    """
    made: list[tuple[Origin, Call]] = []
    for origin in origins:
        answered = [call for call in calls_at(origin, flow, calls) if call.succeeded][::-1]
        answered.sort(key=lambda call: call.index != fault.call)
        places_there = [s for s, each in flow.calls.items() if each.tool == origin.tool and s[0] == origin.line]
        told_apart = len(places_there) < 2 and (origin.tool, origin.line) not in shared
        if told_apart and answered and answered[0].index == fault.call:
            answered = answered[:1]
        made += [(origin, call) for call in answered[:MAX_OF_A_NAME]]
        if len(made) > MAX_OF_A_NAME:
            break
    return made


def _own_parts(node: ast.AST, flow: Flow) -> Iterator[ast.expr]:
    for child in child_nodes(node):
        reads = isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load)
        if isinstance(child, ast.expr) and (reads or (isinstance(child, ast.Call) and span_of(child) in flow.calls)):
            yield child
        if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _own_parts(child, flow)


def _whole_lists(path: Sequence[str | int]) -> Sequence[str | int]:
    """Return the part of a path before the first item: of what was made from many items all are shown."""
    return path[: next((at for at, step in enumerate(path) if isinstance(step, int)), len(path))]


def _shows(call: Call, shown: Sequence[str | int], path: Sequence[str | int]) -> bool:
    if shown[: len(path)] != path:
        return False
    _, value = next(places(call.value, path, exact=True))
    of_list = any(isinstance(step, int) for step in shown[len(path) :])
    return not of_list or (isinstance(value, list) and len(value) == 1)


def _place(call: Call, path: Sequence[str | int], fault: Fault) -> tuple[tuple[str | int, ...], bool]:
    """The second says whether that is sure: of items the one at fault is meant, else their list."""
    at_fault = fault.place.path if fault.place is not None and fault.call == call.index else ()
    known = [at for at, value in places(call.value, path) if value is not MISSING]
    chosen = next((at for at in known if at == at_fault[: len(at)]), None)
    sure = chosen is not None or len(known) == 1
    if chosen is None:
        chosen = known[0] if sure else tuple(_whole_lists(known[0])) if known else ()
    while chosen and next(places(call.value, chosen, exact=True))[1] is MISSING:
        chosen = chosen[:-1]  # a loop over an object sees its keys, which stand at no place
    return chosen, sure


# ----------------------------------------------------------------------------------------------------------------------
# An answer that is not of the type that was asked for: what is wrong with it, and the call that it came from.


def misfit_facts(wanted: AnswerType, value: Any, flow: Flow | None, calls: Sequence[Call]) -> dict[str, Any]:
    """Return the misfit of a value, and the call behind it, as fields of a fault; empty where the value fits.

    A tool is named where the program answered a part of its response as it is. Of what a program made of a response
    the program's own line is at fault.
    """
    misfit = wanted.fit(value)
    if not isinstance(misfit, Misfit):
        return {}
    behind = suspects_of(flow.scope.names.get("answer", NOTHING), flow, calls) if flow is not None else ()
    for suspect in behind:
        call = suspect.call
        if call.succeeded and not suspect.derived and suspect.value == value:
            place = Place(tool=call.tool, path=suspect.path)
            return {
                "misfit": misfit,
                "tool": call.tool,
                "call": call.index,
                "answered": answered(call),
                "place": place,
            }
    return {"misfit": misfit}


# ----------------------------------------------------------------------------------------------------------------------
# A program that waits for what a tool answered, as if the tool were a coroutine: no tool is at fault for that.


_WAITERS = {"gather", "wait_for", "as_completed", "create_task", "ensure_future", "run_until_complete"}


def awaits_a_value(program: Program, flow: Flow, error: ProgramError) -> bool:
    """Return whether an exception comes of ``await``, or of a function of ``asyncio``, on the value of a tool; or of
    ``await`` outside a coroutine.
    """
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
