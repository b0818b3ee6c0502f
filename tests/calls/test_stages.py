"""Stages: a successful program is committed, and what follows it is no revision of it. At most once, as ever."""

from __future__ import annotations

import asyncio
import shutil
import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.calls.journal import CallEntry, Journal, call_key
from atc.calls.json_values import canonical
from atc.errors import JournalError, ToolError
from atc.result import Effect
from tests.support.broker import WRITE, House, counted
from tests.support.crashes import CRASHES, RECORDS, Host, HostCrash, Intent, Step, World, run_program, step
from tests.support.tools import make_tool

# -- the property, whatever fails wherever -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Move:
    """One program; and where it succeeds, perhaps a stage after it."""

    program: list[Step]
    crash: str
    at: int
    reboot: bool
    stage: bool
    new_request: bool
    stage_crash: str


STAGE_CRASHES = ["none", "none", "none", *(c for c in CRASHES if c.endswith("stage"))]
easy = st.tuples(st.sampled_from(["look", "book"]), st.integers(0, 2), st.just("ok"), st.booleans())
moves = st.builds(
    Move,
    st.lists(easy | easy | step, max_size=4),
    st.just("none") | st.just("none") | st.sampled_from([c for c in CRASHES if not c.endswith("stage")]),
    st.integers(0, 3),
    st.booleans(),
    st.booleans() | st.just(True),
    st.booleans(),
    st.sampled_from(STAGE_CRASHES),
)


@dataclass
class Expected:
    """What the tests know by themselves of a run with stages."""

    committed: Counter[Intent] = field(default_factory=Counter)
    most: Counter[Intent] = field(default_factory=Counter)
    effects_before: int = 0
    new_request: bool = False
    first_of_stage: bool = True


def intent_of(entry: CallEntry) -> Intent:
    return entry.tool, canonical(entry.arguments)


def writes(host: Host) -> list[CallEntry]:
    return [entry for entry in host.journal.entries.values() if entry.effect is not Effect.READ]


def play(path: Path, played: list[Move]) -> None:
    world = World()
    host, known = Host(world, path), Expected()
    for move in played:
        doubts = {intent_of(entry) for entry in writes(host) if entry.in_doubt}
        done = Counter(intent_of(entry) for entry in writes(host) if entry.state == "done")
        demanded = {*(done - known.committed), *doubts}
        before = len(world.effects)
        try:
            asked, succeeded = asyncio.run(run_program(host, move.program, move.crash, move.at))
        except HostCrash:
            steps = move.program[: move.at + 1]
            asked, succeeded = [(tool, canonical({"n": n})) for tool, n, *_ in steps if tool != "look"], False
        own = [c for c in host.broker.calls if (c.stage, c.attempt) == (host.journal.stage, host.journal.attempt)]
        check_the_program(world, known, asked, world.effects[before:], demanded, doubts)
        if known.first_of_stage:
            assert not [c for c in own if c.effect is Effect.READ and c.status == "replayed"], "made in another stage"
        if host.dead:
            host = host.again(reboot=move.reboot)
        check_the_file(host)
        known.first_of_stage = False
        if succeeded and move.stage:
            host = next_stage(host, move, known, own)
    host.journal.close()


def check_the_program(
    world: World, known: Expected, asked: list[Intent], made: list[Intent], demanded: set[Intent], doubts: set[Intent]
) -> None:
    for intent, count in Counter(asked).items():
        known.most[intent] = max(known.most[intent], count)
    in_stage = Counter(world.effects[known.effects_before :])
    assert in_stage <= known.most, "done more often than any one program of the stage asked for"
    if not known.new_request:
        assert not set(in_stage) & set(known.committed), "a later stage did again what an earlier one had done"
    assert not set(made) & doubts, "what was in doubt was made again"
    for tool, _ in made:
        assert {intent for intent in demanded if intent[0] == tool} <= set(asked), "and did not ask for what was done"


def check_the_file(host: Host) -> None:
    """Whoever reads the file knows what the process knows that wrote it."""
    copy = shutil.copy(host.path, host.path.with_suffix(".copy"))
    reader = Host(World(), copy, boot=host.boot).journal
    reader.close()
    journal = host.journal
    assert (reader.stage, reader.inputs, reader.new_request) == (journal.stage, journal.inputs, journal.new_request)
    assert reader.entries == journal.entries
    assert reader._successes == journal._successes
    assert reader._committed == journal._committed
    assert [e.in_doubt for e in reader.entries.values()] == [e.in_doubt for e in journal.entries.values()]


