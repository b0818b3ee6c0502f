"""``atc tools learn``: commands of other packages that train on tools or runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from atc.cli import command_of, options
from atc.cli.console import clean, err, guarded
from atc.errors import EnvironmentProblem, UsageError
from atc.parts import LEARN
from atc.settings import Settings
from atc.tools.tool import Toolset
from atc.traces.stores.base import RunStore

RESEARCH = frozenset({"codes", "decoder", "links", "planner", "trajectories"})
"""The names of those in ``research/``, a package of its own that who wants to train installs."""


class Learners(TyperGroup):
    """The commands of :data:`atc.parts.LEARN`, each imported when it is named; and all of them for the help."""

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
    """What another package has under a name of `atc tools learn`; ``None`` where there is nothing.

    Raises:
        UsageError: two packages have this name, or its code cannot be imported.
        EnvironmentProblem: it is a name of ``research/``, which is not installed.
    """
    if LEARN.has(name):
        return LEARN.load(name)
    if name in RESEARCH:
        raise EnvironmentProblem(
            f"`atc tools learn {name}` is in the package atc-runtime-research, which is not installed: "
            "run `pip install ./research` in a checkout of ATC"
        )
    return None


def _refusing(name: str, problem: UsageError | EnvironmentProblem) -> Any:
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
def learn(context: typer.Context) -> None:
    """Train something on your tools or runs. The commands are those of other packages that are installed with ATC."""
    if context.invoked_subcommand is not None:
        return
    report_links(LEARN.has("links"))
    there = ", ".join(LEARN.names())
    raise UsageError(
        f"name what is trained: {there}" if there else "no package that trains is installed: `pip install ./research`"
    )


LINKS = "links.json"
"""The model that ``atc tools learn links`` keeps beside what runs taught. What it predicted is in the graph already."""


def report_links(used: bool) -> None:
    """Print a line if the folder has a model of links, and no package that uses it is installed."""
    if not used and (file := Settings.load().catalogue / LINKS).exists():
        err.print(
            f"atc: {file} is not used: `atc tools learn links` is in atc-runtime-research", markup=False, style="yellow"
        )


def tools_or_latest(runs: RunStore, source: options.Source) -> Toolset:
    """The tools of a source; if it names none, those of the latest run that says where its tools were.

    Raises:
        UsageError: no run says so.
    """
    if source.tools:
        return source.opened()
    latest = latest_source(runs)
    openapi = [*(latest.openapi or ()), *(source.openapi or ())]
    only, documents = source.only or latest.only, source.documents or latest.documents
    return options.Source(latest.tools, only, documents, openapi).opened()


def latest_source(runs: RunStore) -> options.Source:
    """Where the tools of the latest run are that says so. What others may have written is not taken for it.

    Raises:
        UsageError: none does.
    """
    strange = ""
    for stored in runs.list():
        try:
            source = options.Source.of_note((stored.first("run_started") or {}).get("source"))
        except (OSError, UsageError):
            continue
        if source.tools:
            if not (why := stored.why_strange()):
                return source
            strange = strange or f" ({stored.run_id} does, but {why})"
    raise UsageError(f"no run in {runs.where} says where its tools were{strange}: name them with --tools")
