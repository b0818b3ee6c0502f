"""One call of a client to one of the server's own tools, what it is answered with, and how far it is meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.session import ServerSession

from atc._records.events import Event
from atc.errors import UsageError
from atc.serve.mcp.client import Client
from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.reports import one_line
from atc.serve.mcp.running import Running
from atc.tools.tool import PROGRESS, Progress
from atc.traces.emitter import Listener
from atc.wording import outcomes


@dataclass(frozen=True)
class ToolRequest:
    """A call of a client.

    Attributes:
        gateway: behind the server.
        client: who calls.
        context: of the SDK: the session for questions and progress, and the protocol's version.
        params: as they came: arguments, and in newer versions the answers to questions.
        running: the task that does the call's work, where its handler is carried (:mod:`.asking`).
    """

    gateway: Gateway
    client: Client
    context: ServerRequestContext[Any]
    params: types.CallToolRequestParams
    arguments: Mapping[str, Any] = field(default_factory=dict)
    running: Running[Any] | None = None

    def text(self, name: str, default: str | None = None) -> str:
        """A text among the arguments.

        Raises:
            UsageError: it is none, or missing without a default.
        """
        value = self.arguments.get(name, default)
        if not isinstance(value, str):
            raise UsageError(f"`{name}` must be a text")
        return value

    def count(self, name: str, default: int, most: int) -> int:
        """A number from 1 among the arguments, ``most`` at most.

        Raises:
            UsageError: it is none.
        """
        value = self.arguments.get(name, default)
        if type(value) is not int or value < 1:
            raise UsageError(f"`{name}` must be a number from 1")
        return min(value, most)

    def texts(self, name: str, most: int) -> list[str]:
        """A list of texts among the arguments.

        Raises:
            UsageError: it is none, or has more than ``most``.
        """
        value = self.arguments.get(name)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise UsageError(f"`{name}` must be a list of texts")
        if len(value) > most:
            raise UsageError(f"`{name}` has {len(value):,} texts: give {most} at most")
        return value

    def switch(self, name: str) -> bool:
        """A yes or no among the arguments; no where it is missing.

        Raises:
            UsageError: it is none.
        """
        value = self.arguments.get(name, False)
        if not isinstance(value, bool):
            raise UsageError(f"`{name}` must be true or false")
        return value


Answer = types.CallToolResult | types.InputRequiredResult
Handler = Callable[[ToolRequest], Awaitable[Answer]]


def answer(
    value: dict[str, Any],
    text: str | None = None,
    *,
    beside: Sequence[types.ContentBlock] = (),
    is_error: bool = False,
) -> types.CallToolResult:
    """An answer with structured content, and the same as text for clients that read no other.

    A client may check errors by the output schema, too, and drops what does not fit. So no output schema of ours
    requires a member: ``{"error": …}`` fits each.

    Args:
        value: a JSON object that fits the declared output schema.
        text: to be read in its place.
        beside: what stands after the text: links, images, sounds.
        is_error: the client's model shall see that it went wrong.
    """
    shown = json.dumps(value, ensure_ascii=False) if text is None else text
    content = [types.TextContent(type="text", text=shown), *beside]
    return types.CallToolResult(content=content, structured_content=value, is_error=is_error)


# -- how far a run is, where the client that waits for it asked to be told ---------------------------------------------

PAUSE_S = 0.1
"""Seconds between two messages: of what happens faster, the latest is told."""
MAX_MESSAGE = 200


@asynccontextmanager
async def told(request: ToolRequest) -> AsyncIterator[Listener]:
    """A listener of the run that a client waits for. Where it did not ask, the session tells nothing."""
    progress = _Progress(request)
    telling = asyncio.create_task(progress.tell())
    before = PROGRESS.set(progress.reported)
    try:
        yield progress.heard
    finally:
        PROGRESS.reset(before)
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling


class _Progress:
    def __init__(self, request: ToolRequest) -> None:
        self._request = request
        self._news = asyncio.Event()
        self._message, self._calls = "", 0

    def heard(self, event: Event) -> None:
        if message := self._message_of(event):
            self._message = one_line(message, MAX_MESSAGE)
            self._news.set()

    def reported(self, progress: Progress) -> None:
        """What a tool reports of its own call."""
        of = f" of {progress.total:g}" if progress.total is not None else ""
        words = f": {progress.message}" if progress.message else ""
        self._message = one_line(f"call {self._calls}: {progress.tool} is at {progress.done:g}{of}{words}", MAX_MESSAGE)
        self._news.set()

    async def tell(self) -> None:
        count = 0
        while await self._news.wait():
            self._news.clear()
            count += 1
            with suppress(Exception):  # who waits may be gone; the run goes on until that is known
                await self._session().report_progress(count, message=self._message)
            await asyncio.sleep(PAUSE_S)

    def _session(self) -> ServerSession:
        running = self._request.running
        waiting = running.request if running is not None and running.request is not None else self._request
        return waiting.context.session

    def _message_of(self, event: Event) -> str:
        data = event.data
        match event.kind:
            case "run_started":
                return f"run {data['run_id']} began"
            case "program_started":
                return "the program runs"
            case "findings":
                return "the check found errors in the program"
            case "model_started":
                return f"the model is asked: {data['purpose']}"
            case "approval_asked":
                return f"waits for approval of {data['tool']}"
            case "call_started":
                self._calls += 1
                return f"call {self._calls}: {data['tool']}"
            case "store_waiting":
                return outcomes.store_waiting()
            case "indexing":
                return f"indexing: {data['stage']} {data['done']:,} of {data['total']:,}"
        return ""
