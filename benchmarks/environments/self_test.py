"""Does an environment judge rightly? Its own solutions must pass, other right answers too, and spoilt ones must fail.

``python -m benchmarks.environments.self_test [--env NAME …] --data DIR`` prints a line for each environment and exits
with 1 if one judges wrongly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from atc.cli.console import guarded
from atc.errors import EnvironmentProblem, ToolError
from benchmarks.common import MaybeData, listed, show
from benchmarks.environments import ENVIRONMENTS, NAMED, Environment, Episode, Gold, GoldCall, Task, open_environment
from benchmarks.fetch import use_packages

WRONG = "zzqx: no task has this answer"


@dataclass
class Verdict:
    """What became of an environment's own solutions.

    Attributes:
        without: tasks without a solution that can be executed.
        unsolved: tasks whose own solution fails, or that with another right answer (:attr:`Gold.alternatives`).
        taken: tasks that a solution with a wrong answer (:attr:`Gold.near` among them), with nothing done or with a
            call too many passes.
        alternatives: the other right answers, in all. ``near``: the nearly right ones.
    """

    tasks: int = 0
    without: list[str] = field(default_factory=list)
    unsolved: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    alternatives: int = 0
    near: int = 0


async def judge(environment: Environment, tasks: Iterable[Task] | None = None) -> Verdict:
    """Play the solution of each task, and spoilt ones, and look what the environment says."""
    verdict = Verdict()
    for task in environment.tasks() if tasks is None else tasks:
        verdict.tasks += 1
        gold = environment.gold(task)
        if gold is None:
            verdict.without.append(task.id)
            continue
        verdict.alternatives += len(gold.alternatives)
        verdict.near += len(gold.near)
        for answer in (gold.answer, *gold.alternatives):
            if not await _solves(environment.open(task), gold.calls, answer):
                verdict.unsolved.append(task.id)
                break
        for calls, answer in _spoilt(gold, environment.open(task)):
            if await _solves(environment.open(task), calls, answer):
                verdict.taken.append(task.id)
                break
    return verdict


def _spoilt(gold: Gold, episode: Episode) -> list[tuple[tuple[GoldCall, ...], Any]]:
    if not gold.judged:
        return [(gold.calls, None), (gold.calls[:-1], gold.answer)]
    made: list[tuple[tuple[GoldCall, ...], Any]] = []
    if gold.answer is not None:
        made.append((gold.calls, WRONG))
    elif gold.calls:
        made.append(((), None))
    if any(episode.tools[name].protocol.effect.value == "write" for name, _ in gold.calls):
        made.append(((), gold.answer))
    made += [(gold.calls, answer) for answer in gold.near]
    if gold.spoil is not None:
        made.append(((*gold.calls, gold.spoil), gold.answer))
    return made


async def _solves(episode: Episode, calls: Iterable[GoldCall], answer: Any) -> bool:
    await play(episode, calls)
    return episode.check(answer)


async def play(episode: Episode, calls: Iterable[GoldCall]) -> None:
    """Make the calls of a solution one after the other; one that its tool refuses is passed over."""
    async with episode.tools.opened():
        for name, arguments in calls:
            transport = episode.tools[name].transport
            assert transport is not None  # an episode has no others
            try:
                await transport(dict(arguments))
            except ToolError:
                continue  # some solutions look for what is not there


@guarded
def main(
    env: Annotated[str, typer.Option(help="Environments, with commas between.")] = ",".join(ENVIRONMENTS),
    data: MaybeData = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Name the tasks.")] = False,
) -> None:
    """Judge the environments by their own solutions; exit with 1 where one is wrong or cannot be opened."""
    use_packages(data)
    rows, wrong = [], 0
    for name in listed(env, [*ENVIRONMENTS, *NAMED], "env"):
        try:
            verdict = asyncio.run(judge(open_environment(name, data)))
        except EnvironmentProblem as error:
            print(error)
            wrong += 1
            continue
        wrong += len(verdict.unsolved) + len(verdict.taken)
        counts = (len(verdict.without), len(verdict.unsolved), len(verdict.taken), verdict.alternatives, verdict.near)
        rows.append((name, verdict.tasks, *counts))
        for what in ("without", "unsolved", "taken") if verbose else ():
            print(f"{name}: {what}: {', '.join(getattr(verdict, what)) or 'none'}")
    columns = ("environment", "tasks", "without", "solution fails", "spoilt one passes", "other answers", "near misses")
    show("Own solutions", columns, rows)
    raise typer.Exit(1 if wrong else 0)


if __name__ == "__main__":
    typer.run(main)
