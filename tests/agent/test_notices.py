"""What a run finds out about its endpoint is in the trace and on the terminal, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from atc import Settings
from atc.traces.stores.files import FileStore
from tests.support.cli import GOOD, atc, endpoints, settle
from tests.support.fake_openai_server import Handler, fails, says

REFUSAL = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."


def test_a_refused_format_is_reported_once_and_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = ["```python\nanswer = 1 / 0\n```", "```python\nanswer = [][0]\n```", GOOD]

    def step(handler: Handler) -> None:
        request = handler.server.requests[-1]
        if "response_format" in request:
            fails(400, REFUSAL)(handler)
        elif "Reply with exactly one of" in request["messages"][-1]["content"]:
            says("double")(handler)
        else:
            says(programs.pop(0))(handler)

    settle(tmp_path, monkeypatch)
    with endpoints(monkeypatch) as start:
        server = start(step)
        ran = atc("run", "double 21", "--tools", "tools.py", "--only", "double", "--strategy", "atc-paper")
    assert ran.exit_code == 0, ran.output
    assert ran.stderr == ""
    notes = [line for line in ran.stdout.splitlines() if line.startswith("  note: ")]
    assert len(notes) == 1, ran.stdout
    assert f"'tiny' at {server.url} refuses response_format (json_schema)" in notes[0]
    assert sum("response_format" in request for request in server.requests) == 1  # of two questions for a tool
    stored = FileStore(Settings.load().runs_dir).find("last")
    ended: list[dict[str, Any]] = [event["data"] for event in stored.events() if event["kind"] == "model_ended"]
    assert [data["purpose"] for data in ended if "notice" in data] == ["attribute"]
    assert [data["purpose"] for data in ended].count("attribute") == 2
    assert "  note: " in atc("runs", "show", "last").stdout
