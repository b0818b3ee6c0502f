"""Warnings about the value that a program answered with; the program may be right all the same."""

from __future__ import annotations

from typing import Any

from atc.facts import Finding
from atc.programs.check.answers import repeats_task
from atc.programs.program import Program
from atc.strategies.answer_kind import Kind, asked_kind, unlikely_kind
from atc.strategies.context import RunContext

KIND, DATUM = "answer-kind", "task-datum-answer"
RULES = frozenset({KIND, DATUM})
"""The ids of the rules that warn about answers."""


class AnswerWarnings:
    """What is unlikely about the answers of one run. The model is asked once, when the first answer is there.

    So nothing is asked of a run that computes no answer, and a program is written from a prompt that the model has
    just read: the embedded model's one slot gives such a prompt back from memory, but no sooner than it has to.
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
        if KIND in self._rules and (asked := await self._asked_kind()) and (found := unlikely_kind(asked, value)):
            return [Finding(kind="answer_kind", severity="warning", expected=(asked,), found=found)]
        return []

    async def _asked_kind(self) -> Kind | None:
        if not self._asked:
            self._asked = True
            self._kind = await asked_kind(self._context)
        return self._kind
