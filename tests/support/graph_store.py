"""A store of what was learnt that keeps it in memory, and says what was asked of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path as File
from typing import Any, ClassVar

from atc.graph.edges import NOTHING_LEARNT, Learnt, Path
from atc.tools.protocol import Protocol


class FakeGraphStore:
    """Stands in for :class:`atc.graph.store.GraphStore`; all of them share what the test put in."""

    kept: ClassVar[Learnt] = NOTHING_LEARNT
    asked: ClassVar[list[Any]] = []
    notice: ClassVar[str] = ""

    def __init__(self, path: File) -> None:
        self.path = path

    def learnt(self, tools: Mapping[str, Protocol], now: float | None = None) -> Learnt:
        return type(self).kept

    def correct_feed(self, tools: object, edge: tuple[str, Path, str, str], there: bool | None) -> None:
        corrected = {each: was for each, was in self.kept.corrected_feeds.items() if each != edge}
        corrected |= {} if there is None else {edge: there}
        type(self).kept = replace(self.kept, corrected_feeds=corrected)
        self.asked.append(("feed", edge, there))

    def correct_substitute(self, tools: object, tool: str, by: str, there: bool | None) -> None:
        self.asked.append(("substitute", tool, by, there))

    def forget(self, tools: Mapping[str, Protocol] | None = None) -> int:
        self.asked.append(("forget", None if tools is None else sorted(tools)))
        return 3

    def export(self, path: File) -> int:
        path.write_text(json.dumps({"kind": "call"}) + "\n")
        return 1

    def load_export(self, path: File) -> int:
        return len(path.read_text().splitlines())
