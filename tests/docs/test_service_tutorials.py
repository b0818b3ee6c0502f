"""The tutorials of a service with a key and of MCP servers, with a scripted model: what is sent where, what is said."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.docs import ROOT, blocks_of
from tests.support.fake_openai_server import Server, says, serving

OPENAPI, MCP = (ROOT / "docs" / "tutorials" / f"{name}.md" for name in ("openapi", "mcp"))
BIKES = 'station = find_station(name="Harbour")\nanswer = count_bikes(station_id=station["station_id"])["free_bikes"]'
DESKS = 'person = find_person(name="Mia Lund")\nanswer = get_office(office_id=person["office_id"])["desks"]'
FERRY = """\
harbours = {each["title"]: each["harbour_id"] for each in get_harbours()["items"]}
crossings = get_crossings(harbour_id=harbours["Alma"])["items"]
answer = get_fares(crossing_id=next(c["crossing_id"] for c in crossings if c["bound_for"] == "Brekk"))["adult"]"""
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
        command = ["-m", "atc", "run", "How many free bikes are there?", "--tools", url, "--no-sentence"]
        with_key = ran(command, {**environment, "ATC_AUTH_STATION_KEY": KEY}, tmp_path)
        without = ran(command, environment, tmp_path)
        misnamed = ran([*command, "--auth", "X-Station-Key=1"], environment, tmp_path)
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
        command = ["-m", "atc", "run", "What does it cost?", "--tools", source, "--no-sentence"]
        listed = ran(["-m", "atc", "tools", "list", "-t", source], environment, tmp_path)
        probed = ran(["-m", "atc", "probe", source, "-o", "ferry-docs"], environment, tmp_path)
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


def test_a_file_of_servers_gives_the_tools_of_both(tmp_path: Path) -> None:
    (servers,) = (block.body for block in blocks_of(MCP) if block.language == "json")
    kept = tmp_path / "servers.json"
    kept.write_text(servers)
    with model(DESKS) as (_, environment):
        command = ["-m", "atc", "run", "How many desks?", "--tools", str(kept), "--no-sentence"]
        said = ran(command, environment, ROOT)
        example = ran(["examples/mcp_servers.py"], environment, ROOT)
    assert said.returncode == 0, said.stdout + said.stderr
    assert re.search(r"^value: 31$|^31$", said.stdout, re.MULTILINE), said.stdout
    assert example.returncode == 0, example.stdout + example.stderr
    assert example.stdout.endswith("\nanswered 31\n"), example.stdout
