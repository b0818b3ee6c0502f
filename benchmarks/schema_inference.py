"""Infer response schemas from some recorded answers of a tool, and hold its other answers to them.

``python -m benchmarks.schema_inference --data DIR [--json FILE]`` reads
``DIR/failures/toolbench_response_cache.jsonl.gz``: recorded answers of real services, each cut at 500 characters. Those
that still are whole JSON count, of tools with at least four. Three splits: all answers but one,
half of them, and two. For each it prints

* *rejected*: held-out answers that do not fit the inferred schema; *of new*: those that differ from every answer which
  was learnt from;
* *specific*: leaf places of the schema that have a type. No type have: what may be anything, what only ever was null,
  and arrays and objects of which no inside is known;
* *bare*: schemas that say nothing at all.

Beside it the same for genson alone, the engine under ATC's, which only takes the types of what was seen. Throughput is
of the text of the answers, in MB a second of processor time: adding the parsed values alone, and from the text to the
schema. A second set of answers, of some kilobytes each, is taken from ``DIR/restbench/endpoint_docs.jsonl.gz`` if that
is there. Last, what each makes of two hostile values: lists in lists, and an object of very many keys.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import jsonschema_rs
from genson import SchemaBuilder

from atc.schemas.infer.shape import Shape
from benchmarks.common import machine, share, show

MIN_ANSWERS = 4
MAX_REJECTED, MIN_SPEED = 0.03, 5.0
"""What is aimed at: share of held-out answers, and MB a second from text to schema."""
SPEED_SECONDS = 2.0
DEEP, WIDE = 5_000, 200_000
"""Levels and keys of the hostile values."""


class Learner(Protocol):
    """Something that takes values and writes a schema."""

    def add(self, value: Any) -> None: ...
    def schema(self) -> dict[str, Any]: ...


class Genson:
    """genson as it comes."""

    def __init__(self) -> None:
        self._builder = SchemaBuilder(schema_uri=None)

    def add(self, value: Any) -> None:
        self._builder.add_object(value)

    def schema(self) -> dict[str, Any]:
        return dict(self._builder.to_schema())


@dataclass
class Answers:
    """What the file holds: the answers of each tool as text, and how many were left out."""

    tools: dict[str, list[str]]
    recorded: int
    whole: int


@dataclass
class Row:
    """What came of one learner on one split."""

    learner: str
    split: str
    held_out: int = 0
    rejected: int = 0
    new: int = 0
    new_rejected: int = 0
    leaves: int = 0
    typed: int = 0
    schemas: int = 0
    bare: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def read(data: Path) -> Answers:
    """The recorded answers that still are whole JSON, of the tools with enough of them."""
    tools: dict[str, list[str]] = {}
    recorded = whole = 0
    with gzip.open(data / "failures" / "toolbench_response_cache.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            recorded += 1
            try:
                json.loads(entry["response"])
            except ValueError:
                continue
            whole += 1
            tools.setdefault(entry["tool"], []).append(entry["response"])
    return Answers({tool: texts for tool, texts in tools.items() if len(texts) >= MIN_ANSWERS}, recorded, whole)


def read_large(data: Path) -> list[str]:
    """Whole answers of documented services; none if the file is not there."""
    path = data / "restbench" / "endpoint_docs.jsonl.gz"
    if not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        values = [_response(json.loads(line)) for line in lines]
    return [json.dumps(value) for value in values if isinstance(value, dict | list)]


def _response(entry: dict[str, Any]) -> Any:
    value = entry.get("response")
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None


def splits(count: int) -> Iterator[tuple[str, list[int]]]:
    """For ``count`` answers: the name of a split, and the answers that are learnt from. The others are held out."""
    everything = list(range(count))
    for left_out in everything:
        yield "all but one", [i for i in everything if i != left_out]
    for first in (0, 1):
        yield "half", everything[first::2]
    for first in range(0, count - 1, 2):
        yield "two", [first, first + 1]


def measure(name: str, make: Callable[[], Learner], tools: dict[str, list[Any]]) -> list[Row]:
    """Learn from each split of each tool's answers, and hold the others to the schema."""
    rows: dict[str, Row] = {}
    for values in tools.values():
        for split, chosen in splits(len(values)):
            row = rows.setdefault(split, Row(name, split))
            learner = make()
            for i in chosen:
                learner.add(values[i])
            schema = learner.schema()
            typed, leaves = specificity(schema)
            row.typed, row.leaves, row.schemas = row.typed + typed, row.leaves + leaves, row.schemas + 1
            row.bare += "type" not in schema
            validator = jsonschema_rs.Draft202012Validator(schema)
            known = {json.dumps(values[i], sort_keys=True) for i in chosen}
            for i in set(range(len(values))) - set(chosen):
                _hold(row, validator, values[i], json.dumps(values[i], sort_keys=True) not in known)
    return list(rows.values())


def _hold(row: Row, validator: jsonschema_rs.Draft202012Validator, value: Any, new: bool) -> None:
    error = next(iter(validator.iter_errors(value)), None)
    row.held_out, row.new = row.held_out + 1, row.new + new
    if error is not None:
        row.rejected, row.new_rejected = row.rejected + 1, row.new_rejected + new
        row.reasons[str(error.schema_path[-1])] += 1


