"""How well the arguments of calls are repaired, and how often the gate refuses a call that a service answered.

``python -m benchmarks.programs.argument_repair --data DIR`` takes the calls of ToolBench's cache that services
answered:

* **False refusals**: how many of them the schema gate refuses, by the documents as they are, after ToolBench's own
  renaming of parameters is undone, and after the repairs by rule (RETO §3.4, Alg. 1, tier 1).
* **Corruptions** (:mod:`benchmarks.programs.argument_repair_mistakes`): small mistakes, each with what was meant, once
  as reads and once as calls of tools that may write.
* **Real errors**: calls that services refused for their arguments, with an answered call of the same tool beside them.
* **Time** of one repair.

Rules are chosen on the tools of one half by hash, and reported on the other.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from atc.cli.console import INTERRUPTED, err
from atc.errors import EnvironmentProblem, UsageError
from atc.result import Effect
from atc.schemas.protocol import JsonSchema
from atc.schemas.repair import Repaired, repair_arguments
from atc.schemas.validate import problems
from benchmarks.common import AsJson, percentile, print_json, share, show
from benchmarks.programs.argument_repair_data import HALVES, Recorded, Tool, agents_errors, recorded_calls
from benchmarks.programs.argument_repair_mistakes import KINDS, Arguments, Corrupted, corruptions

Outcome = Literal["restored", "refused", "wrong", "beyond", "as given"]
"""Accepted as it was meant; refused; accepted and not as it was meant; as it was meant, by a repair that is none for a
write; accepted without a repair, for the schema does not forbid it."""
OUTCOMES: tuple[Outcome, ...] = ("restored", "refused", "wrong", "beyond", "as given")
EFFECTS = {"read": Effect.READ, "write": Effect.UNKNOWN}
SHOWN = 40
_LOSSLESS = frozenset({"respelt", "format", "left_out"})


@dataclass
class Figures:
    """What was counted: by effect, kind and half; what is shown of it; seconds of single repairs."""

    outcomes: Counter[tuple[str, str, str, Outcome]] = field(default_factory=Counter)
    examples: dict[tuple[str, str, Outcome], list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def count(self, effect: str, tool: Tool, corrupted: Corrupted, repaired: Repaired) -> None:
        outcome = outcome_of(corrupted, repaired, writes=effect == "write")
        self.outcomes[effect, corrupted.kind, tool.half, outcome] += 1
        shown = self.examples[effect, corrupted.kind, outcome]
        if len(shown) < SHOWN and tool.half == HALVES[0]:
            shown.append({"tool": tool.id, "given": corrupted.arguments, "sent": repaired.arguments})


def outcome_of(corrupted: Corrupted, repaired: Repaired, *, writes: bool) -> Outcome:
    """What a repair came to."""
    if repaired.problems:
        return "refused"
    if corrupted.meant is not None and same(repaired.arguments, corrupted.meant):
        beyond = not corrupted.lossless or bool({repair.kind for repair in repaired.repairs} - _LOSSLESS)
        return "beyond" if writes and beyond else "restored"
    return "as given" if same(repaired.arguments, corrupted.arguments) else "wrong"


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; 5 and 5.0 are, 1 and true are not."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def refusals(calls: Sequence[Recorded]) -> list[dict[str, Any]]:
    """How many of the calls that were answered are refused, by gate, and what is wrong with them in its eyes."""
    answered = [call for call in calls if call.answered]
    rows = []
    for name, gate in GATES.items():
        found = [(call, keyword) for call in answered if (keyword := gate(call))]
        row: dict[str, Any] = {"gate": name, "calls": len(answered), "refused": len(found)}
        for half in HALVES:
            row[half] = sum(call.tool.half == half for call, _ in found)
            row[f"{half} calls"] = sum(call.tool.half == half for call in answered)
        rows.append({**row, "why": dict(Counter(keyword for _, keyword in found).most_common())})
    return rows


def _by_documents(schema: JsonSchema, arguments: Arguments, *, closed: bool = False) -> str:
    found = problems({**schema, "additionalProperties": False} if closed else schema, arguments)
    return found[0].keyword if found else ""


def _by_rules(schema: JsonSchema, arguments: Arguments, effect: Effect) -> str:
    found = repair_arguments(schema, arguments, effect).problems
    return (found[0].keyword or "unknown") if found else ""


GATES: dict[str, Callable[[Recorded], str]] = {
    "documents alone": lambda call: _by_documents(call.tool.documented, call.given),
    "the same, unknown arguments refused": lambda call: _by_documents(call.tool.documented, call.given, closed=True),
    "rules, as reads": lambda call: _by_rules(call.tool.documented, call.given, Effect.READ),
    "rules, as writes": lambda call: _by_rules(call.tool.documented, call.given, Effect.UNKNOWN),
    "renaming undone: documents alone": lambda call: _by_documents(call.tool.schema, call.arguments),
    "renaming undone: unknown refused": lambda call: _by_documents(call.tool.schema, call.arguments, closed=True),
    "renaming undone: rules, as reads": lambda call: _by_rules(call.tool.schema, call.arguments, Effect.READ),
    "renaming undone: rules, as writes": lambda call: _by_rules(call.tool.schema, call.arguments, Effect.UNKNOWN),
}
"""The keyword of the schema for which a call is refused; nothing where it is not."""


def measure(calls: Sequence[Recorded]) -> Figures:
    """Corrupt every answered call that fits its documents, and repair it, as a read and as a write."""
    figures = Figures()
    groups: dict[str, dict[str, list[Recorded]]] = defaultdict(lambda: defaultdict(list))
    for call in calls:
        if call.answered:
            groups[call.tool.id.rpartition("/")[0]][call.tool.id].append(call)
    for tools in groups.values():
        for id, own in tools.items():
            tool = own[0].tool
            siblings = [
                pair for other in tools if other != id for call in tools[other] for pair in call.arguments.items()
            ]
            for call in own:
                if _by_documents(tool.schema, call.arguments, closed=True):
                    continue
                _repair_all(figures, call, siblings)
                if not same(call.given, call.arguments):
                    _repair(figures, tool, Corrupted(RENAMED, call.given, call.arguments, lossless=True))
    return figures


RENAMED = "key: ToolBench's own renaming"


def _repair_all(figures: Figures, call: Recorded, siblings: Sequence[tuple[str, Any]]) -> None:
    tool = call.tool
    valid = Corrupted("valid", call.arguments, call.arguments, lossless=True)
    _repair(figures, tool, valid, timed="valid")
    for corrupted in corruptions(tool.schema, call.arguments, tool.enumerated, siblings):
        _repair(figures, tool, corrupted, timed="corrupted")


def _repair(figures: Figures, tool: Tool, corrupted: Corrupted, timed: str = "") -> None:
    schema = tool.enumerated if corrupted.enumerated else tool.schema
    for name, effect in EFFECTS.items():
        repaired = repair_arguments(schema, corrupted.arguments, effect)
        if timed and name == "read":
            figures.seconds[timed].append(min(_seconds(schema, corrupted.arguments) for _ in range(3)))
        figures.count(name, tool, corrupted, repaired)


def _seconds(schema: JsonSchema, arguments: Arguments) -> float:
    """Processor time of a repair. The schema was compiled before: that is done once in a process."""
    begun = time.thread_time()
    repair_arguments(schema, arguments)
    return time.thread_time() - begun


def table(figures: Figures, effect: str, half: str) -> list[dict[str, Any]]:
    """A row for each kind of corruption: of how many what came."""
    kinds = ("valid", RENAMED, *KINDS)
    halves = HALVES if half == "all" else (half,)
    rows = []
    for kind in kinds:
        counted = {o: sum(figures.outcomes[effect, kind, h, o] for h in halves) for o in OUTCOMES}
        if any(counted.values()):
            row: dict[str, Any] = {"kind": kind, "calls": sum(counted.values())}
            rows.append(row | dict(counted))
    return rows


def real(calls: Sequence[Recorded]) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """What comes of calls that services refused for their arguments: how many, and those that were changed."""
    counted = dict.fromkeys(["calls", "refused", "accepted as they are", "restored", "changed otherwise"], 0)
    changed: list[dict[str, Any]] = []
    for call in calls:
        counted["calls"] += 1
        repaired = repair_arguments(call.tool.schema, call.arguments, call.tool.effect)
        if repaired.problems:
            counted["refused"] += 1
        elif same(repaired.arguments, call.arguments):
            counted["accepted as they are"] += 1
        else:
            good = any(same(repaired.arguments, mended) for mended in call.mended)
            counted["restored" if good else "changed otherwise"] += 1
            changed.append({"tool": call.tool.id, "given": call.arguments, "sent": repaired.arguments, "mended": good})
    return counted, changed


def main(
    data: Annotated[
        Path | None, typer.Option(envvar="ATC_DATA", help="Directory with failures/, retrieval/ and trajectories/.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Tools, always the same ones; 0 takes all.")] = 0,
    half: Annotated[str, typer.Option(help=f"Of the corruptions' tools: {', '.join(HALVES)}, or all.")] = HALVES[1],
    shown: Annotated[
        str,
        typer.Option("--show", help="Print calls of this kind of corruption, of the half that rules are chosen on."),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Measure how well arguments are repaired."""
    if data is None:
        raise EnvironmentProblem("the benchmark of repairs needs its data: give --data DIR or ATC_DATA")
    if half not in (*HALVES, "all"):
        raise UsageError(f"there is no half {half!r}: take of {', '.join(HALVES)}, all")
    if shown and shown not in (RENAMED, "valid", *KINDS):
        raise UsageError(f"there is no kind {shown!r}: take of {', '.join((RENAMED, 'valid', *KINDS))}")
    try:
        calls = recorded_calls(data, limit)
        agents, made = agents_errors(data)
        figures = measure(calls)
        beside = [call for call in calls if call.of_arguments and call.mended]
        errors = {"recorded": real(beside), "agents'": real(agents)}
        found = refusals(calls)
    except KeyboardInterrupt:
        err.print("interrupted: nothing is kept, the whole takes about a minute", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    tables = {effect: table(figures, effect, half) for effect in EFFECTS}
    if as_json:
        times = {name: _times(seconds) for name, seconds in figures.seconds.items()}
        given = {name: {**counted, "changed": changed} for name, (counted, changed) in errors.items()}
        print_json({"refusals": found, "half": half, "corruptions": tables, "real": given, "ms": times})
        return
    _show(found, tables, half)
    columns = ["errors", *next(iter(errors.values()))[0]]
    show(
        f"Real errors ({made} of the agents', some made many times)",
        columns,
        [[n, *c.values()] for n, (c, _) in errors.items()],
    )
    rows = [[name, *_times(seconds).values()] for name, seconds in figures.seconds.items()]
    show("Processor time of a repair by rule, ms, the least of three", ["calls", "number", "p50", "p99"], rows)
    for line in _examples(figures, shown) if shown else ():
        print(line)


def _times(seconds: Sequence[float]) -> dict[str, float]:
    ms = {f"p{at}": round(1000 * percentile(seconds, at), 3) for at in (50, 99)}
    return {"number": len(seconds), **ms}


def _show(found: Sequence[Mapping[str, Any]], tables: Mapping[str, Sequence[Mapping[str, Any]]], half: str) -> None:
    rows = [
        [row["gate"], f"{row['refused']:,}", share(row["refused"], row["calls"])]
        + [share(row[h], row[f"{h} calls"]) for h in HALVES]
        + [", ".join(f"{n} {keyword}" for keyword, n in row["why"].items())]
        for row in found
    ]
    answered = found[0]["calls"]
    show(f"Refused of {answered:,} answered calls", ["gate", "calls", "share", *HALVES, "for"], rows)
    for effect, kinds in tables.items():
        columns = ["corruption", "calls", "restored", "refused", "wrong", "beyond", "as given"]
        cells = [[row["kind"], row["calls"], *(row[outcome] or "" for outcome in OUTCOMES)] for row in kinds]
        show(f"As {effect}s; tools {half}", columns, cells)


def _examples(figures: Figures, kind: str) -> Iterator[str]:
    for (effect, of, outcome), examples in sorted(figures.examples.items()):
        if of == kind:
            yield f"\n{effect}, {kind}: {outcome}"
            for example in examples:
                yield json.dumps(example, ensure_ascii=False)


if __name__ == "__main__":
    typer.run(main)
