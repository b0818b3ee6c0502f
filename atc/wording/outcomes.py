"""Say what calls did: to the model that says an answer, and to the user of a run that ended without one."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atc._host.invisible import visible
from atc._records.packing import as_text
from atc._records.records import (
    NO_FAILURES,
    ArgumentRepair,
    ChangedRead,
    FaultCase,
    Invocation,
    MissingReason,
    PendingCall,
    SameCall,
)
from atc.wording.parts import call

if TYPE_CHECKING:
    from atc.result import Result
    from atc.tools.tool import MissingCredential

MAX_CALLS = 20
"""Calls of one kind that :func:`effects` names."""

NO_VALUE = "done, as the calls above say; they returned no value"
"""The answer of a program whose calls with effects returned nothing."""

DONE = "done; no value was returned"
"""The same, where the calls are not shown."""


def returned(made: str, result: str) -> str:
    """Say a call, as a program writes it, and its value."""
    return f"{made} returned {result}"


def calls_left(left: int, most: int) -> str:
    """Say that few calls of a run are left: ``20 of this run's 200 calls are left``."""
    return f"{left:,} of this run's {most:,} calls {'is' if left == 1 else 'are'} left (max_calls)"


def asks_to_wait(seconds: object) -> str:
    """Say behind an error how long its service asks to wait: `` (it asks to wait 120 s)``. Nothing where it does not,
    or in no sense."""
    if isinstance(seconds, int | float) and 0 <= seconds < math.inf:
        return f" (it asks to wait {math.ceil(seconds):,} s)"
    return ""


def cut_answer(shown: int, size: int, uri: str) -> str:
    """Say that a preview is not the answer, how much there is of it, and where the whole is: a model that reads on
    would take what it sees for all."""
    return f"`preview` is a part of the answer: {shown:,} characters stand for {size:,} bytes; the whole is at {uri}"


def more_calls(count: int) -> str:
    """Say how many calls are not shown."""
    return f"- and {count:,} more"


def effects(done: Sequence[Invocation], not_done: Sequence[Invocation], *, in_doubt: bool = False) -> list[str]:
    """Say what a run that ended without an answer has changed, and what it has not: a line for each call with effects.

    Nothing where it changed nothing and its fault says the one call that was not made. That of a run that ended
    ``in_doubt`` says another one.
    """
    if not done and len(not_done) < (1 if in_doubt else 2):
        return []
    return [
        line
        for what, calls in (("done", done), ("not done", not_done))
        for line in [
            *(f"{what}: {call(each)}" for each in calls[:MAX_CALLS]),
            *([f"{what}: {len(calls) - MAX_CALLS:,} more calls"] if len(calls) > MAX_CALLS else []),
        ]
    ]


def waits(run: str, tool: str, arguments: Mapping[str, Any], *, alone: bool = False) -> str:
    """Say of a run that ended because nobody could be asked about a call how it goes on. ``alone``: no yes to all
    calls covers it."""
    made = call(Invocation(tool=tool, arguments=dict(arguments)))
    other = f"`atc resume {run} --approve always` makes it"
    if alone:
        other = f"with `--approve park` it waits for `atc runs approve {run}`"
    how = f"`atc resume {run}` on a terminal asks you; {other}"
    return f"waits for approval: {made} ({how})"


def pending(waiting: Sequence[PendingCall]) -> str:
    """Say which calls wait for approval."""
    calls = [call(Invocation(tool=each.tool, arguments=each.arguments)) for each in waiting[:MAX_CALLS]]
    more = [f"and {len(waiting) - MAX_CALLS:,} more calls"] if len(waiting) > MAX_CALLS else []
    return "; ".join((*calls, *more))


def conversation_waits(run_id: str, number: int, waiting: Sequence[PendingCall], then: str) -> str:
    """Say why the next task of a conversation does not begin: calls of the last one wait for approval.

    ``then``: what goes on with it once they are decided.
    """
    how = f"`atc runs approve {run_id}` decides (--deny: no), and {then} then continues it"
    return f"task {number} waits for approval: {pending(waiting)} ({how})"


def run_failed(result: Result[Any]) -> str:
    """Say why a run has no value, what to do about it, and what it has changed all the same."""
    if result.pending:
        return f"run {result.run_id} waits for approval: {pending(result.pending)} ({to_approve(result.run_id)})"
    fault = f": {result.fault.message}" if result.fault else ""
    if result.fault is not None and result.fault.hint:
        fault += f" ({result.fault.hint})"
    if changed := "; ".join(effects(result.done, result.not_done, in_doubt=result.status == "in_doubt")):
        fault += f" [{changed}]"
    return f"run {result.run_id} ended as {result.status}{fault}"


