"""The server over pipes: one client, which started this process. Messages are bounded, and never in the way of its end.

Threads that nobody waits for read and write, so a client that neither writes nor reads cannot keep the process alive.
While messages pass, descriptor 0 is empty and descriptor 1 is standard error: whatever else reads or prints does not
touch the protocol.
"""

from __future__ import annotations

import asyncio
import os
import queue
import re
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.server import Face

MAX_MESSAGE = 16_000_000
"""Bytes of one message of a client."""
NO_MESSAGE = "a line that is no JSON-RPC message, holds half a character, or is nested too deep. Nothing was done"
_AHEAD = 16
"""Messages that are read before the first of them is taken."""
_LAST_WORDS_S = 1.0
"""Seconds that a client gets to read what was answered last."""
_PIECE, _ENDS = 65_536, 1_000
_HEAD_ID = re.compile(rb'(?<!\\)"id"\s*:\s*([0-9]{1,15}|"[A-Za-z0-9._:-]{1,100}")')
_TAIL_ID = re.compile(_HEAD_ID.pattern + rb"\s*\}\s*\Z")

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
ToServer = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


@dataclass(frozen=True)
class TooLong:
    """A message that was not kept, or could not be read: its first and its last bytes."""

    head: bytes
    tail: bytes
    size: int

    def request_id(self) -> types.RequestId | None:
        """The id of the request that it was, where it stands before the parameters or right at the end."""
        found = _HEAD_ID.search(self.head.split(b'"params"')[0]) or _TAIL_ID.search(self.tail)
        if found is None:
            return None
        return found[1].strip(b'"').decode() if found[1].startswith(b'"') else int(found[1])


@asynccontextmanager
async def pipes(incoming: int = 0, outgoing: int = 1) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """The messages of the client behind two descriptors, and those to it. Its end of file ends them."""
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception]()
    from_server, to_client = anyio.create_memory_object_stream[SessionMessage]()
    with taken(incoming, os.O_RDONLY) as reads, taken(outgoing, os.O_WRONLY) as writes:
        writer = _Writer(writes)
        async with anyio.create_task_group() as group:
            group.start_soon(_read, _Reader(reads), to_server, writer)
            group.start_soon(_write, writer, to_client, to_server)
            yield from_client, from_server
            with anyio.move_on_after(_LAST_WORDS_S):
                await from_server.aclose()
                await writer.ended.wait()
            group.cancel_scope.cancel()


async def _read(
    reader: _Reader, to_server: MemoryObjectSendStream[SessionMessage | Exception], writer: _Writer
) -> None:
    async with to_server:
        async for line in reader.lines():
            if isinstance(line, TooLong):
                message = f"a message of {line.size:,} bytes: at most {MAX_MESSAGE:,} are taken. Nothing was done"
                await writer.write(_error(line.request_id(), types.INVALID_REQUEST, message))
                continue
            if not line.strip():
                continue
            try:
                read = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                asked = TooLong(line[:_ENDS], line[-_ENDS:], len(line)).request_id()  # else its sender waits for ever
                await writer.write(_error(asked, types.PARSE_ERROR, NO_MESSAGE))
                continue
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await to_server.send(SessionMessage(read))


async def _write(
    writer: _Writer,
    to_client: MemoryObjectReceiveStream[SessionMessage],
    to_server: ToServer,
) -> None:
    try:
        async with to_client:
            async for message in to_client:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await writer.write(text.encode("utf-8", "replace"))
    except OSError:
        await to_server.aclose()  # nobody reads any more: as if the client had closed its end
    finally:
        writer.ended.set()


def _error(request_id: types.RequestId | None, code: int, message: str) -> bytes:
    error = types.JSONRPCError(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=message))
    return error.model_dump_json(by_alias=True, exclude_unset=True).encode()


