"""What is told of a service of others, what reaches it, and what somebody reached by hand."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from atc.tools.tool import Toolset
from benchmarks.probing.services import OTHERS, reached_by_hand
from benchmarks.probing.services_drawn import DRAWN
from benchmarks.probing.started_services import Other, counted, document


class Lamps(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"path": self.path, "host": self.headers["host"]}).encode()
        self.send_response(404 if "nobody" in self.path else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


def test_names_are_all_that_a_document_tells() -> None:
    made = document("lamps", "http://127.0.0.1:1", ("/lamps/{lamp}?street&watts", "/"))
    (tool, _) = Toolset.from_openapi(made).values()
    assert list(tool.protocol.parameters["properties"]) == ["lamp", "street", "watts"]
    assert tool.protocol.required == ("lamp",)


def test_a_proxy_passes_on_what_it_counts_and_knows_what_changes_something() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Lamps)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    other = Other("lamps", ("/lamps",), lambda *_: [], prefix="/v1", changes=("/off?lamp",))
    with counted(f"http://127.0.0.1:{server.server_port}/v1") as proxy:
        for method, path in (("GET", "/lamps?watts=3"), ("GET", "/nobody"), ("GET", "/off?lamp=1"), ("PUT", "/lamps")):
            answer = httpx.request(method, proxy.base + path, trust_env=False)
            assert answer.json()["path"] == f"/v1{path}"
            assert answer.status_code == (404 if path == "/nobody" else 200)
        assert proxy.writes(other) == [("GET", "/v1/off"), ("PUT", "/v1/lamps")]
        assert len(proxy.requests) == 4
    server.shutdown()
    server.server_close()


def test_what_was_reached_by_hand_in_more_tries_does_not_count() -> None:
    lines = [
        json.dumps({"service": "lamps", "path": path, "reader": "A", "reached": reached, "tries": tries})
        for path, reached, tries in (("/a?b", True, 5), ("/c", True, 6), ("/d", False, 1))
    ]
    assert reached_by_hand(lines, "lamps") == {"/a"}
    assert reached_by_hand(lines, "others") is None


def test_what_changes_something_is_none_of_the_reads() -> None:
    assert {other.name for other in DRAWN} <= OTHERS.keys()
    for other in OTHERS.values():
        assert not {*other.reads} & {*other.changes}
