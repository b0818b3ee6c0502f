"""The one edit engine of all repairs: spans of a program's source are replaced, and a new version of it is made."""

from __future__ import annotations

import ast
import bisect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from atc._records.rules import DEFAULT, Rules
from atc.programs.program import Program
from atc.schemas.protocol import Protocol

# ----------------------------------------------------------------------------------------------------------------------
# What the repair rules know beside the program.


@dataclass(frozen=True)
class RepairContext:
    """Holds what the repair rules need beside the program.

    Attributes:
        protocols: the tools that the program is offered, by name.
        rules: the ids of the rules that are on.
        inputs: the names of the values that stand in the program's scope before it runs.
        dialects: whether programs for other runtimes are read (:mod:`atc.programs.dialects.awaits`).
    """

    protocols: Mapping[str, Protocol]
    rules: Rules = DEFAULT
    inputs: Collection[str] = ()
    dialects: bool = True


# ----------------------------------------------------------------------------------------------------------------------
# The one edit engine of all repairs: spans of a program's source are replaced, and a new version of it is made.


Position = tuple[int, int]
"""A line, counted from 1, and a column in UTF-8 bytes, counted from 0, as ``ast`` counts them."""


@dataclass(frozen=True)
class Edit:
    """Replace what stands from ``start`` to ``end`` by ``text``; an insertion where both are the same."""

    start: Position
    end: Position
    text: str


@dataclass(frozen=True)
class Rewrite:
    """Describes what one rule does at one place: all of its edits are made, or none.

    Attributes:
        rule: the id of the rule (:mod:`atc._records.rules`).
        note: what was done, for people.
        edits: in any order.
    """

    rule: str
    note: str
    edits: tuple[Edit, ...]


Repair = Callable[[Program, RepairContext], Iterator[Rewrite]]
"""A repair rule: what it would rewrite in a program that parses."""


def apply(program: Program, rewrites: Iterable[Rewrite]) -> tuple[Program, tuple[Rewrite, ...]]:
    """Return the next version of a program, and the rewrites that were made.

    A rewrite that collides with an earlier one is left out. Two edits collide where they begin at the same place or
    have a byte in common. Where the result would not parse, nothing is rewritten.
    """
    kept: list[Rewrite] = []
    edits: list[Edit] = []  # none collides with another; in the order of the source, so that only neighbours count
    for rewrite in rewrites:
        if not any(_collides(edit, edits) for edit in rewrite.edits):
            kept.append(rewrite)
            for edit in rewrite.edits:
                bisect.insort(edits, edit, key=_start)
    if not kept:
        return program, ()
    made = Program(_spliced(program, edits))
    return (program, ()) if made.tree is None else (made, tuple(kept))


def start_of(node: ast.expr | ast.stmt | ast.keyword) -> Position:
    """Return where a node begins."""
    return node.lineno, node.col_offset


def end_of(node: ast.expr | ast.stmt | ast.keyword) -> Position:
    """Return where a node ends."""
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def insert_before(node: ast.expr, text: str) -> Edit:
    """Insert a text before an expression."""
    return Edit(start_of(node), start_of(node), text)


def replace(node: ast.expr | ast.keyword, text: str) -> Edit:
    """Replace an expression or a keyword argument by a text."""
    return Edit(start_of(node), end_of(node), text)


def _start(edit: Edit) -> Position:
    return edit.start


def _collides(edit: Edit, others: Sequence[Edit]) -> bool:
    index = bisect.bisect_left(others, edit.start, key=_start)
    before, after = others[max(0, index - 1) : index], others[index : index + 1]
    return any(edit.start < other.end for other in before) or any(
        other.start == edit.start or other.start < edit.end for other in after
    )


def _spliced(program: Program, edits: Sequence[Edit]) -> str:
    """Make the edits from the last to the first, so that none moves the place of another."""
    offsets, size = [0], 0
    for line in program.lines:
        size += len(line.encode()) + 1
        offsets.append(size)
    source = program.source.encode()
    parts, after = [], len(source)
    for edit in reversed(edits):
        begin, end = (offsets[line - 1] + column for line, column in (edit.start, edit.end))
        parts += [source[end:after], edit.text.encode()]
        after = begin
    return b"".join([source[:after], *reversed(parts)]).decode()
