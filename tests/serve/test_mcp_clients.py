"""ATC in the configurations of MCP clients: what an installation writes, and that undoing it gives back every byte."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from atc._host.files import write_whole
from atc.cli.clients.clients import (
    Client,
    Machine,
    arguments_of,
    client_named,
    clients,
    is_atc,
    movable,
    own_command,
    own_entry,
    place_of,
)
from atc.cli.clients.documents import ConfigProblem
from atc.cli.clients.plan import RELAID, Plan, Wanted, look, plan_install, plan_uninstall
from atc.errors import EnvironmentProblem, UsageError
from atc.tools.mcp.spec import read_specs

COMMAND = ("/opt/bin/atc",)


class Desk:
    """A home folder with one client's file in it."""

    def __init__(self, folder: Path, client: str = "cursor", text: str | None = None, **environ: str) -> None:
        self.client: Client = client_named(client)
        home = folder / "home"
        self.machine = Machine(home, folder / "project", folder / "state", environ, "linux")
        self.machine.state.mkdir(parents=True, exist_ok=True)
        self.machine.project.mkdir(exist_ok=True)
        self.place = place_of(self.client, self.machine)
        self.path = self.place.path
        if text is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_bytes(text.encode())
        self.place = place_of(self.client, self.machine)

    def install(self, *tools: str, move: bool = False, name: str | None = None, **more: Any) -> Plan:
        wanted = Wanted(COMMAND, name, tools, move=move, **more)
        plan = plan_install(self.client, self.place, self.machine, wanted)
        plan.carry_out()
        return plan

    def uninstall(self, name: str | None = None) -> Plan:
        plan = plan_uninstall(self.client, self.place, self.machine, name=name)
        plan.carry_out()
        return plan

    @property
    def text(self) -> str:
        return self.path.read_bytes().decode()

    @property
    def servers(self) -> Any:
        return json.loads(self.text)[self.client.key]

    def behind(self) -> Any:
        files = list(self.machine.state.glob("*.servers.json"))
        return json.loads(files[0].read_text())["mcpServers"] if files else {}


GIT = {"command": "uvx", "args": ["mcp-server-git"], "env": {"GITHUB_TOKEN": "ghp_0123456789abcdefghijklmnop"}}


def config(**servers: Any) -> str:
    return json.dumps({"mcpServers": servers}, indent=2) + "\n"


# -- the table of clients ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(clients()))
def test_every_client_has_a_place_and_takes_and_loses_the_entry(name: str, tmp_path: Path) -> None:
    client = client_named(name)
    assert client.source.startswith("https://")
    desk = Desk(tmp_path) if not client.user else Desk(tmp_path, name, "")
    scope = "user" if client.user else "project"
    place = place_of(client, desk.machine, scope=scope)
    place.path.parent.mkdir(parents=True, exist_ok=True)
    plan = plan_install(
        client, place_of(client, desk.machine, scope=scope), desk.machine, Wanted(COMMAND, tools=["atlas"])
    )
    plan.carry_out()
    assert not plan_install(client, place, desk.machine, Wanted(COMMAND, tools=["atlas"])).changes
    text = place.path.read_text()
    data = {"toml": tomllib.loads, "yaml": yaml.safe_load}.get(client.form, json.loads)(text)
    assert is_atc(client, data[client.key]["atc"])
    plan_uninstall(client, place, desk.machine).carry_out()
    assert not place.path.exists() or place.path.read_text() == ""


@pytest.mark.parametrize("platform", ["linux", "mac", "windows"])
def test_places_by_platform(platform: Any, tmp_path: Path) -> None:
    machine = Machine(tmp_path, tmp_path, tmp_path, {"APPDATA": "/roaming"}, platform)
    wanted = {"linux": ".config/Claude", "mac": "Library/Application Support/Claude", "windows": "/roaming/Claude"}
    found = place_of(client_named("claude-desktop"), machine)
    assert found.path == tmp_path / wanted[platform] / "claude_desktop_config.json"
    assert found.missing == tmp_path / wanted[platform]


def test_a_variable_names_another_folder_and_the_file_that_exists_is_taken(tmp_path: Path) -> None:
    machine = Machine(tmp_path, tmp_path, tmp_path, {"CODEX_HOME": str(tmp_path / "c")}, "linux")
    assert place_of(client_named("codex"), machine).path == tmp_path / "c/config.toml"
    (tmp_path / ".config/opencode").mkdir(parents=True)
    assert place_of(client_named("opencode"), machine).path.name == "opencode.json"
    (tmp_path / ".config/opencode/opencode.jsonc").write_text("{}")
    assert place_of(client_named("opencode"), machine).path.name == "opencode.jsonc"


