"""A web service wants a key. ATC sends it with each call, and the model never reads it.

python examples/openapi_with_a_key.py
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from atc import Agent, Toolset

KEY = "blue-otter-5193"  # your own: os.environ[…], or leave auth= out and set ATC_AUTH_STATION_KEY
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
STATIONS = {
    "Harbour": {"station_id": "s4", "name": "Harbour"},
    "Old Town": {"station_id": "s9", "name": "Old Town"},
}
BIKES = {"s4": {"free_bikes": 17, "broken_bikes": 3}, "s9": {"free_bikes": 5, "broken_bikes": 0}}


def operation(name: str, summary: str, argument: str, place: str, returns: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "parameters": [{"name": argument, "in": place, "required": True, "schema": TEXT}],
        "responses": {
            "200": {
                "description": "ok",
                "content": {
                    "application/json": {"schema": {"type": "object", "properties": returns, "required": list(returns)}}
                },
            }
        },
    }


DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "City bikes", "version": "1"},
    "components": {"securitySchemes": {"station_key": {"type": "apiKey", "in": "header", "name": "X-Station-Key"}}},
    "security": [{"station_key": []}],
    "paths": {
        "/stations": {
            "get": operation(
                "find_station", "Find a station by its name.", "name", "query", {"station_id": TEXT, "name": TEXT}
            )
        },
        "/stations/{station_id}/bikes": {
            "get": operation(
                "count_bikes",
                "Count the bikes at a station.",
                "station_id",
                "path",
                {"free_bikes": NUMBER, "broken_bikes": NUMBER},
            )
        },
    },
}


class CityBikes(BaseHTTPRequestHandler):
    """The service. Its document is open to all; everything else needs the key."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/openapi.json":
            self.answer(200, DOCUMENT)
        elif self.headers["X-Station-Key"] != KEY:
            self.answer(401, {"error": "a key is needed"})
        elif url.path == "/stations":
            self.found(STATIONS.get(parse_qs(url.query).get("name", [""])[0]))
        else:
            self.found(BIKES.get(url.path.removeprefix("/stations/").removesuffix("/bikes")))

    def found(self, value: object) -> None:
        self.answer(404 if value is None else 200, value or {"error": "there is no such station"})

    def answer(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def ask(url: str) -> None:
    with Agent(Toolset.from_openapi(url, auth={"station_key": KEY})) as agent:
        result = agent.run("How many free bikes are there at the station Harbour? Answer with the number.")
    print(result.program)
    for call in result.calls:
        print(call.index, call.tool, call.arguments, call.status)
    print("the key is in the result:", KEY in result.model_dump_json())

    with Agent(Toolset.from_openapi(url)) as agent:
        refused = agent.run_program(result.program)  # the same program again; no model is asked
    print("without the key:", refused.status)
    print(refused.fault.message if refused.fault else "")
    print(result.status, result.value)


def main() -> None:
    port = int(sys.argv[1]) if sys.argv[1:] else 0  # 0: any free port
    server = ThreadingHTTPServer(("127.0.0.1", port), CityBikes)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        if sys.argv[1:]:  # the service alone, for the command line
            input(f"City bikes at {url}. Press Enter to end it. ")
        else:
            ask(url)
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    main()
