"""Programs through the sandbox service while its jails, and now and then the parent of them, are killed at random.

``python -m benchmarks.safety.service_load [--json] [--programs N] [--clients N] [--kill-ms MS]``: a service is started
on loopback; first its speed is measured, alone; then clients send programs, each with its own number, whose answers and
tool calls tell which program they belong to. Every run must end in its own answer or in an error that is told as one;
none may hang or get another's; and the service's memory must stay where it was. Exit code 1 where that does not hold.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from atc._records.outcome import Outcome
from atc.calls.contract import CallReply, CallRequest
from atc.errors import SandboxUnavailable
from atc.sandboxes.contract import Job, Limits
from atc.sandboxes.remote.client import ServiceSandbox
from benchmarks.common import AsJson, median, percentile, print_json, show
from benchmarks.safety.service_started import started

LIMITS = Limits(wall_s=20.0)
HANG_S = 60.0
ZYGOTE_EVERY = 40
"""One kill in so many takes the parent of all programs."""
MEMORY_GROWTH = 32 << 20
"""Bytes by which the service may have grown: its heap breathes with what is going on."""
ALL_KINDS_BY = 200
"""Of so many programs each kind is some."""
PROGRAMS = {
    "answer": "answer = [{n}, 1]",
    "calls": "answer = [{n}, sum(twice(n={n} + i) for i in range(5))]",
    "parallel": "answer = [{n}, sum(parallel([lambda i=i: twice(n={n} + i) for i in range(5)]))]",
    "prints": "print('{n} ' * 2000)\nanswer = [{n}, 1]",
    "raises": "raise ValueError('{n}')",
    "sleeps": "import time\ntime.sleep(0.03)\nanswer = [{n}, 1]",
}


@dataclass(frozen=True)
class Served:
    """A service that runs: where, its process, and the token for it."""

    url: str
    pid: int
    token: str

    def sandbox(self) -> ServiceSandbox:
        return ServiceSandbox(self.url, self.token, LIMITS, "F")

    def memory(self) -> int:
        """Resident bytes of the service itself."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@dataclass
class Tally:
    """What became of the programs."""

    ends: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    killed: Counter[str] = field(default_factory=Counter)


@contextmanager
def service(clients: int) -> Iterator[Served]:
    """``atc sandbox serve`` on a free port, ended when the block is left."""
    token = secrets.token_urlsafe(32)
    environment = {"ATC_SERVE_TOKEN": token, "ATC_WALL_S": str(LIMITS.wall_s)}
    with (
        tempfile.TemporaryDirectory(prefix="atc-load-") as folder,
        started(["--max-runs", str(4 * clients)], environment, Path(folder, "log")) as (process, port),
    ):
        yield Served(f"http://127.0.0.1:{port}", process, token)


# -- speed -----------------------------------------------------------------------------------------------------------


async def speed(served: Served, runs: int = 50, calls: int = 500) -> dict[str, float]:
    """Milliseconds from a request to the program's first tool call; microseconds of a call of 1 KB and its answer."""
    firsts: list[float] = []
    turns: list[float] = []
    async with served.sandbox() as sandbox:
        for number in range(runs + 3):
            began = time.perf_counter()

            async def first(request: CallRequest, began: float = began) -> CallReply:
                turns.append(1e3 * (time.perf_counter() - began))
                return CallReply(value=1)

            await sandbox.run(Job("f()", {"f": ()}, LIMITS), first)
            if number >= 3:
                firsts.append(turns[-1])
            await asyncio.sleep(0.02)  # the pool is made full again after a run
        timed = (
            f"import time\nspent = []\nfor _ in range({calls}):\n    began = time.perf_counter()\n    f(a='x' * 1000)\n"
            "    spent.append(1e6 * (time.perf_counter() - began))\nanswer = spent"
        )

        async def echo(request: CallRequest) -> CallReply:
            return CallReply(value=request.arguments)

        spent = (await sandbox.run(Job(timed, {"f": ("a",)}, LIMITS), echo)).value
    return {
        "first_call_ms_p50": round(median(firsts), 2),
        "first_call_ms_p95": round(percentile(firsts, 95), 2),
        "call_us_p50": round(median(spent)),
        "call_us_p95": round(percentile(spent, 95)),
    }


# -- load ------------------------------------------------------------------------------------------------------------


def judge(kind: str, number: int, outcome: Outcome, asked: list[int]) -> str:
    """What is wrong with how a program ended; empty if it is its own answer, or an honest end without one."""
    if any(not number <= n < number + 5 for n in asked):
        return f"program {number} was asked for the calls of another: {asked}"
    if outcome.kind == "finished":
        total = sum(2 * (number + i) for i in range(5)) if kind in ("calls", "parallel") else 1
        mine = outcome.value == [number, total] and (kind != "prints" or outcome.stdout == f"{number} " * 2000 + "\n")
        return "" if mine else f"program {number} ({kind}) got {str(outcome.value)[:80]!r}"
    if outcome.kind == "raised":
        mine = kind == "raises" and outcome.error is not None and outcome.error.message == str(number)
        return "" if mine else f"program {number} ({kind}) raised {outcome.error}"
    return "" if outcome.kind == "killed" and outcome.detail else f"program {number} ({kind}) ended as {outcome}"


def kind_of(number: int) -> str:
    """The kind of a program: chosen by lot, so that no client and no place in the row gets the same ones again."""
    return random.Random(number).choice(list(PROGRAMS))


