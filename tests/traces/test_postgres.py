"""Runs in a real PostgreSQL server: processes and the server are killed and stopped, and nothing is done twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from atc import Agent, FakeModel, tool
from atc._records.events import Event
from atc.calls.approval import Approve
from atc.calls.journal import Journal, call_key
from atc.errors import EnvironmentProblem, JournalError, RunInUse, UsageError
from atc.result import Effect
from atc.traces.index import AT_ONCE, FORM, RunIndex
from atc.traces.stores import postgres_session
from atc.traces.stores.postgres import PostgresRun, PostgresStore
from benchmarks.kills import parked as parked_kills
from benchmarks.kills import store as store_kills
from tests.support.cli import atc
from tests.support.postgres import Server

pytestmark = pytest.mark.slow
RUN = "20240101-000000-aaaaaa"
KEY = call_key("book", {"n": 1})


@pytest.fixture
def store(address: str) -> Iterator[PostgresStore]:
    opened = PostgresStore(address, lease_s=1.0)
    yield opened
    opened.close()


def made(store: PostgresStore) -> PostgresRun:
    run = store.run(RUN)
    run.make()
    return run


def test_a_list_of_10_000_runs_takes_few_queries(
    store: PostgresStore, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = RunIndex(store)
    trace = made(store).open_trace()
    trace.write_line(Event("run_started", {"task": "the one without a summary", "model": "m"}, 1.0).line())
    trace.close()
    assert [row.task for row in index.latest()] == ["the one without a summary"]
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO atc.runs (run_id, epoch, events) SELECT '20250101-000000-' || lpad(n::text, 6, '0'), 1, 7 "
            "FROM generate_series(1, 10000) AS n"
        )
        connection.execute(
            "INSERT INTO atc.notes SELECT run_id, 'summary', %s FROM atc.runs WHERE epoch = 1",
            (json.dumps({"v": FORM, "of": repr((1, 7)), "row": {"run_id": "", "task": "one of many"}}),),
        )
        for hostile in ("../../etc/passwd", "\x1b[2J", "20250101-000000-000001\n"):
            connection.execute("INSERT INTO atc.runs (run_id, epoch, events) VALUES (%s, 1, 7)", (hostile,))
    asked: list[str] = []
    rows = postgres_session.Session.rows

    def counted(session: postgres_session.Session, statement: LiteralString, *args: Any, **options: Any) -> Any:
        asked.append(statement)
        return rows(session, statement, *args, **options)

    monkeypatch.setattr(postgres_session.Session, "rows", counted)
    found = index.latest()
    assert (len(found), {row.task for row in found[:-1]}) == (10_001, {"one of many"})
    assert len(asked) <= 2 + 10_000 / AT_ONCE
    asked.clear()
    assert len(index.latest()) == 10_001
    assert len(asked) == 2  # for what there is, and which of them go on


# -- the path of a user ------------------------------------------------------------------------------------------------


@tool(effect="write")
def book(n: int) -> int:
    """Book a seat."""
    BOOKED.append(n)
    return n


BOOKED: list[int] = []


def agent_of(address: str, *programs: str, approve: Approve = "always") -> Agent:
    replies = [f"```python\n{program}\n```" for program in programs]
    return Agent([book], model=FakeModel(replies), approve=approve, sentence=False, learn=False, store=address)


def test_runs_conversations_and_commands_work_over_it(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with agent_of(address, "answer = book(n=1) / 0", "answer = book(n=1) + 1") as agent:
        result = agent.run("book")  # the second program is its revision
        assert (result.status, [call.status for call in result.calls]) == ("answered", ["ok", "replayed"])
        assert result.trace is not None
        assert result.run_id in result.trace
    with agent_of(address, "answer = book(n=2)", "answer = book(n=3) + answer_1") as agent:
        with agent.conversation() as conversation:
            assert [conversation.run("book").value, conversation.run("and one more").value] == [2, 5]
        first = agent.run_program("answer = book(n=7)")
        again = agent.run_program("answer = book(n=7) + 1", run=first.run_id)
        assert [(call.status, call.tool) for call in again.calls] == [("replayed", "book")]
    monkeypatch.setenv("ATC_STORE", address)
    rows = json.loads(atc("runs", "--json").stdout)
    assert [row["status"] for row in rows] == ["answered"] * 3
    shown = atc("runs", "show", result.run_id)
    assert shown.exit_code == 0
    assert "book(n=1) + 1" in shown.stdout
    assert atc("resume", result.run_id).exit_code == 2
    found = json.loads(atc("runs", "delete", "all", "--json").stdout)
    assert len(found["deleted"]) == 3
    assert json.loads(atc("runs", "--json").stdout) == []


def parked(address: str) -> tuple[str, list[int]]:
    """A run whose two writes wait for approval: its id, and their numbers."""
    agent = agent_of(address, "answer = [book(n=1), book(n=2)]", approve="park")
    with agent:
        waiting = agent.run("book two")
    assert waiting.status == "waiting"
    return waiting.run_id, [call.index for call in waiting.pending]


def test_a_yes_is_given_by_another_client_of_the_store_and_a_third_one_goes_on(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    BOOKED.clear()
    run_id, (first, second) = parked(address)
    monkeypatch.setenv("ATC_STORE", address)
    (listed,) = json.loads(atc("runs", "approvals", "--json").stdout)
    assert (listed["run_id"], [call["index"] for call in listed["pending"]]) == (run_id, [first, second])
    with agent_of(address) as agent:
        agent.approve(run_id, calls=[first], by="ann")
    with agent_of(address, approve="park") as agent:  # it sends what has a yes, and waits on
        again = agent.resume(run_id)
    assert (again.status, [call.index for call in again.pending], BOOKED) == ("waiting", [second], [1])
    assert json.loads(atc("runs", "approve", run_id, "--deny", "--json").stdout)["decided"] == {str(second): False}
    assert json.loads(atc("runs", "approvals", "--json").stdout) == []
    with agent_of(address, approve="park") as agent:
        assert (agent.resume(run_id).status, BOOKED) == ("denied", [1])


def test_of_two_clients_that_decide_at_once_the_first_counts(address: str) -> None:
    BOOKED.clear()
    run_id, numbers = parked(address)
    late: list[str] = []

    def decided(name: str, deny: bool) -> dict[int, bool]:
        """The calls about which this client has decided: it goes over all of them."""
        found: dict[int, bool] = {}
        with agent_of(address) as agent:
            for number in numbers:
                while number not in found:
                    try:
                        agent.approve(run_id, calls=[number], deny=deny, by=name)
                        found[number] = not deny
                    except RunInUse:
                        time.sleep(0.005)
                    except UsageError as error:
                        late.append(str(error))
                        break
        return found

    with ThreadPoolExecutor(2) as deciders:
        of_ann, of_bob = deciders.map(decided, ("ann", "bob"), (False, True))
    assert [*sorted((*of_ann, *of_bob))] == numbers  # each by one of them
    assert ["before, by" in text for text in late] == [True, True]
    with agent_of(address, approve="park") as agent:
        done = agent.resume(run_id)
    before_a_no = 2 if not of_bob else numbers.index(min(of_bob))
    assert (len(BOOKED), done.status) == (before_a_no, "denied" if of_bob else "answered")


# -- who may write -----------------------------------------------------------------------------------------------------


def test_after_a_takeover_the_database_refuses_what_the_old_one_writes(store: PostgresStore, address: str) -> None:
    run = made(store)
    old, trace = run.open_journal(), run.open_trace()
    old.begin_attempt()
    trace.write_line(Event("run_started", {"task": "t", "model": "none"}).line())
    entry = old.begin(1, KEY, {"n": 1}, Effect.WRITE)
    with psycopg.connect(address, autocommit=True) as other:  # nobody renews it, as where a process was stopped
        other.execute("UPDATE atc.runs SET lease_until = clock_timestamp() - interval '1 s'")
    elsewhere = PostgresStore(address)
    new = elsewhere.run(RUN).open_journal()
    assert new.entries[1].state == "refused"
    with pytest.raises(JournalError, match=r"lease has lapsed, or another process"):
        old.send(entry)
    assert not entry.sent
    with pytest.raises(JournalError, match="closed"):
        old.fail(entry, surely_not_done=True, message="late")
    trace.write_line(Event("answered", {"value": "late"}).line())
    trace.close()
    assert [event["kind"] for event in run.events()] == ["run_started"]
    new.begin_attempt()
    new.succeed(new.begin(2, KEY, {"n": 1}, Effect.WRITE), 1)
    new.close()
    elsewhere.close()


def test_a_lapsed_lease_is_not_used_even_where_nobody_else_came(store: PostgresStore, address: str) -> None:
    journal = made(store).open_journal()
    with psycopg.connect(address, autocommit=True) as other:
        other.execute("UPDATE atc.runs SET lease_until = clock_timestamp()")
    journal.begin_attempt()
    with pytest.raises(JournalError, match="lease has lapsed"):
        journal.begin(1, KEY, {"n": 1}, Effect.WRITE)


def test_a_lease_is_renewed_though_the_event_loop_stands_still(store: PostgresStore, address: str) -> None:
    journal = made(store).open_journal()
    with psycopg.connect(address, autocommit=True) as other:
        ask = "SELECT lease_until FROM atc.runs"
        first = other.execute(ask).fetchone()
        until = time.monotonic() + 30

        async def stands_still() -> None:
            while other.execute(ask).fetchone() == first:
                assert time.monotonic() < until
                time.sleep(0.05)  # noqa: ASYNC251

        asyncio.run(stands_still())
    journal.close()


def test_a_connection_lost_in_the_middle_of_a_record_ends_the_run_and_sends_nothing(
    store: PostgresStore, address: str, server: Server
) -> None:
    run = made(store)
    journal = run.open_journal()
    journal.begin_attempt()
    entry = journal.begin(1, KEY, {"n": 1}, Effect.WRITE)
    blocker = psycopg.connect(address)
    blocker.execute("SELECT * FROM atc.runs FOR UPDATE")
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INSERT INTO%'"
    with ThreadPoolExecutor(1) as pool, psycopg.connect(address, autocommit=True) as watch:
        sending = pool.submit(journal.send, entry)
        while watch.execute(waiting).fetchone() == (0,):
            time.sleep(0.01)
        server.kill()
        with pytest.raises(JournalError, match="cannot write the journal"):
            sending.result(60)
    blocker.close()
    assert not entry.sent
    server.start()
    again = _opened_after_the_lease(PostgresStore(address).run(RUN))
    assert again.entries[1].state == "refused"
    again.close()


def _opened_after_the_lease(run: PostgresRun) -> Journal:
    until = time.monotonic() + 60
    while True:
        try:
            return run.open_journal()
        except JournalError:
            assert time.monotonic() < until
            time.sleep(0.05)


def test_a_server_that_hangs_holds_nobody_for_good(
    store: PostgresStore, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = made(store).open_journal()
    journal.begin_attempt()
    with psycopg.connect(address, autocommit=True) as other:
        ask = "SELECT pid FROM pg_stat_activity WHERE application_name = 'atc' AND datname = current_database()"
        backends = [pid for (pid,) in other.execute(ask).fetchall()]
    monkeypatch.setattr(postgres_session, "LIMIT_S", 0.5)
    for pid in backends:
        os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(JournalError, match=r"has not answered for 0\.5 seconds"):
            journal.begin(1, KEY, {"n": 1}, Effect.WRITE)
    finally:
        for pid in backends:
            os.kill(pid, signal.SIGCONT)


def test_a_record_that_is_missing_or_changed_is_found(store: PostgresStore, address: str) -> None:
    journal = made(store).open_journal()
    journal.begin_attempt()
    journal.succeed(journal.begin(1, KEY, {"n": 1}, Effect.WRITE), 1)
    journal.close()
    with psycopg.connect(address, autocommit=True) as other:
        other.execute("DELETE FROM atc.records WHERE number = 2")
        with pytest.raises(JournalError, match="record 3 is wrong"):
            store.run(RUN).open_journal()
        other.execute("DELETE FROM atc.records WHERE number = 3")
        with pytest.raises(JournalError, match="lacks records after 1 of 3"):
            store.run(RUN).open_journal()


def test_a_mark_does_not_hold_on_a_server_that_took_over(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made(store)
    journal = run.open_journal()
    journal.begin_attempt()
    journal.begin(1, KEY, {"n": 1}, Effect.WRITE)  # its mark may have been committed where the old server was
    journal.close()
    monkeypatch.setattr("atc.traces.stores.postgres_records._marks", lambda _: "postgresql-1-00000002")
    again = run.open_journal()
    assert again.in_doubt() is again.entries[1]
    again.close()


# -- tables and rights -------------------------------------------------------------------------------------------------


def test_two_may_make_the_tables_at_once(address: str) -> None:
    stores = [PostgresStore(address) for _ in range(6)]
    start = threading.Barrier(len(stores))

    def begin(store: PostgresStore) -> None:
        start.wait()
        store.check()

    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(begin, stores))
    for store in stores:
        assert store.list() == []
        store.close()


def test_what_stands_in_the_way_is_said_before_anything_runs(address: str, server: Server) -> None:
    with psycopg.connect(address, autocommit=True) as owner:
        owner.execute("CREATE ROLE plain LOGIN PASSWORD 'hidden1'")
        plain = server.address(user="plain", password="hidden1")

        def refused(address: str, words: str) -> None:
            model = FakeModel(["```python\nanswer = book(n=1)\n```"])
            agent = Agent([book], model=model, approve="always", store=address)
            with pytest.raises(EnvironmentProblem, match=words) as problem:
                agent.run("book")
            assert not model.prompts
            assert "hidden1" not in str(problem.value)

        refused(plain, r"permission denied for database.*GRANT the user the rights")
        PostgresStore(address).check()
        refused(plain, r"permission denied for schema atc")
        owner.execute("GRANT USAGE ON SCHEMA atc TO plain")
        owner.execute("GRANT SELECT ON ALL TABLES IN SCHEMA atc TO plain")
        refused(plain, r"what runs need: .*runs: INSERT")
        owner.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA atc TO plain")
        PostgresStore(plain).check()
        assert PostgresStore(plain).run(RUN).why_strange() == ""  # the owner is a superuser here
        assert PostgresStore(address).run(RUN).why_strange().startswith("plain can write to postgresql://owner@")
        refused(server.address(user="nobody-here"), r"role .* does not exist")
        refused(server.address(database="nothing"), r"database .* does not exist")
        owner.execute("UPDATE atc.about SET version = 99")
        refused(address, r"newer version of ATC")


def test_what_the_server_lacks_is_told_apart_from_a_server_that_is_down(store: PostgresStore) -> None:
    store.check()
    for sqlstate, fix in [("53100", "make room"), ("25006", "takes writes"), ("57014", "")]:
        raised = f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{sqlstate}'; END $$"
        with pytest.raises(EnvironmentProblem) as problem:
            store.sure.rows(raised)  # type: ignore[arg-type]
        assert fix in problem.value.fix
        assert "start the server" not in str(problem.value)


def test_a_role_that_can_write_in_any_way_is_named(store: PostgresStore, address: str) -> None:
    run = made(store)
    ways = [
        ("GRANT UPDATE (record) ON atc.records TO sly", True),
        ("GRANT UPDATE ON atc.runs TO sly", True),
        ("GRANT INSERT ON atc.notes TO sly", True),
        ("GRANT TRIGGER ON atc.events TO sly", True),
        ("GRANT SELECT, DELETE ON atc.runs TO sly", False),
        ("GRANT INSERT ON atc.events TO writers; GRANT writers TO sly; ALTER ROLE sly NOINHERIT", True),
    ]
    with psycopg.connect(address, autocommit=True) as owner:
        owner.execute("CREATE ROLE sly LOGIN; CREATE ROLE writers")
        try:
            assert run.why_strange() == ""
            for way, named in ways:
                owner.execute("GRANT USAGE ON SCHEMA atc TO sly, writers")
                owner.execute(way)  # type: ignore[arg-type]
                assert run.why_strange().startswith("sly can write") == named, way
                owner.execute("DROP OWNED BY sly, writers")
        finally:
            owner.execute("DROP OWNED BY sly, writers; DROP ROLE sly, writers")


# -- processes that are killed and stopped -----------------------------------------------------------------------------

WORKER = """
    import sys, time
    from pathlib import Path
    from atc import Agent, FakeModel, tool

    address, folder, run_id = sys.argv[1], Path(sys.argv[2]), sys.argv[3]

    @tool(effect="write")
    def book(n: int) -> int:
        '''Book a seat.'''
        with (folder / "witness").open("a") as file:
            file.write(f"{n}\\n")
        return n

    @tool(effect="read")
    def wait(n: int) -> int:
        '''Wait until the file is there.'''
        (folder / "waits").touch()
        while not (folder / "go").exists():
            time.sleep(0.02)
        return n

    program = "answer = book(n=1) + wait(n=0) + book(n=2)"
    agent = Agent([book, wait], model=FakeModel([f"```python\\n{program}\\n```"] * 3), approve="always", sentence=False,
                  learn=False, store=address, store_lease_s=2)
    result = agent.resume(run_id) if run_id else agent.run("book two seats")
    print(result.status, result.value, result.fault.reason if result.fault else "", flush=True)
