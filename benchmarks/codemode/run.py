"""The tokens part of the code mode's ruler: each task over each way, and what they took."""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from atc.cli.console import err
from atc.errors import EnvironmentProblem
from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.server import Face
from atc.settings import Settings
from atc.tools.tool import Toolset
from benchmarks.codemode import arms
from benchmarks.codemode.arms import Scripted, Tally
from benchmarks.codemode.desk import Desk, opened
from benchmarks.codemode.plain import plain_server
from benchmarks.codemode.tasks import CodeTask, Source, World
from benchmarks.codemode.tokens import Tokenizer
from benchmarks.common import ROOT

FASTMCP = ROOT / "benchmarks" / "peers" / "serve_fastmcp.py"
FASTMCP_PYTHON = "ATC_PEER_PYTHON_SERVE_FASTMCP"

ARMS: dict[str, str] = {
    "plain": "plain MCP, a turn for each call",
    "plain-parallel": "plain MCP, independent calls in one turn",
    "untyped": "search and execute without types, a program for each layer",
    "fastmcp": "FastMCP {fastmcp}, a program for each layer",
    "fastmcp-whole": "FastMCP {fastmcp}, one program (the shapes guessed)",
    "atc-layers": "atc mcp, a program for each layer (shapes unknown)",
    "atc": "atc mcp, one program (shapes documented or observed)",
}


@dataclass
class Figures:
    """What all tasks of a source took over one way."""

    source: str
    arm: str
    tools: int
    tallies: list[Tally] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """The figures of a table: means per task."""

        def mean(value: Callable[[Tally], float]) -> float:
            return round(statistics.fmean(map(value, self.tallies)), 1) if self.tallies else 0.0

        judged = [tally.right for tally in self.tallies if tally.right is not None]
        return {
            "source": self.source,
            "arm": self.arm,
            "tools": self.tools,
            "tasks": len(self.tallies),
            "definitions": round(mean(lambda tally: tally.definitions)),
            "trips": mean(lambda tally: tally.trips),
            "context": round(mean(lambda tally: tally.context)),
            "billed": round(mean(lambda tally: tally.billed)),
            "written": round(mean(lambda tally: tally.written)),
            "right": f"{sum(judged)} of {len(judged)}" if judged else "",
            "failed": sum(tally.failed > 0 for tally in self.tallies),
            "missed": sum(tally.missed for tally in self.tallies),
        }


def fastmcp_version() -> str:
    """The release of FastMCP at hand; empty where there is none."""
    python = os.environ.get(FASTMCP_PYTHON, "")
    if not python:
        return ""
    asked = subprocess.run([python, str(FASTMCP), "--version"], capture_output=True, text=True)
    return asked.stdout.strip() if asked.returncode == 0 else ""


