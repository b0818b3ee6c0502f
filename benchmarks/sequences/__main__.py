"""Tasks in an order over one catalogue of many tools, some of which break from the middle on.

``python -m benchmarks.sequences --data DIR [--system default,no-learn|all] [--seeds 0,1,2] [--tasks N] [--out FILE]``
lets each system go through each sequence, learning as it goes, by the tasks' own solutions as programs
(:mod:`benchmarks.sequences.script`); ``--model`` and ``--base-url`` let a model write them, and ``--pick N`` takes so
many of the tasks, spread over the sequence. Each try is a line of ``--out``, and what was learnt is kept beside it:
started again it goes on where it was. ``--summary FILE`` prints the table of a file.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from atc.cli.console import INTERRUPTED, err, guarded
from atc.errors import UsageError
from atc.models.base import Model
from atc.models.openai_compatible import OpenAICompatible
from atc.sandboxes.drivers import open_sandbox
from atc.settings import Settings
from benchmarks.common import RESULTS, AsJson, MaybeData, listed, print_json, show
from benchmarks.sequences.play import MODEL_CALLS, TOKENS, Play
from benchmarks.sequences.rows import Row, latest, publish, read_rows
from benchmarks.sequences.systems import SYSTEMS, System
from benchmarks.sequences.table import COLUMNS, figures, lines
from benchmarks.sequences.world import Step, World
from benchmarks.systems.atc import sources_digest
from benchmarks.tasks.gateway import PATIENCE_S, upstream
from benchmarks.tasks.run import seeds_of

SCRIPTED = "scripted"
LOST = "failed"
"""How a run ends whose model failed in the middle: that task is tried again on a restart."""


def picked(steps: Sequence[Step], count: int | None) -> list[Step]:
    """So many steps of a sequence, the same number of each third; of those that need a broken tool half, where there
    are so many; and within both evenly spread. All without a count."""
    if count is None or count >= len(steps):
        return list(steps)
    chosen: list[Step] = []
    thirds = sorted({step.third for step in steps})
    for place, third in enumerate(thirds):
        room = count * (place + 1) // len(thirds) - count * place // len(thirds)
        own = [step for step in steps if step.third == third]
        broken = _spread([step for step in own if step.broken.keys() & set(step.tools)], room // 2)
        chosen += broken + _spread([step for step in own if step not in broken], room - len(broken))
    return sorted(chosen, key=lambda step: step.number)


def _spread(steps: Sequence[Step], count: int) -> list[Step]:
    count = min(count, len(steps))
    return [steps[len(steps) * number // count] for number in range(count)]


@contextmanager
def opened_model(spec: str, base_url: str | None) -> Iterator[Model | None]:
    """The model that writes the programs; ``None`` for the script.

    Raises:
        UsageError, ModelUnavailable: as :func:`benchmarks.tasks.gateway.upstream`.
    """
    if spec == SCRIPTED:
        yield None
        return
    with upstream(spec, base_url=base_url) as source:
        yield OpenAICompatible(
            source.model,
            source.url,
            source.api_key or None,
            timeout_s=PATIENCE_S,
            stall_s=PATIENCE_S,
            context_tokens=source.context_tokens,
            name=source.name,
            direct=source.direct,
        )


def sequence_digest() -> str:
    """Of what decides which tasks there are, what breaks, and what the script writes."""
    digest = hashlib.sha256()
    for name in ("world", "services", "twins", "breaking", "script", "play"):
        digest.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    return digest.hexdigest()[:8]


def folder_of(file: Path, system: str, seed: int, model: str, version: str, terms: str) -> Path:
    """Where one sequence keeps what it learns."""
    name = re.sub(r"[^\w.-]+", "-", f"{system} {seed} {model} {version} {terms}")
    return file.with_suffix(".catalogues") / name


async def run(
    data: Path | None,
    systems: Sequence[System],
    seeds: Sequence[int],
    model: Model | None,
    tasks: int,
    distractors: int,
    pick: int | None,
    file: Path,
) -> None:
    """Let each system go through each sequence, as far as the file does not have it yet.

    Raises:
        UsageError: what a sequence has learnt so far is gone, or the file cannot be written.
        EnvironmentProblem: no data, no model, no sandbox.
    """
    version, name = f"{sources_digest()}-{sequence_digest()}", SCRIPTED if model is None else model.name
    caps = "" if model is None else f", {MODEL_CALLS} calls, {TOKENS} tokens"
    terms = f"{tasks} tasks, {distractors} distractors{f', {pick} picked' if pick else ''}{caps}"
    rows = read_rows(file) if file.exists() else []
    sandbox = open_sandbox(Settings.load())
    try:
        for seed in seeds:
            world = World(data, seed=seed, tasks=tasks, distractors=distractors)
            steps = picked(world.steps, pick)
            err.print(f"seed {seed}: {len(steps)} tasks over {len(world.protocols)} tools", markup=False)
            for system in systems:
                folder = folder_of(file, system.name, seed, name, version, terms)
                own = [row for row in rows if row.key == (system.name, seed, name, version, terms)]
                tried = {row.step for row in own if model is None or row.status != LOST}
                if tried and not folder.exists():
                    raise UsageError(f"{file} has tries of {system.name}, but {folder} is gone: name another --out")
                folder.mkdir(parents=True, exist_ok=True)
                play = Play(world, steps, system, seed, model, sandbox, folder, version, terms, frozenset(tried))
                await play.play(file, partial(_say, len(world.steps)))
    finally:
        await sandbox.aclose()


def _say(of: int, row: Row) -> None:
    solved = "solved" if row.solved else row.status
    less = "".join(f", {number} {what}" for what, number in (("missed", row.missed), ("broken", row.met)) if number)
    print(
        f"{row.system} {row.seed}: {row.step + 1}/{of} {row.env}: {solved}{less}, {row.seconds:.1f} s",
        file=sys.stderr,
        flush=True,
    )


@guarded
def main(
    data: MaybeData = None,
    system: Annotated[str, typer.Option(help=f"With commas, or `all`: {', '.join(SYSTEMS)}.")] = "default",
    model: Annotated[str, typer.Option(help="`scripted`, or as `atc run --model` takes it.")] = SCRIPTED,
    base_url: Annotated[str | None, typer.Option(help="Of the model's endpoint; else as `atc run` finds it.")] = None,
    tasks: Annotated[int, typer.Option(min=3, help="Of a sequence.")] = 120,
    distractors: Annotated[int, typer.Option(min=0, help="Tools of other services, which no task needs.")] = 200,
    pick: Annotated[int | None, typer.Option(min=3, help="Try so many of the tasks, spread over all.")] = None,
    seeds: Annotated[str, typer.Option(help="With commas: each is a sequence.")] = "0",
    file: Annotated[Path, typer.Option("--out", help="Where each try is kept as a JSON line.")] = RESULTS
    / "sequences.jsonl",
    summary: Annotated[Path | None, typer.Option(help="Only print the table of this file.")] = None,
    published: Annotated[
        Path | None, typer.Option("--publish", help="Write the tries of --summary here, without texts.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure what is solved over a sequence of tasks, and what each part of ATC has to do with it."""
    if summary is not None:
        if not summary.is_file():
            raise UsageError(f"--summary: there is no file {summary}")
        rows = latest(read_rows(summary))
        if published is not None:
            publish(rows, published)
        _report(rows, as_json)
        return
    names = list(SYSTEMS) if system == "all" else listed(system, SYSTEMS, "system")
    chosen = [SYSTEMS[name] for name in names]
    try:
        with opened_model(model, base_url) as opened:
            asyncio.run(run(data, chosen, seeds_of(seeds), opened, tasks, distractors, pick, file))
    except KeyboardInterrupt:
        err.print(f"interrupted; what has ended is in {file}: the same command goes on from there", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    finally:
        if file.exists():
            _report(latest(read_rows(file)), as_json)


def _report(rows: Sequence[Row], as_json: bool) -> None:
    found = figures(rows)
    if as_json:
        print_json({"sequences": found})
        return
    for model, terms in dict.fromkeys((each["model"], each["terms"]) for each in found):
        own = [each for each in found if (each["model"], each["terms"]) == (model, terms)]
        show(f"a sequence of tasks: {model}, {terms}", COLUMNS, lines(own))


if __name__ == "__main__":
    typer.run(main)