def next_stage(host: Host, move: Move, known: Expected, own: list[Any]) -> Host:
    stage, inputs = host.journal.stage, {"seen": len(host.world.effects)}
    host.crash = move.stage_crash
    try:
        host.broker.begin_stage(new_request=move.new_request, inputs=inputs)
    except HostCrash:
        host = host.again(reboot=move.reboot)
        assert host.journal.stage == stage + (move.stage_crash == "after stage")
    if host.journal.stage > stage:
        known.committed += Counter(
            (c.tool, canonical(c.arguments)) for c in own if c.effect is not Effect.READ and c.succeeded
        )
        known.most.clear()
        known.effects_before, known.new_request, known.first_of_stage = len(host.world.effects), move.new_request, True
        assert (host.journal.inputs, host.journal.new_request) == (inputs, move.new_request)
    check_the_file(host)
    return host


@given(st.lists(moves, min_size=1, max_size=5))
def test_at_most_once_in_stages_too(tmp_path_factory: pytest.TempPathFactory, played: list[Move]) -> None:
    play(tmp_path_factory.mktemp("run") / "journal.jsonl", played)


@pytest.mark.slow
@given(st.lists(moves, min_size=1, max_size=8))
def test_at_most_once_in_many_stages(tmp_path_factory: pytest.TempPathFactory, played: list[Move]) -> None:
    play(tmp_path_factory.mktemp("run") / "journal.jsonl", played)


def test_every_crash_is_tried() -> None:
    assert {crash.split()[-1] for crash in CRASHES} >= set(RECORDS)


# -- one by one --------------------------------------------------------------------------------------------------------


class Bank:
    """A balance and payments from it."""

    def __init__(self) -> None:
        self.balance, self.paid = 100, []  # type: int, list[tuple[str, int]]
        pay: Any = make_tool("pay", self._pay, WRITE, to={"type": "string"}, amount={"type": "integer"})
        self.house = House(make_tool("balance", lambda _: self.balance), pay, secrets=("hunter2hunter2",))

    def _pay(self, arguments: dict[str, Any]) -> Any:
        self.balance -= arguments["amount"]
        self.paid.append((arguments["to"], arguments["amount"]))
        return {"number": len(self.paid)}


def test_a_later_stage_reads_anew_and_need_not_ask_for_earlier_writes() -> None:
    bank = Bank()
    house = bank.house
    assert house.call("balance").value == 100
    house.call("pay", to="a", amount=60)
    house.broker.begin_stage(inputs={"left": 40})
    house.broker.begin_program()
    assert house.call("balance").value == 40
    assert house.call("pay", to="b", amount=10).error is None
    house.broker.begin_program()
    assert house.call("balance").value == 40, "a revision is answered from the journal as ever"
    assert house.call("pay", to="c", amount=1).status == "already_done"
    assert house.call("pay", to="b", amount=10).value == {"number": 2}
    assert bank.paid == [("a", 60), ("b", 10)]
    assert [(call.stage, call.attempt) for call in house.broker.calls] == [(0, 0)] * 2 + [(1, 1)] * 2 + [(1, 2)] * 3
    assert house.journal.inputs == {"left": 40}


@pytest.mark.parametrize("new_request", [False, True])
def test_the_same_write_is_done_again_for_a_new_request_alone(new_request: bool) -> None:
    bank = Bank()
    bank.house.call("pay", to="a", amount=60)
    bank.house.broker.begin_stage(new_request=new_request)
    bank.house.broker.begin_program()
    reply = bank.house.call("pay", amount=60, to="a")
    assert (reply.status, len(bank.paid)) == ((None, 2) if new_request else ("already_done", 1))
    assert new_request or "an earlier stage already did pay" in str(reply.error)
    bank.house.broker.begin_stage()
    bank.house.broker.begin_program()
    assert bank.house.call("pay", to="a", amount=60).status == "already_done", "a stage after it is no new request"
    assert bank.house.call("pay", to="a", amount=59).error is None


def test_what_a_failed_program_did_stays_demanded_and_is_not_done_again() -> None:
    bank = Bank()
    house = bank.house
    house.call("pay", to="a", amount=60)
    house.broker.begin_program()
    house.call("balance")  # it succeeds without having asked for the payment
    for _ in range(2):
        house.broker.begin_stage()
        house.broker.begin_program()
        assert house.call("pay", to="b", amount=1).status == "already_done"
    assert house.call("pay", to="a", amount=60).value == {"number": 1}
    assert house.last.status == "replayed"
    assert house.call("pay", to="b", amount=1).error is None
    house.broker.begin_stage()
    house.broker.begin_program()
    assert house.call("pay", to="b", amount=2).error is None, "by now a successful program has asked for all"
    assert bank.paid == [("a", 60), ("b", 1), ("b", 2)]


@pytest.mark.parametrize("in_programs", [False, True])
def test_what_is_in_doubt_stays_in_doubt_also_for_a_new_request(in_programs: bool) -> None:
    seen, function = counted(ToolError("lost", outcome="unknown"))
    house = House(make_tool("book", function, WRITE))
    house.call("book", n=1)
    for new_request in (False, True):
        house.broker.begin_stage(new_request=new_request)
        if in_programs:
            house.broker.begin_program()
        assert house.call("book", n=2).status == "in_doubt"
        assert house.call("book", n=1).status == "in_doubt"
    assert seen == [{"n": 1}]


