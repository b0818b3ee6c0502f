"""What is known of Docker's containers here, and an engine that only says what a test wants it to say."""

from __future__ import annotations

import asyncio
import os
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from atc._records.outcome import Outcome
from atc.calls.contract import CallReply, CallRequest
from atc.errors import SandboxUnavailable
from atc.sandboxes.contract import Job
from atc.sandboxes.docker.driver import DockerSandbox
from atc.sandboxes.docker.engine import LABEL, Engine
from tests.support.http import Handler

IMAGE = "atc-sandbox"

VERSION = {"Version": "27.0", "ApiVersion": "1.46", "MinAPIVersion": "1.24"}
INFO = {
    "OSType": "linux",
    "MemoryLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "SecurityOptions": ["name=seccomp,profile=default"],
}


def needs_image() -> None:
    """Skip the tests of containers where there is no engine, or no image of this checkout; anything else is a failure.

    Who has just made the image sets ``TESTS_NEED_IMAGE``: then neither can be missing, and nothing is skipped.
    """
    if why := _why_not():
        (pytest.fail if os.environ.get("TESTS_NEED_IMAGE") else pytest.skip)(why)


def _why_not() -> str:
    try:
        engine = Engine()
    except SandboxUnavailable as error:
        return str(error)
    try:
        if not engine.has_image(IMAGE):
            return f"the image {IMAGE} is missing: run `make image`"
    finally:
        engine.close()
    return asyncio.run(_stale())


async def _stale() -> str:
    async with DockerSandbox() as sandbox:
        try:
            await sandbox.isolation()
        except SandboxUnavailable as error:
            if "another version of the sandbox" in str(error):
                return f"the image {IMAGE} is not of this checkout: run `make image`"
            raise
    return ""


def containers(pid: int | None = None) -> list[str]:
    """The containers of a host (of this process, by default), in any state."""
    import docker

    client = docker.from_env()
    try:
        found = client.api.containers(all=True, filters={"label": LABEL})
        return [each["Id"] for each in found if f":{pid or os.getpid()}:" in each["Labels"][LABEL]]
    finally:
        client.close()


@contextmanager
def pretended_engine(folder: Path, answers: dict[str, tuple[int, Any]]) -> Iterator[str]:
    """An engine on a socket that answers a path's last part as it is told; its address is returned."""

    class Engine(Handler):
        def do_GET(self) -> None:
            self.read_body()
            last = self.path.partition("?")[0].rpartition("/")[2]
            self.say_json(*answers.get(last, (404, {"message": "no such path"})))

        do_POST = do_DELETE = do_GET

        def address_string(self) -> str:
            return "local"

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

    path = folder / "engine"
    with Server(str(path), Engine) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"unix://{path}"
        server.shutdown()


async def echo(request: CallRequest) -> CallReply:
    return CallReply(value=request.arguments)


def run_in(sandbox: DockerSandbox, *programs: str) -> list[Outcome]:
    """Run programs at once; each may call ``f(x=…)``, which answers its arguments."""

    async def go() -> list[Outcome]:
        async with sandbox:
            return await asyncio.gather(*(sandbox.run(Job(each, {"f": ("x",)}), echo) for each in programs))

    return asyncio.run(go())


def refusal(**given: Any) -> str:
    """What the sandbox says when it does not run a program."""
    with pytest.raises(SandboxUnavailable) as caught:
        run_in(DockerSandbox(**given), "answer = 1")
    return str(caught.value)
