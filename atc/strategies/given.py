"""A program that somebody else wrote: checked, run in the jail, its failure attributed. No model is asked.

The caller's own model writes; each further program of the same run is a revision, and what succeeded before is answered
from the journal.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from atc.programs.program import Program
from atc.programs.repair.context import RepairContext
from atc.programs.repair.pipeline import FRAME, repair_program
from atc.sketch import Sketch, Why, chosen_event
from atc.strategies.base import Ending, Strategy
from atc.strategies.context import RunContext
from atc.strategies.endings import STATUS
from atc.strategies.program_loop import ProgramLoop
from atc.strategies.ways import Ways
from atc.strategies.writer import Draft
from atc.traces.store import StoredRun

NAME = "given"
_WAYS = Ways(revision="notes", provenance=False, model=False)


class Given(Strategy):
    """Check → run → attribute, once, for one program.

    Args:
        source: the program.
        inputs: JSON values and bytes that stand in its scope, by name.
    """

    name = NAME

    def __init__(self, source: str, inputs: Mapping[str, Any] | None = None) -> None:
        self._program = Program(source.replace("\r\n", "\n").replace("\r", "\n"))
        self._inputs = dict(inputs or {})

    async def choose_tools(self, context: RunContext, stored: StoredRun | None) -> None:
        """Offer the tools that the program names: nothing is searched."""
        if stored is not None:
            context.recovery.restore(stored)
        tools = context.all_tools.only(*_named(self._program, context))
        context.sketch = Sketch(tools, of=len(context.all_tools), why={name: Why(kind="given") for name in tools})
        context.emit("tools_chosen", chosen_event(context.sketch))
        await context.offer(tools)

    async def solve(self, context: RunContext) -> Ending:
        context.broker.journal.inputs = self._inputs
        async with ProgramLoop.open(context, _WAYS) as loop:
            draft = self._draft(context)
            loop.announce(draft)
            found = await loop.check(draft)
            if any(each.severity == "error" for each in found):
                loop.reject(draft, found)
                return Ending("unsolved", fault=None)
            outcome = await loop.execute(draft, [each.message for each in found])
            fault = await loop.attribute(draft, outcome)
            loop.record(draft, fault)
            if fault is None:
                return Ending("answered", outcome.value)
            return Ending(STATUS[fault.cause] if fault.cause is not None else "unsolved", fault=fault)

    async def resume(self, context: RunContext, stored: StoredRun) -> Ending:
        """Run it as a revision: what the run's earlier programs did is answered from the journal."""
        return await self.solve(context)

    def _draft(self, context: RunContext) -> Draft:
        protocols = {protocol.name: protocol for protocol in context.tools.protocols}
        rules = context.settings.active_rules
        repaired = RepairContext(protocols, protocols, context.graph.suppliers, (), context.task, rules, self._inputs)
        program, rewrites = repair_program(self._program, repaired, FRAME)
        return Draft(program, tuple(rewrite.note for rewrite in rewrites))


def _named(program: Program, context: RunContext) -> list[str]:
    """The tools that a program names, in the order of the agent's tools."""
    if program.tree is None:
        return []
    names = {node.id for node in ast.walk(program.tree) if isinstance(node, ast.Name)}
    return [name for name in context.all_tools if name in names]
