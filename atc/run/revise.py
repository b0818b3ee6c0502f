"""Write → check → run → attribute → revise (ATC §3): the way from a task, or a part of one, to its answer."""

from __future__ import annotations

from typing import Any

from atc._records.records import FaultCase
from atc.facts import Fault
from atc.run.base import Ending
from atc.run.chain_policy import ChainPolicy
from atc.run.endings import ended_by
from atc.run.program_loop import ProgramLoop
from atc.run.writer import Draft

_NOTHING = object()


async def revise(loop: ProgramLoop, policy: ChainPolicy, first: Draft | None = None) -> Ending:
    """Run programs, one after the other, until one answers or nothing more can be done.

    Args:
        loop: the steps of the run.
        policy: which program comes next, and what a finding costs.
        first: a program that is there already.

    Raises:
        As :meth:`atc.run.base.Strategy.solve`.
    """
    last_value: Any = _NOTHING
    while draft := first or await policy.next_program():
        first = None
        if findings := await policy.check(draft):
            loop.reject(draft, findings)  # costs a reply, and none of the α revisions
            continue
        outcome = await loop.execute(draft)
        if await loop.asked(draft, outcome):
            continue  # no revision either: the next program is given what this one asked for
        fault = await loop.attribute(draft, outcome)
        remarks: tuple[Fault, ...] = ()
        if fault is not None and policy.confirms(fault, outcome.value, last_value):
            remarks = (fault,) if fault.case is FaultCase.NO_CALLS else ()  # what is empty says so itself
            fault = None  # two programs found the same nothing: that is the answer
        last_value = outcome.value
        loop.record(draft, fault)
        if fault is None:
            return Ending("answered", outcome.value, remarks=remarks)
        policy.count(fault)
        if fault.cause is not None and not fault.substitutes:  # no other program can help
            return ended_by(fault.cause, fault, outcome)
        if policy.gives_up():
            break
    return Ending("unsolved", fault=policy.fault())
