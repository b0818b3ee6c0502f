"""Is a run better off that sees what tools answer before its first program? Services of which only names are known.

``python -m benchmarks.probing.run --out ROWS.jsonl [--system plain,probe,look,both] [--service atlas,datasette]
[--tasks 20] [--seeds 1] [--minutes M]`` asks the model that the settings name (``ATC_MODEL``, ``ATC_BASE_URL``). Each
try is a line of the file, and the same command goes on from there; each system may have a command of its own, side by
side. ``--summary ROWS.jsonl`` prints the table. ``--reach`` asks no model: it
counts how many of the tools that the reference programs of the tasks call are known when the first program is written.

* **atlas**: the bundled service, with two trips in it. All 34 tools are offered; its document tells their names, those
  of their parameters, and which of these are required. The tasks are those of
  :mod:`benchmarks.environments.atlas_tasks` that only read, and not about trips; 20 of them, drawn by hash.
* **datasette**: a museum's database (``run_museum.sql``), by paths alone; 20 questions of somebody who works
  there (``run_tasks.toml``). `make services` installs it.

Systems: ``plain`` (neither), ``probe`` (``probe="reads"``), ``look`` (programs may look at values), ``both``. Each try
begins with nothing learnt, so what a probe costs is counted in each: a second run has it for nothing. A wrong answer is
one that was given and is not the expected one. Writes are counted at the service.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sqlite3
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from atc import Agent, Catalogue
from atc._host.redaction import Redactor
from atc.calls.approval import Approval
from atc.cli.console import INTERRUPTED, err, guarded, print_json
from atc.errors import AtcError, UsageError
from atc.models.base import Model
from atc.models.resolve import resolve_model
from atc.probing.reads import IN_RUN, probe_reads
from atc.settings import Settings
from atc.tools.tool import Toolset
from benchmarks.common import ALL, AsJson, listed, show
from benchmarks.environments.atlas_tasks import AtlasTask, check, load_tasks, reference_answer
from benchmarks.probing.recovered import atlas, served
from benchmarks.probing.services import OTHERS, SERVICES
from benchmarks.probing.started_services import Other, counted, document, running
from benchmarks.rows import append_line

HERE = Path(__file__).parent
DATABASE, QUESTIONS = HERE / "run_museum.sql", HERE / "run_tasks.toml"
SYSTEMS: dict[str, dict[str, Any]] = {
    "plain": {"find_tools": False},
    "probe": {"find_tools": False, "probe": "reads"},
    "look": {"find_tools": True},
    "both": {"find_tools": True, "probe": "reads"},
}
"""The settings of each. ``find_tools`` lets programs look at values; there are no tools left to find."""
NAMES = ("atlas", "datasette")
_OF_TRIPS = ("trip", "stop", "deposit")


@dataclass(frozen=True)
class Question:
    """One task, and what is expected.

    Attributes:
        unordered: whether a list may be in any order.
    """

    id: str
    task: str
    expected: Any
    unordered: bool = False


@dataclass(frozen=True)
class Row:
    """One try.

    Attributes:
        calls: of programs. ``probed``: reads that no program made; ``probe_s``: seconds that they took together.
        looks: programs that looked.
    """

    service: str
    task: str
    system: str
    model: str
    seed: int
    status: str
    solved: bool
    wrong: bool
    model_calls: int
    tokens: int
    calls: int
    probed: int
    probe_s: float
    looks: int
    writes: int
    seconds: float
    answer: str = ""

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What a try is known by."""
        return self.service, self.task, self.system, self.model, self.seed


_ROW = TypeAdapter(Row)


def questions(service: str, most: int) -> list[Question]:
    """The tasks of a service, always the same ones: drawn by the hash of their names."""
    if service == "datasette":
        return sorted(_of_museum(), key=lambda each: _drawn(each.id))[:most]
    return [of_atlas(each) for each in drawn_of_atlas(most)]


def drawn_of_atlas(most: int) -> list[AtlasTask]:
    """Tasks of Atlas that only read, and are not about trips."""
    reads = [t for t in load_tasks() if not t.writes and not any(word in t.reference for word in _OF_TRIPS)]
    return sorted(reads, key=lambda each: _drawn(each.id))[:most]


def _drawn(task: str) -> str:
    return hashlib.sha256(f"probing_run/{task}".encode()).hexdigest()


def of_atlas(task: AtlasTask) -> Question:
    """A task of Atlas with what its reference program computes."""
    return Question(task.id, task.task, reference_answer(task).value, task.unordered)


