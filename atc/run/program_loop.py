"""What strategies share that write programs: write, check, execute, attribute, record (ATC §3).

Mechanism alone. Which program runs, what a warning costs and when it is enough is for a strategy to say.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Coroutine, Sequence
from typing import Any, Self, TypeVar

from atc import wording
from atc._host.blocking import in_thread
from atc._records.events import Findings
from atc._records.outcome import Outcome
from atc._records.packing import as_text
from atc._records.records import FaultCase
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.errors import InputNeeded, WritesPlanned
from atc.facts import Fault, Finding
from atc.parts import SANDBOXES
from atc.programs.attribution.attribute import Attribution
from atc.programs.check.checker import Checker, broken_tool_findings
from atc.programs.check.warned import Warned, warned
from atc.programs.program import Program
from atc.result import Call, Effect, Revision
from atc.run.ask_user import asked_fault
from atc.run.endings import advised
from atc.run.look import looks, refusal, refused_write
from atc.run.recover import broken_tools
from atc.run.run import Run
from atc.run.tool_requests import ToolRequests
from atc.run.writer import DEFAULT_OPTIONS, Draft, Writer, WritingOptions
from atc.tools.tool import Toolset
from atc.traces.stores.base import StoredRun

T = TypeVar("T")


class ProgramLoop:
    """The steps of one run. Open it with :meth:`open`.

    Args:
        options: how programs are written, checked and traced.
        look: programs may look at values.
        part: what the prompt says of the part of the task that these programs do; empty where each is to do all of it.
        planned: the names of tools that other parts of the task offer: no program need look for them.
        answers: what a program sets is the answer of the run, of the type that was asked for.

    Attributes:
        requests: what programs ask for, for the next one.
    """

    def __init__(
        self,
        run: Run,
        options: WritingOptions,
        *,
        look: bool = False,
        part: str = "",
        planned: Collection[str] = (),
        answers: bool = True,
    ) -> None:
        self.run, self.options, self._planned = run, options, planned
        self._begun = self._since = len(run.revisions) if part else 0
        self.answer_type = run.answer_type if answers else None
        self.writer = Writer(run, options, part=part, answers=answers)
        look = look and not run.model.wants_example  # of a model that small each word of a prompt has a price
        self.requests = ToolRequests(run, self.writer, planned, look=look)
        self._warned: dict[str, Warned] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, run: Run, options: WritingOptions = DEFAULT_OPTIONS, look: bool = False, **part: Any
    ) -> AsyncIterator[Self]:
        """A loop over the tools that are offered now. ``part``: as of the class, for a part of the task."""
        loop = cls(run, options, look=look, **part)
        await loop.requests.begin()
        await run.recovery.begin(loop.requests.add)
        yield loop

    @property
    def history(self) -> list[Revision]:
        """The programs of which the next one is a revision: of this part of the task, and since the last one that
        looked."""
        return self.run.revisions[self._since :]

    @property
    def spent(self) -> list[Revision]:
        """The programs that count against the bounds: those of this part that did not look."""
        return [revision for revision in self.run.revisions[self._begun :] if not revision.looked]

    @property
    def calls(self) -> list[Call]:
        """The calls so far that matter to the next program: none that an earlier stage committed, for it may not be
        asked for again."""
        made, journal = self.run.calls, self.run.broker.journal
        entries = {call.index: journal.entries.get(call.index) for call in made}
        return [call for call in made if (e := entries[call.index]) is None or journal.committed(e.key) is None]

    async def resumed(self, stored: StoredRun) -> Draft | None:
        """The program that a run goes on with, which ran last; ``None`` where there is none, or it looked."""
        programs = await in_thread(self.requests.restore, stored)
        return Draft(Program(programs[-1])) if programs and programs[-1] else None

    # -- write ---------------------------------------------------------------------------------------------------------

    async def write(self) -> Draft:
        """Write the next program, given every program so far and how it went (Eq. 1 and 2).

        Raises:
            ModelError, ModelUnavailable, BudgetExceeded: from the model.
            SandboxUnavailable: there is no sandbox to run it in.
        """
        run = self.run
        writing = self.writer.write(self.history, self.calls, run.inputs)
        draft = await self._while_a_jail_boots(writing)
        await self.requests.admit(draft.program)
        self.announce(draft)
        return draft

    def announce(self, draft: Draft) -> None:
        """Tell the trace which program comes next."""
        data = {"attempt": len(self.run.revisions), "program": draft.source, "rewrites": list(draft.rewrites)}
        saw = self.run.wrote(draft.source)
        told = {"rules": list(draft.rules), "saw": saw}
        self.run.emit("program_written", data | {name: each for name, each in told.items() if each})

    async def _while_a_jail_boots(self, writing: Coroutine[Any, Any, T]) -> T:
        """What the model writes. Where there is no sandbox to run it in, nobody waits for it."""
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self.run.sandbox.prepare())
                written = both.create_task(self._counted(writing))
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        return written.result()

    async def _counted(self, work: Coroutine[Any, Any, T]) -> T:
        return await self.run.broker.host_time.steps(work)

    # -- check ---------------------------------------------------------------------------------------------------------

    async def check(self, draft: Draft) -> list[Finding]:
        """What is wrong with a program, before it runs: errors and warnings."""
        if not draft.source:
            return [Finding(kind="no_program", reason=draft.problem)]
        run, settings = self.run, self.run.settings
        if not (self.options.check and settings.check):
            return []
        packages = (
            bool(settings.sandbox_preload) or settings.sandbox not in SANDBOXES.own
        )  # only the driver knows which
        protocols = {protocol.name: protocol for protocol in run.tools.protocols}
        graph, calls = self._graph(), [*run.broker.calls]

        def checked() -> list[Finding]:  # a program, its tools and their answers may be large
            known = self._known() if self.options.author == "model" else None
            checker = Checker([*protocols.values()], rules=settings.active_rules, graph=graph, packages=packages)
            return checker.check(draft.program, known, run.inputs, calls)

        found = await asyncio.to_thread(checked)
        found += broken_tool_findings(draft.program, broken_tools(run))
        if (run.look is not None and looks(draft.program)) or self.requests.may_only_ask(draft.program):
            found = [finding for finding in found if finding.kind != "no_answer"]
        if self.options.author == "caller" or self._rests_on_looks:  # the author knows whether a call is needed
            found = [finding for finding in found if finding.kind != "no_call"]
        self._warned[draft.source] = warned(draft.program, protocols, found)
        return found

    def warned(self, draft: Draft) -> Warned:
        """What the check warned about in a program."""
        return self._warned.get(draft.source, Warned())

    def _known(self) -> str:
        given = [call.value for call in self.run.broker.calls if call.succeeded]
        given += self.run.inputs.values()
        return " ".join([self.run.task, self.run.preamble.known, *map(as_text, given)])

    def reject(self, draft: Draft, findings: Sequence[Finding]) -> None:
        """Record a program that does not run, for what the check found."""
        found = [finding.model_dump() for finding in findings]
        data: Findings = {"attempt": len(self.run.revisions), "findings": found}
        if about := self.warned(draft).found:
            data["warned"] = [finding.model_dump() for finding in about]
        self.run.emit("findings", data)
        self._record(draft, findings=tuple(findings))

    def _graph(self) -> ToolGraph:
        """What feeds what, for the check: also among tools of other parts, which may know what a program made up."""
        run = self.run
        others = run.all_tools.only(*(name for name in self._planned if name not in run.tools))
        return run.whole_graph.of((run.tools + others).protocols) if others else run.graph

    # -- execute, attribute, record ------------------------------------------------------------------------------------

    async def execute(self, draft: Draft) -> Outcome:
        """Run a program: see :meth:`Run.execute`. One after which the run ends is recorded."""
        of_writes = self.warned(draft).of_writes
        warnings = {tool: tuple(finding.message for finding in found) for tool, found in of_writes.items() if found}
        try:
            outcome = await self.run.execute(draft.program, warnings, self.warned(draft).found)
            self.run.unresolved[self.run.broker.journal.attempt] = self.warned(draft).silent
            return outcome
        except InputNeeded as needed:
            self.record(draft, asked_fault(needed))
            raise
        except WritesPlanned:
            self.record(draft, None)  # however it ended: nobody is to blame where a value is not known
            raise

    async def asked(self, draft: Draft, outcome: Outcome) -> bool:
        """Whether the last program ended with what the next one is given: values that it looked at, tools, documents.

        That is no failure, and costs no revision. After a write that was refused, or is in doubt, nothing is looked at.

        Raises:
            JournalError: it cannot be written down.
        """
        look = self.run.look
        if look is None or look.values is None:
            return await self.requests.only_asked(outcome)
        if refused_write(self.grounds) is not None or any(call.error_status == "warned" for call in self.grounds):
            return False
        self._record(draft, looked=tuple(look.values))
        await self.requests.looked(draft.source, look.values)
        self._since = len(self.run.revisions)
        return True

    @property
    def grounds(self) -> list[Call]:
        """The calls of the last program on which its answer can rest: to ask for tools is none."""
        return [call for call in self.run.last_calls if not self.requests.is_request(call.tool)]

    @property
    def _rests_on_looks(self) -> bool:
        """Whether an answer can rest on what programs of this task looked at: calls of them succeeded, and none failed
        since. One that is to be left out is no failure: nothing uses it, or an earlier stage did it.
        """
        journal = self.run.broker.journal
        first = journal.stage - len(self.requests.looks.programs)
        done = [e for e in journal.entries.values() if e.state == "done" and not self.requests.is_request(e.tool)]
        if not any(first <= entry.stage < journal.stage for entry in done):
            return False
        acted = any(entry.stage == journal.stage and entry.effect is not Effect.READ for entry in done)
        faults = [revision.fault for revision in self.history if revision.fault is not None]
        failed = [fault for fault in faults if fault.tool and fault.reason and not fault.idle]
        return not any(acted or fault.status != "already_done" for fault in failed)

    def fault_of(self, draft: Draft, outcome: Outcome) -> Fault | None:
        """Trace the failure of the last program by structure alone, with the warning that it bears out; ``None`` if it
        answered.
        """
        run = self.run
        looked = run.look is not None and run.look.values is not None
        if looked and (refused := refused_write(self.grounds)) is not None:
            return refusal(refused)
        linked = run.kept.linked(draft.source)
        tools = run.tools if linked is None else Toolset({**linked.inner, **run.tools}.values())
        fault = Attribution(
            run.kept.as_run(draft.program),
            outcome,
            self.grounds,
            tools,
            run.settings.active_rules,
            run.inputs,
            self.answer_type,
            stated=not self.grounds and self.options.author == "caller",
            looked=self._rests_on_looks,
        ).fault()
        if fault is not None and linked is not None:
            from atc.programs.attribution.within import placed  # few programs call kept ones

            fault = placed(fault, linked, outcome.error, self.grounds)
        if fault is not None and fault.case is FaultCase.IMPOSSIBLE and (away := self.requests.not_shown):
            fault = fault.model_copy(update={"hint": wording.tools_not_shown(away)})
        return fault and fault.model_copy(update={"finding": self.warned(draft).foretold(fault)})

    async def traced(self, draft: Draft, outcome: Outcome) -> Fault | None:
        """:meth:`fault_of`, in a thread: a program and its answers may hold much, and a deadline must be heeded."""
        return await asyncio.to_thread(self.fault_of, draft, outcome)

    async def attribute(self, draft: Draft, outcome: Outcome) -> Fault | None:
        """Trace the failure of the last program to the tool it came from (§3.3); ``None`` if it answered."""
        own = self.grounds
        fault = await self.traced(draft, outcome)
        if fault is None:
            return None
        if asked := await self.requests.grant():
            fault = fault.model_copy(update={"offered": tuple(asked)})
        fault = await self.run.recovery.recovered(fault, self.requests.add, draft.program)
        fault = advised(fault, own, self.run.broker.tools, outcome.error)
        made = next((call for call in own if call.index == fault.call), None)
        if made is not None and made.traceback is not None:
            fault = fault.model_copy(update={"traceback": made.traceback})
        self.run.emit("fault", {"attempt": len(self.run.revisions), "fault": fault.model_dump()})
        return fault

    def record(self, draft: Draft, fault: Fault | None) -> None:
        """Record a program that ran, and how it went."""
        self._record(draft, fault=fault, substituted=tuple(self.run.recovery.told()) if fault is None else ())

    def _record(
        self,
        draft: Draft,
        findings: tuple[Finding, ...] = (),
        fault: Fault | None = None,
        substituted: tuple[tuple[str, str], ...] = (),
        looked: tuple[str, ...] = (),
    ) -> None:
        self.run.record(
            Revision(
                attempt=len(self.run.revisions),
                program=draft.source,
                findings=findings,
                fault=fault,
                rewrites=draft.rewrites,
                stage=self.run.broker.journal.stage,
                substituted=substituted,
                looked=looked,
                warnings=self.warned(draft).silent if fault is not None else (),
            )
        )
