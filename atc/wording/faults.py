"""Say the faults of runs in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from atc._records.records import FaultCase, Misfit, Mismatch, Observed, Raised, Replacement
from atc.schemas.names import parameter_name
from atc.wording.findings import PLAIN_FUNCTIONS, finding, finding_alone
from atc.wording.parts import (
    answer,
    call,
    described,
    drift,
    exception,
    expression,
    keys_of,
    listed,
)

if TYPE_CHECKING:
    from atc.facts import Fault

MAX_MESSAGE = 1000
"""Characters of a fault's sentence."""


def fault(failed: Fault) -> str:
    """Say a fault in one sentence, which begins with the line."""
    if failed.case is FaultCase.FINDINGS and failed.finding is not None:
        return finding(failed.finding)
    text = _placed(failed)
    return (f"line {failed.line}: {text}" if failed.line else text)[:MAX_MESSAGE]


def fault_alone(failed: Fault) -> str:
    """Say a fault without its line, which means nothing to another program."""
    if failed.case is FaultCase.FINDINGS and failed.finding is not None:
        return finding_alone(failed.finding)
    return _placed(failed)[:MAX_MESSAGE]


def _placed(failed: Fault) -> str:
    text = _fault(failed) or failed.kind
    if not failed.within:
        return text
    if failed.tool == failed.within:
        where = f" in its line {failed.kept_line}" if failed.kept_line else ""
        return f"{failed.within}, a kept program, failed{where}: {text}"
    where = f", in its line {failed.kept_line}" if failed.kept_line else ""
    return f"within {failed.within}{where}: {text}"


def evidence(failed: Fault) -> str:
    """Say what the tool really answered, where refused arguments came from, and which tools can be called now."""
    answered = [answer(failed.answered)] if failed.answered is not None and not names_answer(failed) else []
    return " ".join([*answered, *beside(failed)])


def beside(failed: Fault) -> list[str]:
    """Say where refused arguments came from, and which tools can be called now."""
    came = "; ".join(f"argument {name} came from {expression(place)}" for name, place in failed.origins)
    offered = f"{', '.join(failed.offered)}, which it asked for, can be called now" if failed.offered else ""
    return [text for text in (came, offered) if text]


def finished(done: int, made: int) -> str:
    """Say how many of the calls of a program that failed succeeded; empty unless some did, and some did not."""
    if not 0 < done < made:
        return ""
    return f"{done:,} of the program's {made:,} calls are in the journal: the next program gets their answers there"


def names_answer(f: Fault) -> bool:
    """Say whether the fault's sentence itself says what the call was answered."""
    return f.case in (FaultCase.NO_ANSWER, FaultCase.NOTHING_FOUND) or (f.case is FaultCase.EMPTY and f.place is None)


