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
from atc._host.secret_detection import masked_text
from atc._records.records import Answered, FaultCase, Invocation, Observed, Place, Record
from atc.errors import ContextExceeded, ModelError
from atc.facts import Fault, Finding
from atc.models.base import Message, Model
from atc.models.images import IMAGE_TOKENS
from atc.models.messages import estimate_tokens
from atc.programs.program import Program
from atc.programs.responses import invocation, places
from atc.result import Call, Effect, Revision
from atc.run.previews import LEFT_OUT, call_shown, shown
from atc.settings import Settings, ShowValues
from atc.tools.stub_budget import Fit, Fitter, json_documents
from atc.tools.tool import Toolset
from atc.wording.prompting import fenced, prompt

# ----------------------------------------------------------------------------------------------------------------------
# Revisions without the values of responses, where the setting ``show_values`` keeps these from the model.


def without_values(revision: Revision) -> Revision:
    """Return a program's findings and fault without what was given to calls and what these answered.

    The words of an error stay as they are: a service may quote a value in them.
    """
    findings, fault = _hidden(revision.findings), _hidden(revision.fault)
    return revision.model_copy(update={"findings": findings, "fault": fault})


def _hidden(part: Any) -> Any:
    if isinstance(part, Answered):
        return None
    if isinstance(part, tuple):
        return tuple(map(_hidden, part))
    if not isinstance(part, Record):
        return part
    changed = {name: _hidden(each) for name, each in part if isinstance(each, Record | tuple)}
    is_answer = isinstance(part, Fault) and bool(part.value)
    of_response = isinstance(part, Finding) and part.place is not None
    if isinstance(part, Invocation):
        changed["arguments"] = dict.fromkeys(part.arguments, wording.HIDDEN)
    elif is_answer or of_response or (isinstance(part, Observed) and part.type == "value"):
        changed["value"] = wording.HIDDEN
    return part.model_copy(update=changed)


# ----------------------------------------------------------------------------------------------------------------------
# Short notes for a revision: one sentence for each thing that went wrong, and no program.


MAX_NOTES = 8
MAX_EVIDENCE = 500
"""Characters of what a tool answered, in a note."""
MAX_DONE, MAX_VALUE = 20, 300
"""Calls with effects that are listed, the first ones, and characters of an argument and of a response."""


def notes_on(history: Sequence[Revision], calls: Sequence[Call], show: ShowValues = "previews") -> str:
    """Return the notes on the programs so far, as the part of a prompt behind the task; empty where there are none."""
    if show != "previews":
        history = [*map(without_values, history)]
    notes, done = notes_of(history), done_calls(calls, show)
    return prompt("revision_notes", notes=notes, done=done) if notes or done else ""


def notes_of(history: Sequence[Revision]) -> list[str]:
    """Return one sentence for every different thing that went wrong, the latest last."""
    said = dict.fromkeys(note for revision in history for note in _of(revision))
    return [fenced(note) for note in said][-MAX_NOTES:]


def done_calls(calls: Sequence[Call], show: ShowValues = "previews", told: Collection[int] = ()) -> list[str]:
    """Return the calls with effects that succeeded, as a program writes them, with what they returned.

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
    found = revision.all_findings[:4]
    yield from map(wording.finding_alone, found)
    if found and revision.fault is None and all(finding.severity == "warning" for finding in found):
        yield wording.SENT_BACK
    if revision.fault is not None and revision.fault.substitutes:
        yield wording.is_down(revision.fault.tool or "", revision.fault.substitutes)
    elif revision.fault is not None:
        yield wording.fault_feedback(revision.fault)
        if revision.fault.case is FaultCase.IMPOSSIBLE:
            yield wording.SAID_IMPOSSIBLE
        if evidence := revision.fault.evidence:
            yield evidence[:MAX_EVIDENCE]


# ----------------------------------------------------------------------------------------------------------------------
# Revision as a dialogue: each program with its result, as ``atc-paper`` takes Eq. 2 word by word.


MAX_CULPRIT = 20_000
"""Characters of the stub of a failed tool that stands beside its error."""


def edits_of(
    history: Sequence[Revision],
    calls: Sequence[Call],
    tools: Toolset,
    task: str,
    *,
    pages: bool,
    as_json: bool = False,
    show: ShowValues = "previews",
) -> list[Message]:
    """Return the pairs (program, result) so far, the last with the tool's protocol and what it answered.

    ``as_json``: the tool's document is shown as JSON where there is room for it whole, as the others are.
    """
    messages = []
    if show != "previews":
        history = [*map(without_values, history)]
    for revision in history:
        last = revision is history[-1]
        fault = revision.fault
        tool = tools.get(fault.tool or "") if last and fault else None
        documents = [tool.protocol] if tool else []
        shown = json_documents(documents, pages=pages)
        if not as_json or len(shown.text) > MAX_CULPRIT:
            shown = Fitter(documents, {}, task, pages=pages).within(MAX_CULPRIT)
        problem = "\n".join(f.message for f in revision.findings) or (fault.message if fault else "")
        messages.append(
            Message("assistant", f"```python\n{revision.program}```" if revision.program else "(no program)")
        )
        messages.append(
            Message(
                "user",
                prompt(
                    "revision_paper",
                    problem=fenced(problem),
                    protocol=fenced(shown.text),
                    language=shown.language,
                    evidence=fenced(fault.evidence if fault and last else ""),
                    done=done_calls(calls, show) if last else [],
                ),
            )
        )
    return messages


# ----------------------------------------------------------------------------------------------------------------------
# How many tokens the prompts of a run may have, and what is left in them for the tools.


FRAMING = 16
"""Tokens of a message beside its text: marks of its role, as chat templates write them, with some to spare."""
FEEDBACK = 600
"""Tokens kept for notes on failed programs where documents are shortened, so that they need not be shortened again."""
REVISION = 3
"""The part of a prompt that a revision's programs and errors may take: one in so many tokens."""
LEAST = 1_000
"""Tokens for tools that a long task may not take away, where the context has them."""


