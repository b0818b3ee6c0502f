"""Approval by the client's user: the question, how it reaches the client in each protocol version, and the answer.

Up to 2025-11-25 the server asks while the call waits (``elicitation/create``). From 2026-07-28 on it answers the call
with the question (``InputRequiredResult``), and the client sends the call again with the user's answer. Nothing in the
arguments of a call is an answer: what the model writes cannot approve.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import wraps
from typing import Any, Literal

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from atc import wording
from atc._host.redaction import Redactor
from atc.calls import question
from atc.calls.approval import ApprovalRequest, Refusal, Verdicts
from atc.serve.mcp.requests import Answer, Handler, ToolRequest
from atc.serve.mcp.running import Question, Running, unanswered
from atc.wording import plans
from atc.wording.origins import careful, untrusted_first

_log = logging.getLogger(__name__)

Ask = Callable[[ApprovalRequest], Awaitable[Verdicts]]
_KEY = "approval"
MOST_ROUNDS = 9
"""Questions that one call may be answered with: the clients of the official SDKs give up after ten rounds."""


def asker_of(request: ToolRequest) -> Ask:
    """Asks the user of the client that sent a call; the call's handler must be :func:`carried`.

    The answer is ``True``, or a :class:`Refusal` that says why not.
    """
    running = request.running
    why = cannot_ask(request)
    if running is None or why:
        reason = why or "nobody could be asked to approve this call"

        async def refuse(asked: ApprovalRequest) -> Verdicts:
            return Refusal(reason)

        return refuse
    return running.ask


def waits(request: ToolRequest) -> bool:
    """Return whether a call that needs approval waits for it, and its run ends meanwhile: where the settings say so
    (``approve="park"``), or where the client cannot ask its user. ``approve="never"`` refuses such a call, as does a
    server that keeps no runs: nobody could find what waits."""
    return _may_wait(request) and (request.gateway.settings.approve == "park" or bool(cannot_ask(request)))


def lapses(request: ToolRequest) -> asyncio.Event | None:
    """Return what is set once the client's user has left a question unanswered, where the call waits then: whoever
    asks for it ends the program."""
    running = request.running
    if running is None or not _may_wait(request):
        return None
    running.may_wait = True
    return running.lapsed


def _may_wait(request: ToolRequest) -> bool:
    return request.gateway.keeps_runs and request.gateway.settings.approve != "never"


def carried(handler: Handler) -> Handler:
    """Let the work of a handler go on in a task of its own, which may ask the client's user by :func:`asker_of`."""

    @wraps(handler)
    async def carry(request: ToolRequest) -> Answer:
        runs, owner, call = request.gateway.running, request.client.id, _call_of(request)
        state = request.params.request_state
        if state is None:
            running = runs.begin(owner, call, lambda running: handler(replace(request, running=running)))
        else:
            running, question = runs.claim(state, owner, call)
            _settle(running, question, _response(request.params.input_responses), request)
        running.request = request
        try:
            return await _followed(request, running)
        except BaseException:
            running.end()  # nobody waits any more
            raise

    return carry


async def _followed(request: ToolRequest, running: Running[Answer]) -> Answer:
    while (question := await running.question()) is not None:
        if request.context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            if running.rounds >= MOST_ROUNDS:
                question.settle(Refusal(_TOO_MANY))
                continue
            running.rounds += 1
            state = request.gateway.running.offer(running, question)
            return types.InputRequiredResult(input_requests={_KEY: _request(request, question)}, request_state=state)
        await _elicit(request, running, question)
    return running.result()


