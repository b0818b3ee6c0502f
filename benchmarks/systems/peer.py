"""Other people's agents, each in a process of its own: their packages, their prompts, their default settings.

``python -m benchmarks.peers SCRIPT MODE`` is run by the Python that has the peer (``ATC_PEER_PYTHON_<SCRIPT>``, else
that of ``make peers``, else this one). It reads one JSON line, a job, and writes two: its version when it is ready to
begin, and its answer. Model and tools are behind the gateway, so a peer that hangs or dies takes nothing with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from atc.errors import EnvironmentProblem
from atc.schemas.protocol import Protocol, parameters_of
from benchmarks.common import ROOT
from benchmarks.systems.base import ANSWER_FORM, Answer, Job, System

PEERS_FORM = f"Use the tools. {ANSWER_FORM}"
"""What is added to a task."""

START_S = 120.0
_LINE = 1 << 24
"""Bytes of an answer."""
_MADE = {"run_langgraph_codeact": ".venv-codeact"}
"""Where `make peers` puts a peer that is not beside the others."""
_TAIL = 10_000
"""Bytes of what a peer says on stderr that are kept: the last ones."""
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "SSL_CERT_FILE")
"""Of the environment. No key is among them: a peer's model needs none."""
_SET = {"PYTHONPATH": str(ROOT), "HF_HUB_DISABLE_TELEMETRY": "1", "LANGSMITH_TRACING": "false", "NO_PROXY": "127.0.0.1"}


class Peer(System):
    """An agent from PyPI.

    Args:
        name: as it is reported.
        script: in ``benchmarks/peers``, without its ending.
        package: that it needs, as ``pip install`` takes it.
        mode: which of the script's agents.
    """

    def __init__(self, name: str, about: str, script: str, package: str, mode: str = "") -> None:
        self.name, self.about = name, about
        self._script, self._package, self._mode = script, package, mode
        self._variable = f"ATC_PEER_PYTHON_{script.upper()}"
        self._version = ""

    async def version(self) -> str:
        """The releases of its packages, and a digest of the script that drives them.

        Raises:
            EnvironmentProblem: it is not installed; the message says how to get it.
        """
        if not self._version:
            async with self._running() as process:
                self._version = f"{await self._ready(process)} ({_digest(self._script)})"
        return self._version

    async def solve(self, job: Job) -> Answer:
        async with self._running() as process:
            ready = await self._ready(process)
            job.session.began = time.perf_counter()  # what a peer takes to load is not of the try
            await process.send(self._job(job))
            message = await process.line()
            if message is None:
                errors = await process.ended()
                return Answer("crash", error=f"{self.name} {ready} ended without an answer: {errors[-500:]}")
        return _answer(message, job)

    def _job(self, job: Job) -> dict[str, Any]:
        episode = job.session.episode
        return {
            "mode": self._mode,
            "task": f"{job.text}\n\n{PEERS_FORM}",
            "model": job.model,
            "base_url": f"{job.address}/v1",
            "tools_url": f"{job.address}/tools",
            "steps": job.caps.model_calls,
            "tools": [document(tool.protocol) for tool in episode.tools.values()],
        }

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[_Process]:
        """Process and folder are gone after the block. Raises EnvironmentProblem where there is no such Python."""
        python = self._python()
        environment = {name: value for name, value in os.environ.items() if name in _KEPT} | _SET
        pipe = asyncio.subprocess.PIPE
        with tempfile.TemporaryDirectory(prefix="atc-peer-", ignore_cleanup_errors=True) as folder:
            try:
                started = await asyncio.create_subprocess_exec(
                    python,
                    "-m",
                    "benchmarks.peers",
                    self._script,
                    self._mode,
                    stdin=pipe,
                    stdout=pipe,
                    stderr=pipe,
                    cwd=folder,
                    env=environment,
                    start_new_session=True,
                    limit=_LINE,
                )
            except OSError as error:
                raise EnvironmentProblem(f"{self._variable}={python} cannot be started: {error.strerror}") from None
            process = _Process(started, asyncio.create_task(_tail(started)))
            try:
                yield process
            finally:
                await process.ended()

    def _python(self) -> str:
        made = ROOT / _MADE.get(self._script, ".venv-frameworks") / "bin" / "python"
        return os.environ.get(self._variable) or (str(made) if made.exists() else sys.executable)

    async def _ready(self, process: _Process) -> str:
        """Its packages and their releases, once it has loaded. Raises EnvironmentProblem where it did not."""
        message = None
        with contextlib.suppress(TimeoutError):
            message = await asyncio.wait_for(process.line(), START_S)
        if message is None or "ready" not in message:
            errors = await process.ended()
            missing = re.findall(r"No module named '([\w.]+)'", errors)
            why = f"it lacks {missing[0]}" if missing else errors[-300:].strip() or "it said nothing"
            raise EnvironmentProblem(
                f"{self.name} is not installed ({why}): run `make peers`, or `pip install {self._package}` in an "
                f"environment of its own; name its Python in {self._variable}"
            )
        return str(message["ready"])


