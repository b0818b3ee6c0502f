"""Tasks solved: the ladder of systems, from a bare program to the whole of ATC, with one model.

``python -m benchmarks.tasks`` runs every system on every task and writes a JSON line for each try; started again it
goes on where it was. ``--summary FILE`` prints the table of such a file. Replies are kept in
``benchmarks/results/cache``: the same prompt with the same seed is asked once, whatever system asks. Calls, tokens and
seconds are reported as if each system had asked for itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as record

from atc.agent import Agent
from atc.cli.console import INTERRUPTED, err, guarded, out, print_json
from atc.errors import EnvironmentProblem, ModelError, UsageError
from atc.execution.broker import CallPolicy
from atc.models import CachedModel, Model, open_model
from atc.result import Result
from atc.traces.events import Event
from benchmarks.environments import ENVIRONMENTS, Environment, Episode, Task, open_environment
from benchmarks.summary import print_table, summarise

RESULTS = Path(__file__).with_name("results")
GRACE_S = 30.0
"""Seconds that a run is given to end by itself after its limit."""


@dataclass(frozen=True)
class System:
    """One rung of the ladder: settings of the agent, and whether its broker replays what succeeded."""

    settings: dict[str, Any] = field(default_factory=dict)
    replay: bool = True


SYSTEMS = {
    "bare": System({"check": False, "attribution": "none"}, replay=False),
    "check": System({"attribution": "none"}, replay=False),
    "attribution": System(replay=False),
    "full": System(),
    "choose": System({"revision_candidates": 4}),
    "vote": System({"candidates": 4, "revision_candidates": 4}),
}
"""Each adds one thing to the one before: nothing, the check before a run, attribution, replay (the defaults), a choice
of four programs in every revision, a choice of four first programs."""

Status = Literal["answered", "unsolved", "budget", "failed", "overtime", "exception", "environment"]


@record(frozen=True)
class Row:
    """One try of a system at a task.

    Attributes:
        stated: whether the task says all that its solution needs.
        status: how the run ended; ``overtime`` (over the limit, what the cache saved counted in), ``exception`` (ATC
            itself broke), ``environment`` (no model or no sandbox: no result, tried again on a restart).
        first_try: solved by the first program.
        crashes: programs that ran and ended in an exception, at a limit, or without a word.
        faults: what was wrong with the programs that failed, by kind; ``check`` is a finding before the run.
        tool_calls: calls that reached a tool, as the environment counted them.
        repeated_writes: effects that were done again beyond what the task's own solution does.
        seconds: of the whole run, with what its cached replies took when they were made. ``wall_s`` is without.
    """

    env: str
    task: str
    system: str
    seed: int
    model: str
    stated: bool
    status: Status
    solved: bool = False
    first_try: bool = False
    programs: int = 0
    crashes: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    model_calls: int = 0
    cached_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    tool_calls: int = 0
    writes: int = 0
    repeated_writes: int = 0
    seconds: float = 0.0
    wall_s: float = 0.0
    answer: str = ""
    program: str = ""
    error: str = ""

    @property
    def key(self) -> tuple[str, str, str, int, str]:
        return self.env, self.task, self.system, self.seed, self.model


_ROW = TypeAdapter(Row)


@dataclass
class Meter:
    """Counts what a run asks of the model and how its programs end, from the run's events."""

    model_calls: int = 0
    cached_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    saved_s: float = 0.0
    crashes: int = 0

    def __call__(self, event: Event) -> None:
        if event.kind == "model_ended":
            self.model_calls += 1
            self.prompt_tokens += event.data["prompt_tokens"]
            self.completion_tokens += event.data["completion_tokens"]
            if event.data["cached"]:
                self.cached_calls += 1
                self.saved_s += event.data["seconds"]
        elif event.kind == "program_ended":
            self.crashes += event.data["kind"] != "finished"


# One try ------------------------------------------------------------------------------------------------------------