def test_an_unknown_client_and_a_missing_scope_are_said(tmp_path: Path) -> None:
    assert client_named("VS Code").id == client_named("vscode").id == "vscode"
    with pytest.raises(UsageError, match="claude-desktop, claude-code"):
        client_named("emacs")
    with pytest.raises(UsageError, match="no configuration of a project"):
        place_of(client_named("windsurf"), Machine(tmp_path, tmp_path, tmp_path, {}), scope="project")
    with pytest.raises(UsageError, match="use --scope project"):
        place_of(client_named("continue"), Machine(tmp_path, tmp_path, tmp_path, {}))


# -- installing --------------------------------------------------------------------------------------------------------


def test_the_entry_of_each_dialect() -> None:
    words = ["/opt/bin/atc", "mcp", "--tools", "atlas"]
    assert own_entry(client_named("cursor"), "atc", words) == {"command": words[0], "args": words[1:]}
    assert own_entry(client_named("vscode"), "atc", words) == {"type": "stdio", "command": words[0], "args": words[1:]}
    assert own_entry(client_named("opencode"), "atc", words) == {"type": "local", "command": words, "enabled": True}
    goose = own_entry(client_named("goose"), "atc", words)
    assert goose["cmd"] == words[0]
    assert (goose["name"], goose["type"], goose["enabled"]) == ("atc", "stdio", True)


def test_installing_twice_changes_nothing_and_uninstalling_gives_back_the_file(tmp_path: Path) -> None:
    before = config(git=GIT, off={"command": "x", "disabled": True})
    desk = Desk(tmp_path, text=before)
    first = desk.install("atlas", move=True)
    assert first.moved == ["git"]
    assert first.kept == {"off": "it is switched off"}
    assert desk.behind() == {"git": GIT}
    assert desk.servers["atc"]["args"][-2:] == ["--tools", str(first.state.servers_path)]
    assert not desk.install("atlas", move=True).changes
    assert not desk.install().changes
    assert desk.uninstall().moved == ["git"]
    assert desk.text == before
    assert not desk.uninstall().changes
    assert sorted(each.name for each in desk.machine.state.iterdir()) == ["backups"]


def test_what_we_keep_is_for_its_owner_alone_and_the_file_keeps_its_mode(tmp_path: Path) -> None:
    desk = Desk(tmp_path, text=config(git=GIT))
    desk.path.chmod(0o640)
    desk.install(move=True)
    kept = [each for each in desk.machine.state.rglob("*") if each.is_file()]
    assert len(kept) == 3
    assert {each.stat().st_mode & 0o777 for each in kept} == {0o600}
    assert desk.path.stat().st_mode & 0o777 == 0o640


def test_the_diff_shows_no_credential(tmp_path: Path) -> None:
    servers = {
        "git": GIT,
        "args": {"command": "x", "args": ["--api-key", "sk-secret-1", "--token=tok-secret-2"]},
        "web": {"url": "https://x.example/mcp?key=url-secret-3", "headers": {"X-Any": "head-secret-4"}},
        "pass": {"command": "x", "args": [], "env": {"A": "env-secret-5"}, "password": "pw-secret-6"},
    }
    desk = Desk(tmp_path, text=config(**servers))
    plan = plan_install(desk.client, desk.place, desk.machine, Wanted(COMMAND, move=True))
    assert "+++" in plan.diff()
    assert "secret" not in plan.diff()
    assert "ghp_" not in plan.diff()
    assert '"GITHUB_TOKEN": "***"' in plan.diff()


