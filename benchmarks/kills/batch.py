"""Batches whose processes are killed: what is done twice or lost, here and on a Ray cluster of two nodes.

A scripted model (no model is asked) gives each task a program that writes lines, some of them slowly. Where a batch is
done here, its process is killed (SIGKILL) at a random moment, and another one goes on with the same file of results. On
a cluster (of this machine: two nodes with two processors each) it is a worker that is killed, sometimes a whole node or
the process that leads the batch. What was really done stands in a file that each write appends to. Runs are kept in a
folder, or in a PostgreSQL server of their own (`--store postgres`), which is killed and started again, too. `--rate`
measures tasks a second at one and two nodes instead, with tools that wait for a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from atc import Agent, tool
from atc.batch.on_ray import OnRay
from atc.models.fake import FakeModel
from atc.models.messages import Message
from atc.settings import Settings
from atc.tools.tool import Toolset
from atc.traces.stores import open_store
from benchmarks.common import AsJson, print_json
from tests.support.postgres import Server

TASKS = 8
"""Tasks of a batch."""
QUICK_S, SLOW_S = 0.005, 0.08
"""Seconds that a write takes before it is done, and again until it answers."""
KILL_AGAIN = 0.85
"""How often a batch that goes on is killed again."""
OF_NODES, OF_LEADERS, OF_SERVERS = 0.1, 0.15, 0.1
"""How often it is a node that is killed on a cluster, the process that leads the batch, or the server of the runs."""
LEASE_S = 3.0
"""Seconds for which a process that was killed still has its run in a database."""
NODE = {"num_cpus": 2, "object_store_memory": 80_000_000}
PATIENCE_S = 300.0
_NAME = re.compile(r"Write the lines of (\w+)\.")


@dataclass
class Found:
    """The figures of all batches.

    Attributes:
        kills: by what was killed.
        done: writes that were made once, and the run says so.
        twice: made more than once.
        lost: not made, and the run says that they were.
        in_doubt: reported as such; ``in_doubt_done`` of them were made.
        unsaid: made, and the run says that they were not.
        not_done: the run says so, and it is so.
        rows_lost: tasks without a row, or with more than one, at the end of their batch.
    """

    batches: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    done: int = 0
    twice: int = 0
    lost: int = 0
    in_doubt: int = 0
    in_doubt_done: int = 0
    unsaid: int = 0
    not_done: int = 0
    rows_lost: int = 0
    ends: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return vars(self) | {"kills": dict(self.kills), "ends": dict(self.ends)}


def main(
    kills: Annotated[int, typer.Option(min=1, help="processes to kill")] = 100,
    seed: int = 0,
    on: Annotated[str, typer.Option(help="here or ray")] = "here",
    store: Annotated[str, typer.Option(help="where runs are kept: folder or postgres")] = "folder",
    rate: Annotated[bool, typer.Option("--rate", help="measure tasks a second at one and two nodes")] = False,
    seconds: Annotated[float, typer.Option(help="begin no further batch after so long")] = 3_600.0,
    as_json: AsJson = False,
) -> None:
    """Kill processes of batches and count."""
    if on not in ("here", "ray") or store not in ("folder", "postgres"):
        raise typer.BadParameter("--on is here or ray, --store is folder or postgres")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Server()) if store == "postgres" else None
        if rate:
            print_json(rates(server))
            return
        cluster = stack.enter_context(two_nodes()) if on == "ray" else None
        found = measured(kills, seed, cluster, seconds, server=server)
    figures = found.as_json()
    print_json(figures) if as_json else print("\n".join(f"{name}: {value}" for name, value in figures.items()))
    if found.twice or found.lost or found.rows_lost:
        raise typer.Exit(1)


def measured(
    kills: int,
    seed: int,
    cluster: Any = None,
    seconds: float = 3_600.0,
    tasks: int = TASKS,
    server: Server | None = None,
) -> Found:
    """Kill so many processes, at moments that the seed decides, and let every batch come to its end.

    Args:
        kills: how many.
        seed: of the moments.
        cluster: as :func:`two_nodes` gives it; ``None``: batches are done here.
        seconds: after which no further batch begins.
        tasks: of each batch.
        server: keeps the runs; ``None``: a folder does.
    """
    rng, found, began = random.Random(seed), Found(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="atc-kills-") as name:
        while found.kills.total() < kills and time.monotonic() - began < seconds:
            folder = Path(name) / f"batch-{found.batches}"
            folder.mkdir()
            (folder / "lines").touch()
            if server is not None:
                (folder / "store").write_text(server.address())
            _one_batch(folder, cluster, server, rng, found, kills, tasks)
            found.batches += 1
            if sys.stderr.isatty():
                print(f"\r{found.kills.total()} kills, {found.batches} batches", end="", file=sys.stderr, flush=True)
    return found


def _one_batch(
    folder: Path, cluster: Any, server: Server | None, rng: random.Random, found: Found, most: int, tasks: int
) -> None:
    first, began = True, time.monotonic()
    while True:
        leader = _leader(folder, cluster, tasks)
        try:
            while leader.poll() is None and time.monotonic() - began < PATIENCE_S:
                wanted = found.kills.total() < most and (first or rng.random() < KILL_AGAIN)
                if not wanted:
                    leader.wait(PATIENCE_S)
                    break
                what = _moment(folder, leader, cluster, server, rng)
                first = False
                if what:
                    found.kills[what] += 1
        finally:
            if leader.poll() is None:
                os.kill(leader.pid, signal.SIGKILL)  # nobody has reaped it: the number is still its own
            code = leader.wait()
        if code == 0:
            _count(folder, tasks, found)
            return
        down = code > 0 and server is not None  # it was killed: that ends a batch, and the same line goes on
        if (code > 0 and not down) or time.monotonic() - began > PATIENCE_S:
            raise RuntimeError(f"the batch of {folder} does not end ({code}): {(folder / 'error').read_text()[-2000:]}")


def _moment(
    folder: Path, leader: subprocess.Popen[bytes], cluster: Any, server: Server | None, rng: random.Random
) -> str:
    """Wait for a random moment and kill something; what it was, empty where it had ended before."""
    began, wanted = time.monotonic(), len(_lines(folder)) + rng.randint(0, 8)
    while len(_lines(folder)) < wanted and leader.poll() is None and time.monotonic() - began < PATIENCE_S / 10:
        time.sleep(0.002)
    time.sleep(rng.uniform(0.0, rng.choice((3 * QUICK_S, 1.3 * SLOW_S, 1.0))))
    if leader.poll() is not None:
        return ""
    if server is not None and rng.random() < OF_SERVERS:
        server.kill()
        server.start()
        return "server"
    drawn = rng.random()
    if cluster is None or drawn < OF_LEADERS:
        os.kill(leader.pid, signal.SIGKILL)
        leader.wait()
        return "leader"
    if drawn < OF_LEADERS + OF_NODES:
        cluster.remove_node(cluster.other, allow_graceful=False)
        cluster.other = cluster.add_node(**NODE)
        return "node"
    workers = [pid for pid in {int(pid) for _, pid in _lines(folder)[-8:]} if _is_worker(pid)]
    if not workers:
        return ""
    with contextlib.suppress(ProcessLookupError):
        os.kill(rng.choice(sorted(workers)), signal.SIGKILL)
    return "worker"


def _is_worker(pid: int) -> bool:
    """Whether a process that has written is a worker of the cluster that still lives."""
    try:
        return b"ray::" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _count(folder: Path, tasks: int, found: Found) -> None:
    """Hold what the runs say against what was written."""
    done = Counter(key for key, _ in _lines(folder))
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    by_id = Counter(row["id"] for row in rows)
    found.rows_lost += sum(by_id[str(number + 1)] != 1 for number in range(tasks))
    store = open_store(_settings(folder))
    for row in rows:
        found.ends[row["status"]] += 1
        said: dict[str, set[str]] = {}
        for event in store.run(row["run_id"]).events():
            if event["kind"] == "call_ended":
                said.setdefault(event["data"]["arguments"]["key"], set()).add(event["data"]["status"])
        for call in row.get("in_doubt", ()):
            said.setdefault(call["arguments"]["key"], set()).add("in_doubt")
        for key in _keys(row["task"]):
            times, statuses = done.pop(key, 0), said.get(key, set())
            if times > 1:
                found.twice += 1
            elif statuses & {"ok", "replayed"}:
                found.done += times == 1
                found.lost += times == 0
            elif "in_doubt" in statuses:
                found.in_doubt += 1
                found.in_doubt_done += times == 1
            else:
                found.unsaid += times == 1
                found.not_done += times == 0
    store.close()
    found.twice += len(done)  # of no task that has a row


def _lines(folder: Path) -> list[list[str]]:
    return [line.rsplit(" ", 1) for line in (folder / "lines").read_text().splitlines()]


# -- the batch ---------------------------------------------------------------------------------------------------------


def _keys(task: str) -> list[str]:
    name = _named(task)
    return [f"{name} {kind} {number}" for number in range(2) for kind in ("quick", "slow", "async")]


def _named(text: str) -> str:
    found = _NAME.search(text)
    assert found is not None
    return found[1]


def _script(messages: Sequence[Message]) -> str:
    name = _named(" ".join(message.content for message in messages))
    steps = "\n".join(
        f"    try:\n        write_{kind}(key=f'{name} {kind} {{number}}')\n        done = done + 1\n"
        "    except ToolError:\n        pass"
        for kind in ("quick", "slow", "async")
    )
    return f"```python\ndone = 0\nfor number in range(2):\n{steps}\nanswer = done\n```"


def _settings(folder: Path) -> Settings:
    address = (folder / "store").read_text() if (folder / "store").exists() else None
    return Settings.load(runs_dir=folder / "runs", store=address, store_lease_s=LEASE_S)


def _agent(folder: Path) -> Agent:
    def write(key: str) -> None:
        descriptor = os.open(folder / "lines", os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, f"{key} {os.getpid()}\n".encode())
        os.close(descriptor)

    @tool(effect="write")
    def write_quick(key: str) -> int:
        """Write a line."""
        time.sleep(QUICK_S)
        write(key)
        time.sleep(QUICK_S)
        return 1

    @tool(effect="write")
    def write_slow(key: str) -> int:
        """Write a line."""
        time.sleep(SLOW_S)
        write(key)
        time.sleep(SLOW_S)
        return 1

    @tool(effect="write")
    async def write_async(key: str) -> int:
        """Write a line."""
        await asyncio.sleep(SLOW_S)
        write(key)
        await asyncio.sleep(SLOW_S)
        return 1

    return Agent(
        Toolset.from_functions(write_quick, write_slow, write_async),
        model=FakeModel([_script] * 1_000),
        approve="always",
        sentence=False,
        learn=False,
        catalogue=folder / "catalogue",
        **_settings(folder).model_dump(include={"runs_dir", "store", "store_lease_s"}, exclude_none=True),
    )


def _leader(folder: Path, cluster: Any, tasks: int) -> subprocess.Popen[bytes]:
    address = "" if cluster is None else cluster.address
    command = [sys.executable, "-m", "benchmarks.kills.batch", "lead", str(folder), address, str(tasks)]
    with (folder / "error").open("ab") as error:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=error, stderr=error)


def lead(folder: Path, address: str, count: int) -> None:
    """Do the batch of a folder to its end, in this process or on a cluster."""
    tasks = [f"Write the lines of task{number}." for number in range(count)]
    agent = _agent(folder)
    on = OnRay(partial(_agent, folder), address=address, store=agent.store, deaths=1_000) if address else None
    with agent:
        for _ in agent.map(tasks, concurrency=3, results=folder / "results.jsonl", ordered=False, on=on):
            pass


# -- clusters ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def two_nodes(nodes: int = 2) -> Iterator[Any]:
    """A Ray cluster of nodes on this machine. All of it has ended afterwards, and its folder is gone."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster_utils: Any = importlib.import_module("ray.cluster_utils")  # Ray's types differ from what it takes

    folder = tempfile.mkdtemp(prefix="atc-ray-")
    Path("/tmp/ray").mkdir(exist_ok=True)  # the address of a cluster is written there, wherever its folder is
    head = NODE | {"include_dashboard": False, "temp_dir": folder}
    cluster = cluster_utils.Cluster(initialize_head=True, connect=False, head_node_args=head)
    try:
        cluster.other = cluster.add_node(**NODE) if nodes > 1 else None
        yield cluster
    finally:
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir("/tmp/ray")


