"""Run asynchronous work from blocking code."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


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
