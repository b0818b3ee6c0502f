"""Server-sent events: what is told to pages that stay open, bounded in number and in what waits for each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

MAX_STREAMS = 64
"""Streams that are open at once."""
MAX_WAITING = 1_000
"""Messages that wait for one stream: one that takes them too slowly is ended, and its page asks anew."""
HEARTBEAT_S = 15.0
HEARTBEAT = b": still here\n\n"


AS_JSON = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
"""Plain data as JSON in ASCII, without an end of a line. Raises ValueError for a number that JSON has not."""


def message(data: Any, *, event: str) -> bytes:
    """One message of a stream.

    Args:
        data: plain JSON.
        event: its name.

    Raises:
        ValueError: the data holds a number that JSON has not.
    """
    return f"event: {event}\ndata: {AS_JSON(data)}\n\n".encode("ascii")


def line(number: int, text: str) -> bytes:
    """The message that is one line of a trace: its number, by which a page that was cut off says what it has, and
    :data:`AS_JSON` of it."""
    return f"id: {number}\ndata: {text}\n\n".encode("ascii")


class TooMany(Exception):
    """There are :data:`MAX_STREAMS` open."""


class Subscriber:
    """Hears what happens; read by one stream.

    Args:
        run_id: only of this run; of all where empty.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.touched = asyncio.Event()
        self.ended = False
        self._waiting: list[bytes] = []

    def tell(self, told: bytes) -> None:
        """Keep a message until the stream takes it."""
        if len(self._waiting) >= MAX_WAITING:
            self.ended = True
        else:
            self._waiting.append(told)
        self.touched.set()

    def take(self) -> bytes:
        """All messages that wait, in order."""
        taken, self._waiting = self._waiting, []
        return b"".join(taken)

    async def wait(self, seconds: float) -> None:
        """Return when something was told or touched, or after the time."""
        try:
            async with asyncio.timeout(seconds):
                await self.touched.wait()
        except TimeoutError:
            return
        finally:
            self.touched.clear()


class Hub:
    """Whom to tell. For one event loop."""

    def __init__(self) -> None:
        self._open: set[Subscriber] = set()
        self.ending = False

    def __len__(self) -> int:
        """Streams that are open."""
        return len(self._open)

    @property
    def lists(self) -> int:
        """Of these, such as hear of all runs."""
        return sum(not each.run_id for each in self._open)

    def room(self) -> None:
        """Make sure that one more stream may be opened.

        Raises:
            TooMany: it may not.
        """
        if self.ending or len(self._open) >= MAX_STREAMS:
            raise TooMany

    @contextmanager
    def subscribed(self, run_id: str = "") -> Iterator[Subscriber]:
        """Hear what happens, while the block lasts."""
        subscriber = Subscriber(run_id)
        self._open.add(subscriber)
        try:
            yield subscriber
        finally:
            self._open.discard(subscriber)

    def tell(self, event: str, data: Mapping[str, Any]) -> None:
        """Tell all who hear of the run that the data names; a row of a run only those who hear of all."""
        told = message(data, event=event)
        for each in self._open:
            if not each.run_id or (each.run_id == data.get("run_id") and event not in ("run", "gone")):
                each.tell(told)

    def touch(self, run_id: str) -> None:
        """The trace of a run has grown."""
        for each in self._open:
            if each.run_id == run_id:
                each.touched.set()

    def end(self) -> None:
        """End all streams, and open no more."""
        self.ending = True
        for each in self._open:
            each.ended = True
            each.touched.set()


async def with_heartbeats(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Hand on what is not empty; a heartbeat where nothing was for :data:`HEARTBEAT_S`."""
    loop = asyncio.get_running_loop()
    last = loop.time()
    async for part in parts:
        if part:
            last = loop.time()
            yield part
        elif loop.time() - last >= HEARTBEAT_S:
            last = loop.time()
            yield HEARTBEAT
