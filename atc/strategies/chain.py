"""The chain of tools: one whole program, revised until it answers (ATC §3). The main path of ATC, top to bottom."""

from __future__ import annotations

from collections.abc import Sequence

from atc.programs.program import Program
from atc.strategies.base import Ending, Strategy
from atc.strategies.chain_policy import ChainPolicy
from atc.strategies.context import RunContext
from atc.strategies.program_loop import ProgramLoop
from atc.strategies.revise import revise
from atc.strategies.ways import DEFAULT_WAYS, Ways
from atc.strategies.writer import Draft
from atc.traces.store import StoredRun


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
            return await revise(loop, ChainPolicy(loop, before), first)
