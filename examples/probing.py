"""A recording of a browser becomes tools; a question is answered with them, as whoever was logged in.

python examples/probing.py
"""

import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from urllib.request import Request, urlopen

from atc import Agent, Toolset, probe

HARBOURS = {"items": [{"harbour_id": "H17", "title": "Alma"}, {"harbour_id": "H23", "title": "Brekk"}]}
CROSSINGS = {
    "H17": {"items": [{"bound_for": "Brekk", "crossing_id": "X4"}, {"bound_for": "Cove", "crossing_id": "X9"}]},
    "H23": {"items": [{"bound_for": "Alma", "crossing_id": "X5"}]},
}
FARES = {crossing: {"adult": 12.5, "bicycle": 4.0 + n} for n, crossing in enumerate(("X4", "X9", "X5"))}
COOKIE = "sid=blue-otter-5193"  # whoever is logged in
CLICKS = (  # what somebody does in the browser, and the requests that its pages make
    ("GET", "/", None),
    ("GET", "/harbours", None),
    ("GET", "/crossings?harbour_id=H17", None),
    ("GET", "/crossings?harbour_id=H23", None),
    ("GET", "/fares?crossing_id=X9", None),
    ("GET", "/fares?crossing_id=X5", None),
    ("POST", "/bookings", {"crossing_id": "X9", "seats": 2}),
)


class Ferries(BaseHTTPRequestHandler):
    """The service. It has a page for people, and no document."""

    def do_GET(self) -> None:
        path, given = urlsplit(self.path).path, dict(parse_qsl(urlsplit(self.path).query))
        if path == "/":
            self.answer(200, "<h1>Ferries</h1>", "text/html")
        elif self.headers["Cookie"] != COOKIE:
            self.answer(401, {"error": "log in first"})
        elif path == "/harbours":
            self.answer(200, HARBOURS)
        elif path == "/crossings":
            self.answer(200, CROSSINGS.get(given.get("harbour_id", ""), {"items": []}))
        else:
            self.answer(200, FARES.get(given.get("crossing_id", ""), {}))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(201, {"booking_id": "B81", "seats": 2})

    def answer(self, status: int, value: object, media_type: str = "application/json") -> None:
        body = (value if isinstance(value, str) else json.dumps(value)).encode()
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def record(url: str, path: Path) -> Path:
    """Click through the service and save what a browser's network tab would save."""
    entries = []
    for method, target, sent in CLICKS:
        headers = {"Cookie": COOKIE, "Content-Type": "application/json"}
        body = None if sent is None else json.dumps(sent).encode()
        with urlopen(Request(url + target, body, headers, method=method)) as answer:
            request: dict[str, Any] = {"method": method, "url": url + target, "headers": pairs(headers)}
            if body is not None:
                request["postData"] = {"mimeType": "application/json", "text": body.decode()}
            content = {"mimeType": answer.headers["Content-Type"], "text": answer.read().decode()}
            response = {"status": answer.status, "headers": pairs(answer.headers), "content": content}
        entries.append({"startedDateTime": "2026-05-03T10:00:00Z", "request": request, "response": response})
    path.touch(mode=0o600)  # it holds a login
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}))
    return path


def pairs(headers: Any) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in headers.items()]


def ask(url: str, folder: Path) -> None:
    tools = Toolset.from_har(record(url, folder / "ferries.har"), session="memory")  # memory: use the login, keep none
    for line in probe(tools, folder=str(folder / "docs")).lines:
        print(f"{line.tool:18} {line.state} {line.reason}, {line.calls} calls")
    with Agent(tools) as agent:
        result = agent.run(
            "Find the harbour whose title is Alma, and its crossing that is bound for Brekk. "
            "What does that crossing cost for an adult? Answer with the number."
        )
    print(result.program)
    print("the login is in the result:", "blue-otter" in result.model_dump_json())
    print(result.status, result.value)


@contextmanager
def serving(port: int = 0) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", port), Ferries)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def main() -> None:
    if sys.argv[1:]:  # the service and its recording, for the command line
        with serving(int(sys.argv[1])) as url:
            record(url, Path("ferries.har"))
            input(f"Ferries at {url}; the recording is ferries.har. Press Enter to end it. ")
    else:
        with serving() as url, tempfile.TemporaryDirectory() as folder:
            ask(url, Path(folder))


if __name__ == "__main__":
    main()
