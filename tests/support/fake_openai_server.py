"""A scripted OpenAI-compatible endpoint over real HTTP: each request is answered by the next step of the script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import openai

Step = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a body in a second packet would wait for 40 ms
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.path.endswith("/chat/completions"):
            self._tell(json.loads(body))
            return
        self.server.requests.append(json.loads(body))
        self.server.keys.append(self.headers.get("Authorization", ""))
        with self.server.lock:
            step = self.server.steps.pop(0) if len(self.server.steps) > 1 else self.server.steps[0]
        with suppress(BrokenPipeError, ConnectionResetError):  # the client has heard enough
            step(self)
        self.close_connection = True

    def do_GET(self) -> None:
        self._tell(None)

    def _tell(self, body: Any) -> None:
        """Answer from the server's table of what it tells of itself, noting what was asked."""
        self.server.asked.append((self.path, body))
        self.server.keys.append(self.headers.get("Authorization", ""))
        told = self.server.tells.get(self.path)
        step = told(body) if callable(told) else told
        with suppress(BrokenPipeError, ConnectionResetError):
            (step if callable(step) else answers(404 if step is None else 200, json.dumps(step).encode()))(self)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def send_event(self, payload: Any) -> None:
        self.send_chunk(b"data: " + json.dumps(payload).encode() + b"\n\n")

    def end_stream(self) -> None:
        self.send_chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.steps = list(steps)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.tells: dict[str, Any] = {"/v1/models": {"object": "list", "data": [{"id": "tiny", "object": "model"}]}}
        self.asked: list[tuple[str, Any]] = []  # beside chat completions: paths and bodies
        self.lock = threading.Lock()
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, *_: Any) -> None:
        pass


@contextmanager
def serving(*steps: Step) -> Iterator[Server]:
    """A server that answers the n-th request with the n-th step, and every later one with the last."""
    server = Server(steps)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()


def piece(text: str | None, finish: str | None = None, index: int = 0) -> dict[str, Any]:
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}],
    }


def says(*texts: str, finish: str | None = "stop", usage: tuple[int, int] | None = (11, 7)) -> Step:
    """Stream the texts."""

    def step(handler: Handler) -> None:
        handler.begin_stream()
        handler.send_event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]})
        for text in texts:
            handler.send_event(piece(text))
        handler.send_event(piece(None, finish))
        if usage is not None:
            handler.send_event({"choices": [], "usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1]}})
        handler.end_stream()

    return step


def thinks(
    thoughts: str, *texts: str, under: str = "reasoning_content", finish: str = "stop", counted: int | None = None
) -> Step:
    """Stream thoughts beside the reply under a member's name, then the texts; or only count the thoughts."""

    def step(handler: Handler) -> None:
        handler.begin_stream()
        for piece_of_it in thoughts.split():
            handler.send_event({"choices": [{"index": 0, "delta": {"content": None, under: piece_of_it}}]})
        for text in texts:
            handler.send_event(piece(text))
        handler.send_event(piece(None, finish))
        usage: dict[str, Any] = {"prompt_tokens": 11, "completion_tokens": 100}
        if counted is not None:
            usage["completion_tokens_details"] = {"reasoning_tokens": counted}
        handler.send_event({"choices": [], "usage": usage})
        handler.end_stream()

    return step


def fails(
    status: int, message: str = "no", headers: dict[str, str] | None = None, param: str | None = None, **more: Any
) -> Step:
    """Answer with an error. ``more`` are further members of it."""
    error = {"message": message, "param": param, **more}
    return answers(status, json.dumps({"error": error}).encode(), headers=headers)


def whole(finish: str | None = "stop", **message: Any) -> Step:
    """Answer in one piece, whatever was asked for."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return answers(200, json.dumps({"choices": [choice]}).encode())


def deltas(*each: Any, finish: str | None = "stop") -> Step:
    """Stream these pieces of a message."""

    def step(handler: Handler) -> None:
        handler.begin_stream()
        for delta in each:
            handler.send_event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        handler.send_event(piece(None, finish))
        handler.end_stream()

    return step


def takes_formats(*kinds: str, held: str, free: str, refusal: str = "") -> Step:
    """Say ``held`` to a request with a format of these kinds (``json_schema``, ``json_object``, ``grammar``), ``free``
    to one without a format; refuse every other as OpenAI does, or with these words."""

    def step(handler: Handler) -> None:
        request = handler.server.requests[-1]
        sent = "grammar" if "grammar" in request else request.get("response_format", {}).get("type", "")
        if sent and sent not in kinds:
            words = (
                refusal or f"Invalid parameter: 'response_format' of type '{sent}' is not supported with this model."
            )
            fails(400, words, param="response_format")(handler)
            return
        says(held if sent else free)(handler)

    return step


def answers(
    status: int, body: bytes, content_type: str = "application/json", headers: dict[str, str] | None = None
) -> Step:
    """Answer with these bytes, whatever they are."""

    def step(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Type": content_type, "Content-Length": str(len(body)), **(headers or {})}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return step


def streams(*raw: bytes) -> Step:
    """Stream these bytes and end well."""

    def step(handler: Handler) -> None:
        handler.begin_stream()
        for data in raw:
            handler.send_chunk(data)
        handler.wfile.write(b"0\r\n\r\n")

    return step


def breaks_off(*texts: str) -> Step:
    """Stream the texts and drop the connection in the middle."""

    def step(handler: Handler) -> None:
        handler.begin_stream()
        for text in texts:
            handler.send_event(piece(text))
        handler.connection.close()

    return step


def hangs(*texts: str, finish: str | None = None) -> Step:
    """Stream the texts, then say nothing until the server is closed."""

    def step(handler: Handler) -> None:
        handler.begin_stream()
        for text in texts:
            handler.send_event(piece(text))
        if finish:
            handler.send_event(piece(None, finish))
        handler.server.released.wait(60)

    return step


def never_stops(handler: Handler) -> None:
    """Stream until the client hangs up."""
    handler.begin_stream()
    while not handler.server.released.is_set():
        handler.send_event(piece("la " * 100))


def status_error(status: int, words: str) -> openai.APIStatusError:
    """The error that the ``openai`` package makes of an endpoint's refusal in these words, without an endpoint."""
    body = {"message": words, "param": None}
    response: Any = httpx.Response(status, request=httpx.Request("POST", "http://127.0.0.1/v1/chat/completions"))
    return openai.APIStatusError(f"Error code: {status} - {{'error': {body!r}}}", response=response, body=body)
