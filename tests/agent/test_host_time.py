"""The account of the host's processor time: each step of a piece of work, and no wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine

import pytest

from atc.calls.clock import HostTime


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def check_steps_are_counted_and_waits_are_not() -> None:
    account = HostTime()

    async def work() -> str:
        burn(0.02)
        await asyncio.sleep(0.2)
        burn(0.02)
        return "done"

    async def beside() -> None:
        await asyncio.sleep(0.01)
        burn(0.1)

    other = asyncio.ensure_future(beside())
    assert await account.steps(work()) == "done"
    await other
    assert 0.04 <= account.used_s < 0.1


async def check_a_cancellation_and_an_error_reach_the_work() -> None:
    account, seen = HostTime(), []

    async def work() -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = asyncio.ensure_future(account.steps(work()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]

    async def failing() -> None:
        burn(0.01)
        raise ValueError

    with pytest.raises(ValueError):
        await account.steps(failing())


async def check_time_limits_hold_inside_the_work() -> None:
    async def work() -> str:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(10)
        return "late"

    with pytest.raises(TimeoutError):
        await HostTime().steps(work())


@pytest.mark.parametrize(
    "check",
    [
        check_steps_are_counted_and_waits_are_not,
        check_a_cancellation_and_an_error_reach_the_work,
        check_time_limits_hold_inside_the_work,
    ],
)
def test_host_time(check: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(check())
