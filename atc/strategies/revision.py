"""The prompt of a revision: every program so far with its result, and the document of the tool at fault (ATC Eq. 2).

The paper gives the model all pairs of a program and its result, and the document of the attributed tool. Here the last
program stands whole, and those before it as what was changed of them; beside its error stands what the failing line
worked with, as the journal has it. All that a tool said stands within fences, marked with the tool.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atc import wording
from atc.calls.mask import masked_text
from atc.facts import Fault, Finding
from atc.models.messages import estimate_tokens
from atc.programs.attribution.responses import invocation, places
from atc.programs.program import Program
from atc.prompting import fenced, prompt
from atc.result import Call, Revision
from atc.settings import ShowValues
from atc.strategies.feedback import done_calls
from atc.strategies.hidden_values import without_values
from atc.strategies.previews import LEFT_OUT, call_shown, shown
from atc.tools.fit import Fit

MAX_EARLIER = 1_500
"""Tokens of the programs before the last one, together."""
MAX_COMPARED = 400
"""Lines of a program that is compared with the next one: to compare takes more than their number."""
MAX_FINDINGS, MAX_SENTENCE, MAX_LEAN = 8, 1_000, 1_500
"""Findings of a program, characters of a sentence, and of what went wrong where there is little room."""
MAX_INPUTS, MAX_INPUT, MAX_ARGUMENT = 2_000, 800, 60
"""Characters of all that a line worked with, of one value of that, and of an argument of its call."""
FEW_CALLS = 20
"""Calls that are left of a run, of which the prompt says so."""


@dataclass(frozen=True)
class RevisionPrompt:
    """What the model is told for its next program.

    Args:
        history: the programs so far, in order.
        calls: of these programs.
        document: gives the documents of some tools.
        show: how much of responses is shown.
        mask: masks the credentials that are known.
        calls_left: calls that the run may still make.
        above: the tools whose documents stand whole in the prompt already.
        may_look: whether the next program may end with ``look``.
    """

    history: Sequence[Revision]
    calls: Sequence[Call]
    document: Callable[[Sequence[str]], Fit]
    show: ShowValues = "previews"
    mask: Callable[[str], str] = str
    calls_left: int = FEW_CALLS + 1
    above: Collection[str] = ()
    may_look: bool = False

    def texts(self) -> Iterator[str]:
        """The part of the prompt behind the task: whole, and then with less, for a prompt that has no room for it."""
        fields = self._fields()
        yield self._written(fields)
        lean: dict[str, Any] = {"problems": [line[:MAX_LEAN] for line in fields["problems"][:2]], "warnings": []}
        lacking: list[dict[str, Any]] = [{"earlier": []}, {"document": ""}, {"inputs": []}, lean]
        for less in lacking:
            if any(fields[name] != value for name, value in less.items()):
                fields |= less
                yield self._written(fields)

    def _written(self, fields: Mapping[str, Any]) -> str:
        return self.mask(prompt("revision", **fields))

    def _fields(self) -> dict[str, Any]:
        history = self.history if self.show == "previews" else [*map(without_values, self.history)]
        last = history[-1] if history else None
        fault = last.fault if last is not None else None
        inputs, told = self._inputs(fault)
        tools = _tools_at_fault(last)
        missing = [name for name in tools if name not in self.above]
        document = self.document(missing) if missing else Fit("", {})
        return {
            "last": last is not None,
            "program": fenced(last.program) if last is not None else "",
            "refused": last is not None and fault is None,
            "line": fault.line if fault is not None else 0,
            "problems": [fenced(masked_text(text)) for text in _problems(last)] if last is not None else [],
            "warnings": [fenced(masked_text(text)) for text in _warnings(last)] if last is not None else [],
            "inputs": inputs,
            "tools": missing,
            "above": [name for name in tools if name in self.above],
            "document": fenced(document.text),
            "language": document.language,
            "earlier": _earlier(history),
            "done": done_calls(self.calls, self.show, told),
            "calls_left": self.calls_left if self.calls_left <= FEW_CALLS else None,
            "may_look": self.may_look,
        }

    def _inputs(self, fault: Fault | None) -> tuple[list[str], set[int]]:
        """What the failing line worked with, and the numbers of the calls whose response is shown so."""
        if fault is None or self.show == "never":
            return [], set()
        made = {call.index: call for call in self.calls}
        found, told, left = list[str](), set[int](), MAX_INPUTS
        stood: list[tuple[int, tuple[Any, ...]]] = []
        for each in fault.inputs:
            if (call := made.get(each.call)) is None or call.error is not None or left <= 0:
                continue
            _, value = next(places(call.value, each.place.path, exact=True))  # type: ignore[arg-type]
            text = shown(value, min(MAX_INPUT, left), self.show)
            inside = any(call.index == number and each.place.path == at[: len(each.place.path)] for number, at in stood)
            if inside and not each.name and LEFT_OUT in text:
                continue  # an item of it is shown, and it is not short
            stood.append((call.index, each.place.path))
            where = f"{call_shown(call.tool, call.arguments, MAX_ARGUMENT, self.show)}{wording.steps(each.place)}"
            found.append(fenced(f"{each.name} = {where}\n  {text}" if each.name else f"{where}\n  {text}"))
            left -= len(text)
            told |= {call.index} if not each.place.path else set()
        answered, stands = fault.answered, [invocation(made[each.call]) for each in fault.inputs if each.call in made]
        if answered is not None and answered.invocation not in stands and left > 0 and not wording.names_answer(fault):
            where = call_shown(answered.invocation.tool, answered.invocation.arguments, MAX_ARGUMENT, self.show)
            found.append(fenced(f"{where}\n  {shown(answered.value, min(MAX_INPUT, left), self.show)}"))
        return found, told


def _problems(revision: Revision) -> list[str]:
    """What went wrong with a program, a line for each."""
    fault = revision.fault
    if fault is None:
        found = revision.findings[:MAX_FINDINGS]
        sent_back = [wording.SENT_BACK] if found and all(each.severity == "warning" for each in found) else []
        return [*(wording.finding(each)[:MAX_SENTENCE] for each in found), *sent_back]
    if fault.substitutes:
        return [wording.is_down(fault.tool or "", fault.substitutes)]
    source = Program(revision.program)
    frames = wording.frames(fault.raised, source.line) if fault.raised is not None else []
    at = [f"line {fault.line}: {fault.source_line}"] if fault.line and fault.source_line and not frames else []
    if fault.case == "impossible":
        return [wording.fault_alone(fault), wording.SAID_IMPOSSIBLE]
    return [*at, *frames, wording.fault_alone(fault), *wording.beside(fault)]


def _warnings(revision: Revision) -> list[str]:
    """What the check had warned about in a program that ran: where it failed, and what no error tells."""
    fault = revision.fault
    found = [fault.finding] if fault is not None and fault.finding is not None and fault.case != "findings" else []
    found += [each for each in revision.warnings[:MAX_FINDINGS] if each not in found]
    return [wording.finding(each)[:MAX_SENTENCE] for each in found]


def _tools_at_fault(revision: Revision | None) -> list[str]:
    """The tools whose documents the next program needs to be written from."""
    if revision is None:
        return []
    named: list[Fault | Finding] = [revision.fault] if revision.fault is not None else [*revision.findings]
    return list(dict.fromkeys(each.tool for each in named if each.tool is not None))[:3]


def _earlier(history: Sequence[Revision]) -> list[dict[str, Any]]:
    """The programs before the last one: how each went, and what was changed of it; of many the latest."""
    made: list[dict[str, Any]] = []
    left = MAX_EARLIER
    for number in range(len(history) - 1, 0, -1):
        before, after = history[number - 1], history[number]
        problem = fenced(masked_text(next(iter(_problems(before)[-1:]), "")))
        changed = fenced(_difference(before.program, after.program))
        for diff in (changed, ""):
            if (size := estimate_tokens(problem + diff)) <= left:
                again = bool(before.program) and before.program == after.program
                made.append({"number": number, "problem": problem, "diff": diff, "again": again})
                left -= size
                break
        else:
            break
    return made[::-1]


def _difference(before: str, after: str) -> str:
    """A unified diff without its head; empty where a program is too long to be compared."""
    lines = before.splitlines(), after.splitlines()
    if max(map(len, lines)) > MAX_COMPARED:
        return ""
    return "\n".join([*difflib.unified_diff(*lines, n=1, lineterm="")][2:])