@dataclass
class _Process:
    """A peer that runs. ``errors``: what it says on stderr, read as it comes, for a full pipe would stop it."""

    process: asyncio.subprocess.Process
    errors: asyncio.Task[str]
    over: bool = False

    async def send(self, document: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(ConnectionError):  # it has died: there will be no answer
            self.process.stdin.write(json.dumps(document).encode() + b"\n")
            await self.process.stdin.drain()

    async def line(self) -> dict[str, Any] | None:
        """The next JSON line; ``None`` at the end, and for what is none."""
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError):
            message = json.loads(await self.process.stdout.readline() or b"null")
            return message if isinstance(message, dict) else None
        return None

    async def ended(self) -> str:
        """End it with all that it started; what it said last on stderr."""
        if not self.over:
            self.over = True  # the number of a group that is gone may be somebody else's soon
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()
        done, _ = await asyncio.wait([self.errors], timeout=2)
        self.errors.cancel()  # one that left its group may hold the pipe
        return self.errors.result() if done else ""


async def _tail(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    tail = b""
    while output := await process.stderr.read(1 << 16):
        tail = (tail + output)[-_TAIL:]
    return tail.decode(errors="replace")


def _digest(script: str) -> str:
    made = hashlib.sha256()
    for name in ("__main__", "job", script):
        with contextlib.suppress(FileNotFoundError):  # then the peer itself says that there is no such script
            made.update((ROOT / "benchmarks" / "peers" / f"{name}.py").read_bytes())
    made.update(PEERS_FORM.encode())
    return made.hexdigest()[:8]


def document(protocol: Protocol) -> dict[str, Any]:
    """A tool for a peer, its parameters under names that Python can write; the gateway knows both.

    What ATC notes for itself in a schema (``x-atc-…``) is left out: others would pay for it and cannot use it.
    """
    parameters = parameters_of(protocol)
    properties = {parameter.name: parameter.schema for parameter in parameters}
    required = [parameter.name for parameter in parameters if parameter.required]
    return {
        "name": protocol.name,
        "description": protocol.description,
        "returns": _bare(protocol.returns),
        "parameters": _bare(protocol.parameters | {"properties": properties, "required": required}),
    }


def _bare(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_bare(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _bare(part) for name, part in schema.items() if not name.startswith("x-atc-")}


def _answer(message: dict[str, Any], job: Job) -> Answer:
    steps, failed = int(message.get("steps") or 0), int(message.get("crashes") or 0)
    known = {"program": str(message.get("program") or "")[:4_000], "programs": steps, "failed": failed}
    if error := str(message.get("error") or ""):
        ended = "budget" if job.session.spent.over else "unsolved" if message.get("gave_up") else "crash"
        return Answer(ended, error=error[:500], **known)  # type: ignore[arg-type]
    return Answer("answered", message.get("value"), **known)  # type: ignore[arg-type]
