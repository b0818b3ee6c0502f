"""What ATC adds to a run: everything but the model, the tools and the program.

``python -m benchmarks.overhead [--json] [--runs N]``: a trivial program over one tool is written by a fake model that
takes 0.3 s (a real one takes longer) and run by an agent that has run before, with and without the check; the tool
only reads. What is left when the model's and the tool's time is taken off stands beside a bare ``python -I -S -c
program`` of the same program.

``--at-once N``: in place of that, so many agents of one process begin to write at once, two calls each, and what is
counted is for how long their event loop stands still; with ``--sync-s S`` on a disk that takes so long for each sync.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import typer

from atc._records.events import Event
from atc.agent import Agent
from atc.calls.journal import Journal
from atc.models.base import ModelRequest, Reply
from atc.models.fake import FakeModel
from atc.tools.functions import tool_from_function
from atc.tools.tool import Toolset
from atc.traces.emitter import TraceBehind
from benchmarks.common import AsJson, median, percentile, print_json, show

PROGRAM = "total = 0\nfor n in (1, 2, 3):\n    total += double(n=n)\nanswer = total\n"
BARE = "def double(n):\n    return 2 * n\n" + PROGRAM + "print(answer)\n"
MODEL_S = 0.3
TARGET_MS = 30.0
TARGET_STOP = 0.5
FIRST = 2
"""Runs of an agent that do not count: they load modules, and its first one starts the parent of jails."""
PARTS = ("start", "draft", "check", "sandbox", "journal and trace", "end")


def double(n: int) -> int:
    """Twice a number.

    Args:
        n: a number.
    """
    return 2 * n


class SlowModel(FakeModel):
    """A fake model that takes its time. ``seconds`` is how long it really was."""

    seconds = 0.0

    async def generate(self, request: ModelRequest) -> Reply:
        began = time.perf_counter()
        await asyncio.sleep(MODEL_S)
        reply = await super().generate(request)
        self.seconds += time.perf_counter() - began
        return reply


@dataclass
class Stopwatch:
    """When things happened in one run, and how long was spent writing them down."""

    at: dict[str, float] = field(default_factory=dict)
    writing: float = 0.0

    def event(self, event: Event) -> None:
        """Called for every event of the run."""
        self.at.setdefault(event.kind, time.perf_counter())

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the time in the trace's and the journal's writes."""
        kept = [(TraceBehind, "write_line"), (Journal, "begin"), (Journal, "succeed")]
        originals = [(owner, name, getattr(owner, name)) for owner, name in kept]
        for owner, name, original in originals:
            setattr(owner, name, self._timed(original))
        try:
            yield
        finally:
            for owner, name, original in originals:
                setattr(owner, name, original)

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.writing += time.perf_counter() - began

        return timed


async def one_run(agent: Agent, model: SlowModel, watch: Stopwatch) -> dict[str, float]:
    """Run the agent once; milliseconds of each part, and of all together."""
    watch.at.clear()
    watch.writing = model.seconds = 0.0
    with watch.watching():
        began = time.perf_counter()
        result = await agent.arun("Add twice one, two and three.")
        ended = time.perf_counter()
    assert result.unwrap() == 12
    at, at_tools = watch.at, result.usage.tool_seconds
    spans = {
        "start": at["model_started"] - began,
        "draft": at["program_written"] - at["model_started"] - model.seconds,
        "check": at["program_started"] - at["program_written"],
        "sandbox": at["program_ended"] - at["program_started"] - at_tools,
        "journal and trace": watch.writing,
        "end": ended - at["program_ended"],
        "all": ended - began - model.seconds - at_tools,
    }
    return {name: 1000 * seconds for name, seconds in spans.items()}


