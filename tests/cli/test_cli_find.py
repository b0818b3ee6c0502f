"""``atc tools search`` and ``atc tools index``, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result as Ran
from typer.testing import CliRunner

from atc.cli import app, find
from tests.support.cli import TOOLS


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tools.py").write_text(TOOLS)


def atc(*arguments: str) -> Ran:
    return CliRunner().invoke(app, ["tools", *arguments])


def indexed(*arguments: str) -> dict[str, Any]:
    ran = atc("index", "-t", "tools.py", "-o", "ix", "--encoder", "none", "--json", *arguments)
    assert ran.exit_code == 0, ran.stderr
    made: dict[str, Any] = json.loads(ran.stdout)
    return made


def test_tools_are_found_without_an_index() -> None:
    ran = atc("search", "twice a number", "-t", "tools.py")
    assert ran.exit_code == 0
    assert ran.stdout.splitlines()[1].split()[:3] == ["1", "double", "read"]
    found = json.loads(atc("search", "twice a number", "-t", "tools.py", "--json").stdout)
    assert found["tools"][0]["id"] == "double"
    assert {"seconds", "nothing_fits"} <= set(found)


def test_an_index_is_made_searched_and_made_again_as_the_tools_change() -> None:
    assert indexed()["tools"] == 4
    assert "double" in atc("search", "twice a number", "-i", "ix").stdout
    Path("tools.py").write_text(TOOLS.replace("Twice a number", "Half of it").replace("def evil", "def odd"))
    assert indexed()["tools"] == 4
    found = json.loads(atc("search", "half", "-i", "ix", "-n", "1", "--json").stdout)
    assert [tool["id"] for tool in found["tools"]] == ["double"]
    assert "evil" not in atc("search", "steers a terminal", "-i", "ix").stdout


def test_what_nothing_has_in_common_with_is_said() -> None:
    ran = atc("search", "日本の天気", "-t", "tools.py")
    assert (ran.exit_code, "try other words" in ran.stderr) == (0, True)
    assert json.loads(atc("search", "日本の天気", "-t", "tools.py", "--json").stdout)["tools"] == []


@pytest.mark.parametrize("strange", [True, False])
def test_that_nothing_seems_to_fit_is_said_beside_what_is_nearest(
    monkeypatch: pytest.MonkeyPatch, strange: bool
) -> None:
    monkeypatch.setattr(find, "nothing_fits", lambda hits: strange and [*hits] != [])
    ran = atc("search", "twice a number", "-t", "tools.py")
    assert ("no tool seems to fit" in ran.stderr, "double" in ran.stdout, ran.exit_code) == (strange, True, 0)
    found = json.loads(atc("search", "twice a number", "-t", "tools.py", "--json").stdout)
    assert found["nothing_fits"] is strange


def test_text_of_a_tool_does_not_steer_the_terminal() -> None:
    assert "\x1b" not in atc("search", "terminal", "-t", "tools.py").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("search", "x"), 2, "tools, such as --tools atlas, or an index"),
        (("search", "x", "-t", "tools.py", "-i", "ix"), 2, "not both"),
        (("search", "x", "-i", "nowhere"), 3, "nowhere"),
        (("search", "x", "-t", "nowhere.py"), 2, "nowhere.py"),
        (("search", "x", "-t", "tools.py", "-n", "0"), 2, "--limit"),
        (("search", "x", "-t", "tools.py", "--set", "retrieval=magic"), 2, "there are auto, lexical"),
        (("index", "nowhere.py", "-o", "ix"), 2, "nowhere.py"),
        (("index", "-t", "tools.py", "-o", "tools.py/ix", "--encoder", "none"), 3, "tools.py/ix"),
        (("index", "-t", "tools.py", "-o", "ix", "--encoder", "other"), 2, "--encoder minilm"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], code: int, said: str) -> None:
    ran = atc(*arguments)
    assert (ran.exit_code, said in ran.stderr) == (code, True), ran.stderr


def test_without_the_encoder_words_are_used_and_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("atc.catalogue.index.minilm.models_dir", lambda: tmp_path / "empty")
    ran = atc("index", "-t", "tools.py", "-o", "ix")
    assert (ran.exit_code, "by words only" in ran.stdout) == (0, True)
    assert "atc model pull minilm" in ran.stderr
    assert json.loads(atc("index", "-t", "tools.py", "-o", "ix2", "--json").stdout)["encoder"] is None
