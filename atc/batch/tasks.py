"""The tasks of a batch: read strictly, from records or from the lines of a file, before anything runs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from atc._host.loading import names_code
from atc._records.strict_json import parse
from atc.errors import AtcError, UsageError
from atc.models.images import MAX_BYTES, Image, read_images
from atc.programs.answers.opening import open_answer
from atc.programs.answers.types import AnswerType
from atc.run.request import checked_task, preamble_of
from atc.schemas.validate import ensure_valid_schema

MAX_LINE = 1_000_000
"""Bytes of a line of a file."""
MAX_ID = 200
"""Characters of a task's id."""
MAX_SCHEMAS = 1_000
"""Types of answers that are held while tasks are read."""
MAX_TOLD = 1_000
"""Wrong lines that are named one by one; of more, their number."""
FIELDS = ("task", "id", "answer", "images", "instructions")


@dataclass(frozen=True)
class BatchTask:
    """One task of a batch.

    Attributes:
        task: what is wanted, in plain words.
        id: its name in the batch, that no other task of it has; by default its number, from 1.
        answer: the type of its value, as for :class:`atc.Agent`, or a JSON Schema as a mapping.
        images: shown with it, as for :meth:`atc.Agent.run`.
        instructions: standing wishes in place of the agent's own.
    """

    task: str
    id: str = ""
    answer: Any = None
    images: tuple[Any, ...] = ()
    instructions: str | None = None
    digest: str = field(default="", compare=False)
    """Of all but the id: the same task has the same one. Made by :func:`tasks_of` and :func:`read_tasks`."""

    def opened_answer(self) -> Any:
        """The type of the answer, as :meth:`atc.Agent.run` takes it.

        Raises:
            UsageError: it is none.
        """
        if not isinstance(self.answer, Mapping):
            return self.answer
        schema = dict(self.answer)
        try:
            ensure_valid_schema(schema, "answer")
        except AtcError as error:
            raise UsageError(str(error)) from None
        return AnswerType(schema)


def tasks_of(given: Iterable[Any]) -> list[BatchTask]:
    """The tasks that a caller gives: texts, mappings with the fields of :class:`BatchTask`, or those themselves.

    Raises:
        UsageError: some are wrong, which the message names by their numbers, from 1; or there are none.
    """
    if isinstance(given, str | bytes | Mapping):
        raise UsageError("tasks are a list: put a single task in one, too")
    return _checked(enumerate(given, start=1), "task", code=True, folder=None)


def read_tasks(lines: Iterable[bytes], name: str, folder: Path | None = None) -> list[BatchTask]:
    """The tasks of a file: on each line a JSON text, or an object with the fields of :class:`BatchTask`.

    A file names no code: its types of answers are words or JSON Schemas. Empty lines are passed over.

    Args:
        lines: of the file.
        name: of the file, for messages.
        folder: that the paths of images are relative to; by default the working folder.

    Raises:
        UsageError: lines are wrong, which the message names all; or there is no task.
    """
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    return _checked(numbered, f"{name}, line", code=False, folder=folder or Path())


def _checked(given: Iterable[tuple[int, Any]], where: str, *, code: bool, folder: Path | None) -> list[BatchTask]:
    tasks: list[BatchTask] = []
    wrong: list[str] = []
    numbers: dict[str, int] = {}
    schemas: dict[str, Any] = {}
    for number, each in given:
        try:
            record = _record(each) if isinstance(each, bytes) else each
            task = _task(record, number, schemas, code=code, folder=folder)
            if task.id in numbers:
                raise UsageError(f"the id {task.id!r} is that of {numbers[task.id]}, too: give each task its own")
        except UsageError as error:
            wrong.append(f"{where} {number}: {' '.join(str(error).split())}")
            continue
        numbers[task.id] = number
        tasks.append(task)
    if wrong:
        more = [f"and {len(wrong) - MAX_TOLD:,} more"] if len(wrong) > MAX_TOLD else []
        raise UsageError("\n".join(wrong[:MAX_TOLD] + more))
    if not tasks:
        raise UsageError(f"{where.removesuffix(', line')}: there is no task" if not code else "no tasks were given")
    return tasks


