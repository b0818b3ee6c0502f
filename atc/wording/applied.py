"""Sentences about a plan that is applied: how a call differs from the planned one, and who applied it when."""

from __future__ import annotations

from atc._host.invisible import visible
from atc._records.records import OtherArgument, PlanDifference
from atc.wording.outcomes import changed_parts
from atc.wording.plans import planned_call

MAX_NAMED = 5
"""Arguments that a sentence names."""


def not_planned(found: PlanDifference) -> str:
    """Say in one sentence why a call is not the planned one."""
    planned = planned_call(found.planned) if found.planned is not None else ""
    match found.kind:
        case "too_many":
            return "the plan has no further call with effects"
        case "after_failure":
            return "a planned call before it was not done, so none after it is made"
        case "tool":
            return f"the plan has {planned} there"
        case "changed_tool":
            tool = f"{visible(found.planned.tool) if found.planned else 'its tool'} is not the tool that was planned"
            return f"{tool}: {changed_parts(found.parts)}" if found.parts else tool
        case "arguments":
            named = [*map(other_argument, found.arguments[:MAX_NAMED])]
            more = len(found.arguments) - len(named)
            return "; ".join([*named, *([f"and {more:,} more arguments"] if more > 0 else [])])


def other_argument(other: OtherArgument) -> str:
    """Say how an argument differs from the planned one: ``order is 'o2' now, and 'o1' was planned``."""
    where = visible(other.name) + "".join(f"[{step!r}]" for step in other.path)
    now = f"is {visible(other.now)} now" if other.now else "is not given now"
    return f"{where} {now}, and {visible(other.planned) if other.planned else 'nothing known'} was planned"


def to_apply(writes: int, goes_on: bool) -> str:
    """Ask whether a plan is applied. ``goes_on``: some of its calls with effects may be done already."""
    what = "this call" if writes == 1 else f"these {writes:,} calls"
    done = " What is done already is not done again." if goes_on else ""
    return f"make {what} with effects, in this order, and no other?{done}"
