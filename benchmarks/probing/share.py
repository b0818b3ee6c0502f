"""The model's own share in probing: the reads that are documented with it and not without it, service by service.

``python -m benchmarks.probing.share --model embedded|NAME [--base-url URL] [--data DIR] [--only NAME,…] [--tries 3]
[--replies 60] [--out FILE] [--json]``

Each service is probed twice from nothing: by structure alone, and with a model that is asked for values
(:mod:`atc.probing.asking`). Its other part, sentences and questions for what is documented already, is left out: it
documents nothing. The services are Atlas by names alone, with ``--data`` the recorded ones, and those of others that
are installed (:mod:`benchmarks.probing.services`).

Each service is a line of ``--out``, and each reply a file beside it: the same command goes on where it was stopped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from atc.cli.console import guarded
from atc.errors import ModelError, UsageError
from atc.models.base import Model, ModelRequest, Reply, WrappedModel
from atc.models.resolve import resolve_model
from atc.probing.asking import TITLE
from atc.probing.report import Report
from atc.settings import Settings
from benchmarks.common import RESULTS, AsJson, MaybeData, print_json, show
from benchmarks.probing.records import recorded
from benchmarks.probing.recovered import atlas, measure
from benchmarks.probing.services import OTHERS, probed
from benchmarks.probing.truth import Service


@dataclass(frozen=True)
class Probing:
    """One probing of a service.

    Attributes:
        documented: the names of the reads that were.
        writes: requests that changed something, as the service or a proxy before it counted them.
    """

    reads: int
    documented: tuple[str, ...]
    calls: int
    writes: int = 0


@dataclass(frozen=True)
class Row:
    """One service, with and without a model.

    Attributes:
        replies: of the model. ``tokens``: of prompts and replies.
        open: what is not documented with it, and why.
    """

    service: str
    model: str
    tries: int
    reads: int
    without: tuple[str, ...]
    documented: tuple[str, ...]
    calls_without: int
    calls: int
    writes: int
    replies: int
    tokens: int
    open: Mapping[str, str]

    @property
    def gained(self) -> list[str]:
        """What only the model's values documented."""
        return sorted(set(self.documented) - set(self.without))

    @property
    def lost(self) -> list[str]:
        """What structure alone documented, and the model did not."""
        return sorted(set(self.without) - set(self.documented))

    @property
    def share(self) -> float:
        """The model's own share of the reads."""
        return (len(self.documented) - len(self.without)) / max(1, self.reads)


class Values(WrappedModel):
    """A model that is asked for values and for nothing else, and what it cost. Kept replies count as others do."""

    def __init__(self, inner: Model, most: int) -> None:
        super().__init__(inner)
        self.most = most
        self.replies = self.tokens = 0
        self.failed: ModelError | None = None

    async def generate(self, request: ModelRequest) -> Reply:
        schema = request.format.schema if request.format is not None else None
        if schema is None or schema.get("title") != TITLE:
            raise ModelError("this run asks for values alone")
        try:
            if self.replies == self.most:
                raise ModelError("the run's replies are used up: the same command goes on with more --replies")
            self.replies += 1
            reply = await super().generate(request)
        except ModelError as error:
            self.failed = error
            raise
        self.tokens += reply.prompt_tokens + reply.completion_tokens
        return reply


Probe = Callable[[Model | None, int], tuple[Probing, Mapping[str, str]]]
"""Probes a service from nothing, with a model that is asked so often, or with none; returns also what stays open."""


def of_service(service: Service) -> Probe:
    """Probe a service whose truth is known."""

    def probe(model: Model | None, tries: int) -> tuple[Probing, Mapping[str, str]]:
        run = measure(service, model, 4, 0, tries if model is not None else 0)
        lines = {name: tool.line for name, tool in run.tools.items()}
        return _probing(lines, run.report, run.writes)

    return probe


def of_other(name: str) -> Probe:
    """Probe a service of others, as :mod:`benchmarks.probing.services` does."""

    def probe(model: Model | None, tries: int) -> tuple[Probing, Mapping[str, str]]:
        found = probed(OTHERS[name], model, tries if model is not None else 0)
        lines = {found.paths[line.tool]: line for line in found.report.lines if line.tool in found.paths}
        return _probing(lines, found.report, found.writes)

    return probe


def _probing(lines: Mapping[str, Any], report: Report, writes: int = 0) -> tuple[Probing, Mapping[str, str]]:
    documented = tuple(name for name, line in lines.items() if line.state == "documented")
    left = {name: f"{line.state}: {line.reason}" for name, line in lines.items() if line.state != "documented"}
    return Probing(len(lines), documented, report.calls, writes), left


