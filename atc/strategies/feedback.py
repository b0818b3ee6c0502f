"""What a model is told of the programs that failed: one exact sentence for everything that went wrong (ATC §3.3)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from atc.graph.suppliers import is_identifier
from atc.packing import as_text
from atc.programs.check.coverage import FROM_MEMORY
from atc.programs.rules import DEFAULT, Rules
from atc.prompting import fenced
from atc.result import Call, Effect, Fault, Revision
from atc.strategies.preconditions import remedies
from atc.tools.parameters import parameters_of
from atc.tools.protocol import Protocol

MAX_NOTES = 8
_LINE = re.compile(r"^line \d+: ")
_NO_KEY = re.compile(r"(.+) has no key ('\w+'); its keys are ('[^.]*')")
_COORDINATE = re.compile(r"(?i)(?<![a-z])((?:\w+_)?(?:lat|latitude|lon|lng|longitude))=('[^']*'|-?\d[\d.]*)")
_COMPLAINS = re.compile(r"\) (?:refused(?: its arguments)?|failed): ")
_TEXT = re.compile(r"(\w+)='([^']{3,})'")
_OF_ARGUMENTS = frozenset({"missing_argument", "wrong_type"})

Hints = Mapping[str, Mapping[str, str]]


def notes_from(
    history: Sequence[Revision],
    hints: Hints | None = None,
    protocols: Iterable[Protocol] = (),
    likely: Sequence[str] = (),
    rules: Rules = DEFAULT,
) -> list[str]:
    """One sentence for every different thing that went wrong, the latest last, and for a line that fails on and on.

    Args:
        history: the programs that failed.
        hints: for a tool's parameter, which response can supply it.
        protocols: the tools: what they say of an argument that was refused is told again.
        likely: tools to point to.
        rules: the ids of the rules that are on (:mod:`atc.programs.rules`).
    """
    tools = {protocol.name: protocol for protocol in protocols}
    notes = [note for revision in history for note in _of(revision, hints or {}, tools, rules)]
    copied = any(finding.kind == FROM_MEMORY for revision in history for finding in revision.findings)
    if copied and "hidden-coordinates" in rules:
        notes = [_COORDINATE.sub(r"\1=…", note) for note in notes]  # what a note names is copied
    notes = _merged(dict.fromkeys(notes)) if "merged-keys" in rules else list(dict.fromkeys(notes))
    lines = (line for revision in history for line in _failed_lines(revision))
    failed = Counter(lines if "repeated-line" in rules else ())
    again = [(line, times) for line, times in failed.most_common(2) if times > 1]
    notes += [f"`{line}` failed in {times} programs: write it differently" for line, times in again]
    if likely:
        notes.append(f"call the tools: {', '.join(likely)} fit the task's words best")
    return [fenced(note) for note in list(dict.fromkeys(notes))[-MAX_NOTES:]]


def _merged(notes: Iterable[str]) -> list[str]:
    """The keys of one object are listed once, however many others were read from it; where the last of them stood."""
    lacks: dict[tuple[str, str], list[str]] = {}
    merged: dict[object, str] = {}
    for note in notes:
        found = _NO_KEY.fullmatch(note)
        if found is None:
            merged[note] = note
            continue
        at, key, there = found.groups()
        keys = lacks.setdefault((at, there), [])
        keys.append(key)
        merged.pop((at, there), None)
        merged[at, there] = f"{at} has no key {' and no '.join(keys)}; its keys are {there}"
    return list(merged.values())


def done_calls(calls: Sequence[Call]) -> list[str]:
    """The calls with effects that succeeded, as a program writes them, with what they returned."""
    made = {}
    for call in calls:
        if call.status == "ok" and call.effect is not Effect.READ:
            arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
            made[call.index] = fenced(f"{call.tool}({arguments}) returned {as_text(call.value)[:300]}")
    return list(made.values())


def _of(revision: Revision, hints: Hints, tools: Mapping[str, Protocol], rules: Rules) -> Iterator[str]:
    """What went wrong with one program."""
    found = revision.findings[:4]
    hints = hints if "supplier-hint" in rules else {}
    yield from (_LINE.sub("", finding.message) for finding in found)
    for finding in found:
        if finding.kind in _OF_ARGUMENTS and finding.tool is not None:
            yield from _supplies(finding.tool, finding.message, hints)
    if revision.fault is not None:
        yield from _of_fault(revision.fault)
        if revision.fault.tool is not None and revision.fault.kind in ("arguments", "tool"):
            yield from _of_arguments(revision.fault, hints, tools, rules)
            if "precondition" in rules:
                yield from _of_state(revision.fault, tools)


def _of_fault(fault: Fault) -> Iterator[str]:
    said = _LINE.sub("", fault.message)
    if fault.kind == "program" and fault.source_line:
        said = f"`{fault.source_line}` failed: {said}"
    yield said[:400]
    if fault.evidence and fault.evidence not in said:
        yield fault.evidence[:500]


def _of_arguments(fault: Fault, hints: Hints, tools: Mapping[str, Protocol], rules: Rules) -> Iterator[str]:
    """Of the arguments that a refusal or failure names or quotes, what the document says and who supplies them.

    Of a refusal that names none, who supplies the ids.
    """
    tool = fault.tool or ""
    call, _, complaint = _COMPLAINS.sub("\n", fault.message, count=1).partition("\n")
    quoted = {name for name, value in _TEXT.findall(call) if value in complaint}
    parameters = parameters_of(tools[tool]) if tool in tools else []
    named = [p for p in parameters if p.name in quoted or _names(complaint, p.name) or _names(complaint, p.original)]
    for parameter in named if "argument-description" in rules else ():
        if isinstance(about := parameter.schema.get("description"), str) and about:
            yield f"{parameter.name} of {tool}: {about[:200]}"
    if named:
        yield from _supplies(tool, f"{complaint} {' '.join(quoted)}", hints)
    elif fault.kind == "arguments":
        yield from _supplies(tool, " ".join(hints.get(tool, {})), hints)


def _of_state(fault: Fault, tools: Mapping[str, Protocol]) -> Iterator[str]:
    """Which tools may have to come first, by the words of a refusal: they are the tool's, and no advice of ours.

    Where the broker refused the arguments, the words are the broker's, and tell of a schema.
    """
    complains = _COMPLAINS.search(fault.message)
    complaint = fault.message[complains.end() :] if complains and "arguments" not in complains[0] else ""
    for name in remedies(complaint, fault.tool or "", tools):
        yield f"the words of this refusal are those of {name}: see whether it comes first"


def _supplies(tool: str, text: str, hints: Hints) -> Iterator[str]:
    """Where those arguments come from that a text names."""
    for name, source in hints.get(tool, {}).items():
        if _names(text, name):
            what = " is an id, not a name" if is_identifier(name) else ""
            yield f"{name} of {tool}{what}: take it {source}"


def _names(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _failed_lines(revision: Revision) -> Iterator[str]:
    """The lines of a program that something is wrong with, as they stand there."""
    lines, fault = revision.program.split("\n"), revision.fault
    numbers = {finding.line for finding in revision.findings[:4]}
    if fault is not None and fault.tool is None:  # of a tool's fault the line is only where it showed
        numbers.add(fault.line)
    for number in sorted(numbers):
        if 0 < number <= len(lines) and (text := lines[number - 1].strip()):
            yield text[:200]