def _waiting(store: str | None = None) -> Agent:
    @tool(effect="read")
    async def wait(n: int) -> int:
        """A number, a second later."""
        await asyncio.sleep(1.0)
        return n

    program = "```python\nanswer = wait(n=1)\n```"
    model = FakeModel([program] * 10_000)
    return Agent(Toolset.from_functions(wait), model=model, sentence=False, learn=False, store=store)


def rates(server: Server | None = None) -> dict[str, Any]:
    """Tasks a second in this process and at one and two nodes, two workers each; and until the first one ended."""
    figures: dict[str, Any] = {}
    make = partial(_waiting, None if server is None else server.address())
    with make() as agent:
        figures["here, 2 at a time"] = _rate(agent, None, 2)
    for nodes in (1, 2):
        with two_nodes(nodes) as cluster, make() as agent:
            figures[f"{nodes} nodes, 2 at a time on each"] = _rate(
                agent, OnRay(make, address=cluster.address, store=agent.store), 2 * nodes
            )
    return figures


def _rate(agent: Agent, on: OnRay | None, workers: int) -> dict[str, float]:
    began, ends = time.monotonic(), list[float]()
    for result in agent.map(
        [f"Wait {number}." for number in range(12 * workers)], concurrency=workers, ordered=False, on=on
    ):
        assert result.status == "answered", result
        ends.append(time.monotonic() - began)
    warm = [end - ends[workers - 1] for end in ends[workers:]]
    return {"tasks a second": round(len(warm) / warm[-1], 2), "seconds to the first": round(ends[0], 2)}


if __name__ == "__main__":
    if sys.argv[1:2] == ["lead"]:
        from benchmarks.kills import batch as batch_kills  # by its name: what is pickled is found there

        batch_kills.lead(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        typer.run(main)
