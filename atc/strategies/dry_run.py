"""What a dry run found, put together at its end: the planned calls, what feeds them, and where the program stopped."""

from __future__ import annotations

from atc.dry_run_facts import DryRun, PlannedCall, Stop
from atc.errors import WritesPlanned
from atc.facts import Fault
from atc.outcome import Outcome
from atc.programs.feeds import Feeds
from atc.programs.program import Program
from atc.result import Call
from atc.strategies.context import RunContext

VALUE_PLANNED = "PlannedValue"
"""What the sandbox calls the end of a program that needs the value of a planned call."""


def found(context: RunContext, ended: WritesPlanned | None, fault: Fault | None) -> DryRun:
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
