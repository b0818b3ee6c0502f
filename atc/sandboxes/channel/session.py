"""The session with one program over its channel: its calls are answered, several at once, until it reports its end.

Nothing that it sends is believed beyond its form: identifiers must rise, calls are counted and those in flight bounded
(more wait unread), a report ends the session. The broker decides what a call may do.
"""

from __future__ import annotations

import asyncio
import contextvars
import operator
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable, Container, Coroutine
from functools import partial
from typing import Any

from atc._records.outcome import Outcome, ProgramError
from atc._records.packing import pack, unpack
from atc.calls.clock import HostTime, Steps
from atc.calls.contract import CallHandler, CallReply, CallRequest
from atc.errors import FrameError
from atc.sandboxes.channel.frames import Channel, HostShare
from atc.sandboxes.contract import Job, Limits
from atc.sandboxes.inputs import packed

MAX_LINE = 10**6
MAX_STEPS = 50
"""Steps of a path into a response that a program may claim."""
MAX_UNKNOWN = 1_000
"""Places in the values of planned calls on which the arguments of one call may rest."""
MAX_SAID = 2_001
"""Characters that are kept of what a program says of its answer: one more than a sentence may have."""


class Session:
    """The session with one program, host side: :meth:`begin`, then :meth:`serve`, once.

    Args:
        channel: to the program.
        limits: what it may use.
        call: answers its calls.
        account: of whom it belongs to: what the host does for it is added there.

    Attributes:
        share: what the host does for it, against its limit.
    """

    def __init__(self, channel: Channel, limits: Limits, call: CallHandler, account: HostTime | None = None) -> None:
        self._channel, self._limits, self._call = channel, limits, call
        self.share = channel.share = HostShare(account or HostTime(), limits.host_s, self._used_up)
        self._loop = asyncio.get_running_loop()
        self._outcome: asyncio.Future[Outcome] = self._loop.create_future()
        self._last_id = 0
        self._count = 0
        self._calls: set[asyncio.Task[None]] = set()
        self._at_once: FirstStep
        self._not_begun = 0
        self._full = False

    async def begin(self, job: Job) -> None:
        """Send the program and what it is given.

        Raises:
            UsageError: an input has no JSON form, or is too large. Nothing was sent.
        """
        tools = {name: list(names) for name, names in job.tools.items()}
        limits = self._limits
        packing = partial(packed, frame_bytes=limits.frame_bytes, channel_bytes=limits.channel_bytes)
        inputs = await asyncio.to_thread(packing, job.inputs) if job.inputs else {}  # they may be large
        body = {"program": job.program, "tools": tools, "inputs": inputs}
        dry = {"dry_run": True} if job.dry_run else {}
        linked = {"hoisted": job.hoisted} if job.hoisted else {}
        begun = {"start": {"at": job.start.at, "seed": job.start.seed}} if job.start is not None else {}
        await self._channel.send({"op": "run", **body, **dry, **linked, **begun, "frame_bytes": limits.frame_bytes})

    async def serve(self) -> Outcome:
        """Serve the program to its end.

        Raises:
            FrameError: it broke the rules of the channel.
            Exception: whatever the call handler raised: the host is broken then, not the program.
        """
        self._at_once = FirstStep(self._over)
        self._channel.listen(self)
        try:
            return await self._outcome
        finally:
            self._channel.pause()
            await self._end_calls()

    # -- what the channel hands over -------------------------------------------------------------------------------

    def on_frame(self, frame: dict[str, Any]) -> None:
        """Take a frame; whatever goes wrong with it ends the session."""
        try:
            self._take(frame)
        except BaseException as error:  # serve() raises it
            self._fail(error)
            if isinstance(error, KeyboardInterrupt | SystemExit):  # that is the loop's, too, as from a task
                raise

    def on_end(self, error: Exception | None) -> None:
        """End the session: the program is gone, or (``FrameError``) broke the rules of the channel."""
        if error is not None:
            self._fail(error)
        else:
            self._finish(Outcome("killed"))

    def _take(self, frame: dict[str, Any]) -> None:
        if self._channel.received > self._limits.channel_bytes:
            self._stop(f"it sent more than {self._limits.channel_bytes:,} bytes to its tools")
            return
        match frame.get("op"):
            case "call":
                self._begin(as_call_request(frame))
            case "done":
                value, said = value_of(frame.get("value")), frame.get("say")
                said = said[:MAX_SAID] if isinstance(said, str) else ""
                self._finish(Outcome("finished", answered=frame.get("answered") is True, value=value, said=said))
            case "raised":
                self._finish(Outcome("raised", error=as_program_error(frame.get("error"))))
            case op:
                raise FrameError(f"the sandbox sent an unknown frame {str(op)[:40]!r}")

    def _used_up(self) -> None:
        self._stop(f"the host spent more than {self._limits.host_s:g} s of processor time on its calls")

    def _stop(self, why: str) -> None:
        self._finish(Outcome("limit", detail=why))

    def _finish(self, outcome: Outcome) -> None:
        self._channel.pause()
        if not self._outcome.done():
            self._outcome.set_result(outcome)

    def _fail(self, error: BaseException) -> None:
        self._channel.pause()
        if not self._outcome.done():
            self._outcome.set_exception(error)

    # -- calls -----------------------------------------------------------------------------------------------------

    def _begin(self, request: CallRequest) -> None:
        if self._count >= self._limits.calls:
            self._stop(f"it made more than {self._limits.calls:,} tool calls")
            return
        if request.number <= self._last_id:
            raise FrameError(f"call number {request.number} does not follow {self._last_id}")
        self._last_id = request.number
        self._count += 1
        if not self._not_begun and self._at_once.can_begin():  # else it would overtake a call that came before it
            if self._at_once.begin(self._answer(request), self.share.measured):
                return
        else:
            self._not_begun += 1
            task = self._loop.create_task(self._begun(request))
            self._calls.add(task)
            task.add_done_callback(self._answered)
        if len(self._calls) + (not self._at_once.idle) >= self._limits.calls_in_flight:
            self._full = True
            self._channel.pause()

    async def _begun(self, request: CallRequest) -> None:
        self._not_begun -= 1
        await self.share.steps(self._answer(request))

    async def _answer(self, request: CallRequest) -> None:
        reply = await self._call(request)
        if reply.ends:
            self._finish(Outcome("finished"))
            return
        await self._channel.send(_reply_frame(request.number, reply))

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        self._over(None if task.cancelled() else task.exception())

    def _over(self, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)
        elif self._full and not self._outcome.done():
            self._full = False
            self._channel.resume()

    async def _end_calls(self) -> None:
        calls = [*self._calls, self._at_once.task]
        for task in calls:
            task.cancel()
        if self._calls or not self._at_once.idle:
            await asyncio.gather(*calls, return_exceptions=True)


