"""Tools whose users speak otherwise than their documents: only what was asked before says which tool a query is for."""

from __future__ import annotations

import json
from pathlib import Path

from atc.catalogue.learn.examples import Pair

from atc._records.events import VERSION
from atc.catalogue.index.index import ToolIndex
from atc.schemas.protocol import Protocol
from tests.support.retrieval import HashedWords, protocol

DOCUMENTED = "weather invoice movie hotel train recipe music photo parcel garden".split()
SPOKEN = "umbrella owed cinema bed platform cooking concert camera courier roses".split()
_AROUND = "morning evening urgent cheap nearby twice quietly abroad tomorrow weekly alone grandmother".split()
"""Words in which the queries for one tool differ."""


def tools() -> list[Protocol]:
    """A tool for each word of the documents."""
    return [protocol(f"do_{word}", f"Handles the {word} of a person.", "name") for word in DOCUMENTED]


class SmallEncoder(HashedWords):
    """One whose training is quick."""

    dimensions = 64


def index(encoder: HashedWords | None = None) -> ToolIndex:
    """The tools, by words and by a small encoder."""
    return ToolIndex.build(tools(), encoder or SmallEncoder())


def pairs(each: int = 12) -> list[Pair]:
    """Queries in the users' words: so many of one tool, 66 at most."""
    made = []
    for document, word in zip(DOCUMENTED, SPOKEN, strict=True):
        for number in range(each):
            first, second = _AROUND[number % len(_AROUND)], _AROUND[(number * 5 + number // 12 + 1) % len(_AROUND)]
            made.append(Pair(f"{word} of a person, {first} {second} {number}", (f"do_{document}",)))
    return made


def ran(folder: Path, number: int, task: str, tool: str, *, status: str = "answered", program: str = "p") -> None:
    """A run on disk that called one tool, and another one in a program that failed."""
    run = folder / f"20260101-{number:06d}-abcdef"
    run.mkdir(parents=True)
    events = [
        ("run_started", {"run_id": run.name, "task": task, "source": json.dumps({"tools": ["tools.py"]})}),
        ("program_written", {"program": "q"}),
        ("program_started", {}),
        ("call_ended", {"index": 1, "tool": "do_garden", "arguments": {}, "status": "ok", "effect": "read"}),
        ("program_written", {"program": "p"}),
        ("program_started", {}),
        ("call_ended", {"index": 2, "tool": tool, "arguments": {}, "status": "ok", "effect": "read"}),
        ("call_ended", {"index": 3, "tool": "do_photo", "arguments": {}, "status": "failed", "effect": "read"}),
        ("run_ended", {"status": status, "program": program}),
    ]
    lines = (json.dumps({"v": VERSION, "kind": kind, "at": 0, "data": data}) for kind, data in events)
    (run / "trace.jsonl").write_text("\n".join(lines) + "\n")
