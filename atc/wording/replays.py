"""Sentences about a recorded run: whose data it holds, and how a replay of it differs."""

from __future__ import annotations

from collections.abc import Sequence

from atc._host.invisible import visible
from atc._records.packing import shortened
from atc._records.recording import Change, Difference, Recording
from atc._records.records import Invocation
from atc.wording.parts import call

MAX_TASK = 100
"""Characters of a task in a line."""


def about(recorded: Recording, began: str = "") -> str:
    """Say whose data a recording holds.

    Args:
        recorded: the run.
        began: when it was made, as ``of 2026-01-31`` with a blank before it; empty where that is not known.
    """
    task = visible(recorded.task)
    task = shortened(task, MAX_TASK)
    tools = sorted({each.tool for each in recorded.calls})
    whose = f"what {', '.join(map(visible, tools))} answered" if tools else "the answer of its program"
    stand_ins = ", with stand-ins at the places under `replaced`" if recorded.replaced else ""
    return (
        f"Data of run {recorded.run}{began} ({task}): {whose}{stand_ins}. It belongs to whom these answers are about: "
        "look at it before you give it to others."
    )


def differences(found: Sequence[Difference], left_out: int = 0) -> str:
    """Say how a replay differs from what was recorded: a line for each difference, and one for each change in it."""
    lines = [line for each in found for line in _difference(each)]
    if left_out:
        lines.append(f"- and {left_out:,} more differences")
    return "\n".join(lines)


def _difference(found: Difference) -> list[str]:
    where = f", line {found.line}" if found.line else ""
    called = visible(call(Invocation(tool=found.tool, arguments=found.arguments))) if found.tool else ""
    changed = [f"    {change(each)}" for each in found.changes]
    match found.kind:
        case "not_recorded" if found.changes:
            return [f"- not recorded{where}: {called}; the nearest recorded call, {found.nearest}, differs:", *changed]
        case "not_recorded":
            again = f"; the equal call {found.nearest} was made less often" if found.nearest else ""
            return [f"- not recorded{where}: {called}{again}"]
        case "not_made":
            return [f"- recorded, and not made{where}: {called}"]
        case "value":
            return ["- the answer differs:", *changed]
        case "ended":
            return [f"- there is no answer{where}: {visible(found.reason)}"]
        case "tool" if found.reason:
            return [f"- the tool {visible(found.tool)} is not there any more"]
        case "tool":
            more = changed or ["    its schemas are others; the recording has only their digest"]
            return [f"- the tool {visible(found.tool)} is not what it was:", *more]


def change(found: Change) -> str:
    """Say how a value differs at one place: ``product: recorded "lamp", now "sofa"``."""
    way = "".join(f".{step}" if isinstance(step, str) else f"[{step}]" for step in found.path)
    place = way.lstrip(".") or "all of it"
    recorded, now = visible(found.recorded) or "nothing", visible(found.now) or "nothing"
    return f"{visible(place)}: recorded {recorded}, now {now}"
