"""Snippets that name a service, a server, a catalogue or a model: run as they stand, with what stands in for these.

The commands of a block are run in order in one folder. Of a command nothing is changed but an address
(:data:`~tests.support.stand_ins.ADDRESSES`) and a placeholder: ``…`` is a task, a source of tools, or a key.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Timer

import httpx
import pytest
import typer
from typer.testing import CliRunner

from atc.cli import app
from tests.support import stand_ins
from tests.support.docs import ROOT
from tests.support.fake_openai_server import serving
from tests.support.snippets import SERVICES, Snippet, run_by

BLOCKS = run_by(SERVICES)
SLOW = {
    "batch.md-1",
    "research/benchmarks.md-0",
    "comparison.md-0",
    "code-mode.md-1",
    "code-mode.md-2",
    "code-mode.md-3",
    "research/training.md-2",
    "research/training.md-3",
    "benchmarks/README.md-0",
    "benchmarks/README.md-3",
    "service.md-0",
    "service.md-1",
    "runs.md-2",
}
"""Blocks that take more than two seconds, or start what does."""
PLACEHOLDERS = {"": "How many are there?", "--tools": "atlas"}
"""What stands for ``…`` behind an option, or anywhere else."""
ANSWERED = r"── answer ──\n{}\n.*isolation: {}/"
KEPT = r"queries for \d+ tools.*\nkept: searches"
RULER = r"Tasks solved, judge 2, tiny.*atlas +atc +\d/5.*atlas +codeact +\d/5"
PROMISES: list[tuple[str, str, dict[str, str]]] = [
    (r"^export ", r"\S", {}),
    (r"^atc trust$", r"atc\.toml\? It sets\n  \| api_key = .*atc\.toml is trusted as it is now", {}),
    (r"^atc trust FOLDER --yes", r"FOLDER/atc\.toml is trusted as it is now", {}),
    (r"^atc trust --remove", r"atc\.toml is not trusted any more", {}),
    (r"^atc batch", r"answered +2 ", {"tasks.results.jsonl": r'"id": ?"again".*"value": ?7'}),
    (r"^atc tools index", r"(29|3) tools are in tools-index, found by words and hashed", {}),
    (r"atc tools search \"convert", r"\n *1 +convert_money +read", {}),
    (r"^atc tools learn codes .*--closed-form", r"each tool has its own of .* codes", {}),
    (r"^atc tools learn codes", r"closed form: .*trained: .*the (codes stay|trained codes are)", {}),
    (r"^atc tools learn decoder ask", r"-\d+\.\d+  mail_send", {}),
    (r"^atc tools learn decoder", r"the decoder is in stage(1|2)", {}),
    (r"^python .*\.decoder", r"2 levels.*held-out.*decoder", {"OUT/metatool-words/figures.json": "perplexity"}),
    (r"^python .*\.paper", r"table1: .*restbench +atc +whole +1/1 100%", {"benchmarks/results/paper.jsonl": "tmdb:1"}),
    (r"^python .*--summary", RULER, {"solved.svg": "<svg"}),
    (r"^python .*self_test", r"atlas\D+40\D+0\D+0\D+0\D", {}),
    (r"^python -m benchmarks\.tasks", RULER, {"benchmarks/results/tasks.jsonl": '"system":"codeact"'}),
    (r"^atc (sandbox serve|ui)", r"it answers 200\n", {}),
    (r"^atc mcp .*--tokens|^atc mcp .*--tls", r"MCP at https?://127\S+/mcp.*it answers 401", {}),
    (r"^atc mcp .*--oauth-self", r"pass phrase in .*MCP at http.*it answers 401", {}),
    (r"^atc mcp .*--http", r"the token in .*MCP at http.*it answers 401", {}),
    (r"^atc mcp .*--check", r"1 tool behind .*def current_time\(\)", {}),
    (r"^atc mcp .*--with probe", r'"run_program".*"name":"probe"', {}),
    (r"^atc mcp --.*--direct auto", r'"run_program"', {}),  # no run has taught it anything yet
    (r"^atc mcp --.*--direct", r'"current_time"', {}),
    (r"^atc mcp --tools", r'"run_program"', {}),
    (r"^atc mcp install cursor --tools servers", r"written", {".cursor/mcp.json": r'"clock".*"atc".*/servers\.json"'}),
    (r"^atc mcp install --list", r"cursor +Cursor +yes +atc +1 ", {}),
    (r"^atc mcp install cursor --move", r"behind ATC.*: clock\n", {".config/atc/mcp/cursor.servers.json": '"clock"'}),
    (r"^atc mcp install cursor .*--dry-run", r"already has it", {".cursor/mcp.json": '"atc"'}),
    (r"^atc mcp install cursor", r'\+    "atc": \{.*\[y/N\].*written', {".cursor/mcp.json": '"clock".*"atc"'}),
    (r"^atc mcp install claude-code --tools", r"\[y/N\].*written", {".claude.json": r'"atc".*/servers\.json"'}),
    (r"^atc mcp install claude-code", r'\+    "atc": \{.*\nwritten', {".mcp.json": '"atc"'}),
    (r"^atc mcp uninstall", r"moves back: clock", {".cursor/mcp.json": r'\A(?!.*"atc").*"clock"'}),
    (r"^atc tools list .*har:", r"get_fares +read +crossing_id", {}),
    (r"^atc tools list", r"current_time +read", {}),
    (r"^atc probe .*--check", r"nothing changed: 2 of 2 tools", {}),
    (r"^atc probe .*-o shop", r"\n2 documented; \d+ calls", {"shop-docs/report.html": "<svg.*list_goods"}),
    (r"^atc probe .*har:", r"\n4 documented; 0 calls", {"ferry-docs/get_fares.json": "bicycle"}),
    (r"^atc probe", r"1 documented", {"docs-of-it/current_time.json": "time"}),
    (r"^atc run .*--documents", ANSWERED.format(r"12\.5", "process"), {}),
    (r"^atc run .*mcp:", ANSWERED.format(250, "process"), {}),
    (r"^atc run .*catalogue", ANSWERED.format(7, "process"), {}),
    (r"^atc run .*docker", ANSWERED.format(520774, "docker"), {}),
    (r"atc run .*atlas", ANSWERED.format(520774, "service"), {}),
]  # fmt: skip
"""What a command says, and what the files hold that it writes, as regular expressions: the first one that fits it."""


class Place:
    """A folder, and what the addresses of the commands are there."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, opened: ExitStack) -> None:
        self.folder, self.monkeypatch, self.opened = folder, monkeypatch, opened
        self.addresses: dict[str, str] = {}

    def run(self, command: str) -> tuple[int, str]:
        """Run a command: its exit code, and all that it said."""
        for address in filter(command.__contains__, stand_ins.ADDRESSES):
            if address not in self.addresses:
                self.addresses[address] = self.opened.enter_context(stand_ins.ADDRESSES[address](self.folder))
            command = command.replace(address, self.addresses[address])
        return next(way for pattern, way in WAYS if re.search(pattern, command))(self, command)

    def export(self, command: str) -> tuple[int, str]:
        """A shell says what variables are from now on."""
        names = re.findall(r"(\w+)=", command)
        shown = " ".join(f'"${name}"' for name in names)
        ran = _process("sh", "-c", f'{command} && printf "%s\\n" {shown}')
        for name, value in zip(names, ran[1].splitlines(), strict=True):
            self.monkeypatch.setenv(name, value)
        return ran

    def here(self, command: str) -> tuple[int, str]:
        """Run it in this process, with a yes to what it asks."""
        words = [os.path.expandvars(word) for word in shlex.split(command)]
        at = words.index("atc")
        filled = [
            PLACEHOLDERS.get(before, PLACEHOLDERS[""]) if word == "…" else word
            for before, word in zip(words[at:], words[at + 1 :], strict=False)
        ]
        with self.monkeypatch.context() as variables:
            for name, _, value in (assignment.partition("=") for assignment in words[:at]):
                variables.setenv(name, value.replace("…", stand_ins.KEY))
            ran = CliRunner().invoke(app, filled, input="y\n")
        return ran.exit_code, ran.output

    def decoder(self, command: str) -> tuple[int, str]:
        """Run the benchmark of a decoder in this process: it needs the encoder."""
        from atc_research_benchmarks import decoder  # torch

        self.monkeypatch.setattr("atc_research_benchmarks.search_data.RESULTS", self.folder / "results")
        benchmark = typer.Typer()
        benchmark.command()(decoder.main)
        ran = CliRunner().invoke(benchmark, shlex.split(command)[3:])
        return ran.exit_code, ran.output

    def process(self, command: str) -> tuple[int, str]:
        """Run it in a process."""
        return _process(sys.executable, *shlex.split(command)[1:])

    def over_pipes(self, command: str) -> tuple[int, str]:
        """Run it as a client does: ask it for its tools, then end its input."""
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "a client", "version": "1"},
        }
        asked = [
            ("initialize", {"id": 1, "params": about}),
            ("notifications/initialized", {}),
            ("tools/list", {"id": 2}),
        ]
        arguments = [sys.executable, "-m", "atc", *shlex.split(command)[1:]]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
            assert served.stdin is not None
            assert served.stdout is not None
            for method, more in asked:
                served.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, **more}) + "\n")
            served.stdin.flush()
            said = next((line for line in served.stdout if json.loads(line).get("id") == 2), "")
            served.stdin.close()
        return served.returncode, said

    def until_it_answers(self, command: str) -> tuple[int, str]:
        """Run what never ends: once it answers at its address, it is interrupted."""
        arguments = [sys.executable, "-m", "atc", *shlex.split(command)[1:]]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as served:
            guard = Timer(120, served.kill)
            guard.daemon = True
            guard.start()
            assert served.stdout is not None
            said = ""
            while not (found := re.search(r"(https?://)?(127\.0\.0\.1:\d+)(/\S*)?", said)):
                said += (line := served.stdout.readline())
                assert line, said
            asked = (found[1] or "http://") + found[2] + (found[3] or "/healthz")
            with httpx.Client(verify=False, follow_redirects=True, timeout=60) as client:
                said += f"it answers {client.get(asked).status_code}\n"
            served.send_signal(signal.SIGINT)
            said += served.stdout.read()
            guard.cancel()
        return served.returncode, said


