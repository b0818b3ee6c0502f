"""Probe services whose documents are known, with the documents taken away, and hold what comes of it against them.

``python -m benchmarks.probing [--level bare|described] [--model none|embedded|NAME] [--rounds 4] [--seeds 3]
[--single] [--data DIR] [--only NAME,…] [--verbose] [--json]``

* **atlas**: the bundled service over HTTP. ``bare``: names of operations and parameters, and which are required, are
  all that its document says; ``described``: one line about each besides. The truth is its whole document. Two trips
  are in it before it serves (stops, a cancelled one, a deposit), as a real system has data: probing only reads. Calls
  that would change something are counted at the service; one of them fails the run.
* **recorded services**, with ``--data DIR``: see :mod:`benchmarks.probing.records`.

``--model none`` leaves the model out: what structure alone can do; its model calls are requests that failed.
``--single`` also probes each tool by itself (one round), for the difference in percentage points. Each seed is a
probing from nothing.
What counts as right is in :mod:`benchmarks.probing.truth`. The limit of calls a minute is lifted, others stand.
"""

from __future__ import annotations

import datetime as dt
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import add
from typing import Annotated, Any

import typer
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from atc.atlas.catalogue import Atlas, atlas_toolset
from atc.atlas.server import Documented, create_app, openapi_document
from atc.cli.console import guarded
from atc.errors import ModelError, UsageError
from atc.models.base import Model, ModelRequest, Reply
from atc.probing.call_policy import Budget
from atc.probing.prober import Prober
from atc.probing.report import Line, Report
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.settings import Settings
from atc.tools.tool import Toolset
from benchmarks.common import AsJson, MaybeData, median, print_json, show
from benchmarks.probing.records import recorded
from benchmarks.probing.truth import Comparison, Score, Service, Truth, arguments_of, compare, fields_of_schema

STATES = ("documented", "partial", "undocumented", "skipped")


class NoModel(Model):
    """Fails every request, and says so."""

    name, context_tokens = "none", 8_192

    async def generate(self, request: ModelRequest) -> Reply:
        raise ModelError("this run has no model: structure alone probes")


@dataclass
class Tool:
    """What one probing came to for one tool that only reads."""

    line: Line
    returns: Comparison
    arguments: Comparison


@dataclass
class Run:
    """One probing of a service from nothing.

    Attributes:
        requests: that reached the service, its document's not counted. ``writes``: of these, to paths that change
            something.
    """

    service: str
    seed: int
    rounds: int
    report: Report
    tools: dict[str, Tool]
    seconds: float
    requests: int
    writes: int
    by_round: dict[int, int] = field(default_factory=dict)

    @property
    def documented(self) -> float:
        """Share of the tools that only read."""
        return sum(tool.line.state == "documented" for tool in self.tools.values()) / max(1, len(self.tools))

    def score(self, what: str, *, everything: bool = False) -> Score:
        """Of ``returns`` or ``arguments``, over the documented tools, or over all that only read."""
        chosen = [t for t in self.tools.values() if everything or t.line.state == "documented"]
        return reduce(add, (getattr(tool, what).score for tool in chosen), Score())

    def figures(self) -> dict[str, Any]:
        report = self.report
        return {
            "service": self.service,
            "seed": self.seed,
            "rounds": self.rounds,
            "tools": len(self.tools),
            "documented": self.documented,
            "by_round": self.by_round,
            "states": {state: sum(t.line.state == state for t in self.tools.values()) for state in STATES},
            "returns": self.score("returns").figures(),
            "arguments": self.score("arguments").figures(),
            "returns_of_all": self.score("returns", everything=True).figures(),
            "calls": report.calls,
            "requests": self.requests,
            "writes": self.writes,
            "model_calls": report.model_calls,
            "prompt_tokens": report.prompt_tokens,
            "completion_tokens": report.completion_tokens,
            "seconds": round(self.seconds, 1),
            "by_tool": {name: asdict(t) | {"line": t.line.model_dump()} for name, t in self.tools.items()},
        }


# Serving ------------------------------------------------------------------------------------------------------------


