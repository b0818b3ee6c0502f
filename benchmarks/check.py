"""What the check finds before a program runs, and that it refuses no program that would have run.

``python -m benchmarks.check [--json] [--seed N] [--each N] [--styles N]``: programs with one mistake each, made from
the 40 reference programs over Atlas, are checked; so are the originals, and the originals written in other styles,
each of which is run once in the sandbox and gave the right answer. A missed mutant that gives the right answer too is
no mistake and does not count. No model has a part in it.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atc.atlas import Atlas, atlas_toolset
from atc.programs.check.checker import Checker
from atc.programs.program import Program
from atc.sandboxes.process.driver import ProcessSandbox
from benchmarks.atlas import AtlasTask, check, load_tasks, reference_answer
from benchmarks.common import median, percentile, print_json, run_program, share, show
from benchmarks.mutants import Mutant, field_mutants, mutants, sampled
from benchmarks.styles import FIELD_CONTEXTS, STYLES, restyled

TARGET_CAUGHT, TARGET_MS = 0.95, 100.0


@dataclass
class Figures:
    """What was measured."""

    caught: Counter[str] = field(default_factory=Counter)
    missed: list[Mutant] = field(default_factory=list)
    equivalent: list[Mutant] = field(default_factory=list)
    correct: Counter[str] = field(default_factory=Counter)
    false_alarms: list[tuple[str, str, str]] = field(default_factory=list)
    not_the_same: int = 0
    milliseconds: list[float] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The mutants that count."""
        return self.caught.total() + len(self.missed)


class Bench:
    """One run of the benchmark.

    Args:
        seed: of what is drawn.
        each: mutants of a kind, at most.
        styles: programs of a style, at most.
    """

    def __init__(self, seed: int, each: int, styles: int) -> None:
        self.seed, self.each, self.styles = seed, each, styles
        self.tasks = {task.id: task for task in load_tasks()}
        self.references = {name: reference_answer(task) for name, task in self.tasks.items()}
        self.protocols = {protocol.name: protocol for protocol in atlas_toolset().protocols}
        self.figures = Figures()

    async def run(self) -> Figures:
        """Measure everything."""
        checker = Checker(list(self.protocols.values()))
        async with ProcessSandbox() as sandbox:
            for task in self.tasks.values():
                self._alarm("as written", task, task.reference, checker)
            for style, task, source in self._restyled():
                if await self._right(task, source, sandbox):
                    self._alarm(style, task, source, checker)
                else:
                    self.figures.not_the_same += 1
            for mutant in self._mutants():
                await self._catch(mutant, checker, sandbox)
        return self.figures

    def _restyled(self) -> list[tuple[str, AtlasTask, str]]:
        made = [
            (style, task, text)
            for task in self.tasks.values()
            for style, text in restyled(task.reference, self.protocols)
        ]
        chosen = []
        for name in STYLES:
            own = [entry for entry in made if entry[0] == name]
            chosen += random.Random(f"{self.seed} {name}").sample(own, min(self.styles, len(own)))
        return chosen

    def _mutants(self) -> list[Mutant]:
        found = [m for task in self.tasks.values() for m in mutants(task.id, task.reference, self.protocols)]
        for kind, style in FIELD_CONTEXTS.items():
            for task in self.tasks.values():
                source = dict(restyled(task.reference, self.protocols)).get(style)
                found += field_mutants(kind, task.id, source, self.protocols) if source else []
        return sampled(found, self.each, self.seed)

    async def _right(self, task: AtlasTask, source: str, sandbox: ProcessSandbox) -> bool:
        """Whether a program gives the right answer, in the sandbox."""
        atlas = Atlas()
        ran = await run_program(source, atlas_toolset(atlas), sandbox)
        if ran.outcome.kind != "finished" or not ran.outcome.answered:
            return False
        reference = self.references[task.id]
        given = trips_named(ran.outcome.value, atlas.trips.state())
        return check(given, trips_named(reference.value, reference.trips), unordered=task.unordered)

    def _check(self, source: str, checker: Checker) -> list[Any]:
        began = time.perf_counter()
        findings = checker.check(Program(source))
        self.figures.milliseconds.append(1000 * (time.perf_counter() - began))
        return findings

    def _alarm(self, style: str, task: AtlasTask, source: str, checker: Checker) -> None:
        self.figures.correct[style] += 1
        for finding in self._check(source, checker):
            self.figures.false_alarms.append((style, task.id, finding.message))

    async def _catch(self, mutant: Mutant, checker: Checker, sandbox: ProcessSandbox) -> None:
        if self._check(mutant.source, checker):
            self.figures.caught[mutant.kind] += 1
        elif await self._right(self.tasks[mutant.base], mutant.source, sandbox):
            self.figures.equivalent.append(mutant)
        else:
            self.figures.missed.append(mutant)


