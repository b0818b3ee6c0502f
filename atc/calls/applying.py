"""Applies the plan of a dry run: each write must be the next planned one, or it is not made.

The program of the plan runs again, for real. Its reads are free. A write waits until the one before it has ended, also
under ``parallel``, and is then held against the plan: the tool, as it was, and each argument by its digest. A part that
a planned call was to answer is filled by what that call did answer. The first difference, and the first write that
fails, ends it: no further write is made, whatever the program catches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from atc._host.redaction import Redactor
from atc._records.origins import is_within
from atc._records.records import DifferenceKind, Invocation, OtherArgument, PlanDifference
from atc.calls.approval import ApprovalRequest
from atc.calls.attempt import Attempt, cut_arguments, masked_flow
from atc.calls.entry import same_tool
from atc.calls.forms import NOTHING, filled
from atc.calls.parked import Decision, changed_parts, parts_of
from atc.calls.plans import KeptCall, Plan, digest
from atc.errors import CallRefused, ToolError
from atc.result import Effect
from atc.tools.tool import Tool, Toolset
from atc.wording.applied import not_planned

OUT_OF_TURN_S = 1.0
"""Seconds for which a write waits that the plan has later: threads of ``parallel`` may overtake each other."""
MAX_SHOWN = 200
"""Characters of a value that differs."""


class PlanDiffers(CallRefused):
    """A write is not the next planned one. The program ends with it.

    Args:
        difference: how it differs.
    """

    def __init__(self, difference: PlanDifference) -> None:
        super().__init__(not_planned(difference), status="plan_differs", cause="denied")
        self.difference = difference


class Applying:
    """Holds the writes of one run to a plan.

    Args:
        plan: what may be done.
        yes: to the plan: it stands for the answer to each question about a planned write.
        redactor: of the run. ``run_key``: of its journal.

    Attributes:
        stopped: the call that was not the planned one, and how; ``None`` while there is none.
    """

    def __init__(self, plan: Plan, yes: Decision, redactor: Redactor, run_key: str = "") -> None:
        self.plan, self.yes = plan, yes
        self._run_key = run_key
        self.stopped: tuple[Attempt, PlanDifference] | None = None
        self._redactor = redactor
        self._writes = plan.writes
        self._reads = [call for call in plan.calls if call.effect is Effect.READ]
        self._position = 0
        self._answers: dict[int, Any] = {}  # by the number of the planned call
        self._busy = 0
        self._failed: Attempt | None = None
        self._moved = asyncio.Event()

    def changed_tool(self, tools: Toolset) -> PlanDifference | None:
        """Return the difference of the first planned write whose tool is gone, or is another one than it was."""
        inner = tools.inner_tools
        for call in self._writes:
            tool = tools.get(call.key.tool) or inner.get(call.key.tool)
            if tool is None:
                return PlanDifference(kind="changed_tool", planned=call.shown)
            if changed := self._changed(call, tool):
                return changed
        return None

    def _changed(self, call: KeptCall, tool: Tool) -> PlanDifference | None:
        parts = tuple(map(self._redactor.text, changed_parts(call.parts, parts_of(tool, self._run_key))))
        return PlanDifference(kind="changed_tool", planned=call.shown, parts=parts) if parts else None

    async def take_turn(self, attempt: Attempt) -> None:
        """Let a write go on that is the next planned one, once the one before it has ended.

        Args:
            attempt: the call, its arguments as they are sent. A read goes on at once.

        Raises:
            PlanDiffers: it is not the next planned one, or one before it failed.
        """
        if attempt.reads:
            return
        waits_at, until = -1, 0.0
        given = _digests(attempt)
        while True:
            if self.stopped is not None:
                raise PlanDiffers(self.stopped[1])
            if self._busy:
                await self._move()
                continue
            difference = self._difference(attempt, given)
            if difference is None:
                self._busy = attempt.number
                return
            now = asyncio.get_running_loop().time()
            if waits_at != self._position:
                waits_at, until = self._position, now + OUT_OF_TURN_S
            if now >= until or not self._comes_later(attempt, given):
                self.stopped = attempt, difference
                self._moved.set()
                raise PlanDiffers(difference)
            await self._move(until - now)

    def ended(self, attempt: Attempt) -> None:
        """Note that a call has ended: the next write may be made if it was done, and else none."""
        if attempt.number == self._busy:
            self._busy = 0
            if _is_done(attempt) and attempt.body_error is None:
                self._answer(self._writes[self._position], attempt)
                self._position += 1
            else:
                self._failed = attempt
            self._moved.set()
        elif self._reads and attempt.reads and _is_done(attempt):
            given = _digests(attempt)
            for call in self._reads:
                if call.number not in self._answers and self._is_same(call, attempt, given):
                    self._answer(call, attempt)
                    return

    @staticmethod
    def ends(error: ToolError) -> bool:
        """Return whether the program ends with a call that failed so."""
        return isinstance(error, PlanDiffers)

    def decision(self, request: ApprovalRequest) -> Decision | None:
        """Return the yes that holds for a planned write; ``None`` where it does not show what is asked about now: a
        warning, a repeat, another tool's place, an origin of an argument."""
        shown = self._writes[self._position].shown
        is_odd = request.is_repeat or request.instead_of or not {*request.warnings} <= {*shown.warnings}
        flow = masked_flow(request.data_flow, self._redactor)
        return None if is_odd or not is_within(flow, shown.data_flow) else self.yes

    def left(self) -> list[Invocation]:
        """Return the planned writes that were not made, credentials masked. One in doubt may have been."""
        at = self._position + (self._failed is not None and _may_be_done(self._failed))
        return [Invocation(tool=c.shown.tool, arguments=cut_arguments(c.shown.arguments)) for c in self._writes[at:]]

    # ------------------------------------------------------------------------------------------------------------------

    async def _move(self, seconds: float | None = None) -> None:
        self._moved.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._moved.wait()
        except TimeoutError:
            return

    def _answer(self, call: KeptCall, attempt: Attempt) -> None:
        self._answers[call.number] = attempt.value if attempt.unread is None else NOTHING

    def _comes_later(self, attempt: Attempt, given: Mapping[str, str]) -> bool:
        later = self._writes[self._position + 1 :]
        return self._failed is None and any(self._is_same(call, attempt, given) for call in later)

    def _difference(self, attempt: Attempt, given: Mapping[str, str]) -> PlanDifference | None:
        planned = self._writes[self._position] if self._position < len(self._writes) else None
        if planned is None:
            return PlanDifference(kind="too_many")
        kind: DifferenceKind
        if self._failed is not None:
            kind = "after_failure"
        elif not same_tool(planned.key, attempt.key) or planned.shown.tool != self._redactor.text(planned.key.tool):
            kind = "tool"
        elif changed := self._changed(planned, attempt.granted):
            return changed
        elif names := self._other_names(planned, given) or self._not_shown(planned, attempt.arguments):
            others = tuple(self._other(planned, name, attempt.arguments) for name in names)
            return PlanDifference(kind="arguments", planned=planned.shown, arguments=others)
        else:
            return None
        return PlanDifference(kind=kind, planned=planned.shown)

    def _is_same(self, planned: KeptCall, attempt: Attempt, given: Mapping[str, str]) -> bool:
        return same_tool(planned.key, attempt.key) and not self._other_names(planned, given)

    def _other_names(self, planned: KeptCall, given: Mapping[str, str]) -> list[str]:
        wanted = {name: _wanted(filled(form, self._answers)) for name, form in planned.unknown.items()} | dict(
            planned.arguments
        )
        return [
            name for name in dict.fromkeys((*wanted, *given)) if not wanted.get(name) or wanted[name] != given.get(name)
        ]

    def _not_shown(self, planned: KeptCall, given: Mapping[str, Any]) -> list[str]:
        """Return the arguments of a planned call of which a person was shown something else: a hand in the store could
        do that, and nobody said yes to what is hidden."""
        known = {name: (given[name], planned.shown.arguments) for name in planned.arguments}
        made = {name: (form, planned.shown.forms) for name, form in planned.unknown.items()}
        names = {self._redactor.text(name): name for name in known | made}
        more = [name for name in planned.shown.arguments if names.get(name) not in known]
        return more + [
            name
            for name, (value, shown) in (known | made).items()
            if digest(self._redactor.value(value)) != digest(shown.get(self._redactor.text(name), NOTHING))
        ]

    def _other(self, planned: KeptCall, name: str, given: Mapping[str, Any]) -> OtherArgument:
        is_unknown = name in planned.unknown
        known = (
            filled(planned.unknown[name], self._answers) if is_unknown else planned.shown.arguments.get(name, NOTHING)
        )
        pair = (known, given.get(name, NOTHING))
        before, after = (each if each is NOTHING else self._redactor.value(each) for each in pair)
        path: list[str | int] = []
        while (step := _first_other(before, after)) is not None:
            path.append(step)
            before, after = before[step], after[step]
        start = _common(before, after) if isinstance(before, str) and isinstance(after, str) else 0
        shown = ["" if each is NOTHING else _text(each, start) for each in (before, after)]
        return OtherArgument(name=self._redactor.text(name), path=tuple(path), planned=shown[0], now=shown[1])


