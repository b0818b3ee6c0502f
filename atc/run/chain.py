"""The chain of tools: one whole program, revised until it answers (ATC §3). The main path of ATC, top to bottom."""

from __future__ import annotations

from collections.abc import Sequence

from atc._host.blocking import in_thread
from atc.run.base import Ending, Strategy
from atc.run.chain_policy import ChainPolicy
from atc.run.program_loop import ProgramLoop
from atc.run.revise import revise
from atc.run.run import Run
from atc.run.writer import DEFAULT_OPTIONS, WritingOptions
from atc.traces.stores.base import StoredRun


class Chain(Strategy):
    """Write → check → run → attribute → revise, at most α times."""

    name = "chain"
    policy: type[ChainPolicy] = ChainPolicy
    """Which program comes next, and what a warning costs."""
    loop: type[ProgramLoop] = ProgramLoop
    """Which writes, checks, runs and traces it."""

    def __init__(self, options: WritingOptions = DEFAULT_OPTIONS) -> None:
        """Take ``options``: how programs are written, checked and traced."""
        self._options = options

    async def solve(self, run: Run) -> Ending:
        return await self._act(run)

    async def resume(self, run: Run, stored: StoredRun) -> Ending:
        """Run the last program again: what succeeded comes from the journal."""
        if not (programs := await in_thread(stored.programs)):
            return await self.solve(run)
        return await self._act(run, programs, stored)

    async def _act(self, run: Run, before: Sequence[str] = (), stored: StoredRun | None = None) -> Ending:
        async with self.loop.open(run, self._options, look=True) as loop:
            first = await loop.resumed(stored) if stored is not None else None
            return await revise(loop, self.policy(loop, before), first)
