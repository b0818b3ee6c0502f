"""Hosts that are killed while their programs write: what is done twice, lost, or in doubt, for each kind of tool.

A scripted model (no model is asked) gives one program that writes through a function, an async function, a service over
HTTP and a slow function, in turns. The host that runs it is a process of its own; it is killed (SIGKILL) at a random
moment, its run is resumed by another one, which may be killed again, until one reports how the run ended. What was
really done is counted at the tools' own side: a file, and a service in a process that nobody kills.

The disk of the journal stalls at random records, before they are written or after: some hosts are killed then.

``--changing``: between a kill and what goes on, tools are renamed, said to read or to do something unknown, or taken
away, each by chance; the model's next program calls those that are there, by their names. A tool that only ever was
said to read may be called twice, as any read, and a run does not say what it did: what was begun as a read is counted
apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from atc import Agent, tool
from atc.calls.journal_file import JournalFile
from atc.errors import UsageError
from atc.models.fake import FakeModel
from atc.result import Effect, Result
from atc.tools.tool import Toolset
from atc.traces.stores.files import FileStore
from benchmarks.common import AsJson, print_json

KINDS = ("function", "async", "http", "slow")
EACH = 6
"""Writes of each kind in one program."""
QUICK_S, SLOW_S = 0.008, 0.08
"""Seconds that a write takes before it is done, and again until it answers."""
KILL_AGAIN = 0.85
"""How often the process that goes on with a run is killed, too."""
OF_STALL, STALL_S, IN_STALL = 0.1, 0.5, 0.4
"""How often the disk stalls at a record of the journal, for how many seconds at most, and how often that is waited for
before a host is killed."""
FURTHER = 4
"""Writes that a host may do, at most, before its moment comes."""
PATIENCE_S = 120.0
_STEP = """    try:
        {name}(key=f"{kind} {{number}}")
        done = done + 1
    except ToolError:
        pass