def _wanted(value: Any) -> str:
    return "" if value is NOTHING else digest(value)


def _digests(attempt: Attempt) -> dict[str, str]:
    return {name: digest(value) for name, value in attempt.arguments.items()}


def _first_other(before: Any, after: Any) -> str | int | None:
    """Return a step into two values of one form, where the first difference is; ``None`` where they part here."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        return next((key for key in before if digest(before[key]) != digest(after[key])), None)
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return next((at for at in range(len(before)) if digest(before[at]) != digest(after[at])), None)
    return None


def _common(one: str, other: str) -> int:
    """Return how many characters of two texts are left out of both: most of what they begin with."""
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return max(0, same - MAX_SHOWN // 4) if max(len(one), len(other)) > MAX_SHOWN else 0


def _text(value: Any, start: int) -> str:
    if isinstance(value, str):
        return f"{'…' if start else ''}{value[start : start + MAX_SHOWN]!r}"
    return repr(value)[:MAX_SHOWN]


def _is_done(attempt: Attempt) -> bool:
    return attempt.status == "replayed" or (attempt.entry is not None and attempt.entry.state == "done")


def _may_be_done(failed: Attempt) -> bool:
    was_before = failed.error is not None and failed.error.status == "in_doubt"
    return was_before or (failed.entry is not None and failed.entry.in_doubt)
