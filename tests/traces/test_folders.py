"""Folders of runs are their owner's alone; and code that a run names is not loaded where others could write it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from atc import UsageError
from atc._host.files import make_private, why_strange
from atc._records.events import Event
from atc.calls.journal import Journal
from atc.cli.learn import latest_source
from atc.errors import EnvironmentProblem
from atc.run.request import without_code
from atc.settings import Settings
from atc.traces.stores import open_store
from atc.traces.stores.base import new_run_id
from atc.traces.stores.files import FileRun, FileStore, FileTrace
from tests.support.cli import atc, settle


@pytest.fixture(params=[0o000, 0o022, 0o077])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.usefixtures("_umask")
def test_all_that_is_made_is_the_owner_s_alone(tmp_path: Path) -> None:
    run = FileStore(tmp_path / "state" / "atc" / "runs").run(new_run_id())
    run.make()
    FileTrace(run.trace).write_line(Event("answered", {}).line())
    Journal(run.journal).close()
    run.keep_traceback(1, "x")
    for folder in (run.folder, run.folder.parent, tmp_path / "state" / "atc", tmp_path / "state"):
        assert mode(folder) == 0o700
    assert {mode(file) for file in run.folder.iterdir()} == {0o600}


def test_what_was_open_is_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = FileStore(tmp_path / "runs").run(new_run_id())
    run.folder.mkdir(parents=True)
    run.trace.write_text("")
    run.journal.write_text("")
    for path in (run.folder.parent, run.folder, run.trace, run.journal):
        path.chmod(0o777)
    run.make()
    FileTrace(run.trace).write_line(Event("answered", {}).line())
    Journal(run.journal).close()
    assert [mode(each) for each in (run.folder.parent, run.folder, run.trace, run.journal)] == [0o700] * 2 + [0o600] * 2
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").touch()
    (tmp_path / "notes").chmod(0o777)
    with caplog.at_level(logging.WARNING):
        FileStore(tmp_path / "notes").run(new_run_id()).make()
    assert mode(tmp_path / "notes") == 0o777, "a folder with other things in it is its owner's to open"
    assert "others can write to" in caplog.text


def test_a_run_s_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    run = FileStore(tmp_path).run(new_run_id())
    (tmp_path / "elsewhere").mkdir()
    run.folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EnvironmentProblem, match="it is a link"):
        run.make()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_another_user_s_folder_is_refused_and_strange(tmp_path: Path) -> None:
    run = FileStore(tmp_path / "runs").run(new_run_id())
    run.make()
    os.chown(run.folder, 12345, -1)
    with pytest.raises(EnvironmentProblem, match="another user's"):
        run.make()
    assert "another user owns" in run.why_strange()


def test_what_lies_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(EnvironmentProblem, match="ATC_RUNS_DIR"):
        FileStore(tmp_path / "runs").run(new_run_id()).make()
    with pytest.raises(OSError, match="no folder"):
        make_private(tmp_path / "runs")


def test_a_folder_is_strange_where_others_can_write_anywhere_above_it(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "runs"
    make_private(folder)
    assert why_strange(folder) == ""
    (tmp_path / "a").chmod(0o707)
    assert str(tmp_path / "a") in why_strange(folder)
    (tmp_path / "a").chmod(0o1777)
    assert why_strange(folder) == "", "there, each may remove only what is theirs"
    (folder / "trace.jsonl").touch(0o602)
    (folder / "trace.jsonl").chmod(0o602)
    assert "trace.jsonl" in why_strange(folder / "trace.jsonl")
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "a").chmod(0o707)
    assert str(tmp_path / "a") in why_strange(tmp_path / "link"), "the real folder counts, too"


# -- a trace is data -------------------------------------------------------------------------------------------------


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileRun:
    """A run in a folder that everybody can write to; its trace names tools and a strategy that leave a mark."""
    settle(tmp_path, monkeypatch)
    run = FileStore(tmp_path / "runs").run(new_run_id())
    run.make()
    evil = tmp_path / "planted.py"
    evil.write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\n")
    started = {
        "run_id": run.run_id, "task": "x", "model": "m", "endpoint": "", "tools": 1, "strategy": "own", "settings": {},
        "strategy_given": f"{evil}:Own", "source": json.dumps({"tools": [str(evil)], "openapi": ["service_url=http://evil.example"]}),
        "answer": {"type": "Own", "schema": {"type": "integer"}, "opened_by": f"{evil}:Own"},
    }  # fmt: skip
    FileTrace(run.trace).write_line(Event("run_started", started).line())
    Journal(run.journal).close()
    run.folder.parent.chmod(0o777)
    return run


def test_tools_that_a_strange_trace_names_are_not_loaded_unasked(planted: FileRun, tmp_path: Path) -> None:
    ran = atc("resume", "last")
    assert ran.exit_code == 2
    assert "name them with --tools, or, if you know who wrote it, say --trust-run" in ran.stderr
    assert f"others can write to {planted.folder.parent}" in ran.stderr
    named = atc("resume", "last", "--tools", "tools.py")
    assert named.exit_code == 2
    assert "names code as its strategy" in named.stderr
    with pytest.raises(UsageError, match="others can write to"):
        latest_source(open_store(Settings.load()))  # as commands that train find their tools
    assert not (tmp_path / "mark").exists()
    atc("resume", "last", "--trust-run")
    assert (tmp_path / "mark").exists()


def test_in_one_s_own_folder_they_are(planted: FileRun, tmp_path: Path) -> None:
    planted.folder.parent.chmod(0o700)
    atc("resume", "last")
    assert (tmp_path / "mark").exists()


def test_a_yes_at_the_terminal_loads_them(planted: FileRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    async def ask(heading: str, arguments: object) -> bool:
        asked.append((heading, arguments))
        return len(asked) > 1

    monkeypatch.setattr("atc.calls.question.has_terminal", lambda: True)
    monkeypatch.setattr("atc.calls.question.ask", ask)
    assert atc("resume", "last").exit_code == 2
    assert not (tmp_path / "mark").exists()
    atc("resume", "last")
    assert (tmp_path / "mark").exists()
    assert "planted.py" in str(asked[0])
    assert "evil.example" in str(asked[0])


def test_a_type_of_answer_becomes_its_schema(planted: FileRun, tmp_path: Path) -> None:
    started = planted.first("run_started")
    assert started is not None
    kept = without_code(planted, started | {"strategy_given": "chain"}, strategy_given=False)
    assert kept["answer"] == {"type": "Own", "schema": {"type": "integer"}}
    with pytest.raises(UsageError, match="trust_run=True"):
        without_code(planted, started, strategy_given=False)
    assert not (tmp_path / "mark").exists()
    with pytest.raises(UsageError, match="others can write"):
        latest_source(FileStore(planted.folder.parent))