def _record(line: bytes) -> Any:
    if len(line) > MAX_LINE:
        raise UsageError(f"it has more than {MAX_LINE:,} bytes: give data through a tool instead")
    try:
        return parse(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UsageError("it is not UTF-8 text") from None
    except RecursionError:
        raise UsageError("it is nested too deep") from None
    except ValueError as error:
        raise UsageError(f"it is not JSON ({error}): write a text in quotes, or an object with a task") from None


def _task(given: Any, number: int, schemas: dict[str, Any], *, code: bool, folder: Path | None) -> BatchTask:
    if isinstance(given, BatchTask):
        if given.digest:
            return given
        given = {name: getattr(given, name) for name in FIELDS if getattr(given, name) or name == "task"}
    record = {"task": given} if isinstance(given, str) else given
    if not isinstance(record, Mapping):
        raise UsageError(f"it is a {type(given).__name__}, and a task is a text, or an object with a task")
    if unknown := [name for name in record if name not in FIELDS]:
        raise UsageError(f"there is no field {unknown[0]!r:.100}; there are {', '.join(FIELDS)}")
    if "task" not in record:
        raise UsageError("it has no task")
    text = checked_task(record["task"])
    if (wishes := record.get("instructions")) is not None:
        preamble_of(wishes, None)
    answer = record.get("answer")
    if isinstance(answer, str) and not code and (names_code(answer) or answer.strip().endswith(".json")):
        raise UsageError("answer names code or a file, which a file of tasks may not: write the JSON Schema itself")
    images, shown = _images(record.get("images"), code=code, folder=folder)
    task = BatchTask(text, _id(record.get("id"), number), answer, images, wishes)
    about = [text, _schema(task, schemas), shown, wishes]
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return BatchTask(task.task, task.id, task.answer, task.images, task.instructions, digest)


def _schema(task: BatchTask, schemas: dict[str, Any]) -> Any:
    """The same type is opened once: a file may have very many of it."""
    answer = task.answer
    if answer is None:
        return None
    known = json.dumps(answer) if isinstance(answer, str | Mapping) else f"type {id(answer)}"
    if known not in schemas:
        if len(schemas) >= MAX_SCHEMAS:
            schemas.clear()
        schemas[known] = open_answer(task.opened_answer()).schema
    return schemas[known]


def _id(given: Any, number: int) -> str:
    if given is None:
        return str(number)
    if isinstance(given, int) and not isinstance(given, bool):
        given = str(given)
    if not isinstance(given, str) or not given.strip() or len(given) > MAX_ID or not given.isprintable():
        raise UsageError(f"id is a text of 1 to {MAX_ID} printable characters, or a whole number")
    return given


def _images(given: Any, *, code: bool, folder: Path | None) -> tuple[tuple[Any, ...], list[str]]:
    """The images, and what stands for each in the digest. Of a file only its path is looked at: it is read in time."""
    if given is None:
        return (), []
    if not code and not (isinstance(given, list) and all(isinstance(each, str) for each in given)):
        raise UsageError("images is a list of paths or data: URLs")
    images: list[Any] = []
    shown: list[str] = []
    if isinstance(given, str | bytes | os.PathLike | Image) or not isinstance(given, Iterable):
        raise UsageError("images takes a list of paths or bytes: put a single image in a list, too")
    for each in given:
        if isinstance(each, str) and each[:5].lower() != "data:":
            path = (folder or Path()) / each
            if not path.is_file() or path.stat().st_size > MAX_BYTES:
                raise UsageError(f"there is no image {each!r:.200} of at most {MAX_BYTES >> 20} MiB")
            images.append(str(path.absolute()))
            shown.append(each)
        elif isinstance(each, os.PathLike):
            images.append(each)
            shown.append(os.fspath(each))
        else:
            (image,) = read_images([each])
            images.append(image)
            shown.append(image.sha256)
    return tuple(images), shown


def lines_of(path: str) -> Iterator[bytes]:
    """The lines of a file.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            while line := file.readline(MAX_LINE + 2):
                yield line
                cut = len(line) > MAX_LINE
                while cut and line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE)  # the rest of a line that is refused
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