def _of_museum() -> list[Question]:
    with closing(sqlite3.connect(":memory:")) as museum:
        museum.executescript(DATABASE.read_text(encoding="utf-8"))
        return [
            Question(t["id"], t["task"], _expected(museum.execute(t["sql"]).fetchall(), t), t.get("unordered", False))
            for t in tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))["task"]
        ]


def _expected(rows: list[tuple[Any, ...]], task: Mapping[str, Any]) -> Any:
    if task.get("object"):
        return dict(rows)
    found = [row[0] for row in rows]
    return found if len(found) > 1 or task.get("unordered") else found[0]


def _museum(folder: Path, port: int) -> list[str]:
    file = folder / "museum.db"
    with closing(sqlite3.connect(file)) as museum:
        museum.executescript(DATABASE.read_text(encoding="utf-8"))
    return [str(SERVICES / "datasette"), "serve", str(file), "--port", str(port)]


@contextmanager
def service(name: str) -> Iterator[tuple[Toolset, Callable[[], int]]]:
    """Start a service; its tools, and what tells how many writes reached it.

    Raises:
        FileNotFoundError: it is not installed.
    """
    if name == "atlas":
        bare = atlas("bare")
        with served(bare.app) as (base, seen):
            tools = Toolset.from_openapi(f"{base}/openapi.json")
            yield tools, lambda: sum(count for path, count in seen.items() if path in bare.writes)
        return
    other: Other = replace(OTHERS["datasette"], command=_museum)
    with running(other) as base, counted(base) as proxy:
        tools = Toolset.from_openapi(document(name, proxy.base, other.reads))
        yield tools, lambda: len(proxy.writes(other))


async def attempt(question: Question, name: str, system: str, model: Model, seed: int) -> Row:
    """Let a system try a task, against a service that has just been started, with nothing learnt."""
    with tempfile.TemporaryDirectory() as folder, service(name) as (tools, writes):
        settings: dict[str, Any] = {each: f"{folder}/{each}" for each in ("catalogue", "runs_dir", "kept_dir")}
        settings |= {"stub_tokens": ALL, "sentence": False, "approve": "never", "seed": seed} | SYSTEMS[system]
        began = time.perf_counter()
        agent = Agent(tools, model=model, **settings)
        try:
            result = await agent.arun(question.task)
        finally:
            await agent.aclose()
            agent.catalogue.settle()  # what it learns goes with its folder
        right = result.status == "answered" and check(
            result.json_value, question.expected, unordered=question.unordered
        )
        return Row(
            service=name,
            task=question.id,
            system=system,
            model=model.name,
            seed=seed,
            status=result.status,
            solved=right,
            wrong=result.status == "answered" and not right,
            model_calls=result.usage.model_calls,
            tokens=result.usage.prompt_tokens + result.usage.completion_tokens,
            calls=result.usage.tool_calls,
            probed=len(result.probed),
            probe_s=_span(agent, result.run_id),
            looks=sum(bool(revision.looked) for revision in result.revisions),
            writes=writes(),
            seconds=round(time.perf_counter() - began, 2),
            answer=json.dumps(result.json_value, default=str)[:300],
        )


def _span(agent: Agent, run: str) -> float:
    """Seconds from the choice of the tools to the last read that was made before the first program."""
    at = {event["kind"]: event["at"] for event in agent.store.find(run).events() if event["kind"] in _MARKS}
    return round(at["tool_probed"] - at["tools_chosen"], 2) if "tool_probed" in at else 0.0


_MARKS = ("tools_chosen", "tool_probed")


