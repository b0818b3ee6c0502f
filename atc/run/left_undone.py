"""An answer may leave things undone: writes that were refused or are in doubt, and failures that a program caught.

A program may catch a ``ToolError`` and go on, which is right for what it knows another way round. It makes no refusal
good: a run that answers without a write that was refused ends as ``denied``, with one in doubt as ``in_doubt``, also
where it finds no answer. A value is kept, and the result is ``partial``. So is an answer without a write that failed,
or whose response states an error that the program does not look at, and that no later call made good. All that is told
by the broker's calls and the journal, never by what the program says.

A warning of the check about a call that the answer rests on is a remark, too, where no run can settle it; and so is a
part of a list that the program took for the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import cast

from atc._records.packing import as_text
from atc._records.records import FaultCase, Invocation
from atc.calls.attempt import cut_arguments
from atc.calls.broker import Broker
from atc.calls.entry import CallEntry
from atc.errors import Cause
from atc.facts import Fault
from atc.programs.program import Program
from atc.programs.responses import blames_arguments, failure_case, has_other_value, invocation, names_error
from atc.result import Call, Effect, RunStatus
from atc.run.base import Ending
from atc.run.endings import advised
from atc.run.run import Run

MAX_REMARKS, MAX_WARNINGS = 20, 5
"""Failures and warnings that a result names, and warnings among them; its calls have all failures."""


def settled(ending: Ending, run: Run) -> Ending:
    """Return the ending of a run, as what it left undone makes it where it answered or found no answer."""
    if ending.status not in ("answered", "unsolved"):
        return ending
    programs = [run.kept.as_run(Program(each.program)) for each in run.revisions]
    before = [] if run.text == "author" else denied_before(run.broker, run.calls)  # a client knows what it left out
    left = LeftUndone(run.broker, run.calls, programs, before)
    lines = run.revisions[-1].program.splitlines() if run.revisions else []
    if ending.status == "unsolved":
        if left.write is None or left.cause != "in_doubt":
            return ending
        fault = _fault_of(left.write, lines).model_copy(update={"cause": "in_doubt"})
        other = () if ending.fault is None or ending.fault.call == fault.call else (ending.fault,)
        fault = advised(fault, [left.write], run.broker.tools)
        return replace(ending, status="in_doubt", fault=fault, remarks=(*ending.remarks, *other))
    unresolved = tuple(_unresolved(run, left))[:MAX_WARNINGS]
    told = (*left.caught, *left.replaced)
    remarks = tuple(_fault_of(call, lines) for call in told)[: MAX_REMARKS - len(unresolved)] + unresolved
    remarks += ending.remarks
    undone, cause = left.write, left.cause
    if undone is None or cause is None:
        return replace(ending, partial=ending.partial or left.partial, remarks=remarks)
    fault = advised(_fault_of(undone, lines).model_copy(update={"cause": cause}), [undone], run.broker.tools)
    return Ending(cast(RunStatus, cause), ending.value, fault, partial=True, remarks=remarks)


def _unresolved(run: Run, left: LeftUndone) -> Iterator[Fault]:
    grounds = left.grounds
    for attempt, findings in run.unresolved.items():
        made = {call.tool: call.index for call in grounds if call.attempt == attempt}
        for found in findings:
            if found.case == "compared" and any(map(partial(has_other_value, found), grounds)):
                continue
            if found.tool in made or (found.tool is None and made):
                call = made.get(found.tool or "")
                yield Fault(
                    kind="program",
                    case=FaultCase.UNRESOLVED,
                    finding=found,
                    tool=found.tool,
                    call=call,
                    line=found.line,
                )


def tools_gone(run: Run) -> tuple[Fault, ...]:
    """Return the tools that a resumed run had before and that are not there any more; however it ended."""
    names = run.gone[:MAX_REMARKS]
    return tuple(Fault(kind="environment", case=FaultCase.TOOL_GONE, tool=name) for name in names)


def writes_of(broker: Broker, calls: Sequence[Call]) -> tuple[list[Invocation], list[Invocation]]:
    """Return the calls with effects that a request has made, and those that were refused and that none made later:
    nobody approved them, or a write in doubt stood in their way.

    Args:
        broker: its journal has what earlier programs and processes did.
        calls: of this request, in order.
    """
    stated = {call.index for call in calls if call.body_error is not None}  # the service answered, and did nothing
    done = [entry for entry in broker.writes if entry.number not in stated]
    doubtful = [entry for entry in broker.journal.entries.values() if entry.in_doubt]
    made = {_request(entry): entry.number for entry in chain(doubtful, done)}
    writes = (call for call in chain(denied_before(broker, calls), calls) if call.effect is not Effect.READ)
    refused = {_request(call): call for call in writes if _is_denied(call) or _is_refused_in_doubt(call)}
    left = (call for key, call in refused.items() if made.get(key, 0) < (call.index if _is_denied(call) else 1))
    return [*map(invocation, done)], [*map(invocation, left)]


def denied_before(broker: Broker, calls: Sequence[Call]) -> list[Call]:
    """Return the calls to which somebody has said no before this process, and which these calls do not show."""
    told = {call.index for call in calls} | {_request(call) for call in calls if _is_denied(call)}
    rows = (row.shown for row in broker.journal.parked.denied(broker.journal.request))
    first = min((call.attempt for call in calls), default=broker.journal.attempt)
    found = [
        Call(
            index=row.index,
            attempt=first - 1,
            tool=row.tool,
            arguments=row.arguments,
            effect=Effect(row.effect),
            stage=broker.journal.stage,
            status="refused",
            error="it was not approved",
            error_status="denied",
            cause="denied",
            refused_by="user",
        )
        for row in rows
    ]
    return [call for call in found if call.index not in told and _request(call) not in told]


def refused_write(run: Run) -> bool:
    """Return whether a write is refused or in doubt, so that nothing may go on from the program that ran last."""
    return LeftUndone(run.broker, run.calls).write is not None


def call_of(entry: CallEntry) -> Call:
    """Return a call in doubt that an earlier process began, as a result holds it: it failed, or was cut off."""
    return Call(
        index=entry.number,
        attempt=entry.attempt,
        tool=entry.tool,
        arguments=entry.arguments,
        effect=entry.effect,
        stage=entry.stage,
        status="in_doubt",
        error=entry.failure or "the run was cut off during this call",
    )


@dataclass(frozen=True)
class LeftUndone:
    """Finds what the calls of one run leave undone, once its last program has ended.

    Args:
        broker: of the run.
        calls: of this request, in order.
        programs: as they ran, by which it is known what they look at of a response.
        before: of earlier processes, to which somebody said no (:func:`denied_before`).
    """

    broker: Broker
    calls: Sequence[Call]
    programs: Sequence[Program] = ()
    before: Sequence[Call] = ()

    @cached_property
    def write(self) -> Call | None:
        """Return the write that the run may not answer without: the first in doubt, else the first that was refused."""
        return next(chain(self._doubtful(), self._refused()), None)

    @property
    def cause(self) -> Cause | None:
        """Return why that one is not done: ``in_doubt`` or ``denied``; ``None`` where there is none."""
        if self.write is None:
            return None
        return "denied" if _is_denied(self.write) else "in_doubt"

    @cached_property
    def caught(self) -> list[Call]:
        """Return the failures that the answer goes on from: writes first, and one of those that are alike."""
        found: dict[tuple[object, ...], Call] = {}
        for call in chain(self._failed(), self._stated()):
            found.setdefault((call.tool, call.line, call.error, call.body_error), call)
        return sorted(found.values(), key=lambda call: call.effect is Effect.READ)

    @property
    def grounds(self) -> list[Call]:
        """Return the calls on which the answer rests."""
        return [call for call in self.calls if call.succeeded and self._answers(call)]

    @property
    def partial(self) -> bool:
        """Return whether one of these was a write."""
        return any(call.effect is not Effect.READ for call in self.caught)

    # ------------------------------------------------------------------------------------------------------------------

    @cached_property
    def _last(self) -> dict[int, int]:
        """Return, by stage, the program that ended it; of the current one, the last to run, even without calls."""
        last: dict[int, int] = {}
        for call in self.calls:
            last[call.stage] = max(call.attempt, last.get(call.stage, -1))
        return last | {self.broker.journal.stage: self.broker.journal.attempt}

    def _answers(self, call: Call) -> bool:
        """Whether the answer rests on the call's program; without one (its line is 0) the model saw the call itself."""
        return call.attempt == self._last[call.stage] or not call.line

    @cached_property
    def _made(self) -> _Made:
        return _Made(
            [call for call in self.calls if call.succeeded and not _states_error(call) and self._answers(call)]
        )

    def _doubtful(self) -> Iterator[Call]:
        """Writes of this request in doubt, whichever program made them; and such as were refused for one in doubt."""
        journal = self.broker.journal
        made = {call.index: call for call in self.calls}
        for number, entry in sorted(journal.entries.items()):
            if number > journal.before and entry.in_doubt:
                yield made.get(number) or call_of(entry)
        yield from (call for call in self.calls if _is_refused_in_doubt(call) and self._answers(call))

    def _refused(self) -> Iterator[Call]:
        """Writes that nobody approved or a rule denied: of the programs that the answer rests on; and of one that was
        revised, where no call of the tool took its place. What a warning held back, a revision may leave out."""
        for call in self.calls:
            if call.effect is Effect.READ or not _is_denied(call):
                continue
            if self._answers(call) or (call.cause == "denied" and not self._is_replaced(call)):
                yield call
        yield from (call for call in self.before if not self._is_replaced(call))

    @property
    def replaced(self) -> list[Call]:
        """Return the refused writes in whose place a later program called the tool: they end no run, and are told."""
        revised = (call for call in self._denied if call.attempt != self._last.get(call.stage))
        return [call for call in revised if self._is_replaced(call)]

    @cached_property
    def _denied(self) -> list[Call]:
        denied = (call for call in self.calls if call.effect is not Effect.READ and call.cause == "denied")
        return [*self.before, *denied]

    def _is_replaced(self, denied: Call) -> bool:
        """Return whether later programs made as many other calls of the tool as were refused. A call that the refused
        one's own program made is another item's."""
        made = [e for e in self.broker.journal.entries.values() if e.tool == denied.tool and e.state == "done"]
        later = [e for e in made if e.attempt > denied.attempt and e.number > denied.index]
        refused = {_request(call) for call in self._denied if call.tool == denied.tool}
        beside = any(e.attempt == denied.attempt for e in made)
        return not beside and len(later) >= len(refused) and self._made.has(denied.tool)

    def _failed(self) -> Iterator[Call]:
        for call in self.calls:
            if call.status not in ("failed", "refused") or not self._answers(call):
                continue
            if call.index in self.broker.past_the_end or self._made.has_same(call):
                continue
            if call.effect is Effect.READ:
                yield call
            elif _is_refused_in_doubt(call):
                if not self._is_told(call):
                    yield call
            elif not (_is_denied(call) or self._is_done(call) or self._is_mended(call)):
                yield call

    def _stated(self) -> Iterator[Call]:
        """A program that names the field looks at it. An answer that is made of the response is a fault of its own."""
        for call in self.calls:
            if _states_error(call) and self._answers(call) and not self._is_mended(call) and not self._looks_at(call):
                yield call

    def _looks_at(self, call: Call) -> bool:
        return any(names_error(each, call) for each in self.programs)

    def _is_done(self, call: Call) -> bool:
        if call.error_status != "already_done":
            return False
        journal, key = self.broker.journal, self.broker.key_of(call)
        return journal.committed(key) is not None or journal.left(key) is not None

    def _is_told(self, call: Call) -> bool:
        if self.write is not None and self.write.index == call.index:
            return True
        entries = self.broker.journal.entries.values()
        return any(entry.in_doubt and _request(entry) == _request(call) for entry in entries)

    def _is_mended(self, call: Call) -> bool:
        instead = [each.tool for each in self.broker.broken_tools.banned.get(call.tool, ())]
        return self._made.after(call) or any(self._made.has(tool, since=call.index) for tool in instead)


