"""Facts → sentences, for people and for the model. The one module that words findings and faults.

Records (:mod:`atc.facts`) carry data; what reads them decides by data. Sentences are made here, where they are read,
and no code reads one back: with a module that says nothing but each record's kind, all decisions stay the same.
Other modules call ``wording.finding(…)`` through the module, so that it can be replaced as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from atc.facts import (
    Answered,
    Drift,
    Fault,
    Finding,
    Invocation,
    Misfit,
    Mismatch,
    Observed,
    Part,
    Place,
    Raised,
    Replacement,
)
from atc.packing import as_text
from atc.result import Call
from atc.tools.names import parameter_name

MAX_MESSAGE, MAX_NOTE = 1000, 400
"""Characters of a fault's sentence, and of a note for the model."""
MAX_FINDING = 4000
"""Characters of a finding's sentence: names and keys in it may be as long as a document likes."""
ALL_PAGES = "all_pages"
MAX_PAIRS = 12
"""Arguments of a substitute that a note matches with those of the tool that broke."""
_SHOWN_OF_EMPTY, _SHOWN_OF_ANSWER, _SHOWN_OF_VALUE = 150, 500, 120


class _Hidden:
    """Stands for a value that is not shown."""

    def __repr__(self) -> str:
        return "…"


HIDDEN = _Hidden()

# -- findings --------------------------------------------------------------------------------------------------------


def finding(found: Finding) -> str:
    """One sentence. Of an error it begins with the line; a warning is about the whole program."""
    text = finding_alone(found)
    return f"line {found.line}: {text}" if found.line and found.severity == "error" else text


def finding_alone(found: Finding) -> str:
    """The sentence without the line, which means nothing to another program."""
    return _finding(found)[:MAX_FINDING] or found.kind


def no_keys(found: Finding, keys: Sequence[str | int]) -> str:
    """One sentence for several keys that are looked up in the same object and are not there."""
    where = "the dict that the program made" if found.place is None else expression(found.place)
    return f"{where} has no key {' and no '.join(map(repr, keys))}; its keys are {_listed(found.known) or 'none'}"


def _finding(f: Finding) -> str:
    match f.kind:
        case "syntax":
            return f"`{f.source_line}`: {f.reason}" if f.source_line else f.reason
        case "no_program":
            return f.reason
        case "no_answer":
            return "the program never sets `answer`: end it with `answer = …`"
        case "no_call":
            return "the program calls no tool: its facts must come from tools"
        case "forbidden_import":
            return f"the sandbox does not have the module {f.name!r}: use the tools and the standard library"
        case "forbidden_name":
            return {
                "call": f"{f.name}() is not for programs: use the tools",
                "frames": f"the attribute {f.name} leads to the frames and code of objects: programs do without it",
            }.get(f.case, f"the name {f.name} reaches behind objects: programs do without it")
        case "forbidden_syntax":
            return f"{f.name} is syntax that the check does not know: write it in another way"
        case "undefined_name" | "unknown_tool":
            return _undefined(f)
        case "unknown_argument" | "missing_argument":
            return _argument(f)
        case "wrong_type" | "not_in_enum":
            return _wrong_type(f)
        case "unknown_field" | "unknown_key":
            return _unknown_key(f)
        case "type_error":
            return f"`{f.source_line}`: {_type_error(f)[:300]}"
        case "not_paged" if f.case == "no_tool":
            return f"{ALL_PAGES} takes the tool itself, then its arguments: {ALL_PAGES}({f.tool or 'list_things'}, ...)"
        case "not_paged":
            return f"{ALL_PAGES} reads tools that are paged, and {f.tool} is not: call {f.tool}(...) itself"
        case "invented_id" if f.severity == "warning":
            what = "an e-mail address" if f.case == "address" else f"the {f.arguments[0]} given to {f.tool}"
            return f"{what} stands in neither the task nor a response: keep it only if an image shows exactly this"
        case "invented_id" if f.case == "address":
            way = f"{' or '.join(f.instead)} may tell it" if f.instead else "the task gives none"
            return f"an e-mail address in the program is made up: {way}"
        case "invented_id":
            return f"the {f.arguments[0]} given to {f.tool} is made up: take it {f.sources[0]}"
        case "from_memory":
            ways = "; ".join(f"take {name} {source}" for name, source in zip(f.arguments, f.sources, strict=True))
            return f"what {f.tool} is given as {' and '.join(f.arguments)} is from memory: {ways}"
        case "name_for_id":
            return f"{f.arguments[0]} of {f.tool} is an id, and a name is given: take it {f.sources[0]}"
        case "unused_fact" if f.case == "forgotten":
            return f"the task says {f.name!r}, which an earlier program used and this one does not"
        case "unused_fact":
            return f"the task says {f.name}, but the program uses it nowhere"
        case "broken_tool":
            return f"{f.tool} is down in this run: call {' or '.join(f.instead)} in its place"
        case "answer_type":
            wanted = " or ".join(f.expected)
            return f"`{f.source_line}`: `answer` must be of type `{wanted}`, but this is of type `{f.found[:300]}`"


