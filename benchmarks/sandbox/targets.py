"""What the sandbox benchmark runs its programs in: ATC's own drivers, and the peers that are installed here.

Each takes the same programs and the same tool, and answers for itself how a fresh jail is made.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import importlib.util
import os
import re
import secrets
import shutil
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio

from atc._host.files import resource_dir
from atc.calls.contract import CallReply, CallRequest
from atc.errors import AtcError
from atc.sandboxes.channel.frames import SocketChannel
from atc.sandboxes.channel.session import Session
from atc.sandboxes.contract import Job, Limits, Sandbox
from atc.sandboxes.process.driver import ProcessSandbox

_TICKS = os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """The processes that a process has started and that are still there."""
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
                found += [int(child) for child in file.read().split()]
    return found


def own_s(pid: int) -> tuple[float, float]:
    """Seconds of a process itself, and of the children that it has waited for; zero when it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()[11:15]
    except OSError:
        return 0.0, 0.0
    user, system, of_children, of_children_system = (int(field) / _TICKS for field in fields)
    return user + system, of_children + of_children_system


def family_s(pid: int) -> float:
    """Seconds of a process, of its living descendants, and of all that any of them has waited for.

    Work that the kernel does in processes of its own (taking down a namespace) is not in it.
    """
    return sum(own_s(pid)) + sum(family_s(child) for child in children(pid))


Tools = Mapping[str, Callable[..., Any]]


class Missing(Exception):
    """A target that cannot be had here, and why."""


class Target(abc.ABC):
    """Something that runs programs. ``isolates`` says in a word what stands between a program and the machine."""

    name: str
    isolates: str
    stops_loops = True
    has_calls = True
    """Whether a program can call tools of its host; without, only a whole program's time is measured."""
    counted = True
    """Whether all that works for it are this process and its descendants; an engine's daemon is not."""

    async def open(self) -> None:
        """Get ready. Raises :class:`Missing`."""
        return

    async def close(self) -> None:
        """End everything."""
        return

    @abc.abstractmethod
    async def run(self, program: str, tools: Tools, wall_s: float = 60.0) -> Any:
        """Run a program in a fresh jail; its ``answer``, or ``None`` where it was stopped."""

    def jail_processes(self) -> list[int]:
        """Processes that exist for the programs running now."""
        return []


class Ours(Target):
    """A driver of ATC."""

    def __init__(self, name: str, make: Callable[[], Sandbox], *, counted: bool = True) -> None:
        self.name, self._make, self.counted = name, make, counted
        self.isolates = "jail"
        self.sandbox: Sandbox | None = None

    async def open(self) -> None:
        self.sandbox = self._make()
        try:
            outcome = await self.sandbox.run(Job("answer = 1", {}), _no_tools)
        except AtcError as error:
            await self.sandbox.aclose()
            raise Missing(str(error)) from None
        self.isolates = f"tier {outcome.isolation}"
        await asyncio.sleep(0.2)  # the pool fills

    async def close(self) -> None:
        if self.sandbox is not None:
            await self.sandbox.aclose()

    async def run(self, program: str, tools: Tools, wall_s: float = 60.0) -> Any:
        assert self.sandbox is not None
        job = Job(program, dict.fromkeys(tools, ()), Limits(wall_s=wall_s))
        return (await self.sandbox.run(job, _handler(tools))).value

    def jail_processes(self) -> list[int]:
        if not isinstance(self.sandbox, ProcessSandbox):
            return []
        return [pid for zygote in children(os.getpid()) for pid in children(zygote)]


