"""What the repair rules know beside the program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from atc.graph.suppliers import Suppliers
from atc.programs.program import Program
from atc.programs.repair.edits import Rewrite
from atc.programs.rules import DEFAULT, Rules
from atc.result import Call
from atc.tools.protocol import Protocol


@dataclass(frozen=True)
class RepairContext:
    """What the repair rules know beside the program.

    Attributes:
        protocols: the tools that the program is offered, by name.
        observed: the same, where nothing is documented with what they answered in this run.
        suppliers: of the tools' arguments.
        calls: the calls of the run so far.
        task: the user's words.
        rules: the ids of the rules that are on.
        inputs: the names of the values that stand in the program's scope before it runs.
    """

    protocols: Mapping[str, Protocol]
    observed: Mapping[str, Protocol] = field(default_factory=dict)
    suppliers: Suppliers = field(default_factory=dict)
    calls: Sequence[Call] = ()
    task: str = ""
    rules: Rules = DEFAULT
    inputs: Collection[str] = ()


Repair = Callable[[Program, RepairContext], Iterator[Rewrite]]
"""A repair rule: what it would rewrite in a program that parses."""
