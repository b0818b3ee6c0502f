"""A service that says nothing but its paths is probed; what probing learnt answers a question.

python examples/probing.py
"""

import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from atc import Agent, Toolset, probe

HARBOURS = [{"harbour_id": "H17", "title": "Alma"}, {"harbour_id": "H23", "title": "Brekk"}]
CROSSINGS = {
    "H17": [{"bound_for": "Brekk", "crossing_id": "X4"}, {"bound_for": "Cove", "crossing_id": "X9"}],
    "H23": [{"bound_for": "Alma", "crossing_id": "X5"}],
}
FARES = {crossing: {"adult": 12.5, "bicycle": 4.0 + n} for n, crossing in enumerate(("X4", "X9", "X5"))}
PATHS = ("get /harbours", "get /crossings", "get /fares", "post /bookings", "get /bookings/cancel-all")
DOCUMENT = {  # what the service says of itself: paths, and nothing of arguments or responses
    "openapi": "3.1.0",
    "info": {"title": "Ferries", "version": "1"},
    "paths": {path.split()[1]: {path.split()[0]: {"responses": {"200": {"description": ""}}}} for path in PATHS},
}


class Ferries(BaseHTTPRequestHandler):
    """The service. It counts the requests for each path."""

    asked: ClassVar[dict[str, int]] = {}

    def do_GET(self) -> None:
        path, given = urlsplit(self.path).path, dict(parse_qsl(urlsplit(self.path).query))
        self.asked[path] = self.asked.get(path, 0) + 1
        if path == "/harbours":
            self.answer(200, {"items": HARBOURS})
        elif path == "/crossings":
            self.look_up("harbour_id", given, {key: {"items": rows} for key, rows in CROSSINGS.items()})
        elif path == "/fares":
            self.look_up("crossing_id", given, FARES)
        else:
            self.answer(200, {"done": True})  # bookings would be lost

    do_POST = do_GET

    def look_up(self, name: str, given: dict[str, str], rows: dict[str, Any]) -> None:
        if name not in given:
            self.answer(422, {"error": f"{name} is required"})
        elif given[name] not in rows:
            self.answer(404, {"error": f"no such {name}"})
        else:
            self.answer(200, rows[given[name]])

    def answer(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def serving() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Ferries)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def main() -> None:
    with serving() as url, tempfile.TemporaryDirectory() as folder:
        bare = Toolset.from_openapi(DOCUMENT, base_url=url, undeclared=True)  # undeclared: any argument may be tried
        report = probe(bare, tries=0, folder=folder)
        for line in report.lines:
            print(f"{line.tool:26} {line.state:10} {line.calls} calls  {line.reason}")
        print("requests:", Ferries.asked)
        Ferries.asked.clear()
        with Agent(bare.documented(folder)) as agent:
            result = agent.run("What does the crossing from Alma to Brekk cost for an adult? Answer with the number.")
    print(result.program)
    print(result.status, result.value)


if __name__ == "__main__":
    main()
