"""The journal: what was done answers later programs, what is in doubt is known, and the file survives crashes."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc._records.records import Replacement
from atc.calls.journal import CallEntry, CallKey, Journal, call_key
from atc.calls.json_values import canonical
from atc.errors import JournalError
from atc.result import Effect

READ, WRITE = Effect.READ, Effect.WRITE


def key(tool: str = "book", **arguments: Any) -> CallKey:
    return call_key(tool, arguments)


def begin(journal: Journal, effect: Effect = WRITE, tool: str = "book", **arguments: Any) -> CallEntry:
    entry = unsent(journal, effect, tool, **arguments)
    journal.send(entry)
    return entry


def unsent(journal: Journal, effect: Effect = WRITE, tool: str = "book", **arguments: Any) -> CallEntry:
    return journal.begin(max(journal.entries, default=0) + 1, key(tool, **arguments), arguments, effect)


def done(journal: Journal, value: Any, effect: Effect = WRITE, tool: str = "book", **arguments: Any) -> CallEntry:
    entry = begin(journal, effect, tool, **arguments)
    journal.succeed(entry, value)
    return entry


def value(entry: CallEntry | None) -> Any:
    assert entry is not None
    return entry.value


def fresh(path: Path | None = None) -> Journal:
    journal = Journal(path)
    journal.begin_attempt()
    return journal


# -- which calls are the same ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1.0}, {"a": 1}),
        ({"a": -0.0}, {"a": 0}),
        ({"a": "é"}, {"a": "e\u0301"}),
        ({"a": (1, 2)}, {"a": [1, 2]}),
    ],
)
def test_equal_arguments_have_one_form(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": True}, {"a": 1}),
        ({"a": "1"}, {"a": 1}),
        ({"a": None}, {}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": 1.5}, {"a": 1}),
    ],
)
def test_different_arguments_have_different_forms(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert canonical(one) != canonical(other)


@given(
    st.dictionaries(
        st.text(max_size=3), st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3)
    )
)
def test_the_form_survives_json(arguments: dict[str, Any]) -> None:
    forms = {unicodedata.normalize("NFC", name) for name in arguments}
    if len(forms) < len(arguments):
        with pytest.raises(ValueError, match="the same text in different Unicode forms"):
            canonical(arguments)
        return
    text = canonical(arguments)
    assert canonical(json.loads(json.dumps(arguments))) == text
    assert canonical(json.loads(text)) == text


# -- replay ----------------------------------------------------------------------------------------------------------


def test_each_success_answers_one_call_of_a_later_program() -> None:
    journal = fresh()
    done(journal, "first", n=1)
    done(journal, "second", n=1)
    assert journal.claim(key(n=1)) is None, "a program is not answered by its own calls"
    journal.begin_attempt()
    assert value(journal.claim(key(n=1.0))) == "first"
    assert value(journal.claim(key(n=1))) == "second"
    assert journal.claim(key(n=1)) is None
    done(journal, "third", n=1)
    journal.begin_attempt()
    assert [value(journal.claim(key(n=1))) for _ in range(3)] == ["first", "second", "third"]


def test_a_failure_answers_nothing() -> None:
    journal = fresh()
    journal.fail(begin(journal, READ, n=1), surely_not_done=True, message="no")
    journal.begin_attempt()
    assert journal.claim(key(n=1)) is None


@pytest.mark.parametrize(("surely_not", "in_doubt"), [(True, False), (False, True)])
def test_a_failed_write_is_in_doubt_unless_it_surely_did_nothing(surely_not: bool, in_doubt: bool) -> None:
    journal = fresh()
    entry = begin(journal, n=1)
    journal.fail(entry, surely_not_done=surely_not, message="no")
    assert entry.in_doubt is in_doubt
    assert (journal.doubtful(key(n=1)) is entry) is in_doubt
    assert journal.doubtful(key(n=2)) is None


def test_a_read_is_never_in_doubt() -> None:
    journal = fresh()
    journal.fail(begin(journal, READ, n=1), surely_not_done=False, message="timeout")
    begin(journal, READ, n=2)
    journal.begin_attempt()
    assert journal.doubtful(key(n=1)) is journal.doubtful(key(n=2)) is None


def test_a_call_under_way_is_no_doubt_until_its_program_has_ended() -> None:
    journal = fresh()
    entry = begin(journal, n=1)
    assert journal.doubtful(key(n=1)) is None
    journal.begin_attempt()
    assert journal.doubtful(key(n=1)) is entry


def test_what_an_earlier_program_did_is_told_until_it_is_asked_for() -> None:
    journal = fresh()
    entry = done(journal, "ok", n=1)
    doubt = begin(journal, n=2)
    assert journal.unasked("book") is None, "its own calls"
    journal.begin_attempt()
    assert journal.unasked("book") is doubt
    journal.doubtful(key(n=2))
    assert journal.unasked("book") is entry
    journal.claim(key(n=1))
    assert journal.unasked("book") is None
    assert journal.unasked("pay") is None
    journal.begin_attempt()
    assert journal.unasked("book") is not None, "every program must ask anew"


# -- the file --------------------------------------------------------------------------------------------------------


def test_a_journal_is_read_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = fresh(path)
    done(journal, {"id": 7, "text": "ü\ud800"}, n=1)
    journal.fail(begin(journal, n=2), surely_not_done=False, message="timeout")
    journal.fail(begin(journal, n=3), surely_not_done=True, message="full")
    begin(journal, n=4)
    before = journal.entries
    journal.close()
    again = Journal(path)
    assert again.entries == before
    assert [entry.number for entry in again.entries.values() if entry.in_doubt] == [2, 4]
    again.begin_attempt()
    assert again.attempt == 1
    assert value(again.claim(key(n=1))) == {"id": 7, "text": "ü\ud800"}
    again.close()


def test_a_write_is_on_disk_before_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []
    path = tmp_path / "journal.jsonl"
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(path.read_bytes()))
    journal = fresh(path)
    synced.clear()
    begin(journal, READ, "look")
    assert synced == []
    entry = begin(journal, n=1)
    assert b'"begin": "book"' in synced[-1]
    journal.succeed(entry, "ok")
    assert b'"value": "ok"' in synced[-1]
    journal.close()


def written(path: Path) -> tuple[bytes, list[int]]:
    """A journal with everything that a record can hold, and where each line ends."""
    journal = fresh(path)
    done(journal, {"id": 7, "text": 'ü\ud800 \\ud8 "x\n', "many": [[], {}, None, True, False]}, n=1)
    done(journal, -1.5e-7, READ, "look", at=[0.25, 1e22], deep={"call": {"call": 1}})
    journal.fail(begin(journal, n=2, text="\x00"), surely_not_done=False, message='lost: {"call": 1}')
    done(journal, None, n=3)
    journal.begin_stage(inputs={"first": {"id": 7, "\\d": '{"call": 1, "sent": '}, "paid": b"\x00", "none": None})
    journal.begin_attempt()
    done(journal, True, n=4)
    journal.begin_stage(new_request=True)
    journal.close()
    content = path.read_bytes()
    return content, [at + 1 for at, byte in enumerate(content) if byte == ord("\n")]


@pytest.mark.parametrize("zeros", [0, 1, 4096])
def test_a_crash_at_any_byte_loses_no_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zeros: int) -> None:
    """Whatever the last byte on disk is: every call that was begun before it is there, done or in doubt."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the disk is not what is tried here, and takes its time
    path = tmp_path / "journal.jsonl"
    content, ends = written(path)
    kinds = [json.loads(line) for line in content.splitlines()]
    for cut in range(0, len(content), 1 if not zeros else 7):
        path.write_bytes(content[:cut] + bytes(zeros))
        again = Journal(path)
        whole = [record for record, end in zip(kinds, ends, strict=True) if cut >= end - 1]  # the line end is no record
        begun = {record["call"] for record in whole if "begin" in record}
        sent = {record["call"] for record in whole if "sent" in record}
        ended = {record["call"] for record in whole if record.keys() & {"value", "failed"}}
        reads = {2} & begun
        assert set(again.entries) == begun
        assert {n for n, entry in again.entries.items() if entry.state == "open"} == (reads | sent) - ended
        assert {n for n, entry in again.entries.items() if entry.state == "refused"} == begun - reads - sent
        assert again.stage == sum("stage" in record and "call" not in record for record in whole)
        again.begin_attempt()
        done(again, "new", n=9)
        again.close()
        third = Journal(path)
        assert value(third.entries[max(third.entries)]) == "new", "what follows can be read"
        assert set(third.entries) >= begun
        third.close()