def no_credential(missing: MissingCredential) -> str:
    """Say that a credential is missing which a document asks for, why, and how to give it; and which tools need it,
    where they are named."""
    scheme, variable, tools = missing.scheme, missing.variable, missing.tools
    if not variable:
        return f"the security scheme {scheme!r} is not supported: pass headers= to the import"
    needs = ""
    if tools:
        named = ", ".join(tools[:3]) + (f" and {len(tools) - 3:,} more" if len(tools) > 3 else "")
        needs = f", which {named} {'needs' if len(tools) == 1 else 'need'}"
    if missing.session is not None and missing.reason:
        from atc.wording.origins import recorded_session

        why, what = _RECORDED[missing.reason]
        return f"{recorded_session(missing.session)} {why} ({scheme!r}{needs}): {what}, or set {variable}"
    way = f"pass auth={{{scheme!r}: …}} to the import (`atc run --openapi auth.{scheme}=…`), or set {variable}"
    return f"no credential is set for {scheme!r}{needs}: {way}"


_RECORD_AGAIN = "log in and record again"
_RECORDED: Mapping[MissingReason, tuple[str, str]] = {
    "untaken": ("is not used: nobody has said that it may be", "pass session='memory' (--openapi session=memory)"),
    "declined": ("is not used: you said no to it", "--openapi session=keep takes it after all"),
    "expired": ("is over by its own date", _RECORD_AGAIN),
    "refused": ("was refused: it is over, or this call needs another one", _RECORD_AGAIN),
    "ended": ("was ended in the recording itself", "record without logging out"),
    "changes": ("was another one again and again, so the last one may be refused", "record again right before"),
    "open": (
        "would go by plain http to another machine, where others can read it",
        "allow that (--openapi allow_http_credentials)",
    ),
    "elsewhere": ("is for that address alone, and another one is called", "leave service_url out"),
}


def other_address(named: str, found: str) -> str:
    """Say that a document names another address than the one where it was found, and how to call the latter."""
    way = f"to call that one, pass base_url={found!r} (`atc run --openapi service_url={found}`)"
    return f"calls go to {named}, which the document names, and not to {found}, where it was read: {way}"


def found_document(url: str, named_by: str, others: Sequence[str], elsewhere: Sequence[str], *, listing: bool) -> str:
    """Say how the document of a service was found, of which the address was given.

    Args:
        url: where it was found.
        named_by: the page that names it; empty where it stands in a usual place.
        others: the paths of further documents.
        elsewhere: hosts that were named and not asked.
        listing: it was made of the paths that ``url`` lists.
    """
    if listing:
        said = f"found no OpenAPI document; {url} lists paths, which became tools: `atc probe` documents them"
    else:
        said = f"found an OpenAPI document at {url}" + (f", which {named_by} names" if named_by else ", a usual place")
    more = f"; others: {', '.join(others)}" if others else ""
    return said + more + (f"; not asked: {', '.join(elsewhere)}" if elsewhere else "")


def left_out(name: str, reason: str) -> str:
    """Say that a kept program is not among the tools, and why."""
    return f"the kept program {name} is not among the tools: {reason}"


def not_offered() -> str:
    """Say of a name that nothing has that a program is kept by it, and how to offer it."""
    return 'a program is kept by this name: offer it with --tools kept, or Toolset.with_kept("kept")'


# ----------------------------------------------------------------------------------------------------------------------
# Runs that went on from a failure, in words: what an answer does without.


_CAUGHT = {"", *(FaultCase[each] for each in ("INVALID_ARGUMENTS", "NOT_CALLED", "REFUSED", "FAILED", "STATED"))}
"""The cases of failures that a program can catch."""


def remark(message: str, case: str = "") -> str:
    """Say a failure that a program caught, or what else is to be known of its answer, or of the lack of one."""
    return f"{message}; the program went on without it" if case in _CAUGHT else message


def incomplete(status: str, fault: str | None, caught: Sequence[str]) -> str:
    """Say that the value of a run rests on a part of what it was to do.

    Args:
        status: of the run: ``denied``, ``in_doubt`` or ``answered``.
        fault: the message of its fault, where it has one.
        caught: those of its remarks: without a fault, the first is of a write.
    """
    what = fault or next(iter(caught), "a call with effects failed")
    left = "which may have been done" if status == "in_doubt" else "which was not done"
    return f"incomplete: {what}. The value rests on a run that went on without this call, {left}"


