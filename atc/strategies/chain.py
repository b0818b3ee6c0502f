"""The chain of tools: one whole program, revised until it answers (ATC §3). The main path of ATC, top to bottom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atc.programs.program import Program
from atc.strategies.base import Ending, Strategy
from atc.strategies.chain_policy import ChainPolicy
from atc.strategies.context import RunContext
from atc.strategies.endings import STATUS
from atc.strategies.program_loop import ProgramLoop
from atc.strategies.ways import DEFAULT_WAYS, Ways
from atc.strategies.writer import Draft
from atc.traces.store import StoredRun

_NOTHING = object()


class Chain(Strategy):
    """Write → check → run → attribute → revise, at most α times."""

    name = "chain"

    def __init__(self, ways: Ways = DEFAULT_WAYS) -> None:
        """``ways``: how programs are written, checked and traced."""
        self._ways = ways

    async def solve(self, context: RunContext) -> Ending:
        return await self._act(context)

    async def resume(self, context: RunContext, stored: StoredRun) -> Ending:
        """Run the last program again: what succeeded comes from the journal."""
        *_, last = programs = stored.programs() or ("",)
        return await self._act(context, first=Draft(Program(last)) if last else None, before=programs)

    async def _act(self, context: RunContext, first: Draft | None = None, before: Sequence[str] = ()) -> Ending:
        async with ProgramLoop.open(context, self._ways) as loop:
            policy = ChainPolicy(loop, before)
            last_value: Any = _NOTHING
            while draft := first or await policy.next_program():
                first = None
                if findings := await policy.check(draft):
                    loop.reject(draft, findings)  # costs a reply, and none of the α revisions
                    continue
                outcome = await loop.execute(draft, policy.warnings(draft))
                if await loop.requests.only_asked(outcome):
                    continue  # no revision either: the next program is shown what this one asked for
                fault = await loop.attribute(draft, outcome)
                if fault is not None and policy.confirms(fault, outcome.value, last_value):
                    fault = None  # two programs found the same nothing: that is the answer
                last_value = outcome.value
                loop.record(draft, fault)
                if fault is None:
                    return Ending("answered", outcome.value)
                if fault.cause is not None and not fault.substitutes:  # no other program can help
                    return Ending(STATUS[fault.cause], fault=fault)
            return Ending("unsolved", fault=policy.fault())
