"""Calls of one object of a framework, in this process."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

import anyio.to_thread

from atc.errors import ToolError
from atc.tools.functions import failure_of, to_answer
from atc.tools.tool import AnnouncingTransport, Answered, GradedTransport, Sending

Arguments = dict[str, Any]


@dataclass(frozen=True, eq=False)
class ObjectTransport(AnnouncingTransport, GradedTransport):
    """Calls an object of a framework: JSON values in, what it returns out as JSON values and bytes.

    Attributes:
        call: makes the call, given the arguments and whether the tool is taken for a read; returns the value, or an
            awaitable of it.
        in_thread: ``call`` blocks, so it runs in a worker thread.
        code: the user's code behind it, for whether an exception is a bug of it.
        explain: the error that an exception of the framework is; ``None`` for any other exception.
        check: is given the arguments before anything of the call may happen, and raises ToolError.
        held: what must be entered for the length of a run; tools that share it have an equal one.
        reads: the tool only reads, so a call that failed did nothing.
        approved_by_caller: the framework wants approval before a call. Ours stands in its place: it is never a read.
    """

    call: Callable[[Arguments, bool], Any]
    in_thread: bool = False
    code: Callable[..., Any] | None = None
    explain: Callable[[BaseException], ToolError | None] = lambda _: None
    check: Callable[[Arguments], None] = lambda _: None
    held: AbstractAsyncContextManager[Any] | None = None
    reads: bool = False
    approved_by_caller: bool = False

    def graded(self, *, reads: bool) -> ObjectTransport:
        """The same, for a tool that is taken for a read, or is not."""
        return replace(self, reads=reads)

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        """What the tools of one import share."""
        return self.held

    async def __call__(self, arguments: Arguments) -> Any:
        """Make one call.

        Raises:
            ToolError: as :meth:`announced`.
        """
        answered = await self.announced(arguments, lambda: None)
        return answered if answered.notes else answered.value

    async def announced(self, arguments: Arguments, sending: Sending) -> Answered:
        """Make one call; ``sending`` is called once its arguments were checked.

        Raises:
            ToolError: the object refuses the arguments, raises an exception, or returns what is no JSON value.
        """
        self.check(arguments)
        if self.in_thread:
            anyio.to_thread.current_default_thread_limiter()  # the first of a process loads modules
            sending()
            # As for functions: the thread is abandoned on cancellation.
            work = functools.partial(self._call, arguments)
            answer = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        else:
            sending()
            answer = self._call(arguments)
        if inspect.isawaitable(answer):
            answer = await self._await(answer)
        return answer if isinstance(answer, Answered) else Answered(answer)

    def _call(self, arguments: Arguments) -> Any:
        try:
            answer = self.call(arguments, self.reads)
        except (Exception, SystemExit) as error:  # whatever a tool raises, the run goes on
            raise self._failed(error) from error
        return answer if inspect.isawaitable(answer) else self._converted(answer)

    async def _await(self, answer: Awaitable[Any]) -> Any:
        try:
            value = await answer
        except (Exception, SystemExit) as error:  # as above
            raise self._failed(error) from error
        return self._converted(value)

    def _converted(self, value: Any) -> Any:
        try:
            return to_answer(value)
        except ToolError as error:
            raise self._graded(error) from error

    def _failed(self, error: BaseException) -> ToolError:
        if isinstance(error, ToolError):
            return self._graded(error)
        return self._graded(self.explain(error) or failure_of(error, self.code))

    def _graded(self, error: ToolError) -> ToolError:
        if self.reads:
            error.outcome = "refused"  # nothing can have been done
        return error
