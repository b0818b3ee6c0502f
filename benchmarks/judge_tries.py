"""Right and wrong tries without a model, for :mod:`benchmarks.judge` to be measured on.

``python -m benchmarks.judge_tries --env atlas --out FILE --transcripts DIR`` plays each task's own solution: once
whole, once with another answer that looks like the right one, once without its last call and with such an answer.
Whether a try solves its task, the environment's own check says. Wrong tries of a model are wrong in more ways.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from atc.cli.console import err, guarded
from atc.errors import UsageError
from benchmarks.environments import ENVIRONMENTS, Environment, Episode, Task, open_environment
from benchmarks.environments.self_test import play
from benchmarks.read_tasks import in_part
from benchmarks.rows import Row, append
from benchmarks.tasks import listed
from benchmarks.transcript import Transcript, TryRecord, write_transcript

KINDS = ("recipe-whole", "recipe-other-answer", "recipe-one-call-less")
"""The systems of the rows: what is done with a task's own solution."""


async def made_tries(environment: Environment, tasks: Iterable[Task], folder: Path, kinds: Sequence[str]) -> list[Row]:
    """Rows of these tasks, with their records in a folder. A task without a solution, or with one that has no answer,
    makes none.

    Raises:
        UsageError: the folder cannot be written.
    """
    rows = []
    for task in tasks:
        gold = environment.gold(task)
        if gold is None or not gold.calls or gold.answer is None:
            continue
        for kind in kinds:
            calls = gold.calls if kind != "recipe-one-call-less" else gold.calls[:-1]
            episode = environment.open(task)
            await play(episode, calls)
            answer = gold.answer if kind == "recipe-whole" else other_answer(gold.answer, episode)
            solved = episode.check(answer)
            row = Row(
                environment.name, task.id, kind, "1", 0, "none", "by recipe", task.stated, "answered", solved,
                tool_calls=len(episode.calls), answer=repr(answer)[:500],
            )  # fmt: skip
            record = TryRecord.of(task, episode, row)
            write_transcript(folder, row, Transcript(episode).text(task, gold, row), record)
            rows.append(row)
    return rows


def other_answer(answer: Any, episode: Episode) -> Any:
    """Another value of the same kind: a number a little off, a text that a tool gave, a list with one item less."""
    match answer:
        case bool():
            return not answer
        case int():
            return answer + max(1, abs(answer) // 10)
        case float():
            return round(answer * 1.1 + 0.1, 2)
        case str():
            texts = {text for call in episode.calls for text in _texts(call.answer)} - {answer}
            alike = sorted(texts, key=lambda text: (abs(len(text) - len(answer)), text))
            return alike[0] if alike else answer[::-1]
        case list() if len(answer) > 1:
            return answer[:-1]
        case list():
            return [*answer, *answer] if answer else [0]
        case dict() if answer:
            return {**answer, (key := next(iter(answer))): other_answer(answer[key], episode)}
    return "nothing was found"


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str() if value.strip():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for item in value.values():
                yield from _texts(item)


def _order(task: Task) -> bytes:
    return hashlib.sha256(f"judge/{task.id}".encode()).digest()


@guarded
def main(
    env: Annotated[str, typer.Option(help=f"Environments: {', '.join(ENVIRONMENTS)}.")] = "atlas",
    data: Annotated[
        Path | None, typer.Option(envvar="ATC_DATA", help="Directory with executable/<environment>.")
    ] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="So many tasks of each, always the same.")] = None,
    kinds: Annotated[str, typer.Option(help=f"Of {', '.join(KINDS)}.")] = ",".join(KINDS),
    file: Annotated[Path, typer.Option("--out", help="Where each try is kept as a JSON line: a new file.")] = Path(
        "judge-tries.jsonl"
    ),
    transcripts: Annotated[Path, typer.Option(help="Folder for the records of the tries.")] = Path("judge-tries"),
) -> None:
    """Make tries by recipe. Of an environment with a sealed half, tasks outside of it alone."""
    if file.exists():
        raise UsageError(f"--out: {file} is there already: name a new file")
    chosen = listed(kinds, KINDS, "kinds")
    for name in listed(env, ENVIRONMENTS, "env"):
        environment = open_environment(name, data)
        tasks = sorted((each for each in environment.tasks() if in_part(name, each.id, "open")), key=_order)[:sample]
        rows = asyncio.run(made_tries(environment, tasks, transcripts, chosen))
        for row in rows:
            append(file, row)
        err.print(f"{name}: {len(rows)} tries, {sum(row.solved for row in rows)} solved", markup=False)


if __name__ == "__main__":
    typer.run(main)