def _process(*arguments: str) -> tuple[int, str]:
    ran = subprocess.run(arguments, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout + ran.stderr


WAYS: list[tuple[str, Callable[[Place, str], tuple[int, str]]]] = [
    (r"^export ", Place.export),
    (r"^python -m atc_research_benchmarks\.decoder ", Place.decoder),
    (r"^python ", Place.process),
    (r"^atc (sandbox serve|ui|mcp .*--http)\b", Place.until_it_answers),
    (r"^atc mcp (?!install|uninstall|.*--check)", Place.over_pipes),
    (r"\batc ", Place.here),
]
"""How a command is run."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A folder with what snippets name, a terminal to answer at, an encoder, and a scripted model."""
    monkeypatch.chdir(tmp_path)
    for folder in (Path(sys.executable).parent, stand_ins.add_programs(tmp_path)):
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr("atc.calls.question.has_terminal", lambda: True)
    for name in stand_ins.ENCODERS:
        monkeypatch.setattr(name, stand_ins.Encoder)
    with ExitStack() as opened:
        stand_ins.write_files(tmp_path, opened.enter_context(stand_ins.operations()))
        url = opened.enter_context(serving(stand_ins.answering)).url
        home = {
            "HOME": str(tmp_path),
            "PWD": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path / ".config"),
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "PYTHONPATH": str(ROOT),
        }
        model = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "not-a-real-key", "ATC_MODEL": "tiny"}
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = {"ATC_MCP_PORT": str(free.getsockname()[1])}
        port |= {"ATC_SERVE_PORT": "0", "ATC_SERVE_TOKEN": "a-token-of-the-tests-0123456789"}  # any port that is free
        for variable, value in (home | model | port).items():
            monkeypatch.setenv(variable, value)
        yield Place(tmp_path, monkeypatch, opened)


