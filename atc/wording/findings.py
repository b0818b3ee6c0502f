"""Say the findings of the check in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from atc.wording.parts import expression, listed

if TYPE_CHECKING:
    from atc.facts import Finding

MAX_FINDING = 4000
"""Characters of a finding's sentence: names and keys in it may be as long as a document likes."""
MAX_CHOICES = 15
"""Choices of a field that a sentence names."""
ALL_PAGES = "all_pages"
PLAIN_FUNCTIONS = "Tools are plain functions: call them without await and asyncio, and several at once by parallel"
_PLAIN = {"string": "text", "boolean": "truth value", "integer": "number", "number": "number"}
"""What has no keys, by its type in JSON Schema."""
_OF_DATES = frozenset({"year", "month", "day", "hour", "minute", "weekday", "date", "strftime", "isoformat"})


def finding(found: Finding) -> str:
    """Say a finding in one sentence. An error begins with its line; a warning is about the whole program."""
    text = finding_alone(found)
    return f"line {found.line}: {text}" if found.line and found.severity == "error" else text


def finding_alone(found: Finding) -> str:
    """Say a finding without its line, which means nothing to another program."""
    return _finding(found)[:MAX_FINDING] or found.kind


def no_keys(found: Finding, keys: Sequence[str | int]) -> str:
    """Say in one sentence that several keys of the same object are not there, or not known to be."""
    where = "the dict that the program made" if found.place is None else expression(found.place)
    missing, known = " and no ".join(map(repr, keys)), listed(found.known) or "none"
    if found.severity == "warning" and found.place is not None:
        return f"no key {missing} is known of {where}; known are {known}"
    return f"{where} has no key {missing}; its keys are {known}"


def _finding(f: Finding) -> str:
    match f.kind:
        case "syntax" if f.case == "await":
            return f"`{f.source_line}`: `await` stands outside a coroutine. {PLAIN_FUNCTIONS}"
        case "syntax":
            return f"`{f.source_line}`: {f.reason}" if f.source_line else f.reason
        case "no_program":
            return f.reason
        case "no_answer":
            return "the program never sets `answer`: end it with `answer = …`"
        case "no_call":
            return "the program calls no tool: its facts must come from tools"
        case "forbidden_import":
            return _lacking(f)
        case "forbidden_name":
            return {
                "call": _BUILT_INS.get(str(f.name), f"{f.name}() is not for programs: use the tools"),
                "frames": f"the attribute {f.name} leads to the frames and code of objects: programs do without it",
            }.get(f.case, f"the name {f.name} reaches behind objects: programs do without it")
        case "forbidden_syntax":
            return f"{f.name} is syntax that the check does not know: write it in another way"
        case "undefined_name" | "unknown_tool":
            return _undefined(f)
        case "unknown_argument" | "missing_argument":
            return _argument(f)
        case "not_in_enum" if f.case == "compared" and f.place is not None:
            among = listed(f.known[:MAX_CHOICES]) + (", …" if len(f.known) > MAX_CHOICES else "")
            return f"{expression(f.place)} is compared with {f.name!r}, and its document says that it is one of {among}"
        case "wrong_type" | "not_in_enum":
            return f"{f.tool}({f.arguments[0] if f.arguments else f.name}={f.value!r}) is not allowed: {f.reason}"
        case "unknown_field" | "unknown_key":
            return _unknown_key(f)
        case "not_paged" if f.case == "no_tool":
            return f"{ALL_PAGES} takes the tool itself, then its arguments: {ALL_PAGES}({f.tool or 'list_things'}, ...)"
        case "not_paged":
            return f"{ALL_PAGES} reads tools that are paged, and {f.tool} is not: call {f.tool}(...) itself"
        case "invented_id" if f.case == "address":
            way = f": {' or '.join(f.instead)} may tell it" if f.instead else ""
            return f"an e-mail address in the program stands in neither the task nor a response{way}"
        case "invented_id":
            what = f"the {f.name or f.arguments[0]} given to {f.tool}"
            return f"{what} stands in neither the task nor a response: take it {f.sources[0]}"
        case "name_for_id":
            return f"{f.arguments[0]} of {f.tool} is an id, and a name is given: take it {f.sources[0]}"
        case "broken_tool":
            return f"{f.tool} is down in this run: call {' or '.join(f.instead)} in its place"


_BY_TEXT = "runs text as code: write the code itself, and read values from text with json.loads or ast.literal_eval"
_BUILT_INS = {
    **{name: f"{name}() {_BY_TEXT}" for name in ("exec", "eval", "compile")},
    "input": "input() has nobody to ask: take the value from the task, or from a tool",
    "breakpoint": "breakpoint() has nobody to stop for: leave it out",
}


def _lacking(f: Finding) -> str:
    match f.case:
        case "files":
            return (
                f"the sandbox has no files, so {f.name} cannot work: take what you need from the tools and give "
                "results in `answer`; io.StringIO is a file in memory"
            )
        case "network":
            return f"the sandbox has no network, so {f.name} cannot work: call the tools"
        case "processes":
            return (
                f"the sandbox starts no process, so {f.name} cannot work: call the tools; parallel() runs calls at once"
            )
        case "inside":
            return f"{f.name} reaches into Python itself, which programs do without: use the tools and plain Python"
    instead = f"write it with {' or '.join(f.instead)}" if f.instead else "use the tools and the standard library"
    return f"the sandbox does not have the module {f.name!r}: {instead}"


def _undefined(f: Finding) -> str:
    is_tool = f.kind == "unknown_tool"
    meant = f"did you mean {'the tool ' * is_tool}{' or '.join(f.instead)}?"
    hint = meant if f.instead else "no tool has this name"
    return f"{f.name!r} is not defined; {hint}{f'; {f.reason}' if f.reason else ''}"


def _argument(f: Finding) -> str:
    if f.kind == "missing_argument":
        return f"{f.tool}() needs the argument {' and '.join(f.arguments)}"
    listed = f"its arguments are {', '.join(f.known) or 'none'}"
    if f.case == "too_many":
        return f"{f.tool}() is given too many arguments; {listed}"
    kin = f". {' and '.join(f.instead)} {'have' if len(f.instead) > 1 else 'has'} one" if f.instead else ""
    return f"{f.tool}() has no argument {f.name!r}; {listed}{kin}"


def _unknown_key(f: Finding) -> str:
    key, elsewhere = f.name, f". {f.name!r} is at {' or at '.join(f.instead)}" if f.instead else ""
    where = expression(f.place) if f.place is not None else ""
    match f.case:
        case "attribute" if f.found in _PLAIN:
            read = "; datetime.datetime.fromisoformat(text) reads a date" if key in _OF_DATES else ""
            return f"{where} is a {_PLAIN[f.found]}: it has no attribute .{key}{read * (f.found == 'string')}"
        case "attribute":
            return f"{where} is plain dicts and lists: write [{key!r}], not .{key}"
        case "list":
            first = "take an item (a loop, or [0] after a check that it is not empty)"
            return f"{where} is a list: {first} before [{key!r}]"
        case "scalar":
            return f"{where} is a plain {f.found}: it has no key {key!r}{elsewhere}"
        case "position":
            return f"{where} is no list, it has the keys {listed(f.known)}: [{key}] is not among them"
    return f"{no_keys(f, [key])}{elsewhere}"
