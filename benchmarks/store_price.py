"""The price of keeping runs in PostgreSQL beside a folder: a record of the journal, an event, a run, a list of runs.

The server is private and on this machine, reached by a Unix socket. Over a network, each statement waits for one more
round trip: three for a call with effects, one for an event.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from atc import Agent, tool
from atc.calls.journal import call_key
from atc.models.fake import FakeModel
from atc.result import Effect
from atc.settings import Settings
from atc.traces.events import Event
from atc.traces.stores import open_store
from atc.traces.stores.base import RunStore
from benchmarks.common import print_json
from tests.support.postgres import WHY_NOT, Server

CALLS = 10
PROGRAM = f"```python\nanswer = [book(n=number) for number in range({CALLS})][-1]\n```"


@tool(effect="write")
def book(n: int) -> int:
    """Book a seat."""
    return n


def main(
    rounds: Annotated[int, typer.Option(min=1)] = 5,
    runs: Annotated[int, typer.Option(min=1, help="in a list")] = 10_000,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Measure both, in turns."""
    if WHY_NOT:
        raise SystemExit(WHY_NOT)
    with tempfile.TemporaryDirectory() as name, Server() as server:
        given: dict[str, dict[str, Any]] = {
            "folder": {"runs_dir": Path(name) / "runs", "catalogue": Path(name) / "a"},
            "postgresql": {"store": server.address(), "catalogue": Path(name) / "b"},
        }
        agents = {
            each: Agent([book], model=FakeModel([PROGRAM] * 10_000), approve="always", sentence=False, **settings)
            for each, settings in given.items()
        }
        figures: dict[str, dict[str, list[float]]] = {each: {} for each in given}
        for number in range(rounds + 1):
            for each, agent in agents.items():
                measures: dict[str, Callable[[], float]] = {
                    "µs a record of a write": partial(_record, agent.store, Effect.WRITE),
                    "µs a record of a read": partial(_record, agent.store, Effect.READ),
                    "µs an event": partial(_event, agent.store),
                    f"ms a run of {CALLS} writes": partial(_run, agent),
                }
                for what, measure in measures.items():
                    found = measure()
                    if number:  # the first warms up
                        figures[each].setdefault(what, []).append(found)
        middle: dict[str, dict[str, float]] = {
            each: {what: round(statistics.median(found), 1) for what, found in kinds.items()}
            for each, kinds in figures.items()
        }
        for each, settings in given.items():
            middle[each][f"ms a list of {runs:,} runs"] = round(_list(each, Settings(**settings), runs), 1)
        for agent in agents.values():
            agent.close()
    print_json(middle) if as_json else _print(middle)


def _record(store: RunStore, effect: Effect, calls: int = 60) -> float:
    run = store.run(f"20240101-000000-{time.monotonic_ns() % 0xFFFFFF:06x}")
    run.make()
    journal = run.open_journal()
    journal.begin_attempt()
    began = time.perf_counter()
    for number in range(1, calls + 1):
        entry = journal.begin(number, call_key("book", {"n": number}), {"n": number}, effect)
        journal.send(entry)
        journal.succeed(entry, number)
    took = time.perf_counter() - began
    journal.close()
    return took / calls / (2 if effect is Effect.READ else 3) * 1e6


def _event(store: RunStore, events: int = 200) -> float:
    run = store.run(f"20240102-000000-{time.monotonic_ns() % 0xFFFFFF:06x}")
    run.make()
    trace = run.open_trace()
    began = time.perf_counter()
    for number in range(events):
        trace.write(Event("answered", {"value": "x" * 200, "number": number}))
    took = time.perf_counter() - began
    trace.close()
    return took / events * 1e6


def _run(agent: Agent, runs: int = 5) -> float:
    began = time.perf_counter()
    for _ in range(runs):
        assert agent.run("book ten seats").status == "answered"
    return (time.perf_counter() - began) / runs * 1e3


def _list(kind: str, settings: Settings, runs: int) -> float:
    store = open_store(settings)
    names = [f"20230101-000000-{number:06x}" for number in range(runs)]
    if kind == "postgresql":
        import psycopg

        assert settings.store is not None
        with psycopg.connect(settings.store.get_secret_value(), autocommit=True) as connection:
            connection.execute("INSERT INTO atc.runs (run_id, events) SELECT unnest(%s::text[]), 1", (names,))
    else:
        for name in names:
            (settings.runs_dir / name).mkdir()
            (settings.runs_dir / name / "trace.jsonl").touch()
    took = []
    for _ in range(3):
        began = time.perf_counter()
        assert len(store.list()) >= runs
        took.append(time.perf_counter() - began)
    store.close()
    return min(took) * 1e3


def _print(figures: dict[str, dict[str, float]]) -> None:
    print(f"{'':>28} " + " ".join(f"{each:>12}" for each in figures))
    for what in figures["folder"]:
        print(f"{what:>28} " + " ".join(f"{kinds[what]:>12,}" for kinds in figures.values()))


if __name__ == "__main__":
    typer.run(main)
