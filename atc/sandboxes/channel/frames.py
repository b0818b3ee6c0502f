"""Frames to one program and back, host side; what the program prints; and what the host spends on it.

A frame is a 4-byte big-endian length, then that many bytes of UTF-8 JSON. Every byte that comes in is hostile until it
has passed :func:`decode`: the length is checked before anything is read, and JSON is held to its letter
(:mod:`atc._records.strict_json`). Straight on the event loop's readers: a call and its answer cost two system calls
and one task, nothing in between.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import json
import json.encoder
import os
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from atc._records.strict_json import parse
from atc.calls.clock import HostTime, Steps
from atc.errors import FrameError, SandboxUnavailable

_PART = 1 << 16
_AT_ONCE = 32
"""Frames that are handed over without the event loop in between: a flood of calls must not stop all else."""


def encode(message: dict[str, Any]) -> bytes:
    """Return ``message`` as one frame. Raises ValueError for NaN and infinity."""
    body = "".join(_parts_of(message, 0)).encode()
    return len(body).to_bytes(4, "big") + body


def decode(body: bytes | bytearray) -> dict[str, Any]:
    """Parse the body of a frame.

    Raises:
        FrameError: it is not exactly one JSON object of bounded depth.
    """
    try:
        message = parse(str(body, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a frame from the sandbox is not valid: {str(error)[:200]}") from None
    if not isinstance(message, dict):
        raise FrameError(f"a frame from the sandbox is a {type(message).__name__}, not an object")
    return message


def next_frame(buffer: bytes | bytearray, start: int, limit: int) -> tuple[dict[str, Any], int] | None:
    """Return the frame that begins at ``start`` and where the next one begins; ``None`` until it is whole.

    Raises:
        FrameError: it is larger than ``limit`` bytes (its length shows that, before the rest is there), or not valid.
    """
    if len(buffer) - start < 4:
        return None
    body = start + 4
    length = int.from_bytes(buffer[start:body], "big")
    if length > limit:
        raise FrameError(f"a frame of {length:,} bytes is over the limit of {limit:,}")
    if len(buffer) - body < length:
        return None
    return decode(buffer[body : body + length]), body + length


# made once: it costs more than the small message that it is made for
_parts_of: Callable[[Any, int], tuple[str, ...]] = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, json.JSONEncoder().default, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, False
)


class Channel(abc.ABC):
    """Carries frames to one program and back: a socket pair, or a connection to a service.

    Attributes:
        received: bytes that came in so far.
        share: counts what reading costs, once a session has begun.
    """

    received: int = 0
    share: HostShare | None = None

    @abc.abstractmethod
    def listen(self, listener: Listener) -> None:
        """Begin to hand over what comes. Once, inside a running event loop."""

    @abc.abstractmethod
    def pause(self) -> None:
        """Hand over nothing more for now: what comes waits unread."""

    @abc.abstractmethod
    def resume(self) -> None:
        """Go on after :meth:`pause`."""

    @abc.abstractmethod
    async def send(self, message: dict[str, Any]) -> None:
        """Send a frame. One that cannot arrive any more is dropped: the listener gets the end of the channel."""


class Listener(Protocol):
    """Receives what comes over a channel, in the event loop's own callbacks: nothing stands between it and a call."""

    def on_frame(self, frame: dict[str, Any]) -> None:
        """Take a frame that came."""

    def on_end(self, error: Exception | None) -> None:
        """Take the channel's end: the other side has gone, or (``FrameError``) what came is no frame. At most once."""