def _undefined(f: Finding) -> str:
    if f.case == "unset":
        return "`answer` is used before it is set: set it first, to an empty list for instance"
    is_tool = f.kind == "unknown_tool"
    hint = f"did you mean {'the tool ' * is_tool}{f.instead[0]}?" if f.instead else "only the listed tools exist"
    return f"{f.name!r} is not defined; {hint}"


def _argument(f: Finding) -> str:
    if f.kind == "missing_argument":
        return f"{f.tool}() needs the argument {' and '.join(f.arguments)}"
    listed = f"its arguments are {', '.join(f.known) or 'none'}"
    if f.case == "too_many":
        return f"{f.tool}() is given too many arguments; {listed}"
    kin = f". {' and '.join(f.instead)} {'have' if len(f.instead) > 1 else 'has'} one" if f.instead else ""
    return f"{f.tool}() has no argument {f.name!r}; {listed}{kin}"


def _wrong_type(f: Finding) -> str:
    if f.case == "typed":
        return f"an argument of {f.tool}() must be {' or '.join(f.expected)}, but it is {f.found}"
    argument = f.arguments[0] if f.arguments else f.name
    if f.case == "literal":
        return f"{f.tool}({argument}={f.value!r}) is not allowed: {f.reason}"
    where = expression(f.place) if f.place is not None else ""
    given = {
        "record": f"the whole object {where}: give one of its fields {_listed(f.known)}",
        "list": f"the whole list {where}: give an item",
        "scalar": f"{where}, which is {_either([f.found])}",
        "text": f"{where}, which is a text like {f.value!r}: find the field that holds the number",
    }.get(f.case, "a list or a dict")
    return f"{f.tool}({argument}=…) must be {_either(f.expected)}, but it is given {given}"


def _unknown_key(f: Finding) -> str:
    key, elsewhere = f.name, f". {f.name!r} is at {' or at '.join(f.instead)}" if f.instead else ""
    if f.case == "typed":
        return f"there is no key {key!r} in that object{elsewhere}"
    where = expression(f.place) if f.place is not None else ""
    match f.case:
        case "attribute":
            return f"{where} is plain dicts and lists: write [{key!r}], not .{key}"
        case "list":
            first = "take an item (a loop, or [0] after a check that it is not empty)"
            return f"{where} is a list: {first} before [{key!r}]"
        case "scalar":
            return f"{where} is a plain {f.found}: it has no key {key!r}"
        case "position":
            return f"{where} is no list, it has the keys {_listed(f.known)}: [{key}] is not among them"
    return f"{no_keys(f, [key])}{elsewhere}"


def _type_error(f: Finding) -> str:
    match f.case:
        case "attribute":
            plain = "a response is plain dicts and lists"
            return f"a value of this kind has no attribute .{f.name}; {plain}: use [{f.name!r}]"
        case "list":
            return f"{f.name} is looked up in a list: take an item with [0] or a loop first"
        case "text":
            keys = "a loop over a dict gives its keys, so loop over the list inside it"
            return f"{f.name} is looked up in a text: {keys}"
        case "container":
            return f"{f.name} is looked up in a {f.found}, which has no such keys"
    return f.reason


# -- faults ----------------------------------------------------------------------------------------------------------


def fault(failed: Fault) -> str:
    """One sentence, which begins with the line."""
    if failed.finding is not None:
        return finding(failed.finding)
    text = _fault(failed) or failed.kind
    return (f"line {failed.line}: {text}" if failed.line else text)[:MAX_MESSAGE]


def fault_alone(failed: Fault) -> str:
    """The sentence without the line, which means nothing to another program."""
    if failed.finding is not None:
        return finding_alone(failed.finding)
    return (_fault(failed) or failed.kind)[:MAX_MESSAGE]


def evidence(failed: Fault) -> str:
    """What the tool really answered, where refused arguments came from, and which tools can be called now."""
    parts = [] if failed.answered is None or _names_answer(failed) else [answer(failed.answered)]
    if failed.origins:
        parts.append("; ".join(f"argument {name} came from {expression(place)}" for name, place in failed.origins))
    if failed.offered:
        parts.append(f"{', '.join(failed.offered)}, which it asked for, can be called now")
    return " ".join(parts)


