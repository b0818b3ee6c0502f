"""Where tools are if no option names them; and the panels of ``atc --help``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atc.cli import COMMANDS, PANELS
from tests.support.cli import atc, settle


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(tmp_path, monkeypatch)


def test_the_panels_hold_each_command_once_and_few() -> None:
    listed = [name for names in PANELS.values() for name in names]
    assert sorted([*listed, "help"]) == sorted(COMMANDS)
    assert len(listed) <= 15


def test_the_tools_of_the_environment_are_taken_where_none_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATC_TOOLS", "tools.py")
    assert json.loads(atc("tools", "list", "--json").stdout)[0]["name"] == "double"
    assert json.loads(atc("tools", "show", "book").stdout)["name"] == "book"
    assert "def double" in atc("tools", "stub", "double").stdout
    assert json.loads(atc("tools", "call", "double", "n=4", "--json").stdout)["value"] == 8
    assert len(json.loads(atc("tools", "list", "-t", "atlas", "--json").stdout)) > 10
    monkeypatch.setenv("ATC_TOOLS", "'my tools.py' tools.py")
    Path("tools.py").rename("my tools.py")
    Path("tools.py").write_text("from atc import tool\n\n@tool\ndef other() -> int:\n    return 1\n")
    assert {each["name"] for each in json.loads(atc("tools", "list", "--json").stdout)} >= {"double", "other"}
    monkeypatch.setenv("ATC_TOOLS", "'tools.py")
    assert "ATC_TOOLS cannot be read" in atc("tools", "list").stderr


def test_what_forgets_never_takes_the_tools_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATC_TOOLS", "tools.py")
    ran = atc("graph", "forget")
    assert ran.exit_code == 2
    assert "name the tools to forget" in ran.stderr
