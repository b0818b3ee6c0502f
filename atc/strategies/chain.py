"""The chain of tools: one whole program, revised until it answers (ATC §3). The main path of ATC, top to bottom."""

from __future__ import annotations

from collections.abc import Sequence

from atc.strategies.base import Ending, Strategy
from atc.strategies.chain_policy import ChainPolicy
from atc.strategies.context import RunContext
from atc.strategies.program_loop import ProgramLoop
from atc.strategies.revise import revise
from atc.strategies.ways import DEFAULT_WAYS, Ways
from atc.traces.stores.base import StoredRun


class Chain(Strategy):
    """Write → check → run → attribute → revise, at most α times."""

    name = "chain"
    policy: type[ChainPolicy] = ChainPolicy
    """Which program comes next, and what a warning costs."""

    def __init__(self, ways: Ways = DEFAULT_WAYS) -> None:
        """``ways``: how programs are written, checked and traced."""
        self._ways = ways

    async def solve(self, context: RunContext) -> Ending:
        return await self._act(context)

    async def resume(self, context: RunContext, stored: StoredRun) -> Ending:
        """Run the last program again: what succeeded comes from the journal."""
        if not (programs := stored.programs()):
            return await self.solve(context)
        return await self._act(context, programs, stored)

    async def _act(self, context: RunContext, before: Sequence[str] = (), stored: StoredRun | None = None) -> Ending:
        async with ProgramLoop.open(context, self._ways, look=True) as loop:
            first = loop.resumed(stored) if stored is not None else None
            return await revise(loop, self.policy(loop, before), first)
