"""Files of trajectories: what is out is not made again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from atc import EnvironmentProblem, UsageError
from atc.plugins.learning import ToolIndex, lock
from atc_research.examples import Example
from atc_research.toolqp.trajectories import Skipped, Synthesiser, Trajectory


class Output:
    """A file of trajectories that grows, and beside it one of the tasks that none was found for, and why.

    Each line is on disk before the next task begins. A line that was half written when the machine stopped is dropped.

    Args:
        path: the file; it is made, or gone on with.

    Raises:
        UsageError: it cannot be opened, is in use, or holds something else.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.skipped_path = self.path.with_name(f"{self.path.stem}.skipped.jsonl")
        self._files: list[IO[bytes]] = []
        try:
            self._made = self._open(self.path, '{"messages": ')
            self._skipped = self._open(self.skipped_path, '{"id": ')
            self.made = self._ids(self._made, self.path, lambda line: line["metadata"])
            self.skipped = self._ids(self._skipped, self.skipped_path, lambda line: line)
        except BaseException:
            self.close()
            raise

    def known(self, example: Example) -> bool:
        """Whether a task was done before.

        Raises:
            UsageError: a task with its id was, and in other words.
        """
        before = {**self.skipped, **self.made}.get(example.id)
        if before is not None and before != example.query:
            raise UsageError(
                f"{self.path} has another task with the id {example.id!r}: give another file to write to (-o)"
            )
        return before is not None

    def write(self, found: Trajectory | Skipped) -> None:
        """Add one line.

        Raises:
            EnvironmentProblem: it cannot be written, as on a full disk.
        """
        example = found.example
        if isinstance(found, Trajectory):
            self._append(self._made, self.path, found.to_json())
            self.made[example.id] = example.query
        else:
            line = {"id": example.id, "query": example.query, "gold": list(example.gold), "why": found.why}
            self._append(self._skipped, self.skipped_path, line)
            self.skipped[example.id] = example.query

    def close(self) -> None:
        """Let go of both files; one that stayed empty is taken away."""
        for file in self._files:
            path = Path(file.name)
            if not file.closed and path.exists() and not os.fstat(file.fileno()).st_size:
                path.unlink()
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, path: Path, beginning: str) -> IO[bytes]:
        try:
            file = path.open("a+b", buffering=0)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}; name a file in a folder of yours") from None
        self._files.append(file)
        try:
            lock(file)
        except OSError:
            raise UsageError(f"{path} is being written by another run: wait for it, or name another file") from None
        file.seek(0)
        held = file.read()
        whole, tail = held[: held.rfind(b"\n") + 1], held[held.rfind(b"\n") + 1 :]
        start = beginning.encode()
        if tail and (start.startswith(tail) or tail.startswith(start)):
            file.truncate(len(whole))
        return file

    def _ids(self, file: IO[bytes], path: Path, of: Callable[[Any], Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        file.seek(0)
        for number, line in enumerate(file.read().splitlines(), 1):
            try:
                held = of(json.loads(line))
                found[str(held["id"])] = str(held["query"])
            except (ValueError, RecursionError, KeyError, TypeError):
                what = f"{path}, line {number} is none that `atc tools learn trajectories` wrote"
                raise UsageError(f"{what}: name another file to write to (-o), or take the line out") from None
        return found

    def _append(self, file: IO[bytes], path: Path, value: dict[str, Any]) -> None:
        line = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        size = os.fstat(file.fileno()).st_size
        try:
            if file.write(line) != len(line):
                raise OSError(None, "the disk is full")
            os.fsync(file.fileno())
        except OSError as error:
            file.truncate(size)
            raise EnvironmentProblem(
                f"{path} cannot be written ({error.strerror or error}): correct that and run it again: it goes on"
            ) from None


@dataclass(frozen=True)
class Progress:
    """The progress of a run.

    Attributes:
        done: tasks that are behind it, those of earlier runs too. ``total``: all of them.
        found: what the last one gave; ``None`` before the first.
    """

    done: int
    total: int
    found: Trajectory | Skipped | None = None


async def synthesise(
    examples: Sequence[Example],
    index: ToolIndex,
    synthesiser: Synthesiser,
    output: Output,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> None:
    """Make a trajectory for each task that ``output`` does not have yet, one after another.

    Whatever ends it, the lines that were written stay, and the same call goes on from there.

    Raises:
        UsageError: no task has all its tools in the index, or ``output`` has other tasks.
        ModelError, ModelUnavailable, BudgetExceeded: from the teacher.
        EnvironmentProblem: ``output`` cannot be written.
    """
    missing = {e.id: [tool for tool in e.gold if tool not in index] for e in examples}
    if all(missing.values()):
        first = examples[0]
        raise UsageError(
            f"no task has all its tools in the index; the first, {first.id!r}, wants {missing[first.id][0]!r}: "
            "give the index of the catalogue that `gold` speaks of"
        )
    waiting = [example for example in examples if not output.known(example)]
    done = len(examples) - len(waiting)
    on_progress(Progress(done, len(examples)))
    for example in waiting:
        absent = missing[example.id]
        found = Skipped(example, f"the index has no tool {absent[0]!r}") if absent else await synthesiser.make(example)
        output.write(found)
        done += 1
        on_progress(Progress(done, len(examples), found))