def _names_answer(f: Fault) -> bool:
    """Whether the fault's sentence itself says what the call was answered."""
    return f.case in ("no_answer", "nothing_found") or (f.case == "empty" and f.place is None)


def _fault(f: Fault) -> str:
    match f.case:
        case "raised":
            return exception(f.raised) if f.raised is not None else f.reason
        case "warned":
            return f"{_called(f, 80)} was not called: {f.reason}"
        case "not_called" | "invalid_arguments" | "refused" | "failed":
            return _refused(f)
        case "went_on":
            return f"{f.tool} failed ({f.reason}), and the program went on with what it did not get"
        case "supplied":
            return f"{_at(f)}, and {_called(f, 80)} refused that: {f.reason}"
        case "misread":
            return f"{_at(f)} ({exception(f.raised)})"
        case "nothing_kept":
            return f"{_at(f)}, and the program kept nothing of it ({exception(f.raised)})"
        case "partial":
            return _partial(f)
        case "unpacked":
            return f"{_at(f)}: to unpack it gives its keys, not what stands there"
        case "memory":
            return "the program used up its memory"
        case "time":
            return f"the program was stopped: {f.reason}"
        case "ended":
            return f"the program ended wrongly: {f.reason}"
        case "stopped":
            return "the run was stopped from outside"
        case "asked":
            return f"the program asks the user: {f.reason!r}"
        case "no_answer" | "nothing_found" | "no_calls" | "no_success":
            return _no_answer(f)
        case "empty":
            return _empty(f)
        case "answer_type":
            return _misfit(f)
    return f.reason  # a budget's, an exception's: it is a sentence already


def _refused(f: Fault) -> str:
    outcome = {
        "not_called": "was not called", "invalid_arguments": "refused its arguments", "refused": "refused",
    }.get(f.case, "failed")  # fmt: skip
    idle = f"; the program uses nothing of what {f.tool} returns: leave this call out" if f.idle else ""
    return f"{_called(f, 80)} {outcome}: {f.reason}{idle}"


def _no_answer(f: Fault) -> str:
    match f.case:
        case "no_answer":
            text = "the program ended without setting `answer`"
        case "nothing_found":
            text = "the answer rests on nothing: every tool that was called answered emptily"
        case _:
            text = "the answer rests on no successful call of a tool"
    if f.case == "no_success":
        return f"{text}: {f.tool} said {f.reason}"
    return f"{text}: {answer(f.answered)}" if f.answered is not None else text


def _empty(f: Fault) -> str:
    text = f"the program's answer is empty ({f.value!r})"
    if f.reason:
        return f"{text}: {f.tool} failed: {f.reason}"
    if f.place is not None:
        return f"{text}: {_at(f)}"
    if f.part is not None:
        return f"{text}: {_partial(f)}"
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
    where = f"answer{_steps(problem.path)}"
    if problem.found is None:
        return f"{where}: {problem.what}"
    stands = _stands(problem.found)
    return f"{where} {stands}" if problem.found.type == "missing" else f"{where}: {problem.what}, but it {stands}"


def _stands(found: Observed) -> str:
    return f"is a dict with the keys {_keys(found)}" if found.keys else described(found)


def _steps(path: Iterable[str | int]) -> str:
    return "".join(f"[{step!r}]" for step in path)


def _partial(f: Fault) -> str:
    part = f.part or Part(shown=0, total=0)
    advice = f"call {part.instead} instead" if part.instead else "ask for exactly what is wanted, or for more of them"
    if part.pages:
        advice = f"{ALL_PAGES}({f.tool}, ...) gives them all"
    answered = f"only {part.shown} of {part.total}"
    return f"{_called(f, 60)} answered {answered}, and what was looked for is not among them: {advice}"


def _called(f: Fault, limit: int) -> str:
    return call(f.invocation, limit) if f.invocation is not None else f.tool or "a call"


def _at(f: Fault) -> str:
    """What stands at the place that is at fault."""
    where = expression(f.place) if f.place is not None else "the response"
    lacks = f"has no {f.key!r}: it " if f.key is not None else ""
    note = f", which is not what its schema says ({drift(f.drift)})" if f.drift is not None else ""
    return f"{where} {lacks}{described(f.observed) if f.observed is not None else 'is not there'}{note}"


# -- feedback for the next program -----------------------------------------------------------------------------------


def fault_feedback(failed: Fault) -> str:
    """The fault, with the program's text there where the program alone is at fault."""
    text = fault_alone(failed)
    shown = f"`{failed.source_line}` failed: {text}" if failed.kind == "program" and failed.source_line else text
    return shown[:MAX_NOTE]


