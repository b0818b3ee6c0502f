"""``atc runs settle``, ``atc runs undo``: what came of a call in doubt, and a run that is undone, as a user does it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result as Ran

from tests.support import cli
from tests.support.cli import at_a_terminal
from tests.support.fake_openai_server import Server, says

TOOLS = '''
from pathlib import Path
from atc import tool, ToolError

@tool(effect="write", undo="refund(receipt=$result)")
def pay(order: str) -> str:
    """Pay an order."""
    with Path("paid").open("a") as file:
        file.write(order)
    if Path("lost").exists():
        raise TimeoutError("no answer")
    return f"r-{order}"

@tool(effect="write")
def refund(receipt: str) -> str:
    """Give money back."""
    with Path("refunded").open("a") as file:
        file.write(receipt)
    return "ok"

@tool(effect="read")
def paid() -> dict:
    """What is paid."""
    return {"orders": Path("paid").read_text(), "ok": True}
'''
PROGRAM = """```python
try:
    pay(order="4")
except Exception:
    pass
answer = "paid"
```"""
SETTLE = '[tools.pay]\nsettle = { read = "paid()", done = { "body.ok" = true } }\n'


def atc(*arguments: str, stdin: str | None = None) -> Ran:
    sys.modules.pop("tools", None)  # as in a process of its own
    return cli.atc(*arguments, stdin=stdin)


@pytest.fixture(autouse=True)
def _shop(settled_anew: None) -> None:
    Path("tools.py").write_text(TOOLS)


@pytest.fixture
def lost(endpoint: Callable[..., Server], tmp_path: Path) -> Path:
    """A run whose payment got no answer."""
    endpoint(says(PROGRAM), says(PROGRAM), says(PROGRAM))
    (tmp_path / "lost").touch()
    ran = atc("run", "pay 4", "--tools", "tools.py", "--approve", "always")
    assert ran.exit_code == 6, ran.output
    assert "`atc runs settle 2" in ran.output
    (tmp_path / "lost").unlink()
    return tmp_path


def test_without_a_read_a_person_settles_it_at_a_terminal(lost: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "atc runs settle RUN" in atc("runs").output
    assert "`atc runs settle 2" in atc("runs", "show", "last").output
    told = atc("runs", "settle", "last")
    assert (told.exit_code, '[tools."pay"]' in told.output) == (6, True)
    assert "--call 1 --done` or --not-done" in told.output
    assert atc("runs", "settle", "last", "--done").exit_code == 2  # which call?
    assert atc("runs", "settle", "last", "--call", "7", "--done").exit_code == 2
    piped = atc("runs", "settle", "last", "--call", "1", "--done", stdin="y\n")
    assert (piped.exit_code, "needs a terminal" in piped.output) == (2, True)

    at_a_terminal(monkeypatch, "n", "y")
    assert atc("runs", "settle", "last", "--call", "1", "--done").exit_code == 6
    settled = atc("runs", "settle", "last", "--call", "1", "--done")
    assert (settled.exit_code, "1 settled" in settled.output) == (0, True)
    assert "call 1 (pay) was done, by the word of" in atc("runs", "show", "last").output
    again = atc("runs", "settle", "last")
    assert (again.exit_code, "no call in doubt" in again.output) == (0, True)
    done = atc("resume", "last", "--json")
    assert (done.exit_code, json.loads(done.stdout)["status"]) == (0, "answered")
    assert (lost / "paid").read_text() == "4"


def test_a_named_read_settles_it(lost: Path) -> None:
    rules = lost / "permissions.toml"
    rules.write_text(SETTLE)
    rules.chmod(0o600)
    found = atc("runs", "settle", "last", "--set", f"permissions={rules}", "--json")
    assert found.exit_code == 0, found.output
    assert [each["outcome"] for each in json.loads(found.stdout)["settled"]] == ["done"]
    assert (lost / "paid").read_text() == "4"


def test_a_run_is_undone(endpoint: Callable[..., Server], tmp_path: Path) -> None:
    endpoint(says(PROGRAM))
    assert atc("run", "pay 4", "--tools", "tools.py", "--approve", "always").exit_code == 0
    (row,) = json.loads(atc("runs", "--json").stdout)
    first = row["run_id"]
    shown = atc("runs", "undo", first, "--dry-run")
    assert (shown.exit_code, "refund(receipt='r-4')" in shown.output) == (0, True)
    assert "receipt ← the response of pay (call 1)" in shown.output
    assert atc("runs", "undo", first).exit_code == 4  # nobody can be asked here
    undone = atc("runs", "undo", first, "--approve", "always", "--json")
    assert (undone.exit_code, [each["outcome"] for each in json.loads(undone.stdout)["calls"]]) == (0, ["undone"])
    again = atc("runs", "undo", first, "--approve", "always")
    assert (again.exit_code, "undid it" in again.output) == (0, True)
    assert (tmp_path / "refunded").read_text() == "r-4"
    assert "was undone by run" in atc("runs", "show", first).output
