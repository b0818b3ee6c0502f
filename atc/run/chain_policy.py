"""The policy of the chain: what a finding costs, which program comes next, and when it is enough.

An error sends a program back. A warning does not, for the program may be right: it runs, and the warning goes with its
failure, if it fails there. Only where a write depends on what is warned about, or the program would fail half way, is
it sent back, once; the model may insist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atc._records.records import FaultCase
from atc.facts import Fault, Finding
from atc.programs.responses import is_first_part
from atc.result import Effect, Revision
from atc.run.endings import refused_by_check
from atc.run.program_loop import ProgramLoop
from atc.run.writer import Draft

MAX_ROUTED = 3
"""Tools that broke in a run and were routed round, none of which costs one of the α revisions."""

_NOT_THERE = frozenset({404, 410, "not_found", "unknown_id"})
"""Statuses by which a service says that there is no such thing."""


class ChainPolicy:
    """Decides for the chain in one run, by the programs so far.

    Args:
        loop: the run's steps.
        before: the programs of this run that were written before it was cut off and resumed.
    """

    def __init__(self, loop: ProgramLoop, before: Sequence[str] = ()) -> None:
        self._loop, self._before = loop, frozenset(before)
        self._run, self._settings = loop.run, loop.run.settings
        bound = loop.options.max_rejections
        self._max_rejections = self._settings.max_revisions if bound is None else bound
        self._foretold = 0

    async def next_program(self) -> Draft | None:
        """Return a new program to go on with; ``None`` once a bound is used up (α, §3.3)."""
        spent = self._loop.spent
        broken = sum(r.fault is not None and bool(r.fault.substitutes) for r in spent)  # each bans a tool
        if len(spent) - self._rejections - min(broken, MAX_ROUTED) > self._settings.max_revisions:
            return None
        if self._rejections > self._max_rejections:
            return None
        return await self._loop.write()

    async def check(self, draft: Draft) -> list[Finding]:
        """Return what keeps a program from running: errors, and warnings before a write that were not told yet."""
        found = await self._loop.check(draft)
        errors = [finding for finding in found if finding.severity == "error"]
        return [*errors, *self._not_told(draft)]

    def count(self, fault: Fault) -> None:
        """Count a program that ran and failed. Where a warning foretold it and nothing was written, the run was no more
        than a check: it counts as refused by it, and costs none of the α revisions.
        """
        calls = self._run.last_calls
        wrote = any(call.effect is not Effect.READ and call.status != "refused" for call in calls)
        self._foretold += fault.finding is not None and not wrote

    def confirms(self, fault: Fault, value: Any, before: Any) -> bool:
        """Return whether two programs in a row found the same answer that rests on nothing, which is the answer then.

        It is none where a tool failed and that is all that is known: a program that leaves out the call, or catches its
        error, has not answered. What is not there may be just what the task asks.
        """
        nothing = fault.kind == "answer" and fault.case is not FaultCase.ANSWER_TYPE
        if fault.case is FaultCase.NO_SUCCESS:
            nothing = all(call.error_status in _NOT_THERE for call in self._run.last_calls if not call.succeeded)
        if fault.case is FaultCase.NO_CALLS:
            failed = [f for revision in self._history if (f := revision.fault) is not None and f.tool is not None]
            nothing = all(each.status in _NOT_THERE for each in failed)
        if value in (None, ""):  # where it was set, and not from a call that failed or a part of a list
            searched = fault.call is None and any(is_first_part(call) for call in self._run.last_calls)
            nothing = fault.case in (FaultCase.EMPTY, FaultCase.OWN_NONE) and not fault.reason and not searched
        answers = self._loop.answer_type is None or self._run.misfit(value) is None
        return nothing and before == value and answers

    def gives_up(self) -> bool:
        """Whether the last program said that no tool can do the task; where a program can look for more tools, the last
        two."""
        said = 2 if self._loop.requests.finds_more else 1
        last = [revision.fault.case if revision.fault is not None else "" for revision in self._history[-said:]]
        return last == [FaultCase.IMPOSSIBLE] * said

    def fault(self) -> Fault:
        """Return why the last program did not answer: its fault, or the first finding if it never ran."""
        last = self._history[-1]
        if last.fault is not None:
            return last.fault
        return refused_by_check(last.findings)

    # ------------------------------------------------------------------------------------------------------------------

    @property
    def _history(self) -> list[Revision]:
        return self._loop.history

    @property
    def _rejections(self) -> int:
        return sum(bool(revision.findings) for revision in self._loop.spent) + self._foretold

    def _not_told(self, draft: Draft) -> list[Finding]:
        """Return the warnings for which a program is sent back: each once in a run, and none where no reply is left."""
        allowed = self._run.broker.approval.warnings == "allow"
        if allowed or draft.source in self._before or self._rejections >= self._max_rejections:
            return []
        told = {finding.subject for revision in self._history for finding in revision.findings}
        return [warning for warning in self._loop.warned(draft).gating if warning.subject not in told]
