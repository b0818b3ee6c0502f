"""What the repair rules know beside the program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from atc.programs.program import Program
from atc.programs.repair.edits import Rewrite
from atc.programs.rules import DEFAULT, Rules
from atc.tools.protocol import Protocol


@dataclass(frozen=True)
class RepairContext:
    """What the repair rules know beside the program.

    Attributes:
        protocols: the tools that the program is offered, by name.
        rules: the ids of the rules that are on.
        inputs: the names of the values that stand in the program's scope before it runs.
        dialects: whether programs for other runtimes are read (:mod:`atc.programs.dialects.reading`).
    """

    protocols: Mapping[str, Protocol]
    rules: Rules = DEFAULT
    inputs: Collection[str] = ()
    dialects: bool = True


Repair = Callable[[Program, RepairContext], Iterator[Rewrite]]
"""A repair rule: what it would rewrite in a program that parses."""
