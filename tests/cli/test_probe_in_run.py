"""``atc run --probe reads``: a line for each read that is made before the first program, and the same in ``--json``."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atc.probing import reads
from atc.run import probing
from tests.support.cli import atc
from tests.support.fake_openai_server import says

SHOP = '''
from atc import tool

@tool(effect="read")
def list_orders():
    """All orders."""
    return {"orders": [{"order_id": 8812}]}

@tool(effect="read")
def get_order(order_id):
    """One order."""
    raise ValueError("closed for today")
'''
PROGRAM = "```python\nanswer = list_orders()['orders'][0]['order_id']\n```"


@pytest.fixture(autouse=True)
def _shop(settled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("shop.py").write_text(SHOP)
    monkeypatch.setattr(probing, "IN_RUN", replace(probing.IN_RUN, seconds=60.0))
    monkeypatch.setattr(reads, "LEARNT_S", 60.0)  # a busy disk takes long to keep what is learnt


def test_each_read_is_a_line_and_a_second_run_makes_none(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint(*[says(PROGRAM)] * 2)
    made = atc("run", "tell", "--tools", "shop.py", "--probe", "reads")
    assert made.exit_code == 0, made.output
    assert "probed list_orders(): the shape of its answer is known now" in made.output
    assert "probed get_order(order_id=8812): nothing is learnt" in made.output
    monkeypatch.delitem(sys.modules, "shop")  # as in another process
    again = atc("run", "tell", "--tools", "shop.py", "--probe", "reads")
    assert "probed list_orders" not in again.output


def test_the_document_has_them_apart_from_the_calls(endpoint: Any) -> None:
    endpoint(says(PROGRAM))
    made = json.loads(atc("run", "tell", "--tools", "shop.py", "--probe", "reads", "--json").stdout)
    assert [(each["tool"], each["learnt"]) for each in made["probed"]] == [("list_orders", True), ("get_order", False)]
    assert [call["tool"] for call in made["calls"]] == ["list_orders"]


@pytest.mark.parametrize("given", [("--probe", "sometimes"), ("--set", "probe=all")], ids=["option", "setting"])
def test_another_word_is_wrong_use(given: tuple[str, str]) -> None:
    made = atc("run", "tell", "--tools", "shop.py", *given)
    assert made.exit_code == 2
    assert "probe: Input should be 'off' or 'reads'" in made.output
