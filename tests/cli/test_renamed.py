"""Names of the version before: each does what its present name does, and one line on stderr names that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atc.cli import COMMANDS, PANELS, command_at
from atc.cli.renamed import MOVED, OPTIONS, renamed
from tests.support.cli import atc, settle


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(tmp_path, monkeypatch)
    monkeypatch.delenv("ATC_TOOLS", raising=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("show last", "runs show last"),
        ("approvals --json", "runs approvals --json"),
        ("audit --last 3 --json", "permissions audit --limit 3 --json"),
        ("call double n=1 -t tools.py", "tools call double n=1 -t tools.py"),
        ("learn codes --index x", "tools learn codes --index x"),
        ("serve --port 0", "sandbox serve --port 0"),
        ("atlas serve --port 1", "tools serve-demo --port 1"),
        ("tools list a.yaml b.py --json", "tools list --tools a.yaml --tools b.py --json"),
        ("tools list -t a.yaml --documents docs", "tools list -t a.yaml --documents docs"),  # it has no such option
        ("tools list kept -t tools.py", "tools list --tools kept -t tools.py"),
        ("tools show tools.py double", "tools show --tools tools.py double"),
        ("tools show double -t tools.py", "tools show double -t tools.py"),
        ("tools stub atlas get_city sun_times", "tools stub --tools atlas get_city sun_times"),
        ("tools stub get_city -t atlas", "tools stub get_city -t atlas"),
        ("tools stub kept get_city -t atlas", "tools stub --tools kept get_city -t atlas"),
        ("tools index tools/ --out DIR", "tools index --tools tools/ --output DIR"),
        ("tools browse atlas --html=x.html", "tools browse --tools atlas --output=x.html"),
        ("tools search rain --way lexical", "tools search rain --retrieval lexical"),
        ("probe shop.yaml -o docs --sandbox-tenant", "probe --tools shop.yaml -o docs --test-account"),
        ("graph path A B -k 2 -t x", "graph path A B --limit 2 -t x"),
        ("graph correct a.b c.d --no -t x", "graph correct a.b c.d --absent -t x"),
        ("graph export facts.jsonl --force", "graph export --output facts.jsonl --force"),
        ("show last --html page.html", "runs show last --output page.html"),
        ("model pull minilm --dir x", "model pull minilm --output x"),
        ("runs --delete a --delete=b --in-doubt --yes", "runs delete a b --in-doubt --yes"),
        ("runs --keep 5 --json", "runs delete --keep 5 --json"),
        ("runs --search status:waiting --limit 2", "runs search status:waiting --limit 2"),
        ("runs --limit 2 --json", "runs --limit 2 --json"),
        ("batch tasks.txt --budget-tokens 5", "batch tasks.txt --total-tokens 5"),
        ("run task -- --way", "run task -- --way"),
        ("run show -t atlas", "run show -t atlas"),
    ],
)
def test_an_old_command_line_is_read_as_a_new_one(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert " ".join(renamed(old.split())) == new
    said = capsys.readouterr()
    assert not said.out
    assert ("the next version does not take the old name" in " ".join(said.err.split())) is (old != new)


def test_json_stays_one_document_and_the_line_is_on_the_error_stream() -> None:
    ran = atc("tools", "list", "tools.py", "--json")
    assert [each["name"] for each in json.loads(ran.stdout)] == ["double", "book", "evil", "slow"]
    assert "`atc tools list --tools SOURCE`" in " ".join(ran.stderr.split())
    assert atc("tools", "list", "--tools", "tools.py", "--json").stderr == ""


def test_no_help_names_an_old_name() -> None:
    shown = atc("--help").stdout
    for name in {old[0] for old in MOVED}:
        assert name not in COMMANDS
        assert f"│ {name} " not in shown
    for path, names in OPTIONS.items():
        options = {option for each in command_at(*path).params if not each.hidden for option in each.opts}
        options |= {option for each in command_at(*path).params for option in each.secondary_opts}
        assert not options & names.keys(), path
        assert options >= set(names.values()), path


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
