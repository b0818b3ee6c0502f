"""The benchmark of the menu: drawn alike every time, kept line by line, and what the menu itself loses."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

pytest.importorskip("bm25s")

from atc.models.fake import FakeModel
from atc.retrieval.index import ToolIndex
from atc.retrieval.menu import WordGroups
from atc.retrieval.menu_walk import GROUPS
from benchmarks.codes_menu import ROWS, Case, Method, drawn, read_rows, summary, tried
from tests.support.retrieval import protocol

TOOLS = [
    (f"{thing}/{verb}_{n}", protocol(f"{verb}_{n}", f"{verb} the {thing} with number {n}"))
    for thing in ("weather", "ticket", "invoice", "film")
    for verb in ("find", "make")
    for n in range(6)
]
CASES = [Case(f"q{n}", "here", "here", f"make film {n % 5}", frozenset([f"film/make_{n % 5}"])) for n in range(20)]


@pytest.fixture(scope="module")
def index() -> ToolIndex:
    return ToolIndex.build(TOOLS)


def row(index: ToolIndex, method: Method, *replies: str):
    groups = WordGroups(index.menu(GROUPS))
    return asyncio.run(tried(CASES[1], method, index, groups, FakeModel(replies), "near"))


def test_a_menu_whose_right_lines_are_picked_leads_to_the_tool(index: ToolIndex) -> None:
    ceiling = row(index, "ceiling")
    assert (ceiling.picked, ceiling.place()) == (["film/make_1"], 1)
    assert 1 <= ceiling.calls <= 3
    assert 0 < ceiling.longest < 900


def test_rows_are_kept_and_summed_up(index: ToolIndex, tmp_path: Path) -> None:
    rows = [row(index, "hybrid"), row(index, "ceiling"), row(index, "menu", '{"pick": []}', '{"pick": []}')]
    rows.append(row(index, "planned", "<plan>\n1. film\n</plan>", "<stop_retrieval>"))
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b"".join(ROWS.dump_json(each) + b"\n" for each in rows) + b'{"method": "menu", "sou')
    assert read_rows(file) == rows
    by = {figures["method"]: figures for figures in summary(rows)}
    assert by["ceiling"]["picked in 4"] == 100.0
    assert by["menu"]["picked in 4"] == 0.0
    assert by["hybrid"]["calls"] == 0
    assert by["planned"]["calls"] == 2
    json.dumps([*by.values()])


def test_the_same_queries_are_drawn_every_time() -> None:
    assert drawn(CASES, 3) == drawn(reversed(CASES), 3)
    assert len(drawn(CASES, 99)) == 5  # each text once
