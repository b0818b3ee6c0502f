"""A file of tasks with known tools, from which a model that searches is trained."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from atc import UsageError

MAX_LINE = 4_000_000
"""Characters of one line of a file of tasks."""

_FORM = (
    '{"query": "what the user says", "gold": ["id of a tool in the index", …], "id": "optional", "plan": "optional"}'
)


@dataclass(frozen=True)
class Example:
    """A task and the tools that it takes.

    Attributes:
        id: unique among the examples.
        query: the user's words.
        gold: ids of the tools in the index.
        plan: 𝒫 in words, where the data has one; else the teacher writes it.
    """

    id: str
    query: str
    gold: tuple[str, ...]
    plan: str = ""


def read_examples(path: str | Path, limit: int | None = None) -> list[Example]:
    """Return the tasks of a JSON Lines file, plain or gzipped: an object a line, with ``query`` and ``gold``.

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
