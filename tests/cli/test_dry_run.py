"""`--dry-run`: what would be done is listed, with what feeds it, and nothing is done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import GOOD, atc, settle
from tests.support.fake_openai_server import says

TOOLS = '''
from atc import tool

@tool(effect="read")
def find_orders(customer: str) -> dict:
    """The orders of a customer."""
    return {"orders": [{"id": "o17"}, {"id": "\\x1b[2J"}]}

@tool(effect="write")
def cancel(order: str) -> dict:
    """Cancel an order."""
    open("done", "w")
    return {"receipt": "r1"}

def mail(to: str, about: str) -> str:
    """Send a mail."""
    open("done", "w")
    return "sent"
'''
PROGRAM = """```python
for order in find_orders(customer="ann@example.org")["orders"]:
    done = cancel(order=order["id"])
    mail(to="ann@example.org", about=done["receipt"])
find_orders(customer="ann@example.org")
if done["ok"]:
    answer = "done"
```"""
TASK = ("run", "cancel the orders of ann@example.org", "-t", "tools.py", "--dry-run")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settle(tmp_path, monkeypatch)
    Path("tools.py").write_text(TOOLS)
    yield
    assert not Path("done").exists()


WANTED = """\
── dry run: 4 calls with effects planned ──
  2. cancel(order='o17')
       order ← orders[0].id of find_orders (call 1), row 1 of the 2 found
  3. mail(to='ann@example.org', about='<receipt of call 2>')
       to ← the task
       about ← receipt of what cancel (call 2) returns: known only once it is made
       note: its arguments can be checked only when all of them are known
  4. cancel(order='\\x1b[2J')
       order ← orders[1].id of find_orders (call 1), row 2 of the 2 found
  5. mail(to='ann@example.org', about='<receipt of call 4>')
       to ← the task
       about ← receipt of what cancel (call 4) returns: known only once it is made
       note: its arguments can be checked only when all of them are known
  from line 5 on, `if done["ok"]:`, nothing is known: it needs ok of what cancel (call 4) returns
  call 6 read after planned calls, and saw nothing of what these would change
Nothing was sent. `atc runs apply """


@pytest.mark.parametrize("approve", ["always", "never", "ask"])
def test_the_plan_is_printed_and_is_a_success(endpoint: Any, approve: str) -> None:
    endpoint(says(PROGRAM))
    ran = atc(*TASK, "--approve", approve)
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert WANTED in ran.stdout
    assert "dry run: reads run, calls with effects are listed and not made" in ran.stdout
    assert '○ 2. cancel(order="o17")\n      → planned, not made' in ran.stdout
    assert '○ 3. mail(to="ann@example.org", about=…)' in ran.stdout
    assert "\x1b" not in ran.stdout
    assert WANTED in atc("runs", "show", "last").stdout
    assert json.loads(atc("runs", "--json").stdout)[0]["status"] == "planned"


def test_json_has_the_same(endpoint: Any) -> None:
    endpoint(says(PROGRAM))
    ran = atc(*TASK, "--json")
    result = json.loads(ran.stdout)
    assert (ran.exit_code, result["status"], result["value"], result["answer"]) == (0, "planned", None, "")
    first, second, *_ = result["dry_run"]["planned"]
    assert (first["tool"], first["arguments"], first["line"]) == ("cancel", {"order": "o17"}, 2)
    path = ["orders", 0, "id"]
    feed = {"argument": "order", "inside": [], "kind": "response", "call": 1, "tool": "find_orders", "path": path}
    assert first["feeds"] == [{**feed, "row": {}, "rows": 2, "more": 0}]
    assert (second["effect"], second["unknown"]) == ("unknown", {"about": "done['receipt']"})
    stop = result["dry_run"]["stop"]
    assert (stop["line"], stop["needs"], stop["path"]) == (5, 4, ["ok"])
    assert result["dry_run"]["unseen"] == [6]


def test_a_program_without_effects_answers_and_says_so(endpoint: Any) -> None:
    endpoint(says(GOOD.replace("double(n=21)", 'find_orders(customer="a")["orders"][0]["id"]')))
    ran = atc(*TASK)
    assert ran.exit_code == 0
    assert "── answer ──\no17" in ran.stdout
    assert "── dry run: the program made no call with effects ──" in ran.stdout


def test_a_run_that_is_not_solved_says_nothing_of_effects(endpoint: Any) -> None:
    endpoint(*[says("```python\nanswer = [][find_orders(customer='a')['orders']]\n```")] * 9)
    ran = atc(*TASK)
    assert ran.exit_code == 1
    assert "── dry run" not in ran.stdout


def test_it_cannot_be_resumed_into_a_real_run(endpoint: Any) -> None:
    endpoint(says(PROGRAM))
    atc(*TASK)
    ran = atc("resume", "last", "--approve", "always")
    assert ran.exit_code == 2
    assert "was a dry run and did nothing that could be resumed: `atc runs apply" in ran.stderr
