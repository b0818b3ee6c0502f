"""The policy of the chain: what a warning costs, which program comes next, and when it is enough.

A warning is asked about once, for the program may be right: the model writes another, and the one that was warned about
waits. It runs after all where what came in its place is no better.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atc.facts import Fault, Finding
from atc.fired_rules import fired
from atc.programs.check.coverage import exchanged_facts, forgotten_facts, unused_facts
from atc.programs.program import Program
from atc.result import Effect, Revision
from atc.strategies.candidates import best_candidate
from atc.strategies.program_loop import ProgramLoop
from atc.strategies.writer import Draft

MAX_ROUTED = 3
"""Tools that broke in a run and were routed round, none of which costs one of the α revisions."""


class ChainPolicy:
    """What the chain decides in one run, by the programs so far.

    Args:
        loop: the run's steps.
        before: the programs of this run that were written before it was cut off and resumed.
    """

    def __init__(self, loop: ProgramLoop, before: Sequence[str] = ()) -> None:
        self._loop, self._before = loop, tuple(before)
        self._context, self._settings = loop.context, loop.context.settings
        bound = self._settings.max_rejections
        self._max_rejections = self._settings.max_revisions if bound is None else bound
        self._warnings: dict[str, tuple[str, ...]] = {}
        self._programs: dict[str, Program] = {}

    async def next_program(self) -> Draft | None:
        """The program to go on with: one that waits, or a new one; ``None`` once a bound is used up (α, §3.3)."""
        spent = self._loop.spent
        rejections = sum(bool(revision.findings) for revision in spent)
        broken = sum(r.fault is not None and bool(r.fault.substitutes) for r in spent)  # each bans a tool
        if len(spent) - rejections - min(broken, MAX_ROUTED) > self._settings.max_revisions:
            return None
        if waiting := self._waiting():
            fired("warned-program" if self._history[-1].fault is None else "spare-program")
            self._loop.announce(waiting)
            return waiting
        return await self._written() if rejections <= self._max_rejections else None

    async def check(self, draft: Draft) -> list[Finding]:
        """What keeps a program from running: errors, and warnings that were not asked about yet."""
        self._programs.setdefault(draft.source, draft.program)
        found = await self._loop.check(draft)
        if not self._loop.ways.check or any(finding.severity == "error" for finding in found):
            return found
        found += self._left_out(draft.program)
        self._warnings[draft.source] = tuple(finding.message for finding in found)
        return self._not_asked(found)

    def confirms(self, fault: Fault, value: Any, before: Any) -> bool:
        """Whether two programs in a row found the same empty answer, which is the answer then."""
        on = "confirmed-nothing" in self._settings.active_rules
        nothing = fault.kind == "answer" and fault.case != "answer_type" and value not in (None, "")
        answers = self._loop.answer_type is None or self._context.misfit(value) is None
        confirmed = on and nothing and before == value and answers
        fired("confirmed-nothing", confirmed)
        return confirmed

    def skips(self, draft: Draft) -> bool:
        """Whether a program says that there is nothing to do, and need not run. None does, where one has to answer."""
        return False

    def warnings(self, draft: Draft) -> tuple[str, ...]:
        """What the check warned about in a program."""
        return self._warnings.get(draft.source, ())

    def fault(self) -> Fault:
        """Why the last program did not answer: its fault, or the first finding if it never ran."""
        last = self._history[-1]
        if last.fault is not None:
            return last.fault
        finding = last.findings[0]
        return Fault(kind="program", case="findings", finding=finding, line=finding.line, tool=finding.tool)

    # ------------------------------------------------------------------------------------------------------------------

    @property
    def _history(self) -> list[Revision]:
        return self._loop.history

    async def _written(self) -> Draft:
        count = self._settings.revision_candidates if self._history else self._settings.candidates
        return await (
            self._loop.write() if count == 1 else best_candidate(self._loop, count, self.check, self.warnings)
        )

    def _waiting(self) -> Draft | None:
        """A program that only warnings kept from running, where what came in its place is no better.

        Is that rejected too, the facts of the task that the one before leaves out may matter less; other warnings name
        the better way, which is worth another reply. Did it fail in its turn, any warning may. Not, though, where
        something with an effect was asked for meanwhile: the program that waits does not know of it.
        """
        if len(self._history) < 2:
            return None
        last, ran = self._history[-1], {r.program for r in self._history if not r.findings}
        rules = self._settings.active_rules
        if last.fault is None:
            named = self._history[-2:-1] if "warned-program" in rules else []
            waiting = [r for r in named if all(f.kind == "unused_fact" for f in r.findings)]
        elif "spare-program" not in rules or any(call.effect is not Effect.READ for call in self._context.calls):
            waiting = []
        else:
            failed = self._failed_tools()
            waiting = [
                r for r in self._history if all(f.severity == "warning" and f.tool not in failed for f in r.findings)
            ]
        return next(
            (Draft(self._parsed(r.program), r.rewrites) for r in waiting if r.findings and r.program not in ran), None
        )

    def _not_asked(self, warnings: Sequence[Finding]) -> list[Finding]:
        """Each is asked about once; again, where the tool that it is about failed since; never of the last reply."""
        if sum(bool(revision.findings) for revision in self._loop.spent) >= self._max_rejections:
            return []
        asked = {finding.subject for revision in self._history for finding in revision.findings}
        failed = self._failed_tools()
        return [warning for warning in warnings if warning.subject not in asked or warning.tool in failed]

    def _parsed(self, source: str) -> Program:
        """The program of an earlier revision, parsed once a run."""
        return self._programs.setdefault(source, Program(source))

    def _failed_tools(self) -> set[str]:
        return {r.fault.tool for r in self._history if r.fault is not None and r.fault.tool is not None}

    def _left_out(self, program: Program) -> list[Finding]:
        """The facts of the task that a program leaves out."""
        task = self._context.task
        earlier = [self._parsed(text) for text in (*self._before, *(revision.program for revision in self._history))]
        rules = self._settings.active_rules
        forgotten = forgotten_facts(task, program, earlier) if "forgotten-fact" in rules else []
        spent = exchanged_facts(program, self._context.calls) if forgotten and "exchanged-fact" in rules else set()
        facts = unused_facts(task, program) if "unused-fact" in rules else []
        unused = [Finding(kind="unused_fact", severity="warning", name=fact) for fact in facts]
        left = [fact for fact in forgotten if fact.casefold() not in spent]
        for rule, times in (("unused-fact", len(unused)), ("forgotten-fact", len(left))):
            fired(rule, times)
        fired("exchanged-fact", len(forgotten) - len(left))
        return unused + [Finding(kind="unused_fact", case="forgotten", severity="warning", name=fact) for fact in left]
