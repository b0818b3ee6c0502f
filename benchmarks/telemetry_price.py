"""The price of telemetry: a run's time with OpenTelemetry off, on, with content, and with a collector that is down.

``python -m benchmarks.telemetry_price [--runs N] [--calls N] [--json]``: a scripted model writes a program that calls a
tool that answers at once. The ways take turns, so that a busy machine slows them alike. What is on sends to a process
that takes everything and keeps nothing; processor time is that of the whole process, the sending thread included.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.table import Table

from atc import Agent, tool
from atc.cli.console import guarded, out, print_json
from atc.models.fake import FakeModel

OFF, ON, CONTENT, DOWN = "off", "on", "on, with content", "on, collector down"
SINK = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Sink(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *_): pass
server = HTTPServer(("127.0.0.1", 0), Sink)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@tool(effect="read")
def echo(value: int) -> int:
    """The value that it was given."""
    return value


@contextmanager
def sink() -> Iterator[str]:
    """The address of a process that takes what is sent to it."""
    process = subprocess.Popen([sys.executable, "-c", SINK], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()


def nobody() -> str:
    """An address at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


async def measured(runs: int, calls: int, *, down: bool) -> dict[str, list[tuple[float, float]]]:
    """Seconds of the clock and of the processor, of each run of each way.

    Args:
        down: measure with a collector that is down, beside what is off; else the other ways.
    """
    program = f"```python\nfor n in range({calls}):\n    echo(value=n)\nanswer = 1\n```"
    ways: dict[str, dict[str, Any]] = {OFF: {}, DOWN if down else ON: {"otel": True}}
    if not down:
        ways[CONTENT] = {"otel": True}
    figures: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        kept = {"sentence": False, "learn": False, "runs_dir": folder, "max_calls": calls + 1}
        agents = {}
        for way, settings in ways.items():
            os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = str(way == CONTENT)
            agents[way] = Agent([echo], model=FakeModel([program] * (runs + 3)), **{**kept, **settings})
        for number in range(-3, runs):  # the first ones warm up
            for way, agent in agents.items():
                clock, processor = time.perf_counter(), time.process_time()
                result = await agent.arun("Echo")
                spent = time.perf_counter() - clock, time.process_time() - processor
                result.unwrap()
                if number >= 0:
                    figures[way].append(spent)
        for agent in agents.values():
            await agent.aclose()
    return figures


def in_a_process(runs: int, calls: int, endpoint: str, *, down: bool) -> dict[str, tuple[float, float]]:
    """The medians of each way, from a process of its own: the exporters are made once in one."""
    code = (
        "import asyncio, json; from benchmarks.telemetry_price import measured; "
        f"print(json.dumps(asyncio.run(measured({runs}, {calls}, down={down}))))"
    )
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    made = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    read = json.loads(made.stdout.splitlines()[-1])
    return {
        way: (statistics.median(clock for clock, _ in spent), statistics.median(used for _, used in spent))
        for way, spent in read.items()
    }


@guarded
def main(
    runs: Annotated[int, typer.Option(min=3, help="Runs of each way.")] = 60,
    calls: Annotated[int, typer.Option(min=1, help="Tool calls of one run.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False,
) -> None:
    """Measure what telemetry costs a run."""
    rows: dict[str, dict[str, float]] = {}
    for down in (False, True):
        with sink() as up:
            medians = in_a_process(runs, calls, nobody() if down else up, down=down)
        clock, processor = medians[OFF]
        for way, (its_clock, its_processor) in medians.items():
            if way not in rows:
                rows[way] = {
                    "ms": round(1e3 * its_clock, 2),
                    "ratio": round(its_clock / clock, 3),
                    "processor_ms": round(1e3 * its_processor, 2),
                    "processor_ratio": round(its_processor / processor, 3),
                }
    if as_json:
        print_json({"runs": runs, "calls": calls, "ways": rows})
        return
    table = Table(
        "telemetry", "ms a run", "× off", "processor, ms", "× off", title=f"{calls} calls a run, median of {runs}"
    )
    for way, row in rows.items():
        table.add_row(way, *(f"{value:g}" for value in row.values()))
    out.print(table)


if __name__ == "__main__":
    typer.run(main)
