"""How well tools are put in layers: those that supply others in earlier ones (RETO §3.2).

``python -m benchmarks.layers --data DIR`` compares all tools in one layer, what schemas say, the tool's own habit, and
what the product makes of schemas and habits, on the tasks of twelve sources whose calls stand in layers. A task is left
out of the habits that it is asked with. ``--others`` adds tools that a task does not need.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from atc.cli.console import INTERRUPTED, err
from atc.errors import EnvironmentProblem, UsageError
from benchmarks.common import print_json, show
from benchmarks.layers_data import LayerData, LayerTask, layer_data
from benchmarks.layers_methods import Layers, Method, methods

MOST = 400
"""Tasks of one source that are asked about."""


@dataclass(frozen=True)
class Figures:
    """Of some tasks: shares in percent, and Kendall's τ-b.

    Attributes:
        exact: tools in their very layer.
        pairs: of the pairs of tools in different layers, those in the right order; two tools in one layer count half.
        tau: over all pairs of a task, where order that is not there counts too; the mean of the tasks.
    """

    tasks: int
    exact: float
    pairs: float
    tau: float


def tau_b(right: Sequence[int], found: Sequence[int]) -> float:
    """Kendall's τ-b of two sequences of layers, from -1 to 1; 0 where one of them has one layer only."""
    signs = [
        (np.sign(right[i] - right[j]), np.sign(found[i] - found[j])) for i, j in combinations(range(len(right)), 2)
    ]
    both = float(sum(a * b for a, b in signs))
    untied = sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs)
    return both / float(np.sqrt(untied)) if untied else 0.0


def figures(rows: Sequence[tuple[Layers, Layers]]) -> Figures:
    """The figures of some tasks, each by its right layers and those that were found."""
    exact, pairs, taus = [], [], []
    for right, found in rows:
        exact += [found[tool] == layer for tool, layer in right.items()]
        for a, b in combinations(right, 2):
            if right[a] != right[b]:
                first, second = (a, b) if right[a] < right[b] else (b, a)
                pairs.append(1.0 if found[first] < found[second] else 0.5 if found[first] == found[second] else 0.0)
        taus.append(tau_b(list(right.values()), [found[tool] for tool in right]))
    return Figures(len(rows), 100 * float(np.mean(exact)), 100 * float(np.mean(pairs)), float(np.mean(taus)))


def asked(data: LayerData, source: str) -> list[LayerTask]:
    """The tasks of a source that are asked about: those with several layers, at most 400 by hash."""
    some = [task for task in data.tasks if task.source == source and task.ordered]
    return sorted(some, key=lambda task: hashlib.sha1(task.id.encode()).digest())[:MOST]


def measured(data: LayerData, method: Method, *, others: bool) -> list[dict[str, Any]]:
    """The rows of one method: a source each, and the mean of the sources."""
    rows: list[dict[str, Any]] = []
    for source in data.sources:
        found: list[tuple[Layers, Layers]] = []
        for task in asked(data, source):
            tools = _shuffled(task, [*task.layers, *(task.others if others else ())])
            found.append((task.layers, method.layers(task, tools)))
        rows.append({"method": method.name, "source": source, **asdict(figures(found))})
    means = {what: float(np.mean([row[what] for row in rows])) for what in ("exact", "pairs", "tau")}
    tasks = sum(row["tasks"] for row in rows)
    return [*rows, {"method": method.name, "source": "mean", "tasks": tasks, **means}]


def _shuffled(task: LayerTask, tools: Sequence[str]) -> list[str]:
    """Tools in an order of no meaning, the same every time."""
    return sorted(tools, key=lambda tool: hashlib.sha1(f"{task.id} {tool}".encode()).digest())


def _show(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    """A table with a line for each source, and for each method: exact layer, right order of pairs, τ."""
    lines: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        lines[row["source"]][row["method"]] = f"{row['exact']:.0f} / {row['pairs']:.0f} / {row['tau']:.2f}"
        lines[row["source"]]["tasks"] = str(row["tasks"])
    table = [[source, *(cells.get(name, "") for name in ("tasks", *names))] for source, cells in lines.items()]
    show("Layers (exact layer %, right order of pairs %, τ)", ["source", "tasks", *names], table)


def main(
    data: Annotated[
        Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/, trajectories/.")
    ] = None,
    method: Annotated[str, typer.Option(help="Only these, by name, separated by `;`.")] = "",
    others: Annotated[bool, typer.Option("--others", help="Add up to five tools that a task needs not.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The rows as JSON.")] = False,
) -> None:
    """Measure how well tools are put in layers."""
    if data is None:
        raise EnvironmentProblem("the benchmark of layers needs its data: give --data DIR or ATC_DATA")
    found = layer_data(data)
    known = {each.name: each for each in methods(found)}
    names = [name.strip() for name in method.split(";") if name.strip()] or list(known)
    if missing := [name for name in names if name not in known]:
        raise UsageError(f"there is no method {missing[0]!r}: take of {'; '.join(known)}")
    rows: list[dict[str, Any]] = []
    try:
        for name in names:
            rows += measured(found, known[name], others=others)
            err.print(name, markup=False)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json({"others": others, "rows": rows})
        return
    _show(rows, names)


if __name__ == "__main__":
    typer.run(main)
