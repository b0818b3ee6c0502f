"""What a Qdrant server answers, in memory, in the shapes of its OpenAPI document: no real server is to be had here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import numpy as np

Answer = tuple[int, Any]


class QdrantDouble:
    """Collections with one kind of point each, compared by brute force.

    Args:
        key: the API key that it wants; none when empty.

    Attributes:
        collections: points by id, by the collection's name: ``vector``, ``payload``.
        asked: the method and path of each request.
        keys: the API keys that came.
        instead: what it answers in place of the truth, given the path and the true answer.
        down: refuse connections.
    """

    def __init__(self, key: str = "") -> None:
        self.key = key
        self.collections: dict[str, dict[int, dict[str, Any]]] = {}
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[Any] = []
        self.keys: list[str | None] = []
        self.instead: Callable[[str, Answer], Answer | bytes] | None = None
        self.down = False

    def transport(self) -> httpx.MockTransport:
        """It, in place of the network."""

        def handle(request: httpx.Request) -> httpx.Response:
            if self.down:
                raise httpx.ConnectError("connection refused", request=request)
            answer = self.answer(request.method, request.url.path, request.content, request.headers.get("api-key"))
            return httpx.Response(answer[0], content=answer[1])

        return httpx.MockTransport(handle)

    def answer(self, method: str, path: str, content: bytes, key: str | None) -> tuple[int, bytes]:
        """The status and body for a request."""
        body = json.loads(content) if content else None
        self.asked.append((method, path))
        self.bodies.append(body)
        self.keys.append(key)
        if self.key and key != self.key:
            return 401, b"Must provide an API key or an Authorization bearer token"
        true = self._answer(method, path, body)
        answer = true if self.instead is None else self.instead(path, true)
        if isinstance(answer, bytes):
            return 200, answer
        status, result = answer
        if status != 200:
            return status, json.dumps({"status": {"error": result}, "time": 0.0}).encode()
        return 200, json.dumps({"result": result, "status": "ok", "time": 0.0}).encode()

    def _answer(self, method: str, path: str, body: Any) -> Answer:
        name, _, action = path.removeprefix("/collections/").partition("/")
        if method == "PUT" and not action:
            if name in self.collections:
                return 409, f"Wrong input: Collection `{name}` already exists!"
            self.collections[name] = {}
            return 200, True
        points = self.collections.get(name)
        if points is None:
            return 404, f"Not found: Collection `{name}` doesn't exist!"
        if method == "GET":
            return 200, {"status": "green", "points_count": len(points), "segments_count": 1}
        if method == "PUT" and action == "points":
            points.update({point["id"]: point for point in body["points"]})
            return 200, {"operation_id": len(self.asked), "status": "completed"}
        match action:
            case "points":
                found = [{"id": id, "payload": points[id]["payload"]} for id in body["ids"] if id in points]
                return 200, found
            case "points/delete":
                for id in body["points"]:
                    points.pop(id, None)
                return 200, {"operation_id": len(self.asked), "status": "completed"}
            case "points/scroll":
                rest = [id for id in sorted(points) if id >= (body["offset"] or 0)]
                page, after = rest[: body["limit"]], rest[body["limit"] :]
                shown = [{"id": id, "payload": self._picked(points[id], body["with_payload"])} for id in page]
                return 200, {"points": shown, "next_page_offset": after[0] if after else None}
            case "points/query":
                return 200, {"points": self._nearest(points, body)}
        return 404, "no such path"

    def _picked(self, point: dict[str, Any], names: list[str]) -> dict[str, Any]:
        return {name: value for name, value in point["payload"].items() if name in names}

    def _nearest(self, points: dict[int, dict[str, Any]], body: dict[str, Any]) -> list[dict[str, Any]]:
        only = set(body["filter"]["must"][0]["has_id"]) if "filter" in body else points.keys()
        asked, using = np.array(body["query"], np.float32), body["using"]
        scored = [
            (float(np.array(point["vector"][using], np.float32) @ asked), id)
            for id, point in points.items()
            if id in only and using in point["vector"]
        ]
        best = sorted(scored, key=lambda each: (-each[0], each[1]))[: body["limit"]]
        return [{"id": id, "version": 1, "score": score} for score, id in best]


@contextmanager
def served(double: QdrantDouble) -> Iterator[str]:
    """The double over real HTTP on this machine; its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            status, body = double.answer(self.command, path, content, self.headers.get("api-key"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = _do

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