"""


def _worker(address: str, folder: Path, run_id: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(WORKER), address, str(folder), run_id]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def _until_it_waits(worker: subprocess.Popen[str], folder: Path) -> None:
    until = time.monotonic() + 60
    while not (folder / "waits").exists():
        assert worker.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)


def _taken_over(address: str, folder: Path, run_id: str) -> str:
    """End the run in other processes, as soon as its lease lets them; what the last one printed."""
    (folder / "go").touch()
    until = time.monotonic() + 90
    held = "SELECT 1 FROM atc.runs WHERE run_id = %s AND lease_until > clock_timestamp()"
    while True:
        with psycopg.connect(address, autocommit=True) as watch:
            while watch.execute(held, (run_id,)).fetchone() is not None:
                assert time.monotonic() < until
                time.sleep(0.02)
        said, _ = _worker(address, folder, run_id).communicate(timeout=60)
        if "JournalError" not in said:  # a busy machine may let its lease lapse, too
            return said
        assert time.monotonic() < until


@pytest.mark.parametrize("stopped", [False, True])
def test_a_run_goes_on_elsewhere_and_its_first_process_does_nothing_more(
    address: str, tmp_path: Path, *, stopped: bool
) -> None:
    first = _worker(address, tmp_path)
    try:
        _until_it_waits(first, tmp_path)
        first.send_signal(signal.SIGSTOP if stopped else signal.SIGKILL)
        store = PostgresStore(address)
        run = store.find("last")
        assert _taken_over(address, tmp_path, run.run_id) == "answered 3 \n"
        assert (tmp_path / "witness").read_text() == "1\n2\n"
        if stopped:
            lines = list(run.lines())
            first.send_signal(signal.SIGCONT)
            said, _ = first.communicate(timeout=60)
            assert said.startswith("failed None JournalError: cannot write the journal")
            assert (tmp_path / "witness").read_text() == "1\n2\n"
            assert list(run.lines()) == lines  # nor does it write into the trace
        store.close()
    finally:
        first.kill()
        first.communicate()


def test_the_server_is_killed_while_a_run_waits(address: str, tmp_path: Path, server: Server) -> None:
    worker = _worker(address, tmp_path)
    try:
        _until_it_waits(worker, tmp_path)
        server.kill()
        server.start()
        (tmp_path / "go").touch()
        said, _ = worker.communicate(timeout=60)
        if not said.startswith("answered 3"):  # its lease lapsed meanwhile
            said = _taken_over(address, tmp_path, PostgresStore(address).find("last").run_id)
        assert said == "answered 3 \n"
        assert (tmp_path / "witness").read_text() == "1\n2\n"
    finally:
        worker.kill()
        worker.communicate()


def test_a_sample_of_the_campaign_of_kills(server: Server) -> None:
    figures = store_kills.measured(5, seed=3, server=server).as_json()
    assert figures["kills"] >= 5
    assert (figures["done twice"], figures["lost"]) == (0, 0)
    assert set(figures["ends of the runs"]) <= {"answered", "in_doubt"}, "what is in doubt stays so"
    assert figures["in doubt"] or "in_doubt" not in figures["ends of the runs"]


def test_a_sample_of_the_campaign_of_kills_of_runs_that_wait(server: Server) -> None:
    found = parked_kills.measured(5, seed=4, server=server)
    assert found.kills.total() >= 5
    assert found.wrong == 0
    assert found.ends.keys() <= {"answered", "denied", "in_doubt"}
