"""``atc runs apply``: the plan of a dry run is shown, asked about once at a terminal, and made exactly."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from atc.calls import question
from tests.support.cli import at_a_terminal, atc
from tests.support.fake_openai_server import Server, says

PROGRAM = "```python\nanswer = [book(n=n) for n in (4, 5)]\n```"


pytestmark = pytest.mark.usefixtures("settled_anew")


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

    at_a_terminal(monkeypatch, "n")
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

    at_a_terminal(monkeypatch, "y")
    sys.modules.pop("tools", None)
    done = atc("runs", "apply", "last", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout[done.stdout.index("{") :])["status"] == "answered"
    (row,) = json.loads(atc("runs", "--json").stdout)
    assert row["status"] == "answered"
    again = atc("runs", "apply", "last")
    assert (again.exit_code, "was applied before" in again.output) == (2, True)
