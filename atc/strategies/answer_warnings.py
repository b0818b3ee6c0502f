"""Warnings about the value that a program answered with; the program may be right all the same."""

from __future__ import annotations

from typing import Any

from atc.facts import Finding
from atc.programs.check.answers import Wanted
from atc.programs.check.task_data import repeats_task
from atc.programs.program import Program
from atc.strategies.answer_kind import Kind, asked_kind, kind_of_type, likely_type, unlikely_kind
from atc.strategies.context import RunContext
from atc.strategies.program_loop import ProgramLoop
from atc.strategies.writer import Draft

KIND, DATUM = "answer-kind", "task-datum-answer"
RULES = frozenset({KIND, DATUM})
"""The ids of the rules that warn about answers."""


class AnswerWarnings:
    """Warnings about the answers of one run. The model is asked once, for the first program that can run.

    So nothing is asked before there is a program to judge. The embedded model's one slot keeps the programs' prompt in
    memory meanwhile, and gives it back for the next one.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._rules = context.settings.active_rules
        self._asked = False
        self._kind: Kind | None = None

    @property
    def on(self) -> bool:
        """Whether a rule is on that warns about answers."""
        return not self._rules.isdisjoint(RULES)

    async def of(self, program: Program, value: Any) -> list[Finding]:
        """The warnings about a program's answer: it stands in the task, or is of another kind than is asked for.

        Args:
            program: that answered.
            value: its answer.
        """
        if value is None:
            return []
        if DATUM in self._rules and repeats_task(self._context.task, program, value):
            return [Finding(kind="task_datum", severity="warning")]
        if (asked := await self._asked_kind()) and (found := unlikely_kind(asked, value)):
            return [_another_kind(asked, found)]
        return []

    async def before(self, loop: ProgramLoop, draft: Draft) -> list[Finding]:
        """The warnings about the answer of a program that can run: by the types that the type checker infers."""
        asked = await self._asked_kind()
        wanted = likely_type(asked) if asked else None
        found = await loop.check_answer(draft, Wanted(wanted, "warning")) if wanted is not None else []
        kinds = {kind for finding in found if (kind := kind_of_type(finding.found))}
        return [_another_kind(asked, kinds.pop())] if asked and len(kinds) == 1 else []

    async def _asked_kind(self) -> Kind | None:
        if KIND not in self._rules or self._context.answer_type is not None:  # the user has said what is wanted
            return None
        if not self._asked:
            self._asked = True
            self._kind = await asked_kind(self._context)
        return self._kind


def _another_kind(asked: Kind, found: Kind) -> Finding:
    return Finding(kind="answer_kind", severity="warning", expected=(asked,), found=found)
