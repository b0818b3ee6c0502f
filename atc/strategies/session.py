"""What belongs to one run of an agent: its budget, its broker and its trace, and the result that they make."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from atc.answers.types import Fitted
from atc.calls.argument_repairs import Complaint
from atc.calls.broker import Broker
from atc.errors import (
    BudgetExceeded,
    InputNeeded,
    JournalError,
    ModelError,
    SandboxUnavailable,
    WritesPlanned,
)
from atc.facts import Fault
from atc.models.budget import Budget
from atc.outcome import Outcome
from atc.packing import pack
from atc.programs.feeds import Feeds
from atc.programs.program import Program
from atc.programs.responses import Part, Uses, invocation, stated_parts
from atc.records import DryRun, FaultCase, Feed, Observed, Place, PlannedCall, Stop
from atc.result import Call, Result, Usage
from atc.strategies import say
from atc.strategies.ask_user import asked_fault
from atc.strategies.base import Ending, Strategy, checked, typed_ending
from atc.strategies.context import RunContext
from atc.strategies.left_undone import call_of, settled, tools_gone, writes_of
from atc.traces.events import Answered, Emit
from atc.traces.stores.base import StoredRun

# ----------------------------------------------------------------------------------------------------------------------
# Remarks on lists that were read in part: a response says that there are more, and the program took it for the whole.
#
# A program that wanted just these items is right, so the run stays answered.


MAX_PARTS = 3
"""Parts of lists that a result names, the first ones."""


async def first_parts(context: RunContext) -> tuple[Fault, ...]:
    """The remarks on the program that answered; it is followed in a thread, where a response says that it is a part."""
    protocols = {protocol.name: protocol for protocol in context.tools.protocols}
    stated = stated_parts([call for call in context.last_calls if call.line], protocols)
    if not stated or not context.revisions:
        return ()
    program = Program(context.revisions[-1].program)

    def taken() -> list[Part]:
        if program.tree is None:
            return []
        uses = Uses(program, program.flow(protocols))
        return [part for part in stated if uses.takes_for_whole(part)]

    return tuple(_remark(part, program) for part in (await asyncio.to_thread(taken))[:MAX_PARTS])


def _remark(part: Part, program: Program) -> Fault:
    call = part.call
    return Fault(
        kind="response",
        case=FaultCase.FIRST_PART,
        tool=call.tool,
        call=call.index,
        line=call.line,
        source_line=program.line(call.line)[:300],
        invocation=invocation(call),
        place=Place(tool=call.tool, path=part.path),
        observed=Observed(type="list", length=part.shown),
        value=part.total,
    )


# ----------------------------------------------------------------------------------------------------------------------
# What a dry run found, put together at its end: the planned calls, what feeds them, and where the program stopped.


VALUE_PLANNED = "PlannedValue"
"""What the sandbox calls the end of a program that needs the value of a planned call."""


def found_dry(context: RunContext, ended: WritesPlanned | None, fault: Fault | None) -> DryRun:
    """What a dry run found.

    Args:
        context: the run.
        ended: that ended it; ``None`` where it planned nothing, its strategy went on all the same, or something else
            ended it: then ``fault`` says what.
    """
    planned = [call for call in context.calls if call.status == "planned"]
    if not planned:
        return DryRun()
    source = ended.program if ended is not None else context.revisions[-1].program if context.revisions else ""
    protocols = {name: tool.protocol for name, tool in context.broker.tools.items()}
    feeds = Feeds(source, context.calls, protocols, context.task, context.inputs)
    calls = tuple(
        PlannedCall(
            index=call.index,
            tool=call.tool,
            effect=call.effect.value,
            line=call.line,
            arguments=call.arguments,
            unknown=feeds.expressions(call),
            feeds=feeds.of(call),
            notes=call.notes,
        )
        for call in planned
    )
    outcome = ended.outcome if ended is not None and isinstance(ended.outcome, Outcome) else None
    if outcome is not None:
        stop = _stop(outcome, Program(source), planned)
    else:
        stop = Stop(needs=planned[-1].index) if fault is None else Stop(reason=fault.message[:1000])
    unseen = tuple(call.index for call in context.calls if call.succeeded and call.index > planned[0].index)
    return DryRun(planned=calls, stop=stop, unseen=unseen)


def _stop(outcome: Outcome, program: Program, planned: list[Call]) -> Stop | None:
    """Where a program ended before its end; what the sandbox says of that is a claim, and only shown."""
    if outcome.kind == "finished":
        return None
    error = outcome.error
    if error is None:
        return Stop(reason=outcome.detail)
    line = program.line(error.line)[:300]
    if error.type != VALUE_PLANNED:
        return Stop(line=error.line, source_line=line, reason=f"{error.type}: {error.message}"[:1000])
    number, path = error.origin or (0, ())
    if number not in [call.index for call in planned]:
        number, path = planned[-1].index, ()
    return Stop(line=error.line, source_line=line, needs=number, path=path)


# ----------------------------------------------------------------------------------------------------------------------
# What belongs to one run of an agent: its budget, its broker and its trace, and the result that they make.


@dataclass
class Session:
    """One run from its beginning to its result, whatever happens in between.

    The broker is made before the context in which a strategy acts, and asks this about the run.
    """

    task: str
    run_id: str
    stored: StoredRun | None
    budget: Budget
    emit: Emit
    broker: Broker = field(init=False)
    context: RunContext | None = None
    began: float = field(default_factory=time.perf_counter)
    planned: WritesPlanned | None = None

    async def repaired(self, complaint: Complaint) -> Mapping[str, Any] | None:
        """Return other arguments for a call that was refused for its own; ``None`` where no model is asked."""
        repairer = self.context.repairer if self.context is not None else None
        return None if repairer is None else await repairer(complaint)

    def alike(self, tool: str, by: str) -> bool:
        """Return whether a write, the second, may do what another one did."""
        return self.context is not None and self.context.recovery.alike(tool, by)

    async def feeds_of(self, call: Call) -> tuple[Feed, ...]:
        """Return where the arguments of a call come from."""
        return () if self.context is None else await self.context.feeds_of(call)

    async def acted(self, context: RunContext, strategy: Strategy, resumed: StoredRun | None = None) -> Result:
        """Let the strategy act; what stops it from outside becomes the result's status.

        Raises:
            Exception: whatever choosing the tools raised.
        """
        budget_s = context.settings.budget_s
        until = None if budget_s is None else asyncio.get_running_loop().time() + budget_s
        self.broker.until = until
        counted = self.broker.host_time.steps
        ending: Ending | None = None
        sentence_text, fitted = "", None
        try:
            async with asyncio.timeout_at(until) as clock:
                await counted(strategy.choose_tools(context, resumed))
        except TimeoutError:
            if not clock.expired():
                raise
            return self.result(_out_of_time(budget_s))
        try:
            async with asyncio.timeout_at(until) as clock:
                solving = strategy.solve(context) if resumed is None else strategy.resume(context, resumed)
                ending = await counted(solving)
                ending = checked(ending, strategy.name)
                if any(call.status == "planned" for call in self.broker.calls):
                    ending = Ending("planned")  # it went on: what it found rests on what was not done
                ending, fitted = typed_ending(context, ending)
                ending = settled(ending, context)
                if ending.status == "answered":
                    ending = replace(ending, remarks=(*ending.remarks, *await first_parts(context)))
                    sentence_text = say.value_text(ending.value)
                    if context.said:
                        sentence_text, unsaid = await asyncio.to_thread(say.sentence_of, context, ending.value)
                        ending = replace(ending, remarks=(*ending.remarks, *unsaid))
        except BudgetExceeded as error:
            ending = Ending("budget", fault=Fault(kind="limit", reason=str(error)))
        except TimeoutError:
            if not clock.expired():
                raise
            ending = ending or _out_of_time(budget_s)
        except WritesPlanned as planned:
            ending, self.planned = Ending("planned"), planned
        except InputNeeded as needed:
            ending = Ending("needs_input", fault=asked_fault(needed, self.run_id if self.stored else ""))
        except (ModelError, JournalError) as error:
            ending = Ending("failed", fault=fault_of(error))
        return self.result(ending, sentence_text, fitted if ending.status == "answered" or ending.partial else None)

    def result(self, ending: Ending, answer: str = "", fitted: Fitted | None = None) -> Result:
        """The result of the run: its ending, its calls and what it used. ``fitted``: its value, of the user's type."""
        self.broker.journal.close()  # a task that a strategy left behind does nothing that the result does not tell
        calls = list(self.broker.calls)
        known = {call.index for call in calls}
        journal = self.broker.journal
        doubtful = [e for e in journal.entries.values() if e.in_doubt and e.number > journal.before]
        calls += [call_of(entry) for entry in doubtful if entry.number not in known]
        budget, context = self.budget, self.context
        revisions = tuple(context.revisions) if context is not None else ()
        usage = Usage(
            model_calls=budget.calls_used,
            prompt_tokens=budget.prompt_tokens,
            completion_tokens=budget.completion_tokens,
            model_seconds=budget.model_seconds,
            tool_calls=self.broker.made - sum(call.status == "planned" for call in calls),
            tool_seconds=sum(call.seconds for call in calls),
            seconds=time.perf_counter() - self.began,
            host_seconds=self.broker.host_time.used_s,
        )
        done, not_done = writes_of(self.broker, calls)
        fitted = fitted or Fitted(ending.value, ending.value)
        return Result.typed(
            fitted.value,
            fitted.plain,
            run_id=self.run_id,
            task=self.task,
            status=ending.status,
            answer=answer,
            program=revisions[-1].program if revisions else "",
            calls=tuple(sorted(calls, key=lambda call: call.index)),
            revisions=revisions,
            done=tuple(done),
            not_done=tuple(not_done),
            fault=ending.fault,
            partial=ending.partial,
            remarks=(*ending.remarks, *tools_gone(context)) if context is not None else ending.remarks,
            question=ending.fault.reason if ending.fault is not None and ending.fault.case is FaultCase.ASKED else None,
            usage=usage,
            cost=budget.cost,
            currency=budget.currency if budget.cost is not None else "",
            isolation=context.isolation if context is not None else "",
            trace=self.stored.where if self.stored else None,
            sketch=context.sketch.facts() if context is not None and context.sketch.tools else None,
            dry_run=self._found(ending),
        )

    def _found(self, ending: Ending) -> DryRun | None:
        """What a dry run found; ``None`` of any other run."""
        if not self.broker.dry_run or self.context is None:
            return None
        return found_dry(self.context, self.planned, ending.fault)

    def end(self, result: Result, **more: bool) -> None:
        """Write the end of the run into the trace."""
        if result.status == "answered":
            answered: Answered = {"value": pack(result.json_value), "answer": result.answer}
            if any(each.case is FaultCase.UNRESOLVED for each in result.remarks):
                answered["unresolved"] = True
            self.emit("answered", answered)
        self.emit("run_ended", result.model_dump(mode="json", exclude={"calls", "revisions", "sketch"}) | more)

    def end_with_error(self, error: BaseException) -> Result | None:
        """Write down how a run ended that raises instead of returning a result; the result that it would have had."""
        result = None
        with contextlib.suppress(Exception):  # a listener may be what failed; the trace is written before it is known
            result = self.result(Ending("failed", fault=fault_of(error)))
            self.end(result, raised=True)
        return result


def _out_of_time(budget_s: float | None) -> Ending:
    return Ending("budget", fault=Fault(kind="limit", reason=f"the run used up its {budget_s or 0:g} seconds"))


def fault_of(error: BaseException) -> Fault:
    """The fault of an exception that ended a run: no program is to blame for it."""
    kind: Any = "sandbox" if isinstance(error, JournalError | SandboxUnavailable) else "environment"
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | GeneratorExit):
        return Fault(kind="environment", case=FaultCase.STOPPED)
    return Fault(kind=kind, reason=f"{type(error).__name__}: {error}"[:1000])
