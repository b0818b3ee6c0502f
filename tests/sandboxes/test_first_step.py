"""Coroutines whose first step is made at once behave as tasks of their own do."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any

from atc.calls.contract import CallReply, CallRequest
from atc.sandboxes.channel.frames import Channel, Listener
from atc.sandboxes.channel.session import FirstStep, Session
from atc.sandboxes.contract import Limits

NAME = contextvars.ContextVar("NAME", default="")


def begun(work: Coroutine[Any, Any, None], then: Coroutine[Any, Any, None] | None = None) -> tuple[bool, list[Any]]:
    """Begin ``work`` in a callback of the loop, as a channel does; whether it was over at once, and what was told."""

    async def go() -> tuple[bool, list[Any]]:
        told: list[BaseException | None] = []
        over: list[bool] = []
        at_once = FirstStep(told.append)
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(lambda: over.append(at_once.begin(work)))
        await asyncio.sleep(0)
        if then is not None:
            await then
        for _ in range(100):
            if over[0] or told or at_once.task.done():
                break
            await asyncio.sleep(0.01)
        at_once.task.cancel()
        await asyncio.gather(at_once.task, return_exceptions=True)
        return over[0], told

    return asyncio.run(go())


def test_what_waits_for_nothing_is_over_at_once() -> None:
    seen: list[Any] = []

    async def work() -> None:
        seen.append(asyncio.current_task() is not None)

    assert begun(work()) == (True, [])
    assert seen == [True]


def test_what_waits_goes_on_in_the_same_task_and_context() -> None:
    seen: list[Any] = []

    async def work() -> None:
        seen.append(asyncio.current_task())
        NAME.set("mine")
        await asyncio.sleep(0.001)
        seen.append(asyncio.current_task())
        seen.append(NAME.get())

    assert begun(work()) == (False, [None])
    assert seen[0] is seen[1]
    assert seen[2] == "mine"
    assert NAME.get() == ""


def test_a_time_limit_that_was_set_in_the_first_step_holds() -> None:
    seen: list[str] = []

    async def work() -> None:
        for seconds in (0.0, 0.002):
            try:
                async with asyncio.timeout(seconds):
                    await asyncio.sleep(10)
            except TimeoutError:
                seen.append("in time")

    assert begun(work()) == (False, [None])
    assert seen == ["in time", "in time"]


def test_what_it_raises_is_told() -> None:
    error = ValueError("later")

    async def work() -> None:
        await asyncio.sleep(0)
        raise error

    assert begun(work()) == (False, [error])


def test_what_it_raises_in_its_first_step_is_raised() -> None:
    async def work() -> None:
        raise ValueError("at once")

    async def go() -> bool:
        at_once = FirstStep(lambda error: None)
        await asyncio.sleep(0)
        came: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def begin() -> None:
            try:
                at_once.begin(work())
            except ValueError:
                came.set_result(at_once.can_begin())

        asyncio.get_running_loop().call_soon(begin)
        try:
            return await came
        finally:
            at_once.task.cancel()

    assert asyncio.run(go())


def test_it_can_be_cancelled_where_it_waits_and_cleans_up() -> None:
    for turns in (0, 1, 2):  # also before its task has heard of it
        seen: list[str] = []
        task: list[asyncio.Task[Any]] = []

        async def work(seen: list[str] = seen, task: list[asyncio.Task[Any]] = task) -> None:
            current = asyncio.current_task()
            assert current is not None
            task.append(current)
            try:
                await asyncio.sleep(10)
            finally:
                await asyncio.sleep(0)
                seen.append("cleaned up")

        async def cancel(turns: int = turns, task: list[asyncio.Task[Any]] = task) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            task[0].cancel()

        assert begun(work(), cancel()) == (False, [None])  # told of, as of any end: a session that was full goes on
        assert seen == ["cleaned up"]


def test_one_that_cancels_itself_is_cancelled_where_it_waits_next() -> None:
    seen: list[str] = []

    async def work() -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    assert begun(work()) == (False, [None])
    assert seen == ["cancelled"]


def test_a_timeout_of_the_first_step_cancels_what_it_waits_for() -> None:
    seen: list[str] = []

    async def work() -> None:
        waits_for = asyncio.create_task(asyncio.sleep(60))
        try:
            async with asyncio.timeout(0):
                await waits_for
        except TimeoutError:
            seen.append(f"timeout, {waits_for.cancelled()}")

    assert begun(work()) == (False, [None])
    assert seen == ["timeout, True"]


def test_one_that_cancelled_itself_is_told_of_and_leaves_nothing_to_the_next() -> None:
    async def swallows() -> None:
        asyncio.current_task().cancel()  # type: ignore[union-attr]
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            return

    async def cancelled() -> None:
        await asyncio.sleep(0)
        asyncio.current_task().cancel()  # type: ignore[union-attr]
        await asyncio.sleep(0)

    async def go(work: Coroutine[Any, Any, None]) -> tuple[list[BaseException | None], bool]:
        told: list[BaseException | None] = []
        at_once = FirstStep(told.append)
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(at_once.begin, work)
        for _ in range(5):
            await asyncio.sleep(0)
        can_begin: list[bool] = []
        asyncio.get_running_loop().call_soon(lambda: can_begin.append(at_once.can_begin()))
        await asyncio.sleep(0)
        return told, can_begin[0]

    assert asyncio.run(go(swallows())) == ([None], False)
    assert asyncio.run(go(cancelled())) == ([None], False)


class _NoChannel(Channel):
    def listen(self, listener: Listener) -> None:
        return

    def pause(self) -> None:
        return

    def resume(self) -> None:
        return

    async def send(self, message: dict[str, Any]) -> None:
        return


def test_calls_begin_in_the_order_in_which_they_came() -> None:
    """Also where the task that stands ready becomes free while another call's own task has not begun."""
    order: list[int] = []

    async def go() -> None:
        loop = asyncio.get_running_loop()
        first: asyncio.Future[None] = loop.create_future()

        async def call(request: CallRequest) -> CallReply:
            order.append(request.number)
            if request.number == 1:
                await first
            return CallReply()

        session = Session(_NoChannel(), Limits(), call)
        serving = asyncio.ensure_future(session.serve())
        await asyncio.sleep(0.01)
        frames = [{"op": "call", "id": number, "tool": "f", "args": {}, "line": 1} for number in (1, 2, 3)]
        loop.call_soon(session.on_frame, frames[0])
        await asyncio.sleep(0.01)

        def second_and_third() -> None:
            first.set_result(None)
            loop.call_soon(session.on_frame, frames[2])  # it comes before the second one's task makes a step
            session.on_frame(frames[1])

        loop.call_soon(second_and_third)
        await asyncio.sleep(0.01)
        session.on_frame({"op": "done", "value": None})
        await serving

    asyncio.run(go())
    assert order == [1, 2, 3]
