"""Compare ATC with other agents on a model of your own, for a sum of money: ``python -m benchmarks.compare``.

The same tasks, tools and caps for every system; tasks and tables are those of docs/benchmarks/solved.md. Sets that are
not there are fetched (:mod:`benchmarks.fetch`). Money is counted by the tokens of all requests, at the prices of ATC's
settings; when what is left would not pay the next try, the command stops, and with more money it goes on.
"""

from __future__ import annotations

import asyncio
import datetime
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from atc._records.prices import Price
from atc.cli.console import INTERRUPTED, NOT_SOLVED, err, guarded, out, print_json
from atc.errors import EnvironmentProblem, SettingsError, UsageError
from atc.models.embedded import EmbeddedModel
from atc.models.resolve import choose_model
from atc.settings import Settings
from benchmarks.common import RESULTS, AsJson, listed
from benchmarks.environments import ENVIRONMENTS, NAMED, Environment, open_environment
from benchmarks.fetch import FOLDER, SETS, fetch, use_packages
from benchmarks.systems import SYSTEMS, System
from benchmarks.tasks.attempt import terms
from benchmarks.tasks.compare_table import tables
from benchmarks.tasks.gateway import Caps, Gateway, upstream
from benchmarks.tasks.purse import Purse
from benchmarks.tasks.read_tasks import order
from benchmarks.tasks.rows import Row, latest, read_rows
from benchmarks.tasks.run import Plan, run_plan, say, systems_of

DEFAULT_SYSTEMS = "atc,function-calling,pydantic-ai-code,smolagents-code"
DEFAULT_SETS = "complexfuncbench,telecom,long,toolflow"
CAPS = Caps(model_calls=40, tokens=600_000, seconds=1_800.0)
"""Room for whoever makes one call a reply: telecom's policy and tools take 11,000 tokens of each prompt."""
TEMPERATURE = 0.3
LIST = Path(__file__).parent / "tasks" / "compare_tasks.txt"
"""The tasks of the published table, ``set/task`` a line, of each set in the order of its draw."""
WAITS = (2.0, 8.0, 30.0)
"""Seconds before a request is made anew that the endpoint was too busy for."""


@dataclass(frozen=True)
class Comparison:
    """What was asked for.

    Attributes:
        command: that goes on with it.
        left_out: why, for each set and system that is not there.
    """

    plan: Plan
    purse: Purse
    file: Path
    command: str
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def wanted(self) -> int:
        """How many tries there are to make."""
        return len(self.plan.systems) * sum(len(self.plan.tasks(place)) for place in self.plan.environments)

    def rows(self) -> list[Row]:
        """The tries of this comparison so far."""
        if not self.file.exists():
            return []
        tried = {(place.name, task.id) for place in self.plan.environments for task in self.plan.tasks(place)}
        names = {system.name for system in self.plan.systems}
        return [
            row
            for row in latest(read_rows(self.file))
            if (row.env, row.task) in tried
            and row.system in names
            and row.model == self.purse.model
            and row.terms == terms(self.plan.caps, self.plan.temperature)
        ]


class MoneyUsed(Exception):
    """No further try can be paid."""


def price_of(spec: str, settings: Settings, base_url: str | None = None) -> tuple[str, Price]:
    """A model's name and the price of its tokens; the embedded one costs nothing.

    Raises:
        SettingsError: the settings have no price for it; the message says how to give one.
        UsageError, ModelUnavailable: as :func:`atc.models.resolve.choose_model`.
    """
    choice = choose_model(spec, base_url=base_url)
    if choice.kind == "embedded":
        return EmbeddedModel(choice.model).name, Price(input=Decimal(0), output=Decimal(0))
    if (price := settings.prices.get(choice.model)) is None:
        given = f'{{"{choice.model}": {{"input": 0.15, "cached": 0.075, "output": 0.60}}}}'
        raise SettingsError(
            f"there is no price for {choice.model!r}, so nothing was asked: look up what its provider takes for a "
            f"million tokens, and give that: export ATC_PRICES={shlex.quote(given)} (or [prices] in an atc.toml that "
            "you trust)"
        )
    return choice.model, price


def opened_sets(names: Sequence[str], data: Path) -> tuple[list[Environment], dict[str, str]]:
    """Fetch what is missing of these sets, and open them. Those that cannot be opened then are named on stderr.

    Returns:
        The sets that are there; and for the others why they are not.
    """
    found, left_out = [], {}
    for name in names:
        problem = _fetched(name, data)
        use_packages(data)
        place = open_environment(name, data)
        try:
            place.tasks()
            found.append(place)
        except EnvironmentProblem as error:
            left_out[name] = problem or (str(error) if name in SETS else f"{error}; it cannot be fetched")
            err.print(f"left out: {left_out[name]}", markup=False)
    return found, left_out


