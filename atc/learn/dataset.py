"""Files of training data: tasks with known tools come in, trajectories go out; what is out is not made again."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from atc.errors import EnvironmentProblem, UsageError
from atc.learn.trajectories import Example, Skipped, Synthesiser, Trajectory
from atc.locks import lock
from atc.retrieval.index import ToolIndex

MAX_LINE = 4_000_000
"""Characters of one line of a file of tasks."""

_FORM = (
    '{"query": "what the user says", "gold": ["id of a tool in the index", …], "id": "optional", "plan": "optional"}'
)


# -- what comes in ---------------------------------------------------------------------------------------------------


def read_examples(path: str | Path, limit: int | None = None) -> list[Example]:
    """The tasks of a JSON Lines file, plain or gzipped: an object a line, with ``query`` and ``gold``.

    It may have an ``id``, else the task has the number of its line, and a ``plan`` in words, else the teacher writes
    one. Other members are passed over.

    Args:
        path: the file.
        limit: only the first so many.

    Raises:
        UsageError: it cannot be read, a line is no such object, an id occurs twice, or there are no tasks; the line
            is named.
    """
    place = Path(path)
    found: dict[str, Example] = {}
    try:
        with _opened(place) as file:
            for number, line in enumerate(_lines(file, place), 1):
                if limit is not None and len(found) >= limit:
                    break
                if not line.strip():
                    continue
                example = _example(line, number, place)
                if example.id in found:
                    raise UsageError(f"{place}, line {number}: the id {example.id!r} occurs twice: ids must differ")
                found[example.id] = example
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{place} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not found:
        raise UsageError(f"{place} holds no tasks: give a file with a line such as {_FORM}")
    return list(found.values())


def _opened(path: Path) -> IO[bytes] | gzip.GzipFile:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if zipped else path.open("rb")


def _lines(file: IO[bytes] | gzip.GzipFile, path: Path) -> Iterator[str]:
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise UsageError(f"{path}, line {number} has more than {MAX_LINE:,} characters: is it JSON Lines?")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}, line {number} is not UTF-8 ({error.reason}): save it as UTF-8") from None


def _example(line: str, number: int, path: Path) -> Example:
    def wrong(what: str) -> UsageError:
        return UsageError(f"{path}, line {number}: {what}; a line looks like {_FORM}")

    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise wrong(f"no JSON ({error})") from None
    if not isinstance(given, dict):
        raise wrong("no JSON object")
    query, gold, id = given.get("query"), given.get("gold"), given.get("id", number)
    if not isinstance(query, str) or not query.strip():
        raise wrong("`query` must be a text with something in it")
    if not isinstance(gold, list) or not gold or not all(isinstance(tool, str) and tool for tool in gold):
        raise wrong("`gold` must be a list of ids of tools, with at least one")
    if isinstance(id, bool) or not isinstance(id, str | int) or id == "":
        raise wrong("`id` must be a text or a whole number")
    plan = given.get("plan") or ""
    if not isinstance(plan, str):
        raise wrong("`plan` must be a text, the plan in words")
    return Example(str(id), query, tuple(dict.fromkeys(gold)), plan)


# -- what goes out ---------------------------------------------------------------------------------------------------


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
        """The ids in a file, each with its task."""
        found: dict[str, str] = {}
        file.seek(0)
        for number, line in enumerate(file.read().splitlines(), 1):
            try:
                held = of(json.loads(line))
                found[str(held["id"])] = str(held["query"])
            except (ValueError, RecursionError, KeyError, TypeError):
                what = f"{path}, line {number} is none that `atc learn trajectories` wrote"
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


# -- the run ---------------------------------------------------------------------------------------------------------


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
