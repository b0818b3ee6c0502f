"""Talk with one program over its channel: answer its calls, several at once, until it reports its end.

Nothing that it says is believed beyond its form: identifiers must rise, calls are counted and those in flight bounded
(more wait unread), a report ends the talk. What a call may do is the broker's business.
"""

from __future__ import annotations

import abc
import asyncio
from typing import Any

from atc.errors import FrameError
from atc.execution.sandbox import CallHandler, CallReply, CallRequest, Job, Limits, Outcome, ProgramError

MAX_LINE = 10**6
MAX_STEPS = 50
"""Steps of a path into a response that a program may claim."""


class Channel(abc.ABC):
    """What carries frames to one program and back: a socket pair, or a connection to a service.

    Attributes:
        received: bytes that came in so far.
    """

    received: int = 0

    @abc.abstractmethod
    async def receive(self) -> dict[str, Any] | None:
        """The next frame; ``None`` when the other end has gone.

        Raises:
            FrameError: what came is no frame.
        """

    @abc.abstractmethod
    async def send(self, message: dict[str, Any]) -> None:
        """Send a frame. One that cannot arrive any more is dropped: receiving tells how it ended."""


class Conversation:
    """One program's talk, host side. Use :meth:`hold` once."""

    def __init__(self, channel: Channel, limits: Limits, call: CallHandler) -> None:
        self._channel, self._limits, self._call = channel, limits, call
        self._last_id = 0
        self._count = 0
        self._calls: set[asyncio.Task[None]] = set()
        self._talk: asyncio.Task[Any] | None = None
        self._broken: BaseException | None = None

    async def hold(self, job: Job) -> Outcome:
        """Send the program and serve it to its end.

        Raises:
            FrameError: it broke the rules of the channel.
            Exception: whatever the call handler raised: the host is broken then, not the program.
        """
        self._talk = asyncio.current_task()
        try:
            await self._channel.send(
                {"op": "run", "program": job.program, "tools": {name: list(names) for name, names in job.tools.items()}}
            )
            return await self._serve()
        except asyncio.CancelledError:
            if self._broken is None or self._talk is None:
                raise
            self._talk.uncancel()
            raise self._broken from None
        finally:
            await self._end_calls()

    async def _serve(self) -> Outcome:
        while True:
            while len(self._calls) >= self._limits.calls_in_flight:
                await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)
            frame = await self._channel.receive()
            if frame is None:
                return Outcome("killed")
            if self._channel.received > self._limits.channel_bytes:
                return Outcome("limit", detail=f"it sent more than {self._limits.channel_bytes:,} bytes to its tools")
            match frame.get("op"):
                case "call":
                    if self._count >= self._limits.calls:
                        return Outcome("limit", detail=f"it made more than {self._limits.calls:,} tool calls")
                    self._begin(as_call_request(frame))
                case "done":
                    return Outcome("finished", answered=frame.get("answered") is True, value=frame.get("value"))
                case "raised":
                    return Outcome("raised", error=as_program_error(frame.get("error")))
                case op:
                    raise FrameError(f"the sandbox sent an unknown frame {str(op)[:40]!r}")

    def _begin(self, request: CallRequest) -> None:
        if request.number <= self._last_id:
            raise FrameError(f"call number {request.number} does not follow {self._last_id}")
        self._last_id = request.number
        self._count += 1
        task = asyncio.create_task(self._answer(request))
        self._calls.add(task)
        task.add_done_callback(self._ended)

    async def _answer(self, request: CallRequest) -> None:
        reply = await self._call(request)
        await self._channel.send(_reply_frame(request.number, reply))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and self._broken is None:
            self._broken = error
            if self._talk is not None:
                self._talk.cancel()  # it waits for the program, which waits for this call

    async def _end_calls(self) -> None:
        calls = list(self._calls)
        for task in calls:
            task.cancel()
        if calls:
            await asyncio.gather(*calls, return_exceptions=True)


def _reply_frame(number: int, reply: CallReply) -> dict[str, Any]:
    if reply.error is not None:
        return {"op": "reply", "id": number, "error": {"message": reply.error, "status": reply.status}}
    return {"op": "reply", "id": number, "value": reply.value}


def as_call_request(frame: dict[str, Any]) -> CallRequest:
    """The call that a frame asks for. Raises FrameError when it is none."""
    number, tool, arguments, line = (frame.get(key) for key in ("id", "tool", "args", "line"))
    if (
        type(number) is not int
        or not 0 < number < 2**53
        or not isinstance(tool, str)
        or not isinstance(arguments, dict)
    ):
        raise FrameError("the sandbox sent a call that is no call")
    return CallRequest(number, tool[:200], arguments, _line(line))


def as_program_error(raw: Any) -> ProgramError:
    """The error that a frame tells, as far as it has the form of one. Raises FrameError when it is none."""
    if not isinstance(raw, dict):
        raise FrameError("the sandbox reported an error that is no error")
    tool = raw.get("tool")
    return ProgramError(
        type=str(raw.get("type"))[:100],
        message=str(raw.get("message"))[:2000],
        line=_line(raw.get("line")),
        span=_span(raw.get("span")),
        tool=tool[:200] if isinstance(tool, str) else None,
        origin=_origin(raw.get("origin")),
        trace=_trace(raw.get("trace")),
    )


def _line(raw: Any) -> int:
    return raw if type(raw) is int and 0 <= raw < MAX_LINE else 0


def _span(raw: Any) -> tuple[int, int, int, int] | None:
    if not isinstance(raw, list) or len(raw) != 4 or not all(type(item) is int and abs(item) < 2**31 for item in raw):
        return None
    line, end_line, column, end_column = raw
    return line, end_line, column, end_column


def _origin(raw: Any) -> tuple[int, tuple[str | int, ...]] | None:
    if not isinstance(raw, list) or len(raw) != 2 or type(raw[0]) is not int or not isinstance(raw[1], list):
        return None
    if len(raw[1]) > MAX_STEPS or not all(type(step) in (str, int) for step in raw[1]):
        return None
    return raw[0], tuple(raw[1])


def _trace(raw: Any) -> tuple[tuple[str, int], ...]:
    frames_ = raw[:20] if isinstance(raw, list) else []
    return tuple(
        (str(frame[0])[:80], _line(frame[1])) for frame in frames_ if isinstance(frame, list) and len(frame) == 2
    )
