"""Frames from a jail, the session that reads them, and the messages between a caller and the sandbox service."""

from __future__ import annotations

import asyncio
from typing import Any

from atc._records.outcome import Outcome
from atc.calls.contract import CallReply, CallRequest
from atc.errors import FrameError
from atc.sandboxes.channel import frames
from atc.sandboxes.channel.frames import Channel, Listener
from atc.sandboxes.channel.session import Session, as_call_request, as_program_error, value_of
from atc.sandboxes.contract import Limits
from atc.sandboxes.remote import messages
from benchmarks.fuzzing.target import Broken, Target

LIMIT = 1 << 20
_LIMITS = Limits(calls=50, calls_in_flight=4, channel_bytes=100_000)
_loop = asyncio.new_event_loop()


def run(data: bytes) -> None:
    """Read an input as a frame with its length, as a body, and as each message that it may be."""
    _stream(data)
    try:
        message = frames.decode(data)
    except FrameError:
        return
    if frames.decode(frames.encode(message)[4:]) != message:
        raise Broken("frames: what was decoded is not what its encoding decodes to")
    if messages.decode(messages.encode(message).decode()) != message:
        raise Broken("messages: what was decoded is not what its encoding decodes to")
    _read(message)
    sent = message.get("frames")
    if isinstance(sent, list):
        _loop.run_until_complete(_session([each for each in sent[:200] if isinstance(each, dict)]))


def _stream(data: bytes) -> None:
    at = 0
    try:
        while (found := frames.next_frame(data, at, LIMIT)) is not None:
            at = found[1]
    except FrameError:
        return


def _read(message: dict[str, Any]) -> None:
    for reader in (as_call_request, as_program_error, messages.reply_of, messages.outcome_of, value_of):
        try:
            made = reader(message)
        except FrameError:
            continue
        if isinstance(made, CallRequest):
            there = messages.decode(messages.encode(messages.call_message(made)).decode())
            if as_call_request(there) != made:
                raise Broken(f"messages: a call changed on its way: {made!r}")
    messages.pause_of(message)
    try:
        job = messages.job_of(message, _LIMITS)
    except FrameError:
        return
    if any(getattr(job.limits, name) > getattr(_LIMITS, name) for name in ("calls", "wall_s", "frame_bytes")):
        raise Broken(f"messages: a job has more than the service grants: {job.limits!r}")


class _Channel(Channel):
    """Hands over frames that are there already, unless it is told to pause."""

    def __init__(self, incoming: list[dict[str, Any]]) -> None:
        self._incoming, self._paused = incoming, False
        self._listener: Listener | None = None

    def listen(self, listener: Listener) -> None:
        self._listener = listener
        asyncio.get_running_loop().call_soon(self._hand_over)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        asyncio.get_running_loop().call_soon(self._hand_over)

    async def send(self, message: dict[str, Any]) -> None:
        frames.decode(frames.encode(message)[4:])

    def _hand_over(self) -> None:
        assert self._listener is not None
        while self._incoming and not self._paused:
            self.received += 100
            self._listener.on_frame(self._incoming.pop(0))
        if not self._paused:
            self._listener.on_end(None)


async def _session(incoming: list[dict[str, Any]]) -> None:
    made = 0

    async def call(request: CallRequest) -> CallReply:
        nonlocal made
        made += 1
        await asyncio.sleep(0)
        return CallReply(value=request.arguments, planned=bool(request.unknown))

    try:
        outcome = await Session(_Channel(incoming), _LIMITS, call).serve()
    except FrameError:
        return
    if not isinstance(outcome, Outcome) or made > _LIMITS.calls:
        raise Broken(f"session: {made} calls were made, and it ended with {outcome!r}")


TARGET = Target(
    "frames",
    run,
    words=(
        "op", "call", "done", "raised", "run", "reply", "pause", "resume", "outcome", "id", "tool", "args", "line",
        "unknown", "value", "answered", "error", "type", "message", "span", "origin", "trace", "items", "hint",
        "status", "planned", "program", "tools", "inputs", "limits", "dry_run", "kind", "isolation", "detail",
        "stdout", "stderr", "seconds", "cpu_s", "memory_bytes", "frames", "$bytes", "$$bytes", "aGk=", "wall_s",
        "calls", "finished", "N", "F",
    ),
)  # fmt: skip
