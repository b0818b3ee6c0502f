"""The journal: what was done answers later programs, what is in doubt is known, and the file survives crashes."""

from __future__ import annotations

import json
import os
import stat
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.errors import JournalError
from atc.execution.canonical import canonical
from atc.execution.journal import CallKey, Entry, Journal, call_key
from atc.tools.protocol import Effect

READ, WRITE = Effect.READ, Effect.WRITE


def key(tool: str = "book", **arguments: Any) -> CallKey:
    return call_key(tool, arguments)


def begin(journal: Journal, effect: Effect = WRITE, tool: str = "book", **arguments: Any) -> Entry:
    return journal.begin(max(journal.entries, default=0) + 1, key(tool, **arguments), arguments, effect)


def done(journal: Journal, value: Any, effect: Effect = WRITE, tool: str = "book", **arguments: Any) -> Entry:
    entry = begin(journal, effect, tool, **arguments)
    journal.succeed(entry, value)
    return entry


def value(entry: Entry | None) -> Any:
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


@given(st.data())
def test_a_last_line_that_was_torn_is_dropped(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("torn") / "journal.jsonl"
    journal = fresh(path)
    entry = begin(journal, n=1)
    begun = path.stat().st_size
    journal.succeed(entry, "ok")
    journal.close()
    cut = data.draw(st.integers(0, path.stat().st_size - 1))
    os.truncate(path, cut)
    again = Journal(path)
    assert len(again.entries) == (1 if cut >= begun else 0)
    assert all(entry.in_doubt for entry in again.entries.values())
    again.begin_attempt()
    done(again, "new", n=2)
    again.close()
    third = Journal(path)
    assert value(third.entries[max(third.entries)]) == "new", "what follows a torn line can be read"
    third.close()


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
    with pytest.raises(JournalError, match="line 2 is not a journal record"):
        Journal(path)


def test_an_outcome_cannot_be_written_twice(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = fresh(path)
    done(journal, "ok", n=1)
    journal.close()
    with path.open("a") as file:
        file.write('{"call": 1, "value": "again"}\n')
    with pytest.raises(JournalError, match=r"line 3 .*has ended before"):
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


def test_a_journal_that_cannot_be_written_stops_the_call(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"cannot use the journal .*No such file"):
        Journal(tmp_path / "nowhere" / "journal.jsonl")
    journal = fresh(tmp_path / "journal.jsonl")
    with open("/dev/full", "wb", buffering=0) as full:
        journal._file = full  # type: ignore[assignment]
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
    journal._file = _HalfWritten(journal._file)  # type: ignore[assignment]
    with pytest.raises(JournalError, match="a part of it only"):
        journal.succeed(entry, "lost")
    with pytest.raises(JournalError, match="closed"):
        begin(journal, n=3)
    assert entry.in_doubt
    again = Journal(path)
    assert [e.number for e in again.entries.values() if e.in_doubt] == [2]
    again.close()