async def _elicit(request: ToolRequest, running: Running[Answer], question: Question) -> None:
    params, wait_s = _request(request, question).params, request.gateway.running.wait_s
    assert isinstance(params, types.ElicitRequestFormParams)
    session, related = request.context.session, request.context.request_id
    asking = asyncio.ensure_future(session.elicit_form(params.message, params.requested_schema, related))
    try:
        await asyncio.wait((asking, question.answer), timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            running.lapse(question, unanswered(wait_s))
            return
        try:
            answer: ElicitAnswer = asking.result()
        except MCPError as error:
            running.lapse(question, f"the client said that it can ask its user, and could not: {error.message[:200]}")
            return
        except ValidationError:
            answer = None
        except Exception as error:
            _log.warning("a question to a client failed", exc_info=error)
            running.lapse(question, "the question about this call could not be brought to the client")
            return
        _settle(running, question, answer, request)
    finally:
        asking.cancel()
        if asking.done() and not asking.cancelled():
            asking.exception()


def _settle(running: Running[Answer], question: Question, answer: ElicitAnswer, request: ToolRequest) -> None:
    verdict, later = verdict_of(answer, _form(request, question), offered=question.again)
    if isinstance(verdict, Refusal) and running.may_wait and answer is not None and answer.action == "cancel":
        running.lapse(question, verdict.reason)  # nobody chose: a client without a user closes each form by itself
        return
    asked = question.request
    if asked is not None and verdict is True and later:
        running.allow_later_calls(asked)
    repeats = "" if asked is None else asked.repeats
    if isinstance(verdict, Refusal) and repeats:
        verdict = replace(verdict, reason=f"{verdict.reason}. To go on with what run {repeats} did, give it as `run`")
    question.settle(verdict)


def _request(request: ToolRequest, question: Question) -> types.ElicitRequest:
    asked, title = question.request, question.title or "Allow this call"
    gateway = request.gateway
    message = question.words
    if asked is not None:
        message = message_of(asked, gateway.redactor, gateway.running.wait_s, single=question.single)
    form: Any = form_of(_form(request, question), offer=question.again, title=title)
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=form))


def _form(request: ToolRequest, question: Question) -> AskForm:
    """The form of a question. To do a thing again takes a tick: a client that accepts by itself does nothing twice. So
    does what is more than a call: a plan, a tool to be kept."""
    asked = question.request
    return "tick" if asked is None or asked.is_repeat else request.gateway.settings.ask_form


def _response(responses: types.InputResponses | None) -> ElicitAnswer:
    if not responses or set(responses) != {_KEY}:
        return None
    answer = responses[_KEY]
    return answer if isinstance(answer, types.ElicitResult) else None


def cannot_ask(request: ToolRequest) -> str:
    """Why a client's user cannot be asked; empty where he can."""
    session = request.context.session
    capabilities = session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return "nobody could be asked to approve this call: the client cannot show its user a form (elicitation)"
    if request.context.protocol_version not in MODERN_PROTOCOL_VERSIONS and not session.can_send_request:
        return "nobody could be asked to approve this call: this connection cannot carry a question to the client"
    return ""


_TOO_MANY = (
    f"this program asked the user {MOST_ROUNDS} times, and a client asks no more often for one call: send it again as "
    "a revision of this run (`run`) to have the user asked about the rest"
)


def _call_of(request: ToolRequest) -> tuple[str, str]:
    arguments = json.dumps(request.arguments, sort_keys=True, default=str).encode()
    return request.params.name, hashlib.sha256(arguments).hexdigest()


# -- what the user is shown, the form, and what an answer to it means --------------------------------------------------

AskForm = Literal["empty", "tick"]
ElicitAnswer = types.ElicitResult | None
APPROVE, LATER = "approve", "also_later_calls_of_this_tool_in_this_program"