def refused(path: Path, content: bytes) -> bool:
    """Whether a journal with this content is refused, and left as it is."""
    path.write_bytes(content)
    why = problem(path)
    assert not why or path.read_bytes() == content
    assert not why or re.search(r"journal\.jsonl, line \d+ is not a journal record .* start the task anew", why)
    return bool(why)


def problem(path: Path, *required: int) -> str:
    """Why a journal is refused; nothing where it is not."""
    try:
        journal = Journal(path)
        journal.require((number, True) for number in required)
    except JournalError as error:
        return str(error)
    assert set(journal.entries) >= set(required)
    journal.close()
    return ""


def test_a_journal_without_line_ends_is_refused(tmp_path: Path) -> None:
    content, ends = written(tmp_path / "journal.jsonl")
    for character in (b"", b" ", b"\r", b"\\n"):
        assert refused(tmp_path / "journal.jsonl", content.replace(b"\n", character))
    for end in ends[:-1]:
        assert refused(tmp_path / "journal.jsonl", content[: end - 1] + content[end:])
    assert not refused(tmp_path / "journal.jsonl", content[:-1]), "the last record is all there"


def test_lines_after_a_torn_one_are_refused(tmp_path: Path) -> None:
    """Also where the lines that follow have no end either."""
    content, ends = written(tmp_path / "journal.jsonl")
    second = ends[1]
    for cut in [*range(1, ends[0] - 1, 9), *range(second + 1, ends[2] - 1, 9)]:
        later = content[ends[3] :]
        for end in (b"", b"\n"):
            assert refused(tmp_path / "journal.jsonl", content[:cut] + later[: later.index(b"\n")] + end)


