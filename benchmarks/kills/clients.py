"""Clients of `atc mcp` that are killed while their programs write: what is left running, and what is done twice.

Each client is a process of its own with the official SDK. It starts the server, sends a program of twelve writes, says
yes to every question, and is killed (SIGKILL) at a random moment. Once nothing of it runs any more, a second client
sends the same program: in turn as a revision of the run, and as a new run whose user says no to what was done before.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.common import ROOT, AsJson, print_json

LINES, TOOL_S = 12, 0.03
GONE_S = 30.0
MODES = ("legacy", "2026-07-28")
TOOLS = f"""
import os, time
from atc import tool

FILE = os.environ["KILLS_FILE"]

@tool(effect="write")
def append_line(text: str) -> int:
    time.sleep({TOOL_S / 2})
    descriptor = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, text.encode() + b"\\n")
    os.close(descriptor)
    time.sleep({TOOL_S / 2})
    return 1

@tool(effect="read")
def count_lines() -> int:
    with open(FILE) as file:
        return len(file.readlines())

tools = [append_line, count_lines]
"""
PROGRAM = f"""
for number in range({LINES}):
    try:
        append_line(text=f"line {{number}}")
    except ToolError:
        pass
answer = count_lines()
"""
_SUBREAPER = 36


@dataclass
class Killed:
    """What one killed client came to."""

    mode: str
    again: str
    lines_before: int = 0
    lines: int = 0
    twice: int = 0
    left_running: int = 0
    seconds_to_end: float = 0.0
    in_doubt: int = 0
    asked_as_repeat: int = 0
    status: str = ""


def main(
    kills: Annotated[int, typer.Option(min=1)] = 40,
    seed: int = 0,
    as_json: AsJson = False,
    client: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Kill clients and count."""
    if client:
        asyncio.run(_client(json.loads(client)))
        return
    found = measured(kills, seed)
    figures = summed(found)
    print_json(figures) if as_json else print("\n".join(f"{name}: {value}" for name, value in figures.items()))
    if figures["lines done twice"] or figures["left running"]:
        raise typer.Exit(1)


def measured(kills: int, seed: int) -> list[Killed]:
    """Kill so many clients, at moments that the seed decides."""
    _adopt()
    rng = random.Random(seed)
    return [_kill(MODES[number % 2], ("revision", "new run")[number // 2 % 2], rng) for number in range(kills)]


def summed(found: list[Killed]) -> dict[str, Any]:
    """The figures of all."""
    lacking: Counter[tuple[str, str]] = Counter()
    for each in found:
        lacking[each.mode, each.again] += LINES - each.lines
    return {
        "kills": len(found),
        "in the middle of the writes": sum(0 < each.lines_before < LINES for each in found),
        "lines done twice": sum(each.twice for each in found),
        "left running": sum(each.left_running for each in found),
        "writes in doubt": sum(each.in_doubt for each in found),
        "writes asked about as repeats": sum(each.asked_as_repeat for each in found),
        "lines never written": {f"{mode}, {again}": missing for (mode, again), missing in sorted(lacking.items())},
        "seconds until nothing ran, at most": round(max(each.seconds_to_end for each in found), 2),
        "ends of the second program": dict(Counter(each.status for each in found)),
    }


def _kill(mode: str, again: str, rng: random.Random) -> Killed:
    killed = Killed(mode, again)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kills_tools.py").write_text(TOOLS)
        (folder / "lines").touch()
        client = _started(folder, {"mode": mode})
        assert client.stdout is not None
        assert client.stdout.readline(), "the client could not begin"
        written = rng.randint(0, LINES)
        while client.poll() is None and _count(folder)[0] < written:
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 1.3 * TOOL_S if written else 2.0))
        client.kill()
        client.wait()
        began = time.monotonic()
        while (left := _own_descendants()) and time.monotonic() - began < GONE_S:
            time.sleep(0.05)
        killed.seconds_to_end, killed.left_running = time.monotonic() - began, len(left)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        killed.lines_before = _count(folder)[0]
        runs = sorted(each.parent.name for each in (folder / "runs").glob("*/journal.jsonl"))
        killed.in_doubt = sum(_in_doubt(folder / "runs" / each / "journal.jsonl") for each in runs)
        given = {"mode": mode} | ({"run": runs[0]} if runs and again == "revision" else {})
        second = _started(folder, given)
        told = json.loads(second.communicate()[0].splitlines()[-1])
        killed.status, killed.asked_as_repeat = told["status"], told["repeats"]
        killed.lines, killed.twice = _count(folder)
    return killed


def _started(folder: Path, given: dict[str, Any]) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ATC_")} | {
        "KILLS_FILE": str(folder / "lines"),
        "ATC_RUNS_DIR": str(folder / "runs"),
        "ATC_CATALOGUE": str(folder / "catalogue"),
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
    }
    command = [sys.executable, "-m", "benchmarks.kills.clients", "--client", json.dumps(given)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=folder)


def _count(folder: Path) -> tuple[int, int]:
    """Different lines that were written, and those that were written again."""
    lines = (folder / "lines").read_text().splitlines()
    return len(set(lines)), len(lines) - len(set(lines))


def _in_doubt(path: Path) -> int:
    from atc.calls.journal import Journal

    journal = Journal(path)
    doubtful = sum(entry.in_doubt for entry in journal.entries.values())
    journal.close()
    return doubtful


# -- the client --------------------------------------------------------------------------------------------------------


async def _client(given: dict[str, Any]) -> None:
    """Send the program once; yes to every question but those about what an earlier run did."""
    import mcp_types as types
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    repeats = 0

    async def user(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        nonlocal repeats
        if "an earlier run (" in params.message:
            repeats += 1
            return types.ElicitResult(action="decline")
        assert isinstance(params, types.ElicitRequestFormParams)
        later = dict.fromkeys(params.requested_schema["properties"], True)
        return types.ElicitResult(action="accept", content=later)  # type: ignore[arg-type]

    command = [sys.executable, "-m", "atc", "mcp", "--tools", "kills_tools:tools"]
    server = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    async with Client(stdio_client(server), mode=given["mode"], elicitation_callback=user) as client:
        print("begun", flush=True)
        arguments = {"source": PROGRAM} | ({"run": given["run"]} if "run" in given else {})
        result = await client.call_tool("run_program", arguments)
    print(json.dumps({"status": result.structured_content.get("status", "error"), "repeats": repeats}))


# -- processes ---------------------------------------------------------------------------------------------------------


def _adopt() -> None:
    """Be the parent of whoever loses his."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _own_descendants() -> list[int]:
    """Processes that live below this one. Those that have ended are buried."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return descendants(os.getpid())


def descendants(root: int) -> list[int]:
    """Processes that live below another one."""
    parents = _parents()
    own = {root}
    while more := {pid for pid, parent in parents.items() if parent in own and pid not in own}:
        own |= more
    return sorted(own - {root})


def alive() -> set[int]:
    """All processes that live."""
    return {*_parents()}


def _parents() -> dict[int, int]:
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                state, parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:2]
                if state != "Z":
                    parents[int(folder.name)] = int(parent)
    return parents


if __name__ == "__main__":
    typer.run(main)