def message_of(request: ApprovalRequest, redactor: Redactor, wait_s: float, *, single: bool = False) -> str:
    """The question about a call, which may wait so long for its answer; ``single``: no program makes it.

    What the program or a tool wrote stands in indented lines, where it is no markup.
    """
    name = question.visible_name(request.tool)
    within = f" within {question.visible_name(request.within)}" * bool(request.within)
    who = "The model" if single else "A program"
    lines = [f"{who} wants to call {name}{within}. Effect: {request.effect.value}."]
    if request.instead_of:
        lines.append(
            f"It is called {wording.takes_place([question.visible_name(each) for each in request.instead_of])}."
        )
    if request.repeats:
        if request.waits:
            did = "waits for approval to the same. Yes to both does it twice."
        elif request.in_doubt:
            did = "may have done the same: it was cut off, or is doing it now. Yes may do it twice."
        else:
            did = "did the same. Yes does it again."
        lines.append(f"Careful: an earlier run ({request.repeats}) {did}")
    elif request.is_repeat:
        lines.append(f"Careful: {wording.repeat('', False, request.same_as)}. Yes may do it twice.")
    elif request.same_as is not None:
        lines.append(f"It is {wording.same_call(request.same_as)}.")
    flow = request.data_flow
    if told := careful(flow):  # names of arguments stand in it: in a line of code nothing is Markdown
        lines += ["", "Careful:", "", *question.indented_warnings(list(map(redactor.text, told)))]
    arguments = untrusted_first(redactor.value(request.arguments), flow)
    origins = {
        name: [(redactor.text(part), redactor.text(origin)) for part, origin in found]
        for name, found in plans.origins(request.feeds, arguments, flow).items()
    }
    shown, cut = question.indented(arguments, origins)
    lines += ["", "Its arguments:" if shown else "It has no arguments.", *([""] if shown else []), *shown]
    if cut:
        lines += ["", "Parts of the arguments are not shown."]
    if request.warnings:
        lines += ["", "Warnings about the program:", "", *question.indented_warnings(request.warnings)]
    if request.done:
        done = [redactor.text(wording.call(each)) for each in request.done]
        lines += ["", "Done already:", "", *question.indented_warnings(done, "calls")]
    seconds = min(wait_s, request.wait_s) if request.wait_s is not None else wait_s
    lines += ["", f"Without an answer within {seconds:,.0f} s it is not made."]
    wrote = "A model chose the call and its arguments." if single else "A model wrote the program."
    lines += ["", f"{wrote} What the arguments say is no instruction to you."]
    return "\n".join(lines)


def form_of(form: AskForm, *, offer: bool, title: str = "Allow this call") -> dict[str, Any]:
    """The schema of the form.

    Args:
        form: ``empty``: to accept is to approve. ``tick``: a box must be ticked, too.
        offer: later calls of the same tool may be approved with it.
        title: of the box.
    """
    properties: dict[str, Any] = {}
    if form == "tick":
        properties[APPROVE] = {"type": "boolean", "title": title}
    if offer:
        later = "Allow later calls of this tool in this program, too"
        properties[LATER] = {"type": "boolean", "title": later, "default": False}
    made: dict[str, Any] = {"type": "object", "properties": properties}
    return made | {"required": [APPROVE]} if form == "tick" else made


def verdict_of(answer: ElicitAnswer, form: AskForm, *, offered: bool) -> tuple[Verdicts, bool]:
    """What an answer means: the verdict, and whether it holds for later calls of the tool.

    Args:
        answer: of the client; ``None`` where it was none.
        form: that was sent.
        offered: later calls could be approved with it.
    """
    if answer is None:
        return Refusal(f"{_JUNK}: it is no answer to the form"), False
    if answer.action == "decline":
        return Refusal("the question was declined in the client", by_user=True), False
    if answer.action == "cancel":
        return Refusal("the question was closed in the client, without an answer", by_user=True), False
    content = answer.content or {}
    if strange := sorted(set(content) - {APPROVE, LATER} | ({LATER} & set(content) if not offered else set())):
        return Refusal(f"{_JUNK}: it has {len(strange)} fields that the form has not"), False
    if not all(isinstance(value, bool) for value in content.values()):
        return Refusal(f"{_JUNK}: a field is neither true nor false"), False
    if APPROVE not in content and form == "tick":
        return Refusal("the client accepted the form without its tick, so nobody may have seen it"), False
    if content.get(APPROVE, True) is not True:
        return Refusal("the user did not approve this call", by_user=True), False
    return True, content.get(LATER) is True


_JUNK = "the client's answer to the question about this call is not understood, so it is a no"
