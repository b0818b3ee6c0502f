"""One step of a task that is solved layer by layer: what its programs are told, and what is asked of them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from atc.programs.program import Program
from atc.prompting import fenced, prompt
from atc.strategies.previews import LEFT_OUT, previews


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


def does_nothing(program: Program) -> bool:
    """Whether a program without a call only says that there is nothing to do: ``answer = None``, or any form of it."""
    return program.tree is not None and not any(
        isinstance(node, ast.Call) or (isinstance(node, ast.Constant) and node.value not in (None, ""))
        for node in ast.walk(program.tree)
    )