def _fault(f: Fault) -> str:
    match f.case:
        case FaultCase.RAISED:
            return exception(f.raised) if f.raised is not None else f.reason
        case FaultCase.IMPOSSIBLE:
            return f"the program says that no tool can do the task: {f.reason or 'it gives no reason'}"
        case FaultCase.AWAITED:
            return f"{PLAIN_FUNCTIONS} ({exception(f.raised)})"
        case FaultCase.UNRESOLVED:
            return f"unresolved warning: {finding_alone(f.finding)}" if f.finding is not None else f.reason
        case FaultCase.TOOL_GONE:
            return f"{f.tool}, which this run had before, is not there any more"
        case FaultCase.PLAN_DIFFERS:
            from atc.wording.applied import not_planned  # few runs apply a plan

            why = not_planned(f.difference) if f.difference is not None else f.reason
            return f"{_called(f, 80)} was not made: {why}"
        case FaultCase.PLAN_LEFT:
            return f"{_called(f, 80)} was planned, and was not made"
        case FaultCase.WARNED:
            return f"{_called(f, 80)} was not called: {f.reason}"
        case FaultCase.NOT_CALLED | FaultCase.INVALID_ARGUMENTS | FaultCase.REFUSED | FaultCase.FAILED:
            return _refused(f)
        case FaultCase.UNREAD:
            return f"{_called(f, 80)} has no value that can be read: {f.reason}"
        case FaultCase.STATED:
            return f"{_called(f, 80)} answered with an error: {f.reason}"
        case FaultCase.WENT_ON:
            return f"{f.tool} failed ({f.reason}), and the program went on with what it did not get"
        case FaultCase.FIRST_PART | FaultCase.FIRST_FEW:
            return _first_part(f)
        case FaultCase.UNSAID:
            return _unsaid(f)
        case FaultCase.SUPPLIED:
            return f"{_at(f)}, and {_called(f, 80)} refused that: {f.reason}"
        case FaultCase.MISREAD:
            return f"{_at(f)} ({exception(f.raised)})"
        case FaultCase.NOTHING_KEPT:
            is_list = f.observed is not None and f.observed.type == "list"
            none = "no item is what the program looked for" if is_list else "the program kept nothing of it"
            return f"{_at(f)}, and {none} ({exception(f.raised)})"
        case FaultCase.UNPACKED:
            return f"{_at(f)}: to unpack it gives its keys, not what stands there"
        case FaultCase.MEMORY:
            return "the program used up its memory"
        case FaultCase.TIME:
            return f"the program was stopped: {f.reason}"
        case FaultCase.ENDED:
            return f"the program ended wrongly: {f.reason}"
        case FaultCase.STOPPED:
            return "the run was stopped from outside"
        case FaultCase.ASKED:
            return f"the program asks the user: {f.reason!r}"
        case FaultCase.NO_ANSWER | FaultCase.NOTHING_FOUND | FaultCase.NO_CALLS | FaultCase.NO_SUCCESS:
            return _no_answer(f)
        case FaultCase.EMPTY | FaultCase.OWN_NONE:
            return _empty(f)
        case FaultCase.ANSWER_TYPE:
            return _misfit(f)
    return f.reason  # a budget's, an exception's: it is a sentence already


def _refused(f: Fault) -> str:
    outcome = {
        FaultCase.NOT_CALLED: "was not called",
        FaultCase.INVALID_ARGUMENTS: "refused its arguments",
        FaultCase.REFUSED: "refused",
    }.get(f.case, "failed")
    idle = f"; the program uses nothing of what {f.tool} returns: leave this call out" if f.idle else ""
    given = f"; {f.raised.message}" if f.raised is not None else ""  # the error stands where a value should
    return f"{_called(f, 80)} {outcome}: {f.reason}{idle}{given}"


def _first_part(f: Fault) -> str:
    shown = f.observed.length if f.observed is not None else 0
    gave = f"gave {shown} of {f.value}" if f.value is not None else f"gave {shown}, and says that there are more"
    unread = ", and the others were not read" if f.case is FaultCase.FIRST_PART else ""
    return f"{_called(f, 60)} {gave}{unread}: the answer may rest on a part of them"


def _unsaid(f: Fault) -> str:
    if f.tool is not None:
        why = f"{f.tool} failed, and it was written before that was known"
    elif f.value:
        what = "stands" if len(f.value) == 1 else "stand"
        why = f"{listed(f.value)} in it {what} in neither the task nor a document nor a response"
    else:
        why = "it is too long"
    return f"the program's sentence about its answer is left out: {why}"


def _no_answer(f: Fault) -> str:
    match f.case:
        case FaultCase.NO_ANSWER:
            text = "the program ended without setting `answer`"
        case FaultCase.NOTHING_FOUND:
            text = "the answer rests on nothing: every tool that was called answered emptily"
        case _:
            text = "the answer rests on no successful call of a tool"
    if f.case is FaultCase.NO_SUCCESS:
        return f"{text}: {f.tool} said {f.reason}"
    return f"{text}: {answer(f.answered)}" if f.answered is not None else text


def _empty(f: Fault) -> str:
    text = f"the program's answer is empty ({f.value!r})"
    if f.reason:
        return f"{text}: {f.tool} failed: {f.reason}"
    if f.place is not None:
        return f"{text}: {_at(f)}"
    if f.answered is not None:
        return f"{text}: {answer(f.answered)}"
    return f"{text}, although every tool answered something"


def _misfit(f: Fault) -> str:
    found = f.misfit or Misfit(expected="Any", found=Observed(type="missing"))
    source = f"`{f.source_line}`: " if f.source_line else ""
    came = f", as it came from {expression(f.place)}" if f.place is not None else ""
    text = f"{source}`answer` must be of type `{found.expected}`, but it {_stands(found.found)}{came}"
    if parts := [_mismatch(each) for each in found.problems if each.path]:
        return f"{text}; {'; '.join(parts)}"
    return f"{text} ({found.problems[0].what})" if found.problems else text


