"""Feedback: one sentence for the model for everything that went wrong with the programs that failed (ATC §3.3)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from atc import wording
from atc.facts import Fault, Finding, Invocation, Place
from atc.fired_rules import fired
from atc.graph.identifiers import COORDINATES, is_identifier, words_of
from atc.programs.check.seen import Seen
from atc.programs.rules import DEFAULT, Rules
from atc.prompting import fenced
from atc.result import Call, Effect, Revision
from atc.strategies.preconditions import precondition_tools
from atc.strategies.repair_notes import RULE as REPAIRED
from atc.strategies.repair_notes import repair_notes
from atc.tools.parameters import parameters_of
from atc.tools.protocol import Protocol

MAX_NOTES = 8
MAX_COMPLAINT = 1000
"""Characters of a refusal in which names are looked for."""
MIN_QUOTED = 3
"""Characters of an argument that is known again in a refusal."""
_COORDINATE = re.compile(r"(?i)(?<![a-z])((?:\w{1,60}_)?(?:lat|latitude|lon|lng|longitude))=('[^']*'|-?\d[\d.]*)")
_ABOUT_ARGUMENTS = frozenset({"missing_argument", "wrong_type"})
_COMPLAINTS = frozenset({"invalid_arguments", "refused", "failed"})

SupplierHints = Mapping[str, Mapping[str, str]]


def feedback_from(
    history: Sequence[Revision],
    hints: SupplierHints | None = None,
    protocols: Iterable[Protocol] = (),
    likely: Sequence[str] = (),
    rules: Rules = DEFAULT,
    calls: Sequence[Call] = (),
) -> list[str]:
    """One sentence for every different thing that went wrong, the latest last, and for a line that fails on and on.

    Args:
        history: the programs that failed.
        hints: for a tool's parameter, which response can supply it.
        protocols: the tools: what they say of an argument that was refused is told again.
        likely: tools to point to.
        rules: the ids of the rules that are on (:mod:`atc.programs.rules`).
        calls: of these programs: what was repaired of their arguments is told first.
    """
    tools = {protocol.name: protocol for protocol in protocols}
    copied = any(finding.kind == "from_memory" for revision in history for finding in revision.all_findings)
    if copied and "hidden-coordinates" in rules:
        shown = [_without_coordinates(revision) for revision in history]  # what a note names is copied
        fired("hidden-coordinates", shown != list(history))
    else:
        shown = list(history)
    seen = Seen(calls)
    facts = (note for revision in shown for note in _of(revision, hints or {}, tools, rules, seen))
    notes = repair_notes(calls, tools) if history and REPAIRED in rules else []
    fired(REPAIRED, len(notes))
    notes += _merged(facts, merge="merged-keys" in rules)
    lines = (line for revision in history for line in _failed_lines(revision))
    failed = Counter(lines if "repeated-line" in rules else ())
    again = [wording.failed_again(line, times) for line, times in failed.most_common(2) if times > 1]
    fired("repeated-line", len(again))
    notes += again
    if likely:
        notes.append(wording.likely_tools(likely))
    return [fenced(note) for note in list(dict.fromkeys(notes))[-MAX_NOTES:]]


def _merged(notes: Iterable[str | Finding], *, merge: bool) -> list[str]:
    """The notes as sentences. With ``merge``, the keys of one object are listed once, however many others were read
    from it, where the last of them stood.
    """
    lacks: dict[tuple[Place | None, tuple[str, ...]], dict[str | int, Finding]] = {}
    merged: dict[object, str] = {}
    for note in notes:
        if isinstance(note, str):
            merged.setdefault(note, note)
            continue
        if not merge:
            merged.setdefault(text := wording.finding_alone(note), text)
            continue
        at = note.place, note.known
        keys = lacks.setdefault(at, {})
        if note.name not in keys:
            keys[note.name] = note
            merged.pop(at, None)
            merged[at] = wording.no_keys(note, list(keys))
    fired("merged-keys", sum(len(keys) > 1 for keys in lacks.values()))
    return list(merged.values())


def done_calls(calls: Sequence[Call]) -> list[str]:
    """The calls with effects that succeeded, as a program writes them, with what they returned."""
    made = {call.index: call for call in calls if call.status == "ok" and call.effect is not Effect.READ}
    return [fenced(wording.done(call)) for call in made.values()]


def _of(
    revision: Revision, hints: SupplierHints, tools: Mapping[str, Protocol], rules: Rules, seen: Seen
) -> Iterator[str | Finding]:
    """What went wrong with one program; of a key that is not there the finding itself."""
    kept = tuple(finding for finding in revision.findings if not seen.outdates(finding))
    found = (kept if revision.fault is None else revision.all_findings)[:4]
    hints = hints if "supplier-hint" in rules else {}
    yield from (each if _is_no_key(each) else wording.finding_alone(each) for each in found)
    if found and revision.fault is None and all(finding.severity == "warning" for finding in found):
        yield wording.SENT_BACK
    for finding in found:
        if finding.kind in _ABOUT_ARGUMENTS and finding.tool is not None:
            yield from _supplies(finding.tool, finding.arguments, hints)
    if revision.fault is not None and revision.fault.substitutes:
        yield wording.is_down(revision.fault.tool or "", revision.fault.substitutes)
    elif revision.fault is not None:
        yield wording.fault_feedback(revision.fault)
        if evidence := revision.fault.evidence:
            yield evidence[:500]
        if revision.fault.tool is not None and revision.fault.kind in ("arguments", "tool"):
            yield from _of_arguments(revision.fault, hints, tools, rules)
            if "precondition" in rules:
                yield from _of_state(revision.fault, tools)


def _is_no_key(finding: Finding) -> bool:
    return finding.kind == "unknown_key" or (
        finding.kind == "unknown_field" and finding.case == "" and not finding.instead
    )


def _of_arguments(fault: Fault, hints: SupplierHints, tools: Mapping[str, Protocol], rules: Rules) -> Iterator[str]:
    """Of the arguments that a refusal or failure names or quotes, what the document says and who supplies them.

    Of a refusal that names none, who supplies the ids.
    """
    tool, complaint = fault.tool or "", _complaint(fault)
    given = fault.invocation.arguments if fault.invocation is not None else {}
    quoted = {n for n, v in given.items() if isinstance(v, str) and len(v) >= MIN_QUOTED and v in complaint}
    parameters = parameters_of(tools[tool]) if tool in tools else []
    named = [p for p in parameters if p.name in quoted or _names(complaint, p.name) or _names(complaint, p.original)]
    for parameter in named if "argument-description" in rules else ():
        if isinstance(about := parameter.schema.get("description"), str) and about:
            fired("argument-description")
            yield wording.about_argument(parameter.name, tool, about[:200])
    suppliable = hints.get(tool, {})
    if named:
        yield from _supplies(tool, [name for name in suppliable if name in quoted or _names(complaint, name)], hints)
    elif fault.kind == "arguments":
        yield from _supplies(tool, list(suppliable), hints)


def _of_state(fault: Fault, tools: Mapping[str, Protocol]) -> Iterator[str]:
    """Which tools may have to come first, by the words of a refusal: they are the tool's, and no advice of ours.

    Where the schema gate refused the arguments, the words are the validator's, and speak of a schema.
    """
    complaint = "" if fault.case == "invalid_arguments" else _complaint(fault)
    for name in precondition_tools(complaint, fault.tool or "", tools):
        fired("precondition")
        yield wording.comes_first(name)


def _complaint(fault: Fault) -> str:
    """The words with which a call was refused or failed; empty where it was not."""
    return fault.reason[:MAX_COMPLAINT] if fault.case in _COMPLAINTS else ""


def _supplies(tool: str, names: Collection[str], hints: SupplierHints) -> Iterator[str]:
    """Where these arguments come from."""
    for name, source in hints.get(tool, {}).items():
        if name in names:
            fired("supplier-hint")
            yield wording.supplied_by(name, tool, source, is_id=is_identifier(name))


def _names(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _without_coordinates(revision: Revision) -> Revision:
    """A program's findings and fault without the coordinates that it had from memory."""
    findings = tuple(
        finding.model_copy(
            update={
                "value": wording.HIDDEN if any(map(_is_coordinate, finding.arguments)) else finding.value,
                "source_line": _blanked(finding.source_line),
            }
        )
        for finding in revision.findings
    )
    fault = revision.fault
    if fault is not None:
        answered = fault.answered and fault.answered.model_copy(update=_hidden(fault.answered.invocation))
        fault = fault.model_copy(
            update={
                **_hidden(fault.invocation),
                "answered": answered,
                "source_line": _blanked(fault.source_line),
                "reason": _blanked(fault.reason),
            }
        )
    return revision.model_copy(update={"findings": findings, "fault": fault})


def _hidden(made: Invocation | None) -> dict[str, Invocation | None]:
    """A call without its coordinates, as a change of the record that holds it."""
    if made is None:
        return {"invocation": None}
    arguments = {name: wording.HIDDEN if _is_coordinate(name) else value for name, value in made.arguments.items()}
    return {"invocation": made.model_copy(update={"arguments": arguments})}


def _blanked(text: str) -> str:
    """A line of a program, or a tool's words, without coordinates."""
    return _COORDINATE.sub(r"\1=…", text)


def _is_coordinate(name: str) -> bool:
    return not COORDINATES.isdisjoint(words_of(name)[-1:])


def _failed_lines(revision: Revision) -> Iterator[str]:
    """The lines of a program that something is wrong with, as they stand there."""
    lines, fault = revision.program.split("\n"), revision.fault
    numbers = {finding.line for finding in revision.findings[:4]}
    if fault is not None and fault.tool is None:  # of a tool's fault the line is only where it showed
        numbers.add(fault.line)
    for number in sorted(numbers):
        if 0 < number <= len(lines) and (text := lines[number - 1].strip()):
            yield text[:200]
