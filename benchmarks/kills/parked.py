"""Runs whose writes wait for approval, killed in every part: what is done twice, lost, or done without approval.

A scripted model (no model is asked) gives one program that reads which lines there are and writes each, with
``approve="park"``. Three kinds of processes work on its run, one after the other. An *asker* runs the program until its
writes wait. A *decider* says yes or no to each of them; sometimes there are two at once, who say the opposite. A
*resumer* goes on with the run, also where only a part is decided. Each is killed (SIGKILL) at a chosen record of the
journal or the trace (before it is written, in the middle of it, after it), or at a random moment; another one then goes
on, until the run has ended. What was really done is counted at the tools' own side, as in
:mod:`benchmarks.kills.hosts`. What was decided is read in the journal's own lines, and held against what the deciders
were told to say.

``--control`` has a resumer that begins anew in place of going on: what it does must be found.
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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from unittest.mock import patch

import httpx
import typer

from atc import Agent, tool
from atc.calls.journal_file import JournalFile
from atc.errors import RunInUse, UsageError
from atc.models.fake import FakeModel
from atc.run.approvals import decide, undecided
from atc.tools.tool import Toolset
from atc.traces.stores.base import RunStore, new_run_id
from atc.traces.stores.files import FileStore, FileTrace
from benchmarks.common import AsJson, print_json
from benchmarks.kills import hosts as kills
from tests.support.postgres import WHY_NOT, Server

_T = TypeVar("_T")
Role = Literal["asker", "decider", "resumer"]
ROLES: tuple[Role, ...] = ("asker", "decider", "resumer")
EACH = 2
"""Writes of each kind of tool in one program."""
KEYS = [f"{kind} {number}" for number in range(EACH) for kind in kills.KINDS]
OF_NO, OF_TWO, OF_PART, AT_RANDOM = 0.05, 0.25, 0.2, 0.3
"""How often a line is denied, two decide at once, a run goes on half decided, and a moment is a random one."""
MOST_KILLS, MOST_ROUNDS = 12, 60
"""Kills of one run, and processes until it counts as stuck."""
LEASE_S = 2.0
MOMENTS: dict[Role, tuple[tuple[str, int], ...]] = {
    "asker": (*(("pending", n) for n in (1, 2, 4)), ("run_ended", 1)),
    "decider": tuple(("decision", n) for n in (1, 2, 4)),
    "resumer": (
        ("reads_again", 1),
        *((name, n) for name in ("begin", "sent", "value") for n in (1, 2, 4)),
        ("run_ended", 1),
    ),
}
"""Records at which a process of each kind is killed: their names, and the how manieth."""
_RECORDS = ("pending", "decision", "reads_again", "begin", "sent", "value", "failed", "stage", "ban")


@dataclass(frozen=True)
class Moment:
    """A moment at which a process kills itself: a record that it writes, and on which side of it."""

    record: str
    count: int
    side: Literal["before", "within", "after"]


@dataclass
class Found:
    """The figures of all runs.

    Attributes:
        kills: by the kind of process, and by where it was killed.
        ends: of the runs, by status.
        lines: by what became of them (:func:`count_line`).
        decisions: those that were made, and what is wrong with any.
        doubtful: the lines that are in doubt, by their runs.
    """

    runs: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    lines: Counter[str] = field(default_factory=Counter)
    decisions: Counter[str] = field(default_factory=Counter)
    doubtful: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> int:
        """Return how much there is that may never be."""
        lines = sum(self.lines[name] for name in ("twice", "lost", "without approval", "said and not done"))
        return lines + sum(self.decisions[name] for name in ("lost", "forged", "made twice")) + self.ends["stuck"]

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        of_role = {role: sum(n for name, n in self.kills.items() if name.startswith(role)) for role in ROLES}
        return {
            "kills": self.kills.total(),
            **{f"of {role}s": times for role, times in of_role.items()},
            "at random moments": sum(n for name, n in self.kills.items() if name.endswith("at random")),
            "runs": self.runs,
            "ends of the runs": dict(self.ends),
            "lines": self.runs * len(KEYS),
            **{f"lines, {name}": self.lines[name] for name in _LINES},
            **{f"decisions, {name}": self.decisions[name] for name in _DECISIONS},
            "lines in doubt": self.doubtful,
            "killed": dict(sorted(self.kills.items())),
        }


_LINES = (
    "approved",
    "done once",
    "in doubt",
    "in doubt and done",
    "unsaid",
    "twice",
    "lost",
    "said and not done",
    "without approval",
    "denied and not done",
)
_DECISIONS = ("made", "asked about again", "lost", "forged", "made twice")


def main(
    kills_: Annotated[int, typer.Option("--kills", min=1, help="processes to kill")] = 150,
    seed: int = 0,
    store: Annotated[str, typer.Option(help="where runs are kept: folder or postgres")] = "folder",
    keep: Annotated[Path | None, typer.Option(help="file of figures: written after each run, gone on with")] = None,
    control: Annotated[bool, typer.Option("--control", help="resume wrongly, which must be found")] = False,
    as_json: AsJson = False,
) -> None:
    """Kill askers, deciders and resumers, and count."""
    if store not in ("folder", "postgres"):
        raise typer.BadParameter("--store is folder or postgres")
    if store == "postgres" and WHY_NOT:
        raise SystemExit(WHY_NOT)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Server()) if store == "postgres" else None
        found = measured(kills_, seed, None if as_json else _progress, server=server, keep=keep, control=control)
    figures = found.as_json()
    print_json(figures) if as_json else print("\n".join(f"{name}: {value}" for name, value in figures.items()))
    if found.wrong:
        raise typer.Exit(1)


def measured(
    most: int,
    seed: int,
    progress: Callable[[Found], None] | None = None,
    *,
    server: Server | None = None,
    keep: Path | None = None,
    control: bool = False,
) -> Found:
    """Kill so many processes, where the seed decides, and let every run come to its end.

    Args:
        most: how many; the run in which that number is reached comes to its end without further ones.
        seed: of each run's choices, with the run's number. Only the length of a random wait is not fixed by it.
        progress: is told after each run.
        server: keeps the runs; ``None``: a folder does.
        keep: a file of figures that is gone on with, and is written after each run.
        control: resume wrongly.
    """
    found = _kept(keep)
    with tempfile.TemporaryDirectory(prefix="atc-kills-") as name:
        service, port = kills.start_service(Path(name))
        try:
            while found.kills.total() < most:
                folder = Path(name) / f"run-{found.runs}"
                folder.mkdir()
                rng = random.Random(f"{seed}:{found.runs}")
                _Run(folder, port, server, rng, found, most, control).to_its_end()
                found.runs += 1
                if keep is not None:
                    part = keep.with_name(f"{keep.name}.part")
                    part.write_text(json.dumps(vars(found)))
                    part.replace(keep)
                if progress is not None:
                    progress(found)
        finally:
            os.kill(service, signal.SIGKILL)
            os.waitpid(service, 0)
    return found


def _kept(path: Path | None) -> Found:
    if path is None or not path.exists():
        return Found()
    known = json.loads(path.read_text())
    counted = {name: Counter(known[name]) for name in ("kills", "ends", "lines", "decisions")}
    return Found(known["runs"], **counted, doubtful=known["doubtful"])


# -- what is counted ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Heard:
    """A decision: about which call, of which line, yes or no, and whose."""

    number: int
    key: str
    yes: bool
    by: str


def count_line(approved: bool, times: int, said: bool, doubtful: bool) -> str:
    """What became of a line.

    Args:
        approved: whether somebody said yes to it.
        times: that it was written.
        said: whether the run says that it was.
        doubtful: whether the run says that it may have been.
    """
    if times > 1:
        return "twice"
    if not approved:
        return "without approval" if times else "said and not done" if said else "denied and not done"
    if said:
        return "done once" if times else "said and not done"
    if doubtful:
        return "in doubt"
    return "unsaid" if times else "lost"


def count_decisions(recorded: list[Heard], heard: list[Heard], told: Mapping[str, Mapping[str, bool]]) -> Counter[str]:
    """What is wrong with the decisions of a run.

    Args:
        recorded: in the journal.
        heard: what deciders were told that they have decided.
        told: what each decider was to say about each line.
    """
    return Counter(
        {
            "made": len(recorded),
            "made twice": len(recorded) - len({each.number for each in recorded}),
            "forged": sum(told.get(each.by, {}).get(each.key) is not each.yes for each in recorded),
            "lost": sum(each not in recorded for each in heard),
        }
    )


# -- one run -----------------------------------------------------------------------------------------------------------


@dataclass
class _Run:
    """One run, disturbed as its chances have it, to its end."""

    folder: Path
    port: int
    server: Server | None
    rng: random.Random
    found: Found
    most: int
    control: bool

    def to_its_end(self) -> None:
        """Work on it with one process after the other until it has ended, and count."""
        self.run_id = new_run_id()
        self.no = {key for key in KEYS if self.rng.random() < OF_NO}
        self.told: dict[str, dict[str, bool]] = {}
        self.took: dict[Role, float] = {"asker": 0.4, "decider": 0.05, "resumer": 0.8}
        self.reuse_s = self.rng.choice((0.0, 300.0))
        self.killed = 0
        for side in (*self._sides(), self.folder / "heard"):
            side.touch()
        for _ in range(MOST_ROUNDS):
            status, left, decided = self._look()
            if status not in ("", "waiting"):
                break
            self._next(status, left, decided)
        else:
            status = "stuck"
        httpx.get(f"http://127.0.0.1:{self.port}/", timeout=kills.PATIENCE_S)  # then the service has done all it took
        self._count(status)

    def _next(self, status: str, left: int, decided: int) -> None:
        chance = self.rng.random()
        if status == "waiting" and left and not (chance < OF_PART if decided else chance < OF_PART / 4):
            self._decide()
        elif status == "" and chance < OF_PART / 2:
            self._decide()  # too early: nothing is asked yet, or no more
        else:
            self._work("resumer" if decided else "asker", self._goes_on)

    def _decide(self) -> None:
        verdicts = [{key: key not in self.no for key in KEYS}]
        if self.rng.random() < OF_TWO:
            verdicts.append({key: not yes for key, yes in verdicts[0].items()})
        started = []
        for verdict in verdicts:
            name = f"decider {len(self.told)}"
            self.told[name] = verdict
            moment = self._moment("decider")
            order = self.rng.sample(KEYS, len(KEYS))
            started.append((self._start(partial(self._says, name, verdict, order), moment), moment))
        for pid, moment in started:
            self._wait("decider", pid, moment)

    def _work(self, role: Role, work: Callable[[], None]) -> None:
        moment = self._moment(role)
        self._wait(role, self._start(work, moment), moment)

    def _moment(self, role: Role) -> Moment | Literal["at random"] | None:
        enough = self.killed >= MOST_KILLS or self.found.kills.total() >= self.most
        if enough or self.rng.random() > kills.KILL_AGAIN:
            return None
        if self.rng.random() < AT_RANDOM:
            return "at random"
        record, count = self.rng.choice(MOMENTS[role])
        sides: tuple[Literal["before", "within", "after"], ...] = ("before", "after", "within")
        return Moment(record, count, self.rng.choice(sides if self.server is None else sides[:2]))

    def _start(self, work: Callable[[], None], moment: Moment | Literal["at random"] | None) -> int:
        sys.stdout.flush()
        pid = os.fork()  # this process has one thread
        if pid:
            return pid
        try:
            if isinstance(moment, Moment):
                _arm(moment)
            work()
        except BaseException as error:
            (self.folder / "error").write_text(f"{type(error).__name__}: {error}")
            os._exit(1)
        os._exit(0)

    def _wait(self, role: Role, pid: int, moment: Moment | Literal["at random"] | None) -> None:
        began = time.monotonic()
        if moment == "at random":
            time.sleep(self.rng.uniform(0.0, 1.2 * self.took[role]))
            os.kill(pid, signal.SIGKILL)  # nobody has reaped it: the number is still its own
        status = os.waitpid(pid, 0)[1]
        if os.WIFSIGNALED(status):
            self.killed += 1
            at = moment if moment == "at random" else f"{moment.side} {moment.record}" if moment is not None else "?"
            self.found.kills[f"{role}, {at}"] += 1
        elif os.waitstatus_to_exitcode(status):
            raise RuntimeError(f"a process of {self.folder} failed: {(self.folder / 'error').read_text()}")
        else:
            self.took[role] = time.monotonic() - began

    # -- what the processes do -----------------------------------------------------------------------------------------

    def _says(self, name: str, verdict: Mapping[str, bool], order: list[str]) -> None:
        try:
            stored = self._store().find(self.run_id)
            waiting = {str(call.arguments["key"]): call.index for call in _once_free(partial(undecided, stored))}
        except UsageError:
            return
        for key in order:
            if key in waiting:
                number, yes = waiting[key], verdict[key]
                with contextlib.suppress(UsageError):  # somebody has decided before
                    _once_free(partial(decide, stored, [number], yes=yes, by=name))
                    line = json.dumps([number, key, yes, name]).encode() + b"\n"
                    descriptor = os.open(self.folder / "heard", os.O_WRONLY | os.O_APPEND)
                    os.write(descriptor, line)
                    os.close(descriptor)

    def _goes_on(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        place: dict[str, Any] = {"runs_dir": self.folder / "runs"}
        if self.server is not None:
            place = {"store": self.server.address(), "store_lease_s": LEASE_S}
        service = f"http://127.0.0.1:{self.port}/{self.folder.name}"
        tools = kills.line_tools(self.folder / "lines") + Toolset.from_openapi(kills.DOCUMENT, base_url=service)
        begins_anew = self.control and any(each.yes for each in self._recorded()[0])
        agent = Agent(
            tools + Toolset.from_functions(list_keys),
            model=FakeModel([SCRIPT] * 20),
            approve="always" if begins_anew else "park",
            sentence=False,
            learn=False,
            catalogue=self.folder / f"catalogue-{os.getpid()}",
            call_timeout_s=20.0,
            reuse_reads_s=self.reuse_s,
            **place,
        )
        until = time.monotonic() + kills.PATIENCE_S
        async with agent:
            while True:
                try:
                    if begins_anew:
                        await agent.arun("Write every line once.")
                    if agent.store.run(self.run_id).exists:
                        await agent.aresume(self.run_id)
                    else:
                        await agent._begin(agent._request("Write every line once."), run_id=self.run_id)
                    return
                except RunInUse:  # the lease of one that was killed
                    if time.monotonic() > until:
                        raise
                    await asyncio.sleep(0.05)

    # -- what there is -------------------------------------------------------------------------------------------------

    def _store(self) -> RunStore:
        if self.server is None:
            return FileStore(self.folder / "runs")
        return open_store_at(self.server.address())

    def _look(self) -> tuple[str, int, int]:
        """How the run ended last (empty: it did not), how many calls wait, and how many are decided."""
        with contextlib.closing(self._store()) as store:
            stored = store.run(self.run_id)
            status, waiting = "", list[int]()
            for event in stored.events() if stored.exists else ():
                if event["kind"] == "run_started":
                    status = ""
                elif event["kind"] == "run_ended" and not event["data"].get("raised"):
                    status = event["data"]["status"]
                    waiting = [call["index"] for call in event["data"]["pending"]]
        decided = {each.number for each in self._recorded()[0]}
        return status, len(set(waiting) - decided), len(decided)

    def _recorded(self) -> tuple[list[Heard], int]:
        with contextlib.closing(self._store()) as store:
            stored = store.run(self.run_id)
            lines = list(stored.peeked()) if stored.has_journal else []
        keys: dict[int, str] = {}
        decisions, again = [], 0
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:  # the last one, cut short
                continue
            if "pending" in record:
                keys[record["pending"]] = record["shown"]["arguments"]["key"]
                again += record["instead"] != 0
            elif "decision" in record:
                number = record["decision"]
                decisions.append(Heard(number, keys[number], record["yes"], record["by"]))
        return decisions, again

    def _sides(self) -> list[Path]:
        return [self.folder / "lines", self.folder / "served"]

    def _count(self, status: str) -> None:
        """Hold what the run says and what was decided against what was done."""
        self.found.ends[status] += 1
        recorded, again = self._recorded()
        heard = [Heard(*json.loads(line)) for line in (self.folder / "heard").read_text().splitlines()]
        self.found.decisions += count_decisions(recorded, heard, self.told)
        self.found.decisions["asked about again"] += again
        with contextlib.closing(self._store()) as store:
            said, doubtful = said_of(store.run(self.run_id).events())
        yes = {each.key for each in recorded if each.yes}
        done = Counter(line for side in self._sides() for line in side.read_text().splitlines())
        for key in KEYS:
            what = count_line(key in yes, done[key], key in said, key in doubtful)
            self.found.lines[what] += 1
            self.found.lines["approved"] += key in yes
            if what == "in doubt":
                self.found.lines["in doubt and done"] += done[key]
                self.found.doubtful.append(f"run {self.found.runs}: {key}")


def said_of(events: Iterable[Mapping[str, Any]]) -> tuple[set[str], set[str]]:
    """The lines of which the last process of a run says that they are done, and those that it says are in doubt."""
    said: set[str] = set()
    doubtful: set[str] = set()
    for event in events:
        data = event["data"]
        if event["kind"] == "run_started":
            said, doubtful = set(), set()
        elif event["kind"] == "call_ended" and "key" in data["arguments"]:
            if data["status"] in ("ok", "replayed"):
                said.add(data["arguments"]["key"])
            elif "in_doubt" in (data["status"], data["error_status"]):
                doubtful.add(data["arguments"]["key"])
        elif event["kind"] == "run_ended":
            said |= {call["arguments"]["key"] for call in data.get("done", ())}
    return said, doubtful


def open_store_at(address: str) -> RunStore:
    """The store at the address of a database."""
    from atc.traces.stores.postgres import PostgresStore

    return PostgresStore(address, lease_s=LEASE_S)


def _once_free(work: Callable[[], _T]) -> _T:
    until = time.monotonic() + kills.PATIENCE_S
    while True:
        try:
            return work()
        except RunInUse:
            if time.monotonic() > until:
                raise
            time.sleep(0.005)


# -- the program, and its end by a kill --------------------------------------------------------------------------------


@tool(effect="read")
def list_keys() -> list[str]:
    """List the lines that there are."""
    return KEYS


_STEPS = "".join(
    f"""