def _reply_frame(number: int, reply: CallReply) -> dict[str, Any]:
    frame: dict[str, Any] = {"op": "reply", "id": number}
    if reply.passed_s is not None:
        frame["passed"] = reply.passed_s
    if reply.error is not None:
        frame["error"] = {"message": reply.error, "status": reply.status}
        return frame | {"done": True} if reply.done else frame
    frame["value"] = pack(reply.value)
    return frame | {"planned": True} if reply.planned else frame


def value_of(packed: Any) -> Any:
    """Return a value from a frame, its tagged bytes as bytes.

    Raises:
        FrameError: a tag does not hold bytes.
    """
    try:
        return unpack(packed)
    except ValueError as error:
        raise FrameError(f"a frame holds bytes that are not valid: {error}") from None


def as_call_request(frame: dict[str, Any]) -> CallRequest:
    """Return the call that a frame asks for.

    Raises:
        FrameError: it asks for none.
    """
    number, tool, arguments, line = frame.get("id"), frame.get("tool"), frame.get("args"), frame.get("line")
    if (
        type(number) is not int
        or not 0 < number < 2**53
        or not isinstance(tool, str)
        or not isinstance(arguments, dict)
    ):
        raise FrameError("the sandbox sent a call of the wrong form")
    given = {name: value_of(each) for name, each in arguments.items()}
    unknown = _unknown(frame.get("unknown"))
    forms = _forms(frame.get("forms"), unknown)
    return CallRequest(
        number, tool[:200], given, _line(line), unknown=unknown, forms=forms, outer=_line(frame.get("outer"))
    )


def as_program_error(raw: Any) -> ProgramError:
    """Return the error in a frame, each field only where it has the right form.

    Raises:
        FrameError: the frame holds no error.
    """
    if not isinstance(raw, dict):
        raise FrameError("the sandbox reported an error of the wrong form")
    tool, parameter = raw.get("tool"), raw.get("parameter")
    return ProgramError(
        type=str(raw.get("type"))[:100],
        message=str(raw.get("message"))[:2000],
        line=_line(raw.get("line")),
        span=_span(raw.get("span")),
        tool=tool[:200] if isinstance(tool, str) else None,
        parameter=parameter[:200] if isinstance(parameter, str) else None,
        call=_items(raw.get("call")),
        origin=_origin(raw.get("origin")),
        trace=_trace(raw.get("trace")),
        items=_items(raw.get("items")),
        hint=hint[:500] if isinstance(hint := raw.get("hint"), str) else "",
    )


