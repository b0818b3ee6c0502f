"""``atc runs apply``: the plan of a dry run is shown, asked about once at a terminal, and made exactly."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atc.calls import question
from tests.support.cli import atc, endpoints, settle
from tests.support.fake_openai_server import Server, says

PROGRAM = "```python\nanswer = [book(n=n) for n in (4, 5)]\n```"


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    settle(tmp_path, monkeypatch)
    sys.modules.pop("tools", None)
    monkeypatch.setenv("ATC_RUNS_DIR", str(tmp_path / "runs"))
    with endpoints(monkeypatch) as start:
        yield start


def test_a_plan_is_shown_and_applied_after_one_yes(
    endpoint: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    endpoint(says(PROGRAM))
    planned = atc("run", "book 4 and 5", "--tools", "tools.py", "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert "atc runs apply" in planned.output
    (row,) = json.loads(atc("runs", "--json").stdout)
    assert row["status"] == "planned"

    refused = atc("runs", "apply", "last", stdin="y\n")  # a model with a shell can do that
    assert (refused.exit_code, "needs a terminal" in refused.output) == (2, True)

    monkeypatch.setattr(question, "has_terminal", lambda: True)
    answers = iter(["n", "y"])

    async def line(_: int = 0) -> str:
        return next(answers)

    monkeypatch.setattr(question, "_line", line)
    no = atc("runs", "apply", "last")
    assert no.exit_code == 4
    assert "make these 2 calls with effects, in this order, and no other?" in no.output
    assert "'1. book' = {'n': 4}" in no.output
    assert "'2. book' = {'n': 5}" in no.output
    (journal,) = tmp_path.glob("runs/*/journal.jsonl")
    kept = journal.read_text()
    assert '{"n": 5}' in kept

    async def other_plan(_: int = 0) -> str:
        journal.write_text(kept.replace('{"n": 5}', '{"n": 6}'))
        return "y"

    monkeypatch.setattr(question, "_line", other_plan)
    sys.modules.pop("tools", None)  # as in a process of its own
    changed = atc("runs", "apply", "last")
    assert (changed.exit_code, "is not what was shown" in changed.output) == (2, True)
    journal.write_text(kept)

    monkeypatch.setattr(question, "_line", line)
    sys.modules.pop("tools", None)
    done = atc("runs", "apply", "last", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout[done.stdout.index("{") :])["status"] == "answered"
    (row,) = json.loads(atc("runs", "--json").stdout)
    assert row["status"] == "answered"
    again = atc("runs", "apply", "last")
    assert (again.exit_code, "was applied before" in again.output) == (2, True)
