"""Layer by layer (RETO §3.3, by programs): one small program for each layer of tools, each a stage of one journal.

A step's programs see the tools of its layer alone, and what earlier steps found, in brief; the values themselves stand
in their scope. So what an undocumented response really holds is seen before the next program is written. Each step has
a check, an attribution and revisions of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from atc import Ending, Finding, ProgramLoop, Run, Strategy, WritingOptions
from atc.plugins.strategies import (
    DEFAULT_OPTIONS,
    ChainPolicy,
    Draft,
    LayerStarted,
    Program,
    StoredRun,
    reads_one_of,
    refused_write,
    revise,
    settled,
)
from atc_research.reto.layers import CutOff, Layers
from atc_research.reto.model_repair import ModelRepairs
from atc_research.reto.step import Step, StepLoop, does_nothing

_LACKING = frozenset({"unknown_tool", "undefined_name", "invented_id", "name_for_id", "from_memory"})
"""Findings of a program that did without the tool which it needed."""
IN_ALL = 2
"""Revisions of all steps together, as a multiple of those that each may have."""


class Layered(Strategy):
    """A program for each layer of tools. Where no order of the tools is known, there is one, as in the chain."""

    name = "layered"

    def __init__(self, options: WritingOptions = DEFAULT_OPTIONS) -> None:
        """``options``: how programs are written, checked and traced."""
        self._options = options

    async def solve(self, run: Run) -> Ending:
        return await self._act(run)

    async def resume(self, run: Run, stored: StoredRun) -> Ending:
        """Go on with the step that was under way: its last program runs again."""
        return await self._act(run, stored)

    async def _act(self, run: Run, stored: StoredRun | None = None) -> Ending:
        ModelRepairs.join(run)
        cut = await asyncio.to_thread(CutOff.of, run, stored) if stored is not None else None
        layers = cut.layers if cut is not None else Layers.of(run)
        programs: Sequence[str] = cut.programs if cut is not None else ()
        if stored is not None and cut is None:
            if await asyncio.to_thread(stored.last, "layer_started") is not None or len(layers.tools) > 1:
                run.broker.journal.begin_again()  # its steps cannot be had any more, or none had begun
            else:
                programs = await asyncio.to_thread(stored.programs)
        if len(layers.tools) > 1:
            first = Draft(Program(programs[-1])) if programs and programs[-1] else None
            return await _Run(run, self._options, layers).act(first, programs)
        async with ProgramLoop.open(run, self._options, look=True) as loop:
            goes_on = await loop.resumed(stored) if stored is not None and programs else None
            return await revise(loop, ChainPolicy(loop, programs), goes_on)


class _Run:
    """The steps of one run."""

    def __init__(self, run: Run, options: WritingOptions, layers: Layers) -> None:
        self._run, self._options, self._layers = run, options, layers
        self._begun = len(run.revisions)
        journal = run.broker.journal
        earlier = (each for each in journal.entries.values() if journal.before < each.number)
        self._called = {each.tool for each in earlier if each.state == "done" and each.stage < journal.stage}
        placed = {name for layer in layers.tools for name in layer}
        self._found = [name for name in run.tools if name in run.all_tools and name not in placed]

    async def act(self, first: Draft | None, before: Sequence[str]) -> Ending:
        run, names = self._run, self._layers.names
        while True:
            number = sum(name in run.inputs for name in names)  # the journal has them, also after a crash
            step = await self._begin(min(number, len(names) - 1))
            async with StepLoop.open(run, self._options, step=step) as loop:
                try:
                    ending = await revise(loop, StepPolicy(loop, self._begun, before), first)
                except Skipped:
                    ending = Ending("answered")
            first, before = None, ()
            if step.last or ending.status != "answered":
                return ending
            if refused_write(run):
                return settled(replace(ending, value=None), run)  # what a step found is no answer
            self._called |= {call.tool for call in run.last_calls if call.succeeded}
            self._found = [n for n in run.tools if n in run.all_tools and n not in step.planned]
            run.begin_stage(inputs={**run.inputs, names[number]: ending.value})

    async def _begin(self, number: int) -> Step:
        run, layers = self._run, self._layers
        values = {name: run.inputs[name] for name in layers.names[:number]}
        skipped = [at for at, value in enumerate(values.values()) if value is None]
        offered = [*layers.offered(number, self._called, skipped), *self._found]
        await run.offer(run.all_tools.only(*dict.fromkeys(offered)))
        shown = run.broker.redactor.value(values)
        planned = {name for layer in layers.tools for name in layer}
        earlier = tuple(dict.fromkeys(name for layer in layers.tools[:number] for name in layer))
        step = Step(number + 1, len(layers.tools), shown, planned, earlier)
        of, variables = [[*layer] for layer in layers.tools], [*layers.names]
        event: LayerStarted = {"layer": step.number, "tools": [*run.tools], "layers": of, "variables": variables}
        run.emit("layer_started", event)
        return step


class Skipped(Exception):
    """A program says that there is nothing to do in its step."""


class StepPolicy(ChainPolicy):
    """The chain's policy for one step: it may be skipped, and may get tools of other steps.

    Args:
        loop: of one step.
        begun: how many programs there were before the first step.
        before: the programs of this step that were written before the run was cut off.
    """

    def __init__(self, loop: StepLoop, begun: int, before: Sequence[str] = ()) -> None:
        super().__init__(loop, before)
        self._step, self._begun, self._skip = loop.step, begun, loop.skip

    async def next_program(self) -> Draft | None:
        """As in the chain, within the bound of all steps together."""
        if self._lacks_tools():
            missing = [name for name in self._step.earlier if name not in self._run.tools]
            if missing:
                await self._loop.requests.add(self._run.all_tools.only(*missing))
        failed = sum(revision.fault is not None for revision in self._run.revisions[self._begun :])
        if self._history and failed > IN_ALL * self._settings.max_revisions:
            return None
        return await super().next_program()

    async def check(self, draft: Draft) -> list[Finding]:
        """As in the chain.

        Raises:
            Skipped: the program need not run.
        """
        if self._skips(draft):
            self._skip(draft)
            raise Skipped
        return await super().check(draft)

    def _skips(self, draft: Draft) -> bool:
        """A program that does nothing skips a step that is not the last; one that rests on nothing, the second time."""
        if self._step.last or not draft.source:
            return False
        names, program = {*self._run.tools, *self._run.inputs}, draft.program
        if program.tree is None or reads_one_of(program.tree, names):
            return False
        again = any(revision.fault is not None and revision.fault.case == "no_calls" for revision in self._history)
        return again or does_nothing(program)

    def _lacks_tools(self) -> bool:
        """Whether programs of this step may have wanted what an earlier one offered: those tools come back then."""
        lacked = any(
            any(finding.kind in _LACKING for finding in each.all_findings)
            or (each.fault is not None and each.fault.kind == "arguments")
            for each in self._history
        )
        return lacked or len(self._history) > 1
