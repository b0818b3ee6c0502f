"""How far a run is, told to the client that waits for it, where it asked to be told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from mcp.server.session import ServerSession

from atc.faces.mcp_server.requests import ToolRequest
from atc.faces.mcp_server.texts import one_line
from atc.tools.tool import PROGRESS, Progress
from atc.traces.emitter import Listener
from atc.traces.events import Event

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
            case "indexing":
                return f"indexing: {data['stage']} {data['done']:,} of {data['total']:,}"
        return ""
