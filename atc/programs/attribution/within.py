"""Place a fault of a linked program: at the line of its author's own text, and within the kept program it came from."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from atc._records.outcome import ProgramError
from atc._records.records import FaultCase
from atc.facts import Fault
from atc.programs.linking import Linked
from atc.result import Call
from atc.tools.tool import Tool


def placed(fault: Fault, linked: Linked, error: ProgramError | None, calls: Sequence[Call]) -> Fault:
    """Return a fault as the author of the outer program can use it.

    A call that failed within a kept program stays the fault of its tool. Anything else that fails in the text of a kept
    program is the fault of that program: whoever wrote the outer one cannot change it.

    Args:
        fault: of the whole text, as it was traced there.
        linked: the text that ran.
        error: the exception that ended the program; ``None`` without one.
        calls: that the program made.
    """
    made = next((call for call in calls if call.index == fault.call), None)
    within = linked.within(fault.line)
    if not within:
        own = made is not None and made.within and fault.tool is not None
        return fault.model_copy(update={"within": made.within}) if own and made is not None else fault
    line = outer_line(linked, within, error) or (0 if made is None else made.outer_line)
    update: dict[str, Any] = {
        "line": line,
        "source_line": linked.own.line(line)[:300],
        "within": within,
        "kept_line": linked.line_in_kept(fault.line),
        "inputs": (),  # of a text that the author does not have
        "idle": False,
    }
    if _set_no_answer(fault, linked):
        update |= {"case": FaultCase.NO_ANSWER, "raised": None}
    elif fault.raised is not None:
        trace = tuple(frame for frame in fault.raised.trace if not linked.within(frame[1]))
        update["raised"] = fault.raised.model_copy(update={"trace": trace if len(trace) > 1 else ()})
    if fault.cause is None and not (made is not None and made.error is not None and made.tool == fault.tool):
        update |= {"tool": within, "kind": "tool", "call": None}
    return fault.model_copy(update=update)


def _set_no_answer(fault: Fault, linked: Linked) -> bool:
    """Return whether a kept program came to its end, which is a line of ours, and had no answer to return."""
    ends = any(part.last == fault.line for part in linked.parts) and not linked.line_in_kept(fault.line)
    return ends and fault.raised is not None and fault.raised.type == "UnboundLocalError"


def outer_line(linked: Linked, within: str, error: ProgramError | None) -> int:
    """Return the line of the outer program at which a kept program was called, itself or by another one; 0 if unknown.

    Args:
        linked: the text that ran.
        within: the kept program.
        error: the exception that ended the program: its frames say the line, by the program's own claim. Without them
            it is the one line that names such a kept program.
    """
    line = 0
    for _, at in error.trace if error is not None else ():
        if linked.within(at):
            if line:
                return line
            break
        line = at if 0 < at <= linked.own_lines else line
    names = {name for name, tool in linked.kept.items() if name == within or _reaches(tool, within)}
    found = {node.lineno for node in linked.own.nodes if isinstance(node, ast.Name) and node.id in names}
    return found.pop() if len(found) == 1 else 0


def _reaches(tool: Tool, name: str) -> bool:
    return any(each.kept is not None and (each.name == name or _reaches(each, name)) for each in tool.inner.values())
