"""How quick the server of the page is over 10,000 runs, a run of 1,000 calls and a value of 5 MB.

``python -m benchmarks.speed.ui [--json] [--runs N] [--calls N]``: runs are written into a folder of their own, and `atc
ui` is started over it: once where no summary was kept yet, and once more. Seconds are wall time of requests on one
connection of loopback, "processor" what the server spends on one: median and mean of 20 where it was repeated. "Whole
list": until every run is in it. Exit code 1 where an answer is not as it must be.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from atc._records.events import Event, EventKind
from benchmarks.common import AsJson, median, print_json, show

CALLS_OF_EACH = 4
"""Calls of an ordinary run."""
TIMES = 20
"""Requests of which the median is taken."""
VALUE = "<b>x</b>" * 640_000
LARGE, HEAVY = "20991231-000000-00000a", "20991231-000000-00000b"


def written(folder: Path, run_id: str, task: str, calls: int, value: Any) -> None:
    """Write the trace of a run of one program."""
    lines: list[str] = []

    def event(kind: EventKind, /, **data: Any) -> None:
        lines.append(Event(kind, data, 1_750_000_000.0 + len(lines)).line())

    settings = {"model": "m", "max_tools": 20}
    event("run_started", run_id=run_id, task=task, model="m", endpoint="", tools=3, source=None, strategy="chain",
          strategy_given="chain", settings=settings)  # fmt: skip
    event("tools_chosen", tools=["find", "book"])
    event("model_started", purpose="program")
    event("model_ended", purpose="program", seconds=1.0, prompt_tokens=900, completion_tokens=100, cached=False,
          finish_reason="stop", text="")  # fmt: skip
    program = "\n".join(f"x{line} = find(n={line})" for line in range(min(calls, 40))) + "\nanswer = x0"
    event("program_written", attempt=0, program=program, rewrites=[])
    event("program_started", attempt=0, warnings=[])
    for index in range(1, calls + 1):
        line = index % 40 + 1
        event("call_started", index=index, tool="find", arguments={"n": index}, effect="read", line=line)
        event("call_ended", index=index, attempt=0, tool="find", arguments={"n": index}, effect="read", status="ok",
              value=value, error=None, line=line, seconds=0.01, notes=[])  # fmt: skip
    event("program_ended", attempt=0, kind="finished", seconds=1.0, detail="", stdout="", stderr="", isolation="L")
    event("answered", value=7, answer="7")
    event("run_ended", run_id=run_id, task=task, status="answered", answer="7", value=7, usage={"seconds": 3.0})
    (folder / run_id).mkdir(mode=0o700)
    (folder / run_id / "trace.jsonl").write_text("\n".join(lines) + "\n")


class Server:
    """`atc ui` over a folder, and one connection to it."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", told["port"], timeout=120)
        self._api = "/" + told["api"].split("/", 3)[3]
        self._pid = told["pid"]
        self._headers = {"Authorization": f"Bearer {told['tokens']['read']}"}

    def get(self, path: str, *, api: bool = True) -> bytes:
        """The body of an answer, which must be right."""
        where = f"{self._api}{path}" if api else f"{self._api.removesuffix('/api')}{path}"
        self._http.request("GET", where, headers=self._headers)
        answer = self._http.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path} was answered with {answer.status}: {body[:200]!r}")
        return body

    def seconds(self, path: str, *, api: bool = True) -> float:
        """What one request takes."""
        return timed(lambda: self.get(path, api=api))[0]

    def median(self, path: str, *, api: bool = True) -> tuple[float, float]:
        """What a request takes, in the middle of :data:`TIMES`; and what it costs of the processor."""
        before = self._processor()
        taken = median([self.seconds(path, api=api) for _ in range(TIMES)])
        return taken, (self._processor() - before) / TIMES

    def _processor(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def whole(self, runs: int) -> float:
        """Seconds until the list has all runs."""
        begun = time.perf_counter()
        while (found := json.loads(self.get("/runs?limit=1")))["unread"] or found["total"] < runs:
            time.sleep(0.02)
        return time.perf_counter() - begun


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that it takes, and what it gives."""
    begun = time.perf_counter()
    given = work()
    return time.perf_counter() - begun, given


@contextmanager
def served(folder: Path) -> Iterator[Server]:
    """The server over a folder of runs; it ends with the block."""
    env = os.environ | {"ATC_RUNS_DIR": str(folder)}
    command = [sys.executable, "-m", "atc", "ui", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            text = ""
            while "\n}\n" not in text:
                line = process.stdout.readline()
                if not line:
                    raise SystemExit("atc ui ended before it said where it is")
                text += line
            yield Server(json.loads(text))
        finally:
            process.terminate()
            process.wait()


def measured(folder: Path, runs: int, calls: int) -> dict[str, Any]:
    """All figures, in seconds."""
    for number in range(runs - 2):
        day, second = divmod(number, 400)
        run_id = f"2026{1 + day // 28:02d}{1 + day % 28:02d}-{second // 60:02d}{second % 60:02d}00-{number:06x}"
        written(folder, run_id, f"task {number} about Rome", CALLS_OF_EACH, {"city": "Rome", "people": 2_800_000})
    written(folder, LARGE, "a run of many calls", calls, {"city": "Rome", "people": 2_800_000})
    written(folder, HEAVY, "a run with a large value", 1, VALUE)
    size = sum((folder / run / "trace.jsonl").stat().st_size for run in os.listdir(folder))
    figures: dict[str, Any] = {"runs": runs, "calls": calls, "mb_of_traces": size / 1e6}
    for name in ("no summaries", "summaries kept"):
        with served(folder) as server:
            figures[f"first page of the list, {name}"] = server.seconds("/", api=False)
            figures[f"whole list, {name}"] = server.whole(runs)
            if name == "no summaries":
                continue
            paths = {
                "list again": "/runs?limit=50",
                "search": "/runs?query=rome+999+tokens:>10",
                "value of 5 MB": f"/runs/{HEAVY}/value?line=8&pointer=6",
            }
            for what, path in paths.items():
                figures[what], figures[f"{what}, processor"] = server.median(path)
            page = f"/runs/{LARGE}"
            figures[f"page of a run of {calls} calls, first"] = server.seconds(page, api=False)
            what = f"page of a run of {calls} calls"
            figures[what], figures[f"{what}, processor"] = server.median(page, api=False)
            figures["its stream from the beginning"], told = timed(lambda: server.get(f"/runs/{LARGE}/events"))
            if told.count(b"event: end") != 1 or len(server.get(paths["value of 5 MB"])) < len(VALUE):
                raise SystemExit("the stream or the value is not whole")
            figures["kb of the page"] = len(server.get(page, api=False)) / 1000
    return figures


def main(
    runs: Annotated[int, typer.Option(min=2, help="Runs in the folder.")] = 10_000,
    calls: Annotated[int, typer.Option(min=1, help="Calls of the largest run.")] = 1_000,
    as_json: AsJson = False,
) -> None:
    """Measure the server of the pages of runs."""
    with tempfile.TemporaryDirectory(prefix="atc-ui-") as folder:
        figures = measured(Path(folder), runs, calls)
    if as_json:
        print_json(figures)
        return
    rows = [(name, f"{value:.3f}") for name, value in figures.items() if isinstance(value, float)]
    show(f"{runs:,} runs", ("what", "s (or as it says)"), rows)


if __name__ == "__main__":
    typer.run(main)