class _Reader:
    """Reads lines in a thread. What is read ahead is bounded."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | TooLong | None] = asyncio.Queue()
        self._room = threading.Semaphore(_AHEAD)
        threading.Thread(target=self._read, name="mcp-stdin", daemon=True).start()

    async def lines(self) -> AsyncIterator[bytes | TooLong]:
        """The lines, to the end of the input."""
        while (line := await self._lines.get()) is not None:
            yield line
            self._room.release()

    def _read(self) -> None:
        with suppress(RuntimeError):  # the loop has ended
            for line in bounded_lines(self._descriptor, MAX_MESSAGE):
                self._room.acquire()
                self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
            self._loop.call_soon_threadsafe(self._lines.put_nowait, None)


class _Writer:
    """Writes lines in a thread, one after another."""

    def __init__(self, descriptor: int) -> None:
        self.ended = anyio.Event()
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._lines: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._write, name="mcp-stdout", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Write a line.

        Raises:
            OSError: nobody can read it.
        """
        written: asyncio.Future[None] = self._loop.create_future()
        self._lines.put((line + b"\n", written))
        await written

    def _write(self) -> None:
        with suppress(RuntimeError):  # the loop has ended
            while True:
                line, written = self._lines.get()
                problem: OSError | None = None
                try:
                    left = memoryview(line)
                    while left:
                        left = left[os.write(self._descriptor, left) :]
                except OSError as error:
                    problem = error
                self._loop.call_soon_threadsafe(_settle, written, problem)


def _settle(written: asyncio.Future[None], problem: OSError | None) -> None:
    if written.done():
        return
    if problem is None:
        written.set_result(None)
    else:
        written.set_exception(problem)


def bounded_lines(descriptor: int, limit: int) -> Iterator[bytes | TooLong]:
    """The lines that can be read from a descriptor; of one over ``limit`` bytes no more than its ends is kept.

    Something after the last line end is no message: its writer died over it.
    """
    line, dropped, head = bytearray(), 0, b""
    while piece := _piece(descriptor):
        *ended, rest = piece.split(b"\n")
        for part in ended:
            line += part
            if head or len(line) > limit:
                yield TooLong(head or bytes(line[:_ENDS]), bytes(line[-_ENDS:]), dropped + len(line))
            else:
                yield bytes(line)
            line, dropped, head = bytearray(), 0, b""
        line += rest
        if len(line) > limit:
            head = head or bytes(line[:_ENDS])
            kept = line[-_ENDS:]
            dropped, line = dropped + len(line) - len(kept), kept


def _piece(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _PIECE)
    except OSError:
        return b""


@contextmanager
def taken(descriptor: int, way: int = os.O_WRONLY) -> Iterator[int]:
    """A descriptor of the process for us alone: in its place is nothing to read, and standard error to write."""
    own = os.dup(descriptor)
    os.set_inheritable(own, False)
    instead = os.open(os.devnull, os.O_RDONLY) if way == os.O_RDONLY else os.dup(2)
    try:
        os.dup2(instead, descriptor)
        yield own  # never closed: a thread may still wait on it
    finally:
        os.close(instead)
        if way == os.O_WRONLY:  # what a tool printed and Python still holds is no answer, either
            with suppress(OSError, ValueError, AttributeError):
                sys.stdout.flush()
        os.dup2(own, descriptor)


async def serve_stdio(gateway: Gateway, *, outgoing: int = 1) -> None:
    """Serve until the client closes its end, or the process is asked to end (SIGTERM, Ctrl-C). Nothing goes on then.

    Args:
        gateway: behind it.
        outgoing: descriptor that the client reads; standard output when not given.

    Raises:
        KeyboardInterrupt: it was Ctrl-C.
    """
    await gateway.prepare()
    face = Face(gateway)
    server, asked = face.server, list[signal.Signals]()
    options = server.create_initialization_options()

    async def end_on_a_signal(scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                asked.append(number)
                scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(end_on_a_signal, group.cancel_scope)
            async with pipes(outgoing=outgoing) as (messages, answers):
                await server.run(messages, answers, options)
            group.cancel_scope.cancel()
    finally:
        await face.aclose()
        await gateway.aclose()
    if signal.SIGINT in asked:
        raise KeyboardInterrupt