def incomplete_run(result: Result[Any]) -> str:
    """Say how a result is :func:`incomplete`; return nothing where it is not partial."""
    if not result.partial:
        return ""
    fault = result.fault.message if result.fault is not None else None
    return incomplete(result.status, fault, [each.message for each in result.remarks])


def caveats(result: Result[Any]) -> list[str]:
    """Say what a reader of a value has to know: that it is incomplete, or may be, and which warnings its run did not
    settle."""
    told = [each.message for each in result.remarks if each.case in NO_FAILURES and each.case is not FaultCase.UNSAID]
    return [*filter(None, [incomplete_run(result)]), *told]


# ----------------------------------------------------------------------------------------------------------------------
# Repairs of arguments in words: the notes of a call.


def argument_repair(made: ArgumentRepair) -> str:
    """Say ``took "5" as 5 for at.lat``."""
    where = _path(made.path) or "all arguments"
    match made.kind:
        case "respelt":
            return f"read the argument {where} as {made.name}"
        case "unwrapped" if made.name:
            return f"took the field {made.name!r} of the object given for {where}"
        case "unwrapped":
            return f"took the one item of the list given for {where}"
        case "left_out":
            return f"left out {where}, which was null"
        case "dropped":
            return f"dropped unknown argument {where}"
        case "model" if made.name is not None:
            return f"the model read the argument {where} as {made.name}"
        case "model" if made.sent is None:
            return f"the model left out {where}"
        case "model" if made.given is None:
            return f"the model gave {as_text(made.sent)} for {where}"
        case "model":
            return f"the model gave {as_text(made.sent)} instead of {as_text(made.given)} for {where}"
        case "format" | "wrapped":
            return f"took {as_text(made.given)} as {as_text(made.sent)} for {where}"


def argument_repairs(made: Sequence[ArgumentRepair], more: int = 0) -> list[str]:
    """Write one note for each repair; ``more``: how many there are besides."""
    return [*map(argument_repair, made), *([f"and {more:,} more repairs"] if more else [])]