async def one(sandbox: ServiceSandbox, number: int, tally: Tally) -> None:
    """Run one program and note what became of it."""
    kind = kind_of(number)
    tally.kinds[kind] += 1
    asked: list[int] = []

    async def twice(request: CallRequest) -> CallReply:
        asked.append(request.arguments["n"])
        return CallReply(value=2 * request.arguments["n"])

    began = time.perf_counter()
    try:
        job = Job(PROGRAMS[kind].replace("{n}", str(number)), {"twice": ("n",)}, LIMITS)
        outcome = await asyncio.wait_for(sandbox.run(job, twice), HANG_S)
    except SandboxUnavailable as error:
        tally.ends["SandboxUnavailable"] += 1
        if not str(error):
            tally.wrong.append(f"program {number}: an error without a word")
        return
    except TimeoutError:
        tally.ends["hung"] += 1
        tally.wrong.append(f"program {number} ({kind}) hung")
        return
    except Exception as error:  # the contract has no other: it is what is looked for here
        tally.ends[type(error).__name__] += 1
        tally.wrong.append(f"program {number} ({kind}): {type(error).__name__}: {error}")
        return
    tally.seconds.append(time.perf_counter() - began)
    tally.ends[outcome.kind] += 1
    if wrong := judge(kind, number, outcome, asked):
        tally.wrong.append(wrong)


async def load(served: Served, programs: int, clients: int, kill_ms: float) -> tuple[Tally, list[int]]:
    """Send the programs; return what became of them, and the service's memory after each tenth."""
    tally = Tally()
    numbers = iter(range(0, 10 * programs, 10))
    memory: list[int] = []

    async def client() -> None:
        async with served.sandbox() as sandbox:
            for number in numbers:
                await one(sandbox, number, tally)
                if sum(tally.ends.values()) * 10 // programs > len(memory):
                    memory.append(served.memory())

    killer = asyncio.create_task(kill_some(served.pid, kill_ms / 1000, tally))
    try:
        await asyncio.gather(*(client() for _ in range(clients)))
    finally:
        killer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await killer
    return tally, memory


async def kill_some(service_pid: int, pause_s: float, tally: Tally) -> None:
    """Kill a jail at random again and again; now and then the parent of them all."""
    while True:
        await asyncio.sleep(pause_s * random.uniform(0.5, 1.5))
        zygotes = _children(service_pid)
        if not zygotes:
            continue
        jails = _children(random.choice(zygotes))
        whole = random.randrange(ZYGOTE_EVERY) == 0
        victims = zygotes if whole else jails
        if victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(random.choice(victims), signal.SIGKILL)
                tally.killed["zygote" if whole else "jail"] += 1


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, thread.read_text().split())
    return found


# -- the whole -------------------------------------------------------------------------------------------------------


async def measure(programs: int, clients: int, kill_ms: float) -> dict[str, Any]:
    """All figures."""
    with service(clients) as served:
        figures: dict[str, Any] = {"programs": programs, "clients": clients, **await speed(served)}
        began = time.perf_counter()
        tally, memory = await load(served, programs, clients, kill_ms)
        seconds = time.perf_counter() - began
        last = Tally()
        async with served.sandbox() as sandbox:  # after all of it, it serves on
            await one(sandbox, 0, last)
    settled = memory[min(2, len(memory) - 1)]
    return figures | {
        "programs_a_second": round(programs / seconds, 1),
        "run_ms_p50": round(1e3 * median(tally.seconds), 1),
        "run_ms_p95": round(1e3 * percentile(tally.seconds, 95), 1),
        "kinds": dict(sorted(tally.kinds.items())),
        "ends": dict(tally.ends),
        "killed": dict(tally.killed),
        "wrong": tally.wrong[:20],
        "memory_mb": [round(size / 1e6, 1) for size in memory],
        "ok": not tally.wrong
        and sum(tally.ends.values()) == programs
        and (programs < ALL_KINDS_BY or set(tally.kinds) == set(PROGRAMS))
        and last.ends["finished"] == 1
        and memory[-1] - settled <= MEMORY_GROWTH,
    }


def _print(figures: dict[str, Any]) -> None:
    rows = [
        (
            "request → first tool call, ms (p50 / p95)",
            f"{figures['first_call_ms_p50']} / {figures['first_call_ms_p95']}",
        ),
        ("tool call of 1 KB and its answer, µs (p50 / p95)", f"{figures['call_us_p50']} / {figures['call_us_p95']}"),
        ("under load: programs a second", figures["programs_a_second"]),
        ("a run, ms (p50 / p95)", f"{figures['run_ms_p50']} / {figures['run_ms_p95']}"),
        ("kinds of programs", ", ".join(f"{count} {kind}" for kind, count in figures["kinds"].items())),
        ("how runs ended", ", ".join(f"{count} {end}" for end, count in figures["ends"].items())),
        ("killed meanwhile", ", ".join(f"{count} {what}s" for what, count in figures["killed"].items()) or "none"),
        ("hung, mixed up or without a typed end", len(figures["wrong"])),
        ("service's memory after each tenth, MB", " ".join(map(str, figures["memory_mb"]))),
    ]
    show(f"{figures['programs']:,} programs, {figures['clients']} clients", ("", ""), rows)
    for wrong in figures["wrong"]:
        print(wrong)


def main(
    programs: Annotated[int, typer.Option(min=1, help="Programs in all.")] = 10_000,
    clients: Annotated[int, typer.Option(min=1, help="Clients at once.")] = 8,
    kill_ms: Annotated[float, typer.Option(help="Between two kills, on average.")] = 50.0,
    as_json: AsJson = False,
) -> None:
    """Load a service whose jails are killed; exit with 1 where a promise is broken."""
    figures = asyncio.run(measure(programs, clients, kill_ms))
    print_json(figures) if as_json else _print(figures)
    raise typer.Exit(0 if figures["ok"] else 1)


if __name__ == "__main__":
    typer.run(main)