SECRET: list[tuple[str, str]] = [
    ("vscode", '{\n "servers": {\n  "a": {"command": "x", "env": {\n "A": "my secret",\n "B": "other secret"}},\n'
               '  "z": {}}}'),
    ("cursor", '{"mcpServers": {"a": {"command": "x", "args": [\n"--token",\n\n\n\n\n"my-secret"\n]}}}'),
    ("cursor", '{"mcpServers": {\n"b": {},\n"a": {"command": "x", "args": [\n"--token",\n\n\n\n\n"my-secret"]}}}'),
    ("codex", '[mcp_servers.a]\ncommand = "x"\nenv = { A = "my secret", B = "other secret" }\n'),
    ("codex", '[mcp_servers.a]\ncommand = "x"\n[mcp_servers.a.env]\nA = """\nmy secret\nmore\nmore\nmore\nmy secret\n'
              '"""\n'),
    ("codex", '[mcp_servers]\na.env.A = "my secret"\na.command = "x"\n'),
    ("codex", '[mcp_servers.a]\ncommand = "x"\nargs = [\n  "--token",\n  "my-secret",\n]\n'),
    ("goose", "extensions:\n  a:\n    cmd: x\n    envs:\n      A: |\n        my secret\n        more\n\n"
              "        more secret\n"),
    ("goose", "extensions:\n  a:\n    cmd: x\n    envs: {A: my secret, B: 'other secret'}\n"),
    ("goose", "extensions:\n  a: {cmd: x, args: [--api-key, my-secret, 'https://u:url-secret@x.example/']}\n"),
]  # fmt: skip


@pytest.mark.parametrize(("client", "text"), SECRET)
def test_the_diff_shows_no_credential_in_any_form(client: str, text: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path, client, text)
    tools = ["atlas"]
    for move in (False, True):
        plan = plan_install(desk.client, desk.place, desk.machine, Wanted(COMMAND, tools=tools, move=move))
        assert "secret" not in plan.diff()
        assert "***" in plan.diff()


def test_a_comment_is_not_shown(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "codex", "[mcp_servers.a]\ncommand = 'x' # ghp_0123456789abcdefghijklmnop\n")
    plan = plan_install(desk.client, desk.place, desk.machine, Wanted(COMMAND, tools=["atlas"]))
    assert "ghp_" not in plan.diff()


def test_no_tools_and_no_server_that_could_move(tmp_path: Path) -> None:
    desk = Desk(tmp_path, text=config(old={"type": "sse", "url": "https://x.example/sse"}))
    with pytest.raises(UsageError, match="give --tools, or --move-servers"):
        desk.install()
    with pytest.raises(UsageError, match="'old': it is of the type 'sse'"):
        desk.install(move=True)


