"""What the guide of :mod:`benchmarks.guided` says of right programs, and of right programs that were spoiled; no model.

``python -m benchmarks.guided_right --data DIR`` goes through each task's own solution as a program
(:mod:`benchmarks.right_programs`), for stated tasks that are not sealed, and prints no task. Statement by statement, as
while it is written, each place that departs from the types is a false alarm there; but for an id that neither the task
nor a response gave. Then one place at a time is spoiled: a key is replaced by one that is not there, and a level of a
list is left out. How many of these are seen says how far the types of these tools reach.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from atc.cli.console import guarded
from benchmarks.common import AsJson, listed, print_json, show
from benchmarks.environments import ENVIRONMENTS, Environment, Task, open_environment
from benchmarks.fetch import use_packages
from benchmarks.guided_lines import statements
from benchmarks.guided_types import Types
from benchmarks.read_tasks import in_part, order
from benchmarks.right_programs import RightProgram, right_program

_KEY = re.compile(r"\['\w+'\]")
_LEVEL = re.compile(r"\[0\](?=\[')")
_NO_KEY = "['zzq_zzq']"


@dataclass
class Counts:
    """What was found in the programs of one environment.

    Attributes:
        alarms: places that the guide would touch, by kind; with ``!`` where it leaves no way round.
        given_by_nobody: of these, ids that neither the task nor a response gave.
        wrong: statements that it would draw again.
        keys, keys_seen: keys that were spoiled, and those of them that it sees; ``levels``: likewise.
        seconds: of the processor, for all statements of the right programs.
    """

    programs: int = 0
    statements: int = 0
    alarms: Counter[str] = field(default_factory=Counter)
    given_by_nobody: int = 0
    wrong: int = 0
    keys: int = 0
    keys_seen: int = 0
    levels: int = 0
    levels_seen: int = 0
    seconds: float = 0.0


def look(counts: Counts, types: Types, right: RightProgram) -> None:
    """Look at one right program, and at what is left of it when it is spoiled."""
    source = right.source
    counts.programs += 1
    began = time.process_time()
    for start, end in statements(source):
        counts.statements += 1
        line = source.count("\n", 0, start) + 1
        for each in types.departures(source[:end], start):
            if each.kind == "id" and line in right.not_given:
                counts.given_by_nobody += 1
            else:
                counts.alarms[each.kind + "!" * each.only] += 1
        counts.wrong += bool(types.certainly_wrong(source[:end], start))
    counts.seconds += time.process_time() - began
    for found in _KEY.finditer(source):
        counts.keys += 1
        counts.keys_seen += _sees(types, source[: found.start()] + _NO_KEY + source[found.end() :])
    for found in _LEVEL.finditer(source):
        counts.levels += 1
        counts.levels_seen += _sees(types, source[: found.start()] + source[found.end() :])


def _sees(types: Types, source: str) -> bool:
    kinds = (each.kind for start, end in statements(source) for each in types.departures(source[:end], start))
    return any(kind in ("key", "nesting") for kind in kinds)


def counts_of(environment: Environment, sample: int) -> Counts:
    """Return the counts over so many tasks of an environment, as the ruler draws them.

    Raises:
        EnvironmentProblem: its data is missing.
    """
    there = [task for task in environment.tasks() if task.stated and in_part(environment.name, task.id, "open")]
    counts = Counts()
    for task in sorted(there, key=lambda task: order(environment, task))[:sample]:
        if (right := _right(environment, task)) is not None:
            look(counts, Types(environment.open(task).tools.protocols, task.text), right)
    return counts


def _right(environment: Environment, task: Task) -> RightProgram | None:
    if environment.gold(task) is None:
        return None
    right = asyncio.run(right_program(environment, task))
    return right if right.source else None


@guarded
def main(
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with executable/<set>.")] = None,
    env: Annotated[str, typer.Option(help="As `benchmarks.tasks --env` takes them.")] = ",".join(ENVIRONMENTS),
    sample: Annotated[int, typer.Option(min=1, help="Tasks of each set.")] = 60,
    as_json: AsJson = False,
) -> None:
    """Count false alarms of the guide over right programs, and what it sees of spoiled ones."""
    use_packages(data)
    places = [open_environment(name, data) for name in listed(env, ENVIRONMENTS, "env")]
    found = {place.name: counts_of(place, sample) for place in places}
    if as_json:
        print_json({name: vars(counts) for name, counts in found.items()})
        return
    rows = [
        (
            name,
            counts.programs,
            counts.statements,
            ", ".join(f"{kind} {count}" for kind, count in sorted(counts.alarms.items())) or "0",
            counts.given_by_nobody,
            counts.wrong,
            f"{counts.keys_seen} of {counts.keys}",
            f"{counts.levels_seen} of {counts.levels}",
            f"{1_000 * counts.seconds / max(1, counts.statements):.0f}",
        )
        for name, counts in found.items()
    ]
    columns = (
        "",
        "programs",
        "statements",
        "alarms",
        "ids of nobody",
        "drawn again",
        "keys",
        "levels",
        "ms a statement",
    )
    show("Right programs, and what is seen of spoiled ones", columns, rows)


if __name__ == "__main__":
    typer.run(main)