def failed_again(line: str, times: int) -> str:
    """A line that was wrong in several programs."""
    return f"`{line}` failed in {times} programs: write it differently"


def likely_tools(names: Sequence[str]) -> str:
    """The tools that fit the task."""
    return f"call the tools: {', '.join(names)} fit the task's words best"


def about_argument(name: str, tool: str, description: str) -> str:
    """What a tool's document says of an argument."""
    return f"{name} of {tool}: {description}"


def supplied_by(name: str, tool: str, source: str, *, is_id: bool) -> str:
    """Where an argument comes from."""
    return f"{name} of {tool}{' is an id, not a name' if is_id else ''}: take it {source}"


def comes_first(tool: str) -> str:
    """A tool whose name has the words of a refusal."""
    return f"the words of this refusal are those of {tool}: see whether it comes first"


def done(made: Call) -> str:
    """A call that had an effect, as a program writes it, and what it returned."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in made.arguments.items())
    return f"{made.tool}({arguments}) returned {as_text(made.value)[:300]}"


def is_down(tool: str, substitutes: Sequence[Replacement]) -> str:
    """A tool that broke and is not called again in this run, and what gives the same, the likeliest first."""
    gives = "gives" if len(substitutes) == 1 else "give"
    return f"{tool} is down in this run: {' or '.join(map(_replacement, substitutes))} {gives} the same"


def takes_place(instead_of: Sequence[str]) -> str:
    """Of a write that is asked for because another one failed and surely did nothing."""
    return f"in place of {' and '.join(instead_of)}, which failed"


def _replacement(made: Replacement) -> str:
    """``city_details (its place is the city_id)``, by the names that a program writes: those of documents are text."""
    named = [(parameter_name(mine), parameter_name(theirs)) for mine, theirs in made.arguments]
    pairs = " and ".join(f"its {mine} is the {theirs}" for mine, theirs in named[:MAX_PAIRS])
    return f"{made.tool} ({pairs})" if pairs else made.tool


# -- parts -----------------------------------------------------------------------------------------------------------


def exception(raised: Raised | None) -> str:
    """``IndexError: list index out of range (it has 3 items)``."""
    if raised is None:
        return ""
    items = "" if raised.items is None else f" (it has {raised.items} items)" if raised.items else " (it is empty)"
    return f"{raised.type}: {raised.message}{items}{f' ({raised.hint})' if raised.hint else ''}"


def answer(answered: Answered) -> str:
    """What a call was answered; where that is nothing, what to do about it."""
    made = call(answered.invocation)
    if answered.nothing:
        shown = short(answered.value, _SHOWN_OF_EMPTY)
        return f"{made} found nothing, it answered {shown}: ask with fewer or other arguments"
    return f"{made} answered {short(answered.value, _SHOWN_OF_ANSWER)}"


def drift(found: Drift) -> str:
    """``$.cities[0].id: "x" is not of type "integer"``."""
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in found.path)
    return f"${steps}: {found.what}"


def drifted(found: Drift) -> str:
    """The same as a note on the call."""
    return f"response differs from its schema: {drift(found)}"


def call(made: Invocation, limit: int = 60) -> str:
    """A call as a program writes it, with at most ``limit`` characters of an argument."""
    return f"{made.tool}({', '.join(f'{name}={short(value, limit)}' for name, value in made.arguments.items())})"


def expression(place: Place) -> str:
    """``find_cities(...)['cities'][0]``; ``[…]`` is any item or member."""
    return f"{place.tool}(...)" + "".join("[…]" if step is None else f"[{step!r}]" for step in place.path)


def described(observed: Observed) -> str:
    """One clause: the keys of an object, the length of a list, or the value itself."""
    match observed.type:
        case "missing":
            return "is not there"
        case "object":
            return f"has the keys {_keys(observed)}" if observed.keys else "is an empty object"
        case "list":
            first = f": its first item {described(observed.first)}" if observed.first is not None else ""
            return f"is a list of {observed.length}{first}" if observed.length else "is an empty list"
        case "value":
            return f"is {short(observed.value, _SHOWN_OF_VALUE)}"


def _keys(observed: Observed) -> str:
    return f"{_listed(observed.keys)}{', …' if observed.length > len(observed.keys) else ''}"


def short(value: Any, limit: int = 300) -> str:
    """A value as Python text, cut to ``limit`` characters."""
    text = repr(value) if not isinstance(value, float) else json.dumps(value)
    return text if len(text) <= limit else text[:limit] + " …"


def _listed(names: Iterable[str | int]) -> str:
    return ", ".join(map(repr, names))


def _either(types: Iterable[str]) -> str:
    return " or ".join(f"a{'n' if name[:1] in 'aeiou' else ''} {name}" for name in sorted(types))
