"""The writes of earlier runs are read from their journals as these have them, and are their owner's."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.calls.approval import EarlierWrite
from atc.calls.journal import Journal, call_key
from atc.result import Effect
from atc.serve.mcp.client import MOST_CLIENTS, ClientId, Clients, KeptRuns, Writes, WritesOfOthers, _made
from atc.traces.stores.files import FileStore

RUN, OTHER = "20261123-110239-78b31a", "20261123-110240-78b31b"
KEY = call_key("send", {"text": "a"})


def begun(store: FileStore, run_id: str, principal: str = "local") -> Journal:
    """The journal of a run of somebody, with one write that was sent."""
    KeptRuns(store, principal).begin(run_id, "a client")
    journal = Journal(store.run(run_id).journal)
    journal.begin_attempt()
    journal.send(journal.begin(1, KEY, {"text": "a"}, Effect.WRITE))
    return journal


def found(store: FileStore, principal: str = "local") -> tuple[EarlierWrite, ...]:
    return asyncio.run(KeptRuns(store, principal).writes()).get(KEY, ())


@given(
    st.lists(
        st.tuples(
            st.sampled_from([Effect.READ, Effect.WRITE, Effect.UNKNOWN]),
            st.sampled_from(["begun", "sent", "done", "refused", "unknown"]),
            st.text(max_size=3),
        )
    ),
    st.integers(0, 60),
)
def test_a_journal_is_read_as_it_reads_itself(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[Effect, str, str]], cut: int
) -> None:
    path = tmp_path_factory.mktemp("run") / "journal.jsonl"
    journal = Journal(path)
    journal.begin_attempt()
    for number, (effect, end, text) in enumerate(calls, start=1):
        entry = journal.begin(number, call_key("send", {"text": text}), {"text": text}, effect)
        if end != "begun":
            journal.send(entry)
        if end == "done":
            journal.succeed(entry, text)
        elif end in ("refused", "unknown"):
            journal.fail(entry, surely_not_done=end == "refused", message='"failed": "refused"')
    journal.close()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - cut])  # a crash may cut the end off
    made, again = _made("it", path.read_bytes().splitlines(keepends=True)), Journal(path)
    writes = [entry for entry in again.entries.values() if entry.effect is not Effect.READ]
    again.close()
    assert {key for key, done in made.items() if done} == {e.key for e in writes if e.state == "done"}
    assert set(made) >= {entry.key for entry in writes if entry.in_doubt}  # what was not sent may count, too


def test_only_runs_of_the_principal_and_of_the_last_hour_count(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    journal = begun(store, RUN)
    assert found(store) == (EarlierWrite(RUN, in_doubt=True),)
    assert found(store, "somebody else") == ()
    assert not KeptRuns(store, "somebody else").owns(RUN)
    assert KeptRuns(store, "local").owns(RUN)
    journal.succeed(journal.entries[1], 1)
    assert found(store) == (EarlierWrite(RUN),)
    journal.close()
    os.utime(store.run(RUN).journal, (time.time() - 4_000,) * 2)
    assert found(store) == ()


@pytest.mark.parametrize("name", ["", "..", "../x", "last", RUN[:8], RUN + "/..", "/etc", "x" * 5_000])
def test_no_other_name_is_a_run(tmp_path: Path, name: str) -> None:
    begun(FileStore(tmp_path), RUN).close()
    assert not KeptRuns(FileStore(tmp_path), "local").owns(name)


@pytest.mark.parametrize("content", [b"", b"junk", b"[]", b'{"principal": 1}', b"{" * 100_000])
def test_a_run_whose_owner_cannot_be_read_is_nobodys(tmp_path: Path, content: bytes) -> None:
    begun(FileStore(tmp_path), RUN).close()
    (tmp_path / RUN / "client.json").write_bytes(content)
    assert not KeptRuns(FileStore(tmp_path), "local").owns(RUN)
    assert found(FileStore(tmp_path)) == ()


def test_who_is_owner_is_for_the_owners_eyes(tmp_path: Path) -> None:
    begun(FileStore(tmp_path), RUN).close()
    assert (tmp_path / RUN / "client.json").stat().st_mode & 0o777 == 0o600


def test_writes_of_one_run_as_others_see_them() -> None:
    writes = Writes()
    first, second = WritesOfOthers(writes, RUN), WritesOfOthers(writes, OTHER)

    async def see(run: WritesOfOthers) -> EarlierWrite | None:
        return await run.find(KEY)

    assert first.take(KEY, None) is None
    assert asyncio.run(see(first)) is None
    doing = asyncio.run(see(second))
    assert doing == EarlierWrite(RUN, in_doubt=True)
    assert second.take(KEY, None) == doing  # nobody was asked about it
    assert second.take(KEY, doing) is None
    second.settle(KEY, "refused")  # and what the first one does stays known
    first.settle(KEY, "done")
    assert asyncio.run(see(second)) == EarlierWrite(RUN)
    first.take(KEY, None)
    first.settle(KEY, "refused")
    assert asyncio.run(see(second)) == EarlierWrite(RUN)  # the first time it was done
    assert len(writes) == 1


def test_what_is_remembered_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.serve.mcp.client.MOST_WRITES", 5)
    writes = Writes()
    writes.take(KEY, RUN)  # goes on
    for number in range(20):
        key = call_key("send", {"n": number})
        writes.take(key, RUN)
        writes.settle(key, RUN, "done")
    assert len(writes) == 5
    assert writes.of_others(KEY, OTHER) == EarlierWrite(RUN, in_doubt=True)
    clients = Clients(FileStore(tmp_path))
    for number in range(MOST_CLIENTS + 10):
        clients.of(ClientId("local", str(number)))
    assert len(clients._clients) == MOST_CLIENTS
