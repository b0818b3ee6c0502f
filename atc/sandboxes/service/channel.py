"""A caller's end of a run at the sandbox service: its WebSocket as the channel to a program."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from atc.calls.clock import Clock
from atc.errors import FrameError, SandboxUnavailable
from atc.outcome import Outcome
from atc.sandboxes.channel.session import Channel, Listener
from atc.sandboxes.contract import Limits
from atc.sandboxes.service import messages


class ServiceChannel(Channel):
    """The channel of one run, with how the run ended.

    Args:
        connection: the open WebSocket.
        limits: what the program may use at most.
        message_bytes: the largest message that the service takes.
        clock: the program's: the service gets a message when it stops and goes on.

    Attributes:
        outcome: how the program ended, without its value and error.
        refusal: why the service would not go on.
        handed_over: whether the program may have run by then.
    """

    def __init__(self, connection: ClientConnection, limits: Limits, message_bytes: int, clock: Clock) -> None:
        self._connection, self._limits, self._most, self._clock = connection, limits, message_bytes, clock
        self.outcome: Outcome | None = None
        self.refusal = ""
        self.handed_over = True
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._pumps: list[asyncio.Task[None]] = []

    def listen(self, listener: Listener) -> None:
        loop = asyncio.get_running_loop()
        self._pumps = [loop.create_task(self._listen(listener)), loop.create_task(self._follow_clock())]

    def pause(self) -> None:
        self._wanted.clear()

    def resume(self) -> None:
        self._wanted.set()

    async def _listen(self, listener: Listener) -> None:
        try:
            while (frame := await self._receive()) is not None:
                listener.on_frame(frame)
                await self._wanted.wait()
        except FrameError as error:
            listener.on_end(error)
        else:
            listener.on_end(None)

    async def _follow_clock(self) -> None:
        """Send a message whenever the clock stops or goes on; of changes that come faster, only the last."""
        changed = asyncio.Event()
        sent = False
        with self._clock.watched(lambda _: changed.set()), contextlib.suppress(ConnectionClosed):
            while True:
                if sent != self._clock.stopped:
                    sent = self._clock.stopped
                    await self._connection.send(messages.encode(messages.pause_message(sent)), text=True)
                else:
                    await changed.wait()
                    changed.clear()

    async def _receive(self) -> dict[str, Any] | None:
        """The next frame; ``None`` when there will be no more. Raises FrameError."""
        try:
            body = await self._connection.recv(decode=True)
        except ConnectionClosed as error:
            self.refusal = self.refusal or _why_closed(error)
            return None
        if not isinstance(body, str):
            raise FrameError("it sent bytes in place of text")
        self.received += len(body)
        message = messages.decode(body)
        match message.get("op"):
            case "call":
                return message
            case "refused":
                self.refusal = str(message.get("message"))[:1000]
                self.handed_over = message.get("handed_over") is not False
                return None
            case "outcome":
                self.outcome = messages.outcome_of(message)
                return _report(message)
        raise FrameError("it sent a message of no known kind")

    async def send(self, message: dict[str, Any]) -> None:
        if message["op"] == "run":
            limits = dataclasses.asdict(self._limits)
            del limits["host_s"]  # the service has a share of its own for each program
            message = {**message, "limits": limits}
        body = messages.encode(message)
        if why := self._unacceptable(body):
            if message["op"] == "run":
                raise SandboxUnavailable(f"the sandbox service does not take this program: {why}")
            error = {"message": f"its response cannot be passed on: {why}", "status": None}
            body = messages.encode({"op": "reply", "id": message["id"], "error": error})
        with contextlib.suppress(ConnectionClosed):
            await self._connection.send(body, text=True)

    async def close(self) -> None:
        """Let the connection go; the service ends a program whose caller has gone."""
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        if self.outcome is not None:
            self._connection.transport.abort()  # the outcome is here: there is nothing to wait for
        else:
            await self._connection.close()

    def _unacceptable(self, body: bytes) -> str:
        if len(body) > self._most:
            return f"it takes {len(body):,} bytes, and the service takes {self._most:,}"
        return messages.acceptable(body)


def _report(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return a program's own report inside an outcome, in the form of a frame."""
    match message["kind"]:
        case "finished":
            report = {name: message.get(name) for name in ("answered", "value")}
            return {"op": "done", **report, "say": message.get("said")}
        case "raised":
            return {"op": "raised", "error": message.get("error")}
    return None


def _why_closed(error: ConnectionClosed) -> str:
    code = error.rcvd.code if error.rcvd is not None else None
    if code == 1009:
        return "the service ended the run: a message was too large for it"
    if code in (1001, 1012):
        return "the service was shut down during the run"
    return ""
