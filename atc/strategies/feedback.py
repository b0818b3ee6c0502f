"""Short notes for a revision: one sentence for each thing that went wrong, and no program."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from atc import wording
from atc.prompting import fenced, prompt
from atc.result import Call, Effect, Revision
from atc.settings import ShowValues
from atc.strategies.hidden_values import without_values
from atc.strategies.previews import call_shown, shown

MAX_NOTES = 8
MAX_EVIDENCE = 500
"""Characters of what a tool answered, in a note."""
MAX_DONE, MAX_VALUE = 20, 300
"""Calls with effects that are listed, the first ones, and characters of an argument and of a response."""


def notes_on(history: Sequence[Revision], calls: Sequence[Call], show: ShowValues = "previews") -> str:
    """The notes on the programs so far, as the part of a prompt behind the task; empty where there is nothing to note.

    Args:
        history: the programs that failed.
        calls: of these programs.
        show: how much of responses is shown.
    """
    if show != "previews":
        history = [*map(without_values, history)]
    notes, done = notes_of(history), done_calls(calls, show)
    return prompt("revision_notes", notes=notes, done=done) if notes or done else ""


def notes_of(history: Sequence[Revision]) -> list[str]:
    """One sentence for every different thing that went wrong, the latest last."""
    said = dict.fromkeys(note for revision in history for note in _of(revision))
    return [fenced(note) for note in said][-MAX_NOTES:]


def done_calls(calls: Sequence[Call], show: ShowValues = "previews", told: Collection[int] = ()) -> list[str]:
    """The calls with effects that succeeded, as a program writes them, with what they returned.

    Args:
        told: the numbers of calls whose response the prompt shows elsewhere: it is not shown twice.
    """
    made = {call.index: call for call in calls if call.status == "ok" and call.effect is not Effect.READ}
    lines = []
    for call in [*made.values()][:MAX_DONE]:
        value = shown(call.observation, MAX_VALUE, "never" if call.index in told else show)
        lines.append(wording.done(call_shown(call.tool, call.arguments, MAX_VALUE, show), value))
    return [*map(fenced, lines), *([f"and {len(made) - MAX_DONE:,} more"] if len(made) > MAX_DONE else [])]


def _of(revision: Revision) -> Iterator[str]:
    """What went wrong with one program."""
    found = revision.all_findings[:4]
    yield from map(wording.finding_alone, found)
    if found and revision.fault is None and all(finding.severity == "warning" for finding in found):
        yield wording.SENT_BACK
    if revision.fault is not None and revision.fault.substitutes:
        yield wording.is_down(revision.fault.tool or "", revision.fault.substitutes)
    elif revision.fault is not None:
        yield wording.fault_feedback(revision.fault)
        if revision.fault.case == "impossible":
            yield wording.SAID_IMPOSSIBLE
        if evidence := revision.fault.evidence:
            yield evidence[:MAX_EVIDENCE]
