"""A program that somebody else wrote: checked, run in the jail, its failure attributed. No model is asked.

The caller's own model writes; each further program of the same run is a revision, and what succeeded before is answered
from the journal.
"""

from __future__ import annotations

import ast
import asyncio
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from atc import wording
from atc._host.blocking import in_thread
from atc._records.origins import TASK, UNKNOWN, CallOrigins
from atc._records.packing import pack
from atc._records.records import ODD_ANSWERS
from atc.calls.entry import CallEntry
from atc.catalogue.sketch import Sketch, Why, chosen_event
from atc.facts import Fault, Finding
from atc.programs.dialects.awaits import in_plain_python, unclear_tools
from atc.programs.extract import unfenced
from atc.programs.program import Program
from atc.result import Call, Effect
from atc.run.base import GIVEN, Ending, Strategy
from atc.run.endings import STATUS, refused_by_check
from atc.run.program_loop import ProgramLoop
from atc.run.run import Run
from atc.run.writer import Draft, WritingOptions
from atc.traces.stores.base import StoredRun

NAME = GIVEN
_OPTIONS = WritingOptions(revision="notes", author="caller")


@dataclass
class Facts:
    """Holds what a run of a given program shows beside its result.

    Attributes:
        findings: what kept the program from running, or the warning that foretold its failure.
        rejected: the check kept the program from running. Where its findings are warnings, the same program sent again
            to the same run is run.
        remark: of an answer that is there: what is odd about it.
        done: calls with effects that are done, of all programs of the run; a revision gets their answers from the
            journal.
        attempt: number of the program among those of the run that ran.
        printed: what the program wrote to its output, and then to its error output; the last of each, where it is long.
    """

    findings: list[Finding] = field(default_factory=list)
    rejected: bool = False
    remark: Fault | None = None
    done: tuple[CallEntry | Call, ...] = ()
    attempt: int = -1
    printed: str = ""

    @property
    def unknown(self) -> dict[int, str]:
        """Return names that the program calls and nothing has, by the place of their finding."""
        kinds = ("undefined_name", "unknown_tool")
        return {at: str(each.name) for at, each in enumerate(self.findings) if each.kind in kinds and each.name}


