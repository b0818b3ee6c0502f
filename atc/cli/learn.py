"""``atc learn``: what the user's own runs teach the ranking of tools; and commands of other packages that train."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from atc.cli import options
from atc.cli.console import clean, guarded
from atc.cli.lazy import command_of
from atc.errors import EnvironmentProblem, UsageError
from atc.plugins import LEARN

RESEARCH = frozenset({"codes", "decoder", "links", "planner", "trajectories"})
"""The names of those in ``research/``, a package of its own that who wants to train installs."""


class Learners(TyperGroup):
    """The commands of :data:`atc.plugins.LEARN`, each imported when it is named; and all of them for the help."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted({*super().list_commands(ctx), *LEARN.names()})

    def get_command(self, ctx: Any, name: str) -> Any:
        """A command; ``None`` where nothing has this name. One that cannot be had says so when it runs."""
        if (built_in := super().get_command(ctx, name)) is not None:
            return built_in  # no other package can take its name
        try:
            found = learner(name)
        except (UsageError, EnvironmentProblem) as error:
            return _refusing(name, error)
        return None if found is None else command_of(name, found)


def learner(name: str) -> Any:
    """What another package has under a name of `atc learn`; ``None`` where there is nothing.

    Raises:
        UsageError: two packages have this name, or its code cannot be imported.
        EnvironmentProblem: it is a name of ``research/``, which is not installed.
    """
    if LEARN.has(name):
        return LEARN.load(name)
    if name in RESEARCH:
        raise EnvironmentProblem(
            f"`atc learn {name}` is in the package atc-runtime-research, which is not installed: "
            "run `pip install ./research` in a checkout of ATC"
        )
    return None


def _refusing(name: str, problem: UsageError | EnvironmentProblem) -> Any:
    """A command that takes whatever it is given, and ends with a problem."""

    @guarded
    def refuse(
        given: Annotated[list[str] | None, typer.Argument(hidden=True)] = None, as_json: options.Json = False
    ) -> None:
        raise problem

    return command_of(
        name,
        refuse,
        help=clean(str(problem)),
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
    )


app = typer.Typer(cls=Learners)


@app.callback(invoke_without_command=True)
@guarded
@options.takes()
def learn(
    context: typer.Context,
    pairs: Annotated[
        Path | None,
        typer.Option(help="Queries with known tools: JSON Lines with `query` and `gold`; else your own answered runs."),
    ] = None,
    source: options.Source = options.NOWHERE,
    index: Annotated[
        Path | None, typer.Option("--index", "-i", help="Folder of an index of the tools (`atc tools index`).")
    ] = None,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Go back to what was there before the last time.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 0,
    as_json: options.Json = False,
) -> None:
    """Learn from your own runs which tools your tasks are for, so that the right ones come first.

    It takes seconds on this machine, and 25 answered runs or more. What is learnt is one small matrix: no text of a
    task is in it. It is kept only where queries that were held out are ranked better, beyond chance, and those for
    other tools no worse. A package that is installed beside ATC may have commands that train something else.

    Exit codes: 0 done, 1 too little to learn from, 2 wrong use, 3 something is missing in the environment.
    """
    if context.invoked_subcommand is not None:
        return
    from atc.cli import learn_ranking

    learn_ranking.report_links(LEARN.has("links"))
    learn_ranking.learn(pairs, source, index, rollback=rollback, seed=seed, as_json=as_json)