def test_a_ban_that_a_crash_cut_short_is_dropped(tmp_path: Path) -> None:
    """Nothing took the tool's place yet: the ban is on disk before that can act."""
    path = tmp_path / "journal.jsonl"
    before, _ = written(path)
    journal = Journal(path)
    journal.ban('say "hi"', Replacement(tool="see", arguments=(("a", "b"),)))
    journal.ban("book", Replacement(tool="reserve"))
    journal.close()
    content = path.read_bytes()
    first = content.index(b"\n", len(before)) + 1
    for cut in range(len(before), len(content)):
        path.write_bytes(content[:cut])
        again = Journal(path)
        assert [*again.banned] == (['say "hi"'] if cut >= first - 1 else []) + ["book"] * (cut == len(content) - 1)
        again.close()
    for cut in range(len(before) + 1, first - 1):
        assert refused(path, content[:cut] + content[first:]), "a second record follows the one that was cut short"
    line = b'{"reads_after": 1}'
    for cut in range(len(line)):
        assert not refused(path, before + line[:cut]), "a bound of reads is dropped likewise"


@given(st.data())
def test_garbage_in_the_middle_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("garbage") / "journal.jsonl"
    content, ends = written(path)
    at = data.draw(st.sampled_from([0, *ends]))
    garbage = data.draw(st.binary(min_size=1).filter(lambda some: some.strip() and not some.startswith(b"{")))
    if at < len(content) or not (garbage.strip(b"\0") == b"" or b'{"call": '.startswith(garbage.rstrip(b"\0"))):
        assert refused(path, content[:at] + garbage + content[at:])


