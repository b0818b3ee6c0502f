"""A strategy of your own: answer only with a value that two programs compute which were written apart.

    atc run "How far is it from Paris to Oslo?" --tools atlas --strategy examples/agree.py:Agree

It costs at least two replies of the model, and gives up where no two programs agree. What the first program did is not
done again by the second: the journal answers it.
"""

from __future__ import annotations

from typing import Any

from atc import Ending, Fault, ProgramLoop, Run, Strategy
from atc.run.endings import ending_of


class Agree(Strategy):
    """Write, check and run programs until two of them agree."""

    name = "agree"

    async def solve(self, run: Run) -> Ending:
        values: list[Any] = []
        async with ProgramLoop.open(run) as loop:
            for _ in range(run.settings.max_revisions + 2):
                draft = await loop.write()
                if findings := await loop.check(draft):
                    loop.reject(draft, findings)
                    continue
                outcome = await loop.execute(draft)
                fault = await loop.attribute(draft, outcome)
                loop.record(draft, fault)
                if fault is not None and (ending := ending_of(fault)) is not None:
                    return ending  # no other program can help
                if fault is None and outcome.value in values:
                    return Ending("answered", outcome.value)
                if fault is None:
                    values.append(outcome.value)
        return Ending("unsolved", fault=Fault(kind="answer", reason=f"no two programs agree: {values!r:.300}"))