class Given(Strategy):
    """Check → run → attribute, once, for one program.

    Args:
        source: the program.
        inputs: JSON values and bytes that stand in its scope, by name.
        kept: the names of those that earlier runs answered: nobody knows where they came from.
        by_user: who begins the run gave the others: they count as words of the task. Else the program's author did.

    Attributes:
        facts: of its run.
    """

    name = NAME

    def __init__(
        self,
        source: str,
        inputs: Mapping[str, Any] | None = None,
        kept: Collection[str] = (),
        *,
        by_user: bool = False,
    ) -> None:
        source = source.replace("\r\n", "\n").replace("\r", "\n")
        self._program = Program(unfenced(source))
        self._read: list[str] = ["left out the fence around the program"] if self._program.source != source else []
        self._inputs, self._kept = dict(inputs or {}), sorted(kept)
        self._by_user = by_user and bool(self._inputs)
        self._before: tuple[str, ...] = ()
        self.facts = Facts()

    async def choose_tools(self, run: Run, stored: StoredRun | None) -> None:
        """Offer the tools that the program names: nothing is searched.

        Raises:
            NotLinked: it names a kept program that its run called before, and that is gone.
        """
        run.task = ""  # the run is named by the program's own text, which gives none of its values
        run.text = "author"
        if stored is not None:
            await in_thread(run.recovery.restore, stored)
        tools = run.all_tools.only(*await asyncio.to_thread(self._understood, run))  # a program may be long
        run.kept.refuse_gone(self._program, self._inputs)
        why = {name: Why(kind="given") for name in tools}
        run.sketch = Sketch(tools, of=len(run.all_tools), why=why).noting_services()
        run.emit("tools_chosen", chosen_event(run.sketch))
        await run.offer(tools)

    def _understood(self, run: Run) -> list[str]:
        protocols = {protocol.name: protocol for protocol in run.all_tools.protocols}
        self._program, read = in_plain_python(self._program, protocols, self._inputs)
        self._read += [rewrite.note for rewrite in read]
        unclear = unclear_tools(self._program, protocols, self._inputs)
        return _named(self._program, run, {name for finding in unclear for name in finding.instead})

    async def solve(self, run: Run) -> Ending:
        """Check the program, run it, attribute its failure."""
        run.broker.journal.inputs = self._inputs
        run.broker.journal.input_origins = origins_of(self._inputs, self._kept, by_user=self._by_user)
        run.settings = run.settings.model_copy(update={"sentence": False})  # there is no model to ask for one
        try:
            return await self._solve(run)
        finally:
            entries = run.broker.journal.entries.values()
            done = (each for each in entries if each.effect is not Effect.READ and each.state == "done")
            self.facts.done, self.facts.attempt = tuple(done), run.broker.journal.attempt
            self.facts.printed = run.printed

    async def resume(self, run: Run, stored: StoredRun) -> Ending:
        """Run it as a revision: what the run's earlier programs did is answered from the journal."""
        self._before = await in_thread(stored.programs)
        return await self.solve(run)

    async def _solve(self, run: Run) -> Ending:
        facts = self.facts
        async with ProgramLoop.open(run, _OPTIONS) as loop:
            draft = Draft(self._program, tuple(self._read))
            await self._announce(run, draft)
            found = [each for each in await loop.check(draft) if each.severity == "error"]
            facts.findings = await asyncio.to_thread(_with_kept_files, found, run)
            if self._may_be_sent_back(run, draft):
                facts.findings += loop.warned(draft).gating
            if facts.findings:
                facts.rejected = True
                loop.reject(draft, facts.findings)
                return Ending("unsolved", fault=refused_by_check(facts.findings))
            outcome = await loop.execute(draft)
            fault = await loop.traced(draft, outcome)
            if fault is not None and fault.finding is not None:
                facts.findings = [fault.finding]
            if fault is not None and outcome.answered and fault.case in ODD_ANSWERS:
                facts.remark, fault = fault, None
            elif fault is not None:
                fault = await loop.attribute(draft, outcome)
            loop.record(draft, fault)
            if fault is None:
                return Ending("answered", outcome.value)
            return Ending(STATUS[fault.cause] if fault.cause is not None else "unsolved", fault=fault)

    def _may_be_sent_back(self, run: Run, draft: Draft) -> bool:
        """Return whether warnings before a write send the program back: none that comes again, or never could."""
        allowed = run.broker.approval.warnings == "allow"
        return run.settings.keep_runs and not allowed and draft.source not in self._before

    async def _announce(self, run: Run, draft: Draft) -> None:
        data: dict[str, Any] = {"attempt": len(run.revisions), "program": draft.source}
        data["rewrites"] = list(draft.rewrites)
        if self._inputs:  # which may be large, and are masked here as they will be in the trace
            data["inputs"] = await asyncio.to_thread(lambda: run.broker.redactor.value(pack(self._inputs)))
        told = {"kept": self._kept, "by_user": self._by_user, "saw": run.wrote(draft.source)}
        data |= {name: each for name, each in told.items() if each}
        run.emit("program_written", data)


def _with_kept_files(findings: list[Finding], run: Run) -> list[Finding]:
    if any(tool.kept is not None for tool in run.all_tools.values()):
        return findings  # they were asked for: it is left out, or a rule denies it

    def is_kept(name: str) -> bool:  # its file is not read
        from atc.tools.kept_files import SUFFIX  # few programs name what is not there

        return name.isidentifier() and os.path.isfile(run.settings.kept_dir / f"{name}{SUFFIX}")

    unknown = Facts(findings).unknown
    return [
        each.model_copy(update={"reason": wording.not_offered()}) if at in unknown and is_kept(unknown[at]) else each
        for at, each in enumerate(findings)
    ]


def origins_of(inputs: Collection[str], kept: Collection[str], *, by_user: bool) -> CallOrigins:
    """Return where the inputs of a given program come from, by name; those of its author are not named."""
    return dict.fromkeys(inputs if by_user else (), TASK) | dict.fromkeys(kept, UNKNOWN)


def _named(program: Program, run: Run, more: Collection[str]) -> list[str]:
    if program.tree is None:
        return []
    names = {node.id for node in program.nodes if isinstance(node, ast.Name)}.union(more)
    return [name for name in run.all_tools if name in names]
