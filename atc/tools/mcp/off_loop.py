"""Work in a thread with an event loop of its own: what a stranger sends is parsed there, while calls go on here."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def off_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run asynchronous work elsewhere, and wait for it. Cancelled, it cancels the work and waits for its end."""
    here = asyncio.get_running_loop()
    done: asyncio.Future[T] = here.create_future()
    inner: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
    begun = threading.Event()

    def settle(value: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(value)  # type: ignore[arg-type]
        elif isinstance(error, asyncio.CancelledError):
            done.cancel()
        else:
            done.set_exception(error)

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None
        inner.append((asyncio.get_running_loop(), task))
        begun.set()
        return await work()

    def inside() -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = asyncio.run(main())
        except BaseException as raised:  # handed to the one who waits
            error = raised
        begun.set()
        here.call_soon_threadsafe(settle, value, error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(inside,), name="atc-mcp-list", daemon=True)
    thread.start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        if not done.done():
            await asyncio.to_thread(begun.wait)
            for loop, task in inner:
                with suppress(RuntimeError):  # it has ended by now
                    loop.call_soon_threadsafe(task.cancel)
            await asyncio.wait({done})
            if not done.cancelled():
                done.exception()  # seen: nobody waits for it any more
        raise
