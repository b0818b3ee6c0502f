"""The tutorials of a service with a key and of an MCP client: what is sent where, what is shown, what is done once."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.support.docs import ROOT, blocks_of
from tests.support.fake_openai_server import Server, says, serving
from tests.support.terminal import Terminal

OPENAPI, CLIENT = (ROOT / "docs" / "tutorials" / f"{name}.md" for name in ("openapi", "mcp-client"))
BIKES = 'station = find_station(name="Harbour")\nanswer = count_bikes(station_id=station["station_id"])["free_bikes"]'
FERRY = """\
harbours = {each["title"]: each["harbour_id"] for each in get_harbours()["items"]}
crossings = get_crossings(harbour_id=harbours["Alma"])["items"]
answer = get_fares(crossing_id=next(c["crossing_id"] for c in crossings if c["bound_for"] == "Brekk"))["adult"]"""
ROOMS = 'room = free_rooms(seats=8)[0]["room"]\nanswer = reserve(room=room, people=8)["number"]'
KEY = "blue-otter-5193"

pytestmark = pytest.mark.slow


@contextmanager
def model(program: str) -> Iterator[tuple[Server, dict[str, str]]]:
    """A scripted endpoint, and the environment that names it."""
    with serving(says(f"```python\n{program}\n```")) as server:
        there = {name: value for name, value in os.environ.items() if not name.startswith("ATC_AUTH_")}
        path = os.pathsep.join((str(Path(sys.executable).parent), there["PATH"]))
        yield server, {**there, "PATH": path, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "k", "ATC_MODEL": "tiny"}


def ran(arguments: list[str], environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=60,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


@contextmanager
def service(example: str, environment: dict[str, str], folder: Path = ROOT) -> Iterator[str]:
    """The service of an example, as its tutorial starts it for the command line in a folder; its address."""
    script = subprocess.Popen(
        [sys.executable, "-u", str(ROOT / "examples" / example), "0"], cwd=folder, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert script.stdin is not None
    assert script.stdout is not None
    said = ""
    while not (found := re.search(r"at (http://[\d.:]+)[.;] ", said)):
        said += (more := script.stdout.read(1))
        assert more, said
    try:
        yield found[1]
    finally:
        script.communicate("\n", timeout=20)
        assert script.returncode == 0


def test_neither_prompt_nor_trace_has_the_key(tmp_path: Path) -> None:
    with model(BIKES) as (server, environment):
        said = ran(["examples/openapi_with_a_key.py"], {**environment, "ATC_RUNS_DIR": str(tmp_path)}, ROOT)
        assert said.returncode == 0, said.stdout + said.stderr
        assert "find_station" in json.dumps(server.requests)
        assert KEY not in json.dumps(server.requests)
    kept = [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert any("count_bikes" in text for text in kept)
    assert not [text for text in kept if KEY in text]
    assert "the key is in the result: False\nwithout the key: missing\n" in said.stdout
    assert said.stdout.endswith("\nanswered 17\n")


def test_the_command_line_takes_the_key_from_a_variable_and_says_which_one(tmp_path: Path) -> None:
    with model(BIKES) as (_, environment), service("openapi_with_a_key.py", environment) as url:
        command = ["-m", "atc", "run", "How many free bikes are there?", "--tools", url, "--set", "sentence=false"]
        with_key = ran(command, {**environment, "ATC_AUTH_STATION_KEY": KEY}, tmp_path)
        without = ran(command, environment, tmp_path)
        misnamed = ran([*command, "--openapi", "auth.X-Station-Key=1"], environment, tmp_path)
    assert with_key.returncode == 0, with_key.stdout + with_key.stderr
    assert re.search(r"^value: 17$|^17$", with_key.stdout, re.MULTILINE), with_key.stdout
    assert KEY not in with_key.stdout + with_key.stderr
    assert without.returncode == 3
    assert misnamed.returncode == 2
    messages = re.findall(r"^\| `([^`]+)` \|", OPENAPI.read_text(), re.MULTILINE)
    for said in (without, misnamed):
        shown = " ".join((said.stdout + said.stderr).split())
        assert any(text in shown for text in messages), f"the page does not show: {shown}"


def test_a_recording_becomes_an_answer_and_its_login_goes_to_the_service_alone(tmp_path: Path) -> None:
    source = "har:ferries.har"
    with model(FERRY) as (server, environment), service("probing.py", environment, tmp_path):
        command = ["-m", "atc", "run", "What does it cost?", "--tools", source, "--set", "sentence=false"]
        listed = ran(["-m", "atc", "tools", "list", "-t", source], environment, tmp_path)
        probed = ran(["-m", "atc", "probe", "--tools", source, "-o", "ferry-docs"], environment, tmp_path)
        said = ran([*command, "--documents", "ferry-docs", "--openapi", "session=memory"], environment, tmp_path)
        without = ran(command, environment, tmp_path)
    assert (listed.returncode, probed.returncode) == (0, 0), listed.stderr + probed.stderr
    assert "\n4 documented; 0 calls" in probed.stdout
    assert said.returncode == 0, said.stdout + said.stderr
    assert re.search(r"^value: 12\.5$|^12\.5$", said.stdout, re.MULTILINE), said.stdout
    assert without.returncode == 3
    assert "is not used: nobody has said that it may be" in " ".join((without.stdout + without.stderr).split())
    assert KEY not in json.dumps(server.requests) + "".join(each.stdout for each in (listed, probed, said, without))
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "ferries.har"]
    assert [path for path in kept if KEY in path.read_text(errors="replace")] == []
    assert oct((tmp_path / "ferries.har").stat().st_mode & 0o777) == "0o600"


@pytest.mark.parametrize(("allow", "ended"), [("True", "answered R-204-8"), ("False", "ann did not approve this call")])
def test_a_web_handler_makes_a_call_only_if_its_user_allowed_it(tmp_path: Path, allow: str, ended: str) -> None:
    example = (ROOT / "examples" / "approval_in_a_web_handler.py").read_text()
    (script := tmp_path / "handler.py").write_text(example.replace('"allow": True', f'"allow": {allow}'))
    with model(ROOMS) as (_, environment):
        said = ran([str(script)], {**environment, "ATC_RUNS_DIR": str(tmp_path / "runs")}, ROOT)
    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stdout.startswith("waits: ('reserve', {'room': '204', 'people': 8})\n")
    assert said.stdout.endswith(f"{ended}\n")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples and an environment, and the home of a client that has a server."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / ".claude.json").write_text(json.dumps({"mcpServers": {"clock": {"command": "uvx", "args": ["time"]}}}))
    (folder / ".claude").mkdir()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    return folder


def in_a_shell(body: str, folder: Path) -> str:
    """Run a block of commands with approval of what they ask: what it printed."""
    asked = re.sub(r"(atc mcp (?:un)?install [^#\n]*?)( *#.*)?$", r"\1 --yes", body, flags=re.MULTILINE)
    done = subprocess.run(
        ["sh", "-ec", asked.replace("--dry-run --yes", "--dry-run")], cwd=folder, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def report_of(arguments: dict[str, str], entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What a client without forms gets for one program; it starts what its configuration names."""
    command = StdioServerParameters(command=entry["command"], args=entry["args"], env=dict(os.environ), cwd=folder)
    async with Client(stdio_client(command), cache=None) as client:
        said = await client.call_tool("run_program", arguments)
    assert said.structured_content is not None
    return said.structured_content


