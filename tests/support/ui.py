"""The server of the page over ASGI in this process, and requests to it by hand; and plain pages for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message

from atc.agent import Agent
from atc.serve.ui.app import Ui, make_app, make_ui
from atc.serve.ui.keys import Right
from atc.serve.ui.reading import Views
from atc.settings import Settings
from atc.traces.stores import open_store

PORT = 4321
HOST = f"127.0.0.1:{PORT}"


def _whole(event: dict[str, Any], pointer: str) -> Any:
    value: Any = event
    for part in pointer.split("/")[1:]:
        value = value[int(part) if isinstance(value, list) else part]
    return value


def _page(events: list[dict[str, Any]], live: Mapping[str, Any] | None) -> str:
    return f"<!doctype html>{json.dumps({'events': events, 'live': live})}".replace("<script", "")


PLAIN = Views(lambda number, event: {"line": number, **event}, _whole, _page, _page)
"""Pages without a design: what they are given, as JSON."""


@dataclass
class Reply:
    """What the server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return str(self.json["error"]["message"])


@dataclass
class Told:
    """One message of a stream."""

    event: str
    number: int | None
    data: Any


@dataclass
class Stream:
    """A stream that is open."""

    waiting: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    _rest: bytes = b""

    async def next(self, *events: str) -> Told:
        """The next message; with names of events, the next of those."""
        async with asyncio.timeout(60):
            while True:
                while b"\n\n" not in self._rest:
                    self._rest += await self.waiting.get()
                text, self._rest = self._rest.split(b"\n\n", 1)
                fields = dict(line.split(": ", 1) for line in text.decode().split("\n") if not line.startswith(":"))
                if not fields:
                    continue
                number = int(fields["id"]) if "id" in fields else None
                told = Told(fields.get("event", "message"), number, json.loads(fields["data"]))
                if not events or told.event in events:
                    return told


class Caller:
    """Sends requests by hand."""

    def __init__(self, ui: Ui) -> None:
        self.ui = ui
        self.app: ASGIApp = make_app(ui, PORT)

    async def send(
        self,
        path: str,
        body: Any = None,
        *,
        right: Right | None = "run",
        method: str = "",
        under: str | None = None,
        got: Callable[[Message], None] | None = None,
        **headers: str,
    ) -> Reply:
        """One request: a POST where it has a body. ``got``: is told of each part of the answer."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        given = {"host": HOST} | {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            given = {"content-type": "application/json", "content-length": str(len(content))} | given
        if right is not None and "cookie" not in given:
            given.setdefault("authorization", f"Bearer {self.ui.keys.tokens[right]}")
        where, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method or ("GET" if body is None else "POST"),
            "path": (self.ui.keys.path if under is None else under) + where,
            "raw_path": b"",
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "http_version": "1.1",
            "scheme": "http",
            "server": ("127.0.0.1", PORT),
            "client": ("127.0.0.1", 1),
            "asgi": {"version": "3.0", "spec_version": "2.3"},
        }
        sent = [{"type": "http.request", "body": content, "more_body": False}]
        reply = Reply(0, {}, b"")

        async def receive() -> Message:
            if sent:
                return sent.pop()
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                reply.status = message["status"]
                reply.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                reply.body += message.get("body", b"")
                if got is not None:
                    got(message)

        await self.app(scope, receive, send)
        return reply

    @asynccontextmanager
    async def stream(self, path: str, right: Right = "run", **headers: str) -> AsyncIterator[Stream]:
        """Open a stream; at the end of the block the client goes."""
        stream = Stream()

        def got(message: Message) -> None:
            stream.waiting.put_nowait(message.get("body", b""))

        task = asyncio.create_task(self.send(path, right=right, got=got, **headers))
        try:
            yield stream
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def serving(
    *replies: Any,
    tools: Any = (),
    views: Views = PLAIN,
    watch: bool = False,
    at_terminal: bool = False,
    **settings: Any,
) -> AsyncIterator[Caller]:
    """A server over runs of this test; with replies of a model, tasks can be begun."""
    from atc.models.fake import FakeModel

    loaded = Settings.load(**settings)
    given = {"sentence": False, "learn": False, **settings}
    opened = None
    if replies:

        def opened(approve: Any, on_event: Any) -> Agent:
            return Agent(tools, model=FakeModel(replies), **given | {"approve": approve}, on_event=on_event)

    ui = make_ui(open_store(loaded), loaded, opened, "here", views, at_terminal=at_terminal)
    watching = asyncio.create_task(ui.reading.watch()) if watch else None
    try:
        yield Caller(ui)
    finally:
        await ui.drain()
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await ui.aclose()
