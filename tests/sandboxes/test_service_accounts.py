"""What the service's own time is spent on, by tenant, and who is held back."""

from __future__ import annotations

import asyncio
import os
import time
from types import SimpleNamespace

import pytest

from atc.serve.sandbox import accounts
from atc.serve.sandbox.accounts import STRANGERS, Account, Accounts, CountingLoop
from tests.support.service import OTHER, TOKEN, serving, soon


class Clock:
    """Stands still until it is moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        fake = SimpleNamespace(monotonic=lambda: self.now, thread_time=lambda: self.now)
        monkeypatch.setattr(accounts, "time", fake)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def busy(clock: Clock, seconds: float, **wanting: float) -> dict[str, float]:
    """What each tenant got of the loop, who wants so much of it: steps of 2 ms, one after the other."""
    made = Accounts([*wanting, "nobody"])
    got = dict.fromkeys(wanting, 0.0)
    began = clock.now
    while clock.now < began + seconds:
        spent = False
        for name, most in wanting.items():
            if got[name] < most * (clock.now - began + 0.002) and not made.of(name).wait_s():
                clock.now += 0.002
                made.of(name).charge(0.002, 0.002)
                got[name] += 0.002
                spent = True
        clock.now += 0.0 if spent else 0.001
    return {name: each / seconds for name, each in got.items()}


def test_who_is_alone_has_all_the_time(clock: Clock) -> None:
    assert busy(clock, 5.0, greedy=1.0)["greedy"] > 0.99


def test_two_who_want_all_have_half_each(clock: Clock) -> None:
    got = busy(clock, 10.0, one=1.0, two=1.0)
    assert got["one"] == pytest.approx(0.5, abs=0.05)
    assert got["two"] == pytest.approx(0.5, abs=0.05)


def test_who_wants_little_gets_it_and_the_loop_is_mostly_free_for_it(clock: Clock) -> None:
    got = busy(clock, 10.0, greedy=1.0, quiet=0.1)
    assert got["quiet"] == pytest.approx(0.1, abs=0.01)
    assert 0.35 < got["greedy"] < 0.6


def test_many_who_want_little_do_not_take_from_one_who_wants_some(clock: Clock) -> None:
    others = {f"t{number}": 0.01 for number in range(9)}
    got = busy(clock, 10.0, some=0.3, **others)
    assert got["some"] > 0.28, "an equal share would be a tenth"


def test_time_before_a_token_is_the_tenants_once_it_is_shown(clock: Clock) -> None:
    made = Accounts(["a"])

    def work() -> None:
        clock.now += 0.25

    known, unknown = made.visit(), made.visit()
    known.run(work)
    assert made.of("a").used_s == 0
    known.belongs_to(made.of("a"))
    known.first(known.run, work)  # the inner is counted once
    unknown.run(work)
    unknown.settle()
    assert {name: account.used_s for name, account in made.items()} == {"a": 0.5, STRANGERS: 0.25}


def test_strangers_are_held_back_for_tenants_and_no_tenant_for_them(clock: Clock) -> None:
    made = Accounts(["a"])
    stranger, tenant = made.visit(), made.visit()
    tenant.belongs_to(made.of("a"))
    got = {stranger: 0.0, tenant: 0.0}
    while clock.now < 110.0:
        spent = False
        for visit in got:
            if not visit.wait_s():
                clock.now += 0.002
                visit.charge(0.002, 0.002)
                visit.settle()
                got[visit] += 0.002
                spent = True
        clock.now += 0.0 if spent else 0.001
    assert got[stranger] < 5.5
    assert got[tenant] > 4.5
    assert made.of("a").waited_s == 0


def _work() -> None:
    until = time.thread_time() + 0.002
    while time.thread_time() < until:
        pass


def test_what_a_visit_begins_on_the_loop_is_counted_and_nothing_else() -> None:
    made = Accounts(["a"])
    visit = made.visit()
    visit.belongs_to(made.of("a"))

    async def steps() -> None:
        for _ in range(5):
            _work()
            await asyncio.sleep(0)

    async def main() -> None:
        tasks: list[asyncio.Task[None]] = []
        visit.first(lambda: tasks.append(asyncio.ensure_future(steps())))
        await tasks[0]
        counted = made.of("a").used_s
        assert 0.01 <= counted < 0.1
        await asyncio.create_task(steps())
        assert made.of("a").used_s == counted

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(main())


def test_what_has_had_its_share_is_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = [0.0, 0.01, 0.0]
    monkeypatch.setattr(Account, "wait_s", lambda account: waits.pop(0) if waits else 0.0)
    made = Accounts(["a"])
    visit = made.visit()
    visit.belongs_to(made.of("a"))
    read, write = os.pipe()
    got: list[bytes] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        visit.first(loop.add_reader, read, lambda: got.append(os.read(read, 1)))
        os.write(write, b"ab")
        while len(got) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert not waits
        waits[:] = [60.0]
        os.write(write, b"c")
        while waits:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert loop.remove_reader(read), "it is forgotten while it waits, too"
        assert not loop.remove_reader(read)

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(main())
    assert got == [b"a", b"b"]
    os.close(read)
    os.close(write)


def test_the_metrics_tell_who_took_the_time_and_who_owes_too_much_is_told_to_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("atc.serve.sandbox.server.TURN_S", 0.05)
    with serving({"one": TOKEN, "two": OTHER}) as running:
        assert running.run("answer = f()", {"f": lambda _: 1}).value == 1
        used = {name: running.metric(f'atc_host_seconds_total{{tenant="{name}"}}') for name in ("one", "two")}
        assert used["one"] > 0
        assert used["two"] == 0
        assert soon(lambda: running.metric(f'atc_host_seconds_total{{tenant="{STRANGERS}"}}') > 0)
        owing = running.service.accounts.of("one")
        monkeypatch.setattr(owing, "wait_s", lambda: 60.0)
        answer = running.post()
        assert (answer.status_code, answer.json()["error"]["code"], answer.headers["Retry-After"]) == (429, "busy", "1")
        assert running.post(OTHER).status_code == 201