class PlainProcess(Target):
    """A fresh Python process for each program and nothing around it: what isolation is compared with."""

    name, isolates = "plain subprocess", "nothing"

    async def run(self, program: str, tools: Tools, wall_s: float = 60.0) -> Any:
        ours, theirs = socket.socketpair()
        code = (
            f"import sys, socket; sys.path.insert(0, {str(resource_dir('sandbox'))!r}); import frames, run; "
            f"run.serve(frames.Frames(socket.socket(fileno={theirs.fileno()})))"
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", "-c", code, pass_fds=(theirs.fileno(),), env={}
        )
        theirs.close()
        channel = SocketChannel(ours, 1 << 22)
        try:
            limits = Limits(wall_s=wall_s)
            session = Session(channel, limits, _handler(tools))
            async with asyncio.timeout(wall_s):
                await session.begin(Job(program, dict.fromkeys(tools, ())))
                return (await session.serve()).value
        except TimeoutError:
            return None
        finally:
            channel.close()
            ours.close()
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def jail_processes(self) -> list[int]:
        return [pid for pid in children(os.getpid()) if b"run.serve" in _command(pid)]


class Monty(Target):
    """pydantic-monty: an interpreter of its own for a subset of Python, in worker processes."""

    isolates = "interpreter"

    def __init__(self, *, recycled: bool) -> None:
        self.name = "monty, a worker for each program" if recycled else "monty, workers used again"
        self._once = 1 if recycled else None
        self._stack = contextlib.AsyncExitStack()

    async def open(self) -> None:
        if importlib.util.find_spec("pydantic_monty") is None:
            raise Missing("pip install pydantic-monty")
        from pydantic_monty import AsyncMonty

        made = AsyncMonty(min_processes=4, max_processes=8, max_checkouts_per_worker=self._once)
        self._pool = await self._stack.enter_async_context(made)

    async def close(self) -> None:
        await self._stack.aclose()

    async def run(self, program: str, tools: Tools, wall_s: float = 60.0) -> Any:
        from pydantic_monty import ResourceLimits

        try:
            async with self._pool.checkout(limits=ResourceLimits(max_feed_duration_secs=wall_s)) as session:
                return await session.feed_run(program + "\nanswer", external_lookup=dict(tools))
        except Exception as error:
            if "Limit" in str(error) or "imeout" in str(error) or "imeout" in type(error).__name__:
                return None
            raise

    def jail_processes(self) -> list[int]:
        return [pid for pid in children(os.getpid()) if b"monty" in _command(pid)]


class Smolagents(Target):
    """smolagents' local executor: Python walked by Python, in the host's own process."""

    name, isolates, stops_loops = "smolagents, local executor", "syntax tree", False

    async def open(self) -> None:
        if importlib.util.find_spec("smolagents") is None:
            raise Missing("pip install smolagents")

    async def run(self, program: str, tools: Tools, wall_s: float = 60.0) -> Any:
        from smolagents.local_python_executor import LocalPythonExecutor

        executor = LocalPythonExecutor([])
        executor.send_tools(dict(tools))
        return executor(program + "\nanswer").output


class Restricted(Target):
    """RestrictedPython: a compiler that leaves things out, in the host's own process."""

    name, isolates, stops_loops = "RestrictedPython", "compiler", False

    async def run(self, program: str, tools: Tools, wall_s: float = 60.0) -> Any:
        from RestrictedPython import compile_restricted, safe_builtins  # type: ignore[attr-defined]

        builtins = {**safe_builtins, "_getiter_": iter, "_getitem_": lambda of, key: of[key]}
        scope: dict[str, Any] = {"__builtins__": {**builtins, "list": list, "sum": sum}, **builtins, **tools}
        exec(compile_restricted(program, "<program>", "exec"), scope)  # noqa: S102 - the peer's own way
        return scope.get("answer")


