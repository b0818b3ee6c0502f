"""The price of a tool call: processor time on the host and in the jail, and time on the clock.

``python -m benchmarks.call_price [--calls N] [--pinned] [--json]``: a program calls a tool that answers at once with
what it was given: a text of 1 KB, the same from a ``parallel`` of sixteen, and sixteen small objects. ``--pinned`` puts
all on one processor: no wake-up crosses processors then, so that the price of the code itself is left.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Annotated

import typer

from atc.calls.contract import CallReply, CallRequest
from atc.cli.console import guarded, print_json
from atc.sandboxes.contract import Job, Limits
from atc.sandboxes.process.driver import ProcessSandbox

TEXT = f"value = {'x' * 1000!r}\n"
OBJECTS = "value = [{'id': i, 'name': f'n{i}', 'price': 1.5 * i, 'ok': True} for i in range(16)]\n"
PROGRAMS = {
    "1 KB of text": TEXT + "for _ in range({calls}):\n    echo(value=value)\nanswer = 1",
    "1 KB of text, 16 at once": TEXT
    + "work = [lambda: echo(value=value)] * 16\nfor _ in range({calls} // 16):\n    parallel(*work)\nanswer = 1",
    "16 objects of 4 members": OBJECTS + "for _ in range({calls}):\n    echo(value=value)\nanswer = 1",
}
LIMITS = Limits(calls=10**7, channel_bytes=1 << 40, wall_s=600, cpu_s=600)
COLUMNS = ("host, µs of processor", "jail, µs of processor", "µs on the clock")


async def _echo(request: CallRequest) -> CallReply:
    return CallReply(value=request.arguments["value"])


async def price(sandbox: ProcessSandbox, program: str, calls: int, repeat: int) -> tuple[float, float, float]:
    """Return the least of some runs: µs a call of processor on the host, in the jail, and on the clock."""
    runs = []
    for _ in range(repeat):
        spent = []
        for count in (160, calls):  # what a program costs without its calls is taken off
            await asyncio.sleep(0.3)  # a jail is made meanwhile
            job = Job(program.replace("{calls}", str(count)), {"echo": ["value"]}, LIMITS)
            processor, clock = time.process_time(), time.perf_counter()
            outcome = await sandbox.run(job, _echo)
            if outcome.kind != "finished":
                raise RuntimeError(f"the program did not finish: {outcome.kind} {outcome.detail}")
            spent.append((time.process_time() - processor, outcome.cpu_s, time.perf_counter() - clock))
        runs.append([1e6 * (whole - none) / (calls - 160) for none, whole in zip(*spent, strict=True)])
    host, jail, clock = (min(column) for column in zip(*runs, strict=True))
    return host, jail, clock


async def _all(calls: int, repeat: int) -> dict[str, dict[str, float]]:
    async with ProcessSandbox(LIMITS, pool=1) as sandbox:
        await sandbox.prepare()
        return {
            name: dict(zip(COLUMNS, map(_rounded, await price(sandbox, program, calls, repeat)), strict=True))
            for name, program in PROGRAMS.items()
        }


def _rounded(value: float) -> float:
    return round(value, 1)


@guarded
def main(
    calls: Annotated[int, typer.Option(min=320, help="Calls of one program.")] = 20_000,
    repeat: Annotated[int, typer.Option(min=1, help="Programs of each kind; the least counts.")] = 3,
    pinned: Annotated[bool, typer.Option("--pinned", help="Use one processor for everything.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False,
) -> None:
    """Measure what a tool call costs."""
    if pinned:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    figures = asyncio.run(_all(calls, repeat))
    if as_json:
        print_json(figures)
        return
    for name, found in figures.items():
        print(f"{name}: {', '.join(f'{value:g} {column}' for column, value in found.items())}")


if __name__ == "__main__":
    typer.run(main)
