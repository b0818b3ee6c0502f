"""A thread writes the journal: a write is sent when its record is on disk, only it waits, and no store has the loop."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import pytest

from atc import Agent, FakeModel, tool
from atc._host.blocking import in_thread
from atc._records.events import Event
from atc.calls.approval import Approval
from atc.calls.broker import Broker, CallPolicy
from atc.calls.contract import CallReply, CallRequest
from atc.calls.journal import Journal
from atc.calls.journal_file import JournalFile
from atc.errors import JournalError
from atc.result import Effect
from atc.tools.tool import Toolset
from atc.traces.stores.files import FileRun, FileStore
from tests import conftest
from tests.support.tools import make_tool

Record = Literal["begin", "sent", "value"]
RECORDS: tuple[Record, ...] = ("begin", "sent", "value")


class Disk:
    """The disk of a journal, which stands at one kind of record until it is let go, or fails there."""

    def __init__(self, record: Record, problem: BaseException | None = None) -> None:
        self.record, self.problem = record, problem
        self.stands, self.goes_on = threading.Event(), threading.Event()
        if problem is not None:
            self.goes_on.set()

    def _is_meant(self, record: dict[str, Any]) -> bool:
        """Whether it is of a write: reads pass, if they stand behind none."""
        return self.record in record and record.get("effect") != "read"

    @contextmanager
    def stood(self) -> Iterator[Disk]:
        """Let all journals of the block be on this disk."""
        append = JournalFile.append

        def slow(file: JournalFile, record: str, **how: Any) -> None:
            if self._is_meant(json.loads(record)):
                self.stands.set()
                assert self.goes_on.wait(20)
                if self.problem is not None:
                    file.close()
                    raise self.problem
            append(file, record, **how)

        with mock.patch.object(JournalFile, "append", slow):
            try:
                yield self
            finally:
                self.goes_on.set()


class Host:
    """A broker whose journal is written by a thread, and what its tools did. ``kept``: the file, when a write came."""

    def __init__(self, path: Path, timeout_s: float = 30.0) -> None:
        self.path, self.did, self.kept, self.events = path, list[int](), b"", list[Event]()
        self.told = asyncio.Event()
        self.journal = Journal(path)
        self.journal.write_behind()
        assert self.journal.behind is not None
        self.behind = self.journal.behind
        tools = [make_tool("book", self._book, Effect.WRITE), make_tool("look", lambda arguments: 1)]
        self.broker = Broker(
            tools=Toolset(tools),
            journal=self.journal,
            emit=self._hear,
            policy=CallPolicy(call_timeout_s=timeout_s, notice_s=0.01, unwritten=1_000),
            approval=Approval("always"),
        )
        self.broker.begin_program()

    def _hear(self, kind: Any, data: Any) -> None:
        self.events.append(Event(kind, dict(data)))
        if kind == "store_waiting":
            self.told.set()

    async def _book(self, arguments: dict[str, Any]) -> int:
        self.kept = self.path.read_bytes()
        self.did.append(arguments["n"])
        return len(self.did)

    def call(self, name: str = "book", number: int = 1) -> asyncio.Task[CallReply]:
        return asyncio.create_task(self.broker.call(CallRequest(number, name, {"n": number}, 1)))

    async def called_and_written(self, number: int) -> None:
        await self.call(number=number)
        await self.broker.written()

    async def stands(self, disk: Disk) -> None:
        assert await asyncio.to_thread(disk.stands.wait, 20)

    def states(self) -> list[str]:
        """What the next process reads, of a copy: this one may live."""
        copy = self.path.with_name("copy.jsonl")
        copy.write_bytes(self.path.read_bytes())
        journal = Journal(copy)
        journal.close()
        return ["in doubt" if each.in_doubt else each.state for each in journal.entries.values()]


@pytest.mark.parametrize("record", RECORDS[:2])
def test_a_write_is_sent_once_its_record_is_on_disk_and_others_go_on(tmp_path: Path, record: Record) -> None:
    """Those of other runs, and the reads of its own. A process that dies meanwhile has done nothing."""

    async def main() -> None:
        waits = Host(tmp_path / "journal.jsonl")
        with Disk(record).stood() as disk:
            call = waits.call()
            await waits.stands(disk)
            other = Host(tmp_path / "other.jsonl")
            other.journal._file = None  # on no disk
            assert (await other.call()).value == 1
            assert (await waits.call("look", 2)).value == 1
            await asyncio.wait_for(waits.told.wait(), 20)
            told = [each.data for each in waits.events if each.kind == "store_waiting"]
            assert (waits.did, call.done()) == ([], False)
            assert told == [{"journal": str(waits.path)}]
            assert waits.broker.clock.stopped  # it is not the program that is slow
            assert waits.states() in ([], ["refused"])
            disk.goes_on.set()
            assert (await call).value == 1
        records = [json.loads(line) for line in waits.kept.splitlines()]
        assert [next(each for each in RECORDS if each in found) for found in records if found["call"] == 1] == [
            "begin",
            "sent",
        ]
        assert not waits.broker.clock.stopped
        await waits.journal.aclose()
        assert waits.states() == ["done", "done"]

    asyncio.run(main())


@pytest.mark.parametrize(("record", "how"), [("begin", "cancelled"), ("sent", "cancelled"), ("sent", "late")])
def test_a_write_that_is_cut_off_while_its_record_waits_is_not_sent_and_not_in_doubt(
    tmp_path: Path, record: Record, how: str
) -> None:
    async def main() -> None:
        host = Host(tmp_path / "journal.jsonl", timeout_s=30.0 if how == "cancelled" else 0.01)
        with Disk(record).stood() as disk:
            call = host.call()
            await host.stands(disk)
            if how == "cancelled":
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
            else:
                error = (await call).error
                assert error is not None
                assert "its record was not written in time, so it was not sent" in error
            host.broker.begin_program()
            host.broker._sender = replace(host.broker._sender, policy=CallPolicy())
            again = host.call(number=1)
        assert (await again).error is None
        assert host.did == [1]
        await host.journal.aclose()
        assert host.states() == ["refused", "done"]
        assert host.broker.calls[0].status == "failed"

    asyncio.run(main())


@pytest.mark.parametrize("ends", [True, False])
def test_a_program_sees_an_answer_once_its_record_is_on_disk(tmp_path: Path, ends: bool) -> None:
    async def main() -> None:
        host = Host(tmp_path / "journal.jsonl")
        with Disk("value").stood() as disk:
            call = host.call()
            await host.stands(disk)
            await asyncio.sleep(0)
            assert (host.did, call.done(), host.states()) == ([1], False, ["in doubt"])
            if ends:
                call.cancel()
                await asyncio.wait([call])
            disk.goes_on.set()
            await asyncio.wait([call])
        await host.journal.aclose()
        assert [each.status for each in host.broker.calls] == ["ok"]
        assert host.states() == ["done"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("record", "did", "state"),
    [("begin", [], []), ("sent", [], ["refused"]), ("value", [1], ["in doubt"])],
)
@pytest.mark.parametrize("problem", [JournalError("no space left"), MemoryError("of ours")], ids=str)
def test_a_record_that_cannot_be_written_ends_the_run_before_anything_more_is_sent(
    tmp_path: Path, record: Record, did: list[int], state: list[str], problem: BaseException
) -> None:
    async def main() -> None:
        host = Host(tmp_path / "journal.jsonl")
        with Disk(record, problem).stood():
            for number in (1, 2):
                with pytest.raises(JournalError, match=str(problem)):
                    await host.called_and_written(number)
        assert host.did == did
        await host.journal.aclose()
        assert host.states() == state

    asyncio.run(main())


def test_what_waits_to_be_written_is_bounded(tmp_path: Path) -> None:
    async def main() -> None:
        host = Host(tmp_path / "journal.jsonl")
        with Disk("begin").stood() as disk:
            write = host.call()
            await host.stands(disk)
            made = 0
            for number in range(2, 100):
                reading = host.call("look", number)
                await asyncio.wait([reading], timeout=0.05)
                made += reading.done()
                if not reading.done():
                    break
            assert 1 < made < 20
            disk.goes_on.set()
            assert (await reading).value == (await write).value == 1
        assert host.behind.unwritten < 1_000
        await host.journal.aclose()
        assert host.behind.unwritten == 0

    asyncio.run(main())


@tool(effect="write")
def put(n: int) -> int:
    "Put a number."
    return n


def agent(**options: Any) -> Agent:
    options.setdefault("model", FakeModel(["answer = [put(n=1), put(n=2)]"]))
    return Agent([put], approve="always", sentence=False, max_revisions=0, **options)


@pytest.mark.parametrize("record", RECORDS)
def test_a_run_whose_disk_is_full_fails_and_says_what_it_did(record: Record) -> None:
    """Its trace, which the same thread writes, has its end all the same."""
    events: list[Event] = []
    full = JournalError("cannot write the journal: No space left on device")
    with Disk(record, full).stood(), agent(on_event=events.append) as one:
        result = one.run("Put both.")
    assert result.status == "failed"
    assert result.fault is not None
    assert "No space left on device" in result.fault.message


@pytest.mark.parametrize("part", ["check", "versions"])
def test_a_store_that_stands_holds_up_no_run_of_another(tmp_path: Path, part: str) -> None:
    """More of them than there are threads for small work: where runs are opened, and where old ones are deleted."""
    goes_on, reached = threading.Event(), threading.Semaphore(0)
    method, many = getattr(FileStore, part), 34

    def stands(store: FileStore) -> Any:
        if store.folder == tmp_path / "stands":
            reached.release()
            assert goes_on.wait(20)
        return method(store)

    async def main() -> None:
        model = FakeModel(["answer = put(n=1)"] * many)
        with agent(runs_dir=tmp_path / "stands", model=model) as one, agent(runs_dir=tmp_path / "other") as other:
            waiting = [asyncio.create_task(one.arun("Put one.")) for _ in range(many)]
            for _ in waiting if part == "check" else waiting[:1]:
                assert await in_thread(reached.acquire, timeout=20)
            assert (await other.arun("Put both.")).status == "answered"
            assert not all(each.done() for each in waiting)
            goes_on.set()
            assert {each.status for each in await asyncio.gather(*waiting)} == {"answered"}

    with mock.patch.object(FileStore, part, stands):
        asyncio.run(main())


def test_a_run_that_has_ended_is_free_for_the_next_process() -> None:
    with agent() as one:
        for _ in range(20):
            stored = one.store.run(one.run("Put both.").run_id)
            assert isinstance(stored, FileRun)
            assert not stored.is_held()
            assert stored.last("run_ended") is not None
            stored.open_journal().close()
    for thread in threading.enumerate():
        if thread.name.startswith("atc-journal"):
            thread.join(20)
            assert not thread.is_alive()


def test_a_store_that_has_the_loop_is_found(tmp_path: Path) -> None:
    """The watch over all tests can fail: by a coroutine of the product, and by a callback of the loop."""
    step = FileRun("20260101-000000-abcdef", tmp_path).version

    async def main() -> None:
        await asyncio.to_thread(step)
        step()  # a test's own
        assert not conftest.CAME_IN
        asyncio.get_running_loop().call_soon(step)
        await asyncio.sleep(0)
        assert len(conftest.CAME_IN) == 1
        with agent(on_event=lambda event: step() and None) as one:
            await one.arun("Put both.")

    asyncio.run(main())
    found = {each.rpartition(" ")[2] for each in conftest.CAME_IN}
    conftest.CAME_IN.clear()
    assert found >= {"_run", "_begin", "_mark_sent"}