def trips_named(value: Any, trips: Sequence[Mapping[str, Any]]) -> Any:
    """A value with each identifier of a trip replaced by the trip's name and currency.

    Identifiers are counters, so calls in parallel may give a right program other ones than the reference got.
    """
    if isinstance(value, list | tuple):
        return [trips_named(item, trips) for item in value]
    if isinstance(value, dict):
        return {key: trips_named(item, trips) for key, item in value.items()}
    named = (f"{trip['name']} ({trip['currency_code']})" for trip in trips if trip["trip_id"] == value)
    return next(named, value)


def summary(figures: Figures) -> dict[str, Any]:
    """The figures as plain data."""
    missed = Counter(mutant.kind for mutant in figures.missed)
    kinds = list(dict.fromkeys([*figures.caught, *missed]))
    return {
        "mutants": figures.total,
        "caught": figures.caught.total(),
        "kinds": {kind: {"caught": figures.caught[kind], "of": figures.caught[kind] + missed[kind]} for kind in kinds},
        "missed": [{"kind": m.kind, "task": m.base, "change": m.change} for m in figures.missed],
        "equivalent": [{"kind": m.kind, "task": m.base, "change": m.change} for m in figures.equivalent],
        "correct_programs": figures.correct.total(),
        "styles": dict(figures.correct),
        "restyled_that_gave_another_answer": figures.not_the_same,
        "false_alarms": figures.false_alarms,
        "median_ms": round(median(figures.milliseconds), 1),
        "p95_ms": round(percentile(figures.milliseconds, 95), 1),
    }


def _print(found: dict[str, Any]) -> None:
    rows = [(kind, of["of"], of["caught"], share(of["caught"], of["of"])) for kind, of in found["kinds"].items()]
    rows.append(("all", found["mutants"], found["caught"], share(found["caught"], found["mutants"])))
    show("Mistakes found before the run", ("kind", "mutants", "caught", "share"), rows)
    for mutant in found["missed"]:
        print(f"missed: {mutant['kind']}: {mutant['task']}: {mutant['change']}")
    print(f"{len(found['equivalent'])} mutants gave the right answer and do not count")
    print(
        f"{found['correct_programs']} correct programs in {len(found['styles'])} styles: "
        f"{len(found['false_alarms'])} false alarms"
    )
    print(f"({found['restyled_that_gave_another_answer']} restyled programs gave another answer and do not count)")
    for style, task, message in found["false_alarms"]:
        print(f"false alarm: {style}: {task}: {message}")
    print(f"one check: median {found['median_ms']} ms, 95 % within {found['p95_ms']} ms")


def main() -> None:
    """Run the benchmark and print its figures; exit with 1 where a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.check", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (0)")
    parser.add_argument("--each", type=int, default=30, help="mutants of a kind, at most (30)")
    parser.add_argument("--styles", type=int, default=5, help="programs of a style, at most (5)")
    options = parser.parse_args()
    found = summary(asyncio.run(Bench(options.seed, options.each, options.styles).run()))
    print_json(found) if options.json else _print(found)
    met = found["caught"] >= TARGET_CAUGHT * found["mutants"] and not found["false_alarms"]
    sys.exit(0 if met and found["median_ms"] <= TARGET_MS else 1)


if __name__ == "__main__":
    main()
