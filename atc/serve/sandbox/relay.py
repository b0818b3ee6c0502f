"""One run over its WebSocket: a program comes, its calls go to the caller and are answered, an outcome ends it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

from starlette.websockets import WebSocket, WebSocketDisconnect

from atc._records.outcome import Outcome
from atc.calls.clock import Clock
from atc.calls.contract import CallHandler, CallReply, CallRequest
from atc.errors import FrameError
from atc.sandboxes.contract import Job, Limits
from atc.sandboxes.remote import messages

SEND_S = 10.0
"""Seconds that a caller gets to take the outcome."""

_LOST = (WebSocketDisconnect, RuntimeError)  # what sending over a connection that has gone raises

RunJob = Callable[[Job, CallHandler], Awaitable[Outcome]]


class Gone(Exception):
    """The caller has closed its connection, or broke the WebSocket's own rules (``code``)."""

    def __init__(self, code: int) -> None:
        super().__init__(f"closed with {code}")
        self.code = code


class _Waiting(NamedTuple):
    """A call that the caller has not answered, and the task that will pass the answer on."""

    answer: asyncio.Future[CallReply]
    task: asyncio.Task[Any]


class Relay:
    """Serves one connected run. Use :meth:`take` and then :meth:`serve`, once.

    Args:
        socket: the accepted connection.
        limits: what a program may use at most, whatever the caller asks for.
        most_held: bytes of replies to hold for a program that does not read them; then the caller is read no further.
        called: is called for every tool call that is passed on.
        pause_s: seconds for which the caller may stop the program's clock, all pauses together.
    """

    def __init__(
        self, socket: WebSocket, limits: Limits, most_held: int, called: Callable[[], None], pause_s: float
    ) -> None:
        self._socket, self._limits, self._most_held, self._called = socket, limits, most_held, called
        self._pause_s = pause_s
        self._sending = asyncio.Lock()
        self._waiting: dict[int, _Waiting] = {}
        self._held: dict[asyncio.Task[Any], int] = {}
        self._last = 0

    async def take(self, seconds: float) -> Job:
        """Return the job that the caller sends first.

        Raises:
            FrameError: what came is no job.
            TimeoutError: nothing came in time.
            Gone: the caller went away.
        """
        async with asyncio.timeout(seconds):
            return messages.job_of(messages.decode(await self._receive()), self._limits)

    async def serve(self, job: Job, run: RunJob) -> Outcome:
        """Run the job and pass its calls to and fro. However this ends, the program has been ended before.

        Raises:
            FrameError: the caller broke the rules.
            Gone: the caller went away.
            SandboxUnavailable: the isolation cannot be had (any more); nothing was run.
        """
        pauses = Pauses(job.clock, self._pause_s)
        program = asyncio.ensure_future(run(job, self._call))
        listening = asyncio.create_task(self._listen(pauses))
        try:
            await asyncio.wait({program, listening}, return_when=asyncio.FIRST_COMPLETED)
            if not program.done():
                await listening  # it never returns: this raises why nothing more comes from the caller
            outcome = await program
            if outcome.kind == "limit" and pauses.used_up:
                why = f"its caller stopped its clock for {self._pause_s:g} s, and this service allows no more"
                outcome = dataclasses.replace(outcome, detail=f"{outcome.detail}; {why}")
            return outcome
        finally:
            await _ended(program, listening)

    async def send_last(self, message: dict[str, Any], seconds: float = SEND_S) -> None:
        """Send a last message and close. A caller who does not take it is left alone."""
        with contextlib.suppress(TimeoutError, *_LOST):
            async with asyncio.timeout(seconds):
                await self._send(messages.encode(message))
                await self._socket.close(1000 if message["op"] == "outcome" else 1008)

    async def _call(self, request: CallRequest) -> CallReply:
        body = messages.encode(messages.call_message(request))
        if len(body) > messages.most_bytes(self._limits):  # numbers can take more digits than the program sent
            raise FrameError("a call takes too many bytes when it is written out")
        answer: asyncio.Future[CallReply] = asyncio.get_running_loop().create_future()
        task = asyncio.current_task()  # it ends when the program has been sent the reply
        assert task is not None
        self._waiting[request.number] = _Waiting(answer, task)
        self._last = max(self._last, request.number)
        self._called()
        try:
            with contextlib.suppress(*_LOST):  # `_listen` notices that the caller has gone, which ends the program
                await self._send(body)
            return await answer
        finally:
            del self._waiting[request.number]

    async def _listen(self, pauses: Pauses) -> None:
        while True:
            while sum(self._held.values()) > self._most_held:
                with pauses.suspended():  # or a program that reads nothing would keep its caller's `resume` unread
                    await asyncio.wait(self._held, return_when=asyncio.FIRST_COMPLETED)
            text = await self._receive()
            message = messages.decode(text)
            if (stopped := messages.pause_of(message)) is not None:
                pauses.ask(stopped)
                continue
            number, reply = messages.reply_of(message)
            waiting = self._waiting.get(number)
            if waiting is not None and not waiting.answer.done():
                self._held[waiting.task] = len(text)
                waiting.task.add_done_callback(lambda task: self._held.pop(task, None))
                waiting.answer.set_result(reply)
            elif not 0 < number <= self._last:  # one that came late is dropped
                raise FrameError("a reply came for a call that was never made")

    async def _receive(self) -> str:
        event = await self._socket.receive()
        if event["type"] == "websocket.disconnect":
            raise Gone(event.get("code") or 1005)
        text = event.get("text")
        if text is None:
            raise FrameError("a message must be text, not binary")
        return str(text)

    async def _send(self, body: bytes) -> None:
        async with self._sending:  # calls go out in the order in which they were made
            await self._socket.send({"type": "websocket.send", "text": body.decode()})


async def _ended(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Pauses:
    """Stops a program's clock as its caller asks, for a number of seconds in all; after them it goes on for good.

    The caller alone knows that it waits for a person. The service bounds that wait, as it bounds everything else.

    Args:
        clock: the program's.
        most_s: seconds for which it may stand still, all pauses together.
    """

    def __init__(self, clock: Clock, most_s: float) -> None:
        self._clock, self._left_s = clock, most_s
        self._asked = False
        self._stopped: contextlib.ExitStack | None = None
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def used_up(self) -> bool:
        """Return whether the clock can be stopped no more."""
        return self._left_s <= 0

    def ask(self, stopped: bool) -> None:
        """Stop the clock or let it go on, as the caller asks. To ask twice for the same changes nothing."""
        self._asked = stopped
        if stopped:
            self._stop()
        else:
            self._go_on()

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Let the clock go on for the block, whatever was asked: nobody listens to the caller, who could not resume."""
        self._go_on()
        try:
            yield
        finally:
            if self._asked:
                self._stop()

    def _stop(self) -> None:
        if self._stopped is not None or self.used_up:
            return
        loop = asyncio.get_running_loop()
        self._stopped = contextlib.ExitStack()
        self._stopped.enter_context(self._clock.paused())
        self._began = loop.time()
        self._timer = loop.call_later(self._left_s, self._end)

    def _go_on(self) -> None:
        if self._stopped is None or self._timer is None:
            return
        self._timer.cancel()
        self._left_s -= asyncio.get_running_loop().time() - self._began
        self._stopped.close()
        self._stopped = None

    def _end(self) -> None:
        self._left_s = 0.0
        self._go_on()
