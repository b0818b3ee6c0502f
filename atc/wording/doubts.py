"""Sentences about calls in doubt, about what settles them, and about what undoes a call that was made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atc._host.invisible import visible
from atc._records.packing import shortened
from atc._records.records import PlannedCall, SettledCall, UndoneCall
from atc.wording.plans import fed, planned_call

_SHOWN = 300
"""Characters of what a read said, or of a name."""


def written(tool: str, arguments: Mapping[str, Any]) -> str:
    """Write a call as a program does. Nothing hides in it."""
    return planned_call(PlannedCall(index=0, tool=tool, effect="write", arguments=dict(arguments)))


def settled_event(index: int, tool: str, outcome: str, by: str) -> str:
    """Say that a call was settled: ``call 3 (pay) was done, says get_order(…)``."""
    came = "was done" if outcome == "done" else "was not done"
    return f"call {index} ({_cut(tool)}) {came}, by the word of {_cut(by)}"


def settled_call(found: SettledCall) -> list[str]:
    """Return the lines of a call in doubt: what came of it, or why it stays in doubt and what would settle it."""
    heading = f"{found.index}. {written(found.tool, found.arguments)}"
    match found.outcome:
        case "done":
            return [heading, f"     done, by the word of {_cut(found.by)}"]
        case "not_done":
            return [heading, f"     not done, by the word of {_cut(found.by)}: sending it again takes approval"]
        case "in_doubt":
            return [heading, f"     in doubt: {_why(found)}"]


def _why(found: SettledCall) -> str:
    by = _cut(found.by)
    said = f": {_cut(found.said)}" if found.said else ""
    match found.why:
        case "no_tool":
            return f"{by} is named, and there is no such tool that could be called"
        case "not_a_read":
            return f"{by} is named, and that is no read, so it is not called"
        case "masked":
            return f"a credential among its arguments is not in the journal, so {by} cannot be asked"
        case "no_value":
            return f"{by} cannot be asked: the call has no {_cut(found.said)}"
        case "failed":
            return f"{by} failed{said}"
        case "neither":
            return f"by what {by} says it was neither done nor not done{said}"
        case "both":
            return f"by what {by} says it was done and not done{said}"
        case "changed":
            return f"{by} said first that it was not done, and then something else{said}"
    return f"no read is named that could settle it; {how_to_name(found.tool)}"


def how_to_name(tool: str) -> str:
    """Say how a read is named that settles a tool's calls."""
    return f'`settle` of [tools."{_cut(tool)}"] in the permissions file names one'


def to_settle(run_id: str) -> str:
    """Say what settles the calls in doubt of a run."""
    return (
        f"`atc runs settle {run_id}` asks the read that your permissions file names for the call, or says how to name "
        "one; with --call and --done or --not-done it takes your word"
    )


def undone_call(found: UndoneCall) -> list[str]:
    """Return the lines of a call with effects: what undoes it, and what came of that."""
    heading = f"{found.index}. {written(found.tool, found.arguments)}"
    if found.inverse is None:
        return [heading, f"     not undone: {_why_not(found)}"]
    said = f": {_cut(found.said)}" if found.said else ""
    came = {
        "undone": "undone",
        "denied": "not approved",
        "not_done": "not undone",
        "in_doubt": "in doubt",
    }
    lines = [heading, f"     ↶ {planned_call(found.inverse)}"]
    if found.outcome != "planned":
        return [*lines, f"       {came[found.outcome]}{said}"]
    return lines + [f"       {fed(feed, found.inverse.arguments)}" for feed in found.inverse.feeds]


def _why_not(found: UndoneCall) -> str:
    said = _cut(found.said)
    match found.why:
        case "no_tool":
            return f"there is no tool {said} that could be called"
        case "a_read":
            return f"{said} is a read, and undoes nothing"
        case "masked":
            return "a credential among its arguments is not in the journal"
        case "no_value":
            return f"its inverse needs {said}, which is not known"
        case "in_doubt":
            return "it may or may not have been done: settle it first (`atc runs settle`)"
        case "undone":
            return f"run {said} undid it before"
        case "undo_in_doubt":
            return f"run {said} may have undone it: settle that run first (`atc runs settle {said}`)"
    return f'nothing undoes it; `undo` of [tools."{_cut(found.tool)}"] in the permissions file names an inverse'


def _cut(text: str) -> str:
    return visible(shortened(text, _SHOWN))
