"""The sandbox beside its peers, on the same programs in one run: how soon, how fast, how much, how surely it ends.

``python -m benchmarks.sandbox`` measures ATC's drivers and every peer that is installed here (``--peers`` names them);
what cannot be had is listed with the reason. Ratios are to the peer named in the table.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from atc.cli.console import err, guarded, out, print_json
from atc.sandboxes.contract import Limits
from atc.sandboxes.docker.driver import DockerSandbox
from atc.sandboxes.process.driver import ProcessSandbox
from atc.sandboxes.remote.client import ServiceSandbox
from benchmarks.common import ROOT, AsJson
from benchmarks.sandbox.targets import (
    DockerRun,
    LlmSandbox,
    Missing,
    Monty,
    Ours,
    PlainProcess,
    Restricted,
    Smolagents,
    Target,
    children,
    family_s,
    local_service,
    private_bytes,
)

KILOBYTE = "x" * 1000
CALLS = 300
TRIVIAL = "mark(n=1)\nanswer = 1"
CALLING = f"for i in range({CALLS}):\n    echo(text={KILOBYTE!r})\nanswer = 1"
ENDLESS = "while True:\n    pass"
DEADLINE_S = 0.5


@dataclass
class Figures:
    """What was measured of one target; milliseconds, microseconds, MB as the names say. ``None``: not measured."""

    name: str
    isolates: str = ""
    missing: str = ""
    first_ms: float | None = None
    first_ms_p95: float | None = None
    call_us: float | None = None
    call_us_p95: float | None = None
    programs_a_second: float | None = None
    cpu_ms: float | None = None
    memory_mb: float | None = None
    overrun_ms: float | None = None
    host_death_ms: float | None = None
    notes: list[str] = field(default_factory=list)


async def measure(target: Target, repeat: int) -> Figures:
    """All figures of one target that it has.

    Args:
        target: not opened yet.
        repeat: fresh jails to time.
    """
    figures = Figures(target.name)
    try:
        await target.open()
    except Missing as reason:
        figures.missing = str(reason)
        return figures
    figures.isolates = target.isolates
    try:
        if not target.has_calls:
            figures.first_ms, figures.first_ms_p95 = await _whole(target, repeat)
            figures.notes.append(
                "its programs cannot call tools: the time is that of a whole program, until it is told"
            )
            return figures
        figures.first_ms, figures.first_ms_p95 = await _first_line(target, repeat)
        figures.call_us, figures.call_us_p95 = await _calls(target)
        figures.programs_a_second, figures.cpu_ms = await _rate(target, repeat)
        figures.memory_mb = await _memory(target)
        if target.stops_loops:
            figures.overrun_ms = await _overrun(target)
        else:
            figures.notes.append("an endless loop stops the host")
    finally:
        await target.close()
    return figures


async def _first_line(target: Target, repeat: int) -> tuple[float, float]:
    """From the request to the program's first line, in a fresh jail."""
    times = []
    for _ in range(repeat + 3):
        came: list[float] = []
        began = time.perf_counter()
        await target.run(TRIVIAL, {"mark": lambda n, came=came: came.append(time.perf_counter())})
        times.append(1e3 * (came[0] - began))
        await asyncio.sleep(0.01)
    return _middle(times[3:]), _p95(times[3:])


async def _whole(target: Target, repeat: int) -> tuple[float, float]:
    """From the request to the end of a program that does nothing; when that was, the target says."""
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        times.append(1e3 * (await target.run("print(1)", {}) - began))
    return _middle(times), _p95(times)


async def _calls(target: Target) -> tuple[float, float]:
    """From one tool call to the next: 1 KB there and back."""
    at: list[float] = []

    def echo(text: str) -> str:
        at.append(time.perf_counter())
        return text

    await target.run(CALLING, {"echo": echo})
    gaps = [1e6 * (after - before) for before, after in itertools.pairwise(at)]
    return _middle(gaps), _p95(gaps)


async def _rate(target: Target, repeat: int) -> tuple[float, float | None]:
    """Fresh jails a second, two at a time; milliseconds of processor that each costs in all processes."""
    count = max(10, repeat)
    left = iter(range(count))

    async def worker() -> None:
        for _ in left:
            await target.run(TRIVIAL, {"mark": lambda n: None})

    began, used = time.perf_counter(), family_s(os.getpid())
    await asyncio.gather(worker(), worker())
    seconds = time.perf_counter() - began
    await asyncio.sleep(0.1)  # what went is taken down, and the pool is full again
    return count / seconds, 1e3 * (family_s(os.getpid()) - used) / count if target.counted else None


async def _memory(target: Target) -> float | None:
    seen: list[int] = []

    def look(n: int) -> None:
        seen.extend(private_bytes(pid) for pid in target.jail_processes())

    await target.run("kept = list(range(1000))\nmark(n=1)\nanswer = len(kept)", {"mark": look})
    return max(seen) / 1e6 if seen else None


