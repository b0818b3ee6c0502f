"""A real sandbox service on loopback, in a thread of this process."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from atc._records.outcome import Outcome
from atc.calls.contract import CallReply, CallRequest
from atc.sandboxes.conformance import kit
from atc.sandboxes.contract import Job, Limits
from atc.sandboxes.remote import messages
from atc.sandboxes.remote.client import ServiceSandbox
from atc.serve.accepting import listen
from atc.serve.http import DrainingServer
from atc.serve.sandbox.accounts import CountingLoop
from atc.serve.sandbox.server import make_server
from atc.serve.sandbox.service import Service, ServiceSettings
from atc.serve.tokens import Tenants
from tests.support.sandbox import answering

TOKEN = "a-token-of-the-tests-0123456789"
OTHER = "another-token-of-the-tests-0123"


@dataclass
class Running:
    """A service that runs."""

    url: str
    service: Service
    server: DrainingServer
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread

    def sandbox(self, token: str = TOKEN, require: str = "F", **limits: Any) -> ServiceSandbox:
        return ServiceSandbox(self.url, token, Limits(**{"wall_s": 60.0, **limits}), require)

    def run(
        self, program: str, tools: dict[str, Callable[[dict[str, Any]], Any]] | None = None, **limits: Any
    ) -> Outcome:
        """Run a program. A tool is a function of its arguments; a ``CallReply`` that it returns goes out as it is."""
        tools = tools or {}

        async def go() -> Outcome:
            async with self.sandbox(**limits) as sandbox:
                return await sandbox.run(Job(program, dict.fromkeys(tools, ()), sandbox.limits), answering(tools))

        return asyncio.run(go())

    def post(self, token: str = TOKEN, **more: Any) -> httpx.Response:
        return httpx.post(f"{self.url}/v1/runs", headers={"Authorization": f"Bearer {token}"}, **more)

    def metric(self, line: str) -> float:
        """The value of a line of ``/metrics``; 0 while there is none."""
        text = httpx.get(f"{self.url}/metrics").text
        return next((float(row.rpartition(" ")[2]) for row in text.splitlines() if row.startswith(line + " ")), 0.0)

    def impatient(self, connect_s: float) -> None:
        """From now on a caller who has connected must send the program so soon; to connect there is time as before."""
        self.service.settings = dataclasses.replace(self.service.settings, connect_s=connect_s)

    def channel(self, granted: dict[str, Any] | None = None, token: str = "") -> ClientConnection:
        """Connect to a run by hand."""
        granted = granted or self.post().json()
        return connect(
            self.url.replace("http", "ws") + granted["url"],
            additional_headers={"Authorization": f"Bearer {token or granted['channel_token']}"},
        )


@contextmanager
def serving(tenants: dict[str, str] | None = None, **settings: Any) -> Iterator[Running]:
    """A service of its own, ended when the block is left."""
    made = ServiceSettings(Tenants(tenants or {"default": TOKEN}), **{"require": "F", "drain_s": 0.0, **settings})
    sock = listen("127.0.0.1", 0)
    up = threading.Event()
    running: list[Any] = []

    async def main() -> None:
        service = Service(made)
        await service.start()
        server = make_server(service)
        running.append((service, server, asyncio.get_running_loop()))
        up.set()
        await server.serve([sock])

    def run() -> None:
        with asyncio.Runner(loop_factory=CountingLoop) as runner:
            runner.run(main())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert up.wait(30), "the service did not start"
    service, server, loop = running[0]
    try:
        yield Running(f"http://127.0.0.1:{sock.getsockname()[1]}", service, server, loop, thread)
    finally:
        if thread.is_alive():
            server.end()
        thread.join(60)
        assert not thread.is_alive()


def send_program(
    channel: ClientConnection, program: str, tools: dict[str, list[str]] | None = None, **limits: Any
) -> None:
    """Send the `run` message of a program."""
    message = {"op": "run", "program": program, "tools": tools or {}, "limits": limits}
    channel.send(messages.encode(message), text=True)


def receive(channel: ClientConnection) -> dict[str, Any]:
    """Return the next message of the service."""
    return messages.decode(str(channel.recv(timeout=30)))


def close_code(channel: ClientConnection) -> int | None:
    """How the service closed a connection; what it says before is passed over."""
    try:
        while True:
            channel.recv(timeout=30)
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else None


def spinning() -> list[int]:
    """Programs that run on this machine and that we started."""
    return [pid for pid, state in kit.sandbox_processes().items() if state == "R"]


async def no_tools(request: CallRequest) -> CallReply:
    raise AssertionError("no program of this test calls a tool")


def soon(true: Callable[[], Any], seconds: float = 30.0) -> bool:
    """Whether it comes true: a busy machine gets time, what never comes true is false in the end."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if true():
            return True
        time.sleep(0.02)
    return False


def alive(pid: int) -> bool:
    """Whether a process is there and not merely unasked after."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
