"""The plan of a dry run as one form of an MCP client: its user says yes to all of it, or to nothing.

The form shows each call of the plan. One that is too long for a form is not asked about here, nor is any where somebody
else decides; the client's model is told then how the user applies it.
"""

from __future__ import annotations

import asyncio
from itertools import chain

from atc._host.blocking import in_thread
from atc._host.redaction import Redactor
from atc._records.records import PlannedCall
from atc.calls import question
from atc.errors import AtcError, UsageError
from atc.run.apply import PlannedRun, planned_run
from atc.run.approvals import user
from atc.serve.mcp.asking import cannot_ask
from atc.serve.mcp.reports import one_line
from atc.serve.mcp.requests import ToolRequest
from atc.traces.stores.base import StoredRun
from atc.wording import plans
from atc.wording.origins import careful, untrusted_first

MOST_CALLS, MOST_CHARACTERS = 50, 20_000
"""Calls of a plan that a form shows, and characters."""
NOTHING_MADE = "The plan was not approved: nothing of it was made. Do not try another way: tell the user."


class NotApplied(AtcError):
    """The user did not say yes to the plan."""


async def asked_about(request: ToolRequest, stored: StoredRun) -> PlannedRun:
    """Ask the client's user whether a plan is applied; return it where the answer is yes.

    Raises:
        UsageError: there is no plan to apply, or this client's user cannot be asked about it.
        JournalError: it cannot be read.
        NotApplied: the answer is no, or none came.
    """
    gateway = request.gateway
    how = f"`atc runs apply {stored.run_id} --tools …` in a terminal, with the tools of this server"
    by_user = f"the user applies the plan: {how}" if gateway.keeps_runs else "begin the server with runs that are kept"
    planned = await in_thread(planned_run, stored, looking=True)
    if gateway.guards.permissions.approvers:
        raise UsageError(f"an approver decides, and no client: {by_user}")
    if gateway.settings.approve == "never":
        raise UsageError(f"this server approves nothing (ATC_APPROVE=never): {by_user}")
    if request.running is None or cannot_ask(request):
        raise UsageError(f"this client cannot show its user the plan in a form (elicitation): {by_user}")
    words = await asyncio.to_thread(words_of, planned, gateway.redactor, gateway.running.wait_s)
    if len(planned.found.planned) > MOST_CALLS or len(words) > MOST_CHARACTERS:
        raise UsageError(f"the plan is too long for a form: {by_user}")
    answer = await request.running.ask_about(words, "Allow all of these calls")
    if answer is not True:
        raise NotApplied(getattr(answer, "reason", "the user said no"))
    return planned


def said_by(principal: str, client: str) -> str:
    """Return who says yes in a client, for the record."""
    who = user() if principal == "local" else one_line(principal, 60)
    return f"{who} in {one_line(client, 60) or 'an MCP client'}"


def words_of(planned: PlannedRun, redactor: Redactor, wait_s: float) -> str:
    """Return the question about a plan. What the program or a tool wrote stands in indented lines."""
    found = planned.found
    calls = found.planned[: MOST_CALLS + 1]
    shown = [_call(call, redactor) for call in calls]
    lines = ["A dry run planned these calls. Yes makes all of them, in this order, and no other:"]
    lines += chain.from_iterable(each for each, _ in shown)
    if any(cut for _, cut in shown):
        lines += ["", "Parts of the arguments are not shown."]
    notes = [plans.stop(found.stop, found.planned)] if found.stop is not None else []
    notes += [plans.unseen(found.unseen)] if found.unseen else []
    notes += ["it was begun to be applied; what is done already is not done again"] if planned.goes_on else []
    if notes:
        lines += ["", "Besides:", "", *question.indented_warnings([redactor.text(note) for note in notes], "notes")]
    lines += ["", f"Without an answer within {wait_s:,.0f} s nothing is made."]
    lines += ["", "A model wrote the program. What the arguments say is no instruction to you."]
    return "\n".join(lines)


def _call(call: PlannedCall, redactor: Redactor) -> tuple[list[str], bool]:
    flow = call.data_flow
    arguments = untrusted_first(redactor.value(call.arguments | plans.unknown_arguments(call)), flow)
    origins = {
        name: [(redactor.text(part), redactor.text(origin)) for part, origin in each]
        for name, each in plans.origins(call.feeds, arguments, flow).items()
    }
    shown, cut = question.indented(arguments, origins)
    lines = ["", f"{call.index}. {question.visible_name(call.tool)}. Effect: {call.effect}.", *([""] if shown else [])]
    warned = question.indented_warnings([redactor.text(text) for text in (*careful(flow), *call.warnings)])
    return [*lines, *shown, *(["", "Warnings:", "", *warned] if warned else [])], cut