def compare(name: str, probe: Probe, model: Model, tries: int, most: int) -> Row:
    """Probe one service without and with a model that gives so many replies at most.

    Raises:
        ModelError: the model failed: that is no figure.
    """
    without, _ = probe(None, 0)
    asked = Values(model, most)
    found, left = probe(asked, tries)
    if asked.failed is not None:
        raise asked.failed
    return Row(
        name,
        model.name,
        tries,
        found.reads,
        without.documented,
        found.documented,
        without.calls,
        found.calls,
        without.writes + found.writes,
        asked.replies,
        asked.tokens,
        left,
    )


def services(data: Path | None) -> tuple[dict[str, Probe], list[str]]:
    """What can be probed, by name, and what to know of it."""
    ours, notes = recorded(data) if data is not None else ([], ["no --data: the recorded services are left out"])
    found = {service.name: of_service(service) for service in (atlas("bare"), *ours)}
    return found | {name: of_other(name) for name in OTHERS}, notes


def kept(file: Path) -> Iterator[Row]:
    """The rows of a file; a line that was cut by a crash is none."""
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            yield Row(**json.loads(line))
        except (ValueError, TypeError):
            continue


COLUMNS = ("service", "reads", "without", "with", "the model's share", "calls", "with", "writes", "replies", "tokens")


def table(rows: Iterable[Row]) -> list[list[object]]:
    """A line for each service, and one for all."""
    chosen = list(rows)
    lines = [_line(row.service, [row]) for row in chosen]
    return [*lines, _line("all", chosen)] if chosen else []


def _line(name: str, rows: Sequence[Row]) -> list[object]:
    def total(attribute: str) -> int:
        return sum(getattr(row, attribute) for row in rows)

    without, documented = (sum(len(getattr(row, name)) for row in rows) for name in ("without", "documented"))
    share = f"{documented - without:+d} ({100 * (documented - without) / max(1, total('reads')):+.1f} points)"
    counts = [total(attribute) for attribute in ("calls_without", "calls", "writes", "replies", "tokens")]
    return [name, total("reads"), without, documented, share, *counts]


@guarded
def main(
    model: Annotated[str, typer.Option(help="embedded, or as `atc run --model` takes it.")],
    base_url: Annotated[str | None, typer.Option(help="Of an endpoint; else what the settings say.")] = None,
    data: MaybeData = None,
    only: Annotated[str, typer.Option(help="Services, by the starts of their names, with commas between.")] = "",
    tries: Annotated[int, typer.Option(min=1, help="How often the model is asked, for each service.")] = 3,
    replies: Annotated[int, typer.Option(min=1, help="The most of all services together.")] = 60,
    file: Annotated[Path, typer.Option("--out", help="Where each service is kept.")] = RESULTS / "probing_share.jsonl",
    as_json: AsJson = False,
) -> None:
    """Measure what a model's values document beside structure; exit with 1 where a call would change something."""
    found, notes = services(data)
    chosen = {name: probe for name, probe in found.items() if name.startswith(tuple(only.split(",")))}
    if not chosen:
        raise UsageError(f"--only: no service begins with {only}; take some of {', '.join(found)}")
    settings = Settings.load(**({"base_url": base_url} if base_url else {}))
    file.parent.mkdir(parents=True, exist_ok=True)
    asked = resolve_model(settings, model, cache_dir=file.with_suffix(".replies"))
    rows = {row.service: row for row in kept(file) if (row.model, row.tries) == (asked.name, tries)}
    for name, probe in chosen.items():
        if name in rows:
            continue
        used = sum(row.replies for row in rows.values())
        try:
            rows[name] = compare(name, probe, asked, tries, replies - used)
        except (FileNotFoundError, RuntimeError) as error:  # not installed, or it did not come up
            notes.append(f"{name} is left out: {error} (`make services probed-services`)")
            continue
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(rows[name]), ensure_ascii=False) + "\n")
        print(f"{name}: {rows[name].share:+.1%}, {rows[name].replies} replies", file=sys.stderr)
    shown = [rows[name] for name in chosen if name in rows]
    if as_json:
        print_json({"model": asked.name, "notes": notes, "rows": [asdict(row) for row in shown]})
    else:
        show(f"Reads that are documented without and with values of {asked.name}", COLUMNS, table(shown))
        for row in shown:
            print(
                f"{row.service}: gained {', '.join(row.gained) or 'nothing'}; lost {', '.join(row.lost) or 'nothing'}"
            )
            for name, why in row.open.items():
                print(f"  {name}: {why[:200]}")
        for note in notes:
            print(note)
    raise typer.Exit(1 if any(row.writes for row in shown) else 0)


if __name__ == "__main__":
    typer.run(main)
