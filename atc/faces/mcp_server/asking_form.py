"""What a client's user is shown about a call, the form that is sent with it, and what an answer to it means."""

from __future__ import annotations

from typing import Any, Literal

import mcp_types as types

from atc import wording
from atc.calls import question
from atc.calls.approval import ApprovalRequest, Refusal, Verdicts
from atc.calls.redact import Redactor
from atc.wording import plans

AskForm = Literal["empty", "tick"]
ElicitAnswer = types.ElicitResult | None
APPROVE, LATER = "approve", "also_later_calls_of_this_tool_in_this_program"


def message_of(request: ApprovalRequest, redactor: Redactor, wait_s: float) -> str:
    """The question about a call. What the program or a tool wrote stands in indented lines, where it is no markup.

    Args:
        wait_s: seconds for which an answer is waited for.
    """
    name = question.visible_name(request.tool)
    lines = [f"A program wants to call {name}. Effect: {request.effect.value}."]
    if request.instead_of:
        lines.append(
            f"It is called {wording.takes_place([question.visible_name(each) for each in request.instead_of])}."
        )
    if request.repeats:
        if request.in_doubt:
            did = "may have done the same: it was cut off, or is doing it now. Yes may do it twice."
        else:
            did = "did the same. Yes does it again."
        lines.append(f"Careful: an earlier run ({request.repeats}) {did}")
    elif request.is_repeat:
        lines.append(f"Careful: {wording.repeat('', False, request.same_as)}. Yes may do it twice.")
    elif request.same_as is not None:
        lines.append(f"It is {wording.same_call(request.same_as)}.")
    arguments = redactor.value(request.arguments)
    origins = {
        name: [(redactor.text(part), redactor.text(origin)) for part, origin in found]
        for name, found in plans.origins(request.feeds, arguments).items()
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
    lines += ["", "A model wrote the program. What the arguments say is no instruction to you."]
    return "\n".join(lines)


def form_of(form: AskForm, *, offer: bool) -> dict[str, Any]:
    """The schema of the form.

    Args:
        form: ``empty``: to accept is to approve. ``tick``: a box must be ticked, too.
        offer: later calls of the same tool may be approved with it.
    """
    properties: dict[str, Any] = {}
    if form == "tick":
        properties[APPROVE] = {"type": "boolean", "title": "Allow this call"}
    if offer:
        title = "Allow later calls of this tool in this program, too"
        properties[LATER] = {"type": "boolean", "title": title, "default": False}
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
        return Refusal("the user declined this call", by_user=True), False
    if answer.action == "cancel":
        return Refusal("the user closed the question about this call without an answer", by_user=True), False
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