def tasks_of_sets(places: Sequence[Environment], count: int) -> dict[str, list[str]]:
    """So many tasks of each set: those of the published table first, then others that are open, by their draw."""
    published = LIST.read_text(encoding="utf-8").splitlines()
    chosen = {}
    for place in places:
        there = {task.id for task in place.tasks()}
        names = [line.removeprefix(f"{place.name}/") for line in published if line.startswith(f"{place.name}/")]
        drawn = sorted(Plan([place], (), stated=True).tasks(place), key=partial(order, place))
        names = [name for name in names if name in there]
        chosen[place.name] = (names + [task.id for task in drawn if task.id not in names])[:count]
    return chosen


async def installed(systems: Sequence[System]) -> tuple[list[System], dict[str, str]]:
    """The systems that are there; and for the others why they are not, which stderr is told too.

    Raises:
        EnvironmentProblem: none is there.
    """
    found, left_out = [], {}
    for system in systems:
        try:
            await system.version()
            found.append(system)
        except EnvironmentProblem as error:
            left_out[system.name] = str(error)
            err.print(f"left out: {error}", markup=False)
    if not found:
        raise EnvironmentProblem("no system is there to try anything: see above")
    return found, left_out


def _fetched(name: str, data: Path) -> str:
    """Fetch a set where it is missing; why that was not possible, or nothing."""
    if (known := SETS.get(name)) is None:
        return ""
    homes = (data,) if known.files else (data, FOLDER)
    if all(known.missing(home) for home in homes):
        try:
            fetch(name, homes[-1], lambda line: err.print(line, markup=False))
        except EnvironmentProblem as error:
            return str(error)
    return ""


async def run(comparison: Comparison, model: str, base_url: str | None = None) -> None:
    """Run what the file does not hold yet, as far as the money goes.

    Raises:
        As :func:`benchmarks.tasks.run.run_plan`.
    """
    purse = comparison.purse

    def told(row: Row) -> None:
        purse.close_try()
        say(row)
        err.print(f"  {purse.so_far()}", markup=False)

    def over() -> str:
        if purse.next_try():
            raise MoneyUsed
        return ""

    with upstream(model, base_url=base_url) as source:
        async with Gateway(source, RESULTS / "replies", purse, WAITS).opened() as gateway:
            try:
                await run_plan(comparison.plan, gateway, comparison.file, told, over)
            except MoneyUsed:
                left = comparison.wanted - len([row for row in comparison.rows() if row.status != "environment"])
                err.print(f"{purse.closed}, {left} tries are left: {_more(purse)}", markup=False)
            finally:
                purse.close_try()  # of one that was interrupted, too


def _more(purse: Purse) -> str:
    return f"go on with --budget-money {purse.enough} at least"


def published_tasks(tasks: Mapping[str, Sequence[str]]) -> int:
    """How many of these tasks are of the published table."""
    published = set(LIST.read_text(encoding="utf-8").splitlines())
    return sum(f"{name}/{task}" in published for name, some in tasks.items() for task in some)


def page(comparison: Comparison, rows: Sequence[Row]) -> str:
    """What came of it, as Markdown: the tables, and all that somebody needs to repeat them."""
    plan, purse = comparison.plan, comparison.purse
    today = datetime.datetime.now(datetime.UTC).date()
    versions = {row.system: row.version for row in rows}
    tasks = {place.name: [task.id for task in plan.tasks(place)] for place in plan.environments}
    stopped = f" It stopped there: {purse.closed}; {_more(purse)}." if purse.closed else ""
    price = f"{purse.price.input} for a million tokens read, {purse.price.output} written"
    lines = [
        f"# `{purse.model}`: ATC and others on the same tasks",
        "",
        tables(rows) or "No try has a result yet.",
        "",
        "Solved, answered but wrong and unwanted effects are counts of tries and effects; the rest is a mean of a try.",
        "Unwanted effects are those of tools that the task has no use for, and those that were done again.",
        "",
        f"- {today}, {len(rows)} of {comparison.wanted} tries: "
        f"{', '.join(f'{name} {len(some)}' for name, some in tasks.items())}. The tasks are the same for all; "
        f"{published_tasks(tasks)} of them are of ATC's published table, and a hash drew the rest from the open ones.",
        *(f"- Left out: `{name}`: {' '.join(reason.split())}" for name, reason in comparison.left_out.items()),
        f"- Each try: {terms(plan.caps, plan.temperature)}. Public tasks may be known to a model.",
        f"- {purse.so_far()}, at {price} ({purse.currency}).{stopped}",
        *(
            f"- `{name}`: {SYSTEMS[name].about if name in SYSTEMS else name}, {version}"
            for name, version in versions.items()
        ),
        "",
        "```sh",
        comparison.command,
        "```",
        "",
    ]
    return "\n".join(lines)


