"""Compare ATC with other agents on a model of your own, for a sum of money: ``python -m benchmarks.compare``.

The same tasks, tools and caps for every system; the tables are those of docs/benchmarks/solved.md. Sets that are not
there are fetched (:mod:`benchmarks.fetch`). Money is counted by the tokens of all requests, at the prices of ATC's
settings; when what is left would not pay the next try, the command stops, and with more money it goes on.
"""

from __future__ import annotations

import asyncio
import datetime
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer

from atc._records.prices import Price
from atc.cli.console import INTERRUPTED, err, guarded, out, print_json
from atc.errors import EnvironmentProblem, SettingsError, UsageError
from atc.models.embedded import EmbeddedModel
from atc.models.resolve import choose_model
from atc.settings import Settings
from benchmarks.attempt import terms
from benchmarks.common import AsJson, listed
from benchmarks.compare_table import tables
from benchmarks.environments import ENVIRONMENTS, NAMED, Environment, open_environment
from benchmarks.fetch import FOLDER, SETS, fetch, use_packages
from benchmarks.gateway import Caps, Gateway, upstream
from benchmarks.purse import Purse
from benchmarks.rows import Row, latest, read_rows
from benchmarks.systems import SYSTEMS
from benchmarks.tasks import RESULTS, Plan, run_plan, say, systems_of

DEFAULT_SYSTEMS = "atc,function-calling,pydantic-ai-code,smolagents-code"
DEFAULT_SETS = "complexfuncbench,telecom,long,toolflow"
CAPS = Caps(model_calls=40, tokens=600_000, seconds=1_800.0)
"""Room for whoever makes one call a reply: telecom's policy and tools take 11,000 tokens of each prompt."""
TEMPERATURE = 0.3
WAITS = (2.0, 8.0, 30.0)
"""Seconds before a request is made anew that the endpoint was too busy for."""


@dataclass(frozen=True)
class Comparison:
    """What was asked for.

    Attributes:
        command: that goes on with it.
    """

    plan: Plan
    purse: Purse
    file: Path
    command: str

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


def price_of(spec: str, settings: Settings) -> tuple[str, Price]:
    """A model's name and the price of its tokens; the embedded one costs nothing.

    Raises:
        SettingsError: the settings have no price for it; the message says how to give one.
        UsageError, ModelUnavailable: as :func:`atc.models.resolve.choose_model`.
    """
    choice = choose_model(spec)
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


def opened_sets(names: Sequence[str], data: Path) -> list[Environment]:
    """Fetch what is missing of these sets, and open them. Those that cannot be opened then are named on stderr."""
    found = []
    for name in names:
        problem = _fetched(name, data)
        use_packages(data)
        place = open_environment(name, data)
        try:
            place.tasks()
            found.append(place)
        except EnvironmentProblem as error:
            err.print(f"left out: {problem or error}", markup=False)
    return found


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


async def run(comparison: Comparison, model: str) -> None:
    """Run what the file does not hold yet, as far as the money goes.

    Raises:
        As :func:`benchmarks.tasks.run_plan`.
    """

    def told(row: Row) -> None:
        say(row)
        err.print(f"  {comparison.purse.so_far()}", markup=False)

    with upstream(model) as source:
        purse = comparison.purse
        async with Gateway(source, RESULTS / "replies", purse, WAITS).opened() as gateway:
            await run_plan(comparison.plan, gateway, comparison.file, told, purse.next_try)


def page(comparison: Comparison, rows: Sequence[Row]) -> str:
    """What came of it, as Markdown: the tables, and all that somebody needs to repeat them."""
    plan, purse = comparison.plan, comparison.purse
    today = datetime.datetime.now(datetime.UTC).date()
    versions = {row.system: row.version for row in rows}
    tasks = {place.name: len(plan.tasks(place)) for place in plan.environments}
    wanted = len(plan.systems) * sum(tasks.values())
    stopped = f" It stopped there: {purse.closed}." if purse.closed else ""
    price = f"{purse.price.input} for a million tokens read, {purse.price.output} written"
    lines = [
        f"# `{purse.model}`: ATC and others on the same tasks",
        "",
        tables(rows) or "No try has a result yet.",
        "",
        "Solved, answered but wrong and unwanted effects are counts of tries and effects; the rest is a mean of a try.",
        "Unwanted effects are those of tools that the task has no use for, and those that were done again.",
        "",
        f"- {today}, {len(rows)} of {wanted} tries: {', '.join(f'{name} {count}' for name, count in tasks.items())}, "
        "the same tasks for all, of those that are open, drawn by a hash of their names.",
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
    data: Annotated[
        Path, typer.Option(envvar="ATC_DATA", help="Directory of the sets; fetched where missing.")
    ] = FOLDER,
    systems: Annotated[str, typer.Option(help="As `benchmarks.tasks --system` takes them.")] = DEFAULT_SYSTEMS,
    sets: Annotated[str, typer.Option(help="Environments, as `benchmarks.tasks --env` takes them.")] = DEFAULT_SETS,
    tasks: Annotated[int, typer.Option(min=1, help="Of each set, always the same.")] = 10,
    file: Annotated[Path, typer.Option("--out", help="Where each try is kept.")] = RESULTS / "compare.jsonl",
    page_file: Annotated[Path, typer.Option("--page", help="Where the page is written.")] = RESULTS / "compare.md",
    as_json: AsJson = False,
) -> None:
    """Compare ATC with other agents on a model of your own, for a sum of money."""
    settings = Settings.load()
    name, price = price_of(model, settings)
    chosen, names = systems_of(systems), listed(sets, [*ENVIRONMENTS, *NAMED], "sets")
    places = opened_sets(names, data)
    if not places:
        raise EnvironmentProblem("no set is there to compare on: see above")
    purse = Purse(file.with_suffix(".money.json"), name, price, Decimal(str(budget_money)), settings.currency)
    plan = Plan(places, chosen, sample=tasks, stated=True, caps=CAPS, temperature=TEMPERATURE)
    command = shlex.join(["python", "-m", "benchmarks.compare", *sys.argv[1:]])
    comparison = Comparison(plan, purse, file, command)
    try:
        asyncio.run(run(comparison, model))
    except KeyboardInterrupt:
        err.print(f"interrupted; what has ended is in {file}: the same command goes on from there", markup=False)
        _report(comparison, page_file, as_json)
        raise typer.Exit(INTERRUPTED) from None
    _report(comparison, page_file, as_json)


def _report(comparison: Comparison, file: Path, as_json: bool) -> None:
    rows = comparison.rows()
    text = page(comparison, rows)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--page: {file} cannot be written: {error.strerror}; name another") from None
    if as_json:
        purse = comparison.purse
        spent = {"spent": str(purse.spent), "currency": purse.currency, "over": purse.closed}
        print_json(spent | {"tries": len(rows), "solved": sum(row.solved for row in rows), "page": str(file)})
    else:
        out.print(text, markup=False, soft_wrap=True)
        out.print(f"This page is {file}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
