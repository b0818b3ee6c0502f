"""What is kept of each try in a sequence: one JSON line, written as the try ends, so that a stop loses nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from atc.errors import UsageError
from benchmarks.rows import append_line, publish_lines, read_lines

Key = tuple[str, int, str, str, str]
"""Of a sequence that one system goes through: system, seed, model, version, terms."""


@dataclass(frozen=True)
class Row:
    """One task of a sequence, as one system fared.

    Attributes:
        version: of ATC and of the sequence: another one's tries are other tries. ``terms``: what the sequence was made
            of, and the caps.
        step: number of the task in the sequence, from 0. ``third``: 1, 2 or 3.
        status: of the run; ``exception`` where it broke, and ``error`` says how.
        offered: tools that the first prompt could call. ``needed``: tools that the task's own solution calls.
        missed: of these, those that were not offered, and their twins neither.
        broken: of these, those that are broken now. ``met``: of these, those that the run called. ``beside``: those
            whose twin the first prompt had. ``banned``: those that ATC counted as broken and offered something for.
        routed: broken tools in whose place the answering program called something else.
        feeds: parameters of needed tools for which the first prompt names a source. ``feeds_right``: those that the
            solution takes from one of the tools named, or from its twin. ``feeds_wrong``: those that it takes from
            other tools. The rest stand in the task.
        mistake: of which kind the first program's mistake was; empty for none.
        rules: how often each rule of ATC fired, by its id.
        unwanted_writes: effects that the solution does not have.
        names: of the tools in the counts above, by their field.
    """

    system: str
    seed: int
    model: str
    version: str
    terms: str
    step: int
    third: int
    env: str
    task: str
    status: str
    solved: bool = False
    offered: int = 0
    needed: int = 0
    missed: int = 0
    broken: int = 0
    met: int = 0
    beside: int = 0
    banned: int = 0
    routed: int = 0
    feeds: int = 0
    feeds_right: int = 0
    feeds_wrong: int = 0
    mistake: str = ""
    programs: int = 0
    rules: dict[str, int] = field(default_factory=dict)
    model_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    tool_calls: int = 0
    unwanted_writes: int = 0
    seconds: float = 0.0
    names: dict[str, list[str]] = field(default_factory=dict)
    answer: str = ""
    program: str = ""
    error: str = ""

    @property
    def key(self) -> Key:
        return self.system, self.seed, self.model, self.version, self.terms


_ROW = TypeAdapter(Row)
TEXTS = frozenset({"names", "answer", "program", "error"})
"""The fields of a row that hold what a task, a tool or a model said, or names of others' tools."""
MOST_SHOWN = 500
"""Characters of an answer, or of an error, that a row holds."""


def append(file: Path, row: Row) -> None:
    """Write a row at the end of a file.

    Raises:
        UsageError: it cannot be written.
    """
    append_line(file, _ROW.dump_json(row))


def read_rows(file: Path) -> list[Row]:
    """The rows of a file, the last one of each try. A line that is no row is left out, with a warning.

    Raises:
        UsageError: the file cannot be read.
    """
    return list({(row.key, row.step): row for row in read_lines(file, _ROW)}.values())


def latest(rows: Iterable[Row]) -> list[Row]:
    """Of the sequences of one system, those of the version that came last."""
    rows = list(rows)
    newest = {(row.system, row.seed, row.model, row.terms): row.version for row in rows}
    return [row for row in rows if newest[row.system, row.seed, row.model, row.terms] == row.version]


def _said(row: Row, shown: Sequence[Field[Any]]) -> dict[str, Any]:
    found = {each.name: getattr(row, each.name) for each in shown}
    return {each.name: found[each.name] for each in shown if each.default is MISSING or found[each.name]}


def publish(rows: Sequence[Row], file: Path) -> int:
    """Write rows without their texts into a file in place of what it held, sorted; return how many.

    Raises:
        UsageError: there are none, or the file cannot be written.
    """
    if not rows:
        raise UsageError("--publish: the file has no tries; run some first")
    kept = sorted(rows, key=lambda row: (row.key, row.step))
    shown = [each for each in fields(Row) if each.name not in TEXTS]
    publish_lines(file, (_said(row, shown) for row in kept))
    return len(kept)
