"""Documents that probing writes for the tools of the ruler's environments, which are told by their names alone.

``python -m benchmarks.probing.documents [--env toolflow,restbench,atlas] [--prober none|embedded|NAME] [--audit]
[--data DIR]``

Each service of an environment is probed from nothing: the names of its tools and of their arguments, what stands in a
path, and which tools only read are all that is told. What answers is what answers in the environment's tasks: the
simulated services of :mod:`~benchmarks.environments.restbench_service`, where any identifier of the right type is
known, and Atlas over HTTP, which has two trips. Tools that change something are never called and stay bare.

The documents are kept in ``benchmarks/results/documents``, in a folder whose name has a digest of what was told and of
the code that probed; a probing that was stopped goes on there. The command prints what they recover of the true ones;
with ``--audit`` what is wrong with their demonstrations (:mod:`benchmarks.probing.demonstration_audit`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, reduce
from operator import add
from pathlib import Path
from typing import Annotated, Any

import typer

from atc._host.files import write_whole
from atc.cli.console import err, guarded, print_json
from atc.errors import UsageError
from atc.models.base import Model
from atc.probing.call_policy import Budget
from atc.probing.prober import Prober
from atc.probing.report import Report
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.tools.tool import Tool, Toolset
from benchmarks.common import RESULTS, ROOT, AsJson, show
from benchmarks.environments.atlas import AtlasEnvironment
from benchmarks.environments.base import Environment, Task
from benchmarks.environments.documented import Documented, Kind, names_alone
from benchmarks.environments.restbench import PathEnvironment, RestBench, as_told
from benchmarks.environments.toolflow import ToolFlow
from benchmarks.probing.demonstration_audit import audit
from benchmarks.probing.recovered import atlas, judge, served
from benchmarks.probing.truth import Score, Truth, arguments_of, fields_of_schema

FOLDER = RESULTS / "documents"
PROBED = ("atlas", "restbench", "toolflow")
"""The environments whose services can be probed."""
ATLAS = "atlas"
TRIES = 3
"""N of ATC §4.1, where a model probes."""
_SOURCES = (
    "atc/probing/*.py",
    "atc/schemas/infer/*.py",
    "atc/wording/questions.py",
    "prompts/probe*.jinja",
    *(f"benchmarks/environments/{name}.py" for name in ("restbench*", "toolflow", "documented")),
)


@dataclass(frozen=True)
class Probing:
    """What is known of a service after it was probed.

    Attributes:
        told: of each tool the names alone.
        truth: of the tools that only read.
    """

    service: str
    told: Mapping[str, Protocol]
    truth: Mapping[str, Truth]
    report: Report

    @property
    def protocols(self) -> dict[str, Protocol]:
        """All tools by their names; those that probing could not document are bare."""
        return {**self.told, **{protocol.name: protocol for protocol in self.report.protocols}}

    def figures(self) -> dict[str, Any]:
        """What the documents recover of the true ones, over all tools that only read; shares of 1."""
        found = {protocol.name: protocol for protocol in self.report.protocols}
        lines = {line.tool: line for line in self.report.lines}
        judged = [judge(lines[name], truth, found.get(name, self.told[name])) for name, truth in self.truth.items()]
        return {
            "service": self.service,
            "tools": len(self.told),
            "reads": len(self.truth),
            "documented": sum(name in found for name in self.truth),
            "returns": reduce(add, (tool.returns.score for tool in judged), Score()).figures(),
            "arguments": reduce(add, (tool.arguments.score for tool in judged), Score()).figures(),
            "demonstrated": sum(any(each.program for each in protocol.examples) for protocol in found.values()),
            "calls": self.report.calls,
            "model_calls": self.report.model_calls,
        }


def services(environment: Environment) -> list[str]:
    """The services of an environment."""
    if isinstance(environment, PathEnvironment):
        return list(dict.fromkeys(environment.service(task.id) for task in environment.tasks()))
    return [ATLAS]


def probed(environment: Environment, service: str, prober: Model | str = "none", folder: Path = FOLDER) -> Probing:
    """What probing makes of a service: from the folder, or by probing now.

    Args:
        environment: one of :data:`PROBED`.
        prober: the model that probes; ``none`` leaves it out.
        folder: where documents are kept.

    Raises:
        UsageError: the folder cannot be written.
        EnvironmentProblem: no model, no sandbox, or no data.
    """
    with _told(environment, service) as tools:
        told = {name: tool.protocol for name, tool in tools.items()}
        own = folder / f"{service}-{_word(prober)}-{_digest(told)}"
        try:
            report = Report.model_validate_json((own / "report.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            err.print(f"probing {service} ({len(told)} tools) by {_word(prober)}", markup=False)
            model, tries = (None, 0) if prober == "none" else (prober, TRIES)
            budget = Budget(calls_a_minute=1_000_000)
            with Prober(tools, model, budget, tries, folder=str(own)) as probing:
                report = probing.probe()
            try:
                write_whole(own / "report.json", report.model_dump_json(), mode=0o644)
            except OSError as error:
                raise UsageError(f"{own} cannot be written: {error.strerror}; make room") from None
    return Probing(service, told, _truth(environment, service), report)


def redocumented(environment: Environment, kind: Kind, prober: Model | str = "none") -> Documented:
    """An environment whose tools have the documents that probing wrote, or names alone; see :mod:`.probing`.

    Services are probed when the first task over them is opened, if they were not probed before.
    """

    @cache
    def documents(service: str) -> Mapping[str, Protocol]:
        if kind == "bare":
            with _told(environment, service) as tools:
                return {name: tool.protocol for name, tool in tools.items()}
        made = probed(environment, service, prober).protocols
        told = isinstance(environment, PathEnvironment)  # as its true documents are
        return {name: as_told(protocol) if told else protocol for name, protocol in made.items()}

    def of(task: Task) -> Mapping[str, Protocol]:
        return documents(environment.service(task.id) if isinstance(environment, PathEnvironment) else ATLAS)

    return Documented(environment, kind, of)


@contextmanager
def _told(environment: Environment, service: str) -> Iterator[Toolset]:
    """The tools of a service, told by their names alone, which can be called."""
    if isinstance(environment, PathEnvironment):
        tools = environment.simulated(service)
        yield Toolset(Tool(names_alone(tool.protocol), tool.transport) for tool in tools.values())
        return
    with served(atlas("bare").app) as (base, _):
        yield Toolset.from_openapi(f"{base}/openapi.json")


def _truth(environment: Environment, service: str) -> dict[str, Truth]:
    if not isinstance(environment, PathEnvironment):
        return atlas("bare").truth
    return {
        name: Truth(arguments_of(one.protocol.parameters), fields_of_schema(one.response or {}))
        for name, one in environment.operations[service].items()
        if one.protocol.effect is Effect.READ
    }


def _word(prober: Model | str) -> str:
    name = prober if isinstance(prober, str) else prober.name
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def _digest(told: Mapping[str, Protocol]) -> str:
    digest = hashlib.sha256(json.dumps({name: p.parameters for name, p in told.items()}).encode())
    for pattern in _SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


# Command line -------------------------------------------------------------------------------------------------------

COLUMNS = (
    "service",
    "reads",
    "documented",
    "arguments: types",
    "required",
    "fields: recall",
    "precision",
    "demonstrated",
    "calls",
    "model calls",
)
AUDITED = (
    "service",
    "documented",
    "demonstrated",
    "chained",
    "question names a tool",
    "tautology",
    "backwards",
    "writes an id",
)


def opened(name: str, data: Path | None) -> Environment:
    """An environment whose services can be probed.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in PROBED:
        raise UsageError(f"--env: the tools of {name!r} cannot be probed: take some of {', '.join(PROBED)}")
    return {"restbench": RestBench, "toolflow": ToolFlow}[name](data) if name != ATLAS else AtlasEnvironment()


