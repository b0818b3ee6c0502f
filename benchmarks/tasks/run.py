"""The ruler: the same tasks, the same model, the same budget, for ATC and for others.

``python -m benchmarks.tasks --data DIR`` lets every system try every task and writes a JSON line for each try; started
again it goes on where it was. ``--quick`` takes 24 tasks over all environments. ``--summary FILE`` prints the tables of
such a file. All systems ask the same endpoint through :mod:`benchmarks.tasks.gateway`, which counts, caps and samples
alike for all; replies are kept, so that the same request is answered once, and are reported at their first cost.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import typer

from atc.cli.console import INTERRUPTED, err, guarded, out, print_json
from atc.errors import EnvironmentProblem, UsageError
from benchmarks.common import RESULTS, AsJson, listed
from benchmarks.environments import ENVIRONMENTS, NAMED, VARIANTS, Environment, Task, open_environment
from benchmarks.fetch import use_packages
from benchmarks.systems import ALPHA, PAPER_ALPHA, SYSTEMS, WITHOUT_RULE, System, named_system
from benchmarks.tasks.attempt import attempt, terms
from benchmarks.tasks.gateway import Caps, Gateway, Upstream, upstream
from benchmarks.tasks.picture import draw
from benchmarks.tasks.read_tasks import SECOND, TASKS, Part, in_part, order, quick_tasks
from benchmarks.tasks.rows import Row, append, latest, publish, read_rows
from benchmarks.tasks.rule_figures import print_rules, rule_figures
from benchmarks.tasks.summary import print_table, summarise

QUICK_SYSTEMS, QUICK_CAPS = "atc,codeact", Caps(model_calls=5, tokens=20_000, seconds=120)
"""Of a quick run: a first program and its revisions, as far as two minutes go."""
QUICK_MINUTES = 25.0


@dataclass(frozen=True)
class Plan:
    """What is to be run.

    Attributes:
        sample: take so many tasks of each environment, the same ones every time, as if drawn at random.
        only: these and no others, by their environment.
        practice: take those that the sample leaves out instead: to work on, never to report.
        limit: of these the first so many.
        stated: only tasks that say all that their solution needs.
        temperature: of all systems' sampling.
        minutes: no try begins later than that after the first.
        transcripts: folder to keep in what was said in each try.
        part: of all tasks, before anything else: those that nobody has read, or the sealed half
            (:mod:`benchmarks.tasks.read_tasks`).
    """

    environments: Sequence[Environment]
    systems: Sequence[System]
    seeds: Sequence[int] = (0,)
    sample: int | None = None
    only: Mapping[str, Collection[str]] | None = None
    practice: bool = False
    limit: int | None = None
    stated: bool = False
    caps: Caps = field(default_factory=Caps)
    temperature: float = 0.3
    minutes: float | None = None
    transcripts: Path | None = None
    part: Part = "open"

    def tasks(self, environment: Environment) -> list[Task]:
        """The tasks to run of an environment, in its order.

        Raises:
            EnvironmentProblem: its data is missing.
        """
        tasks = [task for task in environment.tasks() if in_part(environment.name, task.id, self.part)]
        tasks = [task for task in tasks if task.stated or not self.stated]
        if self.only is not None:
            tasks = [task for task in tasks if task.id in self.only.get(environment.name, ())]
        if self.sample is not None:
            salt = SECOND if self.part == "sealed" else ""
            drawn = set(sorted(tasks, key=lambda task: order(environment, task, salt))[: self.sample])
            tasks = [task for task in tasks if (task in drawn) is not self.practice]
        return tasks[: self.limit]


async def run_plan(
    plan: Plan,
    gateway: Gateway,
    file: Path,
    report: Callable[[Row], None] = lambda row: None,
    over: Callable[[], str] = str,
) -> None:
    """Run what the file does not hold yet, and append a line for each try as it ends.

    Environments take turns, and all systems try a task before the next one: wherever it stops, they can be compared.
    An environment without its data and a system that is not installed are named on stderr, and the rest goes on.

    Args:
        plan: what to run.
        gateway: opened; before the model and the tools of all tries.
        file: where rows are kept; made when missing.
        report: called with each new row.
        over: called before each try; why none may begin any more, or nothing.

    Raises:
        EnvironmentProblem: nothing can run: no environment, no system, or the first try found no model or no sandbox.
            Later that is noted in the row and the rest goes on.
        UsageError: the file cannot be read or written.
    """
    chosen = _there(plan)
    versions = await _installed(plan.systems)
    agreed = terms(plan.caps, plan.temperature)
    finished = {row.key for row in read_rows(file) if row.status != "environment"} if file.exists() else set()

    def key(environment: Environment, task: Task, system: System, seed: int) -> tuple[object, ...]:
        return environment.name, task.id, system.name, versions[system], seed, gateway.upstream.name, agreed

    missing = [each for each in _in_turn(chosen, list(versions), plan.seeds) if key(*each) not in finished]
    ends = time.monotonic() + 60 * plan.minutes if plan.minutes is not None else math.inf
    try:
        for number, (environment, task, system, seed) in enumerate(missing):
            ended = over() or (f"{plan.minutes:g} minutes are over" if time.monotonic() >= ends else "")
            if not ended:
                row = await attempt(
                    environment, task, system, seed, gateway, plan.caps, plan.temperature, plan.transcripts
                )
                ended = over() if row.status == "environment" else ""
            if ended:
                left = len(missing) - number
                err.print(f"{ended}, {left} tries are left: the same command goes on with them", markup=False)
                break
            if row.status == "environment" and number == 0:
                raise EnvironmentProblem(row.error)
            append(file, row)
            report(row)
    finally:
        for system in versions:
            await system.aclose()


def _there(plan: Plan) -> list[tuple[Environment, list[Task]]]:
    found = []
    for environment in plan.environments:
        try:
            found.append((environment, plan.tasks(environment)))
        except EnvironmentProblem as error:
            err.print(f"left out: {error}", markup=False)
    if not found:
        raise EnvironmentProblem("no environment has its data: see above")
    return found


def _in_turn(
    chosen: Iterable[tuple[Environment, list[Task]]], systems: Sequence[System], seeds: Sequence[int]
) -> Iterator[tuple[Environment, Task, System, int]]:
    """All tries of a plan: the first task of each environment by every system, then the second ones."""
    for turn in zip_longest(*([(environment, task) for task in tasks] for environment, tasks in chosen)):
        for pair in turn:
            if pair is not None:
                yield from ((*pair, system, seed) for system in systems for seed in seeds)


async def _installed(systems: Sequence[System]) -> dict[System, str]:
    found = {}
    for system in systems:
        try:
            found[system] = await system.version()
        except EnvironmentProblem as error:
            err.print(f"left out: {error}", markup=False)
    if not found:
        raise EnvironmentProblem("no system is there to try anything: see above")
    return found


# Command line -------------------------------------------------------------------------------------------------------


def systems_of(text: str) -> list[System]:
    """The systems of a comma-separated option: bundled ones, and those that a name makes
    (:func:`benchmarks.systems.named_system`).

    Raises:
        UsageError: there is no such system, rule or number of candidates.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    made = {name: system for name in names if (system := named_system(name)) is not None}
    return [made.get(name) or SYSTEMS[name] for name in listed(text, [*SYSTEMS, *made], "system")]