try:
    write_{key.split()[0]}(key=keys[{number}])
    done = done + 1
except ToolError:
    pass"""
    for number, key in enumerate(KEYS)
)
SCRIPT = f"```python\nkeys = list_keys()\ndone = 0{_STEPS}\nanswer = done\n```"


def _arm(moment: Moment) -> None:
    """Let this process kill itself at a record that it writes."""
    from atc.traces.stores.postgres_records import PostgresRecords, PostgresTrace

    left = [moment.count]

    def comes(name: str) -> bool:
        left[0] -= name == moment.record
        return name == moment.record and left[0] == 0

    def recording(owner: type[JournalFile] | type[PostgresRecords]) -> None:
        append = owner.append

        def armed(self: Any, record: str, **how: bool) -> None:
            name = next((each for each in _RECORDS if each in json.loads(record)), "")
            if not comes(name):
                append(self, record, **how)
                return
            if moment.side == "within":
                self._file.write(record.encode()[: len(record) // 2])
            elif moment.side == "after":
                append(self, record, **how)
            os.kill(os.getpid(), signal.SIGKILL)

        patch.object(owner, "append", armed).start()

    def tracing(owner: type[FileTrace] | type[PostgresTrace]) -> None:
        write_line = owner.write_line

        def armed(self: Any, text: str) -> None:
            if not comes(json.loads(text)["kind"]):
                write_line(self, text)
                return
            if moment.side == "after":
                write_line(self, text)
            elif moment.side == "within":
                self._file.write(text.encode()[: len(text) // 2])
            os.kill(os.getpid(), signal.SIGKILL)

        patch.object(owner, "write_line", armed).start()

    recording(JournalFile)
    recording(PostgresRecords)
    tracing(FileTrace)
    tracing(PostgresTrace)


def _progress(found: Found) -> None:
    if sys.stderr.isatty():
        print(f"\r{found.kills.total()} kills, {found.runs} runs", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    typer.run(main)
