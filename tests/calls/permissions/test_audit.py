"""The audit log: what stands in it, who can read it, and that it does not grow for ever."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from atc._host.files import lock
from atc._host.redaction import Redactor
from atc._records.origins import data_flow
from atc._records.records import Origin
from atc.calls.permissions import Who
from atc.calls.permissions.audit import KEPT, MAX_ORIGINS, AuditLog, read_audit
from atc.result import Effect


def note(log: AuditLog, tool: str = "book", who: Who = Who(), **arguments: Any) -> None:  # noqa: B008 - it is frozen
    of_call = {"tool": tool, "effect": Effect.WRITE, "arguments": arguments}
    asyncio.run(log.note(who, **of_call, verdict="allowed", by="user", run="r1"))


def test_a_line_says_who_did_what_and_its_owner_alone_reads_it(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "new" / "folder" / "audit.jsonl")
    note(log, who=Who("ann", "an editor"), n=1, to="x")
    line = json.loads(log.path.read_text())
    assert line.pop("at").startswith("20")
    assert line == {
        "principal": "ann",
        "client": "an editor",
        "run": "r1",
        "tool": "book",
        "effect": "write",
        "arguments": {"n": "1", "to": '"x"'},
        "verdict": "allowed",
        "by": "user",
    }
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700


def test_secrets_do_not_stand_in_it(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", Redactor(["known-secret-value"], {}))
    note(
        log,
        text="a known-secret-value here",
        nested={"deep": ["known-secret-value"]},
        password="hunter2hunter2",
        body={"api_key": "Zx81kkq0aa"},
        header="Bearer abcdefghijklmnop1234",
        cut="y" * 295 + "known-secret-value",
    )
    text = log.path.read_text()
    assert not [secret for secret in ("known-secret", "hunter2", "Zx81", "abcdefghij") if secret in text]


def test_what_a_stranger_sends_is_cut_and_steers_no_screen(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    hostile = "\x1b[2J\u202e\n{}\ud800"
    note(log, who=Who("p", hostile * 1000), **{hostile: hostile * 10_000, **{f"a{n}": n for n in range(100)}})
    content = log.path.read_bytes()
    assert content.isascii()
    assert content.count(b"\n") == 1
    assert b"\x1b" not in content
    assert len(content) < 20_000
    (record,) = read_audit(log.path)
    assert record is not None
    assert record.arguments["…"] == "71 more"


def test_where_arguments_came_from_is_written_down_without_a_value_and_bounded(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", Redactor(["s3cret-key"]))
    mail = Origin(kind="tool", tool="read_mail", path=("s3cret-key", "x" * 100, "\ud800"), how="choice")
    many = frozenset(Origin(kind="tool", tool=f"t{number}") for number in range(500))
    flow = data_flow({**{f"n{n}": many for n in range(90)}, "to": frozenset({mail})}, ("to",), ("read_mail",))
    asyncio.run(
        log.note(Who(), tool="pay", effect=Effect.WRITE, arguments={}, verdict="refused", by="nobody", flow=flow)
    )
    content = log.path.read_bytes()
    assert b"s3cret-key" not in content
    assert len(content) < 20_000
    (record,) = read_audit(log.path)
    assert record is not None
    assert (record.untrusted, record.author_saw) == (("to",), ("read_mail",))
    (kept,) = record.origins["to"]
    assert (kept.kind, kept.tool, kept.how, kept.path[1:]) == ("tool", "read_mail", "choice", ("x" * 50, "?"))
    assert sum(map(len, record.origins.values())) == MAX_ORIGINS


def test_a_full_file_is_turned_over_and_few_stay(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", max_bytes=1000)
    for number in range(60):
        note(log, n=number)
    files = sorted(path.name for path in tmp_path.glob("audit.jsonl*"))
    assert files == ["audit.jsonl", *(f"audit.jsonl.{n + 1}" for n in range(KEPT)), "audit.jsonl.lock"]
    assert all(path.stat().st_size <= 1000 for path in tmp_path.glob("audit.jsonl*"))
    kept = [int(record.arguments["n"]) for record in read_audit(log.path) if record is not None]
    assert kept == list(range(60 - len(kept), 60))


def test_many_writers_lose_no_line(tmp_path: Path) -> None:
    logs = [AuditLog(tmp_path / "audit.jsonl", max_bytes=3000) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda log: [note(log) for _ in range(8)], logs))
    assert [record is not None for record in read_audit(tmp_path / "audit.jsonl")] == [True] * 32


def test_the_event_loop_goes_on_while_another_process_has_the_file(tmp_path: Path) -> None:
    log, ticks = AuditLog(tmp_path / "audit.jsonl"), list[int]()

    async def tick() -> None:
        for number in range(3):
            ticks.append(number)
            await asyncio.sleep(0.01)
        other.close()

    async def both() -> None:
        ticking = asyncio.create_task(tick())
        await log.note(Who(), tool="book", effect=Effect.WRITE, arguments={}, verdict="allowed", by="user")
        assert ticks == [0, 1, 2]
        await ticking

    with (tmp_path / "audit.jsonl.lock").open("wb") as other:
        lock(other)
        asyncio.run(both())
    assert len([*read_audit(log.path)]) == 1


def test_neither_a_link_nor_a_pipe_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=r"symbolic|No such device"):
            note(AuditLog(tmp_path / name))
    assert (tmp_path / "elsewhere").read_text() == ""


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").touch(0o644)
    note(AuditLog(tmp_path / "audit.jsonl"))
    assert stat.S_IMODE((tmp_path / "audit.jsonl").stat().st_mode) == 0o600


def test_damaged_lines_are_told_from_the_others(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    note(log)
    with log.path.open("ab") as file:
        file.write(b'{"at": 1}\n\xff\xfe\n' + b"[" * 100_000 + b"\n")
    note(log)
    assert [record is not None for record in read_audit(log.path)] == [True, False, False, False, True]
    assert list(read_audit(tmp_path / "none")) == []
