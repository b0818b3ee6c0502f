"""Workers and a PostgreSQL server that are killed or stopped while programs write: what is done twice, lost, in doubt.

The writes are those of :mod:`benchmarks.kills.hosts`, counted at the tools' own side. Every process that works on a run
has nothing of its own but the address of the database, as if it were on a machine of its own. Three things happen at
random: a worker is killed (SIGKILL); the server is killed, with all its processes at once or after its first one, and
started again; a worker is stopped (SIGSTOP) past its lease, its run is taken over and ended by another one, and then it
goes on. Every run is taken up again until one process reports how it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx
import typer

from atc import Agent
from atc.errors import EnvironmentProblem, JournalError, UsageError
from atc.models.fake import FakeModel
from atc.tools.tool import Toolset
from atc.traces.stores.base import new_run_id
from atc.traces.stores.postgres import PostgresStore
from benchmarks.common import AsJson, print_json
from benchmarks.kills import hosts as kills
from tests.support.postgres import WHY_NOT, Server

LEASE_S = 2.0
"""Short, so that a run is taken over soon. A busy machine may let one lapse: that run ends and goes on elsewhere."""
How = Literal["worker", "server", "stopped"]
HOW: tuple[How, ...] = ("worker",) * 5 + ("server",) * 3 + ("stopped",) * 2


@dataclass
class Found:
    """The figures of all runs."""

    times: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    late_writes: int = 0
    ended: kills.Found = field(default_factory=kills.Found)

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        own = self.ended.as_json()
        return {
            "kills": sum(self.times.values()),
            "of workers": self.times["worker"],
            "of the server": self.times["server"],
            "workers stopped past their lease": self.times["stopped"],
            "of these, refused by the database when they went on": self.refused,
            "their calls that had left before the stop, and were done after it": self.late_writes,
            **{name: own[name] for name in ("runs", "ends of the runs", "kinds", "done twice", "lost", "in doubt")},
        }


def main(
    kills_: Annotated[int, typer.Option("--kills", min=1, help="workers and servers to kill or stop")] = 100,
    seed: int = 0,
    as_json: AsJson = False,
) -> None:
    """Kill workers and the server, and count."""
    if WHY_NOT:
        raise SystemExit(WHY_NOT)
    figures = measured(kills_, seed, None if as_json else _progress).as_json()
    print_json(figures) if as_json else kills.print_figures(figures)
    if figures["done twice"] or figures["lost"]:
        raise typer.Exit(1)


def measured(
    most: int, seed: int, progress: Callable[[Found], None] | None = None, server: Server | None = None
) -> Found:
    """Kill so often, at moments that the seed decides, and let every run come to an end."""
    rng, found = random.Random(seed), Found()
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory())
        server = server or stack.enter_context(Server())
        service, port = kills.start_service(Path(name))
        try:
            while sum(found.times.values()) < most:
                folder = Path(name) / f"run-{found.ended.runs}"
                folder.mkdir()
                _Run(folder, port, server, rng, found, most).to_its_end()
                if progress is not None:
                    progress(found)
        finally:
            os.kill(service, signal.SIGKILL)
            os.waitpid(service, 0)
    return found


@dataclass
class _Run:
    """One run, disturbed at least once, to its end."""

    folder: Path
    port: int
    server: Server
    rng: random.Random
    found: Found
    most: int

    def to_its_end(self) -> None:
        """Work on it with one process after the other until one reports its end."""
        self.found.ended.runs += 1
        (self.folder / "run").write_text(new_run_id())
        for side in self._sides():
            side.touch()
        left: list[int] = []
        try:
            first = True
            while not self._reported():
                more = sum(self.found.times.values()) < self.most
                how = self.rng.choice(HOW) if more and (first or self.rng.random() < kills.KILL_AGAIN) else None
                self._worked(how, left)
                first = False
            self._go_on(left)
        finally:
            for worker in left:
                _end(worker)
        httpx.get(f"http://127.0.0.1:{self.port}/", timeout=kills.PATIENCE_S)  # then the service has done all it took
        kills.count_report(
            json.loads((self.folder / "report.json").read_text()), Counter(self._written()), self.found.ended
        )

    def _worked(self, how: How | None, left: list[int]) -> None:
        worker = _worker(self.folder, self.port, self.server.address())
        already = len(self._written())
        alive = kills.wait_for_moment(worker, how is not None, self.rng, already, self._written)
        if how is not None and alive:
            self.found.times[how] += 1
            if how == "stopped":
                os.kill(worker, signal.SIGSTOP)
                left.append(worker)
                return
            if how == "server":
                self.server.kill()
                time.sleep(self.rng.choice((0.0, 0.0, 0.5)))
                self.server.start()
                os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)  # it goes on, or ends for want of its journal
        _end(worker)
        if how is None and not self._reported() and not (self.folder / "again").exists():
            raise RuntimeError(f"the worker of {self.folder} ended without a report: {self._error()}")
        (self.folder / "again").unlink(missing_ok=True)

    def _go_on(self, left: list[int]) -> None:
        """Let the processes go on that were stopped: their run has ended elsewhere."""
        before = len(self._written())
        while left:
            os.kill(left[-1], signal.SIGCONT)
            os.waitpid(left[-1], 0)
            left.pop()
            refused = self.folder / "again"
            self.found.refused += refused.exists()
            refused.unlink(missing_ok=True)
        self.found.late_writes += len(self._written()) - before

    def _sides(self) -> list[Path]:
        return [self.folder / "lines", self.folder / "served"]

    def _written(self) -> list[str]:
        return [line for side in self._sides() for line in side.read_text().splitlines()]

    def _reported(self) -> bool:
        return (self.folder / "report.json").exists()

    def _error(self) -> str:
        error = self.folder / "error"
        return error.read_text() if error.exists() else "it said nothing"


def _end(worker: int) -> None:
    os.kill(worker, signal.SIGKILL)  # nobody has reaped it: the number is still its own
    os.waitpid(worker, 0)


# -- the worker --------------------------------------------------------------------------------------------------------


def _worker(folder: Path, port: int, address: str) -> int:
    """It writes how the run ended into ``report.json``; ``again`` where the journal or the database ended it."""
    sys.stdout.flush()
    pid = os.fork()  # this process has one thread
    if pid:
        return pid
    try:
        report = asyncio.run(_run(folder, port, address))
        if report is None:
            (folder / "again").touch()
        elif not (folder / "report.json").exists():
            whole = folder / f"report.{os.getpid()}"
            whole.write_text(json.dumps(report))
            whole.rename(folder / "report.json")
    except BaseException as error:
        (folder / "error").write_text(f"{type(error).__name__}: {error}")
    os._exit(0)


async def _run(folder: Path, port: int, address: str) -> dict[str, Any] | None:
    """The report of a run; ``None`` where its journal was lost to this process."""
    service = f"http://127.0.0.1:{port}/{folder.name}"
    tools = kills.line_tools(folder / "lines") + Toolset.from_openapi(kills.DOCUMENT, base_url=service)
    agent = Agent(
        tools,
        model=FakeModel([kills.script(kills.AS_THEY_ARE)] * 20),
        approve="always",
        sentence=False,
        learn=False,
        store=address,
        store_lease_s=LEASE_S,
        catalogue=folder / f"catalogue-{os.getpid()}",
        call_timeout_s=20.0,
    )
    run_id, until = (folder / "run").read_text(), time.monotonic() + kills.PATIENCE_S
    async with agent:
        while True:
            try:
                if agent.store.run(run_id).exists:
                    result = await agent.aresume(run_id)
                else:
                    result = await agent._begin(agent._request("Write every line once."), run_id=run_id)
            except (JournalError, EnvironmentProblem):  # another one holds it still, or the server is down
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.05)
                continue
            except UsageError:  # it has ended: the trace tells how
                return _traced(address, run_id)
            if result.fault is not None and (result.fault.reason or "").startswith("JournalError"):
                return None
            ended = result.model_dump(mode="json")
            return kills.report_of(ended, ended["calls"])


def _traced(address: str, run_id: str) -> dict[str, Any]:
    store = PostgresStore(address)
    try:
        return kills.traced(store.run(run_id).events())
    finally:
        store.close()


def _progress(found: Found) -> None:
    if sys.stderr.isatty():
        print(f"\r{sum(found.times.values())} kills, {found.ended.runs} runs", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    typer.run(main)
