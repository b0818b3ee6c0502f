"""How well tools are put in layers: those that supply others in earlier ones (RETO §3.2).

``python -m benchmarks.layers --data DIR`` compares all tools in one layer, what schemas say, the tool's own habit, the
predictor that ships, and what the product makes of all three, on the tasks of twelve sources whose calls stand in
layers; with ``--network`` the paper's network, too (extra ``train`` and an encoder), with ``--model NAME`` a model that
is asked. Held out are tenths of the tasks by hash (``within``), and each source as a whole (``across``; there nobody
has a habit; ``thirds``: four of them at once). ``--others`` adds tools that a task does not need. ``--write`` makes the
weights that ship.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from atc.cli.console import INTERRUPTED, err
from atc.errors import EnvironmentProblem, UsageError
from atc.graph import layer_model
from atc.models import open_model
from atc.retrieval.minilm import MiniLM
from benchmarks.common import print_json, show
from benchmarks.layers_asked import Asked
from benchmarks.layers_data import ANNOTATED, FOLDS, LICENSED, LayerData, LayerTask, layer_data
from benchmarks.layers_methods import Layers, Method, PairRows, Predictor, methods
from benchmarks.links_methods import KeptVectors
from benchmarks.retrieval import RESULTS

MOST = 400
"""Tasks of one source that are asked about."""
SPLITS = ("within", "across", "thirds")
THIRDS = (
    ("nestools", "tau2", "agentdojo", "tooltalk"),
    ("complexfuncbench", "seal_tools", "tmdb_gnn", "api_bank"),
    ("ultratool_gnn", "nestful", "comptoolbench", "bfcl_multi_turn"),
)
"""Sources that are held out together, where twelve trainings take too long."""
COMMAND = "python -m benchmarks.layers --data DIR --write"


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


def splits(data: LayerData, name: str, folds: int) -> Iterator[tuple[list[LayerTask], list[LayerTask]]]:
    """What is learnt from, and what is asked about."""
    every = [task for source in data.sources for task in asked(data, source)]
    if name == "across":
        for source in data.sources:
            yield [t for t in data.tasks if t.source != source], [t for t in every if t.source == source]
    elif name == "thirds":
        for some in THIRDS:
            yield [t for t in data.tasks if t.source not in some], [t for t in every if t.source in some]
    else:
        for fold in range(FOLDS - 1, FOLDS - 1 - folds, -1):
            validation = (fold - 1) % FOLDS
            taught = [t for t in data.tasks if t.fold not in (fold, validation)]
            yield taught, [t for t in every if t.fold == fold]


def measured(data: LayerData, method: Method, split: str, folds: int, *, others: bool) -> list[dict[str, Any]]:
    """The rows of one method: a source each, and the mean of the sources."""
    found: defaultdict[str, list[tuple[Layers, Layers]]] = defaultdict(list)
    for taught, tests in splits(data, split, folds):
        method.learn(taught)
        for task in tests:
            tools = [*task.layers, *(task.others if others else ())]
            tools.sort(key=lambda tool: hashlib.sha1(f"{task.id} {tool}".encode()).digest())
            found[task.source].append((task.layers, method.layers(task, tools)))
    key = {"split": split, "method": method.name}
    rows: list[dict[str, Any]] = [{**key, "source": each, **asdict(figures(found[each]))} for each in sorted(found)]
    means = {what: float(np.mean([row[what] for row in rows])) for what in ("exact", "pairs", "tau")}
    return [*rows, {**key, "source": "mean", "tasks": sum(row["tasks"] for row in rows), **means}]


def write(data: LayerData) -> str:
    """Make the weights that ship, of all tasks of sources with a licence; the digest of the file."""
    predictor = Predictor("ships", PairRows(data))
    predictor.learn(data.tasks)
    assert predictor.model is not None
    record = predictor.model.record()
    record["made"] = f"{COMMAND}; learnt from {', '.join(sorted(LICENSED & set(data.sources)))}"
    path = Path(layer_model.__file__).with_name("layer_weights.json")
    text = (json.dumps(record, indent=1) + "\n").encode()
    path.write_bytes(text)
    return hashlib.sha256(text).hexdigest()


def _networks(data: LayerData) -> list[Method]:
    """The paper's network, learnt from all sources and from those whose layers are data flow.

    Raises:
        EnvironmentProblem: torch, or the encoder, is not there.
    """
    from benchmarks.layers_network import Networked

    encoder = MiniLM(threads=1)
    encoder.check()
    vectors = KeptVectors(encoder, RESULTS / "layers")
    flows = frozenset(task.source for task in data.tasks) - ANNOTATED
    return [Networked("network", data, vectors), Networked("network, data flow", data, vectors, flows)]


def _show(rows: Sequence[Mapping[str, Any]], split: str, names: Sequence[str]) -> None:
    """A table with a line for each source, and for each method: exact layer, right order of pairs, τ."""
    lines: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        if row["split"] == split:
            lines[row["source"]][row["method"]] = f"{row['exact']:.0f} / {row['pairs']:.0f} / {row['tau']:.2f}"
            lines[row["source"]]["tasks"] = str(row["tasks"])
    table = [[source, *(cells.get(name, "") for name in ("tasks", *names))] for source, cells in lines.items()]
    show(f"Held out: {split} (exact layer %, right order of pairs %, τ)", ["source", "tasks", *names], table)


def main(
    data: Annotated[
        Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/, trajectories/.")
    ] = None,
    method: Annotated[str, typer.Option(help="Only these, by name, separated by `;`.")] = "",
    held_out: Annotated[str, typer.Option(help="`within`, `across`, `thirds`, or several.")] = "within,across",
    folds: Annotated[int, typer.Option(min=1, max=FOLDS, help="Tenths that are held out in turn.")] = FOLDS,
    others: Annotated[bool, typer.Option("--others", help="Add up to five tools that a task needs not.")] = False,
    write_weights: Annotated[bool, typer.Option("--write", help="Write the weights that ship.")] = False,
    network: Annotated[
        bool, typer.Option("--network", help="Train the paper's network too: minutes for each split.")
    ] = False,
    model: Annotated[str | None, typer.Option(help="Ask this model, too, as `atc run --model` takes it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The rows as JSON.")] = False,
) -> None:
    """Measure how well tools are put in layers."""
    if data is None:
        raise EnvironmentProblem("the benchmark of layers needs its data: give --data DIR or ATC_DATA")
    chosen = [each.strip() for each in held_out.split(",") if each.strip()]
    if wrong := [each for each in chosen if each not in SPLITS]:
        raise UsageError(f"nothing is held out as {wrong[0]!r}: take of {', '.join(SPLITS)}")
    found = layer_data(data)
    known = {each.name: each for each in [*methods(found), *(_networks(found) if network else [])]}
    asked_too = Asked(found, open_model(model)) if model else None
    if asked_too is not None:
        known[asked_too.name] = asked_too
    names = [name.strip() for name in method.split(";") if name.strip()] or list(known)
    if missing := [name for name in names if name not in known]:
        raise UsageError(f"there is no method {missing[0]!r}: take of {'; '.join(known)}")
    if write_weights:
        err.print(f"atc.graph.layer_model.SHA256 = {write(found)!r}", markup=False)
    rows: list[dict[str, Any]] = []
    try:
        for split in chosen:
            for name in names:
                if split != "within" and ("habit" in name or name == Asked.name):
                    continue  # nobody has called these tools yet; and a model that is asked learns nothing
                rows += measured(found, known[name], split, folds, others=others)
                err.print(f"{name}, {split}", markup=False)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    finally:
        if asked_too is not None:
            asked_too.close()
    if as_json:
        print_json({"others": others, "rows": rows})
        return
    for split in chosen:
        _show(rows, split, [name for name in names if any(r["method"] == name and r["split"] == split for r in rows)])


if __name__ == "__main__":
    typer.run(main)