def bare() -> float:
    """Milliseconds of the same program in a bare Python process."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-I", "-S", "-c", BARE], capture_output=True, text=True, check=True)
    assert done.stdout == "12\n"
    return 1000 * (time.perf_counter() - began)


async def measure(runs: int) -> dict[str, Any]:
    """All figures: medians in milliseconds. Runs of either kind and bare ones take turns; each kind has an agent."""
    found: dict[str, list[dict[str, float]]] = {"with the check": [], "without": []}
    alone = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="atc-overhead-")))
        tools = Toolset([tool_from_function(double, effect="read")])
        made: dict[str, tuple[Agent, SlowModel, Stopwatch]] = {}
        for kind in found:
            watch, model = Stopwatch(), SlowModel([f"```python\n{PROGRAM}```"] * (runs + FIRST))
            check = kind == "with the check"
            agent = Agent(tools, model=model, check=check, sentence=False, runs_dir=folder, on_event=watch.event)
            made[kind] = await stack.enter_async_context(agent), model, watch
        for number in range(runs + FIRST):
            for kind, given in made.items():
                run = await one_run(*given)
                if number >= FIRST:
                    found[kind].append(run)
            alone.append(await asyncio.to_thread(bare))
    figures: dict[str, Any] = {"runs": runs, "bare_ms": round(median(alone), 1)}
    for kind, of_kind in found.items():
        figures[kind] = {name: round(median([run[name] for run in of_kind]), 1) for name in (*PARTS, "all")}
        figures[kind]["p95"] = round(percentile([run["all"] for run in of_kind], 95), 1)
    return figures


async def at_once(runs: int, sync_s: float = 0.0) -> dict[str, Any]:
    """Seconds of so many runs at once, and of the longest stop of their event loop, with those that its own thread was
    at work.

    Args:
        runs: so many.
        sync_s: seconds that each sync of the disk takes longer.
    """
    stops = [(0.0, 0.0)]

    async def beat() -> None:
        while True:
            began, own = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.01)
            stops.append((time.perf_counter() - began - 0.01, time.thread_time() - own))

    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="atc-overhead-")))
        tools = Toolset([tool_from_function(double, effect="write")])
        given: dict[str, Any] = {"approve": "always", "sentence": False, "learn": False, "runs_dir": folder}
        models = [FakeModel([f"answer = double(n={n}) + double(n={n + runs})"]) for n in range(runs)]
        agents = [await stack.enter_async_context(Agent(tools, model=model, **given)) for model in models]
        stack.enter_context(patch("os.fsync", partial(_synced, sync_s, os.fsync)))
        beating = asyncio.create_task(beat())
        began = time.perf_counter()
        results = await asyncio.gather(*(agent.arun("Double both.") for agent in agents))
        took = time.perf_counter() - began
        beating.cancel()
    assert {result.status for result in results} == {"answered"}
    longest, own = max(stops)
    late = sum(stop > 0.1 for stop, _ in stops)
    return {"runs at once": runs, "s": took, "longest stop, s": longest, "of it own": own, "stops over 0.1 s": late}


def _synced(seconds: float, sync: Callable[[int], None], descriptor: int) -> None:
    time.sleep(seconds)
    sync(descriptor)


def _print(figures: dict[str, Any]) -> None:
    kinds = ("with the check", "without")
    rows = [(part, *(figures[kind][part] for kind in kinds)) for part in (*PARTS, "all", "p95")]
    show(f"Overhead of a run, ms (median of {figures['runs']})", ("part", *kinds), rows)
    print("journal and trace are written within the other parts")
    print(f"the same program in a bare Python process: {figures['bare_ms']} ms")


def main(
    runs: Annotated[int, typer.Option(min=1, help="Runs of either kind.")] = 30,
    together: Annotated[int, typer.Option("--at-once", help="Runs at once: measure the stops of their loop.")] = 0,
    sync_s: Annotated[float, typer.Option(help="With --at-once: seconds that a sync of the disk takes.")] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Measure the overhead of a run; exit with 1 where the target is missed."""
    if together:
        print_json(found := asyncio.run(at_once(together, sync_s)))
        raise typer.Exit(0 if found["longest stop, s"] <= TARGET_STOP else 1)
    figures = asyncio.run(measure(runs))
    print_json(figures) if as_json else _print(figures)
    raise typer.Exit(0 if figures["with the check"]["all"] <= TARGET_MS else 1)


if __name__ == "__main__":
    typer.run(main)
