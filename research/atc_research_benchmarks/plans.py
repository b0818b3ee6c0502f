"""Plans that are written in one place and searched with in another: ``python -m atc_research_benchmarks.plans``.

``say`` keeps what a planner says to held-out queries: on a GPU by torch, or by any model as ``atc run --model`` takes
it, so also the file that was made of it (``embedded:FILE``). It needs no index. ``rank`` searches with such plans,
needs no torch, and compares them with the task's own words. Both go on where they stopped.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from atc.catalogue.index.minilm import MiniLM
from atc.cli.console import INTERRUPTED, err, guarded
from atc.errors import EnvironmentProblem, UsageError
from atc.models.messages import Ask, Message, Reply
from atc.models.resolve import resolve_model
from atc.settings import Settings
from atc_research_benchmarks.planner import SHORT, held_out_queries, ranked_by, show_parts, table
from benchmarks.common import RESULTS, AsJson, print_json
from benchmarks.retrieval.data import Catalogues, Query
from benchmarks.retrieval.methods import Bench

if TYPE_CHECKING:
    from atc_research.toolqp.planner import Policy

PLAN_ALONE = replace(SHORT, eager=True)
"""The turns of a search whose sub-goals are its queries."""


@guarded
def say(
    file: Annotated[
        Path, typer.Option("--out", "-o", help="Where plans are kept as JSON lines; outside the repository.")
    ],
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/.")] = None,
    gguf: Annotated[Path | None, typer.Option(help="The base: a GGUF file, or a folder of transformers.")] = None,
    trained: Annotated[Path | None, typer.Option(help="Folder of its checkpoint; without it the base speaks.")] = None,
    rank: Annotated[int, typer.Option(min=0, help="Of the low-rank changes; 0: all weights were trained.")] = 16,
    device: Annotated[str, typer.Option(help="Device of torch.")] = "cpu",
    model: Annotated[str, typer.Option(help="In place of --gguf: a model as `atc run --model` takes it.")] = "",
    asked: Annotated[int, typer.Option(min=1, help="Held-out queries of each source.")] = 7,
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="Queries that torch answers together.")] = 16,
) -> None:
    """Keep what a planner says to held-out queries."""
    if data is None:
        raise EnvironmentProblem("held-out queries are the benchmark's: give --data DIR or ATC_DATA")
    if (gguf is None) is (not model):
        raise UsageError("give the planner: --gguf FILE with --trained DIR, or --model")
    there = plans(file)
    wanted = [query for query in held_out_queries(Catalogues(data), asked) if query.id not in there]
    try:
        with file.open("a", encoding="utf-8") as out:
            if gguf is not None:
                _say_all(_policy(gguf, trained, rank, device, at_once), wanted, out, at_once)
            else:
                asyncio.run(_say_by_model(model, wanted, out))
    except KeyboardInterrupt:
        err.print(f"interrupted; what was said is in {file}: the same command goes on from there", markup=False)
        raise typer.Exit(INTERRUPTED) from None


def _policy(gguf: Path, trained: Path | None, rank: int, device: str, at_once: int) -> Policy:
    from atc_research.toolqp.planner import Planner, Policy
    from atc_research.toolweaver.code_decoder import opened
    from atc_research.toolweaver.decoder_training import load

    planner = Planner(opened(gguf, "float32", device), rank, longest=4_096)
    if trained is not None:
        load(planner, trained)
    return Policy(planner, at_once=at_once)


def _say_all(policy: Ask, wanted: Sequence[Query], out: IO[str], at_once: int) -> None:
    async def batch(some: Sequence[Query]) -> list[Reply]:
        return await asyncio.gather(*(_plan(policy, query) for query in some))

    wanted = sorted(wanted, key=lambda query: len(query.text))  # like lengths together: little is padded
    for at in range(0, len(wanted), at_once):
        some = wanted[at : at + at_once]
        for query, reply in zip(some, asyncio.run(batch(some)), strict=True):
            _keep(out, query, reply)
        err.print(f"{min(at + at_once, len(wanted))} of {len(wanted)} plans", markup=False)


async def _say_by_model(spec: str, wanted: Sequence[Query], out: IO[str]) -> None:
    model = resolve_model(Settings.load(), spec)

    async def ask(messages: Sequence[Message], max_tokens: int) -> Reply:
        return await model.complete(messages, max_tokens=max_tokens, temperature=0.0, seed=0)

    try:
        for number, query in enumerate(wanted, 1):
            _keep(out, query, await _plan(ask, query))
            if number % 10 == 0:
                err.print(f"{number} of {len(wanted)} plans", markup=False)
    finally:
        await model.aclose()


async def _plan(ask: Ask, query: Query) -> Reply:
    return await ask(PLAN_ALONE.opening(query.text), PLAN_ALONE.plan_tokens)


def _keep(out: IO[str], query: Query, reply: Reply) -> None:
    out.write(json.dumps({"id": query.id, "plan": reply.text}) + "\n")
    out.flush()


def plans(file: Path) -> dict[str, str]:
    """The plans of a file, by the id of the query; a line that was cut short is left out."""
    found = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            held = json.loads(line)
            found[str(held["id"])] = str(held["plan"])
        except (ValueError, KeyError, TypeError):
            continue
    return found


def recorded(said: Mapping[str, str], wanted: Sequence[Query]) -> Ask:
    """A planner that says what was kept."""
    by_task = {PLAN_ALONE.task(query.text): said[query.id] for query in wanted}

    async def ask(messages: Sequence[Message], max_tokens: int) -> Reply:
        return Reply(by_task[messages[-1].content], "stop", 0, 0, 0.0)

    return ask


@guarded
def rank(
    before: Annotated[Path, typer.Argument(help="What `say` kept of the base.")],
    after: Annotated[list[Path], typer.Argument(help="What it kept of trained planners.")],
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/.")] = None,
    asked: Annotated[int, typer.Option(min=1, help="Held-out queries of each source.")] = 7,
    as_json: AsJson = False,
) -> None:
    """Search with plans that were kept, and compare them."""
    if data is None:
        raise EnvironmentProblem("the tools are the benchmark's: give --data DIR or ATC_DATA")
    catalogues = Catalogues(data)
    kept = {file.stem: plans(file) for file in (before, *after)}
    whole = held_out_queries(catalogues, asked)
    wanted = [query for query in whole if all(query.id in said for said in kept.values())]
    if not wanted:
        raise UsageError("the files have no query in common: let `say` write them with the same --asked")
    if len(wanted) < len(whole):
        err.print(f"{len(whole) - len(wanted)} of {len(whole)} queries are not in every file, and are left out")
    bench = Bench(catalogues, RESULTS / "retrieval", None, MiniLM())
    rows = {name: _ranked(bench, said, wanted) for name, said in kept.items()}
    found = {
        name: {
            part: table(wanted, rows[before.stem], rows[name], seen)
            for part, seen in (("seen", True), ("unseen", False), ("all", None))
        }
        for name in rows
        if name != before.stem
    }
    if as_json:
        print_json(found)
        return
    for name, parts in found.items():
        print(f"{name}:")
        show_parts(parts)


def _ranked(bench: Bench, said: Mapping[str, str], wanted: Sequence[Query]) -> list[dict[str, Any]]:
    """One pool's index at a time is held."""
    by_pool: dict[str, list[Query]] = {}
    for query in wanted:
        by_pool.setdefault(query.pool, []).append(query)
    return [
        row
        for some in by_pool.values()
        for row in asyncio.run(ranked_by(bench, recorded(said, wanted), some, queries=0))
    ]


app = typer.Typer(help=__doc__, no_args_is_help=True)
app.command(short_help="Keep what a planner says to held-out queries.")(say)
app.command(short_help="Search with plans that were kept.")(rank)

if __name__ == "__main__":
    app()
