"""Run asynchronous work from blocking code, and blocking code from asynchronous work."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` to its end, also where an event loop is running already (a notebook): then in a thread of its own.

    An interrupt (Ctrl-C) stops the work, waits until it has cleaned up, and is raised.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return _in_thread(work)


def _in_thread(work: Coroutine[Any, Any, T]) -> T:
    done: Future[T] = Future()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None
        running.append((asyncio.get_running_loop(), task))
        return await work

    def inside() -> None:
        try:
            done.set_result(asyncio.run(main()))
        except BaseException as error:  # handed to the thread that waits
            done.set_exception(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(inside,), name="atc-run")
    thread.start()
    try:
        return done.result()
    finally:
        for loop, task in running:
            if not done.done():  # it is the waiting that was interrupted
                loop.call_soon_threadsafe(task.cancel)
        thread.join()


def each_of(work: AsyncGenerator[T]) -> Iterator[T]:
    """Yield the results of some work, which goes on in a thread of its own while they are read.

    If the reader stops, the work is cancelled and waited for.
    """
    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = []

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        running.append((asyncio.get_running_loop(), task))
        ready.set()
        async with contextlib.aclosing(work):
            async for result in work:
                ended.put((result, None))

    def inside() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # handed to the thread that waits
            ended.put((None, error))
        else:
            ended.put((None, None))
        finally:
            ready.set()

    def results() -> Iterator[T]:
        thread = threading.Thread(target=inside, name="atc-map")
        thread.start()
        ready.wait()
        try:
            while True:
                result, error = ended.get()
                if error is not None:
                    raise error
                if result is None:
                    return
                yield result
        finally:
            for loop, task in running:
                with contextlib.suppress(RuntimeError):  # it has ended
                    loop.call_soon_threadsafe(task.cancel)
            thread.join()

    ready = threading.Event()
    return results()


# ----------------------------------------------------------------------------------------------------------------------
# Functions of the user's that block, in threads: one for each call that is under way.

MOST_AT_ONCE = 40
"""Calls in threads of this module; those beyond wait for a thread of anyio's."""
SOON_S = 0.0002
"""A call that ends in so many seconds is waited for where it is made: the event loop's own way there and back takes
longer."""
_MOST_LATE = 63
_IDLE_S = 10.0
"""Seconds after which a thread without work ends."""


async def in_thread(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Run what blocks in a thread, with the caller's context variables. Cancelled, it goes on there, and nobody waits.

    What may stand for long, a store, is done here: the few threads of :func:`asyncio.to_thread` are for work of ours.

    Raises:
        BaseException: whatever ``work`` raised.
    """
    if len(_BUSY) >= MOST_AT_ONCE:
        import anyio.to_thread  # few runs come here

        return await anyio.to_thread.run_sync(partial(work, *given, **named), abandon_on_cancel=True)
    try:
        worker = _IDLE.pop()
    except IndexError:
        worker = _Worker()
        worker.start()
    _BUSY.add(worker)
    call = _Call(partial(work, *given, **named))
    worker.given.put(call)
    if not _SOON.ends(call):
        await call.end()
    return call.result()  # type: ignore[no-any-return]


class _Call:
    """One call in a thread: it is waited for by the thread of the event loop, and, if it takes longer, in the loop."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work, self._context = work, contextvars.copy_context()
        self._value: Any = None
        self._error: BaseException | None = None
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self.under_way = threading.Lock()
        self.under_way.acquire()

    def make(self, worker: _Worker) -> None:
        """Make the call, in the thread of a worker, which is free for another one then."""
        try:
            self._value = self._context.run(self._work)
        except BaseException as error:
            self._error = error
        _BUSY.discard(worker)
        _IDLE.append(worker)
        self.under_way.release()
        if self._waiter is not None:
            loop, done = self._waiter
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(_tell, done)

    async def end(self) -> None:
        """Wait for the end of the call in the event loop."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiter = loop, done
        if self.under_way.acquire(blocking=False):  # it ended this moment, and may not have seen who waits
            done.cancel()
        else:
            await done

    def result(self) -> Any:
        """Return what the call returned, or raise what it raised."""
        if self._error is None:
            return self._value
        try:
            raise self._error
        finally:
            self._error = None  # nothing of a call outlives it


def _tell(done: asyncio.Future[None]) -> None:
    if not done.done():  # it was cancelled
        done.set_result(None)


class _Soon:
    """Waits a moment for calls, without the event loop. The more often that was in vain, the more seldom it is done."""

    def __init__(self) -> None:
        self._late = self._skip = 0

    def ends(self, call: _Call) -> bool:
        """Return whether a call has ended."""
        if self._skip:
            self._skip -= 1
            return call.under_way.acquire(blocking=False)
        if call.under_way.acquire(timeout=SOON_S):
            self._late = 0
            return True
        self._late = self._skip = min(2 * self._late + 1, _MOST_LATE)
        return False


class _Worker(threading.Thread):
    """A thread that makes one call after another. Whoever takes it from :data:`_IDLE` gives it one."""

    def __init__(self) -> None:
        super().__init__(name="atc-function", daemon=True)
        self.given: queue.SimpleQueue[_Call] = queue.SimpleQueue()

    def run(self) -> None:
        while True:
            try:
                call = self.given.get(timeout=_IDLE_S)
            except queue.Empty:
                try:
                    _IDLE.remove(self)
                except ValueError:
                    continue  # it was taken this moment
                return
            call.make(self)
            del call  # nothing of a call outlives it


_SOON = _Soon()
_IDLE: list[_Worker] = []
_BUSY: set[_Worker] = set()


def _after_fork() -> None:
    _IDLE.clear()
    _BUSY.clear()


if hasattr(os, "register_at_fork"):  # where there is no fork, there is nothing to do
    os.register_at_fork(after_in_child=_after_fork)