def tasks_of(text: str, environments: Sequence[Environment]) -> dict[str, set[str]]:
    """The tasks of a file, by their environment: ``environment/task`` a line; ``#`` begins a remark.

    Raises:
        UsageError: a line names no task of these environments.
        EnvironmentProblem: an environment's data is missing.
    """
    there = {environment.name: {task.id for task in environment.tasks()} for environment in environments}
    named: dict[str, set[str]] = {name: set() for name in there}
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        environment, _, task = line.partition("/")
        if task not in there.get(environment, ()):
            raise UsageError(f"--tasks: there is no task {line!r} in {', '.join(there)}")
        named[environment].add(task)
    return named


def seeds_of(text: str) -> list[int]:
    """The seeds of a comma-separated option.

    Raises:
        UsageError: something is no number.
    """
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--seeds takes numbers and commas, not {text!r}") from None


def _caps(name: str) -> str:
    return f"({getattr(Caps(), name):g}; with --quick {getattr(QUICK_CAPS, name):g})"


def say(row: Row) -> None:
    """Print how a try ended."""
    how = "solved" if row.solved else f"not solved ({row.status}{': ' + row.error if row.error else ''})"
    err.print(f"{row.env}/{row.task} {row.system} seed {row.seed}: {how}, {row.seconds:.1f} s", markup=False)