"""
KEYS = [f"{kind} {number}" for number in range(EACH) for kind in KINDS]
DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "lines", "version": "1"},
    "paths": {
        "/lines": {
            "post": {
                "operationId": "write_http",
                "summary": "Write a line.",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "properties": {"key": {"type": "string"}},
                                "required": ["key"],
                            }
                        }
                    },
                },
                "responses": {
                    "200": {
                        "description": "done",
                        "content": {"application/json": {"schema": {"type": "integer"}}},
                    }
                },
            }
        }
    },
}


@dataclass(frozen=True)
class Shape:
    """How one host finds a tool: under which name, and what it is said to do.

    Attributes:
        name: that programs use; empty where the tool is not there.
    """

    name: str
    effect: Effect = Effect.WRITE


AS_THEY_ARE = {kind: Shape(f"write_{kind}") for kind in KINDS}


def changed(rng: random.Random) -> dict[str, Shape]:
    """Tools that were changed while nobody looked; at least one of them is there, under whatever name."""
    names = {kind: rng.choice([f"write_{kind}", f"first_{kind}", f"other_write_{kind}", ""]) for kind in KINDS}
    if not any(names.values()):
        return AS_THEY_ARE
    effects = [Effect.WRITE, Effect.WRITE, Effect.UNKNOWN, Effect.READ]
    return {kind: Shape(name, rng.choice(effects)) for kind, name in names.items()}


def script(shapes: dict[str, Shape]) -> str:
    """What the model says: a program over the tools that are there."""
    steps = "".join(_STEP.format(name=shape.name, kind=kind) for kind, shape in shapes.items() if shape.name)
    return f"```python\ndone = 0\nfor number in range({EACH}):\n{steps}answer = done\n```"


@dataclass
class Counts:
    """What became of the writes of one kind.

    Attributes:
        done: exactly once, and the run says so.
        twice: more than once.
        lost: not done, and the run says that it was.
        in_doubt: reported as such; ``in_doubt_done`` of them were done.
        unsaid: done, and the run does not say so.
        not_done: the run says so, and it is so.
        read_twice: more than once, and begun as a read at least once.
        read_unsaid: done, begun as a read, and the run does not say so.
        unasked: not done, and not called by what ended the run: the tool was not there, or no program ran.
    """

    done: int = 0
    twice: int = 0
    lost: int = 0
    in_doubt: int = 0
    in_doubt_done: int = 0
    unsaid: int = 0
    not_done: int = 0
    read_twice: int = 0
    read_unsaid: int = 0
    unasked: int = 0


@dataclass
class Found:
    """The figures of all runs."""

    kills: int = 0
    in_the_middle: int = 0
    before_the_run: int = 0
    stalled: int = 0
    runs: int = 0
    killed_again: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, Counts] = field(default_factory=lambda: {kind: Counts() for kind in KINDS})

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "kills": self.kills,
            "in the middle of the writes": self.in_the_middle,
            "before anything of the run was written": self.before_the_run,
            "while the disk of the journal stalled": self.stalled,
            "of runs that were going on again": self.killed_again,
            "runs": self.runs,
            "ends of the runs": dict(self.ends),
            "kinds": {kind: vars(counts) for kind, counts in self.kinds.items()},
            "done twice": sum(each.twice for each in self.kinds.values()),
            "lost": sum(each.lost for each in self.kinds.values()),
            "in doubt": sum(each.in_doubt for each in self.kinds.values()),
        }


def main(
    kills: Annotated[int, typer.Option(min=1, help="hosts to kill")] = 200,
    seed: int = 0,
    changing: Annotated[bool, typer.Option("--changing", help="change the tools before a run goes on")] = False,
    as_json: AsJson = False,
) -> None:
    """Kill hosts and count."""
    found = measured(kills, seed, None if as_json else _progress, changing=changing)
    figures = found.as_json()
    print_json(figures) if as_json else print_figures(figures)
    if figures["done twice"] or figures["lost"]:
        raise typer.Exit(1)


def measured(
    kills: int, seed: int, progress: Callable[[Found], None] | None = None, *, changing: bool = False
) -> Found:
    """Kill so many hosts, at moments that the seed decides, and let every run come to an end."""
    rng, found = random.Random(seed), Found()
    with tempfile.TemporaryDirectory() as name:
        service, port = start_service(Path(name))
        try:
            with contextlib.suppress(KeyboardInterrupt):  # what was counted until then is told
                while found.kills < kills:
                    folder = Path(name) / f"run-{found.runs}"
                    folder.mkdir()
                    _one_run(folder, port, rng, found, kills, changing=changing)
                    if progress is not None:
                        progress(found)
        finally:
            os.kill(service, signal.SIGKILL)
            os.waitpid(service, 0)
    return found


def _one_run(folder: Path, port: int, rng: random.Random, found: Found, most: int, *, changing: bool) -> None:
    found.runs += 1
    sides, first = [folder / "lines", folder / "served"], True
    for side in sides:
        side.touch()

    def written() -> list[str]:
        return [line for side in sides for line in side.read_text().splitlines()]

    while True:
        kill = first or (found.kills < most and rng.random() < KILL_AGAIN)
        already = len(written())
        host = _host(folder, port, AS_THEY_ARE if first or not changing else changed(rng))
        try:
            alive = wait_for_moment(host, kill, rng, already, written)
            if kill and rng.random() < IN_STALL:
                alive = _wait_for_stall(host, folder / "stalls")
        finally:
            os.kill(host, signal.SIGKILL)  # nobody has reaped it: the number is still its own
            os.waitpid(host, 0)
        if kill and alive:
            found.kills += 1
            found.killed_again += not first
            found.in_the_middle += 0 < len(written()) < len(KEYS)
            found.before_the_run += not _runs(folder)
            found.stalled += (folder / "stalls").exists()
        (folder / "stalls").unlink(missing_ok=True)
        first = False
        report = folder / "report.json"
        if report.exists():
            httpx.get(f"http://127.0.0.1:{port}/", timeout=PATIENCE_S)  # it does one thing after the other: all is done
            count_report(json.loads(report.read_text()), Counter(written()), found)
            return
        if not kill:
            raise RuntimeError(f"the host of {folder} ended without a report: {(folder / 'error').read_text()}")


def wait_for_moment(host: int, kill: bool, rng: random.Random, already: int, written: Callable[[], list[str]]) -> bool:
    """Wait until a host is to be killed, or has ended where it is not; whether it is still there."""
    if not kill:
        os.waitid(os.P_PID, host, os.WEXITED | os.WNOWAIT)
        return False
    began, wanted = time.monotonic(), already + rng.randint(0, min(FURTHER, max(0, len(KEYS) - already)))
    while len(written()) < wanted and not _ended(host) and time.monotonic() - began < PATIENCE_S:
        time.sleep(0.001)
    time.sleep(rng.uniform(0.0, rng.choice((3 * QUICK_S, 1.3 * SLOW_S)) if wanted > already else 1.5))
    return not _ended(host)


def _wait_for_stall(host: int, stalls: Path) -> bool:
    """Wait until the disk stalls, or a host has ended; whether it is still there."""
    while not stalls.exists() and not _ended(host):
        time.sleep(0.001)
    return not _ended(host)


def count_report(report: dict[str, Any], done: Counter[str], found: Found) -> None:
    """Add what a host reported of its run, held against what was really done."""
    found.ends[report["status"]] += 1
    said: dict[str, set[str]] = {}
    as_read, told = set(report.get("as_read", ())), set(report["done"])
    for key, status in report["calls"]:
        said.setdefault(key, set()).add(status)
    for key in KEYS:
        counts, times, statuses = found.kinds[key.split()[0]], done[key], said.get(key, set())
        claimed = key in told or bool(statuses & {"ok", "replayed"})
        if times > 1 and key in as_read:
            counts.read_twice += 1
        elif times > 1:
            counts.twice += 1
        elif claimed:
            counts.done += times == 1
            counts.lost += times == 0
        elif "in_doubt" in statuses:
            counts.in_doubt += 1
            counts.in_doubt_done += times == 1
        elif times == 1:
            counts.read_unsaid += key in as_read
            counts.unsaid += key not in as_read
        else:
            counts.not_done += bool(statuses)
            counts.unasked += not statuses


# -- the host that is killed -------------------------------------------------------------------------------------------


def _host(folder: Path, port: int, shapes: dict[str, Shape]) -> int:
    sys.stdout.flush()
    pid = os.fork()  # this process has one thread
    if pid:
        return pid
    try:
        stall_at_random(folder / "stalls")
        try:
            result = asyncio.run(_run(folder, port, shapes))
            ended = result.model_dump(mode="json")
            report = report_of(ended, ended["calls"])
        except UsageError:  # it was killed after its end: the trace tells how it ended
            (run,) = FileStore(folder / "runs").list()
            report = traced(run.events())
        report["as_read"] = _begun_as_read(folder)
        whole = folder / "report.part"
        whole.write_text(json.dumps(report))
        whole.rename(folder / "report.json")
    except BaseException as error:
        (folder / "error").write_text(f"{type(error).__name__}: {error}")
    os._exit(0)


def stall_at_random(stalls: Path) -> None:
    """Let the disk of this process's journals stall at random records. A file is there while it does."""
    append = JournalFile.append

    def stalling(self: JournalFile, record: str, **how: bool) -> None:
        later = random.random() < 0.5
        if later:
            append(self, record, **how)
        if random.random() < OF_STALL:
            stalls.touch()
            time.sleep(random.uniform(0.0, STALL_S))
            stalls.unlink()
        if not later:
            append(self, record, **how)

    random.seed()
    JournalFile.append = stalling  # type: ignore[method-assign]


