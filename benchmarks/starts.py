"""What a start costs: an import, a command, and the first list of tools of an MCP server.

``python -m benchmarks.starts [--json] [--rounds N]``: each start is a process of its own, and all take turns. The time
is that until it has ended, or until its list of tools is there; the processor's is that of the process until it has
ended. Beside ours stand the imports of two other frameworks, where they are installed, and a server of MCP's own SDK
that lists as many tools as ours has behind it. Compiled code lies in a folder of its own, which a first round fills;
so do settings, runs and the catalogue.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from atc.atlas.catalogue import atlas_toolset
from benchmarks.common import AsJson, median, print_json, show

_RUN = """
from atc import Agent, FakeModel, tool
@tool(effect="read")
def double(x: int) -> int:
    "Double a number."
    return 2 * x
assert Agent([double], model=FakeModel(["answer = double(x=3)"])).run("Double three.").value == 6
"""
_SDK_SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("tools")
def add(number):
    def multiply(a: int, b: int = 1) -> int:
        "Multiply two numbers."
        return a * b
    server.tool(name=f"multiply_{number}")(multiply)
for number in range(TOOLS):
    add(number)
server.run()
"""
_HELLO: tuple[Mapping[str, Any], ...] = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)


@dataclass(frozen=True)
class Start:
    """One thing that is started.

    Attributes:
        name: in the table.
        command: that is run.
        needs: a package without which it is left out.
        beside: the name of the start that it is compared with.
        lists: it is an MCP server on its standard streams, and counts until its list of tools is there.
    """

    name: str
    command: Sequence[str]
    needs: str = "atc"
    beside: str = ""
    lists: bool = False


def starts() -> list[Start]:
    """Return all starts, those that others are compared with among them."""
    python, atc = (sys.executable, "-c"), (sys.executable, "-m", "atc")
    tools = len(atlas_toolset())
    other, sdk = "import smolagents", f"the SDK's own server, {tools} tools"
    return [
        Start("python -c pass", (*python, "pass")),
        Start(other, (*python, other), needs="smolagents"),
        Start("import pydantic_ai", (*python, "import pydantic_ai"), needs="pydantic_ai", beside=other),
        Start("from atc import Agent", (*python, "from atc import Agent"), beside=other),
        Start("a first run, with its import", (*python, _RUN), beside=other),
        Start("atc --version", (*atc, "--version"), beside=other),
        Start("atc --help", (*atc, "--help"), beside=other),
        Start("atc run --help", (*atc, "run", "--help"), beside=other),
        Start("atc tools list atlas", (*atc, "tools", "list", "-t", "atlas"), beside=other),
        Start(sdk, (*python, _SDK_SERVER.replace("TOOLS", str(tools))), needs="mcp", lists=True),
        Start("atc mcp --tools atlas", (*atc, "mcp", "--tools", "atlas"), needs="mcp", beside=sdk, lists=True),
    ]


def timed(start: Start, environment: Mapping[str, str]) -> tuple[float, float]:
    """Start it once; seconds until it was there, and seconds of the processor until it had ended.

    Raises:
        RuntimeError: it failed; its last words are in the message.
    """
    began = time.perf_counter()
    with tempfile.TemporaryFile() as words:
        process = subprocess.Popen(
            start.command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words
        )
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin, process.stdout:
            if start.lists:
                listed = _first_list(process)
                seconds = time.perf_counter() - began
                process.stdin.close()
            else:
                listed = True
                process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if not start.lists:
            seconds = time.perf_counter() - began
        if process.returncode or not listed:
            words.seek(0)
            said = words.read()[-2_000:].decode(errors="replace").strip()
            raise RuntimeError(f"{start.name} ended with {process.returncode}: {said}")
    return seconds, used.ru_utime + used.ru_stime


def _first_list(process: subprocess.Popen[bytes]) -> bool:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in _HELLO))
    process.stdin.flush()
    return any(json.loads(line).get("id") == 2 for line in process.stdout)


def measure(chosen: Sequence[Start], rounds: int) -> dict[str, Any]:
    """Time starts in turns.

    Returns:
        For each: medians in milliseconds, and the ratio to what it is compared with. What is not installed is named.
    """
    there = [start for start in chosen if importlib.util.find_spec(start.needs) is not None]
    found: dict[str, list[tuple[float, float]]] = {start.name: [] for start in there}
    with tempfile.TemporaryDirectory(prefix="atc-starts-") as folder:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ATC_", "PYTHONDONT"))}
        places = {name: str(Path(folder, name)) for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
        environment = kept | places | {"PYTHONPYCACHEPREFIX": str(Path(folder, "compiled"))}
        for number in range(rounds + 1):
            for start in there:
                took = timed(start, environment)
                if number:  # the first compiles
                    found[start.name].append(took)
    made: dict[str, Any] = {}
    for start in there:
        wall, processor = (1000 * median([took[at] for took in found[start.name]]) for at in (0, 1))
        made[start.name] = {"wall_ms": round(wall), "processor_ms": round(processor)}
        if start.beside in found:
            other = 1000 * median([took[1] for took in found[start.beside]])
            made[start.name]["ratio"] = round(processor / other, 2)
    return {"rounds": rounds, "starts": made, "not_installed": [each.needs for each in chosen if each not in there]}


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Starts of each kind that count.")] = 7, as_json: AsJson = False
) -> None:
    """Measure what starts cost."""
    figures = measure(starts(), rounds)
    if as_json:
        print_json(figures)
        return
    rows = [
        (name, took["wall_ms"], took["processor_ms"], took.get("ratio", "")) for name, took in figures["starts"].items()
    ]
    show(f"Starts, ms (median of {rounds})", ("", "until it is there", "processor", "ratio of processor"), rows)
    for name in figures["not_installed"]:
        print(f"{name} is not installed")


if __name__ == "__main__":
    typer.run(main)
