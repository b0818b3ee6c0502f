"""A server that is a program of ours: its messages go through its pipes, a line each.

The SDK has such a transport too. This one bounds what the program may send, keeps what it writes to its error output
(and what it wrongly prints between its messages) for our messages, not for the terminal, and leaves nothing running.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
from asyncio import IncompleteReadError, LimitOverrunError, StreamReader, create_subprocess_exec
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

import anyio
import anyio.lowlevel
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from atc.tools.mcp.failures import MORE
from atc.tools.mcp.spec import ServerSpec
from atc.tools.openapi.text import clean

INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""The variables that every server gets. None of them is a credential; what else it needs, the user names."""

GRACE_S = 2.0
"""Seconds to end by itself after its input closed, and again after the signal to end."""

_POLL_S = 0.01
_CHUNK = 65_536
_IN_A_ROW = 16
_LONG = 100_000
"""Bytes of a message from which it is parsed in a thread."""
_LINES = 20
_LINE = 2_000
_MAX_SUMMARY = 600


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
        log: takes what it writes beside its messages.
        max_bytes: bytes of one message. A longer one ends the conversation.

    Raises:
        OSError: the program cannot be started.
    """
    process = await create_subprocess_exec(
        *spec.command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        limit=max_bytes,
        env=_environment(spec),
        cwd=spec.cwd,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_keep, process.stderr, log)
            try:
                yield _Incoming(process, process.stdout, log, max_bytes), _Outgoing(process)
            finally:
                tasks.start_soon(_keep, process.stdout, ServerLog())  # it may say more before it ends
                await _end(process)
                tasks.cancel_scope.cancel()
    finally:
        _kill(process, signal.SIGKILL)


def _environment(spec: ServerSpec) -> dict[str, str]:
    return {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(spec.env)


class _Stream:
    """A stream of the session's, which is over when the process is: leaving it closes nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass


class _Incoming(_Stream):
    """The messages of the server, read when the session asks for one: no task and no queue stand between."""

    def __init__(self, process: Process, stdout: StreamReader, log: ServerLog, max_bytes: int) -> None:
        self._process, self._stdout, self._log, self._max_bytes = process, stdout, log, max_bytes
        self._read = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        log = self._log
        while not log.ended:
            self._read += 1
            if self._read % _IN_A_ROW == 0:
                await asyncio.sleep(0)  # messages that are there already are read without a pause
            try:
                line = await self._stdout.readuntil(b"\n")
                read = functools.partial(jsonrpc_message_adapter.validate_json, line, by_name=False)
                return SessionMessage(read() if len(line) < _LONG else await asyncio.to_thread(read))
            except LimitOverrunError:
                log.problem, log.too_large = f"it sent a message of more than {self._max_bytes:,} bytes: {MORE}", True
            except (IncompleteReadError, OSError):
                log.ended = True
                break
            except ValueError:
                if b'"jsonrpc"' not in line:
                    log.write(line)  # something that it printed: common, and no reason to give up
                    continue
                log.problem = "it sent a damaged message"  # whoever waits for it would wait in vain
            log.ended = True
            _kill(self._process, signal.SIGTERM)
        raise StopAsyncIteration


class _Outgoing(_Stream):
    def __init__(self, process: Process) -> None:
        self._process = process

    async def send(self, item: SessionMessage) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            await stdin.drain()  # what is given up while it waits for room is never sent
            stdin.write(text.encode("utf-8", "replace") + b"\n")
            await stdin.drain()
            gone = stdin.is_closing()  # a pipe that broke just now is no error of `drain` yet
        except OSError:
            gone = True
        if gone:
            stdout.feed_eof()  # whoever waits for an answer gets the error
            raise anyio.BrokenResourceError


async def _keep(stream: StreamReader, log: ServerLog) -> None:
    with suppress(OSError):
        while data := await stream.read(_CHUNK):
            log.write(data)


async def _end(process: Process) -> None:
    """Close its input, wait, ask, and kill: as the specification of MCP says."""
    with anyio.CancelScope(shield=True):
        try:
            if process.stdin is not None:
                process.stdin.close()
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
    transport = getattr(process, "_transport", None)
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
