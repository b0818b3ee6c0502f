"""The chain as its paper has it (ATC §3), as literally as the text allows, to compare with.

What the text says, and what is done here:

* C = M(x, T, D, I_c) (Eq. 1): the instruction, the tools' protocols as JSON documents, the task. No worked example.
* r = Execute(C): nothing is checked, rewritten or repaired before; no rule of ATC is on.
* A *runtime error* is attributed (§3.3). A program that runs to its end and sets ``answer`` is the last one, whatever
  it answers.
* r_j holds the faulty snippet and the error's trace: Python's own, and nothing that ATC finds out by structure.
* t_j = M(x, T, I_a, r_j): the model names one of *all* tools.
* C_j = M(x, T, D, I_c, {(C<j, r<j)}, d_j) (Eq. 2): every earlier program with its result, and the document of the tool.
* At most α revisions, 3 by default (``max_revisions``), at temperature 0 (§6.1).

What the text leaves open, and what is chosen:

* Its prompts (I_c, I_a) are not in the text at hand: those of ATC are used, which say the same.
* Whether the α iterations count the first program: they do not; the text speaks of iterations of the *reflection*.
* A reply without a program, and a program that sets no ``answer``: there is no r, so it counts as a failed iteration.
* Calls with effects that are done are listed in a revision: ATC makes none twice, and the model must know.
* Where the documents have no room in a prompt, they are shortened and can be asked for as everywhere in ATC.
* A failure that no program can help (a refused approval, a wrong credential) ends the run, as it ends every run.
"""

from __future__ import annotations

from atc._host.blocking import in_thread
from atc._host.invisible import legible
from atc._records.outcome import Outcome, ProgramError
from atc.facts import Fault, Finding
from atc.models.base import Message
from atc.models.reply_format import MAX_CHOICE, MAX_ENUM
from atc.programs.program import Program
from atc.run.base import Ending, Strategy
from atc.run.chain_policy import ChainPolicy
from atc.run.endings import advised
from atc.run.program_loop import ProgramLoop
from atc.run.revise import revise
from atc.run.run import Run
from atc.run.writer import Draft, WritingOptions
from atc.traces.stores.base import StoredRun
from atc.wording.prompting import fenced, prompt

MAX_FRAMES = 5
"""Frames of an error's trace that the model is shown: the innermost."""


class Paper(Strategy):
    """One whole program by JSON documents; the model names the tool at fault, and edits (ATC §3).

    Args:
        example: show one worked example before the task (one-shot); the paper's text has none.
    """

    name = "atc-paper"

    def __init__(self, example: bool = False) -> None:
        self._options = WritingOptions(
            tools="json",
            example=example,
            revision="edit",
            check=False,
            dialects=False,
            revision_temperature=0.0,
        )

    async def choose_tools(self, run: Run, stored: StoredRun | None) -> None:
        _without_rules(run)
        await super().choose_tools(run, stored)

    async def solve(self, run: Run) -> Ending:
        return await self._act(run)

    async def resume(self, run: Run, stored: StoredRun) -> Ending:
        """Run the last program again: what succeeded comes from the journal."""
        source = next(reversed(await in_thread(stored.programs)), "")
        return await self._act(run, Draft(Program(source)) if source else None)

    async def _act(self, run: Run, first: Draft | None = None) -> Ending:
        _without_rules(run)
        async with _Loop.open(run, self._options) as loop:
            return await revise(loop, _Policy(loop), first)


def _without_rules(run: Run) -> None:
    run.settings = run.settings.model_copy(update={"rules": "none", "temperature": 0.0})
    run.broker.rules = frozenset()
    run.broker.repairs.key_aliases = {}


class _Loop(ProgramLoop):
    async def attribute(self, draft: Draft, outcome: Outcome) -> Fault | None:
        """Return the error of the last program, with the tool that the model names; ``None`` if it ran to its end.

        Raises:
            ModelError, ModelUnavailable, BudgetExceeded: from the model.
        """
        fault = await self.traced(draft, outcome)
        await self.requests.grant()
        if fault is None or (fault.cause is None and outcome.kind == "finished" and outcome.answered):
            return None
        if fault.cause is None:
            fault = _result(draft.program, outcome, fault)
            if len(self.history) < self.run.settings.max_revisions:  # after the last program nothing is reflected
                named = await self._named(draft.source, fault.message)
                fault = fault.model_copy(update={"tool": named, "by": "model"})
        fault = advised(fault, self.grounds, self.run.broker.tools, outcome.error)
        self.run.emit("fault", {"attempt": len(self.run.revisions), "fault": fault.model_dump()})
        return fault

    async def _named(self, program: str, error: str) -> str | None:
        """Ask the model which of all tools is at fault (§3.3): t_j = M(x, T, I_a, r_j)."""
        run = self.run
        tools = [name for name in run.tools if len(name) <= MAX_CHOICE][:MAX_ENUM]  # of more, no grammar is made
        if not tools:
            return None
        shown = {"program": fenced(program), "error": legible(error[:1500])}
        asked = [Message("user", prompt("attribute", task=run.task, tools=tools, **shown))]
        reply = await run.ask("attribute", asked, max_tokens=40, choices=tools)
        return reply.value if isinstance(reply.value, str) else None


class _Policy(ChainPolicy):
    """Every reply counts, and the first program that runs to its end and answers is the last."""

    async def next_program(self) -> Draft | None:
        return await self._loop.write() if len(self._history) <= self._settings.max_revisions else None

    async def check(self, draft: Draft) -> list[Finding]:
        """Find a fault only where a reply holds no program."""
        return await self._loop.check(draft)

    def confirms(self, fault: Fault, value: object, before: object) -> bool:
        return False


def _result(program: Program, outcome: Outcome, fault: Fault) -> Fault:
    """r_j: the error as Python tells it; else how the program ended."""
    error = outcome.error
    if outcome.kind != "raised" or error is None:
        return Fault(kind=fault.kind, case=fault.case, reason=outcome.detail)
    source_line = program.line(error.line)[:300]
    return Fault(
        kind="program", raised=error.raised, line=error.line, source_line=source_line, reason=_trace(program, error)
    )


def _trace(program: Program, error: ProgramError) -> str:
    frames = error.trace[-MAX_FRAMES:] or ((("<module>", error.line),) if error.line else ())
    lines = (f"  line {line}, in {name}: {program.line(line).strip()[:300]}" for name, line in frames)
    return "\n".join([f"{error.type}: {error.message}", *lines])
