"""What is kept of each try: one JSON line, written as the try ends, so that a stop loses nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, fields
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from atc.errors import UsageError
from benchmarks.common import PUBLISHED
from benchmarks.rows import append_line, publish_lines, read_lines

Status = Literal["answered", "unsolved", "budget", "crash", "overtime", "exception", "environment"]
Key = tuple[str, str, str, str, int, str, str]
JUDGE = 2
"""Which judges decide today. Raise it where one accepts, or refuses, what it did not: tables tell such rows apart."""

MOST_SHOWN = 500
"""Characters of an answer, or of an error, that a row holds."""


@dataclass(frozen=True)
class Row:
    """One try of a system at a task.

    Attributes:
        version: of the system: another one's tries are other tries. ``terms``: caps and temperature, likewise.
        stated: whether the task says all that its solution needs.
        status: how it ended: ``unsolved`` (the system gave up), ``budget`` (a cap was reached), ``overtime`` (it did
            not end by itself after that), ``crash`` (the system broke), ``exception`` (the benchmark broke),
            ``environment`` (no model, no sandbox: no result, and tried again on a restart).
        first_try: solved by the first program.
        programs: programs, plans or steps.
        failed: of these, those that gave no answer: the check refused them, or they failed when they ran.
        faults: what was wrong with them, by kind, where a system tells.
        rules: how often each rule of ATC fired, by its id; ``None`` where nobody counted: of a peer, of an older
            version, or of a try that was cut off.
        kept_calls: model calls that were answered from an earlier try's replies.
        shared_tokens: of the prompts' tokens those of a prompt that was sampled again in this try.
        tool_calls: calls that reached a tool, as the environment counted them.
        repeated_writes: effects that were done again beyond what the task's own solution does.
        forbidden_writes: effects of tools that the solution has no use for.
        path, precision: Path% and Prec% of ATC §5 over calls, as shares.
        path_names, precision_names: the same over the names of the tools. A row that was written before calls were
            counted has only these, and its refused calls count in them.
        apis: tools that the task's own solution calls; ``None`` where it is not known.
        called: whether all calls of the task's own solution were made and answered, whatever their arguments; ``None``
            where it is not known.
        judge: by which judges ``solved`` was decided (:data:`JUDGE`); 1 for rows from before they were numbered.
        seconds: of the whole try, with what kept replies took when they were made: ``model_s`` in the model, ``tool_s``
            in tools, the rest in the system itself. ``wall_s`` is what passed now.
    """

    env: str
    task: str
    system: str
    version: str
    seed: int
    model: str
    terms: str
    stated: bool
    status: Status
    solved: bool = False
    first_try: bool = False
    programs: int = 0
    failed: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    rules: dict[str, int] | None = None
    model_calls: int = 0
    kept_calls: int = 0
    prompt_tokens: int = 0
    shared_tokens: int = 0
    completion_tokens: int = 0
    tool_calls: int = 0
    writes: int = 0
    repeated_writes: int = 0
    forbidden_writes: int = 0
    path: float | None = None
    precision: float | None = None
    path_names: float | None = None
    precision_names: float | None = None
    apis: int | None = None
    called: bool | None = None
    judge: int = 1
    seconds: float = 0.0
    model_s: float = 0.0
    tool_s: float = 0.0
    wall_s: float = 0.0
    answer: str = ""
    program: str = ""
    error: str = ""

    @property
    def key(self) -> Key:
        return self.env, self.task, self.system, self.version, self.seed, self.model, self.terms

    @property
    def own_s(self) -> float:
        """Seconds in the system itself."""
        return max(0.0, self.seconds - self.model_s - self.tool_s)


_ROW = TypeAdapter(Row)


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
    return list({row.key: row for row in read_lines(file, _ROW)}.values())


def latest(rows: Iterable[Row]) -> list[Row]:
    """Of the tries of one system at one task, those of the version that came last."""
    newest = {(row.env, row.task, row.system, row.seed, row.model, row.terms): row for row in rows}
    return list(newest.values())


def judges(numbers: Iterable[int]) -> str:
    """The judges of some rows, in words; figures of different ones cannot be compared."""
    found = sorted(set(numbers))
    if found == [1]:
        return "old judge"
    return f"judge{'s' if len(found) > 1 else ''} {' and '.join(map(str, found))}"


TEXTS = frozenset({"answer", "program", "error"})
"""The fields of a row that hold what a task, a tool or a model said."""
FOLDER = PUBLISHED


def published(row: Row) -> dict[str, Any]:
    """A row without its texts."""
    return {each.name: getattr(row, each.name) for each in fields(row) if each.name not in TEXTS}


def publish(rows: Sequence[Row], file: Path) -> int:
    """Write the rows that have a result into a file in place of what it held, sorted; return how many.

    Raises:
        UsageError: there are none, or the file cannot be written.
    """
    kept = sorted((row for row in rows if row.status != "environment"), key=lambda row: row.key)
    if not kept:
        raise UsageError("--publish: the file has no tries with a result")
    publish_lines(file, map(published, kept))
    return len(kept)
