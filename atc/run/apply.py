"""Applies what a dry run planned: its program runs again, for real, and each write must be the next planned one.

The run goes on under its own id, with its journal: so one process at a time applies it, and what was done before a
crash is not done again. No model is asked, and no program is revised.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from atc._host.blocking import in_thread
from atc._host.redaction import Redactor
from atc._records.packing import unpack
from atc._records.records import ODD_ANSWERS, DryRun, FaultCase, Invocation, PlanDifference
from atc.calls.applying import Applying
from atc.calls.argument_repairs import read_key_aliases
from atc.calls.attempt import Attempt, cut_arguments
from atc.calls.forms import Form
from atc.calls.journal import Journal
from atc.calls.parked import WAITS_S, Decision, parts_of
from atc.calls.plans import KeptCall, Plan, digest, statement
from atc.calls.program_start import digest_of_text
from atc.catalogue.sketch import Sketch, SketchFacts, chosen_event
from atc.errors import JournalError, UsageError
from atc.facts import Fault
from atc.models.base import NoModel
from atc.programs.program import Program
from atc.programs.responses import invocation
from atc.result import Call, Effect, Result
from atc.run.approvals import decider_of
from atc.run.base import Ending, Strategy
from atc.run.calling import with_kept_again
from atc.run.endings import advised, ended_by
from atc.run.given import NAME as GIVEN
from atc.run.given import origins_of
from atc.run.given_program import is_by_user
from atc.run.program_loop import ProgramLoop
from atc.run.request import resumed_request, without_code
from atc.run.run import Run
from atc.run.tools_before import tools_before
from atc.run.writer import Draft, WritingOptions
from atc.schemas.protocol import original_arguments
from atc.traces.emitter import Listener
from atc.traces.stores.base import StoredRun

if TYPE_CHECKING:
    from atc.agent import Agent
    from atc.calls.permissions import Permissions

NAME = "apply"
CLOCKS_S = 300.0
"""Seconds by which the clocks of two machines may differ."""


class PlanChanged(UsageError):
    """The plan is not what was shown, or somebody else began to apply it."""


# ----------------------------------------------------------------------------------------------------------------------
# A dry run keeps its plan.


async def with_plan_kept(run: Run, found: DryRun, program: str) -> DryRun:
    """Keep the plan of a dry run in its journal, if it can be applied; return what it found, with whether it is kept.

    What a strategy called without a program has no plan. Nor has a program that goes on from values which an earlier
    one of the run has read, nor a task of a conversation: what these rest on would not be read anew."""
    journal = run.broker.journal
    made = {each.number: each for each in run.broker.planned if each.program == journal.attempt}
    shown = {call.index: call for call in found.planned}
    if not program or run.stored is None or run.preamble.number or journal.stage or made.keys() != shown.keys():
        return found
    calls = []
    for number, attempt in sorted(made.items()):
        unknown = _forms_of(attempt)
        if unknown.keys() != shown[number].unknown.keys():
            return found  # what it would have to be is not known
        masked = run.broker.redactor.value(unknown)
        shown[number] = shown[number].model_copy(update={"forms": masked})
        arguments = {name: digest(value) for name, value in attempt.arguments.items()}
        attempt.take_known_key()
        calls.append(
            KeptCall(
                number=number,
                key=attempt.key,
                parts=parts_of(attempt.granted, journal.run_key),
                effect=attempt.effect,
                arguments=arguments,
                unknown=unknown,
                shown=shown[number],
            )
        )
    plan = Plan(digest_of_text(program), digest(dict(run.inputs)), time.time(), tuple(calls))
    if not plan.digest:
        return found
    try:
        journal.keep_plan(plan)
        await journal.written()
    except JournalError:  # what was found is worth telling all the same
        return found
    return found.model_copy(update={"kept": True, "planned": tuple(shown.values())})


def _forms_of(attempt: Attempt) -> dict[str, Form]:
    """A sandbox that does not say how may say what they rest on: one place alone is taken for all of the argument."""
    if (forms := attempt.request.forms) is not None:
        return original_arguments(attempt.granted.protocol, dict(forms))
    places: dict[str, list[Form]] = {}
    for feed in attempt.awaits:
        places.setdefault(feed.argument, []).append({"hole": [feed.call, list(feed.path)]})
    return {name: each[0] for name, each in places.items() if len(each) == 1}


# ----------------------------------------------------------------------------------------------------------------------
# The yes to it.


@dataclass(frozen=True)
class PlannedRun:
    """A run whose plan can be applied.

    Attributes:
        started: its ``run_started``.
        program: of the plan. ``inputs``: the values that it was given. ``kept``: the names of those that
            earlier runs answered. ``by_user``: whether the user gave the others.
        found: what its dry run found, for people.
        plan: as its journal keeps it.
        until: when it is too late to apply it, in seconds since 1970.
        goes_on: its plan was begun to be applied, and that did not come to its end.
        applied: the yes under which that was.
        began: a write of it was begun then, so reads are answered as they were.
        done: the calls with effects that were done.
    """

    stored: StoredRun
    started: dict[str, Any]
    program: str
    inputs: dict[str, Any]
    kept: tuple[str, ...]
    found: DryRun
    plan: Plan
    until: float
    goes_on: bool = False
    applied: Decision | None = None
    began: bool = False
    done: tuple[Invocation, ...] = ()
    by_user: bool = False

    @property
    def digest(self) -> str:
        """Return what names this plan, exactly as it is shown; empty where it cannot be named."""
        stop = None if self.found.stop is None else self.found.stop.model_dump(mode="json")
        applied = None if self.applied is None else [self.applied.by, self.applied.at]
        return digest([self.stored.run_id, self.plan.record(), stop, [*self.found.unseen], applied])


def is_being_applied(stored: StoredRun) -> bool:
    """Return whether the plan of a run was begun to be applied, by its trace."""
    return bool((stored.last("run_started") or {}).get("applies"))


def planned_run(stored: StoredRun, *, looking: bool = False) -> PlannedRun:
    """Return what is to be applied of a run.

    Args:
        stored: the run.
        looking: only to show it: nobody is kept from the run meanwhile, and it may be one that somebody works on.

    Raises:
        UsageError: it is no dry run that planned something, its plan was applied, is too old, or cannot be applied.
        JournalError: its journal cannot be read, or another process works on the run.
    """
    stored.check()
    started, ended = stored.first("run_started"), stored.last("run_ended") or {}
    if started is None or not started.get("dry_run") or not stored.has_journal:
        raise UsageError(f"run {stored.run_id} was no dry run: it has no plan that could be applied")
    journal = stored.peek_journal() if looking else stored.open_journal()
    try:
        plan, applied = journal.plan, journal.applied
        writes = [entry for _, entry in sorted(journal.entries.items()) if entry.effect is not Effect.READ]
    finally:
        journal.close()
    being_applied = is_being_applied(stored)
    if not being_applied and ended.get("status") != "planned":
        how = "planned no call with effects" if ended else f"was cut off: `atc resume {stored.run_id}` continues it"
        raise UsageError(f"run {stored.run_id} {how}, so there is nothing to apply")
    if being_applied and ended.get("status") == "answered":
        raise UsageError(
            f"the plan of run {stored.run_id} was applied before: `atc runs show {stored.run_id}` reads it"
        )
    if plan is None:
        raise UsageError(
            f"run {stored.run_id} keeps no plan that could be applied: run the task without --dry-run (dry_run=True)"
        )
    began = applied is not None and bool(writes)
    since = applied.at if applied is not None and began else plan.at
    if not -CLOCKS_S <= time.time() - since <= WAITS_S:
        raise UsageError(
            f"the plan of run {stored.run_id} is older than {WAITS_S / 86_400:.0f} days and is not applied: make a new "
            "dry run"
        )
    written, inputs = _program_of(stored, plan)
    program, kept = str(written["program"]), tuple(written.get("kept") or ())
    planned = tuple(call.shown for call in plan.calls)
    before = DryRun.model_validate(_dry_run_of(stored) or {})
    found = before.model_copy(update={"planned": planned})
    done = tuple(Invocation(tool=e.tool, arguments=cut_arguments(e.arguments)) for e in writes if e.state == "done")
    until = since + WAITS_S
    return PlannedRun(
        stored,
        started,
        program,
        inputs,
        kept,
        found,
        plan,
        until,
        being_applied,
        applied,
        began,
        done,
        by_user=is_by_user(stored, written),
    )


def _dry_run_of(stored: StoredRun) -> dict[str, Any] | None:
    ends = (event["data"] for event in stored.latest() if event["kind"] == "run_ended")
    return next((data["dry_run"] for data in ends if isinstance(data.get("dry_run"), dict)), None)


def _program_of(stored: StoredRun, plan: Plan) -> tuple[dict[str, Any], dict[str, Any]]:
    """The trace has inputs with credentials masked. Raises UsageError where they are not those that ran."""
    for event in reversed([*stored.latest()]):
        data = event["data"]
        if event["kind"] != "program_written" or digest_of_text(str(data.get("program"))) != plan.program:
            continue
        try:
            inputs = unpack(data.get("inputs") or {})
        except ValueError as error:
            raise JournalError(f"the trace of run {stored.run_id} is damaged: {error}") from None
        if digest(inputs) == plan.inputs:
            return data, inputs
    raise UsageError(
        f"the program of run {stored.run_id} is not kept as it ran, for it or its inputs hold a credential: run it "
        "without a dry run"
    )


async def apply_plan(
    agent: Agent,
    stored: StoredRun,
    *,
    by: str | None = None,
    key: str | None = None,
    seen: str | None = None,
    resumed: bool = False,
    reply: str | None = None,
    listener: Listener | None = None,
) -> Result[Any]:
    """Make what a dry run planned, and nothing else. To call this is the yes to all of it.

    Args:
        agent: whose tools, sandbox and permissions count. Its model is not asked.
        stored: the run.
        by: who applies it, for the record; by default the user of this process.
        key: of an approver, where the permissions name some; by default the one of the settings.
        seen: the digest of what was shown (:attr:`PlannedRun.digest`): nothing else is applied.
        resumed: go on under the yes that the journal has, where the process ended in the middle.
        reply: the user's answer to the question that it ended with.
        listener: told of every event.

    Raises:
        PlanChanged: it is not what was shown, or somebody else began to apply it.
        UsageError, JournalError: as :func:`planned_run`.
        EnvironmentProblem: not the isolation that was asked for.
    """
    planned = await in_thread(planned_run, stored)  # a trace may be long
    agent = await with_kept_again(agent, stored)
    changed = f"the plan of run {stored.run_id} is not what was shown, or was begun to be applied: look at it again"
    if seen is not None and (not seen or seen != planned.digest):
        raise PlanChanged(changed)
    started = await in_thread(without_code, stored, planned.started, strategy_given=True) | {"images": []}
    permissions = agent.permissions
    decider = None if resumed else decider_of(by=by, key=key, permissions=permissions, settings=agent.settings)

    def begin(journal: Journal, redactor: Redactor) -> Applying:
        plan, applied = journal.plan, journal.applied
        if plan is None or plan != planned.plan:
            raise PlanChanged(changed)
        if decider is not None:
            if applied != planned.applied:
                raise PlanChanged(changed)
            signature = "" if decider.signer is None else decider.signer.sign(statement(stored.run_id, plan))
            applied = Decision(True, decider.by, time.time(), signature)
            journal.begin_apply(applied)
        elif applied is None or not _may_decide(permissions, stored.run_id, plan, applied):
            raise UsageError(f"the plan of run {stored.run_id} was not approved by an approver: apply it again")
        return Applying(plan, applied, redactor, journal.run_key)

    request = await in_thread(resumed_request, stored, started, None, agent._answer, (), reply)
    request = replace(request, dry_run=False, begin_apply=begin)
    author: Literal["caller", "model"] = "caller" if started.get("strategy") == GIVEN else "model"
    return await agent._begin(
        request,
        resumed=stored,
        strategy=Apply(planned, WritingOptions(revision="notes", author=author)),
        opened_by=NAME,
        model=NoModel(),
        listener=listener,
    )


def _may_decide(permissions: Permissions | None, run: str, plan: Plan, yes: Decision) -> bool:
    approvers = permissions.approvers if permissions is not None else None
    return approvers.have_signed(statement(run, plan), yes) if approvers else not yes.signature


# ----------------------------------------------------------------------------------------------------------------------
# The program runs for real.


class Apply(Strategy):
    """Run the program of a plan once, its writes held to the plan."""

    name = NAME

    def __init__(self, planned: PlannedRun, options: WritingOptions) -> None:
        self._planned, self._options = planned, options

    async def choose_tools(self, run: Run, stored: StoredRun | None) -> None:
        """Offer the tools that the dry run offered, as far as they are still there: nothing is searched."""
        assert stored is not None, "a plan is applied in its own run"
        if self._options.author == "caller":
            run.task, run.text = "", "author"
        await in_thread(run.recovery.restore, stored)
        before = await in_thread(stored.last, "tools_chosen") or {"tools": ()}
        fixed = await in_thread(stored.first, "tools_chosen") or {}
        run.broker.repairs.key_aliases = read_key_aliases(fixed.get("key_aliases"))
        known = tools_before(before["tools"], run.broker, run.all_tools)
        run.gone = known.gone
        tools = run.all_tools.only(*known.chosen, *known.called)
        run.sketch = Sketch.of_facts(SketchFacts.of_trace(before), tools).offering(tools, "earlier")
        run.emit("tools_chosen", chosen_event(run.sketch))
        await run.offer(tools)

    async def solve(self, run: Run) -> Ending:
        """Run the program, unless a tool that it writes with is not what it was."""
        applying = run.broker.applying
        assert applying is not None, "the writes of a plan are held to it"
        run.broker.journal.inputs = self._planned.inputs
        run.broker.journal.input_origins = {
            **run.broker.journal.input_origins,
            **origins_of(self._planned.inputs, self._planned.kept, by_user=self._planned.by_user),
        }
        draft = Draft(Program(self._planned.program))
        if (changed := applying.changed_tool(run.all_tools)) is not None and changed.planned is not None:
            return Ending("denied", fault=advised(_differs(changed, changed.planned.tool), (), run.broker.tools))
        async with ProgramLoop.open(run, self._options) as loop:
            loop.announce(draft)
            await loop.check(draft)  # for its warnings: what the plan did not show is asked about
            outcome = await loop.execute(draft)
            if applying.stopped is not None:
                attempt, difference = applying.stopped
                call = next(call for call in run.calls if call.index == attempt.number)
                fault: Fault | None = _differs(difference, call.tool, call, draft.program)
            else:
                fault = await loop.traced(draft, outcome)
            odd = fault if fault is not None and outcome.answered and fault.case in ODD_ANSWERS else None
            if fault is not None and odd is None:
                fault = advised(fault, loop.grounds, run.broker.tools, outcome.error)
                run.emit("fault", {"attempt": len(run.revisions), "fault": fault.model_dump()})
            loop.record(draft, None if odd is not None else fault)
        doubtful = run.broker.journal.in_doubt() is not None
        if applying.stopped is not None:
            return Ending("in_doubt" if doubtful else "denied", fault=fault)
        if fault is not None and odd is None and fault.cause is None:
            return Ending("in_doubt" if doubtful else "unsolved", fault=fault)
        if fault is not None and fault.cause is not None and odd is None:
            return ended_by(fault.cause, fault, outcome)
        left = tuple(Fault(kind="tool", case=FaultCase.PLAN_LEFT, tool=e.tool, invocation=e) for e in applying.left())
        return Ending("answered", outcome.value, partial=bool(left), remarks=left if odd is None else (*left, odd))

    async def resume(self, run: Run, stored: StoredRun) -> Ending:
        """Run the program from its start: what was done is answered from the journal."""
        return await self.solve(run)


def _differs(difference: PlanDifference, tool: str, call: Call | None = None, program: Program | None = None) -> Fault:
    line = call.shown_line if call is not None else 0
    return Fault(
        kind="program",
        case=FaultCase.PLAN_DIFFERS,
        tool=tool,
        call=None if call is None else call.index,
        line=line,
        source_line=program.line(line)[:300] if program is not None and line else "",
        cause="denied",
        speaker="broker",
        invocation=None
        if call is None
        else invocation(call.model_copy(update={"arguments": cut_arguments(call.arguments)})),
        difference=difference,
    )