def _path(path: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


# ----------------------------------------------------------------------------------------------------------------------
# What was odd in a response, in words: the notes of a call.


MAX_STEPS, MAX_STEP = 8, 40
"""Steps of a place in a response that are named, the last ones, and characters of one."""


def became_null(count: int, places: Sequence[Sequence[str | int]]) -> str:
    """Say that numbers which JSON does not have became null, and the places of the first: ``… rows[0].price``."""
    return f"{count:,} {'number' if count == 1 else 'numbers'} (NaN or infinite) became null{_at(count, places)}"


def stood_twice(count: int, places: Sequence[Sequence[str | int]]) -> str:
    """Say that keys stood twice in an object, and which value counts. Arguments as of :func:`became_null`."""
    return f"{count:,} {'key' if count == 1 else 'keys'} stood twice, and the last value counts{_at(count, places)}"


def _at(count: int, places: Sequence[Sequence[str | int]]) -> str:
    cut = [[step if isinstance(step, int) else visible(step)[:MAX_STEP] for step in place] for place in places]
    named = ["…" * (len(place) > MAX_STEPS) + _path(place[-MAX_STEPS:]) for place in cut if place]
    more = ", …" if count > len(places) else ""
    return f": {', '.join(named)}{more}" if named else ""


# ----------------------------------------------------------------------------------------------------------------------
# That a write may do again what was done: in a question, in a refusal, and as a note on the call.


def same_call(same: SameCall) -> str:
    """Say that a call of the run did the same: ``the same as call 7``."""
    if same.settled:
        return settled_as_not_done(same)
    of = "" if same.own else f" ({same.tool})"
    return f"the same as call {same.number}{of}{', which may not have been done' if same.in_doubt else ''}"


def settled_as_not_done(same: SameCall) -> str:
    """Say that a write was sent before, and that somebody said since that it was not done."""
    return f"call {same.number} ({same.tool}) was sent before, and is said not to have been done"


def settled(done: bool, by: str, at: float) -> str:
    """Say what came of a call that was in doubt, by whose word, and when."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
    return (
        f"it was done, by the word of {by} ({when}); its answer is not known"
        if done
        else (f"it was not done, by the word of {by} ({when})")
    )


def sent_again(number: int) -> str:
    """Say that a call in doubt was sent again: ``sent again for call 7, with its idempotency key``."""
    return f"sent again for call {number}, with its idempotency key"


def to_approve(run_id: str, goes_on: str = "") -> str:
    """Say how a run goes on that waits for approval: by ``goes_on``, else by a command."""
    return f"`atc runs approve {run_id}` decides, {goes_on or f'`atc resume {run_id}`'} then continues it"


def approved_by(who: str, at: float) -> str:
    """Say who let a call through that had waited, and when: ``approved by ann, 2026-11-27 12:00``."""
    return f"approved by {visible(who)}, {time.strftime('%Y-%m-%d %H:%M', time.localtime(at))}"


_NO_ANSWER = {
    "too_large": "what waits is too large to be sent",
    "unreachable": "it cannot be reached",
    "slow": "it did not answer in time",
    "status": "its answer has another status than 200",
    "answer_too_large": "its answer is too large",
    "signature": "its answer is not signed with the secret",
    "form": "its answer is not understood",
    "nonce": "its answer is one to another question",
    "refused": "a decision of it was refused",
}


def asked_elsewhere(to: str, problem: str, detail: str) -> str:
    """Say what came of asking at the approval URL: ``asked at https://yes.example: it did not answer in time``."""
    what = _NO_ANSWER.get(problem, "nobody has decided about these calls there")
    return visible(f"asked at {to}: {what}{f' ({detail})' if problem and detail else ''}")


def decided_before(call: int, *, yes: bool, by: str, at: float) -> str:
    """Say that somebody has decided about a call already: ``call 2 was approved before, by ann, 2026-11-27 12:00``."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
    return f"call {call} was {'approved' if yes else 'denied'} before, by {visible(by)}, {when}"


def denied_by(who: str) -> str:
    """Say who refused a call that had waited."""
    return f"{visible(who)} did not approve this call"


def store_waiting(journal: str = "") -> str:
    """Say that a run waits until its records are kept; ``journal``: where that is, for who may know."""
    where = f"the journal {journal}" if journal else "its journal"
    return f"waits for {where} to be written: its disk or its database takes long, and nothing is sent before"


def read_changed(change: ChangedRead) -> str:
    """Say that a read answers something else than before its run waited, or was not made then."""
    if change.is_new:
        return f"{change.tool} (call {change.call}) is called now with arguments with which it was not called before"
    where = "".join(f"[{step!r}]" for step in change.path)
    now = f"{change.tool} (call {change.call}) answers {change.after} now, and {change.before} before"
    return f"{now}, at {where}" if where else now


_PARTS = {
    "command": "the command of its server",
    "folder": "the working folder of its server",
    "variable": "the variable {} of its server",
    "header": "the header {}",
    "credential": "the credential for {}",
}
_NAMED = 5


def changed_parts(parts: Sequence[str]) -> str:
    """Say which parts of a tool are not what they were: ``the header x-account, its code changed``."""
    pairs = [part.partition(" ") for part in parts]
    named = [_PARTS.get(kind, f"its {kind}").format(visible(name)) for kind, _, name in pairs[:_NAMED]]
    more = [f"{len(pairs) - _NAMED:,} more"] if len(pairs) > _NAMED else []
    return f"{', '.join([*named, *more])} changed"


def tool_changed(parts: Sequence[str]) -> str:
    """Say that a call which was asked about before is asked about again, for its tool is not what it was."""
    return f"since this call was asked about before, {changed_parts(parts)}: no approval of then holds"


def repeat(run: str, in_doubt: bool, same: SameCall | None, waits: bool = False) -> str:
    """Say what a write would repeat.

    Args:
        run: that did, or may have done, the same; empty where a call of this one did.
        in_doubt: nobody knows whether that run did it.
        same: the call of this run.
        waits: that run did not do it, but waits for approval to it.
    """
    if run and waits:
        return f"run {run} waits for approval to the same"
    if run or same is None:
        return f"run {run} {'may have done' if in_doubt else 'did'} the same"
    if same.was_read:
        return f"call {same.number} ({same.tool}) may have done the same: its tool was said to read only"
    if same.settled:
        return f"call {same.number} ({same.tool}), which is said not to have been done, was sent for the same"
    did = "may have done" if same.in_doubt else "did"
    return f"call {same.number} ({same.tool}) {did} the same, perhaps by this tool under another name"
