"""`atc mcp install` and `atc mcp uninstall`: what they print and write, and the exit codes they leave with."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from atc.cli.clients.clients import clients
from atc.cli.clients.state import alone
from tests.support.cli import atc
from tests.support.docs import ROOT
from tests.support.mcp import SHOP

GIT = {"command": "uvx", "args": ["mcp-server-git"], "env": {"GITHUB_TOKEN": "ghp_0123456789abcdefghijklmnop"}}
PAGE = ROOT / "docs" / "code-mode.md"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, and a project to stand in."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def cursor(home: Path, **servers: Any) -> Path:
    path = home / ".cursor/mcp.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}, indent=2))
    return path


def test_the_change_is_shown_and_written_on_a_yes(home: Path) -> None:
    path = cursor(home, git=GIT)
    before = path.read_text()
    ran = atc("mcp", "install", "cursor", "--tools", "atlas", "--yes")
    assert ran.exit_code == 0
    assert '+    "atc": {' in ran.stdout
    assert "restart Cursor" in ran.stdout
    assert "ghp_" not in ran.stdout
    assert "atc" in json.loads(path.read_text())["mcpServers"]
    again = atc("mcp", "install", "cursor", "--tools", "atlas")
    assert (again.exit_code, "already has it" in again.stdout) == (0, True)
    assert atc("mcp", "uninstall", "cursor", "--yes").exit_code == 0
    assert path.read_text() == before


def test_without_a_terminal_and_without_yes_nothing_is_written(home: Path) -> None:
    path = cursor(home, git=GIT)
    before = path.read_text()
    ran = atc("mcp", "install", "cursor", "--tools", "atlas")
    assert ran.exit_code == 2
    assert "add --yes" in ran.stderr
    assert '+    "atc": {' in ran.stdout
    assert path.read_text() == before


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_on_a_terminal_the_user_is_asked(home: Path, answer: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cursor(home)
    monkeypatch.setattr("atc.calls.question.has_terminal", lambda: True)
    ran = atc("mcp", "install", "cursor", "--tools", "atlas", stdin=answer)
    assert ran.exit_code == code
    assert ("atc" in json.loads(path.read_text())["mcpServers"]) == (code == 0)
    assert ("nothing was written" in ran.stderr) == (code == 1)


def test_an_installation_that_a_client_cannot_start_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cursor(home)
    told = "note: Cursor cannot start it before you run `pip install"
    assert told not in atc("mcp", "install", "cursor", "--tools", "atlas", "--dry-run").stdout
    monkeypatch.setattr("atc.cli.mcp_install.find_spec", lambda _: None)
    assert told in atc("mcp", "install", "cursor", "--tools", "atlas", "--dry-run").stdout


def test_a_dry_run_leaves_no_trace(home: Path) -> None:
    before = cursor(home, git=GIT).read_text()
    ran = atc("mcp", "install", "cursor", "--move-servers", "--dry-run")
    assert ran.exit_code == 0
    assert "a dry run: nothing was written" in ran.stdout
    assert "moves behind ATC" in ran.stdout
    assert (home / ".cursor/mcp.json").read_text() == before
    assert not (home / ".config").exists()


def test_only_one_process_at_a_time(home: Path) -> None:
    cursor(home)
    with alone(home / ".config/atc/mcp"):
        ran = atc("mcp", "install", "cursor", "--tools", "atlas", "--yes")
    assert (ran.exit_code, "wait for it" in ran.stderr) == (3, True)


def test_as_json(home: Path) -> None:
    path = cursor(home, git=GIT, old={"type": "sse", "url": "https://x.example/sse"})
    ran = atc("mcp", "install", "cursor", "--move-servers", "--yes", "--json")
    made = json.loads(ran.stdout)
    assert made["path"] == str(path)
    assert (made["changes"], made["written"], made["moved"]) == (True, True, ["git"])
    assert made["stay"] == {"old": "it is of the type 'sse', and ATC speaks streamable HTTP"}
    assert json.loads(Path(made["servers"]).read_text())["mcpServers"] == {"git": GIT}
    assert Path(made["copy"]).exists()
    refused = atc("mcp", "uninstall", "cursor", "--json")
    assert refused.exit_code == 2
    assert "--yes" in json.loads(refused.stdout)["error"]["message"]
    listed = {row["client"]: row for row in json.loads(atc("mcp", "install", "--list", "--json").stdout)}
    assert (listed["cursor"]["entry"], listed["cursor"]["behind"], listed["cursor"]["here"]) == ("atc", 1, True)
    assert listed["vscode"]["here"] is False


def test_the_list_names_every_client_of_a_scope(home: Path) -> None:
    rows = atc("mcp", "install", "--list").stdout
    assert all(name in rows for name, client in clients().items() if client.user)
    rows = atc("mcp", "install", "--list", "--scope", "project").stdout
    assert "continue" in rows
    assert "windsurf" not in rows


def test_a_project_file_is_made_and_taken_away(home: Path) -> None:
    ran = atc("mcp", "install", "claude-code", "--scope", "project", "--tools", "atlas", "--yes")
    assert ran.exit_code == 0
    assert "think before you commit it" in ran.stdout
    assert json.loads(Path(".mcp.json").read_text())["mcpServers"]["atc"]["type"] == "stdio"
    assert atc("mcp", "uninstall", "claude-code", "--scope", "project", "--yes").exit_code == 0
    assert not Path(".mcp.json").exists()


def test_wrong_use_is_said(home: Path) -> None:
    for arguments, words in [
        (("install",), "name a client"),
        (("install", "emacs", "--tools", "atlas"), "is no client that ATC knows"),
        (("install", "cursr", "--tools", "atlas"), "is no client that ATC knows: did you mean cursor?"),
        (("install", "cursor", "--tools", "atlas"), "was not found"),
        (("install", "windsurf", "--scope", "project"), "no configuration of a project"),
        (("install", "cursor", "--config", "/dev/null", "--tools", "atlas"), "is no file"),
    ]:
        ran = atc("mcp", *arguments)
        assert ran.exit_code == 2
        assert words in ran.stderr
    cursor(home)
    ran = atc("mcp", "uninstall", "cursor", "--name", "x")
    assert (ran.exit_code, "no entry 'x' starts ATC" in ran.stderr) == (2, True)
    ran = atc("mcp", "uninstall", "cursor")
    assert (ran.exit_code, "does not have ATC" in ran.stdout) == (0, True)


def test_uninstalling_where_nothing_is_makes_no_file(home: Path) -> None:
    ran = atc("mcp", "uninstall", "cursor", "--yes")
    assert (ran.exit_code, "does not have ATC" in ran.stdout) == (0, True)
    assert not (home / ".cursor").exists()


def test_a_file_that_cannot_be_edited_is_said_with_what_to_paste(home: Path) -> None:
    cursor(home).write_text('{\n  "a": 1,\n}')
    ran = atc("mcp", "install", "cursor", "--tools", "atlas", "--yes")
    assert ran.exit_code == 2
    assert "a comma stands before the end, which ATC cannot keep. Nothing was written. By hand, it is" in ran.stderr
    assert '"mcpServers": {' in ran.stderr


def test_names_from_the_file_steer_no_terminal(home: Path) -> None:
    path = cursor(home, git=GIT)
    path.write_text(json.dumps({"mcpServers": {"a\x1b]0;t\x07\u202e": GIT, "git": GIT}}, ensure_ascii=False, indent=1)
                    .replace("\\u001b", "\x1b"))  # fmt: skip
    ran = atc("mcp", "install", "cursor", "--move-servers", "--yes")
    assert ran.exit_code == 2  # a control character in JSON
    path.write_text(json.dumps({"mcpServers": {"a\u202e\u2066": GIT, "git": GIT}}, ensure_ascii=False, indent=1))
    ran = atc("mcp", "install", "cursor", "--move-servers", "--yes")
    assert ran.exit_code == 0
    assert "\u202e" not in ran.output
    assert "\x1b" not in ran.output


def test_a_server_that_cannot_come_back_is_said_and_kept(home: Path) -> None:
    path = cursor(home, git=GIT)
    made = json.loads(atc("mcp", "install", "cursor", "--move-servers", "--yes", "--json").stdout)
    data = json.loads(path.read_text())
    data["mcpServers"]["git"] = {"command": "mine"}
    path.write_text(json.dumps(data))
    ran = atc("mcp", "uninstall", "cursor", "--yes")
    assert ran.exit_code == 1
    assert "stays: 'git': another one of this name is in the file now" in ran.stdout
    assert json.loads(path.read_text())["mcpServers"] == {"git": {"command": "mine"}}
    assert json.loads(Path(made["servers"]).read_text())["mcpServers"] == {"git": GIT}


# -- the page ----------------------------------------------------------------------------------------------------------


def test_the_page_has_the_table_of_clients() -> None:
    text = PAGE.read_text()
    for client in clients().values():
        user = (client.user.get("linux") or client.user.get("any") or ("—",))[0]
        paths = f"{shown(user)} | {shown(client.project or '—')}"
        row = f"| `{client.id}` | {client.title} | {paths} | [source]({client.source}) |"
        assert row in text, f"docs/code-mode.md lacks\n{row}"


def shown(path: str) -> str:
    return path if path == "—" else f"`{path}`"


def test_the_commands_of_the_page_run(home: Path) -> None:
    cursor(home, git=GIT)
    section = PAGE.read_text().partition("## Install into a client")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("atc mcp ")]
    assert lines
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        ran = atc(*words, *([] if "--list" in words else ["--yes"]))
        assert ran.exit_code == 0, f"{line}: {ran.output}"


# -- the whole way -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_entry_starts_a_server_with_what_moved_behind_it(home: Path) -> None:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    (home / "shop.py").write_text(SHOP + "\nserver.run()\n")
    path = cursor(home, shop={"command": sys.executable, "args": [str(home / "shop.py")]})
    assert atc("mcp", "install", "cursor", "--move-servers", "--yes").exit_code == 0
    entry = json.loads(path.read_text())["mcpServers"]["atc"]
    environment = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "PYTHONPATH": str(ROOT)}
    started = StdioServerParameters(command=entry["command"], args=entry["args"], env=environment)

    async def ask() -> str:
        async with Client(stdio_client(started)) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert "run_program" in tools
            answer = await client.call_tool("run_program", {"source": "answer = say(text='hello')"})
            return json.dumps(answer.structured_content)

    assert "hello" in asyncio.run(ask())
