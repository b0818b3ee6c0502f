"""A run from the first act of its strategy to its result: what ends it, what is remarked on, its end in the trace."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from atc._records.events import Answered
from atc._records.origins import data_flow
from atc._records.outcome import Outcome
from atc._records.packing import pack
from atc._records.records import WARNINGS, DryRun, FaultCase, Observed, Place, PlannedCall, Stop
from atc.calls.attempt import masked_flow
from atc.calls.json_values import canonical
from atc.calls.sending import NOT_MADE, held_back
from atc.errors import (
    BudgetExceeded,
    InputNeeded,
    JournalError,
    ModelError,
    SandboxUnavailable,
    WritesPlanned,
)
from atc.facts import Fault
from atc.programs.program import Program
from atc.programs.responses import Part, Uses, invocation, stated_parts
from atc.result import Call, Result, Usage
from atc.run import say
from atc.run.ask_user import asked_fault
from atc.run.base import Ending, Strategy, checked, typed_ending
from atc.run.endings import with_settling_read
from atc.run.left_undone import call_of, settled, tools_gone, writes_of
from atc.run.run import Run
from atc.traces.stores.base import StoredRun

if TYPE_CHECKING:
    from atc.programs.answers.types import Fitted

# ----------------------------------------------------------------------------------------------------------------------
# Remarks on lists that were read in part: a response says that there are more, and the program took it for the whole.
#
# A program that wanted just these items is right, so the run stays answered. Unless it asked for just so many, that is
# a warning, and what it says of its answer is not used: it says it of the whole.


MAX_PARTS = 3
"""Parts of lists that a result names, the first ones."""


async def first_parts(run: Run) -> tuple[Fault, ...]:
    """Return the remarks on the program that answered; it is followed in a thread, if a response is a part."""
    protocols = {name: tool.protocol for name, tool in run.broker.tools.items()}
    stated = stated_parts([call for call in run.last_calls if call.line], protocols)
    if not stated or not run.revisions:
        return ()
    program = run.kept.as_run(Program(run.revisions[-1].program))

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
        case=FaultCase.FIRST_FEW if part.asked else FaultCase.FIRST_PART,
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
"""The sandbox's name for the end of a program that needs the value of a planned call."""


def _follow_planned(run: Run) -> None:
    """Have the program of planned calls followed, once: it may be long."""
    for call in run.calls:
        if call.status == "planned":
            _ = call.origins


def found_dry(run: Run, ended: WritesPlanned | None, fault: Fault | None) -> DryRun:
    """Return what a dry run found.

    Args:
        ended: that ended it; ``None`` where it planned nothing, its strategy went on all the same, or something else
            ended it: then ``fault`` says what.
    """
    planned = [call for call in run.calls if call.status == "planned"]
    if not planned:
        return DryRun()
    from atc.programs.feeds import Feeds

    source = ended.program if ended is not None else run.revisions[-1].program if run.revisions else ""
    protocols = {name: tool.protocol for name, tool in run.broker.tools.items()}
    masked = run.broker.redactor.text
    warned = {each.number: tuple(map(masked, each.warnings)) for each in run.broker.planned}
    program = run.kept.as_run(Program(source))
    by_user = run.has_inputs_of_user
    feeds = Feeds(program if source else None, run.calls, protocols, run.task, run.inputs, by_user=by_user)
    calls = tuple(
        PlannedCall(
            index=call.index,
            tool=call.tool,
            effect=call.effect.value,
            line=call.shown_line,
            within=call.within,
            arguments=call.arguments,
            unknown=feeds.expressions(call),
            feeds=feeds.of(call),
            notes=call.notes,
            warnings=warned.get(call.index, ()),
            data_flow=call.data_flow or masked_flow(data_flow(call.origins), run.broker.redactor),
        )
        for call in planned
    )
    outcome = ended.outcome if ended is not None and isinstance(ended.outcome, Outcome) else None
    if outcome is not None:
        stop = _stop(outcome, program, planned)
        linked = run.kept.linked(source)
        if stop is not None and linked is not None and (within := linked.within(stop.line)):
            from atc.programs.attribution.within import outer_line

            line = outer_line(linked, within, outcome.error)
            stop = stop.model_copy(update={"line": line, "source_line": linked.own.line(line)[:300]})
    else:
        stop = Stop(needs=planned[-1].index) if fault is None else Stop(reason=fault.message[:1000])
    unseen = tuple(call.index for call in run.calls if call.succeeded and call.index > planned[0].index)
    return DryRun(planned=calls, stop=stop, unseen=unseen)