@guarded
def main(
    env: Annotated[
        str,
        typer.Option(help=f"Environments: {', '.join(ENVIRONMENTS)}. Where named: {', '.join([*NAMED, *VARIANTS])}."),
    ] = ",".join(ENVIRONMENTS),
    system: Annotated[
        str | None,
        typer.Option(
            help=f"Systems: {', '.join(SYSTEMS)}; `{WITHOUT_RULE}ID` is ATC without a rule, "
            f"`{ALPHA}N` and `{PAPER_ALPHA}N` make N revisions at "
            "most. All, if not said."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(envvar="ATC_DATA", help="Directory with executable/<environment>.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="As `atc run --model` takes it.")] = None,
    tasks: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Only the tasks of this file, each as ENVIRONMENT/TASK."),
    ] = None,
    seeds: Annotated[str, typer.Option(help="Comma-separated.")] = "0",
    quick: Annotated[
        bool,
        typer.Option("--quick", help=f"{TASKS} short tasks over all environments, two minutes each; {QUICK_SYSTEMS}."),
    ] = False,
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
    unread: Annotated[
        bool, typer.Option("--unread", help="Only tasks that nobody has read (benchmarks/read_tasks.txt).")
    ] = False,
    sealed: Annotated[
        bool, typer.Option("--sealed", help="Only the sealed half of the unread tasks: for a last measurement.")
    ] = False,
    limit_s: Annotated[float | None, typer.Option(min=1, help=f"Seconds for one try. {_caps('seconds')}")] = None,
    max_calls: Annotated[
        int | None, typer.Option(min=1, help=f"Model calls for one try. {_caps('model_calls')}")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help=f"Tokens for one try, prompts and replies. {_caps('tokens')}")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="Of every system's sampling.")] = 0.3,
    minutes: Annotated[
        float | None,
        typer.Option(min=0, help=f"Begin no try later than that; {QUICK_MINUTES:g} where --quick is given."),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Of the embedded model.")] = None,
    file: Annotated[Path, typer.Option("--out", help="Where each try is kept as a JSON line.")] = RESULTS
    / "tasks.jsonl",
    transcripts: Annotated[
        Path | None, typer.Option(help="Folder to keep in what was said in each try, to read why it failed.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw solved against tokens there: .svg or .png.")] = None,
    summary: Annotated[Path | None, typer.Option(help="Only print the tables of this file.")] = None,
    against: Annotated[
        str | None, typer.Option(help="With --summary: tokens and steps of each system beside those of this one.")
    ] = None,
    rules: Annotated[
        bool, typer.Option("--rules", help="With --summary: in which tries each rule fired, and what it is worth.")
    ] = False,
    published: Annotated[
        Path | None,
        typer.Option("--publish", help="With --summary: write its rows there, without answers, programs and errors."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure what each system solves, what it takes and what it breaks."""
    if summary is not None:
        rows = latest(read_rows(summary))
        if published is not None:
            err.print(f"{publish(rows, published)} rows without texts are in {published}", markup=False)
        if rules:
            _report_rules(rows, as_json)
        else:
            _report(rows, as_json, picture, against)
        return
    for option, given in (("--against", against), ("--rules", rules or None), ("--publish", published)):
        if given is not None:
            raise UsageError(f"{option} works on what a file holds: give --summary FILE too")
    use_packages(data)
    environments = [open_environment(name, data) for name in listed(env, [*ENVIRONMENTS, *NAMED, *VARIANTS], "env")]
    chosen = systems_of(system or (QUICK_SYSTEMS if quick else ",".join(SYSTEMS)))
    if practice and sample is None:
        raise UsageError("--practice takes what --sample N leaves out: give --sample too")
    if unread and sealed:
        raise UsageError("--sealed tasks are unread ones: give --unread or --sealed")
    usual = QUICK_CAPS if quick else Caps()
    caps = Caps(max_calls or usual.model_calls, max_tokens or usual.tokens, limit_s or usual.seconds)
    if quick and tasks is not None:
        raise UsageError("--quick has tasks of its own: give --quick or --tasks FILE")
    only = None if tasks is None else tasks_of(tasks.read_text(encoding="utf-8"), environments)
    if quick:
        environments = [environment for environment, _ in _there(Plan(environments, []))]
        only, minutes = quick_tasks(environments), QUICK_MINUTES if minutes is None else minutes
    plan = Plan(
        environments,
        chosen,
        seeds_of(seeds),
        sample,
        only,
        practice,
        limit,
        stated,
        caps,
        temperature,
        minutes,
        transcripts,
        "sealed" if sealed else "unread" if unread else "open" if tasks is None else "all",
    )
    run_and_report(plan, model, file, as_json, picture, threads)


def run_and_report(
    plan: Plan,
    model: str | None,
    file: Path,
    as_json: bool = False,
    picture: Path | None = None,
    threads: int | None = None,
) -> None:
    """Run a plan and print the table of its rows; interrupted, what there is of them.

    Args:
        model: as ``atc run --model`` takes it.

    Raises:
        As :func:`run_plan`; :class:`typer.Exit` after an interrupt.
    """
    with upstream(model, threads) as source:
        try:
            asyncio.run(_to_the_end(plan, source, file))
        except KeyboardInterrupt:
            err.print(f"interrupted; what has ended is in {file}: the same command goes on from there", markup=False)
            _report(_own(plan, source, file), as_json, picture)
            raise typer.Exit(INTERRUPTED) from None
        _report(_own(plan, source, file), as_json, picture)


async def _to_the_end(plan: Plan, source: Upstream, file: Path) -> None:
    async with Gateway(source, RESULTS / "replies").opened() as gateway:
        await run_plan(plan, gateway, file, say)


def _own(plan: Plan, source: Upstream, file: Path) -> list[Row]:
    tasks = {(environment.name, task.id) for environment, tasks in _there(plan) for task in tasks}
    systems = {system.name for system in plan.systems}
    rows = latest(read_rows(file)) if file.exists() else []
    return [
        row
        for row in rows
        if (row.env, row.task) in tasks
        and row.system in systems
        and row.seed in plan.seeds
        and row.model == source.name
        and row.terms == terms(plan.caps, plan.temperature)
    ]


def _report(rows: list[Row], as_json: bool, picture: Path | None, against: str | None = None) -> None:
    if against is not None and against not in (tried := sorted({row.system for row in rows})):
        raise UsageError(f"--against: the file has no tries of {against!r}, but of {', '.join(tried) or 'none'}")
    lines = summarise(rows, list(SYSTEMS), against)
    if picture is not None:
        draw(lines, picture)
    if as_json:
        print_json(lines)
    else:
        print_table(lines, out)


def _report_rules(rows: list[Row], as_json: bool) -> None:
    lines = rule_figures(rows)
    if as_json:
        print_json(lines)
    else:
        print_rules(lines, out)
