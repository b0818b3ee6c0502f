"""One run and all that it works with: the pieces that a strategy puts in order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from atc.calls.broker import Broker
from atc.calls.pages import Pages
from atc.errors import ModelError
from atc.outcome import Outcome
from atc.packing import as_text
from atc.programs.attribution.attribute import Attribution
from atc.programs.check.checker import Checker
from atc.programs.check.coverage import DOUBTS, UNUSED, forgotten_facts, stood_for, unused_facts
from atc.programs.program import Program
from atc.result import Call, Effect, Fault, Finding, Revision
from atc.sandboxes.contract import Job, Sandbox
from atc.sandboxes.drivers import limits_from
from atc.settings import Settings
from atc.strategies.endings import advised
from atc.strategies.find_tools import MAX_ASKS, Docs, Finder
from atc.strategies.writer import Draft, Writer
from atc.tools.parameters import parameters_of
from atc.tools.tool import Toolset
from atc.traces.events import Emit

T = TypeVar("T")


@dataclass
class Run:
    """The state of one run. Strategies call its steps; it tells the trace what happens.

    Attributes:
        finder: answers programs that look for tools; ``None`` where all are offered. ``open``: opens what they found.
        docs: answers programs that ask for whole documents; ``None`` where that is not wanted. Offered once one is cut.
        before: the programs of this run that were written before it was cut off and resumed.
        revisions: every program so far and how it went.
        isolation: driver and tier of the last program's sandbox.
    """

    task: str
    tools: Toolset
    settings: Settings
    writer: Writer
    checker: Checker | None
    sandbox: Sandbox
    broker: Broker
    emit: Emit
    finder: Finder | None = None
    open: Callable[[Toolset], Awaitable[None]] | None = None
    docs: Docs | None = None
    before: tuple[str, ...] = ()
    revisions: list[Revision] = field(default_factory=list)
    isolation: str = ""
    _programs: dict[str, Program] = field(default_factory=dict)  # by source
    _executed: set[str] = field(default_factory=set)
    _warnings: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by program, as the last check gave them
    _asks: int = 0

    def __post_init__(self) -> None:
        self._pages = Pages(self.broker)
        if self.docs is not None:
            self.docs.offered = self.tools

    @property
    def calls(self) -> list[Call]:
        """All calls so far, in the order in which they were asked for."""
        return sorted(self.broker.calls, key=lambda call: call.index)

    async def write(self) -> Draft:
        """Write the next program."""
        draft = await self.while_a_jail_boots(self.writer.write(self.revisions, self.calls))
        self.announce(draft)
        return draft

    async def while_a_jail_boots(self, writing: Coroutine[Any, Any, T]) -> T:
        """What the model writes. Where there is no sandbox to run it in, nobody waits for it.

        Raises:
            SandboxUnavailable: there is none.
        """
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self.sandbox.prepare())
                written = both.create_task(writing)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        return written.result()

    def announce(self, draft: Draft) -> None:
        """Tell the trace of a program that is about to be checked."""
        data = {"attempt": len(self.revisions), "program": draft.source, "mended": list(draft.mended)}
        self.emit("program_written", data)

    async def check(self, draft: Draft) -> list[Finding]:
        """What is surely wrong with a program, before it runs."""
        findings = await self.findings(draft)
        if findings:
            found = [finding.model_dump() for finding in findings]
            self.emit("findings", {"attempt": len(self.revisions), "findings": found})
        return findings

    async def findings(self, draft: Draft) -> list[Finding]:
        """As :meth:`check`, and nobody is told."""
        if draft.program is None:
            return [Finding(kind="no_program", message=draft.problem)]
        if self.checker is None:
            return []
        found = await self.checker.check(draft.program, self._known())
        if any(finding.kind not in DOUBTS for finding in found):
            return found
        found += self._left_out(draft.program)
        self._warnings[draft.source] = tuple(finding.message for finding in found)
        return self._not_asked(found)

    def _not_asked(self, doubts: Sequence[Finding]) -> list[Finding]:
        """Each is asked about once, for the program may be right; again, where the tool that it is about failed since.

        The last program is not asked about: nobody would write another.
        """
        if len(self.revisions) >= self.settings.max_revisions:
            return []
        asked = {finding.message for revision in self.revisions for finding in revision.findings}
        return [doubt for doubt in doubts if doubt.message not in asked or doubt.tool in self._failed_tools()]

    def _failed_tools(self) -> set[str]:
        return {r.fault.tool for r in self.revisions if r.fault is not None and r.fault.tool is not None}

    def _left_out(self, program: Program) -> list[Finding]:
        """What the program leaves out of the task."""
        earlier = [self._parsed(text) for text in (*self.before, *(revision.program for revision in self.revisions))]
        rules = self.settings.active_rules
        unused = unused_facts(self.task, program) if "unused-fact" in rules else []
        forgotten = forgotten_facts(self.task, program, earlier) if "forgotten-fact" in rules else []
        spent = stood_for(program, self.calls) if forgotten and "exchanged-fact" in rules else set()
        texts = [f"the task says {fact}, but the program uses it nowhere" for fact in unused]
        texts += [
            f"the task says {fact!r}, which an earlier program used and this one does not"
            for fact in forgotten
            if fact.casefold() not in spent
        ]
        return [Finding(kind=UNUSED, message=text) for text in texts]

    def only_doubted(self) -> Draft | None:
        """The last program, if nothing but facts that it leaves out kept it from running.

        Other doubts name the better way, which is worth mending for.
        """
        last = self.revisions[-1] if self.revisions and "warned-program" in self.settings.active_rules else None
        if last is None or not last.findings or any(f.kind != UNUSED for f in last.findings):
            return None
        return Draft(self._parsed(last.program), last.mended)

    def spare(self) -> Draft | None:
        """A program that nothing but doubts kept from running, once the one in its place has failed.

        Not where something with an effect was done meanwhile: this program does not know of it.
        """
        if not self.revisions or self.revisions[-1].fault is None or "spare-program" not in self.settings.active_rules:
            return None
        if any(call.effect is not Effect.READ for call in self.calls):
            return None
        failed = self._failed_tools()
        doubted = (
            r
            for r in self.revisions
            if r.findings and all(f.kind in DOUBTS and f.tool not in failed for f in r.findings)
        )
        draft = next(
            (Draft(self._parsed(r.program), r.mended) for r in doubted if r.program not in self._executed), None
        )
        if draft is not None:
            self.announce(draft)
        return draft

    def _known(self) -> str:
        """What a program may have its values from: the task, and what tools have answered."""
        return " ".join([self.task, *(as_text(call.value) for call in self.broker.calls if call.succeeded)])

    def _parsed(self, source: str) -> Program:
        """The program of an earlier revision, parsed once a run."""
        return self._programs.setdefault(source, Program(source))

    async def execute(self, program: Program) -> Outcome:
        """Run a program in a fresh jail, its calls through the broker."""
        warnings = self._warnings.get(program.source, ())
        self.broker.begin_program(warnings)
        self._executed.add(program.source)
        names = {name: [p.name for p in parameters_of(tool.protocol)] for name, tool in self.tools.items()}
        self.emit("program_started", {"attempt": len(self.revisions), "warnings": list(warnings)})
        outcome = await self.sandbox.run(Job(program.source, names, limits_from(self.settings)), self._pages.call)
        outcome = self._pages.placed(outcome)
        self.isolation = f"{self.sandbox.name}/{outcome.isolation}"
        told = {"kind": outcome.kind, "seconds": round(outcome.seconds, 6), "detail": outcome.detail}
        texts = {"stdout": outcome.stdout[-20_000:], "stderr": outcome.stderr[-20_000:]}
        self.emit("program_ended", {"attempt": len(self.revisions), **told, **texts, "isolation": self.isolation})
        return outcome

    async def attribute(self, program: Program, outcome: Outcome) -> Fault | None:
        """Trace a failure to the tool it came from; ``None`` if the program answered."""
        own = self.grounds()
        fault = Attribution(program, outcome, own, self.tools, self.settings.active_rules).fault()
        if fault is None:
            return None
        if asked := await self._offer_asked():
            told = f"{', '.join(asked)}, which it asked for, can be called now"
            fault = fault.model_copy(update={"evidence": f"{fault.evidence} {told}".strip()})
        if self.settings.attribution == "none":
            fault = _bare(fault, outcome)
        elif fault.cause is None and (
            self.settings.attribution == "model" or (fault.tool is None and fault.kind == "answer" and own)
        ):
            fault = await self._ask_for_culprit(program.source, fault)
        fault = advised(fault)
        made = next((call for call in own if call.index == fault.call), None)
        if made is not None and made.traceback is not None:
            fault = fault.model_copy(update={"traceback": made.traceback})
        self.emit("fault", {"attempt": len(self.revisions), "fault": fault.model_dump()})
        return fault

    async def only_asked(self, outcome: Outcome) -> bool:
        """Whether a program did nothing but ask for tools or documents that the next one gets; so often it is free."""
        if outcome.kind != "finished" or self.grounds() or self._asks >= MAX_ASKS:
            return False
        asked = bool(await self._offer_asked())
        self._asks += asked
        return asked

    def grounds(self) -> list[Call]:
        """The calls of the program that ran last, on which its answer can rest: to ask for tools is none."""
        own = [call for call in self.calls if call.attempt == self.broker.journal.attempt]
        return [call for call in own if not self._asks_by(call.tool)]

    def _asks_by(self, tool: str) -> bool:
        """Whether that is ``find_tools`` or ``tool_docs``, and no user's tool of that name."""
        return any(asking is not None and asking.tool.name == tool for asking in (self.finder, self.docs))

    async def _offer(self, tools: Toolset) -> None:
        """Offer the next program these tools, and ``tool_docs`` where one of them is shown in part."""
        self.tools = await offer(self.writer, tools, self.docs)
        if self.docs is not None:
            self.docs.offered = self.tools
        self.broker.grant(self.tools)
        if self.checker is not None:
            self.checker.close()
            self.checker = Checker(self.tools.protocols, rules=self.settings.active_rules)

    async def _offer_asked(self) -> list[str]:
        """Give the next program what this one asked for: the tools that it found, and whole documents; their names."""
        found = self.finder.take() if self.finder is not None and self.open is not None else Toolset()
        whole = self.docs.take() if self.docs is not None else []
        asked = [*found, *whole]
        if not asked:
            return []
        if found and self.open is not None:
            await self.open(found)
        self.writer.show_whole(asked)
        await self._offer(self.tools + found)
        offered = [name for name in self.tools if not self._asks_by(name)]
        self.emit("tools_chosen", {"tools": offered, "found": list(found), "whole": whole})
        return asked

    def close(self) -> None:
        """Let go of what was made for this run alone."""
        if self.checker is not None:
            self.checker.close()

    async def _ask_for_culprit(self, program: str, fault: Fault) -> Fault:
        """The paper's way (§3.3), where it is asked for or structure gives nothing."""
        named = await self.writer.name_culprit(program, fault.message)
        return fault.model_copy(update={"tool": named, "call": None, "by": "model"})

    def keep(self, draft: Draft, findings: Sequence[Finding], fault: Fault | None) -> None:
        """Write down a program and how it went."""
        revision = Revision(
            attempt=len(self.revisions),
            program=draft.source,
            findings=tuple(findings),
            fault=fault,
            mended=draft.mended,
        )
        self.revisions.append(revision)
        if draft.program is not None:
            self._programs.setdefault(draft.source, draft.program)


async def offer(writer: Writer, tools: Toolset, docs: Docs | None) -> Toolset:
    """Let a writer offer these tools, and ``tool_docs`` beside them where its prompt shows one of them in part."""
    writer.offer(tools)
    with contextlib.suppress(ModelError):  # the next program meets it again
        await writer.prepare()
    if docs is not None and writer.cut and docs.tool.name not in tools:
        tools += Toolset([docs.tool])
        writer.offer(tools)
    return tools


def _bare(fault: Fault, outcome: Outcome) -> Fault:
    """The fault as a plain traceback tells it: no tool, no evidence (to measure what attribution is worth)."""
    error = outcome.error
    text = f"line {error.line}: {error.type}: {error.message}" if error else fault.message
    return Fault(
        kind="program", message=text, line=fault.line, source_line=fault.source_line, cause=fault.cause, hint=fault.hint
    )