def _stop(outcome: Outcome, program: Program, planned: list[Call]) -> Stop | None:
    """Return where a program ended before its end; what the sandbox says of that is a claim, and only shown."""
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
# The run as a whole.


async def solved(run: Run, strategy: Strategy, resumed: StoredRun | None = None) -> Result:
    """Let a strategy act on a run and return the result; what stops it from outside becomes the result's status.

    Raises:
        EnvironmentProblem: the sandbox is not the isolation that was asked for.
        Exception: whatever choosing the tools raised.
    """
    run.resources.sandbox()  # what is missing is found before a model is asked
    budget_s = run.settings.budget_s
    until = None if budget_s is None else asyncio.get_running_loop().time() + budget_s
    run.broker.until = until
    counted = run.broker.host_time.steps
    ending: Ending | None = None
    planned: WritesPlanned | None = None
    sentence, fitted = "", None
    try:
        async with asyncio.timeout_at(until) as clock:
            await counted(strategy.choose_tools(run, resumed))
    except TimeoutError:
        if not clock.expired():
            raise
        return result_of(run, _out_of_time(budget_s))
    try:
        async with asyncio.timeout_at(until) as clock:
            solving = strategy.solve(run) if resumed is None else strategy.resume(run, resumed)
            ending = checked(await counted(solving), strategy.name)
            if (not_made := held_back(run.broker.calls)) is not None:
                ending = Ending(not_made)  # it went on: what it found rests on what was not done
            ending, fitted = typed_ending(run, ending)
            ending = settled(ending, run)
            if ending.status == "answered":
                parts = await first_parts(run)
                ending = replace(ending, remarks=(*ending.remarks, *parts))
                sentence = say.value_text(ending.value)
                if run.said and all(part.case is FaultCase.FIRST_FEW for part in parts):
                    sentence, unsaid = await asyncio.to_thread(say.sentence_of, run, ending.value)
                    ending = replace(ending, remarks=(*ending.remarks, *unsaid))
    except BudgetExceeded as error:
        ending = Ending("budget", fault=Fault(kind="limit", reason=str(error)))
    except TimeoutError:
        if not clock.expired():
            raise
        ending = ending or _out_of_time(budget_s)
    except WritesPlanned as error:
        ending, planned = Ending(held_back(run.last_calls) or "planned"), error
    except InputNeeded as needed:
        ending = Ending("needs_input", fault=asked_fault(needed, run.run_id if run.stored else ""))
    except (ModelError, JournalError) as error:
        ending = Ending("failed", fault=fault_of(error))
    if not (ending.status == "answered" or ending.partial):
        fitted = None
    try:
        await run.broker.written()  # what the result tells is on disk
    except JournalError as error:
        ending, sentence, fitted = Ending("failed", fault=fault_of(error)), "", None
    dry_run = None
    if run.broker.dry_run:
        await asyncio.to_thread(_follow_planned, run)
        dry_run = found_dry(run, planned, ending.fault)
        if planned is not None:
            from atc.run.apply import with_plan_kept

            dry_run = await with_plan_kept(run, dry_run, planned.program)
    return result_of(run, ending, sentence, fitted, dry_run)