async def attempt(
    environment: Environment, task: Task, system: str, seed: int, model: Model, limit_s: float = 300.0
) -> Row:
    """Let a system try a task once. Whatever goes wrong is in the row."""
    episode, meter, began = environment.open(task), Meter(), time.perf_counter()
    told: dict[str, Any] = {}
    try:
        agent = _agent(episode, SYSTEMS[system], seed, model, meter, limit_s)
        result = await asyncio.wait_for(agent.arun(task.text), limit_s + GRACE_S)
        told = _told(result, episode)
    except TimeoutError:
        told = {"status": "overtime", "error": f"it did not end within {limit_s + GRACE_S:g} s"}
    except (EnvironmentProblem, ModelError) as error:
        told = {"status": "environment", "error": str(error)}
    except Exception as error:  # ATC broke: the task is lost, the others go on
        told = {"status": "exception", "error": f"{type(error).__name__}: {error}"[:500]}
    wall_s = time.perf_counter() - began
    if wall_s + meter.saved_s > limit_s and told["status"] != "environment":
        told |= {"status": "overtime", "solved": False, "first_try": False}
    return Row(
        env=environment.name, task=task.id, system=system, seed=seed, model=model.name, stated=task.stated,
        crashes=meter.crashes, model_calls=meter.model_calls, cached_calls=meter.cached_calls,
        prompt_tokens=meter.prompt_tokens, completion_tokens=meter.completion_tokens,
        tool_calls=len(episode.calls), writes=episode.writes, repeated_writes=episode.repeated_writes,
        seconds=round(wall_s + meter.saved_s, 3), wall_s=round(wall_s, 3), **told,
    )  # fmt: skip


def _agent(episode: Episode, system: System, seed: int, model: Model, meter: Meter, limit_s: float) -> Agent:
    return Agent(
        episode.tools, model=model, policy=CallPolicy(replay=system.replay), on_event=meter, seed=seed, answer=False,
        keep_runs=False, budget_s=limit_s, max_tools=max(20, len(episode.tools)), **system.settings,
    )  # fmt: skip


# An endpoint that turns a request down for what it is (a prompt too long) is there: the task is lost, not the model.
_TURNED_DOWN = re.compile(r"answered (400|413|422)\b")


def _told(result: Result, episode: Episode) -> dict[str, Any]:
    """What a result says, and whether it is right."""
    error = result.fault.message if result.fault and result.status in ("failed", "budget") else ""
    solved = result.status == "answered" and episode.check(result.value)
    lost = result.status == "failed" and not _TURNED_DOWN.search(error)
    faults: Counter[str] = Counter()
    for revision in result.revisions:
        if revision.findings:
            faults["check"] += 1
        elif revision.fault is not None:
            faults[revision.fault.kind] += 1
    return {
        "status": "environment" if lost else result.status, "solved": solved,
        "first_try": solved and len(result.revisions) == 1, "programs": len(result.revisions), "faults": dict(faults),
        "answer": repr(result.value)[:500], "program": result.program[:4_000], "error": error[:500],
    }  # fmt: skip