def test_what_is_answered_after_its_stage_is_not_committed() -> None:
    journal = Journal()
    journal.begin_attempt()
    read, write = call_key("look", {}), call_key("book", {})
    late = [journal.begin(1, read, {}, Effect.READ), journal.begin(2, write, {}, WRITE)]
    for entry in late:
        journal.send(entry)
    journal.begin_stage()
    for entry in late:
        journal.succeed(entry, "late")
    journal.begin_attempt()
    assert journal.claim(read) is None
    assert journal.unasked("book") is late[1]
    assert journal.claim(write) is late[1]


def test_a_call_without_a_program_belongs_to_its_stage() -> None:
    """A way of acting that makes one call at a time begins a stage for each."""
    seen, function = counted()
    house = House(make_tool("book", function, WRITE), make_tool("look", function))
    for _ in range(2):
        house.broker.begin_stage()
        assert house.call("look", n=1).value == "ok"
        assert house.last.status == "ok"
    for n, status in ((1, "ok"), (1, "refused"), (2, "ok")):
        house.broker.begin_stage()
        house.call("book", n=n)
        assert (house.last.status, house.last.stage) == (status, house.journal.stage)
    assert seen == [{"n": 1}] * 3 + [{"n": 2}]


def test_a_call_that_waits_for_its_approval_until_another_stage_is_not_made() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def approve(_: Any) -> bool:
        asked.set()
        await go_on.wait()
        return True

    seen, function = counted()
    house = House(make_tool("book", function, WRITE), approve=approve)

    async def late() -> Any:
        work = asyncio.create_task(house.acall("book", n=1))
        await asked.wait()
        house.broker.begin_stage()
        go_on.set()
        return await work

    reply = asyncio.run(late())
    assert (reply.status, seen) == ("stopped", [])
    assert house.last.status == "refused"


@pytest.mark.parametrize("inputs", [{"a": object()}, {"a": float("nan")}, {"a": [set()]}])
def test_inputs_that_are_no_json_begin_no_stage(inputs: dict[str, Any]) -> None:
    journal = Journal()
    with pytest.raises(ValueError, match=r".+"):
        journal.begin_stage(inputs=inputs)
    assert (journal.stage, journal.inputs) == (0, {})


def test_inputs_stand_in_the_journal_and_the_trace_masks_them(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    house = House(secrets=("hunter2hunter2",))
    house.broker.journal = house.journal = Journal(path)
    house.broker.begin_stage(inputs={"token": "hunter2hunter2", "image": b"\x00", "both": ("hunter2hunter2", 1)})
    assert house.journal.inputs == {"token": "hunter2hunter2", "image": b"\x00", "both": ["hunter2hunter2", 1]}
    assert house.events == [
        (
            "stage_started",
            {
                "stage": 1,
                "new_request": False,
                "inputs": {
                    "token": "[secret]",
                    "image": {"$bytes": "AA=="},
                    "both": ["[secret]", 1],
                },
            },
        )
    ]
    house.journal.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = Journal(path)
    assert (again.stage, again.inputs, again.new_request) == (1, house.journal.inputs, False)
    again.close()


def test_a_stage_that_cannot_be_written_is_not_begun(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        journal.begin_stage(inputs={"a": 1})
    assert (journal.stage, journal.inputs) == (0, {})


def test_after_a_crash_only_what_ran_since_is_committed(tmp_path: Path) -> None:
    """A stage that begins right after a resume commits nothing: nobody knows which program had succeeded."""
    path = tmp_path / "journal.jsonl"
    world = World()
    host = Host(world, path)
    asyncio.run(run_program(host, [("book", 1, "ok", False)], "none", 0))
    host = host.again()
    host.broker.begin_stage()
    asyncio.run(run_program(host, [("book", 2, "ok", True), ("book", 1, "ok", False)], "none", 0))
    assert [call.error_status for call in host.broker.calls] == ["already_done", None]
    assert len(world.effects) == 1
    host.journal.close()


def test_a_request_that_is_begun_again_after_a_resume_is_no_new_one(tmp_path: Path) -> None:
    world = World()
    host = Host(world, tmp_path / "journal.jsonl")

    def acts(requests: int) -> None:
        for _ in range(requests):
            asyncio.run(run_program(host, [("book", 1, "ok", True)], "none", 0))
            host.broker.begin_stage(new_request=True, inputs={"left": 1})

    acts(2)
    host = host.again()
    host.journal.begin_again()
    assert (host.journal.inputs, host.journal.new_request) == ({}, False)
    acts(3)
    assert len(world.effects) == 2, "each was done for a request that was begun before"
    acts(1)
    assert len(world.effects) == 3, "the third request is new"
    host.journal.close()
