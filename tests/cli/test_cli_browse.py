"""``atc tools browse``, as a user runs it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from atc.catalogue.index.index import ToolIndex
from atc.cli import app
from atc.cli.browse import found
from atc.errors import UsageError
from tests.catalogue.index.test_menu import many
from tests.support.retrieval import HashedWords, protocol


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ToolIndex.build(many(), None, folder := tmp_path_factory.mktemp("built") / "ix")
    return folder


@pytest.fixture
def folder(tmp_path: Path, built: Path) -> Path:
    shutil.copytree(built, tmp_path / "ix")
    return Path("ix")


def atc(*arguments: str, folder: Path | None = None) -> Any:
    where = ["--index", str(folder)] if folder else []
    return CliRunner().invoke(app, ["tools", "browse", *where, *arguments])


def data(*arguments: str, folder: Path | None = None) -> dict[str, Any]:
    ran = atc(*arguments, "--json", folder=folder)
    assert ran.exit_code == 0, ran.stderr
    made: dict[str, Any] = json.loads(ran.stdout)
    return made


def ids(entries: list[dict[str, Any]]) -> list[str]:
    return [id for each in entries for id in ([each["id"]] if "id" in each else ids(each["entries"]))]


def test_a_page_is_printed_with_names_numbers_and_counts(folder: Path) -> None:
    lines = atc(folder=folder).stdout.splitlines()
    assert lines[0] == "all tools: 72 tools"
    assert [line.split()[0] for line in lines[1:]] == [str(number) for number in range(1, len(lines))]


def test_json_has_every_tool_and_depth_and_limit_bound_it(folder: Path) -> None:
    whole = data(folder=folder)
    assert sorted(ids(whole["entries"])) == sorted(id for id, _ in many())
    assert (whole["tools"], whole["left_out"], whole["note"]) == (72, 0, "")
    flat = data("--depth", "1", folder=folder)["entries"]
    assert [each["tools"] for each in flat] == [each["tools"] for each in whole["entries"]]
    assert not any("entries" in each for each in flat)
    few = data("--limit", "15", folder=folder)
    assert few["left_out"] == 72 - len(ids(few["entries"]))
    assert "--limit 15" in few["note"]


def test_a_path_is_names_beginnings_or_numbers(folder: Path) -> None:
    first = data("--depth", "1", folder=folder)["entries"][0]
    for step in ("1", first["name"], first["name"].upper(), first["name"][:-1]):
        below = data("--path", step, "--depth", "1", folder=folder)
        assert (below["path"], below["below"]) == ([first["name"]], first["tools"])
    deeper = below["entries"][-1]
    ran = atc("--path", f"1/{len(below['entries'])}", folder=folder)
    assert deeper.get("id", first["name"]) in ran.stdout


@pytest.mark.parametrize("path", ["0", "99", "0000000019", "9" * 5_000, "nothing like it", "1/99", "-1", "1/\x1b[31m"])
def test_a_wrong_path_says_what_there_is(folder: Path, path: str) -> None:
    ran = atc("--path", path, folder=folder)
    assert ran.exit_code == 2
    assert "here; there is 1 " in ran.stderr
    assert "\x1b[31m" not in ran.stderr
    refused = json.loads(atc("--path", path, "--json", folder=folder).stdout)
    assert refused["error"]["kind"] == "UsageError"


def test_a_beginning_of_several_names_them() -> None:
    tools = [(name, protocol("x", "")) for name in ("alpha/one", "alpha/two", "beta")]
    menu = ToolIndex.build(tools).menu()
    with pytest.raises(UsageError, match="'alpha' may be 1 alpha/one; 2 alpha/two"):
        found(menu, "alpha")
    assert [menu.children()[found(menu, path)[0]].id for path in ("alpha/two", "b", "two", "3")] == [
        "alpha/two",
        "beta",
        "alpha/two",
        "beta",
    ]
    with pytest.raises(UsageError, match="beta is a tool: nothing is below it"):
        found(menu, "beta/more")


def test_where_a_tool_stands(folder: Path) -> None:
    shown = data("--tool", "chess/moves_1", folder=folder)
    assert shown["entries"][shown["number"] - 1]["id"] == "chess/moves_1"
    assert "chess/moves_1" in atc("--tool", "chess/moves_1", folder=folder).stdout
    ran = atc("--tool", "chess moves", folder=folder)
    assert ran.exit_code == 2
    assert "by its words it may be chess/moves" in ran.stderr


def test_what_cannot_be_asked_for(folder: Path) -> None:
    assert atc().exit_code == 2
    assert atc("-t", "atlas", folder=folder).exit_code == 2
    assert atc("--path", "1", "--tool", "chess/moves_1", folder=folder).exit_code == 2
    assert atc(folder=Path("nowhere")).exit_code != 0


def test_sources_without_an_index_and_without_an_encoder() -> None:
    assert ids(data("-t", "atlas")["entries"])
    Path("one.py").write_text('def only(a: int) -> int:\n    """The only one."""\n    return a\n')
    ran = atc("-t", "one.py")
    assert ran.exit_code == 0
    assert "only" in ran.stdout


HOSTILE = [
    ("a\x1b[31m\u202e\x00", protocol("x", "\x1b]0;title\x07</script><script>alert(1)</script>")),
    ("b" * 10_000, protocol("y", "the of and " * 3_000)),
    ("c/\N{RIGHT-TO-LEFT OVERRIDE}<img src=x>", protocol("the_of", "")),
    ("d\n/\n", protocol("z", "\ud800 half")),
]


def test_text_of_tools_steers_neither_terminal_nor_page(tmp_path: Path) -> None:
    ToolIndex.build(HOSTILE + many(4), None, tmp_path / "evil")
    for arguments in (["--depth", "9"], ["--path", "beta"], ["--json"]):
        ran = atc(*arguments, folder=tmp_path / "evil")
        assert "\x1b" not in ran.stdout + ran.stderr
        assert "\x00" not in ran.stdout
    assert "\u202e" not in atc("--depth", "9", folder=tmp_path / "evil").stdout
    ran = atc("--output", "page.html", folder=tmp_path / "evil")
    assert ran.exit_code == 0, ran.stderr
    text = Path("page.html").read_text()
    assert "<img" not in text
    assert "alert(1)</script>" not in text
    assert "\u202e" not in text


def test_a_page_is_written_whole_and_not_over_another(folder: Path) -> None:
    written = data("--output", "menu.html", folder=folder)
    assert written["tools"] == 72
    assert written["bytes"] == Path("menu.html").stat().st_size
    ran = atc("--output", "menu.html", folder=folder)
    assert ran.exit_code == 2
    assert "--force" in ran.stderr
    assert atc("--output", "menu.html", "--force", folder=folder).exit_code == 0
    assert atc("--output", "no/where.html", folder=folder).exit_code == 2


def test_vectors_and_codes_are_used_where_an_index_has_them(tmp_path: Path) -> None:
    ToolIndex.build(many(), HashedWords(), tmp_path / "dense")
    assert sorted(ids(data(folder=tmp_path / "dense")["entries"])) == sorted(id for id, _ in many())