@guarded
def main(
    env: Annotated[str, typer.Option(help=f"Some of {', '.join(PROBED)}.")] = ",".join(PROBED),
    prober: Annotated[str, typer.Option(help="The model that probes; none: structure alone.")] = "none",
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with restbench/.")] = None,
    demonstrations: Annotated[
        bool, typer.Option("--audit", help="What is wrong with the demonstrations, in place of what is recovered.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Probe the services of the ruler's environments, and hold the documents against the true ones."""
    found: dict[str, dict[str, Any]] = {}
    for environment in [opened(name.strip(), data) for name in env.split(",")]:
        for service in services(environment):
            if service not in found:  # TMDB answers in two environments
                made = probed(environment, service, prober)
                found[service] = (
                    {"service": service, **audit(made.report.protocols).figures()} if demonstrations else made.figures()
                )
    lines = list(found.values())
    if as_json:
        print_json(lines)
        return
    if demonstrations:
        show(f"Demonstrations by {prober}", AUDITED, [tuple(line.values()) for line in lines])
        return
    rows = [
        (
            line["service"],
            line["reads"],
            _share(line["documented"] / max(1, line["reads"])),
            _share(line["arguments"]["recall"]),
            _share(line["arguments"]["required"]),
            _share(line["returns"]["recall"]),
            _share(line["returns"]["precision"]),
            line["demonstrated"],
            line["calls"],
            line["model_calls"],
        )
        for line in lines
    ]
    show(f"What documents recover that {prober} probed, over all reads", COLUMNS, rows)


def _share(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


if __name__ == "__main__":
    typer.run(main)
