"""Damaged records are told by file and line; every command over them ends with a documented code, never a traceback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from atc import Agent, Toolset
from atc.calls.journal import Journal
from atc.cli import app
from atc.errors import AtcError, JournalError, TraceError
from atc.models.fake import FakeModel
from atc.result import Effect
from atc.serve.mcp.client import KeptRuns
from atc.traces.stores.files import FileRun, FileStore
from tests.support.cli import settle
from tests.support.tools import make_tool

PROGRAM = "```python\ncity = find(n=1)\nbook(n=city['id'])\nanswer = slow(n=2)\n```"
CODES = {0, 1, 2, 3, 4, 5, 6, 7}


TOOLS = Toolset(
    [
        make_tool("find", lambda a: {"id": 7, "name": "Rome"}, Effect.READ),
        make_tool("book", lambda a: {"booked": a["n"]}, Effect.WRITE),
        make_tool("slow", lambda a: (_ for _ in ()).throw(OSError("down")), Effect.WRITE),
    ]
)


def made_run(folder: Path) -> FileRun:
    """A real run that was cut off in the middle: a fault, a revision, reads and writes."""
    model = FakeModel(["```python\nanswer = find(n=1)['nothing']\n```", PROGRAM, "no program", "none", "none"])
    agent = Agent(TOOLS, model=model, approve="always", sentence=False, runs_dir=folder, learn=False)
    with agent, contextlib.suppress(AtcError):
        asyncio.run(agent.arun("book a city"))
    stored = agent.store.find("last")
    (stored.folder / "client.json").write_text(json.dumps({"principal": "local", "client": "c"}))
    return stored


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> FileRun:
    return made_run(tmp_path_factory.mktemp("original") / "runs")


def damage(content: bytes, chance: random.Random) -> bytes:
    """One of the ways in which a file is damaged: cut, flipped, inserted, deleted, doubled."""
    lines = content.splitlines(keepends=True)
    at, line = chance.randrange(len(content)), chance.randrange(len(lines))
    way = chance.randrange(7)
    if way == 0:
        return content[:at]
    if way == 1:
        return content[:at] + bytes([content[at] ^ (1 << chance.randrange(8))]) + content[at + 1 :]
    if way == 2:
        junk = chance.choice(
            [b"garbage\n", b"\0" * 9, b"\xff\xfe", b"[" * 5_000 + b"\n", b"{}\n", b"9" * 5_000, b"null\n"]
        )
        return content[:at] + junk + content[at:]
    if way == 3:
        return content[:at] + content[at + chance.randrange(1, 40) :]
    if way == 4:
        return b"".join(lines[:line] + lines[line + 1 :])
    if way == 5:
        return b"".join([*lines[: line + 1], *lines[line:]])
    record = json.loads(lines[line])  # another type in the place of a value
    place: Any = record.get("data", record)
    place[chance.choice(sorted(place))] = chance.choice([None, [], {}, "x", -1, 1e308, [[{}]], True, {"a": [1]}])
    return b"".join([*lines[:line], json.dumps(record).encode() + b"\n", *lines[line + 1 :]])


def run_of(folder: Path, original: FileRun) -> FileRun:
    shutil.copytree(original.folder.parent, folder / "runs", dirs_exist_ok=True)
    (folder / "runs").chmod(0o700)
    return FileStore(folder / "runs").find("last")


COMMANDS = (
    ["runs"], ["runs", "--json"], ["runs", "show", "last"], ["runs", "show", "last", "--json"],
    ["runs", "show", "last", "--verbose"],
    ["runs", "delete", "last"],
)  # fmt: skip


def resume(stored: FileRun) -> None:
    """Go on with a run, with a model that writes nothing more; every refusal is one of ATC's own."""
    agent = Agent(TOOLS, model=FakeModel(["none"] * 5), sentence=False, runs_dir=stored.folder.parent, learn=False)
    with agent, contextlib.suppress(AtcError):
        agent.resume(stored.run_id)


def over_damaged(stored: FileRun, seeds: range, commands: tuple[list[str], ...]) -> None:
    whole = {file: file.read_bytes() for file in stored.folder.iterdir()}
    for seed in seeds:
        chance = random.Random(seed)
        name = chance.choice([stored.trace, stored.trace, stored.journal, stored.folder / "client.json"])
        stored.folder.mkdir(exist_ok=True)
        for file, content in whole.items():
            file.write_bytes(damage(content, chance) if file == name else content)
        for command in commands:
            ran = CliRunner().invoke(app, command)
            said = f"seed {seed}: atc {' '.join(command)}: {ran.exception!r}\n{ran.stderr}"
            assert ran.exception is None or isinstance(ran.exception, SystemExit), said
            assert ran.exit_code in CODES, said
            assert "Traceback" not in ran.output, said
            assert ran.exit_code == 0 or "atc: " in ran.stderr or ran.stdout, said
            if "--json" in command and ran.exit_code == 0:
                json.loads(ran.stdout)
        if stored.trace.exists():
            resume(stored)
        asyncio.run(KeptRuns(FileStore(stored.folder.parent), "local").writes())


@pytest.fixture
def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, original: FileRun) -> FileRun:
    settle(tmp_path, monkeypatch)
    monkeypatch.setenv("ATC_BASE_URL", "http://127.0.0.1:9/v1")
    return run_of(tmp_path, original)


def test_no_command_meets_a_damaged_record_with_a_traceback(settled: FileRun) -> None:
    over_damaged(settled, range(3), (["runs", "--json"], ["runs", "show", "last"]))


@pytest.mark.slow
def test_no_command_of_all_does(settled: FileRun) -> None:
    over_damaged(settled, range(100, 120), COMMANDS)


def test_a_damaged_line_is_named_and_the_rest_is_shown(settled: FileRun) -> None:
    lines = settled.trace.read_bytes().splitlines(keepends=True)
    settled.trace.write_bytes(b"".join([*lines[:3], b"garbage\n", *lines[3:5], b'{"cut": ']))
    shown = CliRunner().invoke(app, ["runs", "show", "last"])
    assert shown.exit_code == 2
    assert f"{settled.trace}, line 4 is damaged" in shown.stderr
    assert "book a city" in shown.stdout
    listed = CliRunner().invoke(app, ["runs"])
    assert listed.exit_code == 0
    assert "damaged" in listed.stdout
    assert "line 4 is damaged" in listed.stderr
    resumed = CliRunner().invoke(app, ["resume", "last", "--tools", "tools.py"])
    assert resumed.exit_code == 2
    assert "line 4 is damaged" in resumed.stderr
    with pytest.raises(TraceError, match="line 4"):
        settled.check()
    settled.trace.write_bytes(b"".join([*lines[:5], b'{"cut": ']))
    settled.check()  # a crash cut the last one short
    assert CliRunner().invoke(app, ["runs", "show", "last"]).exit_code == 0


def test_a_damaged_journal_names_the_line_and_not_all_of_it(settled: FileRun) -> None:
    lines = settled.journal.read_bytes().splitlines(keepends=True)
    settled.journal.write_bytes(lines[0] + b"\xff" * 5_000 + b"\n" + b"".join(lines[1:]))
    with pytest.raises(
        JournalError, match=r"line 2 is not a journal record \(\w+Error: .*start the task anew"
    ) as caught:
        Journal(settled.journal)
    assert len(str(caught.value)) < 1_000