def test_a_client_stops_at_a_write_and_continues_once_it_is_approved(tmp_path: Path, home: Path) -> None:
    commands = {block.number: block.body for block in blocks_of(CLIENT) if block.language == "sh"}
    shown = "".join(block.body for block in blocks_of(CLIENT) if block.language == "text")
    program = "\n".join(line[13:] for line in re.findall(r"^(?:run_program  | {13})\w.*", shown, re.MULTILINE)[:4])
    checked = in_a_shell(commands[1], tmp_path)
    promised = next(block.body for block in blocks_of(CLIENT) if block.language == "text")
    assert [line for line in promised.splitlines() if line not in checked] == ["…"]
    entry = json.loads((home / ".claude.json").read_text())["mcpServers"]["atc"]

    waiting = asyncio.run(report_of({"source": program}, entry, home))
    assert waiting["status"] == "waiting"
    assert [each["arguments"]["order_id"] for each in waiting["pending"]] == ["o17", "o19"]
    assert not (tmp_path / "cancelled.txt").exists()
    with Terminal("runs", "approve", "last") as terminal:
        for order in ("o17", "o19"):
            terminal.wait_for(f"order_id = '{order}'")
            terminal.wait_for("[y/N]")
            terminal.shown = ""
            terminal.type("y\n")
        terminal.wait_for("2 approved, 0 denied")
        assert terminal.ended() == 0
    done = asyncio.run(report_of({"run": waiting["run"]}, entry, home))
    again = asyncio.run(report_of({"run": waiting["run"], "source": f"{program}\nanswer = len(receipts)"}, entry, home))
    assert [done["status"], done["value"], again["value"]] == ["answered", 63, 2]
    assert {call["status"] for call in again["calls"]} == {"replayed"}
    assert (tmp_path / "cancelled.txt").read_text() == "o17\no19\n"

    moved = in_a_shell(commands[2], tmp_path)
    assert moved.index("moves behind ATC") < moved.index("moves back: clock")
    assert list(json.loads((home / ".claude.json").read_text())["mcpServers"]) == ["clock"]
