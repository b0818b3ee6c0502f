"""``atc probe``: what a person sees and gets, over a service of the kind that most are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from atc.cli import app
from atc.tools.documents import drifted_tools, load_protocols
from atc.tools.functions import tool
from atc.tools.tool import Toolset
from tests.support.probe import Says, running

TOOLS = """
import atc

@atc.tool(effect="read")
def find_lakes(country):
    if country is None:
        raise ValueError("country: a country code is required")
    return {"lakes": [{"lake_id": 77, "name": "Inari"}, {"lake_id": 78, "name": "Saimaa"}]}

@atc.tool(effect="read")
def get_lake(lake_id):
    if lake_id not in (77, 78):
        raise ValueError("there is no lake with this id")
    return {"lake_id": lake_id, "name": "Inari", "area_km2": 1040.3, "depth": DEPTH}

@atc.tool(effect="write")
def drain_lake(lake_id):
    open(MARK, "w").close()

@atc.tool(effect="read")
def count_fish(zone):
    raise ValueError("closed on Sundays")
"""


@pytest.fixture
def lakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of tools; ``drained`` beside it is made by the tool that must not be called."""
    monkeypatch.chdir(tmp_path)
    return written(tmp_path, "{'metres': 92}")


def written(folder: Path, depth: str) -> Path:
    file = folder / "lakes.py"
    text = TOOLS.replace("DEPTH", depth).replace("MARK", repr(str(folder / "drained")))
    file.write_text(text)
    return file


def atc(*words: str) -> Any:
    return CliRunner().invoke(app, ["probe", "-t", *words, "--set", "max_tries=0"])


def test_tools_are_documented_and_what_is_not_says_why(lakes: Path, tmp_path: Path) -> None:
    ran = atc(str(lakes), "-o", "docs")
    assert ran.exit_code == 1, ran.output  # one tool could not be documented
    documents = load_protocols(tmp_path / "docs")
    assert set(documents) == {"find_lakes", "get_lake"}
    assert "closed on Sundays" in ran.output
    assert "its effect is write" in ran.output
    assert not (tmp_path / "drained").exists()
    example = documents["get_lake"].protocol.examples[0]
    assert "find_lakes(" in example.program, "the example fetches the id that it needs"
    page = (tmp_path / "docs" / "report.html").read_text()
    assert "<svg" in page
    assert "closed on Sundays" in page
    again = json.loads(atc(str(lakes), "-o", "docs", "--json").stdout)
    assert again["calls"] == 0
    states = [line["state"] for line in again["lines"]]
    undocumented = states.count("undocumented") + states.count("waiting")
    assert undocumented
    assert f"{undocumented} not, {states.count('skipped')} not called" in page
    assert all(f".{state} {{" in page for state in set(states))


def test_a_tool_that_moved_is_told_field_by_field(lakes: Path, tmp_path: Path) -> None:
    source = f"{lakes.stem}:TOOLS"
    lakes.write_text(lakes.read_text() + "\nTOOLS = [find_lakes, get_lake]\n")
    assert atc(str(lakes), "-o", "docs").exit_code in (0, 1)
    same = atc(str(lakes), "--check", "docs")
    assert (same.exit_code, same.stdout) == (0, ""), (same.output, source)
    assert "nothing changed: 2 of 2 tools" in same.stderr
    moved = written(tmp_path, "'ninety-two'").rename(tmp_path / "moved.py")
    told = atc(str(moved), "--check", "docs")
    assert told.exit_code == 1
    assert told.stdout.splitlines() == [
        "@@ get_lake: breaking @@",
        "- get_lake.depth: object",
        "+ get_lake.depth: string  # breaking",
    ]
    assert "1 of 2 tools changed" in told.stderr
    facts = json.loads(atc(str(moved), "--check", "docs", "--json").stdout)
    assert [(each["tool"], each["moved"], each["breaks"]) for each in facts] == [
        ("find_lakes", False, False),
        ("get_lake", True, True),
    ]
    assert [(c["path"], c["before"], c["after"]) for c in facts[1]["changes"]] == [("$.depth", "object", "string")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.json"], "there is no file"),
        (["{lakes}", "--budget", "lots"], "--budget takes tool=NUMBER"),
        (["{lakes}", "--budget", "calls=0"], "--budget takes"),
        (["{lakes}", "--check", "nothing-here"], "there is no folder nothing-here"),
        (["{lakes}", "--check", "docs", "-o", "docs"], "leave -o out"),
        (["{lakes}", "--only", "river_*"], "river_*"),
        (["{lakes}", "-o", "lakes.py"], "lakes.py"),
    ],
)
def test_wrong_use_says_what_to_do(words: list[str], said: str, lakes: Path) -> None:
    ran = atc(*(word.replace("{lakes}", str(lakes)) for word in words))
    assert (ran.exit_code, said in ran.output) == (2, True), ran.output


def test_a_service_that_wants_a_credential_has_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with running() as service:
        service.route("list_shelves", "/shelves", [{"shelf_id": "s-1"}])
        (tmp_path / "api.json").write_text(json.dumps({**service.document(), "servers": [{"url": service.url}]}))
        assert atc("api.json", "-o", "docs").exit_code == 0
        service.routes.clear()
        service.route("list_shelves", "/shelves", Says(status=401))
        away = atc("api.json", "--check", "docs")
        assert (away.exit_code, away.stdout.splitlines()[0][:35]) == (3, "# list_shelves: not compared: GET /"), (
            away.output
        )
        assert drifted_tools(tmp_path / "docs") == set()
        service.routes.clear()
        service.route("list_shelves", "/shelves", Says(status=404))
        gone = atc("api.json", "--check", "docs")
        assert (gone.exit_code, "! list_shelves: none of its" in gone.stdout) == (1, True), gone.output
        assert drifted_tools(tmp_path / "docs") == {"list_shelves"}


def test_an_interrupted_probing_says_how_far_it_came_and_how_to_go_on(
    lakes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("atc.probing.explore.Explorer.probe", interrupted)
    kept, lost = atc(str(lakes), "-o", "docs"), atc(str(lakes))
    assert (kept.exit_code, lost.exit_code) == (130, 130)
    assert "3 waiting, 1 skipped" in " ".join(kept.stderr.split()) or "1 skipped, 3 waiting" in kept.stderr
    assert "the same command continues from there" in kept.stderr
    assert "-o FOLDER" in lost.stderr


def test_a_folder_that_no_probing_wrote_cannot_be_checked(lakes: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    ran = atc(str(lakes), "--check", "docs")
    assert (ran.exit_code, "holds no record" in ran.output) == (2, True), ran.output


def test_documents_take_the_place_of_what_a_source_says(lakes: Path, tmp_path: Path) -> None:
    @tool(effect="read")
    def get_lake(lake_id):  # type: ignore[no-untyped-def]
        return {}

    atc(str(lakes), "-o", "docs")
    tools = Toolset.from_functions(get_lake).documented(tmp_path / "docs")
    protocol = tools["get_lake"].protocol
    assert protocol.returns is not None
    assert set(protocol.returns["properties"]) == {"lake_id", "name", "area_km2", "depth"}
    assert tools["get_lake"].transport is not None