def result_of(
    run: Run,
    ending: Ending,
    answer: str = "",
    fitted: Fitted | None = None,
    dry_run: DryRun | None = None,
) -> Result:
    """Make the result of a run: its ending, its calls and what it used. Nothing is called for it afterwards."""
    broker, budget = run.broker, run.budget
    ending = with_settling_read(ending, broker.approval.policy, broker.tools)
    if dry_run is None and broker.dry_run:
        dry_run = found_dry(run, None, ending.fault)
    broker.journal.close()  # a task that a strategy left behind does nothing that the result does not tell
    calls = list(broker.calls)
    known = {call.index for call in calls}
    doubtful = [e for e in broker.journal.entries.values() if e.in_doubt and e.number > broker.journal.before]
    calls += [call_of(entry) for entry in doubtful if entry.number not in known]
    usage = Usage(
        model_calls=budget.calls_used,
        prompt_tokens=budget.prompt_tokens,
        completion_tokens=budget.completion_tokens,
        model_seconds=budget.model_seconds,
        tool_calls=broker.made - sum(call.status in NOT_MADE for call in calls),
        tool_seconds=sum(call.seconds for call in calls),
        seconds=time.perf_counter() - run.began,
        host_seconds=broker.host_time.used_s,
    )
    done, not_done = writes_of(broker, calls)
    if broker.applying is not None:
        not_done = broker.applying.left()
    value, plain = (fitted.value, fitted.plain) if fitted is not None else (ending.value, ending.value)
    return Result.typed(
        value,
        plain,
        run_id=run.run_id,
        task=run.title,
        status=ending.status,
        answer=answer,
        program=run.revisions[-1].program if run.revisions else "",
        calls=tuple(sorted(calls, key=lambda call: call.index)),
        revisions=tuple(run.revisions),
        done=tuple(done),
        not_done=tuple(not_done),
        fault=ending.fault,
        partial=ending.partial,
        remarks=(*ending.remarks, *tools_gone(run)),
        question=ending.fault.reason if ending.fault is not None and ending.fault.case is FaultCase.ASKED else None,
        usage=usage,
        cost=budget.cost,
        currency=budget.currency if budget.cost is not None else "",
        isolation=run.isolation,
        trace=run.stored.where if run.stored else None,
        sketch=run.sketch.facts() if run.sketch.tools else None,
        dry_run=dry_run,
        probed=tuple(run.probed),
        pending=tuple(call.shown for call in broker.journal.parked.asked()) if ending.status == "waiting" else (),
    )


def end(run: Run, result: Result, **more: bool) -> None:
    """Write the end of a run into the trace."""
    if result.status == "answered":
        answered: Answered = {"value": pack(result.json_value), "answer": result.answer}
        if any(each.case in WARNINGS for each in result.remarks):
            answered["unresolved"] = True
        if run.answer_type is not None and canonical(run.last_answer) != canonical(result.json_value):
            answered["program_value"] = pack(run.last_answer)
        run.emit("answered", answered)
    run.emit("run_ended", result.model_dump(mode="json", exclude={"calls", "revisions", "sketch"}) | more)


def end_with_error(run: Run, error: BaseException) -> Result | None:
    """Write down how a run ended that raises instead of returning a result; return what it would have returned."""
    result = None
    with contextlib.suppress(Exception):  # a listener may be what failed; the trace is written before it is known
        result = result_of(run, Ending("failed", fault=fault_of(error)))
        end(run, result, raised=True)
    return result


def _out_of_time(budget_s: float | None) -> Ending:
    return Ending("budget", fault=Fault(kind="limit", reason=f"the run used up its {budget_s or 0:g} seconds"))


def fault_of(error: BaseException) -> Fault:
    """Return the fault of an exception that ended a run: no program is to blame for it."""
    kind: Any = "sandbox" if isinstance(error, JournalError | SandboxUnavailable) else "environment"
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | GeneratorExit):
        return Fault(kind="environment", case=FaultCase.STOPPED)
    return Fault(kind=kind, reason=f"{type(error).__name__}: {error}"[:1000])
