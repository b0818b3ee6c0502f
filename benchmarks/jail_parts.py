"""Where the processor time of a program goes, part by part: ``python -m benchmarks.jail_parts`` (Linux, tier N).

A process laid out as the parent of all programs forks children that do ever more of what a program's process does, in
turns; a part is what one kind of child costs more than the kind before. Then whole programs are run, and what the
sandbox costs beyond those parts is told by process.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from atc.calls.contract import CallReply, CallRequest
from atc.cli.console import guarded, out, print_json
from atc.errors import UsageError
from atc.files import resource_dir
from atc.sandboxes.contract import Job, Limits
from atc.sandboxes.process.driver import ProcessSandbox
from atc.sandboxes.process.zygote import zygote_settings
from benchmarks.sandbox_targets import children

_PARENT = """
import json, os, sys, time
settings = json.loads(sys.argv[1])
sys.path.insert(0, settings["folder"])
import memory
if settings["whole"]:
    memory.map_libraries()
import gc, resource, socket, filter, jail, kernel, run
own, last = filter.compile_filters(kernel.MACHINE, opens=True)
if settings["whole"]:
    run.preload([])
jail.spare_memory()
memory.fill_holes()
maps = open("/proc/self/maps", "rb", buffering=0)
readable = jail.readable_paths([])
settings["threads"] = jail.room_for_threads(True)
lock = jail.Lock(jail.limits_within(settings), kernel.Filter(last, filter.blanks(last)))
jail.enter_namespaces(readable)
jail.confine_files(readable)
for _ in range(20):
    lock.rehearse()
    run.rehearse()
gc.collect()
gc.freeze()
memory.make_huge(maps)
memory.share_tables(maps)
kernel.go([kernel.no_new_privileges()])
kernel.Filter(own, ()).load(0)
user, process = kernel.CLONE_NEWUSER, kernel.CLONE_NEWPID

def locked():
    lock.close()

def rehearsed():
    lock.close()
    run.rehearse()

kinds = {"fork": (0, None), "process": (process, None), "user": (user, None), "both": (user | process, None),
         "locked": (user | process, locked), "rehearsed": (user | process, rehearsed)}
seen = {kind: [] for kind in kinds}
for _ in range(settings["repeat"]):
    for kind, (flags, work) in kinds.items():
        began = time.process_time_ns()
        pid = kernel.fork(flags)
        if pid == 0:
            try:
                if work is not None:
                    work()
                os._exit(0)
            finally:
                os._exit(1)
        _, status, used = os.wait4(pid, 0)
        if status:
            sys.exit("a child of kind " + kind + " failed")
        of_parent = (time.process_time_ns() - began) / 1e6
        seen[kind].append((of_parent, 1e3 * (used.ru_utime + used.ru_stime), used.ru_minflt))
os.write(1, json.dumps(seen).encode())
"""


def forks(repeat: int, *, whole: bool) -> dict[str, tuple[float, float]]:
    """What a fork of each kind costs: milliseconds of processor (parent and child), faults of the child; medians.

    Args:
        repeat: forks of each kind.
        whole: with all that programs may import; else with what the parent itself needs.

    Raises:
        UsageError: tier N cannot be had here.
    """
    settings = {**zygote_settings("N", Limits()), "folder": str(resource_dir("sandbox")), "repeat": repeat}
    command = [sys.executable, "-I", "-S", "-c", _PARENT, json.dumps({**settings, "whole": whole})]
    done = subprocess.run(command, capture_output=True, check=False, env={}, cwd="/")
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise UsageError(f"the parts of a jail cannot be measured here: {''.join(last)}")
    seen = json.loads(done.stdout)
    return {
        kind: (_middle([parent + child for parent, child, _ in all_]), _middle([faults for *_, faults in all_]))
        for kind, all_ in seen.items()
    }


async def programs(count: int) -> dict[str, float]:
    """Milliseconds of processor a program: the host, the parent of programs, the programs' processes."""

    async def call(request: CallRequest) -> CallReply:
        return CallReply(value=None)

    async with ProcessSandbox() as sandbox:
        job = Job("mark(n=1)\nanswer = 1", {"mark": ["n"]})
        for _ in range(10):
            await sandbox.run(job, call)
        await asyncio.sleep(0.3)
        (parent,) = children(os.getpid())
        host, before = time.process_time(), _parent_and_children(parent)
        left = iter(range(count))

        async def worker() -> None:
            for _ in left:
                await sandbox.run(job, call)

        await asyncio.gather(worker(), worker())
        await asyncio.sleep(0.3)
        after, used = _parent_and_children(parent), time.process_time() - host
    own, ended = (1e3 * (late - early) / count for early, late in zip(before, after, strict=True))
    return {"host": 1e3 * used / count, "parent": own, "children": ended}


def _parent_and_children(pid: int) -> tuple[float, float]:
    with open(f"/proc/{pid}/schedstat") as file, open(f"/proc/{pid}/stat") as ticks:
        fields = ticks.read().rsplit(")", 1)[1].split()
        return int(file.read().split()[0]) / 1e9, (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def parts(repeat: int) -> list[dict[str, float | str | None]]:
    """The rows of the table: ``part``, ``ms``, ``faults`` (of a program's process; ``None`` where none are counted)."""
    bare, whole = forks(repeat, whole=False), forks(repeat, whole=True)
    run = asyncio.run(programs(min(10 * repeat, 900)))  # a parent is replaced after a thousand

    def row(
        part: str, after: tuple[float, float], before: tuple[float, float] = (0.0, 0.0)
    ) -> dict[str, float | str | None]:
        return {"part": part, "ms": round(after[0] - before[0], 3), "faults": after[1] - before[1]}

    total = sum(run.values())
    rest = run["parent"] + run["children"] - whole["rehearsed"][0]
    rows: list[dict[str, float | str | None]] = [
        row("fork and end of a Python process that has loaded little", bare["fork"]),
        row("the same with the library loaded: more pages, more libraries", whole["fork"], bare["fork"]),
        row("a process namespace", whole["process"], whole["fork"]),
        row("a user namespace", whole["user"], whole["fork"]),
        row("both together, beyond a plain fork", whole["both"], whole["fork"]),
        row("the lock: limits, capabilities, filter", whole["locked"], whole["both"]),
        row("the rehearsal: what every program touches", whole["rehearsed"], whole["locked"]),
        {"part": "descriptors, the program itself, messages of its parent", "ms": round(rest, 3), "faults": None},
        {"part": "the host", "ms": round(run["host"], 3), "faults": None},
        {"part": "a whole program", "ms": round(total, 3), "faults": None},
    ]
    return rows


@guarded
def main(
    repeat: Annotated[int, typer.Option(min=5, help="Forks of each kind; ten times as many programs.")] = 90,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False,
) -> None:
    """Measure what the parts of a jail cost in processor time."""
    rows = parts(repeat)
    if as_json:
        print_json(rows)
        return
    table = Table("part", box=box.SIMPLE_HEAD)
    table.add_column("ms of processor", justify="right")
    table.add_column("page faults", justify="right")
    for row in rows:
        table.add_row(str(row["part"]), f"{row['ms']:.2f}", "" if row["faults"] is None else f"{row['faults']:.0f}")
    out.print(table)
    out.print(
        "What the kernel does in its own workers (taking namespaces and filters down) is not in it.", markup=False
    )


if __name__ == "__main__":
    typer.run(main)
