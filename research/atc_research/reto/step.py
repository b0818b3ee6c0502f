"""One step of a task that is solved layer by layer: what its programs are told, and how they are held to it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from atc import Call, Effect, Fault, Outcome, ProgramLoop, Run, WritingOptions
from atc.plugins.strategies import LEFT_OUT, Draft, Program, fenced, previews
from atc_research.prompting import prompt


@dataclass(frozen=True)
class Step:
    """A layer of tools, for which one program is written and revised.

    Attributes:
        number: of the step, from 1. ``of``: how many there are.
        values: what earlier steps found, by the names that programs have it by; secrets are masked.
        planned: the names of the tools of all steps: no program need look for them. ``earlier``: of the steps before.
    """

    number: int
    of: int
    values: Mapping[str, Any] = field(default_factory=dict)
    planned: Collection[str] = ()
    earlier: tuple[str, ...] = ()

    @property
    def last(self) -> bool:
        """Whether its program answers the task. Any other's value is there for the steps after it."""
        return self.number == self.of

    @property
    def text(self) -> str:
        """The part of the prompt about it."""
        found = {name: value for name, value in self.values.items() if value is not None}
        values = fenced(previews(found))
        return prompt(
            "layer", number=self.number, of=self.of, last=self.last, values=values, shortened=LEFT_OUT in values
        )


class StepLoop(ProgramLoop):
    """The programs of one step.

    Args:
        step: which one.
    """

    def __init__(self, run: Run, options: WritingOptions, *, step: Step, look: bool = False) -> None:
        super().__init__(run, options, look=look, part=step.text, planned=step.planned, answers=step.last)
        self.step = step

    @property
    def calls(self) -> list[Call]:
        """Of the calls so far those of the step's own tools."""
        return [call for call in super().calls if call.tool in self.run.tools]

    def fault_of(self, draft: Draft, outcome: Outcome) -> Fault | None:
        """As in the chain; a step before the last that wrote something need not hand on anything, for that counts."""
        fault = super().fault_of(draft, outcome)
        if self.step.last or fault is None or fault.kind != "answer" or not outcome.answered:
            return fault
        wrote = any(call.succeeded and call.effect is not Effect.READ for call in self.grounds)
        return None if wrote else fault

    def skip(self, draft: Draft) -> None:
        """Record a program that says that there is nothing to do.

        It counts as the one that ran last, so that a stage which begins now commits nothing that others did.
        """
        with self.run.attempt():
            pass
        self._record(draft)


def does_nothing(program: Program) -> bool:
    """Whether a program without a call only says that there is nothing to do: ``answer = None``, or any form of it."""
    return program.tree is not None and not any(
        isinstance(node, ast.Call) or (isinstance(node, ast.Constant) and node.value not in (None, ""))
        for node in ast.walk(program.tree)
    )
