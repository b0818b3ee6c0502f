"""``atc tools learn trajectories``: conversations that teach a model to plan and to search (ToolQP §3.2)."""

from __future__ import annotations

import warnings
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from atc import LexicalOnly, Model, Settings, UsageError
from atc.plugins.commands import NOT_SOLVED, SOLVED, clean, err, guarded, options, out, print_json
from atc.plugins.learning import Budget, BudgetedModel, ToolIndex, resolve_model, wait_for
from atc_research.examples import read_examples
from atc_research.toolqp.dataset import Output, Progress, synthesise
from atc_research.toolqp.dialogue import PRODUCT
from atc_research.toolqp.document_teacher import NAME, DocumentSynthesiser
from atc_research.toolqp.paper_planner import PAPER
from atc_research.toolqp.trajectories import Skipped, Synthesiser, Trajectory


@guarded
def trajectories(
    queries: Annotated[
        Path, typer.Argument(help="Tasks with known tools: JSON Lines with `query` and `gold` (ids in the index).")
    ],
    index: Annotated[Path, typer.Option(help="Folder of the index that the tools are found in.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File to write; a run goes on where an earlier one stopped.")
    ],
    teacher: Annotated[
        str | None,
        typer.Option(
            help="Who writes: `embedded`, `embedded:NAME`, a model at the endpoint; or `documents`, which is no model."
        ),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="OpenAI-compatible endpoint of the model; default: OPENAI_BASE_URL.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Use only this many of the first tasks.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 0,
    candidates: Annotated[int, typer.Option(min=1, max=32, help="Queries that the teacher writes in an attempt.")] = 4,
    turns: Annotated[
        Literal["product", "paper"],
        typer.Option(help="How they are written: as a run with `planned` speaks, or as ToolQP: a query for each step."),
    ] = "product",
    as_json: options.Json = False,
) -> None:
    """Make conversations that teach a model to plan and to search, each query verified against the index.

    Exit codes: 0 there are trajectories, 1 there are none, 2 wrong use, 3 something is missing in the environment.
    """
    examples = read_examples(queries, limit)
    if output.exists() and output.samefile(queries):
        raise UsageError(f"{output} is the file of the tasks itself: name another one to write to (-o)")
    tools = ToolIndex.load(index)
    _report_words_alone(tools)
    spent = Budget()
    with Output(output) as made:
        writer = PAPER if turns == "paper" else PRODUCT
        if teacher == NAME:
            synthesiser: Synthesiser = DocumentSynthesiser(tools, seed=seed, turns=writer)
        else:
            model = BudgetedModel(_opened(teacher, base_url), spent)
            synthesiser = Synthesiser(tools, model, seed=seed, candidates=candidates, turns=writer)
        before = len(made.made)
        view = _View(silent=as_json)
        try:
            wait_for(_closing(synthesise(examples, tools, synthesiser, made, view), synthesiser.teacher))
        except BaseException:
            if made.made:
                kept = f"{len(made.made)} trajectories are kept in {output}: run it again to go on"
                err.print(f"atc: {kept}", markup=False)
            raise
        finally:
            view.close()
    summary = {
        "output": str(output),
        "trajectories": len(made.made),
        "new": len(made.made) - before,
        "skipped": len(made.skipped),
        "model_calls": spent.calls_used,
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
    }
    if as_json:
        print_json(summary)
    else:
        out.print(
            f"{len(made.made)} trajectories in {output}, {len(made.made) - before} of them new; "
            f"{len(made.skipped)} tasks skipped{f', see {made.skipped_path}' if made.skipped else ''}; "
            f"{spent.calls_used:,} model calls ({spent.prompt_tokens:,}+{spent.completion_tokens:,} tokens)",
            markup=False,
        )
    raise typer.Exit(SOLVED if made.made else NOT_SOLVED)


def _opened(teacher: str | None, base_url: str | None) -> Model:
    return resolve_model(Settings.load(base_url=base_url), teacher)


async def _closing(work: Coroutine[Any, Any, None], model: Model) -> None:
    try:
        await work
    finally:
        await model.aclose()


def _report_words_alone(index: ToolIndex) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LexicalOnly)
        index.search("tool", limit=1, mode="hybrid")
    for warning in caught:
        err.print(f"atc: {clean(str(warning.message))}", markup=False)


class _View:
    """How far it is: a bar on a terminal, a line a task elsewhere."""

    def __init__(self, *, silent: bool) -> None:
        self._silent, self._bar = silent, None
        if not silent and err.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, console=err, transient=True)
            self._task = self._bar.add_task("tasks", total=None)
            self._bar.start()

    def __call__(self, progress: Progress) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=progress.done, total=progress.total)
        elif not self._silent and progress.found is not None:
            err.print(f"[{progress.done}/{progress.total}] {clean(_line(progress.found))}", markup=False)

    def close(self) -> None:
        """End the drawing."""
        if self._bar is not None:
            self._bar.stop()


def _line(found: Trajectory | Skipped) -> str:
    what = f"skipped, {found.why}" if isinstance(found, Skipped) else f"{len(found.attempts)} queries"
    return f"{found.example.id}: {what}"