class PromptRoom:
    """The size of a run's prompts.

    Args:
        model: whose context and tokenizer count.
        settings: ``prompt_tokens`` and ``context_tokens`` come before what the model says; ``max_tokens`` are kept free
            for the reply.
    """

    def __init__(self, model: Model, settings: Settings) -> None:
        self._model, self._settings = model, settings
        self._most: int | None = None
        self._counted: dict[str, int] = {}
        self.shrunk = False

    async def count(self, text: str) -> int:
        """Return the number of tokens of a text, as the model counts them; it is asked once about each."""
        if text not in self._counted:
            self._counted[text] = await self._model.count_tokens(text) if text.strip() else 0
        return self._counted[text]

    async def taken(self, messages: Sequence[Message]) -> int:
        """Return the number of tokens of what stands in a prompt beside the tools."""
        text = await self.count("\n".join(message.content for message in messages))
        return text + FRAMING * len(messages) + IMAGE_TOKENS * sum(len(message.images) for message in messages)

    async def for_tools(self, taken: int) -> int:
        """Return the number of tokens that are left for the tools beside so many.

        Raises:
            ModelError: none are left.
        """
        settings, most = self._settings, await self._bound()
        wanted = settings.prompt_tokens or max(self._model.prompt_tokens or most, taken + LEAST)
        left = min(most, wanted) - taken
        if left <= 0:
            raise ModelError(
                f"the instructions, the task and the notes take {taken:,} tokens of the {min(most, wanted):,} that a "
                f"prompt may have: raise prompt_tokens or context_tokens, lower max_tokens ({settings.max_tokens:,} "
                "for the reply), or shorten the task"
            )
        return left

    async def for_revision(self) -> int:
        """Return the number of tokens that the part about failed programs should have at most."""
        most = await self._bound()
        return min(most, self._settings.prompt_tokens or self._model.prompt_tokens or most) // REVISION

    async def _bound(self) -> int:
        context = self._settings.context_tokens or await self._model.context_size()
        most = context - self._settings.max_tokens
        return most if self._most is None else min(most, self._most)

    def shrink(self, error: ContextExceeded, used: int) -> None:
        """Make prompts smaller, as an endpoint demanded that refused one of ``used`` tokens.

        Raises:
            ModelError: it is the second time.
        """
        if self.shrunk:
            raise ModelError(
                f"{error}; a shorter prompt was refused too: set context_tokens to what the model takes, prompt and "
                "reply together, or prompt_tokens to less"
            ) from error
        self.shrunk = True
        self._most = used // 2
        if error.limit is not None:
            free = error.limit - self._settings.max_tokens
            # what was requested may include the reply: the smaller of both readings
            fitting = int(used * free / error.requested * 0.98) if error.requested else free
            if 0 < fitting < used:
                self._most = fitting


# ----------------------------------------------------------------------------------------------------------------------
# The prompt of a revision: every program so far with its result, and the document of the tool at fault (ATC Eq. 2).


MAX_EARLIER = 1_500
"""Tokens of the programs before the last one, together."""
MAX_COMPARED = 400
"""Lines of a program that is compared with the next one: to compare takes more than their number."""
MAX_FINDINGS, MAX_SENTENCE, MAX_LEAN = 8, 1_000, 1_500
"""Findings of a program, characters of a sentence, and of what went wrong where there is little room."""
MAX_INPUTS, MAX_INPUT, MAX_ARGUMENT = 2_000, 800, 60
"""Characters of all that a line worked with, of one value of that, and of an argument of its call."""
MAX_OTHERS = 300
"""Characters of the items beside the one at fault."""
FEW_CALLS = 20
"""Calls that are left of a run, of which the prompt says so."""