def _unknown(raw: Any) -> dict[str, list[tuple[int, tuple[str | int, ...]]]]:
    """Raises FrameError where that has another form, or is too much."""
    if raw is None:
        return {}
    well_formed = isinstance(raw, dict) and all(isinstance(places, list) for places in raw.values())
    if not well_formed or sum(map(len, raw.values())) > MAX_UNKNOWN:
        raise FrameError("the sandbox sent a call of the wrong form")
    made = {name: [_origin(place) for place in places] for name, places in raw.items()}
    found = {name: [place for place in places if place is not None] for name, places in made.items()}
    if found != made or not all(found.values()):
        raise FrameError("the sandbox sent a call of the wrong form")
    return found


def _forms(raw: Any, unknown: Container[str]) -> dict[str, Any] | None:
    """What is no form is read where it is used. Raises FrameError where it is of another argument, or no object."""
    if raw is None:
        return None
    if not isinstance(raw, dict) or not all(name in unknown for name in raw):
        raise FrameError("the sandbox sent a call of the wrong form")
    return {name: value_of(form) for name, form in raw.items()}


def _line(raw: Any) -> int:
    return raw if type(raw) is int and 0 <= raw < MAX_LINE else 0


def _items(raw: Any) -> int | None:
    return raw if type(raw) is int and 0 <= raw < 2**53 else None


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


Ended = Callable[[BaseException | None], None]


class FirstStep:
    """A task that stands ready. A coroutine is begun in its name; where that waits, the task goes on with it.

    One that waits for nothing is over with its first step. Making a task, its first step and its end take the event
    loop three rounds, which is more than all else of a small call.

    So the coroutine has a task to be cancelled, as ``asyncio.timeout`` does, and variables of its own context from
    its first step on, as any other.

    Args:
        ended: is told that a coroutine which had to wait has ended, and what it raised.
    """

    def __init__(self, ended: Ended) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), ended
        self._given: asyncio.Future[None] = self._loop.create_future()
        self._work: Steps[None] | None = None
        self._ready = False
        self.task = self._loop.create_task(self._serve())

    def can_begin(self) -> bool:
        """Return whether a coroutine can be begun now: the task is idle, and no other is in the middle of a step."""
        return self._ready and asyncio.current_task() is None

    @property
    def idle(self) -> bool:
        """Return whether it has no coroutine."""
        return self._work is None

    def begin(self, work: Coroutine[Any, Any, None], make: Callable[..., Any] = operator.call) -> bool:
        """Make the first step of ``work``, where :meth:`can_begin`. Return whether it is over.

        One that cancels itself is over, as a task would be. ``make``: makes the other steps; the first one is part of
        what the caller does.

        Raises:
            Exception: what it raised in this step.
        """
        context = contextvars.copy_context()
        steps = Steps(work, context.run)
        _enter_task(self._loop, self.task)
        try:
            if steps.step():
                return True
        except asyncio.CancelledError:
            return True
        finally:
            _leave_task(self._loop, self.task)
            self._ready = not self.task.cancelling()  # by itself, then: it takes no other
        steps.make = partial(make, context.run)
        self._ready, self._work = False, steps
        if not self._given.done():
            self._given.set_result(None)
        return False

    async def _serve(self) -> None:
        while True:
            self._ready, cancelled = True, None
            try:
                await self._given
            except asyncio.CancelledError as error:
                if self._work is None:
                    raise
                cancelled = error  # that is for the coroutine
            assert self._work is not None
            problem: BaseException | None = None
            try:
                await self._rest(self._work, cancelled)
            except asyncio.CancelledError:
                pass  # it is over, as a task would be
            except BaseException as error:
                problem = error
            self._work, self._given = None, self._loop.create_future()
            self._ended(problem)
            if self.task.cancelling():  # a cancellation that nobody took back would be seen by the next
                return

    async def _rest(self, work: Steps[None], error: BaseException | None) -> None:
        # as a task does it: what is waited for is cancelled, and tells of it
        if error is not None and not (asyncio.isfuture(work.waits_for) and work.waits_for.cancel()):
            work.step(error)
        await work