async def _overrun(target: Target) -> float:
    """How long after its deadline an endless program is gone."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        await target.run(ENDLESS, {}, wall_s=DEADLINE_S)
        times.append(1e3 * (time.perf_counter() - began - DEADLINE_S))
    return _middle(times)


_HOST = """
import asyncio, sys
from atc.sandboxes.process.driver import ProcessSandbox
from atc.sandboxes.contract import CallReply, Job
async def call(request):
    print("running", flush=True)
    return CallReply(value=1)
asyncio.run(ProcessSandbox().run(Job("mark()\\nwhile True: pass", {"mark": []}), call))
"""


def host_death() -> float:
    """From the SIGKILL of a host to the end of its last sandbox process, in milliseconds."""
    host = subprocess.Popen([sys.executable, "-c", _HOST], stdout=subprocess.PIPE, cwd=ROOT)
    assert host.stdout is not None
    host.stdout.readline()
    family = _descendants(host.pid)
    began = time.perf_counter()
    host.kill()
    host.wait()
    while any(_alive(pid) for pid in family):
        if time.perf_counter() - began > 10:
            for pid in family:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return float("inf")
        time.sleep(0.0005)
    return 1e3 * (time.perf_counter() - began)


def _descendants(pid: int) -> list[int]:
    below = children(pid)
    return below + [deeper for child in below for deeper in _descendants(child)]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


# Command line -------------------------------------------------------------------------------------------------------


async def _all(repeat: int, peers: bool, only: set[str]) -> list[Figures]:
    targets: list[tuple[Target, int]] = [
        (Ours("process", ProcessSandbox), repeat),
        (Ours("process, no pool", lambda: ProcessSandbox(pool=0)), repeat),
        (Ours("docker", lambda: DockerSandbox(Limits()), counted=False), repeat),
        (Ours("docker:strict", lambda: DockerSandbox(Limits(), strict=True), counted=False), min(repeat, 20)),
    ]
    if peers:
        targets += [
            (PlainProcess(), repeat),
            (Monty(recycled=False), repeat),
            (Monty(recycled=True), repeat),
            (Smolagents(), repeat),
            (Restricted(), repeat),
            (DockerRun(), min(repeat, 15)),
            (LlmSandbox(), min(repeat, 5)),
        ]
    made = []
    for target, times in targets:
        if not only or target.name in only:
            made.append(await _attempted(target, times))
    if not only or "service" in only:
        async with local_service() as (url, token):
            made.append(await _attempted(Ours("service", lambda: ServiceSandbox(url, token, Limits(), "L")), repeat))
    for figures in made:
        if figures.name == "process" and not figures.missing:
            figures.host_death_ms = _middle([host_death() for _ in range(5)])
    return made


async def _attempted(target: Target, repeat: int) -> Figures:
    err.print(f"{target.name} …", markup=False)
    try:
        return await measure(target, repeat)
    except Exception as error:  # a peer that breaks costs its own line
        return Figures(target.name, missing=f"{type(error).__name__}: {str(error)[:200]}")


COLUMNS = {
    "first_ms": "first line, ms",
    "first_ms_p95": "95 %",
    "call_us": "call, µs",
    "call_us_p95": "95 %",
    "programs_a_second": "programs/s",
    "cpu_ms": "cpu ms a program",
    "memory_mb": "own MB",
    "overrun_ms": "after deadline, ms",
    "host_death_ms": "host dead → gone, ms",
}


def _print(rows: list[Figures]) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("sandbox", "walls", *COLUMNS.values()):
        table.add_column(heading, justify="left" if heading in ("sandbox", "walls") else "right")
    for row in rows:
        if not row.missing:
            table.add_row(row.name, row.isolates, *(_shown(getattr(row, column)) for column in COLUMNS))
    out.print(table)
    for row in rows:
        if row.missing:
            out.print(f"not measured: {row.name}: {row.missing}", markup=False)
        for note in row.notes:
            out.print(f"{row.name}: {note}", markup=False)
    ours = next((row for row in rows if row.name == "process"), None)
    for row in rows:
        if ours and ours.first_ms and ours.call_us and row is not ours and row.first_ms and row.call_us:
            ratios = f"first line × {row.first_ms / ours.first_ms:.2f}, call × {row.call_us / ours.call_us:.2f}"
            out.print(f"{row.name} against process: {ratios}", markup=False)


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


@guarded
def main(
    repeat: Annotated[int, typer.Option(min=5, help="Fresh jails to time for each.")] = 60,
    peers: Annotated[bool, typer.Option("--peers/--no-peers", help="Measure what else is installed here.")] = True,
    only: Annotated[list[str] | None, typer.Option(help="Only the target of this name; may be given again.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the sandbox beside its peers."""
    rows = asyncio.run(_all(repeat, peers, set(only or ())))
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        _print(rows)


if __name__ == "__main__":
    typer.run(main)
