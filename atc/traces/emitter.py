"""Where the events of one run go: without credentials, into its trace, and to those who listen or iterate."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from concurrent.futures import Executor
from typing import Any, TypeVar

from atc._host.redaction import Redactor
from atc._records.events import Emit, Event, EventKind, unheard
from atc.traces.stores.base import NoTrace, TraceWriter

Listener = Callable[[Event], None]
T = TypeVar("T")


class TraceBehind:
    """A trace that the thread of the run's journal writes: each event comes after the record that it tells of.

    Args:
        trace: which nobody else appends to.
        writer: the thread. What comes after its end is dropped.
    """

    def __init__(self, trace: TraceWriter, writer: Executor) -> None:
        self._trace, self._writer = trace, writer

    def write_line(self, text: str) -> None:
        """Have an event written, as :meth:`Event.line` writes it."""
        with contextlib.suppress(RuntimeError):
            self._writer.submit(self._trace.write_line, text)

    def close(self) -> None:
        """End the trace after what was given."""
        with contextlib.suppress(RuntimeError):
            self._writer.submit(self._trace.close)


def emitter(trace: TraceWriter, redactor: Redactor, *listeners: Listener | None) -> Emit:
    """What the parts of a run report to.

    Args:
        trace: of the run.
        redactor: of the run.
        listeners: are told of every event, in this order and in the task in which it happens; ``None`` is nobody.
    """
    told = [each for each in listeners if each is not None]
    is_kept = not isinstance(trace, NoTrace)
    if not told and not is_kept:
        return unheard

    def emit(kind: EventKind, data: Mapping[str, Any]) -> None:
        event = Event(kind, dict(data))
        line = event.line()
        if not (is_kept and redactor.is_clean(line)):
            event = Event(kind, redactor.value(event.data), event.at)
            line = event.line()
        if is_kept:
            trace.write_line(line)
        for each in told:
            each(event)

    return emit


def with_copies(listener: Listener) -> Listener:
    """Return a listener of the user's as one that gets copies: the call itself may have the values of an event."""
    return lambda event: listener(Event(event.kind, json.loads(event.line())["data"], event.at))


async def streamed(begin: Callable[[Callable[[T], None]], Coroutine[Any, Any, object]]) -> AsyncGenerator[T]:
    """Begin a work and yield what it tells. Closed early, or cancelled, it stops the work.

    Args:
        begin: makes the work, which tells what happens to the listener that it is given.

    Raises:
        Exception: whatever the work raised, after all that it told.
    """
    told: asyncio.Queue[T | None] = asyncio.Queue()
    work = asyncio.create_task(begin(told.put_nowait))
    work.add_done_callback(lambda _: told.put_nowait(None))
    try:
        while (each := await told.get()) is not None:
            yield each
        await work
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):  # it was raised above, or nobody waits for it
            await work