class DockerRun(Target):
    """``docker run`` for each program, with the usual flags: what most products do."""

    name, isolates = "docker run, a container for each program", "container"
    counted = False
    _FLAGS = (
        "--network=none",
        "--read-only",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        "--pids-limit=64",
        "--memory=256m",
        "--user=65534:65534",
    )

    def __init__(self, image: str = "python:3.11-slim") -> None:
        self._image = image

    async def open(self) -> None:
        if shutil.which("docker") is None or (await anyio.run_process(["docker", "version"], check=False)).returncode:
            raise Missing("no Docker engine answers")
        if (await anyio.run_process(["docker", "image", "inspect", self._image], check=False)).returncode:
            raise Missing(f"no image {self._image}")

    async def run(self, program: str, tools: Tools, wall_s: float = 60.0) -> Any:
        name = f"atc-bench-{secrets.token_hex(4)}"
        process = await asyncio.create_subprocess_exec(
            "docker", "run", "--rm", "-i", "--name", name, *self._FLAGS, self._image, "python", "-I", "-S", "-c",
            _OVER_STDIO, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 22,
        )  # fmt: skip
        try:
            return await asyncio.wait_for(_serve_stdio(process, program, tools), wall_s)
        except TimeoutError:
            await (
                await asyncio.create_subprocess_exec("docker", "kill", name, stdout=asyncio.subprocess.DEVNULL)
            ).wait()
            return None
        finally:
            await process.wait()


class LlmSandbox(Target):
    """llm-sandbox: a container for each session, started and removed by the library. It has no way back to the host."""

    name, isolates, has_calls = "llm-sandbox (a whole program)", "container", False

    def __init__(self, image: str = "python:3.11-slim") -> None:
        self._image = image

    async def open(self) -> None:
        if importlib.util.find_spec("llm_sandbox") is None:
            raise Missing("pip install 'llm-sandbox[docker]'")
        try:
            await self.run("print(1)", {})
        except Exception as error:
            raise Missing(f"it does not run here: {type(error).__name__}: {str(error)[:150]}") from None

    async def run(self, program: str, tools: Tools, wall_s: float = 60.0) -> Any:
        """The moment at which its output was known; that its container is gone takes ten seconds more."""
        return await asyncio.to_thread(self._session, program)

    def _session(self, program: str) -> float:
        from llm_sandbox import SandboxSession

        with SandboxSession(
            lang="python", image=self._image, keep_template=True, skip_environment_setup=True, workdir="/tmp"
        ) as session:
            session.run(program)
            return time.perf_counter()


_OVER_STDIO = """
import sys, json
def ask(name):
    def call(**kwargs):
        print(json.dumps({"tool": name, "args": kwargs}), flush=True)
        return json.loads(sys.stdin.readline())
    return call
start = json.loads(sys.stdin.readline())
scope = {name: ask(name) for name in start["tools"]}
exec(start["program"], scope)
print(json.dumps({"answer": scope.get("answer")}), flush=True)
"""


async def _serve_stdio(process: asyncio.subprocess.Process, program: str, tools: Tools) -> Any:
    import json

    assert process.stdin is not None and process.stdout is not None  # noqa: PT018
    process.stdin.write(json.dumps({"program": program, "tools": list(tools)}).encode() + b"\n")
    while line := await process.stdout.readline():
        message = json.loads(line)
        if "answer" in message:
            return message["answer"]
        process.stdin.write(json.dumps(tools[message["tool"]](**message["args"])).encode() + b"\n")
    return None


@contextlib.asynccontextmanager
async def local_service() -> AsyncIterator[tuple[str, str]]:
    """A sandbox service on this machine: its address and a key."""
    token = secrets.token_hex(16)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "atc", "sandbox", "serve", "--port", str(port)]
    environment = {**os.environ, "ATC_SERVE_TOKEN": token}
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=quiet, stderr=quiet)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
                break
            await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}", token
    finally:
        process.terminate()
        await process.wait()


def _handler(tools: Tools) -> Callable[[CallRequest], Any]:
    async def call(request: CallRequest) -> CallReply:
        return CallReply(value=tools[request.tool](**request.arguments))

    return call


async def _no_tools(request: CallRequest) -> CallReply:
    return CallReply(error="no tools here")


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
    return b""


def private_bytes(pid: int) -> int:
    """What a process has for itself alone."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return 1024 * sum(int(found) for found in re.findall(r"Private_(?:Clean|Dirty):\s+(\d+) kB", file.read()))
