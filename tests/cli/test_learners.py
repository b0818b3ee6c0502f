"""Commands of other packages below ``atc tools learn``: each is loaded when it is named, none takes a taken name."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest

from atc.cli import learn
from atc.parts import LEARN
from tests.support.cli import atc


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two packages with commands for ``atc tools learn``; the file is there once the good one was imported."""
    for name, lines in (
        ("one", "greet = other_learner:greet\nbroken = no_such_module:run\ntwice = other_learner:greet\n"),
        ("two", "twice = other_learner:bye\n"),
    ):
        folder = tmp_path / name / f"{name}-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[{LEARN.group}]\n{lines}")
        monkeypatch.syspath_prepend(str(tmp_path / name))
    (tmp_path / "one" / "other_learner.py").write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'mark')!r}).touch()\n"
        "def greet(name: str, loud: bool = False):\n    'Say hello.\\n\\n    To whom it may concern.'\n"
        "    print(f'hello {name}' + '!' * loud)\ndef bye(): pass\n"
    )
    yield tmp_path / "mark"
    sys.modules.pop("other_learner", None)


def test_a_command_is_loaded_when_it_is_named_and_not_before(installed: Path) -> None:
    assert atc("--help").exit_code == 0
    assert (ran := atc("tools", "learn")).exit_code == 2
    assert "greet" in ran.stderr
    assert not installed.exists()
    ran = atc("tools", "learn", "greet", "Ann", "--loud")
    assert (ran.exit_code, ran.stdout) == (0, "hello Ann!\n")
    assert "To whom it may concern" in atc("tools", "learn", "greet", "--help").stdout


def test_the_help_lists_them_and_one_that_is_broken_hides_no_other(installed: Path) -> None:
    said = " ".join(atc("tools", "learn", "--help").stdout.replace("│", " ").split())
    assert "greet Say hello." in said
    assert "'broken' (no_such_module:run of the package one) cannot be imported" in said
    assert installed.exists()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken", "'broken' (no_such_module:run of the package one) cannot be imported: ModuleNotFoundError"),
        ("twice", "'twice': one (other_learner:greet), two (other_learner:bye); uninstall all but one"),
    ],
)
def test_one_that_cannot_be_had_says_why_whatever_it_is_given(name: str, message: str) -> None:
    ran = atc("tools", "learn", name, "--any", "thing", "--json")
    assert (ran.exit_code, message in ran.stderr) == (2, True)
    assert message in json.loads(ran.stdout)["error"]["message"]


def test_no_package_takes_a_built_in_name(installed: Path) -> None:
    group = learn.Learners(name="learn")
    group.commands["greet"] = own = learn.command_of("greet", lambda: None)
    assert group.get_command(None, "greet") is own
    assert not installed.exists()


@pytest.mark.parametrize("name", sorted(learn.RESEARCH))
def test_without_research_a_command_of_it_says_how_to_get_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: EntryPoints())
    assert "Commands" not in atc("tools", "learn", "--help").stdout
    ran = atc("tools", "learn", name, "FILE", "-o", "out", "--json")
    assert ran.exit_code == 3
    said = (
        f"`atc tools learn {name}` is in the package atc-runtime-research, which is not installed: "
        "run `pip install ./research` in a checkout of ATC"
    )
    assert json.loads(ran.stdout)["error"]["message"] == said
    assert said in ran.stderr
    assert atc("tools", "learn", name, "--help").exit_code == 3
    assert atc("tools", "learn", "nothing").exit_code == 2


@pytest.mark.parametrize("there", [True, False])
def test_a_model_of_links_is_left_and_a_line_says_so_without_research(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "catalogue").mkdir(exist_ok=True)
    (tmp_path / "catalogue" / learn.LINKS).write_text("{}")
    if not there:
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: EntryPoints())
    ran = atc("tools", "learn")
    assert ran.exit_code == 2
    assert ("links.json is not used: `atc tools learn links` is in" in ran.stderr) is not there
    assert (tmp_path / "catalogue" / learn.LINKS).read_text() == "{}"


def test_nothing_that_runs_a_task_imports_what_trains() -> None:
    look = "import sys, atc, atc.agent, atc.cli, atc.cli.run; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert "atc.cli.run" in ran.stdout.split()
    assert not [name for name in ran.stdout.split() if name.startswith(("atc.cli.learn", "atc_research"))]
