"""Sentences about what a dry run found: planned calls as a program writes them, what feeds them, and where it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from atc._host.invisible import visible
from atc._records.records import ChangedRead, DataFlow, DryRun, Feed, PendingCall, PlannedCall, Stop
from atc.wording.abridged import abridged
from atc.wording.outcomes import read_changed
from atc.wording.parts import ALONE, SHOWN_OF_PART

_SHOWN = 200
"""Characters of one argument."""
_SHOWN_OF_ROW = 120
"""Characters of the row that a value comes from."""
_WRITES_NOTHING = "the program made no call with effects"
AGAIN = "Nothing was sent. To do it for real, run it again without --dry-run: all is read again."


def to_apply(run_id: str) -> str:
    """Say how exactly the planned calls are made."""
    return f"Nothing was sent. `atc runs apply {run_id}` makes exactly these calls: all is read again."


NO_TO_ALL = "no, and no to every other call of this task that needs approval"
"""What an answer says that ends a series of questions."""


def yes_to_all(tool: str) -> str:
    """What an answer says that holds for a tool's other calls, and which of them it does not hold for."""
    return (
        f"yes, and yes to every other call of {tool} in this task, whatever its arguments are; one with a "
        "warning, or that repeats a call or replaces another tool, is asked about all the same"
    )


def planned_call(call: PlannedCall) -> str:
    """A call as a program writes it; what is not known yet is the program's own expression. Nothing hides in it."""
    known = {_name(name): abridged(value, _SHOWN).text for name, value in call.arguments.items()}
    unknown = {
        _name(name): abridged(formed(call.forms[name]), _SHOWN).text
        if name in call.forms
        else visible(_cut(expression or "…"))
        for name, expression in call.unknown.items()
    }
    arguments = ", ".join(f"{name}={text}" for name, text in (known | unknown).items())
    within = f" within {visible(call.within)}" if call.within else ""
    return f"{visible(call.tool)}({arguments}){within}"


def unknown_arguments(call: PlannedCall) -> dict[str, Any]:
    """The arguments of a call that are not known yet, each as :func:`formed` says it, or as the program writes it."""
    return {n: formed(call.forms[n]) if n in call.forms else f"<{call.unknown[n]}>" for n in call.unknown}


def formed(form: Mapping[str, Any]) -> Any:
    """An argument that is not known yet, as a value in which ``<id of call 1>`` stands for what a call will answer."""
    ((kind, given),) = form.items()
    match kind:
        case "hole":
            return f"<{_field(given[1])} of call {given[0]}>"
        case "object":
            return {key: formed(each) for key, each in given.items()}
        case "list":
            return [formed(each) for each in given]
        case "text":
            return "".join(map(str, map(formed, given)))
    return given


def _name(name: str) -> str:
    return visible(name) if name.isidentifier() and len(name) <= _SHOWN else abridged(name, _SHOWN).text


def feed(found: Feed) -> str:
    """Where an argument, or a part of it, comes from, in a few words, with the row that has it; and how many feeds are
    not named. Nothing hides in it."""
    return _source(found) + (f"; and {found.more:,} more" if found.more else "")


def _source(found: Feed) -> str:
    position = next((step for step in reversed(found.path) if isinstance(step, int)), None)
    fitted = f", row {position + 1:,} of the {found.rows:,} found" if found.rows and position is not None else ""
    row = fitted + (f": {abridged(found.row, _SHOWN_OF_ROW).text}" if found.row else "")
    tool = visible(found.tool)
    match found.kind:
        case "response":
            return f"{_field(found.path)} of {tool} (call {found.call}){row}"
        case "derived":
            return f"made from {_field(found.path)} of {tool} (call {found.call}){row}"
        case "same":
            return f"the same as {_field(found.path)} of {tool} (call {found.call}){row}"
        case "planned":
            what = f"{_field(found.path)} of what" if found.path else "what"
            return f"{what} {tool} (call {found.call}) returns: known only once it is made"
        case "input":
            return "the value of an earlier task"
        case "task":
            return "the task"
        case "program":
            return ALONE


def fed(found: Feed, arguments: Mapping[str, Any]) -> str:
    """An argument, or the part of it with its value, and where it comes from. Nothing hides in it."""
    return f"{_part(found, arguments) or _name(found.argument)} ← {feed(found)}"


