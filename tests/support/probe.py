"""A real HTTP service to probe: routes by template, an OpenAPI document without descriptions or schemas, every request
written down. And a model that answers by what it is asked about."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from atc.errors import ModelError
from atc.models.base import ModelRequest, Reply
from atc.models.fake import FakeModel, Scripted
from atc.probing.call_policy import Budget
from atc.probing.prober import Prober
from atc.probing.report import Line, Report
from atc.settings import Settings
from atc.tools.openapi.importer import import_openapi
from atc.tools.tool import Toolset
from tests.support.http import Handler, served


@dataclass(frozen=True)
class Hit:
    """A request as it came in."""

    tool: str
    method: str
    target: str
    arguments: dict[str, str]
    at: float


@dataclass
class Says:
    """What a route answers when it is no plain JSON value."""

    body: bytes | str = b""
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    pieces: Iterable[bytes] | None = None
    """Streamed in place of ``body``, chunk by chunk, as far as the client reads."""


Answer = Callable[[dict[str, str]], Any]


@dataclass(frozen=True)
class Route:
    tool: str
    method: str
    template: str
    answer: Answer
    parameters: tuple[dict[str, Any], ...]
    named: bool

    def match(self, method: str, path: str) -> dict[str, str] | None:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(self.template))
        found = re.fullmatch(pattern, path)
        return (
            {name: unquote(value) for name, value in found.groupdict().items()}
            if found and method == self.method
            else None
        )


class Service:
    """Routes, and what was asked of them."""

    def __init__(self) -> None:
        self.routes: list[Route] = []
        self.hits: list[Hit] = []
        self.sent = 0
        """Bytes of streamed bodies that went out."""
        self.url = ""

    def route(
        self,
        tool: str,
        template: str,
        answer: Answer | Any,
        *,
        method: str = "GET",
        query: str = "",
        need: str = "",
        named: bool = True,
        **schemas: dict[str, Any],
    ) -> None:
        """Add an operation.

        Args:
            answer: a function of the arguments, all strings; or the JSON value that it always answers.
            query, need: names of optional and of required query parameters; those of the path are in the template.
            named: give it an ``operationId``; else its document has method and path only.
            schemas: what the document says of a parameter; nothing where none is given.
        """
        given = [(name, "path", True) for name in re.findall(r"\{(\w+)\}", template)]
        given += [(name, "query", True) for name in need.split()] + [(name, "query", False) for name in query.split()]
        parameters = tuple(
            {"name": name, "in": place, "required": required, "schema": schemas.get(name, {})}
            for name, place, required in given
        )
        function = answer if callable(answer) else lambda _: answer
        self.routes.append(Route(tool, method, template, function, parameters, named))

    def document(self) -> dict[str, Any]:
        """What it says of itself: names and paths only."""
        paths: dict[str, Any] = {}
        for route in self.routes:
            operation: dict[str, Any] = {
                "parameters": list(route.parameters),
                "responses": {"200": {"description": ""}},
            }
            if route.named:
                operation["operationId"] = route.tool
            if route.method in ("POST", "PUT", "PATCH"):
                operation["requestBody"] = {"content": {"application/json": {"schema": {"type": "object"}}}}
            paths.setdefault(route.template, {})[route.method.lower()] = operation
        return {"openapi": "3.0.3", "info": {"title": "Test", "version": "1"}, "paths": paths}

    def tools(self, **options: Any) -> Toolset:
        """The service's tools, out of its document."""
        return import_openapi(self.document(), base_url=self.url, **options)

    def asked(self, tool: str) -> list[Hit]:
        return [hit for hit in self.hits if hit.tool == tool]

    def twice(self) -> list[str]:
        """Requests that came in more than once."""
        return [target for target, times in Counter(hit.target for hit in self.hits).items() if times > 1]


