"""One tenant floods ``atc sandbox serve`` with frames while another runs its programs: how much slower do those get?

``python -m benchmarks.safety.service_tenants [--json] [--kinds …] [--channels 8] [--unbounded]``: a service on loopback
with two tenants. First the quiet one's runs, alone: their time is the peer of all others. Then the same runs while the
other tenant floods from a process of its own, one kind after the other. The service's own processor time on behalf of
each is read from ``/metrics``. ``--unbounded``: a service that counts, but holds nobody back, to compare with.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from atc.calls.contract import CallReply, CallRequest
from atc.cli.console import guarded
from atc.errors import SandboxUnavailable
from atc.sandboxes.contract import Job, Limits
from atc.sandboxes.remote.client import ServiceSandbox
from benchmarks.common import AsJson, listed, machine, median, percentile, print_json, show
from benchmarks.safety.service_started import started

QUIET, GREEDY = "quiet", "greedy"
RUNS = 10
ROUNDS = 3
"""Of runs alone and runs beside a flood, in turn: what else the machine does changes."""
CALLS = 10
LIMITS = Limits(wall_s=60.0)
FLOODS = {
    "spins": "while True: pass",
    "parallel": "while True: parallel([f for _ in range(50)])",
    "large_calls": "x = 'x' * 500_000\nwhile True: f(a=x)",
}
"""What a program of the greedy tenant does. ``spins`` takes processors and nothing of the service."""
_UNBOUNDED = "from atc.serve.sandbox import accounts; accounts.BURST_S = 1e9; from atc.cli import app; app()"


@contextmanager
def service(unbounded: bool) -> Iterator[tuple[str, dict[str, str]]]:
    """``atc sandbox serve`` on a free port; its address, and the tenants' tokens."""
    tokens = {name: secrets.token_urlsafe(32) for name in (QUIET, GREEDY)}
    with tempfile.TemporaryDirectory(prefix="atc-tenants-") as folder:
        tenants, log = Path(folder, "tenants"), Path(folder, "log")
        tenants.write_text("".join(f"{name} {token}\n" for name, token in tokens.items()))
        tenants.chmod(0o600)
        how = ["-c", _UNBOUNDED] if unbounded else ["-m", "atc"]
        environment = {"ATC_WALL_S": "60", "ATC_CPU_S": "60"}
        with started(["--tenants", str(tenants)], environment, log, how=how) as (_, port):
            yield f"http://127.0.0.1:{port}", tokens


def _flood(url: str, token: str, kind: str, channels: int, up: Event, end: Event) -> None:
    async def call(request: CallRequest) -> CallReply:
        up.set()
        return CallReply(value=1)

    async def programs() -> None:
        sandbox = ServiceSandbox(url, token, LIMITS, "F")
        while True:
            with contextlib.suppress(SandboxUnavailable):
                await sandbox.run(Job(FLOODS[kind], {"f": ("a",)}, LIMITS), call)
            up.set()

    async def go() -> None:
        tasks = [asyncio.create_task(programs()) for _ in range(channels)]
        if kind == "spins":
            asyncio.get_running_loop().call_later(2.0, up.set)
        await asyncio.to_thread(end.wait)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(go())


async def quiet_runs(url: str, token: str) -> list[float]:
    """Milliseconds of each run of the quiet tenant: some calls, one after the other."""

    async def call(request: CallRequest) -> CallReply:
        return CallReply(value=1)

    sandbox, taken = ServiceSandbox(url, token, LIMITS, "F"), []
    try:
        for number in range(RUNS + 2):
            began = time.perf_counter()
            outcome = await sandbox.run(Job(f"for _ in range({CALLS}): f()", {"f": ()}, LIMITS), call)
            if outcome.kind != "finished":
                raise SandboxUnavailable(f"a run of the quiet tenant ended as {outcome.kind}: {outcome.detail}")
            if number >= 2:
                taken.append(1e3 * (time.perf_counter() - began))
    finally:
        await sandbox.aclose()
    return taken


def _host_seconds(url: str) -> dict[str, float]:
    lines = httpx.get(f"{url}/metrics", timeout=30).text.splitlines()
    rows = [line for line in lines if line.startswith("atc_host_seconds_total{")]
    return {row.split('"')[1]: float(row.rpartition(" ")[2]) for row in rows}


def measure(kinds: list[str], channels: int, unbounded: bool) -> dict[str, Any]:
    """All figures."""
    spawn, rows = multiprocessing.get_context("spawn"), []
    for kind in kinds:
        alone: list[float] = []
        beside: list[float] = []
        spent, seconds = dict.fromkeys((QUIET, GREEDY), 0.0), 0.0
        with service(unbounded) as (url, tokens):
            for _ in range(ROUNDS):
                alone += asyncio.run(quiet_runs(url, tokens[QUIET]))
                up, end = spawn.Event(), spawn.Event()
                flood = spawn.Process(target=_flood, args=(url, tokens[GREEDY], kind, channels, up, end))
                flood.start()
                try:
                    up.wait(60)
                    time.sleep(1.0)
                    before, began = _host_seconds(url), time.monotonic()
                    beside += asyncio.run(quiet_runs(url, tokens[QUIET]))
                    seconds += time.monotonic() - began
                    for name, after in _host_seconds(url).items():
                        if name in spent:
                            spent[name] += after - before[name]
                finally:
                    end.set()
                    flood.join(60)
        used = {name: round(each / seconds, 3) for name, each in spent.items()}
        rows.append(
            {
                "flood": kind,
                "alone_ms": round(median(alone), 1),
                "beside_ms": round(median(beside), 1),
                "beside_ms_p95": round(percentile(beside, 95), 1),
                "ratio": round(median(beside) / median(alone), 2),
                "host_s_a_second": used,
            }
        )
    return {"machine": machine(), "channels": channels, "bounded": not unbounded, "floods": rows}


def _print(figures: dict[str, Any]) -> None:
    rows = [
        (
            row["flood"],
            row["alone_ms"],
            f"{row['beside_ms']} ({row['beside_ms_p95']})",
            row["ratio"],
            row["host_s_a_second"][QUIET],
            row["host_s_a_second"][GREEDY],
        )
        for row in figures["floods"]
    ]
    head = ("flood", "a run alone, ms", "beside it (95 %)", "ratio", "host s/s, quiet", "greedy")
    show(f"{figures['channels']} channels{'' if figures['bounded'] else ', nobody held back'}", head, rows)


@guarded
def main(
    kinds: Annotated[str, typer.Option(help="Floods, with commas between.")] = ",".join(FLOODS),
    channels: Annotated[int, typer.Option(help="Programs of the greedy tenant at once.")] = 8,
    unbounded: Annotated[bool, typer.Option("--unbounded", help="Hold nobody back.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run one tenant's programs beside another's flood."""
    figures = measure(listed(kinds, FLOODS, "kinds"), channels, unbounded)
    print_json(figures) if as_json else _print(figures)


if __name__ == "__main__":
    typer.run(main)
