"""How quick a sketch is: of few tools, which are all offered, and of very many, by words and meaning and the graph.

``python -m benchmarks.retrieval.sketch_speed [--sizes 5,20,47000] [--data DIR] [--json]``

Up to 34 tools are ``atlas``; more are the ToolBench catalogue of ``--data``, or synthetic ones. Vectors are drawn
(:class:`Drawn`), so that all but the encoder is measured. Each size has a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from atc.atlas import atlas_toolset
from atc.catalogue.catalogue import Catalogue, store_in
from atc.catalogue.graph.lessons import Lessons
from atc.catalogue.graph.store import GraphStore
from atc.catalogue.index.retriever import IndexRetriever
from atc.catalogue.index.vectors import Floats, normalised
from atc.cli.console import guarded, print_json
from atc.errors import EnvironmentProblem, UsageError
from atc.schemas.names import UniqueNames
from atc.schemas.protocol import Protocol, Source
from atc.settings import Settings
from atc.tools.tool import Tool, Toolset
from benchmarks.common import AsJson, numbers, show
from benchmarks.retrieval.data import Catalogues

LIMIT, QUERIES, LEARNT = 20, 200, 21
DIMENSIONS, DIFFERENT = 384, 9_973
"""Numbers of a vector; words that are told apart."""


class Drawn:
    """A vector drawn for each word, and for a text their sum: not a model, only as many numbers as one gives."""

    name, digest, dimensions = "drawn", "0" * 64, DIMENSIONS

    def __init__(self) -> None:
        self._words = np.random.default_rng(0).standard_normal((DIFFERENT, DIMENSIONS), np.float32)

    def check(self) -> None:
        pass

    def encode(self, texts: Sequence[str]) -> Floats:
        return normalised(np.array([self._words[_drawn(text)].sum(axis=0) for text in texts]))


def _drawn(text: str) -> list[int]:
    return [zlib.crc32(word.encode()) % DIFFERENT for word in text.split()]


def catalogue(count: int) -> Iterator[tuple[str, Protocol]]:
    """So many tools of some 25 words each, always the same."""
    draw = random.Random(0)
    vocabulary = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in _SYLLABLES]
    weights = list(accumulate(1 / (place + 10) for place in range(len(vocabulary))))
    for number in range(count):
        words = draw.choices(vocabulary, cum_weights=weights, k=25)
        properties = {word: {"type": "string", "description": " ".join(words[8:11])} for word in words[3:6]}
        yield (
            f"synthetic/{words[0]}/{number}",
            Protocol(
                name="_".join(words[1:3]) + f"_{number}",
                description=" ".join(words[6:]),
                parameters={"type": "object", "properties": properties},
            ),
        )


_SYLLABLES = [f"{a}{b}{c}" for a in "bdglmnrt" for b in "aeiou" for c in ("", "n", "r", "l")]


@guarded
def main(
    sizes: Annotated[str, typer.Option(help="Numbers of tools, comma-separated.")] = "5,20,47000",
    data: Annotated[Path | None, typer.Option(help="Directory with `retrieval`: real tools.")] = None,
    as_json: AsJson = False,
    child: Annotated[int, typer.Option(hidden=True)] = 0,
) -> None:
    """Measure how quick tools are chosen, beyond the encoder."""
    if child:
        sys.stdout.write(json.dumps(measured(child, data)))
        return
    counts = numbers(sizes, "sizes")
    lines = [_in_a_process(count, data) for count in counts]
    if as_json:
        print_json(lines)
        return
    rows = [(name, *(f"{line[name]:,.2f}" for line in lines)) for name in lines[0]]
    show("Sketches", ("", *(f"{count:,}" for count in counts)), rows)


def _in_a_process(count: int, data: Path | None) -> dict[str, float]:
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "--child", str(count)]
    ran = subprocess.run([*command, *(["--data", str(data)] if data else [])], capture_output=True, text=True)
    if ran.returncode:
        raise EnvironmentProblem(f"the measurement of {count} tools failed: {ran.stderr.strip()[-300:]}")
    found: dict[str, float] = json.loads(ran.stdout)
    return found


def tools_of(count: int, data: Path | None) -> Toolset:
    """So many tools, always the same."""
    atlas = atlas_toolset()
    if count <= len(atlas):
        return atlas.only(*list(atlas)[:count])
    pool = Catalogues(data).pool("toolbench") if data else catalogue(count)
    names = UniqueNames(())
    made = []
    for _, (id, protocol) in zip(range(count), pool, strict=False):
        source = Source(kind="openapi", location=id.rpartition("/")[0], operation=protocol.name)
        made.append(Tool(protocol.model_copy(update={"name": names.take(protocol.name), "source": source})))
    return Toolset(made)


def measured(count: int, data: Path | None) -> dict[str, float]:
    """Milliseconds and megabytes; of the sketches after the first the median, and what 95 of 100 stay below."""
    tools = tools_of(count, data)
    every = max(1, len(tools) // QUERIES)
    queries = [tool.protocol.description[:200] or name for name, tool in list(tools.items())[::every]][:QUERIES]
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.load(catalogue=folder)

        def opened() -> Catalogue:
            retriever = IndexRetriever(way="auto", folder=Path(folder) / "indexes", encoder=Drawn())
            made = Catalogue(tools, settings=settings)
            made._retriever = retriever  # the catalogue's own, with vectors that need no encoder
            return made

        _, first = _timed(opened(), queries[0])
        catalogue = opened()
        _, again = _timed(catalogue, queries[0])
        taken = sorted(_timed(catalogue, query)[1] for query in queries)
        taught = sorted(_after_a_run(catalogue, store_in(Path(folder)), number) for number in range(LEARNT))
    return {
        "first ever, ms": first,
        "first of a process, ms": again,
        "later, p50 ms": taken[len(taken) // 2],
        "later, p95 ms": taken[int(0.95 * len(taken))],
        "after a learnt run, p50 ms": taught[len(taught) // 2],
        "resident, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _after_a_run(catalogue: Catalogue, store: GraphStore, number: int) -> float:
    """Milliseconds of a sketch right after another process learnt a run of two tools."""
    names = list(catalogue.tools)
    one, other = names[number % len(names)], names[(number + 1) % len(names)]
    known = {name: catalogue.tools[name].protocol for name in (one, other)}
    store.add(Lessons(str(number), True, {one: 1, other: 1}, follows={(one, other): 1}), known)
    return _timed(catalogue, "weather")[1]


def _timed(catalogue: Catalogue, query: str) -> tuple[Any, float]:
    async def sketched() -> tuple[Any, float]:
        began = time.perf_counter()
        made = await catalogue.sketch(query, LIMIT, _nobody)
        return made, 1000 * (time.perf_counter() - began)

    return asyncio.run(sketched())


async def _nobody(*_: Any) -> Any:
    raise UsageError("no model is asked")


if __name__ == "__main__":
    typer.run(main)
