"""Judge tries again by today's judges: ``python -m benchmarks.tasks.rejudge ROWS TRANSCRIPTS --data DIR --out FILE``.

No model is asked. Of each try the record is taken that ``benchmarks.tasks --transcripts`` kept: its task is opened
anew, the calls that reached a tool are made again, and the recorded answer is judged. A try cannot be judged again
where its record is missing or cut, or where a tool now does what it refused then, or the reverse: such a row stays.
"""

from __future__ import annotations

import ast
import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from atc.cli.console import err, guarded
from atc.errors import ToolError, UsageError
from benchmarks.common import MaybeData, show
from benchmarks.environments import Environment, Episode, open_environment
from benchmarks.tasks.rows import JUDGE, MOST_SHOWN, Row, append, latest, read_rows
from benchmarks.tasks.transcript import TryCall, TryRecord, read_record


class CannotBeJudgedAgain(Exception):
    """Why a try cannot be judged again."""


async def rejudged(environment: Environment, row: Row, record: TryRecord) -> Row:
    """A row as today's judge decides it: ``solved``, ``first_try``, ``called``, ``stated`` and ``judge`` are new.

    Raises:
        CannotBeJudgedAgain: the record is cut, or the tools do not answer as they did.
    """
    task = next((task for task in environment.tasks() if task.id == row.task), None)
    if task is None:
        raise CannotBeJudgedAgain("the environment has no such task any more")
    gold = environment.gold(task)
    told = gold is None or gold.answer is not None  # else only what the calls did is judged
    value = _value(record) if told and row.status == "answered" else None
    episode = environment.open(task)
    await _made_again(episode, record.calls)
    solved = row.status == "answered" and episode.check(value)
    first = solved and row.programs <= 1
    return replace(row, solved=solved, first_try=first, called=episode.called, stated=task.stated, judge=JUDGE)


def _value(record: TryRecord) -> Any:
    """What was answered."""
    if record.value is not None:
        return json.loads(record.value)
    if len(record.answer) >= MOST_SHOWN:
        raise CannotBeJudgedAgain("its answer was cut")
    try:
        return ast.literal_eval(record.answer)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise CannotBeJudgedAgain("its answer was not kept as a value") from None


async def _made_again(episode: Episode, calls: Iterable[TryCall]) -> None:
    async with episode.tools.opened():
        for call in calls:
            try:
                arguments = json.loads(call.arguments)
            except ValueError:
                raise CannotBeJudgedAgain("the arguments of a call were cut") from None
            if call.tool not in episode.tools:
                raise CannotBeJudgedAgain(f"the task has no tool {call.tool} any more")
            transport = episode.tools[call.tool].transport
            assert transport is not None  # an episode has no others
            with suppress(ToolError):  # the episode notes it
                await transport(arguments)
            if episode.calls[-1].done is not call.done:
                raise CannotBeJudgedAgain(f"{call.tool} does not answer as it did")


def judged_again(rows: Iterable[Row], transcripts: Path, data: Path | None) -> list[Row]:
    """The rows in their order, each judged again where it can be; the others are named on stderr.

    Raises:
        EnvironmentProblem: an environment's data is missing.
        UsageError: a record cannot be read.
    """
    environments: dict[str, Environment] = {}
    made = []
    for row in rows:
        if row.env not in environments:
            environments[row.env] = open_environment(row.env, data)
        try:
            record = read_record(transcripts, row)
            if record is None:
                raise CannotBeJudgedAgain("it has no record")
            made.append(asyncio.run(rejudged(environments[row.env], row, record)))
        except CannotBeJudgedAgain as error:
            err.print(f"{row.env}/{row.task} {row.system}: cannot be judged again: {error}", markup=False)
            made.append(row)
    return made


@guarded
def main(
    rows: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Rows of `benchmarks.tasks --out`.")],
    transcripts: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Its folder of `--transcripts`.")],
    file: Annotated[Path, typer.Option("--out", help="Where the rows are written.")],
    data: MaybeData = None,
) -> None:
    """Judge recorded tries again by today's judges, and print how many each system gained and lost."""
    if file.exists():
        raise UsageError(f"--out: {file} is there already; name another")
    before = latest(read_rows(rows))
    after = judged_again(before, transcripts, data)
    for row in after:
        append(file, row)
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for old, new in zip(before, after, strict=True):
        for place in (new.env, "all"):
            counts[place, new.system].update(
                tries=1, again=int(new.judge == JUDGE), before=int(old.solved), now=int(new.solved),
                gained=int(new.solved > old.solved), lost=int(new.solved < old.solved),
            )  # fmt: skip
    show(
        "Judged again",
        ("environment", "system", "tries", "judged again", "solved before", "now", "gained", "lost"),
        [(*key, *counted.values()) for key, counted in sorted(counts.items(), key=lambda pair: pair[0][0] == "all")],
    )


if __name__ == "__main__":
    typer.run(main)