def _mismatch(problem: Mismatch) -> str:
    where = "answer" + "".join(f"[{step!r}]" for step in problem.path)
    if problem.found is None:
        return f"{where}: {problem.what}"
    stands = _stands(problem.found)
    return f"{where} {stands}" if problem.found.type == "missing" else f"{where}: {problem.what}, but it {stands}"


def _stands(found: Observed) -> str:
    return f"is a dict with the keys {keys_of(found)}" if found.keys else described(found)


def _called(f: Fault, limit: int) -> str:
    return call(f.invocation, limit) if f.invocation is not None else f.tool or "a call"


def _at(f: Fault) -> str:
    where = expression(f.place) if f.place is not None else "the response"
    lacks = f"has no {f.key!r}: it " if f.key is not None else ""
    note = f", which is not what its schema says ({drift(f.drift)})" if f.drift is not None else ""
    return f"{where} {lacks}{described(f.observed) if f.observed is not None else 'is not there'}{note}"


# ----------------------------------------------------------------------------------------------------------------------
# What a model is told for its next program.


MAX_NOTE = 400
"""Characters of a note."""
MAX_FRAMES, MAX_LINE = 5, 300
"""Frames of an exception, the innermost, and characters of a line of a program."""
MAX_PAIRS = 12
"""Arguments of a substitute that a note matches with those of the tool that broke."""


def fault_feedback(failed: Fault) -> str:
    """Say the fault, with the program's text there where the program alone is at fault."""
    text = fault_alone(failed)
    shown = f"`{failed.source_line}` failed: {text}" if failed.kind == "program" and failed.source_line else text
    return shown[:MAX_NOTE]


SENT_BACK = "nothing ran: a write depends on this or comes before it; if it is right, write the program again as it is"
"""Stands beside the warnings that alone kept a program from running."""

SAID_IMPOSSIBLE = (
    "if that is so, write the same program again; else solve the task with the tools above, or look for others with "
    "find_tools"
)
"""Stands beside the fault of a program that says that no tool can do the task, where tools were left out."""


def tools_not_shown(count: int) -> str:
    """What to do where a program says that no tool can do the task, and some were never shown."""
    return (
        f"The run has {count:,} more tools, none of which the model was shown: name the service or the tool in the "
        "task, or raise list_tokens."
    )


SAY_WHY = "if nothing is to be done, or the data does not say, set `answer` to a text that says why"
"""Stands beside the fault of a program whose answer is its own ``None``."""


def done(made: str, value: str) -> str:
    """Say a call that had an effect, as a program writes it, and what it returned, where that is shown."""
    return f"{made} returned {value}" if value else made


def frames(raised: Raised, lines: Callable[[int], str]) -> list[str]:
    """Say the frames of an exception, the innermost last: ``line 7, in <module>: total(rows)``."""
    return [
        f"line {line}, in {name if name.strip('<>').isidentifier() else '?'}: {lines(line)[:MAX_LINE]}"
        for name, line in raised.trace[-MAX_FRAMES:]
    ]


def is_down(tool: str, substitutes: Sequence[Replacement]) -> str:
    """Say that a tool broke and is not called again in this run, and what gives the same, the likeliest first."""
    gives = "gives" if len(substitutes) == 1 else "give"
    return f"{tool} is down in this run: {' or '.join(map(_replacement, substitutes))} {gives} the same"


def takes_place(instead_of: Sequence[str]) -> str:
    """Say that a write is asked for because another one failed and surely did nothing."""
    return f"instead of {' and '.join(instead_of)}, which failed"


def _replacement(made: Replacement) -> str:
    """Say ``city_details (its place is the city_id)``, by the names that a program writes: those of documents are text.

    What both call alike is not said.
    """
    named = [(parameter_name(mine), parameter_name(theirs)) for mine, theirs in made.arguments]
    pairs = " and ".join([f"its {mine} is the {theirs}" for mine, theirs in named if mine != theirs][:MAX_PAIRS])
    return f"{made.tool} ({pairs})" if pairs else made.tool