@pytest.mark.parametrize("named", ["file", "command"])
def test_a_server_that_is_found_only_from_this_folder_is_told(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--check` in this folder finds it, and the client would not."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").touch()
    servers = {"shop": {"command": "/bin/sh", "args": ["shop.py", "-v"]}, "time": {"command": "/bin/sh"}}
    servers["elsewhere"] = {"command": "/bin/sh", "args": ["shop.py"], "cwd": str(tmp_path)}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    plan = Desk(tmp_path, text="{}").install("servers.json" if named == "file" else "mcp:/bin/sh shop.py -v")
    assert len(plan.notes) == 1
    assert f"with its whole path, {tmp_path}/shop.py: " in plan.notes[0]


def test_a_file_of_tools_gets_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text("")
    desk = Desk(tmp_path, text="{}")
    tools = ("tools.py", "tools.py:book", "https://x.example/openapi.json", "mcp:npx ./x.py", "module:name", "atlas")
    desk.install(*tools, options=("--documents", "docs"))
    args = desk.servers["atc"]["args"]
    assert args[1:13:2] == ["--tools"] * 6
    assert args[2:14:2] == [str(tmp_path / "tools.py"), str(tmp_path / "tools.py:book"), *tools[2:]]
    assert args[13:] == ["--documents", "docs"]
    for missing in ("no.py", "no.py:book", "servers.json", "a/folder"):
        with pytest.raises(UsageError, match="there is no such file"):
            desk.install(missing)


def test_a_client_that_is_not_here_is_said_and_a_named_file_is_made(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    with pytest.raises(UsageError, match="Cursor was not found"):
        desk.install("atlas")
    assert not desk.path.parent.exists()
    desk.place = place_of(desk.client, desk.machine, config=tmp_path / "new/mcp.json")
    desk.install("atlas")
    assert "atc" in json.loads((tmp_path / "new/mcp.json").read_text())["mcpServers"]
    desk.uninstall()
    assert not (tmp_path / "new/mcp.json").exists()


def test_the_folder_that_is_missing_is_named_not_the_one_where_the_file_would_be(tmp_path: Path) -> None:
    """The file of Claude Code is in the home folder itself, which says nothing of whether the client is there."""
    desk = Desk(tmp_path, "claude-code")
    with pytest.raises(UsageError, match="Claude Code was not found") as caught:
        desk.install("atlas")
    assert f"there is no {desk.machine.path('~/.claude')}. Install" in str(caught.value)


def test_a_name_that_is_taken_is_refused_and_another_atc_is_replaced(tmp_path: Path) -> None:
    desk = Desk(tmp_path, text=config(atc=GIT))
    with pytest.raises(UsageError, match="is not ATC: give another --name"):
        desk.install("atlas", name="atc")
    before = config(tools={"command": "/old/atc", "args": ["mcp", "--tools", "a.json"], "timeout": 5})
    desk = Desk(tmp_path / "b", text=before)
    desk.install("atlas")
    assert desk.servers == {"tools": {"command": COMMAND[0], "args": ["mcp", "--tools", "atlas"], "timeout": 5}}
    desk.uninstall()
    assert desk.text == before
    two = config(a={"command": "atc", "args": ["mcp"]}, b={"command": "atc", "args": ["mcp"]})
    with pytest.raises(UsageError, match="say which one with --name"):
        Desk(tmp_path / "c", text=two).install("atlas")


def test_a_new_name_renames_our_entry(tmp_path: Path) -> None:
    desk = Desk(tmp_path, text="{}")
    desk.install("atlas")
    desk.install(name="tools")
    assert list(desk.servers) == ["tools"]
    assert desk.servers["tools"]["args"] == ["mcp", "--tools", "atlas"]
    desk.uninstall()
    assert desk.text == "{}"


# -- what moves --------------------------------------------------------------------------------------------------------

STAYS: list[tuple[str, Any, str]] = [
    ("cursor", {"type": "sse", "url": "https://x.example/sse"}, "type 'sse'"),
    ("cursor", {"command": "x", "envFile": ".env"}, "'envFile'"),
    ("cursor", {"command": "x", "args": ["${workspaceFolder}"]}, "'${workspaceFolder}'"),
    ("cursor", {"command": "x", "args": ["${env:UNSET}"]}, "UNSET is not set"),
    ("cursor", {"command": "x", "args": ["${HOME}"]}, "'${HOME}'"),
    ("claude-code", {"command": "x", "args": ["${UNSET}"]}, "UNSET is not set"),
    ("claude-desktop", {"command": "x", "args": ["${HOME}"]}, "'${HOME}'"),
    ("vscode", {"type": "stdio", "command": "x", "env": {"K": "${input:key}"}}, "'${input:key}'"),
    ("gemini-cli", {"url": "https://x.example/sse"}, "type 'sse'"),
    ("gemini-cli", {"command": "x", "env": {"K": "$KEY"}}, "variables in a form"),
    ("gemini-cli", {"command": "x", "trust": True}, "'trust'"),
    ("cline", {"url": "https://x.example/sse"}, "type 'sse'"),
    ("cline", {"command": "x", "autoApprove": ["read"]}, "'autoApprove'"),
    ("opencode", {"type": "local", "command": ["x"], "environment": {"K": "{env:KEY}"}}, "variables in a form"),
    ("opencode", {"type": "local", "command": ["x"], "enabled": False}, "switched off"),
    ("goose", {"type": "builtin", "name": "developer"}, "neither a command nor an address"),
    ("codex", {"command": "x", "env_vars": ["HOME"]}, "'env_vars'"),
    ("codex", {"url": "https://x.example/mcp", "bearer_token_env_var": "T"}, "'bearer_token_env_var'"),
    ("cursor", "uvx x", "it is a str"),
    ("cursor", {"command": 3, "args": "x"}, "args is a str"),
    ("cursor", {"command": "x", "cwd": "/no/such/folder"}, "no folder"),
    ("cursor", {"command": "x", "env": {"A=B": "c"}}, "no variable"),
]


@pytest.mark.parametrize(("client", "entry", "why"), STAYS)
def test_what_atc_would_not_run_the_same_stays(client: str, entry: Any, why: str) -> None:
    made = movable(client_named(client), "x", entry, {"HOME": "/h", "KEY": "k"})
    assert isinstance(made, str)
    assert why in made


MOVES: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = [
    ("cursor", GIT, GIT),
    ("cursor", {"command": "${env:HOME}", "args": ["${open"]}, {"command": "${env:HOME}", "args": ["${open"]}),
    ("claude-code", {"type": "stdio", "command": "x", "args": [], "env": {}}, {"command": "x"}),
    ("claude-code", {"command": "${HOME}", "args": ["${NO:-d}"]}, {"command": "${HOME}", "args": ["${NO:-d}"]}),
    ("claude-code", {"type": "http", "url": "https://x.example/mcp"}, {"url": "https://x.example/mcp"}),
    ("windsurf", {"serverUrl": "https://x.example/mcp"}, {"url": "https://x.example/mcp"}),
    ("gemini-cli", {"httpUrl": "https://x.example/mcp", "timeout": 5}, {"url": "https://x.example/mcp"}),
    ("cline", {"type": "streamableHttp", "url": "https://x.example/mcp"}, {"url": "https://x.example/mcp"}),
    ("opencode", {"type": "local", "command": ["npx", "-y", "p"], "environment": {"A": "b"}},
     {"command": "npx", "args": ["-y", "p"], "env": {"A": "b"}}),
    ("opencode", {"type": "remote", "url": "https://x.example/mcp"}, {"url": "https://x.example/mcp"}),
    ("goose", {"type": "stdio", "cmd": "npx", "args": ["p"], "envs": {"A": "b"}, "env_keys": [], "timeout": 300,
               "enabled": True, "name": "x", "bundled": None, "description": "d"},
     {"command": "npx", "args": ["p"], "env": {"A": "b"}}),
    ("codex", {"url": "https://x.example/mcp", "http_headers": {"A": "b"}},
     {"url": "https://x.example/mcp", "headers": {"A": "b"}}),
    ("zed", {"source": "custom", "command": "x", "args": ["y"]}, {"command": "x", "args": ["y"]}),
]  # fmt: skip


@pytest.mark.parametrize(("client", "entry", "wanted"), MOVES)
def test_what_moves_is_what_our_own_files_hold(
    client: str, entry: Mapping[str, Any], wanted: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/h")
    made = movable(client_named(client), "x", entry, {"HOME": "/h"})
    assert made == wanted
    assert read_specs({"mcpServers": {"x": made}})


@pytest.mark.parametrize("name", ["__proto__", "constructor", "", "a\x1b[2J", "a\nb", "x" * 200, "a\u202eb"])
def test_names_that_steer_something_stay(name: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path, text=json.dumps({"mcpServers": {name: GIT, "git": GIT}}))
    plan = desk.install(move=True)
    assert plan.kept == {name: "its name is not one that ATC uses"}
    assert desk.servers[name] == GIT


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["/x/atc", "mcp", "--tools", "a"], ["--tools", "a"]),
        ([r"C:\x\atc.exe", "mcp"], []),
        (["uvx", "--from", "atc-runtime[mcp]", "atc", "mcp", "-t", "a"], ["-t", "a"]),
        (["python", "-m", "atc", "mcp"], []),
        (["atc", "sandbox", "serve"], None),
        (["atc"], None),
        (["/x/matc", "mcp"], None),
    ],
)  # fmt: skip
def test_an_atc_entry_is_recognised(words: list[str], arguments: list[str] | None) -> None:
    assert arguments_of(words) == arguments


def test_the_command_is_one_that_still_works_tomorrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(name: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return str(path)

    lasting, passing = program("bin/atc"), program(".cache/uv/archive-v0/abc/bin/atc")
    assert own_command(lasting) == [lasting]
    assert own_command("/usr/lib/python/atc/__main__.py", "/usr/bin/python3") == ["/usr/bin/python3", "-m", "atc"]
    with pytest.raises(UsageError, match="for a while only: install it to stay"):
        own_command(passing)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert own_command("pytest") == [lasting]
    monkeypatch.setenv("PATH", "")
    assert own_command("pytest", "/usr/bin/python3") == ["/usr/bin/python3", "-m", "atc"]


# -- undoing, after the file has changed -------------------------------------------------------------------------------


def test_what_the_user_changed_since_stays(tmp_path: Path) -> None:
    desk = Desk(tmp_path, text=config(git=GIT, keep={"command": "x", "disabled": True}))
    desk.install(move=True)
    data = json.loads(desk.text)
    data["theme"] = "dark"
    data["mcpServers"]["new"] = {"command": "n"}
    desk.path.write_text(json.dumps(data))  # as a client writes it, in one line
    assert desk.uninstall().moved == ["git"]
    assert json.loads(desk.text) == {
        "mcpServers": {"keep": {"command": "x", "disabled": True}, "new": {"command": "n"}, "git": GIT},
        "theme": "dark",
    }
    assert desk.behind() == {}


def test_a_server_of_that_name_was_added_since(tmp_path: Path) -> None:
    desk = Desk(tmp_path, text=config(git=GIT, web={"url": "https://x.example/mcp"}))
    desk.install(move=True)
    data = json.loads(desk.text)
    data["mcpServers"]["git"] = {"command": "mine"}
    desk.path.write_text(json.dumps(data))
    plan = desk.uninstall()
    assert plan.moved == ["web"]
    assert "stays in" in plan.kept["git"]
    assert desk.servers["git"] == {"command": "mine"}
    assert desk.behind() == {"git": GIT}


def test_what_was_changed_behind_atc_stays_there_and_the_client_has_it_as_it_was(tmp_path: Path) -> None:
    entries = {"a": {"type": "local", "command": ["x"]}, "b": {"type": "local", "command": ["y"]}}
    desk = Desk(tmp_path, "opencode", json.dumps({"mcp": entries}))
    plan = desk.install(move=True)
    servers = desk.behind()
    servers["a"]["args"] = ["-v"]
    servers["c"] = {"url": "https://x.example/mcp", "headers": {"A": "b"}}
    del servers["b"]
    plan.state.servers_path.write_text(json.dumps({"mcpServers": servers}))
    plan = desk.uninstall()
    assert plan.moved == ["a"]
    assert "'b' was taken out" in plan.notes[0]
    assert "changed one stays in" in plan.kept["a"]
    assert "added behind ATC" in plan.kept["c"]
    assert desk.servers == {"a": entries["a"]}
    assert desk.behind() == {"a": servers["a"], "c": servers["c"]}


def test_an_entry_that_is_not_ours_any_more_stays(tmp_path: Path) -> None:
    desk = Desk(tmp_path, text="{}")
    desk.install("atlas")
    desk.path.write_text(config(atc={"command": "other"}))
    assert desk.uninstall().kept == {"atc": "it is not ATC any more"}
    assert desk.servers == {"atc": {"command": "other"}}


def test_an_entry_that_was_written_by_hand_is_taken_out(tmp_path: Path) -> None:
    desk = Desk(tmp_path, text=config(tools={"command": "atc", "args": ["mcp"]}, git=GIT))
    plan = desk.uninstall()
    assert plan.name == "tools"
    assert desk.servers == {"git": GIT}


def test_an_installation_that_was_cut_off_puts_nothing_in_two_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path, text=config(git=GIT))
    with monkeypatch.context() as patched:
        patched.setattr("atc.cli.clients.state.ConfigFile.write", lambda *_a, **_k: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            desk.install(move=True)
    desk.install("atlas")
    assert desk.servers["git"] == GIT
    assert desk.servers["atc"]["args"] == ["mcp", "--tools", "atlas"]
    assert desk.behind() == {}


def test_what_cannot_be_written_leaves_the_records_as_they_were(tmp_path: Path) -> None:
    desk = Desk(tmp_path, text=config(git=GIT))
    plan = plan_install(desk.client, desk.place, desk.machine, Wanted(COMMAND, move=True))
    desk.path.write_text("{}")
    with pytest.raises(EnvironmentProblem):
        plan.carry_out()
    assert desk.behind() == {}
    assert plan.state.record() is None


def test_a_damaged_record_and_damaged_servers_are_said(tmp_path: Path) -> None:
    desk = Desk(tmp_path, text=config(git=GIT))
    plan = desk.install(move=True)
    written = desk.text
    plan.state.servers_path.write_text("{")
    with pytest.raises(EnvironmentProblem, match=r"servers\.json is damaged: repair its JSON"):
        desk.uninstall()
    plan.state.keep_servers({"git": GIT})
    (desk.machine.state / "cursor.record.json").write_text("{}")
    with pytest.raises(EnvironmentProblem, match=r"record\.json is damaged, or of another version of ATC: put"):
        desk.uninstall()
    assert desk.text == written


def test_two_files_of_a_client_have_records_of_their_own(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "codex", '[mcp_servers.git]\ncommand = "x"\n')
    desk.install(move=True)
    moved = Machine(desk.machine.home, desk.machine.project, desk.machine.state, {"CODEX_HOME": str(tmp_path)}, "linux")
    (tmp_path / "config.toml").write_text('[mcp_servers.git]\ncommand = "y"\n')
    plan_install(desk.client, place_of(desk.client, moved), moved, Wanted(COMMAND, move=True)).carry_out()
    assert len(list(desk.machine.state.glob("*.servers.json"))) == 2
    plan_uninstall(desk.client, place_of(desk.client, moved), moved).carry_out()
    assert (tmp_path / "config.toml").read_text() == '[mcp_servers.git]\ncommand = "y"\n'
    assert desk.uninstall().moved == ["git"]


def test_values_that_a_record_cannot_hold_stay(tmp_path: Path) -> None:
    desk = Desk(
        tmp_path, "codex", "[mcp_servers.a]\ncommand = 'x'\nenv = {A = 1979-05-27}\n[mcp_servers.c]\ncommand = 'x'\n"
    )
    plan = desk.install(move=True)
    assert plan.moved == ["c"]
    assert "a value that JSON does not have" in plan.kept["a"]
    half = Desk(
        tmp_path / "b", text='{"mcpServers": {"h": {"command": "x", "args": ["\\ud800"]}, "g": {"command": "x"}}}'
    )
    assert half.install(move=True).moved == ["g"]
    half.uninstall()
    assert "\\ud800" in half.text


class Killed(BaseException):
    """The end of the process, as `kill -9` makes it."""


def dying(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Let the write or the deletion of this number, from 0, not happen any more."""
    count = iter(range(1000))

    def or_dies(do: Any) -> Any:
        def done(*args: Any, **options: Any) -> Any:
            if next(count) == at:
                raise Killed
            return do(*args, **options)

        return done

    monkeypatch.setattr("atc.cli.clients.state.write_whole", or_dies(write_whole))
    monkeypatch.setattr(Path, "unlink", or_dies(Path.unlink))


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("what", ["install", "uninstall"])
def test_whenever_it_is_killed_every_server_is_somewhere_and_can_come_back(
    what: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = {"git": GIT, "web": {"url": "https://x.example/mcp"}}
    desk = Desk(tmp_path, text=config(**servers))
    before = desk.text
    if what == "uninstall":
        desk.install("atlas", move=True)
    with monkeypatch.context() as patched:
        dying(patched, at)
        try:
            desk.install("atlas", move=True) if what == "install" else desk.uninstall()
        except Killed:
            pass
        else:
            assert at > 3  # there are no more to die at
    there = {**desk.behind(), **desk.servers}
    assert there["git"] == GIT
    assert there["web"] == servers["web"]
    desk.install("atlas", move=True)
    assert list(desk.servers) == ["atc"]
    assert desk.behind() == servers
    desk.uninstall()
    assert desk.text == before
    assert desk.behind() == {}


# -- the file ----------------------------------------------------------------------------------------------------------


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    desk = Desk(tmp_path, text="{}")
    real = tmp_path / "dotfiles.json"
    desk.path.rename(real)
    desk.path.symlink_to(real)
    plan = desk.install("atlas")
    assert f"{real} is edited" in plan.notes[0]
    assert desk.path.is_symlink()
    assert "atc" in real.read_text()
    real.unlink()
    with pytest.raises(UsageError, match="which is not there"):
        desk.install("atlas")


def test_a_link_out_of_a_project_is_not_followed(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "claude-code", "{}")
    (desk.machine.project / ".mcp.json").symlink_to(desk.path)
    desk.place = place_of(desk.client, desk.machine, scope="project")
    with pytest.raises(UsageError, match="a link out of the project"):
        desk.install("atlas")
    desk.client = client_named("cursor")
    (desk.machine.project / ".cursor").symlink_to(tmp_path)
    desk.place = place_of(desk.client, desk.machine, scope="project")
    with pytest.raises(UsageError, match="a link out of the project"):
        desk.install("atlas")


@pytest.mark.parametrize("kind", ["folder", "pipe", "circle"])
def test_what_is_no_file_is_refused(kind: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.path.parent.mkdir(parents=True)
    if kind == "circle":
        desk.path.symlink_to(desk.path)
    else:
        desk.path.mkdir() if kind == "folder" else os.mkfifo(desk.path)
    with pytest.raises(UsageError, match="is no file"):
        desk.install("atlas")


@pytest.mark.parametrize("there", [True, False])
def test_a_file_that_changes_or_appears_meanwhile_is_not_overwritten(there: bool, tmp_path: Path) -> None:
    desk = Desk(tmp_path, text="{}")
    if not there:
        desk.path.unlink()
    plan = plan_install(desk.client, desk.place, desk.machine, Wanted(COMMAND, tools=["atlas"]))
    desk.path.write_text('{"theme": 1}')
    with pytest.raises(EnvironmentProblem, match="changed by another program"):
        plan.carry_out()
    assert desk.text == '{"theme": 1}'


def test_a_file_that_is_read_only_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path, text="{}")
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(EnvironmentProblem, match="read-only"):
        desk.install("atlas")
    assert desk.text == "{}"


def test_what_is_known_of_the_clients(tmp_path: Path) -> None:
    desk = Desk(tmp_path, text=config(git=GIT))
    desk.install(move=True)
    found = {each.id: look(each, desk.machine, "user") for each in clients().values() if each.user}
    assert (found["cursor"]["entry"], found["cursor"]["behind"], found["cursor"]["here"]) == ("atc", 1, True)
    assert not found["windsurf"]["here"]
    desk.path.write_text("{")
    assert "line 1" in look(desk.client, desk.machine, "user")["problem"]


# -- hostile files -----------------------------------------------------------------------------------------------------

WRONG = [
    ("cursor", '{\n  "a": 1,\n}', "line [23], column .*a comma stands before the end"),
    ("cursor", "{\n  // no\n}", "line 2, column 3: a comment stands here"),
    ("cursor", '{"a": }', "line 1, column 7: no JSON"),
    ("cursor", "{a: 1}", "no JSON"),
    ("cursor", '{"a": NaN}', "NaN is no JSON"),
    ("cursor", "{} {}", "no JSON: Extra data"),
    ("cursor", "[" * 500_000, "nested too deeply|no JSON"),
    ("cursor", '{"a": ' + "[" * 400 + "]" * 400 + "}", "nested too deeply"),
    ("cursor", "[]", "a list, not a mapping"),
    ("cursor", '{"mcpServers": []}', "mcpServers is a list"),
    ("cursor", '{"mcpServers": {}, "mcpServers": {}}', "'mcpServers' stands twice in one object"),
    ("cursor", '{"a": [{"b": 1, "b": 1}]}', "'b' stands twice in one object"),
    ("cursor", '{"a": "\\u0000number x"}', "cannot edit"),
    ("codex", "a = 1\nb = ?", "line 2, column 5"),
    ("codex", "mcp_servers = 3", "mcp_servers is a int"),
    ("codex", "[[mcp_servers]]\n", "mcp_servers is a list"),
    ("codex", "a = " + "[" * 5_000, "lists and tables in each other"),
    ("goose", "a: [", "line 2, column 1|line 1, column 5"),
    ("goose", "a: " + "[" * 500, "nested deeper than"),
    ("goose", "extensions:\n  - a\n", "extensions is a list"),
    ("goose", "extensions:\n  a: {}\n  a: {}\n", "duplicate key"),
    ("goose", "--- 1\n--- 2\n", "a second YAML document"),
    ("goose", "a: !!python/object:os.system x\n", "is not allowed"),
    ("goose", "a: &a [*a]\n", "inside or before its own anchor"),
    ("goose", "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)), "values \\(aliases counted\\)"),
    ("goose", "a\x00b", "no YAML"),
]  # fmt: skip


@pytest.mark.parametrize(("client", "text", "why"), WRONG)
def test_a_file_that_cannot_be_edited_is_said_with_its_place_and_stays(
    client: str, text: str, why: str, tmp_path: Path
) -> None:
    desk = Desk(tmp_path, client, text)
    with pytest.raises(ConfigProblem, match=why) as raised:
        desk.install("atlas")
    assert str(desk.path) in str(raised.value)
    assert "/opt/bin/atc" in raised.value.paste
    assert desk.text == text
    assert not list(desk.machine.state.iterdir())


def test_a_huge_file_and_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "codex", "#" * 250_001)
    with pytest.raises(ConfigProblem, match="250,001 bytes"):
        desk.install("atlas")
    desk.path.write_bytes(b"# ok\n# \xff\n")
    with pytest.raises(ConfigProblem, match=r"line 2, column 1: .*no UTF-8"):
        desk.install("atlas")


def test_a_layout_that_changes_is_told_before_and_undoing_gives_back_the_old_one(tmp_path: Path) -> None:
    before = '{\n\t"theme": [ 1e5, 2.50 ],\n\t"mcpServers": { "git": {"command": "x"} }\n}'
    desk = Desk(tmp_path, text=before)
    assert RELAID in desk.install("atlas").notes
    assert desk.text.startswith('{\n\t"theme": [\n\t\t1e5,\n\t\t2.50\n\t],\n')
    assert RELAID not in desk.install("atlas", move=True).notes
    desk.uninstall()
    assert desk.text == before


def test_many_servers_move_up_to_what_atc_takes(tmp_path: Path) -> None:
    desk = Desk(tmp_path, text=config(**{f"s{n}": {"command": "x"} for n in range(60)}))
    before = desk.text
    plan = desk.install(move=True)
    assert (len(plan.moved), len(plan.kept)) == (50, 10)
    desk.uninstall()
    assert desk.text == before