def specificity(schema: Any) -> tuple[int, int]:
    """How many leaf places of a schema have a type, and how many leaves it has."""
    if not isinstance(schema, dict):
        return 0, 1
    parts = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    parts += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    if parts:
        counts = [specificity(part) for part in parts]
        return sum(typed for typed, _ in counts), sum(leaves for _, leaves in counts)
    types = schema.get("type", [])
    named = {types} if isinstance(types, str) else set(types)
    return int(bool(named - {"null", "array", "object"})), 1


def speed(make: Callable[[], Learner], groups: Sequence[Sequence[str]]) -> dict[str, float]:
    """MB of JSON text a second: adding alone, and from text to schema. Each group is one schema."""
    total = sum(len(text.encode()) for group in groups for text in group)
    adding = whole = 0.0
    rounds = 0
    while whole < SPEED_SECONDS:
        rounds += 1
        for group in groups:
            learner = make()
            began = time.process_time()
            values = [json.loads(text) for text in group]
            parsed = time.process_time()
            for value in values:
                learner.add(value)
            added = time.process_time()
            learner.schema()
            whole += time.process_time() - began
            adding += added - parsed
    return {"add_mb_s": total * rounds / adding / 1e6, "whole_mb_s": total * rounds / whole / 1e6}


def hostile(make: Callable[[], Learner]) -> dict[str, Any]:
    """What becomes of lists in lists, and of an object of many keys: the levels taken, and the MB kept."""
    deep: Any = 1
    for _ in range(DEEP):
        deep = [deep]
    learner = make()
    try:
        learner.add(deep)
        schema, levels = learner.schema(), 0
        while isinstance(schema.get("items"), dict):
            schema, levels = schema["items"], levels + 1
        taken = f"{levels} levels taken"
    except RecursionError as error:
        taken = type(error).__name__
    wide = {f"key {n}": n for n in range(WIDE)}
    learner = make()
    tracemalloc.start()
    try:
        learner.add(wide)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    return {"deep": taken, "wide_mb": kept / 1e6}


def learners() -> dict[str, Callable[[], Learner]]:
    """ATC's, and genson alone."""
    return {"atc": Shape, "genson": Genson}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with failures/ and perhaps restbench/")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    try:
        answers, large = read(options.data), read_large(options.data)
    except OSError as error:
        parser.error(f"{error.filename} cannot be read: give the folder that holds failures/ as --data")
    values = {tool: [json.loads(text) for text in texts] for tool, texts in answers.tools.items()}
    makers = learners()
    rows = [row for name, make in makers.items() for row in measure(name, make, values)]
    groups = {"recorded": list(answers.tools.values()), **({"large": [[text] for text in large]} if large else {})}
    speeds = {(name, kind): speed(make, texts) for name, make in makers.items() for kind, texts in groups.items()}
    hostility = {name: hostile(make) for name, make in makers.items()}
    _show(answers, rows, speeds, groups)
    columns = ("learner", f"{DEEP:,} lists in lists", f"an object of {WIDE:,} keys")
    survived = [(name, found["deep"], f"{found['wide_mb']:.1f} MB kept") for name, found in hostility.items()]
    show("Hostile values", columns, survived)
    if options.json:
        made = {
            "recorded": answers.recorded,
            "whole": answers.whole,
            "tools": len(answers.tools),
            "rows": [{**vars(row), "reasons": dict(row.reasons)} for row in rows],
            "speed": {f"{name} {kind}": figures for (name, kind), figures in speeds.items()},
            "hostile": hostility,
            "machine": machine(),
        }
        options.json.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    mine = next(row for row in rows if row.learner == "atc" and row.split == "all but one")
    met = mine.rejected <= MAX_REJECTED * mine.held_out and speeds["atc", "recorded"]["whole_mb_s"] >= MIN_SPEED
    return 0 if met else 1


def _show(
    answers: Answers,
    rows: Sequence[Row],
    speeds: dict[tuple[str, str], dict[str, float]],
    groups: dict[str, list[list[str]]],
) -> None:
    kept = sum(map(len, answers.tools.values()))
    print(
        f"{answers.recorded} recorded answers, {answers.whole} of them whole JSON; "
        f"{len(answers.tools)} tools with at least {MIN_ANSWERS}, {kept} answers"
    )
    columns = ("learner", "learnt from", "held out", "rejected", "of new", "specific", "bare", "rejected for")
    table = []
    for row in rows:
        reasons = ", ".join(f"{reason} {count}" for reason, count in row.reasons.most_common(4))
        rejections = (row.held_out, share(row.rejected, row.held_out), share(row.new_rejected, row.new))
        bare = (share(row.typed, row.leaves), share(row.bare, row.schemas), reasons)
        table.append((row.learner, row.split, *rejections, *bare))
    show("Held-out answers", columns, table)
    sizes = {kind: sum(len(text) for group in texts for text in group) / 1e6 for kind, texts in groups.items()}
    fast = [
        (name, kind, f"{sizes[kind]:.2f} MB", f"{figures['add_mb_s']:.1f}", f"{figures['whole_mb_s']:.1f}")
        for (name, kind), figures in speeds.items()
    ]
    show("MB of JSON a second", ("learner", "answers", "size", "add", "text to schema"), fast)


if __name__ == "__main__":
    raise SystemExit(main())