class Bench:
    """Runs the tasks of one source over the ways.

    Args:
        source: of the tasks.
        tokenizer: counts.
        chosen: names of ways.
        folder: for runs and what is learnt; the user's own stay as they are.
    """

    def __init__(self, source: Source, tokenizer: Tokenizer, chosen: Sequence[str], folder: Path) -> None:
        self._source, self._tokenizer, self._chosen, self._folder = source, tokenizer, chosen, folder
        self._shared: tuple[Toolset, Gateway] | None = None

    async def run(self, tasks: Sequence[CodeTask]) -> list[Figures]:
        """All tasks; a line on stderr for each."""
        found = {arm: Figures(self._source.name, arm, 0) for arm in self._chosen}
        try:
            for number, task in enumerate(tasks, 1):
                for arm, (tools, tally) in (await self._task(task)).items():
                    found[arm].tools = tools
                    found[arm].tallies.append(tally)
                    if tally.error or tally.right is False:
                        err.print(f"{self._source.name}/{task.id} {arm}: {tally.error or 'wrong answer'}", markup=False)
                err.print(f"{self._source.name} {number}/{len(tasks)} {task.id}", markup=False)
        finally:
            await self.aclose()
        return list(found.values())

    async def _task(self, task: CodeTask) -> dict[str, tuple[int, Tally]]:
        made: dict[str, tuple[int, Tally]] = {}
        # the first run finds out what waits for what, and is of use where nobody chose it, too
        async with self._plain(task) as desk:
            tools = len(desk.tools)
            tally, answers = await arms.plain(self._script(desk, task), arms.one_by_one(task))
        made["plain"] = (tools, tally)
        groups = arms.at_once(task, answers)
        if "plain-parallel" in self._chosen:
            async with self._plain(task) as desk:
                made["plain-parallel"] = (tools, (await arms.plain(self._script(desk, task), groups))[0])
        if "untyped" in self._chosen:
            gateway = await self._gateway(task)
            async with opened(arms.untyped_server(gateway)) as desk:
                made["untyped"] = (tools, await arms.untyped(self._script(desk, task), groups))
        for arm, given in (("fastmcp", groups), ("fastmcp-whole", None)):
            if arm in self._chosen:
                async with self._fastmcp(task) as desk:
                    made[arm] = (tools, await arms.fastmcp(self._script(desk, task), given))
        for arm, given in (("atc-layers", groups), ("atc", None)):
            if arm in self._chosen:
                gateway = await self._gateway(task)
                async with opened(Face(gateway).server) as desk:
                    made[arm] = (tools, await arms.ours(self._script(desk, task), given))
        return {arm: each for arm, each in made.items() if arm in self._chosen}

    def _script(self, desk: Desk, task: CodeTask) -> Scripted:
        return Scripted(desk, task, self._tokenizer.count)

    @asynccontextmanager
    async def _plain(self, task: CodeTask) -> AsyncIterator[Desk]:
        with self._source.open(task) as world:
            if world.tools is None:
                async with opened(*world.config.values()) as desk:
                    yield desk
            else:
                async with world.tools.opened(), opened(plain_server(world.tools, typed=world.typed)) as desk:
                    yield desk

    @asynccontextmanager
    async def _fastmcp(self, task: CodeTask) -> AsyncIterator[Desk]:
        with self._source.open(task) as world:
            config = self._folder / "servers.json"
            config.write_text(json.dumps(dict(world.config)), encoding="utf-8")
            own = {
                "PATH": os.environ["PATH"],
                "HOME": str(self._folder),
                "FASTMCP_LOG_LEVEL": "ERROR",
            }
            command = {"command": os.environ[FASTMCP_PYTHON], "args": [str(FASTMCP), str(config)], "env": own}
            async with opened(command) as desk:
                yield desk

    async def _gateway(self, task: CodeTask) -> Gateway:
        """A gateway over the task's world. Tools that keep no state share one."""
        with self._source.open(task) as world:
            if self._shared is not None and (world.tools is None or world.tools is self._shared[0]):
                return self._shared[1]
            tools = world.tools if world.tools is not None else await _imported(world)
        settings = Settings.load().model_copy(
            update={"runs_dir": self._folder / "runs", "catalogue": self._folder / "catalogue"}
        )
        await self.aclose()  # each has jails and an encoder of its own
        self._shared = (tools, Gateway(tools, settings))
        return self._shared[1]

    async def aclose(self) -> None:
        """Close the gateway that is open."""
        shared, self._shared = self._shared, None
        if shared is not None:
            await shared[1].aclose()
            del shared
            gc.collect()  # it stands in circles, and its encoder is large


async def _imported(world: World) -> Toolset:
    import asyncio

    return await asyncio.to_thread(Toolset.from_mcp, {"mcpServers": dict(world.config)})


async def run_sources(
    sources: Sequence[Source], tokenizer: Tokenizer, chosen: Sequence[str], limit: int | None
) -> list[Figures]:
    """All sources that have what they need; the others are named on stderr.

    Raises:
        EnvironmentProblem: none has.
    """
    found: list[Figures] = []
    for source in sources:
        with TemporaryDirectory(prefix="atc-codemode-") as folder, closing(source):
            try:
                tasks = source.tasks()[:limit]
            except EnvironmentProblem as error:
                err.print(f"left out: {error}", markup=False)
                continue
            found += await Bench(source, tokenizer, chosen, Path(folder)).run(tasks)
    if not found:
        raise EnvironmentProblem("no source has what it needs: see above")
    return found


def as_json(figures: Sequence[Figures], tokenizer: Tokenizer, labels: Mapping[str, str]) -> dict[str, Any]:
    """All figures, each task's too."""
    return {
        "tokenizer": tokenizer.name,
        "python": sys.version.split()[0],
        "arms": dict(labels),
        "rows": [{**each.row(), "each": [asdict(tally) for tally in each.tallies]} for each in figures],
    }