@contextmanager
def served(make: Callable[[str], ASGIApp]) -> Iterator[tuple[str, Counter[str]]]:
    """Serve an app on a free port of this machine; yields its address and a count of the requests for each path."""
    seen: Counter[str] = Counter()
    listener = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    app = make(base)

    async def counting(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            seen[scope["path"]] += 1
        await app(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(counting, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield base, seen
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


# Probing ------------------------------------------------------------------------------------------------------------


def measure(service: Service, model: Model | str | None, rounds: int, seed: int, tries: int = 3) -> Run:
    """Probe a service from nothing and hold the documents against the truth.

    Args:
        tries: N of ATC §4.1: programs that the model writes for a tool in a round.
    """
    with served(service.app) as (base, seen):
        tools = Toolset.from_openapi(f"{base}/openapi.json")
        began = time.perf_counter()
        with Prober(
            tools, model, Budget(calls_a_minute=1_000_000), tries, rounds, settings=Settings.load(seed=seed)
        ) as prober:
            report = prober.probe()
        seconds = time.perf_counter() - began
    found = {protocol.name: protocol for protocol in report.protocols}
    written = {tool.name: tool.protocol.source.operation for tool in tools.values()}  # an import may shorten a name
    judged = {
        written[line.tool]: judge(line, service.truth[written[line.tool]], found.get(line.tool))
        for line in report.lines
        if written[line.tool] in service.truth
    }
    if missing := set(service.truth) - set(judged):
        raise UsageError(f"{service.name}: no tool is named {', '.join(sorted(missing))}: the truth has other names")
    by_round = Counter(tool.line.round for tool in judged.values() if tool.line.state == "documented")
    return Run(
        service.name,
        seed,
        rounds,
        report,
        judged,
        seconds,
        seen.total() - seen["/openapi.json"],
        sum(count for path, count in seen.items() if path in service.writes),
        dict(sorted(by_round.items())),
    )


def judge(line: Line, truth: Truth, found: Protocol | None) -> Tool:
    """Hold one tool's document, if there is one, against the truth."""
    returns = fields_of_schema((found.returns or {}) if found else {})
    arguments = arguments_of(found.parameters) if found else {}
    return Tool(line, compare(truth.returns, returns), compare(truth.arguments, arguments))


def atlas(level: Documented) -> Service:
    """Atlas with two trips in it."""
    whole = Toolset.from_openapi(openapi_document(atlas_toolset(), base_url="http://127.0.0.1"))
    reads = {p.name: p for p in whole.protocols if p.effect is Effect.READ}
    writes = frozenset(f"/{p.name}" for p in whole.protocols if p.effect is not Effect.READ)
    truth = {name: Truth(arguments_of(p.parameters), fields_of_schema(p.returns or {})) for name, p in reads.items()}
    return Service(
        f"atlas, {level}",
        lambda base: create_app(_travelled(), documented=level, base_url=base),
        truth,
        writes,
        "two trips are there before it serves",
    )


def _travelled() -> Atlas:
    world = Atlas()
    trips = world.trips
    paris, lyon, rome = 2988507, 2996944, 3169070
    for name, currency in (("Rhône in spring", "EUR"), ("Rome", "USD")):
        trips.create_trip(name=name, currency_code=currency)
    trips.add_stop("trip_1", lyon, dt.date(2026, 4, 7), 3)
    trips.add_stop("trip_1", paris, dt.date(2026, 4, 10), 2)
    trips.pay_deposit("trip_1", 120.0, "EUR")
    trips.add_stop("trip_2", rome, dt.date(2026, 9, 1), 4)
    trips.cancel_stop("trip_2", "stop_1")
    return world


# Showing ------------------------------------------------------------------------------------------------------------

RIGHT = (
    "service",
    "rounds",
    "tools",
    "documented",
    "fields: recall",
    "precision",
    "required",
    "args: recall",
    "precision",
    "types",
    "required",
)
COST = ("service", "rounds", "documented in", "calls", "writes", "model calls", "tokens", "s")


def right(runs: Sequence[Run]) -> list[object]:
    """How much of one service is documented, and how well: all seeds together."""
    fields = reduce(add, (run.score("returns") for run in runs)).figures()
    given = reduce(add, (run.score("arguments") for run in runs)).figures()
    spread = sorted(run.documented for run in runs)
    share = _percent(sum(spread) / len(spread))
    if spread[0] != spread[-1]:
        share += f" ({_percent(spread[0])}–{_percent(spread[-1])})"
    return [
        runs[0].service,
        runs[0].rounds,
        len(runs[0].tools),
        share,
        *(_percent(fields[key]) for key in ("recall", "precision", "required")),
        *(_percent(given[key]) for key in ("path_recall", "path_precision", "recall", "required")),
    ]


def cost(runs: Sequence[Run]) -> list[object]:
    """What one probing of a service took: medians over the seeds; writes of all seeds together."""
    rounds: Counter[int] = Counter()
    for run in runs:
        rounds.update(run.by_round)
    reports = [run.report for run in runs]
    tokens = [report.prompt_tokens + report.completion_tokens for report in reports]
    counts = [median([r.calls for r in reports]), sum(run.writes for run in runs)]
    counts += [median([r.model_calls for r in reports]), median(tokens)]
    shares = ", ".join(f"round {number}: {count / len(runs):.3g}" for number, count in sorted(rounds.items()))
    seconds = median([run.seconds for run in runs])
    return [runs[0].service, runs[0].rounds, shares, *(f"{count:.0f}" for count in counts), f"{seconds:.1f}"]


def details(run: Run) -> None:
    """Each tool of one run, then everything that is not as it should be."""
    rows = []
    for name, tool in run.tools.items():
        fields, given = tool.returns.score.figures(), tool.arguments.score.figures()
        rows.append(
            (
                name,
                tool.line.state,
                tool.line.round or "",
                ", ".join(tool.line.helpers),
                tool.line.calls,
                tool.returns.score.true,
                *(_percent(fields[key]) for key in ("recall", "precision", "required")),
                *(_percent(given[key]) for key in ("path_recall", "recall", "required")),
            )
        )
    columns = ("tool", "state", "round", "helpers", "calls", "fields", "recall", "precision", "required")
    show(f"{run.service}, seed {run.seed}, rounds {run.rounds}", (*columns, "args", "types", "required"), rows)
    for name, tool in run.tools.items():
        if tool.line.state != "documented":
            print(f"{name}: {tool.line.state}: {tool.line.reason}")
            continue
        for what, found in (("field", tool.returns), ("argument", tool.arguments)):
            lines = [f"missing {path}" for path in found.missing] + [f"invented {path}" for path in found.invented]
            lines += [f"wrong {path}: {said}" for path, said in found.wrong.items()]
            for wrongly in (True, False):
                if paths := [path for path, said in found.required.items() if said is wrongly]:
                    lines.append(f"{'' if wrongly else 'not '}required, wrongly: {len(paths)}: {', '.join(paths[:4])}")
            for text in lines:
                print(f"{name}: {what}: {text}")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


@guarded
def main(
    level: Annotated[Documented, typer.Option(help="What Atlas's document tells.")] = "bare",
    model: Annotated[str, typer.Option(help="None, embedded, or as in the settings.")] = "none",
    rounds: Annotated[int, typer.Option(min=1)] = 4,
    seeds: Annotated[int, typer.Option(min=1, help="Probings of each service, each from nothing.")] = 3,
    single: Annotated[
        bool, typer.Option("--single", help="Also probe each tool by itself, for the difference.")
    ] = False,
    data: MaybeData = None,
    only: Annotated[str, typer.Option(help="Services, by the starts of their names, with commas between.")] = "",
    verbose: Annotated[bool, typer.Option("--verbose", help="Each tool of the first seed, and what is wrong.")] = False,
    as_json: AsJson = False,
) -> None:
    """Probe services whose documents are known; exit with 1 where a call would have changed something."""
    services, notes = recorded(data) if data is not None else ([], [])
    services = [each for each in (atlas(level), *services) if each.name.startswith(tuple(only.split(",")))]
    runs = []
    for service in services:
        for number in [rounds, 1] if single else [rounds]:
            for seed in range(seeds):
                run = measure(service, NoModel() if model == "none" else model, number, seed)
                print(
                    f"{run.service}, rounds {number}, seed {seed}: {_percent(run.documented)} documented in "
                    f"{run.seconds:.0f} s, {run.report.model_calls} model calls",
                    file=sys.stderr,
                )
                runs.append(run)
    notes = [*notes, *(f"{service.name}: {service.note}" for service in services if service.note)]
    if as_json:
        print_json({"level": level, "model": model, "notes": notes, "runs": [run.figures() for run in runs]})
    else:
        for run in runs if verbose else ():
            if run.seed == 0 and run.rounds == rounds:
                details(run)
        _print(runs, notes, f"model {model}, {seeds} seeds")
    raise typer.Exit(1 if any(run.writes for run in runs) else 0)


def _print(runs: Sequence[Run], notes: Sequence[str], title: str) -> None:
    groups: dict[tuple[str, int], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.service, run.rounds), []).append(run)
    show(
        f"Probing, {title}: what is documented, and how much of that is right", RIGHT, list(map(right, groups.values()))
    )
    show("What it took", COST, list(map(cost, groups.values())))
    for (name, rounds), group in groups.items():
        if rounds != 1 and (alone := groups.get((name, 1))):
            gain = sum(run.documented for run in group) / len(group) - sum(run.documented for run in alone) / len(alone)
            print(f"{name}: the chain documents {100 * gain:+.1f} points more than probing each tool by itself")
    for note in notes:
        print(note)
