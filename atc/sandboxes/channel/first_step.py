"""A coroutine whose first step is made at once: one that waits for nothing is over then, without a task of its own.

Making a task, its first step and its end take the event loop three rounds, which is more than all else of a small call.
"""

from __future__ import annotations

import asyncio
import contextvars
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable, Coroutine, Generator
from typing import Any

Ended = Callable[[BaseException | None], None]


class FirstStep:
    """A task that stands ready. A coroutine is begun in its name; where that waits, the task goes on with it.

    So the coroutine has a task to be cancelled, as ``asyncio.timeout`` does, and variables of its own context from
    its first step on, as any other.

    Args:
        ended: is told that a coroutine which had to wait has ended, and what it raised.
    """

    def __init__(self, ended: Ended) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), ended
        self._given: asyncio.Future[None] = self._loop.create_future()
        self._work: _Rest | None = None
        self._ready = False
        self.task = self._loop.create_task(self._serve())

    def can_begin(self) -> bool:
        """Whether a coroutine can be begun now: the task has nothing to do, and no other is in the middle of a step."""
        return self._ready and asyncio.current_task() is None

    @property
    def idle(self) -> bool:
        """Whether it has no coroutine."""
        return self._work is None

    def begin(self, work: Coroutine[Any, Any, None]) -> bool:
        """Make the first step of ``work``, where :meth:`can_begin`. Return whether it is over.

        One that cancels itself is over, as a task would be.

        Raises:
            Exception: what it raised in this step.
        """
        context = contextvars.copy_context()
        _enter_task(self._loop, self.task)
        try:
            waits_for = context.run(work.send, None)
        except (StopIteration, asyncio.CancelledError):
            return True
        finally:
            _leave_task(self._loop, self.task)
            self._ready = not self.task.cancelling()  # by itself, then: it takes no other
        self._ready, self._work = False, _Rest(work, context, waits_for)
        if not self._given.done():
            self._given.set_result(None)
        return False

    async def _serve(self) -> None:
        while True:
            self._ready, cancelled = True, None
            try:
                await self._given
            except asyncio.CancelledError as error:
                if self._work is None:
                    raise
                cancelled = error  # that is for the coroutine
            assert self._work is not None
            problem: BaseException | None = None
            try:
                await self._work.goes_on(cancelled)
            except asyncio.CancelledError:
                pass  # it is over, as a task would be
            except BaseException as error:
                problem = error
            self._work, self._given = None, self._loop.create_future()
            self._ended(problem)
            if self.task.cancelling():  # a cancellation that nobody took back would be seen by the next
                return


class _Rest:
    """What is left of a coroutine that has made its first step."""

    def __init__(self, work: Coroutine[Any, Any, None], context: contextvars.Context, waits_for: Any) -> None:
        self._work, self._context, self._waits_for = work, context, waits_for
        self._error: BaseException | None = None

    def goes_on(self, error: BaseException | None) -> _Rest:
        """To be awaited. ``error`` is raised where the coroutine waits."""
        self._error = error
        return self

    def __await__(self) -> Generator[Any, Any, None]:
        error, waits_for = self._error, self._waits_for
        if error is not None and asyncio.isfuture(waits_for) and waits_for.cancel():
            error = None  # as a task does it: what is waited for is cancelled, and tells of it
        while True:
            if error is None:
                try:
                    yield waits_for
                except BaseException as thrown:  # it is cancelled: that is the coroutine's to see
                    error = thrown
            try:
                if error is None:
                    waits_for = self._context.run(self._work.send, None)
                else:
                    waits_for = self._context.run(self._work.throw, error)
                    error = None
            except StopIteration:
                return