async def _run(folder: Path, port: int, shapes: dict[str, Shape]) -> Result[Any]:
    runs = _runs(folder)
    address = f"http://127.0.0.1:{port}/{folder.name}"
    made = line_tools(folder / "lines") + Toolset.from_openapi(DOCUMENT, base_url=address)
    there = [(made[f"write_{kind}"], shape) for kind, shape in shapes.items() if shape.name]
    agent = Agent(
        Toolset(each.graded(shape.effect).called(shape.name) for each, shape in there),
        model=FakeModel([script(shapes)] * 20),
        approve="always",
        sentence=False,
        learn=False,
        runs_dir=folder / "runs",
        catalogue=folder / "catalogue",
        call_timeout_s=20.0,
    )
    async with agent:
        if runs:
            return await agent.aresume(runs[0])
        return await agent.arun("Write every line once.")


def report_of(ended: Mapping[str, Any], calls: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What a run says of its lines: how it ended, what it has done, and the status of each call."""
    return {
        "status": ended["status"],
        "done": [each["arguments"].get("key") for each in ended["done"]],
        "calls": [(call["arguments"].get("key"), call["status"]) for call in calls],
    }


def traced(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What the trace of a run says that has ended."""
    data: dict[str, list[Mapping[str, Any]]] = {"run_ended": [], "call_ended": []}
    for event in events:
        data.setdefault(event["kind"], []).append(event["data"])
    return report_of(data["run_ended"][-1], data["call_ended"])


def _begun_as_read(folder: Path) -> list[str]:
    lines = next((folder / "runs").glob("*/journal.jsonl")).read_text().splitlines()
    records = [json.loads(line) for line in lines if '"begin"' in line]
    return [str(record["args"].get("key")) for record in records if record["effect"] == Effect.READ.value]


def _runs(folder: Path) -> list[str]:
    traces = (folder / "runs").glob("*/trace.jsonl")
    return sorted(each.parent.name for each in traces if b"\n" in each.read_bytes())


def line_tools(lines: Path) -> Toolset:
    """Tools that write a line into this file: blocking, asynchronous, slow."""

    def write(key: str) -> None:
        descriptor = os.open(lines, os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, key.encode() + b"\n")
        os.close(descriptor)

    @tool(effect="write")
    def write_function(key: str) -> int:
        """Write a line."""
        time.sleep(QUICK_S)
        write(key)
        time.sleep(QUICK_S)
        return 1

    @tool(effect="write")
    async def write_async(key: str) -> int:
        """Write a line."""
        await asyncio.sleep(QUICK_S)
        write(key)
        await asyncio.sleep(QUICK_S)
        return 1

    @tool(effect="write")
    async def write_slow(key: str) -> int:
        """Write a line."""
        await asyncio.sleep(SLOW_S)
        write(key)
        await asyncio.sleep(SLOW_S)
        return 1

    return Toolset.from_functions(write_function, write_async, write_slow)


def _ended(pid: int) -> bool:
    """Whether a child has ended; it is not reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


# -- the service -------------------------------------------------------------------------------------------------------


def start_service(folder: Path) -> tuple[int, int]:
    """Start the service over HTTP that writes what it is sent into a file of the run: its process and its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port, parent = listening.getsockname()[1], os.getpid()
        pid = os.fork()
        if pid:
            return pid, port
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: it is ended by its parent

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                time.sleep(QUICK_S)
                descriptor = os.open(folder / self.path.split("/")[1] / "served", os.O_WRONLY | os.O_APPEND)
                os.write(descriptor, str(json.loads(body)["key"]).encode() + b"\n")
                os.close(descriptor)
                time.sleep(QUICK_S)
                self.do_GET()

            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "1")
                self.end_headers()
                self.wfile.write(b"1")

            def log_message(self, *_: Any) -> None:
                return

        server = HTTPServer(("127.0.0.1", port), Handler, bind_and_activate=False)
        server.socket.close()
        server.socket = listening
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that was killed
        server.timeout = 1.0
        while os.getppid() == parent:
            server.handle_request()
        os._exit(0)


# -- shown -------------------------------------------------------------------------------------------------------------


def _progress(found: Found) -> None:
    if sys.stderr.isatty():
        print(f"\r{found.kills} kills, {found.runs} runs", end="", file=sys.stderr, flush=True)


def print_figures(figures: dict[str, Any]) -> None:
    """Print what was counted, for people."""
    for name, value in figures.items():
        if name != "kinds":
            print(f"{name}: {value}")
    for kind, counts in figures["kinds"].items():
        print(f"{kind:>10}: " + ", ".join(f"{value} {name.replace('_', ' ')}" for name, value in counts.items()))