def read(file: Path) -> dict[tuple[str, str, str, str, int], Row]:
    """The tries of a file, by their keys.

    Raises:
        UsageError: it cannot be read, or a line is none.
    """
    if not file.exists():
        return {}
    try:
        rows = [_ROW.validate_json(line) for line in file.read_bytes().splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise UsageError(f"the tries {file} cannot be read ({str(error)[:200]}): name another file") from None
    return {row.key: row for row in rows}


def table(rows: list[Row]) -> list[tuple[Any, ...]]:
    """One line for each service, model and system: sums over its tries."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.service, row.model, row.system), []).append(row)
    order = [*SYSTEMS]
    return [
        (
            *key,
            len(some),
            sum(row.solved for row in some),
            sum(row.wrong for row in some),
            sum(row.calls for row in some),
            sum(row.probed for row in some),
            sum(row.model_calls for row in some),
            sum(row.tokens for row in some),
            sum(row.looks for row in some),
            sum(row.writes for row in some),
            f"{sum(row.probe_s for row in some):.1f}",
        )
        for key, some in sorted(groups.items(), key=lambda each: (*each[0][:2], order.index(each[0][2])))
    ]


async def reach(tasks: int) -> list[tuple[Any, ...]]:
    """By the limit of calls: how many of the tools that reference programs call are known before the first program."""
    found = []
    with service("atlas") as (tools, _):
        for limits in (IN_RUN, replace(IN_RUN, calls=40, seconds=60.0)):
            needed = known = calls = 0
            slowest = 0.0
            for task in drawn_of_atlas(tasks):
                wanted = {name for name in tools if re.search(rf"\b{name}\(", task.reference)}
                with tempfile.TemporaryDirectory() as folder:
                    settings = Settings.load(catalogue=folder)
                    catalogue, began = Catalogue(tools, settings=settings), time.perf_counter()
                    made = await probe_reads(catalogue, settings, Approval(), Redactor(), task=task.task, limits=limits)
                    slowest = max(slowest, time.perf_counter() - began)
                    catalogue.settle()
                needed, calls = needed + len(wanted), calls + len(made)
                known += len(wanted & {each.tool for each in made if each.learnt})
            found.append((limits.calls, needed, known, calls, f"{slowest:.1f}"))
    return found


HEAD = (
    "service", "model", "system", "tries", "solved", "wrong", "calls", "probed", "model calls", "tokens", "looks",
    "writes", "probing s",
)  # fmt: skip


@guarded
def main(
    out: Annotated[Path | None, typer.Option(help="File of the tries; the command goes on where it was.")] = None,
    system: Annotated[str, typer.Option(help="Systems, with commas between.")] = "plain,probe,look",
    only: Annotated[str, typer.Option("--service", help="Services, with commas between.")] = ",".join(NAMES),
    tasks: Annotated[int, typer.Option(min=1, help="Of each service.")] = 20,
    seeds: Annotated[int, typer.Option(min=1)] = 1,
    minutes: Annotated[float, typer.Option(help="No try begins later than that after the first.")] = 600.0,
    summary: Annotated[Path | None, typer.Option(help="Print the table of a file, and try nothing.")] = None,
    only_reach: Annotated[bool, typer.Option("--reach", help="What probing reaches, without a model.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare runs that probe, that look, and that do neither, over services without documents."""
    if only_reach:
        head = ("calls at most", "tools needed", "known", "calls", "slowest s")
        lines = asyncio.run(reach(tasks))
        if as_json:
            print_json([dict(zip(head, line, strict=True)) for line in lines])
        else:
            show("atlas, names alone, without a model", head, lines)
        return
    if (file := summary or out) is None:
        raise UsageError("say where the tries go (--out ROWS.jsonl), or which are shown (--summary ROWS.jsonl)")
    systems, services = listed(system, SYSTEMS, "system"), listed(only, NAMES, "service")
    known = read(file)
    if summary is None:
        try:
            asyncio.run(_try_all(file, known, services, systems, tasks, seeds, minutes))
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
    lines = table([*known.values()])
    if as_json:
        print_json([dict(zip(HEAD, line, strict=True)) for line in lines])
    else:
        show("services without documents", HEAD, lines)


async def _try_all(
    file: Path, known: dict[Any, Row], services: list[str], systems: list[str], tasks: int, seeds: int, minutes: float
) -> None:
    model, began = resolve_model(Settings.load()), time.monotonic()
    tries = [
        (name, question, each, seed)
        for name in services
        for question in questions(name, tasks)
        for seed in range(seeds)
        for each in systems
        if (name, question.id, each, model.name, seed) not in known
    ]
    try:
        for number, (name, question, each, seed) in enumerate(tries, 1):
            if time.monotonic() - began > minutes * 60:
                return
            told = f"{number} of {len(tries)}: {name} {question.id} {each}"
            try:
                row = await attempt(question, name, each, model, seed)
            except AtcError as error:
                err.print(f"{told}: {error}; it is tried again next time", markup=False)
                continue
            append_line(file, _ROW.dump_json(row))
            known[row.key] = row
            err.print(f"{told}: {'solved' if row.solved else row.status}", markup=False)
    finally:
        await model.aclose()


if __name__ == "__main__":
    typer.run(main)