def _named(commands: list[Snippet]) -> object:
    name = commands[0].block.name
    return pytest.param(commands, id=name, marks=pytest.mark.slow if name in SLOW else ())


@pytest.mark.parametrize("commands", [_named(commands) for commands in BLOCKS])
def test_a_block_does_what_its_page_says(commands: list[Snippet], place: Place) -> None:
    stand_ins.BEFORE.get(commands[0].block.name, lambda _: None)(place.folder)
    for each in commands:
        command = each.text.removeprefix("$ ")
        says, files = next((says, files) for fits, says, files in PROMISES if re.search(fits, command))
        code, said = place.run(command)
        assert code == 0, f"{command}\n{said}"
        assert re.search(says, said, re.DOTALL), f"{command}\n{said}"
        for name, holds in files.items():
            assert re.search(holds, (place.folder / name).read_text(), re.DOTALL), f"{command}\n{name}"


def test_what_stands_ready_is_for_a_block_that_there_is() -> None:
    names = {commands[0].block.name for commands in BLOCKS}
    assert {*stand_ins.BEFORE, *SLOW} <= names
    texts = [each.text for commands in BLOCKS for each in commands]
    assert all(any(address in text for text in texts) for address in stand_ins.ADDRESSES)
    assert all(any(re.search(fits, text) for text in texts) for fits, _, _ in PROMISES)