class _Made:
    def __init__(self, calls: Sequence[Call]) -> None:
        self._same: dict[tuple[str, str], int] = {}
        self._lines: dict[str, dict[int, list[int]]] = {}
        for call in calls:
            self._same[call.tool, as_text(call.arguments)] = call.index
            self._lines.setdefault(call.tool, {}).setdefault(call.line, []).append(call.index)

    def has(self, tool: str, since: int = 0) -> bool:
        """Return whether a tool was called after that call."""
        return any(indices[-1] > since for indices in self._lines.get(tool, {}).values())

    def has_same(self, call: Call) -> bool:
        """Return whether the same call succeeded later."""
        return self._same.get((call.tool, as_text(call.arguments)), 0) > call.index

    def after(self, call: Call) -> bool:
        """Return whether a later call of the tool made a failure good.

        A line that succeeded more than once goes through a list: there another item's success is no second try.
        """
        return any(
            indices[-1] > call.index and (line != call.line or len(indices) == 1 or not line)
            for line, indices in self._lines.get(call.tool, {}).items()
        )


def _request(made: Call | CallEntry) -> tuple[str, str]:
    """Return what two calls have in common that ask for the same. A refused call has its arguments cut."""
    return made.tool, as_text(cut_arguments(made.arguments))


def _states_error(call: Call) -> bool:
    return call.effect is not Effect.READ and call.succeeded and call.body_error is not None


def _is_denied(call: Call) -> bool:
    return call.cause == "denied" or (call.status == "refused" and call.error_status in ("denied", "warned"))


def _is_refused_in_doubt(call: Call) -> bool:
    return call.effect is not Effect.READ and call.status == "refused" and call.error_status == "in_doubt"


def _fault_of(call: Call, lines: Sequence[str]) -> Fault:
    """The line is given where the program's text names the tool there: a strategy may run more than it shows."""
    stated = call.body_error if call.succeeded else None
    text = lines[call.shown_line - 1] if 0 < call.shown_line <= len(lines) else ""
    said = bool(call.within) or call.tool in text
    return Fault(
        kind="arguments" if call.cause is None and blames_arguments(call) else "tool",
        case=failure_case(call) if stated is None else FaultCase.STATED,
        tool=call.tool,
        call=call.index,
        line=call.shown_line if said else 0,
        source_line=text[:300] if said else "",
        cause=call.cause,
        traceback=call.traceback,
        invocation=invocation(call),
        speaker="broker" if call.status == "refused" else "tool",
        reason=stated.message if stated is not None else call.error or "",
        status=call.error_status,
        within=call.within,
    )