def origins(
    feeds: Sequence[Feed], arguments: Mapping[str, Any], flow: DataFlow | None = None
) -> dict[str, list[tuple[str, str]]]:
    """By argument, which part of it comes from where; an empty text stands for all of it.

    What a stranger may have chosen is said first, by its origins (:mod:`atc.wording.origins`). Those of other arguments
    are said where no feed is sure.

    Args:
        feeds: of the call.
        arguments: of the call, as they may be shown: the values of parts are taken from here.
        flow: where the arguments came from, where that is known.
    """
    whole: dict[str, list[str]] = {}
    parts: dict[str, list[tuple[str, str]]] = {}
    for each in feeds:
        whole.setdefault(each.argument, [])
        if part := _part(each, arguments):
            parts.setdefault(each.argument, []).append((part, feed(each)))
        else:
            whole[each.argument].append(feed(each))
    if flow is not None:
        from atc.wording.origins import add_origins  # seldom: most runs need none

        add_origins(whole, parts, feeds, arguments, flow)
    return {name: [*([("", "; ".join(texts))] if texts else []), *parts.get(name, [])] for name, texts in whole.items()}


def came(feeds: Sequence[Feed], arguments: Mapping[str, Any], flow: DataFlow | None = None) -> list[str]:
    """A line for each argument, or part of one with its value: where it comes from. Nothing hides in it."""
    found = origins(feeds, arguments, flow)
    return [f"{part or _name(name)} ← {text}" for name, texts in found.items() for part, text in texts]


def _part(found: Feed, arguments: Mapping[str, Any]) -> str:
    """The part of an argument as a program writes it, with its value: ``lines[0].product_id = 11``; empty for all of
    it."""
    if not found.inside:
        return ""
    value: Any = arguments
    try:
        for step in (found.argument, *found.inside):
            value = value[step]
    except (KeyError, IndexError, TypeError):  # a secret was masked, or somebody wrote the trace by hand
        return _field((found.argument, *found.inside))
    return f"{_field((found.argument, *found.inside))} = {abridged(value, SHOWN_OF_PART).text}"


def stop(found: Stop, planned: Sequence[PlannedCall]) -> str:
    """Where a dry run ended, and why nobody knows what comes after."""
    where = f"from line {found.line} on, `{visible(found.source_line)}`, nothing is known" if found.source_line else ""
    where = where or "what comes after that is not known"
    if found.needs is not None:
        tool = next((call.tool for call in planned if call.index == found.needs), "")
        what = f"{_field(found.path)} of what" if found.path else "what"
        return f"{where}: it needs {what} {tool} (call {found.needs}) returns"
    return f"{where}: the program ended there ({visible(found.reason)})"


def pending_call(call: PendingCall) -> list[str]:
    """Return the lines of a call that waits for approval: what would be called, what feeds it, what is odd about it."""
    planned = PlannedCall(
        index=call.index, tool=call.tool, effect=call.effect, arguments=call.arguments, within=call.within
    )
    lines = [f"{call.index}. {planned_call(planned)}"]
    lines += [f"     {text}" for text in came(call.feeds, call.arguments, call.data_flow)]
    if call.data_flow is not None:
        from atc.wording.origins import careful

        lines += [f"     careful: {text}" for text in careful(call.data_flow)]
    lines += [f"     warning: {visible(text)}" for text in call.warnings]
    lines += [f"     {read_again(each)}" for each in call.changed]
    lines += [f"     {waits_in(call.same_as)}"] if call.same_as else []
    return lines


def waits_in(run_id: str) -> str:
    """Say that an equal call waits in another run."""
    return f"the same call waits in run {visible(run_id)}: approve one of them, unless it is to be made twice"


def read_again(change: ChangedRead) -> str:
    """Say why a call is asked about again that had a yes: what it may rest on has changed."""
    return f"asked again, for {visible(read_changed(change))}"


def heading(found: DryRun) -> str:
    """The dry run in one line."""
    if not found.planned:
        return _WRITES_NOTHING
    writes = sum(call.effect != "read" for call in found.planned)
    reads = len(found.planned) - writes
    made = f"{writes} {'call' if writes == 1 else 'calls'} with effects planned"
    return made + (f", and {reads} {'read' if reads == 1 else 'reads'} that rest on them" if reads else "")


def unseen(reads: Sequence[int]) -> str:
    """That some reads were made after planned calls."""
    numbers = ", ".join(map(str, reads[:10])) + (" …" if len(reads) > 10 else "")
    what = "call" if len(reads) == 1 else "calls"
    return f"{what} {numbers} read after planned calls, and saw nothing of what these would change"


def _field(path: Sequence[str | int]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    return visible(_cut(text)) if text else "the response"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} … ({len(text):,} characters)"
