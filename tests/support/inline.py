"""A sandbox that is none: the tests' own programs in a thread of this process, for tests of what is around it."""

from __future__ import annotations

import ast
import asyncio
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from atc._records.outcome import Outcome, ProgramError
from atc.calls.contract import CallHandler, CallReply, CallRequest
from atc.sandboxes.contract import Job, Limits, Sandbox


class ToolError(Exception):
    """As programs know it, with where it came from."""

    line, tool = 0, ""


def outermost() -> int:
    """Return the outermost line of the program that runs."""
    frame, line = sys._getframe(1), 0
    while frame is not None:
        line = frame.f_lineno if frame.f_code.co_filename == "<program>" else line
        frame = frame.f_back  # type: ignore[assignment]
    return line


def parts_of(job: Job) -> list[Any]:
    """Return what is run of a job: the definitions at its end first."""
    tree = ast.parse(job.program)
    ends = len(tree.body) - job.hoisted
    return [compile(ast.Module(body, []), "<program>", "exec") for body in (tree.body[ends:], tree.body[:ends])]


class Inline(Sandbox):
    """Runs programs that a test wrote."""

    name = "inline"
    limits = Limits()

    async def prepare(self) -> None:
        return

    async def aclose(self) -> None:
        return

    async def run(self, job: Job, call: CallHandler) -> Outcome:
        loop, numbers, calls = asyncio.get_running_loop(), itertools.count(1), set[Any]()

        async def made_by(request: CallRequest) -> CallReply:
            return await call(request)

        def tool(name: str, parameters: Sequence[str]) -> Callable[..., Any]:
            def ask(*given: Any, **named: Any) -> Any:
                arguments, line = dict(zip(parameters, given, strict=False)) | named, sys._getframe(1).f_lineno
                request = CallRequest(next(numbers), name, arguments, line, outer=outermost() if job.hoisted else 0)
                made = asyncio.run_coroutine_threadsafe(made_by(request), loop)
                calls.add(made)
                reply = made.result()
                if reply.error is not None:
                    error = ToolError(f"{name}: {reply.error}"[:2000])
                    error.line, error.tool = line, name
                    raise error
                return reply.value

            return ask

        def ran() -> Outcome:
            scope: dict[str, Any] = {name: tool(name, names) for name, names in job.tools.items()}
            scope |= {"ToolError": ToolError, **job.inputs}
            try:
                for part in parts_of(job):
                    exec(part, scope)  # noqa: S102 - the test's own
            except ToolError as error:
                return Outcome("raised", error=ProgramError("ToolError", str(error), error.line, tool=error.tool))
            return Outcome("finished", "answer" in scope, scope.get("answer"))

        running = loop.run_in_executor(None, ran)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            for each in calls:
                each.cancel()
            await asyncio.wait([running])
            running.exception()  # that of a call which was cancelled
            raise
