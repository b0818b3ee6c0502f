"""Serving a service, probing it from nothing, and holding what comes of it against the truth."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import add
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from atc.errors import ModelError, UsageError
from atc.models.base import Model, ModelRequest, Reply
from atc.probing.call_policy import Budget
from atc.probing.prober import Prober
from atc.probing.report import Line, Report
from atc.settings import Settings
from atc.tools.protocol import Protocol
from atc.tools.tool import Toolset
from benchmarks.probing_truth import Comparison, Fields, Score, arguments_of, compare, fields_of_schema

STATES = ("documented", "partial", "undocumented", "skipped")


class NoModel(Model):
    """Fails every request, and says so."""

    name, context_tokens = "none", 8_192

    async def generate(self, request: ModelRequest) -> Reply:
        raise ModelError("this run has no model: structure alone probes")


@dataclass(frozen=True)
class Truth:
    """What is so of one tool."""

    arguments: Fields
    returns: Fields


@dataclass(frozen=True)
class Service:
    """A service to probe.

    Attributes:
        app: makes it, given its own address; its document is at ``/openapi.json``.
        truth: of the tools that only read, by their name. ``writes``: paths that change something.
        note: what to know of the figures.
    """

    name: str
    app: Callable[[str], ASGIApp]
    truth: dict[str, Truth]
    writes: frozenset[str] = frozenset()
    note: str = ""


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