class SocketChannel(Channel):
    """Frames over a connected socket; for one event loop, from the first use to :meth:`close`.

    Args:
        sock: the host's end; it stays the caller's to close.
        frame_bytes: the largest frame that is accepted.
    """

    def __init__(self, sock: socket.socket, frame_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock, self._limit = sock, frame_bytes
        self._fd = sock.fileno()  # by which the loop knows it: of a socket it makes a text, to say that it is new
        sock.setblocking(False)
        self._buffer = bytearray()
        self._listener: Listener | None = None
        self._reading = False
        self._due = False  # whole frames may be left in the buffer: it is their turn soon
        self._writing, self._writers = asyncio.Lock(), 0

    def listen(self, listener: Listener) -> None:
        self._listener = listener
        self.resume()

    def pause(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        if not self._reading:
            try:
                self._loop.add_reader(self._fd, self._counted(self._read))
            except OSError as error:
                self._end(SandboxUnavailable(f"a program's channel cannot be read: {error.strerror}"))
                return
            self._reading = True
            self._counted(self._hand_over)()  # what had come before the pause

    async def send(self, message: dict[str, Any]) -> None:
        body = encode(message)
        if not self._writers:  # else another one is on its way, and they go out whole
            body = body[self._sent(body) :]
            if not body:
                return
        self._writers += 1
        try:
            async with self._writing:
                with contextlib.suppress(OSError):
                    await self._loop.sock_sendall(self._sock, body)
        finally:
            self._writers -= 1

    def _sent(self, body: bytes) -> int:
        """Send what can be sent now; return how many bytes that were, all of them where none can arrive any more."""
        try:
            return self._sock.send(body)
        except BlockingIOError:
            return 0
        except OSError:
            return len(body)

    def close(self) -> None:
        """Stop reading; the listener gets nothing more."""
        self.pause()
        self._listener = None

    def _counted(self, work: Callable[[], None]) -> Callable[[], object]:
        return work if self.share is None else self.share.counting(work)

    def _read(self) -> None:
        if self._due:  # first what has come: behind the end of the stream nothing is handed over
            return
        try:
            part = self._sock.recv(_PART)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if part:
            self.received += len(part)
            self._buffer += part
            self._hand_over()
        else:
            self._end(FrameError("the sandbox closed the channel inside a frame") if self._buffer else None)

    def _hand_over(self) -> None:
        taken = count = 0
        self._due = False
        try:
            while self._reading and taken < len(self._buffer):
                if (found := next_frame(self._buffer, taken, self._limit)) is None:
                    break
                message, taken = found
                if self._listener is not None:
                    self._listener.on_frame(message)
                count += 1
                if count == _AT_ONCE:
                    self._due = True
                    self._loop.call_soon(self._counted(self._hand_over))
                    break
        except FrameError as error:
            self._end(error)
        del self._buffer[:taken]

    def _end(self, error: Exception | None) -> None:
        self.pause()
        if self._listener is not None:
            self._listener.on_end(error)


class Output:
    """Reads what a program prints until it ends, and keeps the first ``keep`` bytes: a flood blocks nothing."""

    def __init__(self, fd: int, max_bytes: int, share: HostShare | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd, self._max_bytes = fd, max_bytes
        self._output = bytearray()
        self._dropped = 0
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read if share is None else share.counting(self._read))
        self._reading = True

    def stop(self) -> None:
        """Read no more: the program is being ended."""
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def close(self) -> str:
        """Return what was printed. Only what is already in the pipe is still read: the program is gone."""
        self.stop()
        for _ in range(8):
            if not self._read():
                break
        text = self._output.decode("utf-8", "replace")
        return text + (f"\n[{self._dropped:,} bytes more were dropped]\n" if self._dropped else "")

    def _read(self) -> bool:
        try:
            part = os.read(self._fd, _PART)
        except BlockingIOError:
            return False
        except OSError:
            part = b""
        if not part:
            self.stop()
            return False
        room = self._max_bytes - len(self._output)
        self._output += part[: max(room, 0)]
        self._dropped += max(len(part) - max(room, 0), 0)
        return True


class Printed:
    """Both streams of a program."""

    def __init__(self) -> None:
        self._streams: list[Output] = []

    def read(self, stdout: int, stderr: int, max_bytes: int, share: HostShare | None = None) -> None:
        """Begin to read, and keep so many bytes of each. ``share``: counts what reading costs."""
        for stream in (stdout, stderr):  # one by one: the first is let go of where the second cannot be read
            self._streams.append(Output(stream, max_bytes, share))

    def stop(self) -> None:
        """Read no more: the program is being ended."""
        for stream in self._streams:
            stream.stop()

    def close(self) -> tuple[str, str]:
        """Return what was printed, once the program is gone."""
        texts = [stream.close() for stream in self._streams]
        return (texts[0], texts[1]) if len(texts) == 2 else ("", "")


T = TypeVar("T")
WINDOW_S = 0.005
"""Seconds of work that are summed up before the processor time is read."""


class HostShare:
    """The account of one program with the host, against its share. For one event loop.

    Frames that are decoded, the steps of calls in the broker and the replies that are encoded are counted, waiting is
    not. Two readings of the wall clock stand around each piece, for one of the processor's costs half a microsecond:
    pieces are summed up, and now and then held to the processor time that the thread really took since.

    A busy machine takes the processor away in the middle of a piece: of the pieces of a window no more is counted than
    the thread's own processor time in it.

    Args:
        account: of whom the program belongs to; what is counted here is added to it.
        limit_s: processor seconds that may be added to it, by whomever, from now on.
        used_up: called whenever more was.
    """

    def __init__(self, account: HostTime, limit_s: float, used_up: Callable[[], None]) -> None:
        self._account, self._used_up = account, used_up
        self._before, self._most = account.used_s, account.used_s + limit_s
        self._pieces, self._inside = 0.0, False  # in a piece: what is inside of it is counted with it
        self._processor = time.thread_time()

    def used_s(self) -> float:
        """Processor seconds of the account since the program began."""
        self._settle()
        return self._account.used_s - self._before

    def measured(self, work: Callable[..., T], *given: Any) -> T:
        """Return what ``work`` returns, which does not wait; it is counted."""
        inside, self._inside = self._inside, True
        began = time.perf_counter()
        try:
            return work(*given)
        finally:
            self._inside = inside
            if not inside:
                self.charge(time.perf_counter() - began)

    def counting(self, work: Callable[[], object]) -> Callable[[], object]:
        """Return ``work``, which does not wait, counted whenever it is called."""
        return partial(self.measured, work)

    def steps(self, work: Awaitable[T]) -> Awaitable[T]:
        """Return ``work``, each of whose steps is counted; while it waits, nothing is."""
        return Steps(work, self.measured)

    def charge(self, seconds: float) -> None:
        """Add a piece of work that took so many seconds by the wall clock."""
        self._pieces += seconds
        if self._pieces >= WINDOW_S:
            self._settle()
        if self._account.used_s > self._most:
            self._used_up()

    def _settle(self) -> None:
        now = time.thread_time()
        self._account.used_s += min(self._pieces, now - self._processor)
        self._pieces, self._processor = 0.0, now
