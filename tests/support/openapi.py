"""A real HTTP server that records what it gets, and small documents to import."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from atc.tools.openapi.importer import import_openapi
from atc.tools.tool import Toolset
from tests.support.http import Handler, served


@dataclass
class Seen:
    """A request as it came in."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> str:
        return urlsplit(self.target).query


@dataclass
class Answer:
    """What the server says: a status, headers, a body; ``after`` runs before it is written."""

    body: bytes = b"{}"
    status: int = 200
    kind: str | None = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    after: Callable[[], None] = lambda: None


class Server:
    """Answers every request with :attr:`answer`, or with what ``answers`` has for the path."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.answer = Answer()
        self.answers: dict[str, Answer] = {}
        self.url = ""

    @property
    def last(self) -> Seen:
        return self.seen[-1]

    def reset(self) -> None:
        self.seen.clear()
        self.answers.clear()
        self.answer = Answer()


@contextmanager
def running_server() -> Iterator[Server]:
    state = Server()

    class Recording(Handler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer is one packet: a second one would wait for the first to be acknowledged

        def handle_one(self) -> None:
            body = self.read_body()
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.seen.append(Seen(self.command, self.path, headers, body))
            answer = state.answers.get(urlsplit(self.path).path, state.answer)
            answer.after()
            self.say(answer.status, answer.body, answer.kind, **answer.headers)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one

    with served(Recording) as state.url:
        yield state


def document(paths: dict[str, Any], **rest: Any) -> dict[str, Any]:
    """An OpenAPI 3.0 document with these paths."""
    return {"openapi": "3.0.3", "info": {"title": "Test", "version": "1"}, "paths": paths, **rest}


def operation(
    *parameters: dict[str, Any],
    returns: dict[str, Any] | None = None,
    body: dict[str, Any] | None = None,
    media_type: str = "application/json",
    **rest: Any,
) -> dict[str, Any]:
    """An operation called ``op``, with a JSON answer."""
    made: dict[str, Any] = {"operationId": "op", "parameters": list(parameters), **rest}
    content = {"application/json": {"schema": returns if returns is not None else {"type": "object"}}}
    made.setdefault("responses", {"200": {"description": "ok", "content": content}})
    if body is not None:
        made["requestBody"] = {"required": True, "content": {media_type: {"schema": body}}}
    return made


def one_tool(path: str, method: str, node: dict[str, Any], base_url: str | None = None, **options: Any) -> Toolset:
    """A toolset of the one operation ``op``."""
    root = document({path: {method: node}}, **options.pop("root", {}))
    return import_openapi(root, base_url=base_url, **options)


def call(tools: Toolset, **arguments: Any) -> Any:
    """Call the only tool of a toolset."""
    (tool,) = tools.values()
    assert tool.transport is not None
    return asyncio.run(tool.transport(arguments))
