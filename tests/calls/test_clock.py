"""The clock of a program stands still while its host waits for a person; all times here are made up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc import Agent
from atc._records.outcome import Outcome
from atc.calls.approval import ApprovalRequest
from atc.calls.clock import Clock
from atc.calls.contract import CallHandler
from atc.models.fake import FakeModel
from atc.sandboxes.contract import Job
from atc.sandboxes.process.driver import ProcessSandbox
from atc.serve.sandbox.relay import Pauses
from tests.support.agent import double
from tests.support.broker import READ, WRITE, House
from tests.support.tools import make_tool
from tests.support.virtual_time import now, run_virtually


async def _expires(clock: Clock, seconds: float) -> float:
    """When a time limit strikes that begins now."""
    try:
        async with clock.timeout(seconds) as deadline:
            await asyncio.sleep(10_000)
    except TimeoutError:
        assert deadline.expired()
        return now()
    raise AssertionError("it never struck")


async def _pause(clock: Clock, begin: float, end: float) -> None:
    await asyncio.sleep(begin)
    with clock.paused():
        assert clock.stopped
        await asyncio.sleep(end - begin)


def test_a_limit_strikes_later_by_what_was_waited() -> None:
    async def go() -> list[float]:
        clock = Clock()
        limits = [_expires(clock, 1.0), _expires(clock, 5.0), _expires(clock, 20.0)]
        struck = await asyncio.gather(*limits, _pause(clock, 2.0, 12.0))
        assert not clock.stopped
        return struck[:3]  # type: ignore[return-value]

    assert run_virtually(go()) == pytest.approx([1.0, 15.0, 30.0])


def test_calls_that_wait_at_the_same_time_count_once() -> None:
    async def go() -> float:
        clock = Clock()
        waits = [(1.0, 6.0), (2.0, 4.0), (3.0, 8.0), (20.0, 21.0)]
        return (await asyncio.gather(_expires(clock, 5.0), *(_pause(clock, *wait) for wait in waits)))[0]

    assert run_virtually(go()) == pytest.approx(12.0)  # 1 to 8 does not count


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)).map(lambda w: (w[0], w[0] + w[1])), max_size=6),
    st.integers(1, 60),
)
def test_what_counts_is_the_time_outside_all_waits(waits: list[tuple[int, int]], limit: int) -> None:
    async def go() -> float:
        clock = Clock()
        return (await asyncio.gather(_expires(clock, limit - 0.5), *(_pause(clock, *wait) for wait in waits)))[0]

    left, second = limit - 0.5, 0
    while left > 0:  # second by second: every wait begins and ends at a whole one
        if not any(begin <= second < end for begin, end in waits):
            left -= 1
        second += 1
    assert run_virtually(go()) == pytest.approx(second + left)


def test_a_wait_that_fails_lets_the_clock_go_on_and_a_limit_that_struck_stays_struck() -> None:
    async def go() -> float:
        clock = Clock()
        with pytest.raises(ValueError, match="no person"), clock.paused():
            raise ValueError("no person")
        struck = 0.0
        try:
            async with clock.timeout(1.0) as deadline:
                try:
                    await asyncio.sleep(10)
                except asyncio.CancelledError:
                    with clock.paused():
                        assert deadline.expired()
                    raise
        except TimeoutError:
            struck = now()
        return struck

    assert run_virtually(go()) == pytest.approx(1.0)


def test_a_limit_that_begins_in_a_wait_begins_to_count_after_it() -> None:
    async def go() -> float:
        clock = Clock()
        with clock.paused():
            strikes = asyncio.create_task(_expires(clock, 3.0))
            await asyncio.sleep(100)
        return await strikes

    assert run_virtually(go()) == pytest.approx(103.0)


def test_work_within_a_limit_needs_a_timer_only_where_it_waits() -> None:
    async def takes(seconds: float) -> str:
        if seconds:
            await asyncio.sleep(seconds)
        return "done"

    async def go() -> None:
        clock = Clock()
        before = len(asyncio.get_running_loop()._scheduled)  # type: ignore[attr-defined]
        assert await clock.within(1.0, takes(0)) == "done"
        assert len(asyncio.get_running_loop()._scheduled) == before  # type: ignore[attr-defined]
        assert await clock.within(3.0, takes(2)) == "done"
        with pytest.raises(TimeoutError):
            await clock.within(3.0, takes(4))
        assert now() == pytest.approx(5.0)

    run_virtually(go())


def test_watchers_hear_of_changes_alone() -> None:
    heard: list[bool] = []
    clock = Clock()
    with clock.watched(heard.append):
        with clock.paused(), clock.paused():
            pass
        with clock.paused():
            pass
    with clock.paused():
        pass
    assert heard == [True, False, True, False]


# -- the broker stops it ---------------------------------------------------------------------------------------------


async def _thinks(request: ApprovalRequest) -> bool:
    await asyncio.sleep(1000)
    return True


def test_a_person_may_take_longer_than_the_program_and_the_call_have() -> None:
    async def go() -> None:
        house = House(make_tool("pay", lambda _: "paid", effect=WRITE), approve=_thinks, call_timeout_s=1.0)
        async with house.broker.clock.timeout(5.0):
            replies = await asyncio.gather(house.acall("pay", n=1), house.acall("pay", n=2))
        assert [reply.value for reply in replies] == ["paid", "paid"]
        assert now() == pytest.approx(2000.0)
        assert not house.broker.clock.stopped

    run_virtually(go())


@pytest.mark.parametrize("approve", ["always", "never"])
def test_where_nobody_is_asked_the_clock_goes_on(approve: str) -> None:
    async def go() -> None:
        house = House(make_tool("pay", lambda _: "paid", effect=WRITE), approve=approve)
        changes: list[bool] = []
        with house.broker.clock.watched(changes.append):
            await house.acall("pay")
        assert changes == []

    run_virtually(go())


def test_a_question_inside_a_tool_does_not_count_and_the_tool_s_own_time_does() -> None:
    async def go() -> None:
        async def asks(arguments: dict[str, Any]) -> str:
            with house.broker.waiting():
                await asyncio.sleep(1000)
            await asyncio.sleep(arguments["n"])
            return "asked"

        house = House(make_tool("look", asks, effect=READ), call_timeout_s=2.0, read_attempts=1)
        assert (await house.acall("look", n=1)).value == "asked"
        late = await house.acall("look", n=3)
        assert (late.status, now()) == ("timeout", pytest.approx(2003.0))

    run_virtually(go())


# -- and a caller of the service, so far as the service lets it -----------------------------------------------------


def test_all_pauses_of_a_caller_together_are_bounded() -> None:
    async def go() -> list[float]:
        clock = Clock()
        pauses = Pauses(clock, 10.0)
        strikes = asyncio.create_task(_expires(clock, 5.0))
        await asyncio.sleep(1)
        pauses.ask(True)
        pauses.ask(True)
        await asyncio.sleep(4)  # until 5: six are left
        pauses.ask(False)
        pauses.ask(False)
        await asyncio.sleep(1)  # until 6: three of the program's five are left
        pauses.ask(True)  # for ever
        assert not pauses.used_up
        struck = await strikes
        assert pauses.used_up
        pauses.ask(False)
        pauses.ask(True)
        assert not clock.stopped
        return [struck]

    assert run_virtually(go()) == pytest.approx([6 + 6 + 3])


def test_a_caller_that_is_not_listened_to_cannot_stop_the_clock() -> None:
    async def go() -> float:
        clock = Clock()
        pauses = Pauses(clock, 1000.0)
        strikes = asyncio.create_task(_expires(clock, 5.0))
        pauses.ask(True)
        await asyncio.sleep(100)
        with pauses.suspended():
            await asyncio.sleep(2)
        assert clock.stopped
        await asyncio.sleep(100)
        with pauses.suspended():
            return await strikes

    assert run_virtually(go()) == pytest.approx(100 + 2 + 100 + 3)


def test_a_service_may_allow_no_pause_at_all() -> None:
    clock = Clock()
    Pauses(clock, 0.0).ask(True)
    assert not clock.stopped


# -- and a run has one clock -------------------------------------------------------------------------------------------


def test_the_program_of_a_run_has_the_clock_that_its_questions_stop() -> None:
    jobs: list[Job] = []
    stood: list[bool] = []

    class Watched(ProcessSandbox):
        async def run(self, job: Job, call: CallHandler) -> Outcome:
            jobs.append(job)
            return await super().run(job, call)

    def asked(request: ApprovalRequest) -> bool:
        stood.append(jobs[-1].clock.stopped)
        return True

    model = FakeModel(["```python\nanswer = double(n=21)\n```"])
    with Agent([double], model=model, approve=asked, sentence=False, sandbox=Watched()) as agent:
        assert agent.run("double 21").value == 42
    assert stood == [True]
    assert not jobs[0].clock.stopped
