"""A server that is a program of ours: its messages go through its pipes, a line each.

The SDK has such a transport too. This one bounds what the program may send, keeps what it writes to its error output
(and what it wrongly prints between its messages) for our messages, not for the terminal, and leaves nothing running.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import ByteReceiveStream, ObjectReceiveStream, ObjectSendStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from atc.tools.mcp.spec import ServerSpec
from atc.tools.openapi.text import clean

INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""The variables that every server gets. None of them is a credential; what else it needs, the user names."""

GRACE_S = 2.0
"""Seconds to end by itself after its input closed, and again after the signal to end."""

_POLL_S = 0.01
_LINES = 20
_LINE = 2_000
_MAX_SUMMARY = 600
_GONE = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)


class ServerLog:
    """The last lines that a server wrote where nobody else reads them, and whether it says anything any more."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._rest = ""
        self.problem = ""
        self.too_large = False
        self.ended = False

    def write(self, data: bytes) -> None:
        """Take more output; only the last lines are kept."""
        text = self._rest + data.decode("utf-8", "replace")
        *lines, self._rest = text.split("\n")
        self._lines.extend(line[:_LINE] for line in lines if line.strip())
        self._rest = self._rest[-_LINE:]

    def summary(self, spec: ServerSpec) -> str:
        """What is known of the server's end and its last output, for the end of a message."""
        text = clean(spec.secrets.text("\n".join([*self._lines, self._rest]).strip()), 10 * _LINE * _LINES)
        output = f"; it said: {'… ' if len(text) > _MAX_SUMMARY else ''}{text[-_MAX_SUMMARY:]}" if text else ""
        return (f"; {self.problem}" if self.problem else "") + output


@asynccontextmanager
async def stdio_transport(spec: ServerSpec, log: ServerLog, max_bytes: int) -> AsyncIterator[tuple[Any, Any]]:
    """Start the program and speak to it; end it, and all that it started, with the block.

    Args:
        spec: the server.
        log: takes what it writes beside its messages.
        max_bytes: bytes of one message. A longer one ends the conversation.

    Raises:
        OSError: the program cannot be started.
    """
    process = await anyio.open_process(list(spec.command), env=_environment(spec), cwd=spec.cwd, start_new_session=True)
    to_session, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outbox, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, process, to_session, log, max_bytes)
            tasks.start_soon(_write, process, from_session, to_session)
            tasks.start_soon(_keep, process, log)
            try:
                yield inbox, outbox
            finally:
                await _end(process)
                tasks.cancel_scope.cancel()
    finally:
        _kill(process, signal.SIGKILL)
        for stream in (to_session, inbox, outbox, from_session):
            stream.close()


def _environment(spec: ServerSpec) -> dict[str, str]:
    return {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(spec.env)


async def _read(
    process: Process, to_session: ObjectSendStream[SessionMessage | Exception], log: ServerLog, max_bytes: int
) -> None:
    assert process.stdout is not None
    stdout = BufferedByteReceiveStream(process.stdout)
    async with to_session:
        while True:
            try:
                line = await stdout.receive_until(b"\n", max_bytes)
            except anyio.DelimiterNotFound:
                log.problem, log.too_large = f"it sent a message of more than {max_bytes:,} bytes", True
                break
            except (anyio.IncompleteRead, *_GONE):
                log.ended = True
                return
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                if b'"jsonrpc"' in line:
                    log.problem = "it sent a damaged message"  # whoever waits for it would wait in vain
                    break
                log.write(line + b"\n")  # something that it printed: common, and no reason to give up
                continue
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await to_session.send(SessionMessage(message))
    log.ended = True
    _kill(process, signal.SIGTERM)


async def _write(
    process: Process,
    from_session: ObjectReceiveStream[SessionMessage],
    to_session: ObjectSendStream[SessionMessage | Exception],
) -> None:
    assert process.stdin is not None
    try:
        async with from_session:
            async for message in from_session:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(text.encode("utf-8", "replace") + b"\n")
    except _GONE:
        await to_session.aclose()  # whoever waits for an answer gets the error


async def _keep(process: Process, log: ServerLog) -> None:
    assert process.stderr is not None
    stream: ByteReceiveStream = process.stderr
    with suppress(*_GONE):
        async for data in stream:
            log.write(data)


async def _end(process: Process) -> None:
    """Close its input, wait, ask, and kill: as the specification of MCP says."""
    with anyio.CancelScope(shield=True):
        try:
            if process.stdin is not None:
                with suppress(*_GONE):
                    await process.stdin.aclose()
            if not await _ended(process):
                _kill(process, signal.SIGTERM)
                await _ended(process)
            _kill(process, signal.SIGKILL)  # also what it started and left behind
            await _ended(process)
        finally:  # also for who does not wait for that
            _kill(process, signal.SIGKILL)
            _let_go(process)
        await anyio.lowlevel.checkpoint()


def _let_go(process: Process) -> None:
    """Close its pipes: who ran away and holds them would keep them open, and asyncio has no public way to do it."""
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()


async def _ended(process: Process) -> bool:
    """Whether it ends in time. Its return code is looked at: waiting would last as long as anyone holds its pipes."""
    with anyio.move_on_after(GRACE_S):
        while process.returncode is None:  # noqa: ASYNC110 - nothing else tells
            await anyio.sleep(_POLL_S)
    return process.returncode is not None


def _kill(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
