"""Perturbation of generated programs: does an argument list every tool whose values change it?

``python -m benchmarks.fuzz_origins [--programs N] [--seed S] [--processes P]``: programs are written from a grammar,
run without a jail over fake tools, and run again with what one tool answers altered. An argument that changed must
have that tool among its origins (:mod:`atc.programs.origins`), or be unknown. What does not is a miss: the program is
made smaller, and printed with what was altered; the exit code is 1. ``--one S/N`` looks at one program.

So that nobody passes by answering *unknown*, two figures stand beside the misses: the share of arguments whose origins
are unknown, and the share of listed tools whose altered values changed nothing.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from atc.cli.console import clean, guarded, print_json
from benchmarks.common import AsJson
from benchmarks.fuzzing.flows.oracle import Figures, Miss, Oracle
from benchmarks.fuzzing.flows.shrink import smallest
from benchmarks.fuzzing.flows.writer import written

MAX_MEMORY = 4_000_000_000
KINDS = ("tool", "literal", "empty", "path", "error", "slow")
"""Of misses."""
MAX_SHRUNK = 12
"""Misses that are made smaller; those of one cause and one last statement count once."""


def looked_at(oracle: Oracle, seed: str) -> tuple[str, list[Miss]]:
    """Return the program of a seed, and its misses."""
    choices = random.Random(seed)
    source, tricks = written(choices)
    return source, oracle.misses(source, choices, tricks=tricks)


@guarded
def main(
    programs: Annotated[int, typer.Option(min=1, help="How many.")] = 100_000,
    seed: Annotated[str, typer.Option(help="Of the programs: another one gives others.")] = "0",
    start: Annotated[int, typer.Option(min=0, help="The first program's number: to go on.")] = 0,
    seconds: Annotated[int | None, typer.Option(min=1, help="End after so long, with fewer programs.")] = None,
    processes: Annotated[int, typer.Option(min=1, help="At once; each takes its part of the numbers.")] = 1,
    one: Annotated[str | None, typer.Option(help="Look at this program alone, as SEED/NUMBER.")] = None,
    shrink: Annotated[bool, typer.Option(help="Make programs with misses smaller.")] = True,
    as_json: AsJson = False,
) -> None:
    """Look for origins that are left out."""
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of what a program does
        _exec()
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    if one is not None:
        source, misses = looked_at(Oracle(), one)
        print(source)
        print("\n\n".join(map(_told, misses[:20])) or "nothing is missing")
        raise typer.Exit(int(bool(misses)))
    if processes > 1:
        raise typer.Exit(_several(programs, seed, start, processes, seconds))
    _report(*_run(programs, seed, start, seconds), shrink=shrink, as_json=as_json)


def _exec() -> None:
    command = [sys.executable, "-m", "benchmarks.fuzz_origins", *sys.argv[1:]]
    os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})


def _several(programs: int, seed: str, start: int, processes: int, seconds: int | None) -> int:
    each = -(-programs // processes)
    command = [sys.executable, "-m", "benchmarks.fuzz_origins", "--programs", str(each), "--seed", seed]
    command += [*(("--seconds", str(seconds)) if seconds else ()), "--start"]
    started = [subprocess.Popen([*command, str(start + each * number)]) for number in range(processes)]
    return max(process.wait() for process in started)


def _run(
    programs: int, seed: str, start: int, seconds: int | None
) -> tuple[Figures, dict[str, tuple[str, Miss]], Counter[str], float]:
    oracle, kinds, found = Oracle(), Counter[str](), dict[str, tuple[str, Miss]]()
    began, used = time.monotonic(), time.process_time()
    shown = began
    for number in range(start, start + programs):
        name = f"{seed}/{number}"
        source, misses = looked_at(oracle, name)
        kinds.update(miss.kind for miss in misses)
        if misses:
            kinds["programs"] += 1
            found[name] = source, misses[0]
            print(f"{name}: {_told(misses[0])}", file=sys.stderr, flush=True)
        if (now := time.monotonic()) - shown > 60:
            shown = now
            print(f"{number + 1 - start:,} programs, {dict(kinds)}", file=sys.stderr, flush=True)
        if seconds is not None and now - began > seconds:
            break
    return oracle.figures, found, kinds, time.process_time() - used


def _report(
    figures: Figures,
    found: dict[str, tuple[str, Miss]],
    kinds: Counter[str],
    seconds: float,
    *,
    shrink: bool,
    as_json: bool,
) -> None:
    told = as_figures(figures, kinds, seconds)
    if as_json:
        print_json({**told, "missed": [[name, _told(miss)] for name, (_, miss) in found.items()]})
    else:
        print("\n".join(f"{name}: {value:,}" for name, value in told.items()))
        for name, source, miss in _shown(found, shrink=shrink):
            print(clean(f"\n{name}\n{source}\n{_told(miss)}"), flush=True)
    if found:
        raise typer.Exit(1)


def as_figures(figures: Figures, kinds: Counter[str], seconds: float) -> dict[str, Any]:
    """Return what is reported of a run."""
    every, unknown = figures.arguments.total(), figures.unknown
    return {
        "programs": figures.programs,
        "runs": figures.runs,
        "programs a second of processor time": round(figures.programs / max(seconds, 0.001), 1),
        "share of programs in which an argument changed": _share(figures.flowing, figures.programs),
        "share of programs that an error ended": _share(figures.ended, figures.programs),
        "arguments": every,
        "arguments that changed": figures.changed,
        "share of unknown, without tricks": _share(unknown[False], figures.arguments[False]),
        "share of unknown, with tricks": _share(unknown[True], figures.arguments[True]),
        "tools listed": figures.listed,
        "share of listed tools that changed nothing": _share(figures.idle, figures.listed),
        "programs with a miss": kinds["programs"],
        **{f"misses ({kind})": kinds[kind] for kind in KINDS},
    }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def _shown(found: dict[str, tuple[str, Miss]], *, shrink: bool) -> Iterator[tuple[str, str, Miss]]:
    seen = Counter[str]()
    for name, (source, miss) in sorted(found.items(), key=lambda each: KINDS.index(each[1][1].kind)):
        if len(seen) >= MAX_SHRUNK:
            break
        if shrink:
            source, miss = smallest(source, miss)
        seen[source] += 1
        if seen[source] == 1:
            yield name, source, miss


def _told(miss: Miss) -> str:
    change = miss.change
    place = ".".join([change.tool, *map(str, change.path)])
    how = f"{change.how}, first response" if change.first else change.how
    return (
        f"{miss.kind}: line {miss.line}: {miss.tool}({miss.argument}=…) is {miss.before[:200]}, and"
        f" {miss.after[:200]} with {place} altered ({how})\n  listed: {', '.join(miss.listed) or 'none'}"
    )


if __name__ == "__main__":
    typer.run(main)