@dataclass(frozen=True)
class RevisionPrompt:
    """Tells the model what it needs for its next program.

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
        """Yield the part of the prompt behind the task: whole, then with less, for a prompt without room for it."""
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
            **_finished(fault),
        }

    def _inputs(self, fault: Fault | None) -> tuple[list[str], set[int]]:
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
            path = each.place.path
            shown_of_it = [at[len(path) :] for number, at in stood if call.index == number and path == at[: len(path)]]
            where = f"{call_shown(call.tool, call.arguments, MAX_ARGUMENT, self.show)}{wording.steps(each.place)}"
            if shown_of_it and not each.name and LEFT_OUT in text:  # it is not short, and a part of it is shown
                places_of_items = {at[0] for at in shown_of_it if at}
                others = [v for n, v in enumerate(value) if n not in places_of_items] if isinstance(value, list) else []
                if not others or len(others) == len(value):
                    continue
                text = shown(others, min(MAX_OTHERS, left), self.show)
                where += f": the other {len(others):,} of {len(value):,} items"
            stood.append((call.index, path))
            found.append(fenced(f"{each.name} = {where}\n  {text}" if each.name else f"{where}\n  {text}"))
            left -= len(text)
            told |= {call.index} if not each.place.path else set()
        answered, stands = fault.answered, [invocation(made[each.call]) for each in fault.inputs if each.call in made]
        if answered is not None and answered.invocation not in stands and left > 0 and not wording.names_answer(fault):
            where = call_shown(answered.invocation.tool, answered.invocation.arguments, MAX_ARGUMENT, self.show)
            found.append(fenced(f"{where}\n  {shown(answered.value, min(MAX_INPUT, left), self.show)}"))
        return found, told


def _finished(fault: Fault | None) -> dict[str, int]:
    finished, made = (0, 0) if fault is None else (fault.calls_finished, fault.calls_made)
    return {"finished": finished if finished < made else 0, "made": made}


def _problems(revision: Revision) -> list[str]:
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
    if fault.case is FaultCase.IMPOSSIBLE:
        return [wording.fault_alone(fault), wording.SAID_IMPOSSIBLE]
    if fault.case is FaultCase.OWN_NONE:
        return [*at, wording.fault_alone(fault), wording.SAY_WHY]
    return [*at, *frames, wording.fault_alone(fault), *wording.beside(fault)]


def _as_seen(revision: Revision, later: Sequence[Revision]) -> Revision:
    """Return a program's findings with the keys that later ones met in place of those of a document; without a finding
    whose key they met.
    """
    met: dict[Place, tuple[str, ...]] = {}
    for fault in (each.fault for each in later):
        if fault is not None and fault.place is not None and fault.observed is not None and fault.observed.keys:
            met[fault.place] = fault.observed.keys
    found = []
    for each in revision.findings:
        keys = met.get(each.place, ()) if each.kind == "unknown_field" and each.place is not None else ()
        if each.name not in keys:
            found.append(each.model_copy(update={"known": keys}) if keys else each)
    return revision.model_copy(update={"findings": tuple(found)}) if met else revision


def _problem(revision: Revision) -> str:
    fault = revision.fault
    if fault is not None and not fault.substitutes:
        return wording.fault_alone(fault)
    return next((each for each in reversed(_problems(revision)) if each != wording.SENT_BACK), "")


def _warnings(revision: Revision) -> list[str]:
    fault = revision.fault
    found = (
        [fault.finding]
        if fault is not None and fault.finding is not None and fault.case is not FaultCase.FINDINGS
        else []
    )
    found += [each for each in revision.warnings[:MAX_FINDINGS] if each not in found]
    return [wording.finding(each)[:MAX_SENTENCE] for each in found]


def _tools_at_fault(revision: Revision | None) -> list[str]:
    if revision is None:
        return []
    named: list[Fault | Finding] = [revision.fault] if revision.fault is not None else [*revision.findings]
    return list(dict.fromkeys(each.tool for each in named if each.tool is not None))[:3]


def _earlier(history: Sequence[Revision]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    left = MAX_EARLIER
    for number in range(len(history) - 1, 0, -1):
        before, after = history[number - 1], history[number]
        said = _problem(_as_seen(before, history[number:])) or (wording.SENT_BACK if before.findings else "")
        problem = fenced(masked_text(said))
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
    lines = before.splitlines(), after.splitlines()
    if max(map(len, lines)) > MAX_COMPARED:
        return ""
    return "\n".join([*difflib.unified_diff(*lines, n=1, lineterm="")][2:])