@guarded
def main(
    model: Annotated[str, typer.Option(help="PROVIDER:NAME, as `atc run --model` takes it.")],
    budget_money: Annotated[
        float, typer.Option(min=0.01, help="The most that all requests may cost, of earlier runs too.")
    ],
    base_url: Annotated[
        str | None, typer.Option(help="Of an endpoint of the same form; else OPENAI_BASE_URL, or the provider's own.")
    ] = None,
    data: Annotated[
        Path, typer.Option(envvar="ATC_DATA", help="Directory of the sets; fetched where missing.")
    ] = FOLDER,
    systems: Annotated[str, typer.Option(help="As `benchmarks.tasks --system` takes them.")] = DEFAULT_SYSTEMS,
    sets: Annotated[str, typer.Option(help="Environments, as `benchmarks.tasks --env` takes them.")] = DEFAULT_SETS,
    tasks: Annotated[int, typer.Option(min=1, help="Of each set, the published table's first.")] = 10,
    file: Annotated[Path, typer.Option("--out", help="Where each try is kept.")] = RESULTS / "compare.jsonl",
    page_file: Annotated[Path, typer.Option("--page", help="Where the page is written.")] = RESULTS / "compare.md",
    as_json: AsJson = False,
) -> None:
    """Compare ATC with other agents on a model of your own, for a sum of money."""
    settings = Settings.load()
    name, price = price_of(model, settings, base_url)
    _writable(page_file)
    chosen, names = _systems(systems), listed(sets, [*ENVIRONMENTS, *NAMED], "sets")
    purse = _purse(file, name, price, budget_money, settings)
    there, missing = asyncio.run(installed(chosen))
    places, left_out = opened_sets(names, data)
    if not places:
        raise EnvironmentProblem("no set is there to compare on: see above")
    plan = Plan(places, there, only=tasks_of_sets(places, tasks), part="all", caps=CAPS, temperature=TEMPERATURE)
    command = shlex.join(["python", "-m", "benchmarks.compare", *sys.argv[1:]])
    comparison = Comparison(plan, purse, file, command, left_out | missing)
    try:
        asyncio.run(run(comparison, model, base_url))
    except KeyboardInterrupt:
        err.print(f"interrupted; what has ended is in {file}: the same command goes on from there", markup=False)
        _report(comparison, page_file, as_json)
        raise typer.Exit(INTERRUPTED) from None
    _report(comparison, page_file, as_json)
    if purse.closed:
        raise typer.Exit(NOT_SOLVED)


def _systems(text: str) -> list[System]:
    try:
        return systems_of(text)
    except UsageError as error:
        raise UsageError(str(error).replace("--system:", "--systems:", 1)) from None


def _purse(file: Path, model: str, price: Price, money: float, settings: Settings) -> Purse:
    """The money of a comparison. Where its file is gone, the tokens of the rows say what was spent."""
    rows = [row for row in read_rows(file) if row.model == model] if file.exists() else []
    tries = [price.cost(row.prompt_tokens, row.completion_tokens) for row in rows]
    kept = file.with_suffix(".money.json")
    purse = Purse(kept, model, price, Decimal(str(money)), settings.currency, tries)
    if tries and not kept.exists():
        err.print(f"{kept} is gone: the tokens of the tries in {file} count as {purse.so_far()}", markup=False)
    return purse


def _writable(file: Path) -> None:
    """Find out before anything is paid whether the page can be written."""
    there = file.exists()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8"):
            pass
        if not there:
            file.unlink()
    except OSError as error:
        raise _unwritable(file, error) from None


def _unwritable(file: Path, error: OSError) -> UsageError:
    return UsageError(f"--page: {file} cannot be written: {error.strerror}; name another")


def _report(comparison: Comparison, file: Path, as_json: bool) -> None:
    rows = comparison.rows()
    text = page(comparison, rows)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(file, error) from None
    if as_json:
        purse = comparison.purse
        spent: dict[str, Any] = {"spent": str(purse.spent), "currency": purse.currency, "over": purse.closed}
        spent |= {"enough": str(purse.enough) if purse.closed else None, "left_out": comparison.left_out}
        print_json(spent | {"tries": len(rows), "solved": sum(row.solved for row in rows), "page": str(file)})
    else:
        out.print(text, markup=False, soft_wrap=True)
        out.print(f"This page is {file}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
