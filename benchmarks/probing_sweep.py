"""N and β of ATC §4: what probing recovers of the true documents, by the tries of a tool and by the rounds.

``python -m benchmarks.probing_sweep [--tries 1,2,3,5] [--rounds 4] [--model none|embedded|NAME] [--data DIR]``

The services are those of :mod:`benchmarks.probing`: Atlas over HTTP, and with ``--data`` the five recorded ones, whose
identifiers must be known to be taken. N is how often a tool is tried in a round until it answers. Without a model these
are the ways that structure finds to call it, the likeliest first (the product tries four that are likely and two more:
``FIRST_STRUCTURAL`` and ``LAST_STRUCTURAL`` in :mod:`atc.probing.explore`); with one they are the programs that the
model writes beside those. β is the number of rounds: one probing of
four rounds says what was documented after each; a tool that was documented later counts as told by its names alone.

Shares are over all tools that only read. Rows are kept in ``--out``; the same command goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import add
from pathlib import Path
from typing import Annotated, Any
from unittest import mock

import typer

from atc.cli.console import err, guarded, print_json
from atc.errors import UsageError
from atc.probing import explore
from benchmarks.common import show
from benchmarks.probing import Run, atlas, measure
from benchmarks.probing_records import recorded
from benchmarks.probing_truth import Score, Service, compare
from benchmarks.systems.atc import sources_digest

FILE = Path(__file__).with_name("results") / "probing_sweep.jsonl"
MEASURES = {"documented": "Documented", "returns": "Fields of responses: recall", "arguments": "Arguments: types"}
Counts = dict[str, list[int]]
"""By measure, what was reached and what there is."""


@contextmanager
def structural(tries: int) -> Iterator[None]:
    """Structure tries a tool so often in a round."""
    with mock.patch.multiple(explore, FIRST_STRUCTURAL=0, LAST_STRUCTURAL=tries):
        yield


def by_rounds(run: Run, service: Service, rounds: int) -> list[Counts]:
    """What is recovered after each number of rounds, from none on."""
    found = []
    for number in range(rounds + 1):
        counts = {what: Score() for what in ("returns", "arguments")}
        known = {name for name, tool in run.tools.items() if 1 <= tool.line.round <= number}
        for name, tool in run.tools.items():
            truth = service.truth[name]
            for what in counts:
                all_missing = compare(getattr(truth, what), {})
                counts[what] += (getattr(tool, what) if name in known else all_missing).score
        found.append(
            {"documented": [len(known), len(run.tools)]}
            | {what: [score.right, score.true] for what, score in counts.items()}
        )
    return found


def added(several: Sequence[Counts]) -> dict[str, float]:
    """Shares of 1 over several services together."""
    together = {m: [reduce(add, (counts[m][place] for counts in several)) for place in (0, 1)] for m in MEASURES}
    return {what: reached / max(1, there) for what, (reached, there) in together.items()}


def swept(
    services: Sequence[Service], model: str, tries: Sequence[int], rounds: int, file: Path
) -> list[dict[str, Any]]:
    """A row for each service and N: those of the file, and what is missing.

    Raises:
        UsageError: the file cannot be read or written.
    """
    terms = [model, rounds, sources_digest()]
    rows = [row for row in _kept(file) if row["terms"] == terms]
    done = {(row["service"], row["tries"]) for row in rows}
    wanted = [(service, number) for service in services for number in tries]
    for service, number in wanted:
        if (service.name, number) in done:
            continue
        if model == "none":
            with structural(number):
                run = measure(service, None, rounds, seed=0, tries=0)
        else:
            run = measure(service, model, rounds, seed=0, tries=number)
        row = {"service": service.name, "tries": number, "terms": terms, "calls": run.report.calls}
        row |= {"model_calls": run.report.model_calls, "writes": run.writes}
        row |= {"rounds": by_rounds(run, service, rounds)}
        rows.append(row)
        try:
            with file.open("a", encoding="utf-8") as lines:
                lines.write("\n" + json.dumps(row) + "\n")  # a line that was cut off stays a line of its own
        except OSError as error:
            raise UsageError(f"rows cannot be kept in {file}: {error.strerror}; name another --out") from None
        err.print(f"{service.name}, N {number}: {run.documented:.1%} documented, {run.seconds:.0f} s", markup=False)
    names = {(service.name, number) for service, number in wanted}
    return [row for row in rows if (row["service"], row["tries"]) in names]


def _kept(file: Path) -> list[dict[str, Any]]:
    """The rows of a file; none where it is not there yet. A line that was cut off is left out."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the rows in {file} cannot be read: {error.strerror}; name another --out") from None
    rows = []
    for line in filter(None, text.splitlines()):
        try:
            rows.append(json.loads(line))
        except ValueError:
            err.print(f"{file}: a line that is no row is left out", markup=False)
    return [row for row in rows if isinstance(row, dict) and "terms" in row]


@guarded
def main(
    tries: Annotated[str, typer.Option(help="N, comma-separated.")] = "1,2,3,5",
    rounds: Annotated[int, typer.Option(min=1, help="The largest β.")] = 4,
    model: Annotated[str, typer.Option(help="none, embedded, or as in the settings.")] = "none",
    only: Annotated[str, typer.Option(help="Services, comma-separated; all, if not said.")] = "",
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with restbench/.")] = None,
    file: Annotated[Path, typer.Option("--out", help="Where rows are kept.")] = FILE,
    as_json: Annotated[bool, typer.Option("--json", help="The rows as JSON.")] = False,
) -> None:
    """Sweep N and β of the chain of probing."""
    services = [atlas("bare"), *(recorded(data)[0] if data is not None else ())]
    if only:
        names = [name.strip() for name in only.split(",")]
        services = [service for service in services if service.name.startswith(tuple(names))]
    if not services:
        raise UsageError(f"--only: no service begins with {only!r}; the recorded ones need --data DIR")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in tries.split(",")):
        raise UsageError(f"--tries takes numbers from 1 on and commas, not {tries!r}")
    numbers = [int(part) for part in tries.split(",")]
    rows = swept(services, model, numbers, rounds, file)
    if as_json:
        print_json(rows)
        return
    tools = sum(len(service.truth) for service in services)
    lines: dict[str, list[list[object]]] = {what: [] for what in MEASURES}
    for number in numbers:
        own = [row for row in rows if row["tries"] == number]
        shares = [added([row["rounds"][beta] for row in own]) for beta in range(rounds + 1)]
        calls = sum(row["calls"] for row in own)
        for what, found in lines.items():
            found.append([number, *(f"{100 * share[what]:.1f} %" for share in shares), calls])
    for what, title in MEASURES.items():
        heads = ("N", *(f"β = {beta}" for beta in range(rounds + 1)), "calls")
        show(f"{title}, {tools} tools of {len(services)} services, model {model}", heads, lines[what])
    writes = sum(row["writes"] for row in rows)
    if writes:
        err.print(f"{writes} calls would have changed something", markup=False)
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
