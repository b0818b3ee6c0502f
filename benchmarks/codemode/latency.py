"""What the gateway adds to a call: client → ``atc mcp`` → program → upstream server, beside client → upstream server.

A program is run with one call and with many. The difference, by call, is what a call takes; the rest of the program
with one call is what a program takes: the request, the check, the jail, the report. Each round asks both ways in turn,
so that what else the machine does falls on both.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from atc.errors import EnvironmentProblem
from benchmarks.codemode.plain import made_tools
from benchmarks.common import median

_TICKS = os.sysconf("SC_CLK_TCK")


async def latency(rounds: int, calls: int) -> dict[str, Any]:
    """Medians over the rounds, in milliseconds; processor time of all processes together, too.

    Args:
        rounds: both ways are asked in each.
        calls: of the long program, and direct ones in a round.
    """
    upstream = [sys.executable, "-m", "benchmarks.codemode.plain", "--made", "3"]
    name, arguments = _a_call()
    with TemporaryDirectory(prefix="atc-codemode-") as place:
        config = Path(place) / "servers.json"
        config.write_text(json.dumps({"mcpServers": {"one": {"command": upstream[0], "args": upstream[1:]}}}))
        own = own_folders(place)
        gateway = [sys.executable, "-m", "atc", "mcp", "--tools", str(config)]
        async with Client(_transport(upstream, {})) as direct, Client(_transport(gateway, own)) as through:
            found: dict[str, list[float]] = {
                key: [] for key in ("direct", "one", "many", "direct_cpu", "one_cpu", "many_cpu")
            }
            await _there(through, name)
            for number in range(rounds + 2):
                made = await _round(direct, through, name, arguments, calls)
                if number > 1:  # the first ones load modules
                    for key, value in made.items():
                        found[key].append(value)
    typical = {key: median(values) for key, values in found.items()}
    call = (typical["many"] - typical["one"]) / (calls - 1)
    call_cpu = (typical["many_cpu"] - typical["one_cpu"]) / (calls - 1)
    return {
        "rounds": rounds,
        "calls": calls,
        "direct_ms": round(typical["direct"], 2),
        "call_ms": round(call, 2),
        "added_ms": round(call - typical["direct"], 2),
        "ratio": round(call / typical["direct"], 2),
        "program_ms": round(typical["one"] - call, 1),
        "program_of_one_call_ms": round(typical["one"], 1),
        "direct_cpu_ms": round(typical["direct_cpu"], 2),
        "call_cpu_ms": round(call_cpu, 2),
        "program_cpu_ms": round(typical["one_cpu"] - call_cpu, 1),
    }


async def _there(client: Client, name: str) -> None:
    """Wait until the upstream server's tools are there: without a kept list it has to be asked first."""
    for _ in range(600):
        if any(name in (tool.description or "") for tool in (await client.list_tools(cache_mode="bypass")).tools):
            return
        await asyncio.sleep(0.1)
    raise EnvironmentProblem("the upstream server's tools did not appear within a minute")


async def _round(direct: Client, through: Client, name: str, arguments: dict[str, Any], calls: int) -> dict[str, float]:
    given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    one = f"answer = {name}({given})['total']"
    # another argument each time: an equal read is answered anew in any case, but nobody shall have to know that
    [first] = arguments
    many = f"answer = 0\nfor n in range({calls}):\n    answer += {name}({first}=n)['total']"
    began, cpu = time.perf_counter(), tree_cpu()
    for _ in range(calls):
        await direct.call_tool(name, arguments)
    direct_s, direct_cpu = time.perf_counter() - began, tree_cpu() - cpu
    one_s, one_cpu = await _program(through, one)
    many_s, many_cpu = await _program(through, many)
    return {
        "direct": 1000 * direct_s / calls,
        "one": 1000 * one_s,
        "many": 1000 * many_s,
        "direct_cpu": 1000 * direct_cpu / calls,
        "one_cpu": 1000 * one_cpu,
        "many_cpu": 1000 * many_cpu,
    }


async def _program(client: Client, source: str) -> tuple[float, float]:
    began, cpu = time.perf_counter(), tree_cpu()
    result = await client.call_tool("run_program", {"source": source})
    spent = time.perf_counter() - began, tree_cpu() - cpu
    if result.is_error:
        raise RuntimeError(f"the program failed: {result.content}")
    return spent


def own_folders(place: str) -> dict[str, str]:
    """Settings of an ``atc`` that keeps nothing in the user's folders."""
    return {"ATC_CATALOGUE": f"{place}/catalogue", "ATC_RUNS_DIR": f"{place}/runs", "XDG_CACHE_HOME": f"{place}/cache"}


def _a_call() -> tuple[str, dict[str, Any]]:
    protocol = next(iter(made_tools(1).values())).protocol
    return protocol.name, {protocol.required[0]: 7}


def _transport(command: list[str], own: dict[str, str]) -> Any:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return stdio_client(StdioServerParameters(command=command[0], args=command[1:], env={**kept, **own}))


def tree_cpu() -> float:
    """Processor seconds of this process and all that it started, those that ended and were waited for too."""
    parents: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        process = int(folder.name)
        parents.setdefault(int(fields[1]), []).append(process)
        spent[process] = sum(map(int, fields[11:15])) / _TICKS
    total, left = 0.0, [os.getpid()]
    while left:
        process = left.pop()
        total += spent.get(process, 0.0)
        left += parents.get(process, [])
    return total