# All tries ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """What is to be run.

    Attributes:
        sample: take so many tasks of each environment, the same ones every time, as if drawn at random.
        practice: take those that the sample leaves out instead: to work on, never to report.
        limit: of these the first so many.
        stated: only tasks that say all that their solution needs.
    """

    environments: Sequence[Environment]
    systems: Sequence[str]
    seeds: Sequence[int] = (0,)
    sample: int | None = None
    practice: bool = False
    limit: int | None = None
    stated: bool = False
    limit_s: float = 300.0

    def tasks(self, environment: Environment) -> list[Task]:
        """The tasks to run of an environment, in its order.

        Raises:
            EnvironmentProblem: its data is missing.
        """
        tasks = [task for task in environment.tasks() if task.stated or not self.stated]
        if self.sample is not None:
            drawn = set(sorted(tasks, key=lambda task: _draw(environment.name, task.id))[: self.sample])
            tasks = [task for task in tasks if (task in drawn) is not self.practice]
        return tasks[: self.limit]


def _draw(environment: str, task: str) -> str:
    return hashlib.sha256(f"{environment}/{task}".encode()).hexdigest()


async def run_plan(plan: Plan, model: Model, file: Path, tell: Callable[[Row], None] = lambda row: None) -> None:
    """Run what the file does not hold yet, and append a line for each try as it ends.

    Args:
        plan: what to run.
        model: the model of all systems.
        file: where rows are kept; made when missing.
        tell: told of each new row.

    Raises:
        EnvironmentProblem: an environment's data is missing, or the first try found no model or no sandbox: nothing is
            set up then. Later it is noted in the row and the rest goes on.
    """
    chosen = [(environment, plan.tasks(environment)) for environment in plan.environments]
    finished = {row.key for row in read_rows(file) if row.status != "environment"} if file.exists() else set()
    works = False
    for environment, tasks in chosen:
        for task in tasks:
            for system in plan.systems:
                for seed in plan.seeds:
                    if (environment.name, task.id, system, seed, model.name) in finished:
                        continue
                    row = await attempt(environment, task, system, seed, model, plan.limit_s)
                    if row.status == "environment" and not works:
                        raise EnvironmentProblem(row.error)
                    works = True
                    _append(file, row)
                    tell(row)


def _append(file: Path, row: Row) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab+") as lines:
        end = lines.seek(0, 2)
        lines.seek(max(0, end - 1))
        if end and lines.read(1) != b"\n":
            lines.write(b"\n")  # a line that was cut off stays a line of its own
        lines.write(_ROW.dump_json(row) + b"\n")


def read_rows(file: Path) -> list[Row]:
    """The rows of a file, the last one of each try. A line that is no row is left out, with a warning.

    Raises:
        UsageError: the file cannot be read.
    """
    rows: dict[Any, Row] = {}
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"the results {file} cannot be read: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        try:
            row = _ROW.validate_json(line)
        except ValidationError:
            err.print(f"{file}, line {number}: not a result, left out", markup=False)
            continue
        rows[row.key] = row
    return list(rows.values())


# Command line -------------------------------------------------------------------------------------------------------


def _listed(text: str, allowed: Iterable[str], what: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    wrong = [name for name in names if name not in allowed]
    if wrong or not names:
        raise UsageError(f"--{what}: there is no {', '.join(wrong) or 'name'}; take some of {', '.join(allowed)}")
    return list(dict.fromkeys(names))


def _seeds(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--seeds takes numbers and commas, not {text!r}") from None


def _say(row: Row) -> None:
    how = "solved" if row.solved else f"not solved ({row.status}{': ' + row.error if row.error else ''})"
    err.print(f"{row.env}/{row.task} {row.system} seed {row.seed}: {how}, {row.seconds:.1f} s", markup=False)


@guarded
def main(
    env: Annotated[str, typer.Option(help=f"Environments: {', '.join(ENVIRONMENTS)}.")] = ",".join(ENVIRONMENTS),
    system: Annotated[str, typer.Option(help=f"Systems: {', '.join(SYSTEMS)}.")] = "bare,check,attribution,full",
    data: Annotated[
        Path | None, typer.Option(envvar="ATC_DATA", help="Directory with executable/<environment>.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="As `atc run --model` takes it.")] = None,
    seeds: Annotated[str, typer.Option(help="Comma-separated.")] = "0",
    sample: Annotated[
        int | None, typer.Option(min=1, help="So many tasks of each environment, always the same.")
    ] = None,
    practice: Annotated[
        bool, typer.Option("--practice", help="The tasks that --sample leaves out: to work on, not to report.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many tasks of each environment.")] = None,
    stated: Annotated[
        bool, typer.Option("--stated", help="Only tasks that say all that their solution needs.")
    ] = False,
    limit_s: Annotated[float, typer.Option(min=1, help="Seconds for one try.")] = 300.0,
    file: Annotated[Path, typer.Option("--out", help="Where each try is kept as a JSON line.")] = RESULTS
    / "tasks.jsonl",
    summary: Annotated[Path | None, typer.Option(help="Only print the table of this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON.")] = False,
) -> None:
    """Measure how many tasks each system solves."""
    if summary is not None:
        _report(read_rows(summary), as_json)
        return
    environments = [open_environment(name, data) for name in _listed(env, ENVIRONMENTS, "env")]
    if practice and sample is None:
        raise UsageError("--practice takes what --sample N leaves out: give --sample too")
    plan = Plan(
        environments, _listed(system, SYSTEMS, "system"), _seeds(seeds), sample, practice, limit, stated, limit_s
    )
    opened = CachedModel(open_model(model, slots=4), RESULTS / "cache")
    try:
        asyncio.run(_to_the_end(plan, opened, file))
    except KeyboardInterrupt:
        err.print(f"interrupted; what has ended is in {file}: the same command goes on from there", markup=False)
        _report(_own(plan, opened, file), as_json)
        raise typer.Exit(INTERRUPTED) from None
    _report(_own(plan, opened, file), as_json)


async def _to_the_end(plan: Plan, model: Model, file: Path) -> None:
    try:
        await run_plan(plan, model, file, _say)
    finally:
        await model.aclose()


def _own(plan: Plan, model: Model, file: Path) -> list[Row]:
    """The rows of a file that belong to a plan."""
    tasks = {(environment.name, task.id) for environment in plan.environments for task in plan.tasks(environment)}
    rows = read_rows(file) if file.exists() else []
    return [
        row
        for row in rows
        if (row.env, row.task) in tasks
        and row.system in plan.systems
        and row.seed in plan.seeds
        and row.model == model.name
    ]


def _report(rows: list[Row], as_json: bool) -> None:
    lines = summarise(rows, list(SYSTEMS))
    if as_json:
        print_json(lines)
    else:
        print_table(lines, out)


if __name__ == "__main__":
    typer.run(main)