@given(st.data())
def test_no_lost_line_lets_a_write_be_made_again(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """With what the trace tells: a journal that lacks lines is refused, or every write is in it."""
    path = tmp_path_factory.mktemp("lost") / "journal.jsonl"
    content, _ = written(path)
    lines = content.splitlines(keepends=True)
    kept = data.draw(st.lists(st.booleans(), min_size=len(lines), max_size=len(lines)))
    path.write_bytes(b"".join(line for line, keep in zip(lines, kept, strict=True) if keep))
    why = problem(path, 1, 3, 4, 5)
    sent = {json.loads(line)["call"] for line in path.read_bytes().splitlines() if b'"sent": true' in line}
    assert sent == {1, 3, 4, 5} or re.search("is not a journal record|lacks call [1345], which was sent", why)


@pytest.mark.parametrize(
    "line",
    [
        "garbage",
        "[]",
        "null",
        '{"call": 1}',
        '{"call": 99, "value": 1}',
        '{"call": 1, "failed": "perhaps", "message": ""}',
        '{"call": 1, "value": 1, "next_page": {"page": 2}}',
        '{"call": 1, "value": 1, "next_page": true}',
        '{"call": 1, "begin": "book", "key": "x", "args": {}, "effect": "write", "attempt": 0}',
        '{"call": "2", "begin": "book", "key": "x", "args": {}, "effect": "write", "attempt": 0}',
        '{"call": 2, "begin": "book", "key": "x", "args": [], "effect": "write", "attempt": 0}',
        '{"call": 2, "begin": "book", "key": "x", "args": {}, "effect": "magic", "attempt": 0}',
        '{"call": 2, "begin": null, "key": "x", "args": {}, "effect": "write", "attempt": 0}',
        '{"call": 2, "begin": "pay", "key": "x", "args": {}, "effect": "write", "attempt": 0, "stage": 1}',
        '{"call": 2, "begin": "pay", "key": "x", "args": {}, "effect": "write", "attempt": 0, "boot": 5}',
        '{"call": 1, "sent": true}',
        '{"call": 1, "sent": false}',
        '{"call": 99, "sent": true}',
        '{"stage": 2, "commits": [], "new_request": false, "inputs": {}}',
        '{"stage": true, "commits": [], "new_request": false, "inputs": {}}',
        '{"stage": 1, "commits": [1], "new_request": false, "inputs": {}}',
        '{"stage": 1, "commits": [99], "new_request": false, "inputs": {}}',
        '{"stage": 1, "commits": 3, "new_request": false, "inputs": {}}',
        '{"stage": 1, "commits": [], "new_request": 0, "inputs": {}}',
        '{"stage": 1, "commits": [], "new_request": false, "inputs": []}',
        '{"stage": 1, "commits": [], "new_request": false}',
        '{"layer": 1}',
        "[" * 100_000,
    ],
)
def test_a_damaged_journal_is_an_error_that_names_the_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "journal.jsonl"
    journal = fresh(path)
    begin(journal, n=1)
    journal.close()
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(JournalError, match="line 3 is not a journal record"):
        Journal(path)


def test_an_outcome_cannot_be_written_twice(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = fresh(path)
    done(journal, "ok", n=1)
    journal.close()
    with path.open("a") as file:
        file.write('{"call": 1, "value": "again"}\n')
    with pytest.raises(JournalError, match=r"line 4 .*has ended before"):
        Journal(path)


def test_two_processes_never_share_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    with pytest.raises(JournalError, match="another process works on this run"):
        Journal(path)
    journal.close()
    Journal(path).close()


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    Journal(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "/dev/null", "/dev/zero"])
def test_what_is_no_plain_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with socket.socket(socket.AF_UNIX) as taken:
        made = {"pipe": os.mkfifo, "folder": Path.mkdir, "socket": lambda path: taken.bind(str(path))}
        made.get(kind, lambda path: path.symlink_to(kind))(path)  # type: ignore[operator]
        with pytest.raises(JournalError, match="cannot use the journal"):
            Journal(path)


def test_a_journal_that_cannot_be_written_stops_the_call(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"cannot use the journal .*No such file"):
        Journal(tmp_path / "nowhere" / "journal.jsonl")
    journal = fresh(tmp_path / "journal.jsonl")
    with open("/dev/full", "wb", buffering=0) as full:
        assert journal._file is not None
        journal._file._file = full  # type: ignore[assignment]
        with pytest.raises(JournalError, match=r"cannot write the journal .*No space left"):
            begin(journal, n=1)
    assert journal.entries == {}
    with pytest.raises(JournalError, match="closed"):
        begin(journal, n=1)


class _HalfWritten:
    """A file on a disk that fills up in the middle of a line."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        return int(self._file.write(data[: len(data) // 2]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_nothing_follows_half_a_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = fresh(path)
    done(journal, "ok", n=1)
    entry = begin(journal, n=2)
    assert journal._file is not None
    journal._file._file = _HalfWritten(journal._file._file)  # type: ignore[assignment]
    with pytest.raises(JournalError, match="a part of it only"):
        journal.succeed(entry, "lost")
    with pytest.raises(JournalError, match="closed"):
        begin(journal, n=3)
    assert entry.in_doubt
    again = Journal(path)
    assert [e.number for e in again.entries.values() if e.in_doubt] == [2]
    again.close()
