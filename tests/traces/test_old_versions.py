"""Runs that older versions left behind are read and resumed. ``samples`` holds one of each, killed during a write."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, tool
from atc.settings import Settings
from atc.traces.index import RunIndex
from atc.traces.stores import open_store

SAMPLES = Path(__file__).parent / "samples"
PROGRAM = """
got = []
for order in find_orders(customer="ann")["orders"]:
    got.append(cancel(order=order["id"])["id"])
answer = got
"""


def shop(sent: list[str]) -> list[Any]:
    def find_orders(customer: str) -> dict[str, Any]:
        """The orders of a customer."""
        return {"orders": [{"id": "o17"}, {"id": "o18"}]}

    def cancel(order: str) -> dict[str, Any]:
        """Cancel an order."""
        sent.append(order)
        return {"id": "r-" + order}

    for function in (find_orders, cancel):
        function.__module__, function.__qualname__ = "shop", function.__name__
    return [tool(effect="read")(find_orders), tool(effect="write")(cancel)]


@pytest.mark.parametrize("version", sorted(path.name for path in SAMPLES.iterdir()))
def test_a_run_of_an_older_version_is_read_and_resumed_and_nothing_is_done_twice(version: str, tmp_path: Path) -> None:
    runs = shutil.copytree(SAMPLES / version, tmp_path / "runs")
    (row,) = RunIndex(open_store(Settings.load(runs_dir=runs))).latest(5)
    assert (row.task, row.status) == ("Cancel all orders of ann", "cut off")
    sent: list[str] = []
    model = FakeModel([PROGRAM, PROGRAM, PROGRAM])
    with Agent(shop(sent), model=model, approve="always", runs_dir=runs, sentence=False, learn=False) as agent:
        result = agent.resume("last", trust_run=True)
    assert (result.status, sent) == ("in_doubt", [])
    assert [(call.tool, call.arguments) for call in result.done] == [("cancel", {"order": "o17"})]
    assert [(call.tool, call.arguments) for call in result.in_doubt] == [("cancel", {"order": "o18"})]
