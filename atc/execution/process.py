"""The ``process`` sandbox: one fresh, locked CPython process for every program. Linux.

The child (``sandbox/main.py``) boots and locks itself before it is told a program, so that one is always waiting while
the model writes. Calls travel over a private socket pair; stdout and stderr are the program's own.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from atc.errors import FrameError, SandboxUnavailable
from atc.execution import frames
from atc.execution.conversation import Conversation
from atc.execution.sandbox import LAYERS, CallHandler, Job, Limits, Outcome, Sandbox
from atc.resources import resource_dir

BOOT_S = 20.0
"""Seconds that a child gets to boot and lock itself."""
END_S = 5.0
"""Seconds that a child's guardian gets to end it and to clean up."""


class ProcessSandbox(Sandbox):
    """Fresh processes, locked by namespaces, Landlock, a seccomp filter and rlimits.

    Args:
        limits: what a program may use. Memory, CPU and file limits are fixed when the child is made.
        require: the layers (of :data:`atc.execution.sandbox.LAYERS`) without which nothing is run.
    """

    name = "process"

    def __init__(self, limits: Limits | None = None, require: Iterable[str] = LAYERS) -> None:
        self.limits = limits or Limits()
        self.require = tuple(require)
        self._waiting: _Waiting | None = None
        if unknown := set(self.require) - set(LAYERS):
            raise SandboxUnavailable(f"there is no isolation layer {sorted(unknown)}: choose from {', '.join(LAYERS)}")

    async def prepare(self) -> None:
        self._next()

    async def run(self, job: Job, call: CallHandler) -> Outcome:
        waiting, self._waiting = self._next(), None
        waiting.wanted.set()
        try:
            child = await waiting.child
        except asyncio.CancelledError:
            await waiting.dispose()
            raise
        try:
            return await child.converse(job, call)
        finally:
            await child.end()

    async def aclose(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting.loop is asyncio.get_running_loop():
            await waiting.dispose()

    def _next(self) -> _Waiting:
        if self._waiting is None or self._waiting.loop is not asyncio.get_running_loop():
            self._waiting = _Waiting(self.limits, self.require)
        return self._waiting


class _Waiting:
    """A child that boots and waits to be wanted. It ends with its event loop if it never is."""

    def __init__(self, limits: Limits, require: tuple[str, ...]) -> None:
        self.loop = asyncio.get_running_loop()
        self.wanted = asyncio.Event()
        self.child = asyncio.create_task(self._boot(limits, require))

    async def _boot(self, limits: Limits, require: tuple[str, ...]) -> _Child:
        child = await _Child.boot(limits, require)
        try:
            await self.wanted.wait()
        except asyncio.CancelledError:
            await child.end()
            raise
        return child

    async def dispose(self) -> None:
        self.child.cancel()
        try:
            child = await self.child
        except (asyncio.CancelledError, SandboxUnavailable):
            return
        await child.end()


@dataclass
class _Child:
    """One process that waits for its program, and all that must be undone when it ends."""

    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    scratch: str
    limits: Limits
    layers: tuple[str, ...] = ()
    _output: list[asyncio.Task[bytes]] = field(default_factory=list)

    @classmethod
    async def boot(cls, limits: Limits, require: tuple[str, ...]) -> _Child:
        if sys.platform != "linux":
            raise SandboxUnavailable(f"the process sandbox needs Linux; this is {sys.platform}: run ATC on Linux")
        try:
            child = await cls._start(limits)
        except OSError as error:
            raise SandboxUnavailable(f"a sandbox process cannot be started: {error}") from None
        try:
            await child._await_ready(require)
        except BaseException:
            await child.end()
            raise
        return child

    @classmethod
    async def _start(cls, limits: Limits) -> _Child:
        scratch = tempfile.mkdtemp(prefix="atc-run-")
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(resource_dir("sandbox") / "main.py")),
                *(str(theirs.fileno()), scratch, _limits_for_child(limits)),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                pass_fds=(theirs.fileno(),), env={}, cwd=scratch, start_new_session=True, close_fds=True,
            )  # fmt: skip
            ours.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=ours, limit=1 << 20)
        except BaseException:
            ours.close()
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        finally:
            theirs.close()
        return cls(process, reader, writer, scratch, limits)

    async def _await_ready(self, require: tuple[str, ...]) -> None:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._output = [
            asyncio.create_task(_drain(stream, self.limits.output_bytes))
            for stream in (self.process.stdout, self.process.stderr)
        ]
        try:
            ready = await asyncio.wait_for(frames.read(self.reader, 4096), BOOT_S)
        except (TimeoutError, FrameError) as error:
            raise SandboxUnavailable(f"a sandbox process did not come up in {BOOT_S:.0f} s: {error}") from None
        if ready is None:
            _, stderr = await self.output(1.0)
            raise SandboxUnavailable(
                f"a sandbox process ended while it locked itself: {stderr.strip()[-300:] or 'no message'}"
            )
        self.layers = tuple(layer for layer in LAYERS if layer in ready.get("layers", ()))
        if missing := [layer for layer in require if layer not in self.layers]:
            raise SandboxUnavailable(
                f"this machine cannot isolate {' and '.join(missing)} for a program (`atc doctor` says why). "
                "Nothing was run. To accept less, name the layers you do require: sandbox_require / --sandbox-require"
            )

    async def converse(self, job: Job, call: CallHandler) -> Outcome:
        """Hand the program over, answer its calls, and tell how it ended."""
        began = time.perf_counter()
        talk = Conversation(self.reader, self.writer, job.limits, call)
        try:
            end = await asyncio.wait_for(talk.hold(job), job.limits.wall_s)
        except TimeoutError:
            end = Outcome("limit", detail=f"it ran longer than {job.limits.wall_s:g} s")
        except FrameError as error:
            end = Outcome("violation", detail=str(error))
        seconds = time.perf_counter() - began
        if end.kind == "killed":
            end = await self._why_it_ended(end)
        await self.kill()
        stdout, stderr = await self.output(2.0)
        return dataclasses.replace(end, stdout=stdout, stderr=stderr, seconds=seconds, isolation=self.layers)

    async def _why_it_ended(self, end: Outcome) -> Outcome:
        try:
            code = await asyncio.wait_for(self.process.wait(), 2.0)
        except TimeoutError:
            return Outcome("violation", detail="it closed its channel and ran on")
        if -code == signal.SIGXCPU:
            return Outcome("limit", detail=f"it used more than {self.limits.cpu_s} s of processor time")
        if code < 0:
            hint = " (did the machine run out of memory?)" if -code == signal.SIGKILL else ""
            return Outcome("killed", detail=f"it was ended by {signal.Signals(-code).name}{hint}")
        return Outcome("killed", detail=f"it left with exit status {code} before it reported an answer")

    async def output(self, patience_s: float) -> tuple[str, str]:
        await asyncio.wait(self._output, timeout=patience_s)
        done = [task.result() if task.done() and not task.cancelled() else b"" for task in self._output]
        return done[0].decode("utf-8", "replace"), done[1].decode("utf-8", "replace")

    async def kill(self) -> None:
        """Have the guardian end the program and clean up."""
        if self.process.returncode is None:
            self.process.terminate()
            try:
                await asyncio.wait_for(self.process.wait(), END_S)
            except TimeoutError:
                self.process.kill()
                await self.process.wait()

    async def end(self) -> None:
        await self.kill()
        self.writer.close()
        for task in self._output:
            task.cancel()
        shutil.rmtree(self.scratch, ignore_errors=True)  # the guardian did, unless it was killed itself


async def _drain(stream: asyncio.StreamReader, keep: int) -> bytes:
    """Read to the end, keep the first ``keep`` bytes: a flood neither blocks the program nor fills memory."""
    kept, dropped = bytearray(), 0
    while part := await stream.read(1 << 16):
        room = keep - len(kept)
        kept += part[: max(room, 0)]
        dropped += max(len(part) - max(room, 0), 0)
    if dropped:
        kept += f"\n[{dropped:,} bytes more were dropped]\n".encode()
    return bytes(kept)


def _limits_for_child(limits: Limits) -> str:
    names = ("cpu_s", "memory_bytes", "file_bytes", "frame_bytes", "open_files", "processes")
    wanted: dict[str, Any] = {name: getattr(limits, name) for name in names}
    return json.dumps(wanted | {"namespaces": True, "landlock": True, "seccomp": True, "host": os.getpid()})