@contextmanager
def running() -> Iterator[Service]:
    """A service on a port of its own, until the end of the block."""
    service = Service()

    class Routed(Handler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # a body in a second packet would wait for 40 ms

        def handle_one(self) -> None:
            self.read_body()
            parts = urlsplit(self.path)
            found = [(r, m) for r in service.routes if (m := r.match(self.command, parts.path)) is not None]
            if not found:
                service.hits.append(Hit("", self.command, self.path, {}, time.monotonic()))
                return self.answer(Says('{"error": "no such path"}', 404))
            route, arguments = found[0]
            arguments |= dict(parse_qsl(parts.query, keep_blank_values=True))
            service.hits.append(Hit(route.tool, self.command, self.path, arguments, time.monotonic()))
            value = route.answer(arguments)
            return self.answer(value if isinstance(value, Says) else Says(json.dumps(value)))

        def answer(self, says: Says) -> None:
            if says.pieces is None:
                body = says.body.encode() if isinstance(says.body, str) else says.body
                self.say(says.status, body, says.kind, **says.headers)
                return
            self.send_response(says.status)
            self.send_header("Content-Type", says.kind)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in says.pieces:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                service.sent += len(piece)
            self.wfile.write(b"0\r\n\r\n")

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one

    with served(Routed) as service.url:
        yield service


Said = Mapping[str, Sequence[Any]]
"""Values by the names of arguments."""


class Oracle(FakeModel):
    """A model that is asked for values and for sentences, and has replies for each.

    Args:
        values: for a tool the values to propose, one set for each time that it is asked about; the last one again and
            again. One that has none for any tool that it is asked about fails.
        whole: what it replies in place of values, one after the other, the last one again and again.
        sentence: what it says that any tool returns.

    Attributes:
        asked: (kind, tools) of each question, ``kind`` one of ``values``, ``sentence``.
        settings: (temperature, seed) of each question.
    """

    def __init__(
        self,
        values: Mapping[str, Said | Sequence[Said]] | None = None,
        *,
        whole: Sequence[Scripted] = (),
        sentence: str = "Returns something.",
    ) -> None:
        super().__init__(())
        self.values = {
            name: [said] if isinstance(said, Mapping) else list(said) for name, said in (values or {}).items()
        }
        self.whole = list(whole)
        self.sentence = sentence
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.settings: list[tuple[float, int | None]] = []

    async def generate(self, request: ModelRequest) -> Reply:
        self.settings.append((request.sampling.temperature, request.sampling.seed))
        self.prompts.append(list(request.messages))
        schema = (request.format.schema if request.format is not None else None) or {"properties": {}}
        tools = tuple(schema["properties"])
        scripted: Scripted
        if next(iter(schema["properties"].values())).get("type") == "string":
            self.asked.append(("sentence", tools))
            scripted = json.dumps(dict.fromkeys(tools, self.sentence))
        else:
            self.asked.append(("values", tools))
            scripted = self._next(self.whole) if self.whole else self._proposals(tools)
        if isinstance(scripted, Exception):
            raise scripted
        if isinstance(scripted, Reply):
            return scripted
        text = scripted if isinstance(scripted, str) else scripted(request.messages)
        return Reply(text, "stop", 10, 10, 0.0, model="oracle")

    def _proposals(self, tools: Sequence[str]) -> str:
        known = {tool: self._next(self.values[tool]) for tool in tools if tool in self.values}
        if not known:
            raise ModelError(f"nothing to say about {', '.join(tools)}")
        return json.dumps(known)

    def _next(self, replies: list[Any]) -> Any:
        return replies.pop(0) if len(replies) > 1 else replies[0]

    def count(self, kind: str, tool: str = "") -> int:
        """How often it was asked for this, about this tool."""
        return sum(k == kind and (not tool or tool in tools) for k, tools in self.asked)

    def prompts_for(self, kind: str) -> list[str]:
        """The prompts of one kind."""
        return [messages[0].content for messages, (k, _) in zip(self.prompts, self.asked, strict=True) if k == kind]

    def text(self) -> str:
        """All that it was ever told by us about tools: the last message of each question."""
        return "\n".join(messages[-1].content for messages in self.prompts)


QUICK = {"wall_s": 60.0, "call_timeout_s": 30.0, "cpu_s": 5}


def prober(tools: Toolset, model: FakeModel | None = None, **options: Any) -> Prober:
    """A prober with short limits; settings are among the options."""
    given = {name: options.pop(name) for name in (*QUICK, "max_tokens", "seed") if name in options}
    options.setdefault("budget", Budget(calls_a_minute=10_000))
    return Prober(
        tools, model if model is not None else Oracle(), settings=Settings.load(**{**QUICK, **given}), **options
    )


def probed(tools: Toolset, model: FakeModel | None = None, **options: Any) -> Report:
    with prober(tools, model, **options) as made:
        return made.probe()


def line(report: Report, tool: str) -> Line:
    return next(each for each in report.lines if each.tool == tool)


def states(report: Report) -> dict[str, str]:
    return {each.tool: each.state for each in report.lines}
