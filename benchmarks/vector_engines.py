"""The engines that keep an index's vectors, beside each other: what building takes, what a query takes, what it finds.

``python -m benchmarks.vector_engines --sizes 47000,200000 --out FILE``. Each engine and size is built in a process of
its own, and asked in another one that holds nothing else. What FILE has already is not measured again, so a long
campaign is done in parts (``--engines``, ``--sizes``). The vectors are drawn: a text's is the sum of its words', which
are drawn by Zipf's law; a query is a tool's with half of its words exchanged. They have as many neighbours as one
likes, but no meaning: recall is the engine's, not the index's. 384 components, ten results, of 200 that are proposed.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from atc.cli.console import guarded, out, print_json
from atc.errors import EnvironmentProblem, UsageError
from atc.retrieval.encoder import Floats, normalised
from atc.retrieval.engines.base import Facts, tools_digest
from atc.retrieval.engines.edge import EdgeEngine
from atc.retrieval.nearest import EXACT, PROPOSED, Nearest
from atc.retrieval.vectors import Vectors

DIMENSIONS, WORDS, LONG, BLOCK = 384, 9_973, 18, 10_000
QUERIES, BEST = 200, 10
ENGINES = ("own", "qdrant-edge")
_DRAWN = np.random.default_rng(0).standard_normal((WORDS, DIMENSIONS), np.float32)
_SHARE = 1 / (np.arange(WORDS) + 10)
_DRAWING: list[tuple[float, float]] = []
"""Seconds, and those of a processor, that making vectors took: no engine's."""


def texts(block: int) -> NDArray[np.int64]:
    """The words of a block of tools, of shape ``(BLOCK, LONG)``, always the same."""
    return np.random.default_rng([1, block]).choice(WORDS, size=(BLOCK, LONG), p=_SHARE / _SHARE.sum())


def vectors_of(words: NDArray[np.int64]) -> Floats:
    """A vector of length one for each text."""
    parts = [_DRAWN[words[at : at + 500]].sum(axis=1) for at in range(0, len(words), 500)]
    return normalised(np.concatenate(parts))


def blocks(count: int) -> Iterator[tuple[int, Floats]]:
    """The vectors of so many tools, and where each block begins."""
    for at in range(0, count, BLOCK):
        began, busy = time.perf_counter(), _processor_s()
        made = vectors_of(texts(at // BLOCK))[: count - at]
        _DRAWING.append((time.perf_counter() - began, _processor_s() - busy))
        yield at, made


def queries(count: int) -> Floats:
    """Of tools that are spread over all, with half of their words exchanged."""
    random = np.random.default_rng(2)
    asked = []
    for place in range(QUERIES):
        row = place * count // QUERIES
        words = texts(row // BLOCK)[row % BLOCK].copy()
        words[: LONG // 2] = random.choice(WORDS, size=LONG // 2, p=_SHARE / _SHARE.sum())
        asked.append(words)
    return vectors_of(np.array(asked))


@guarded
def main(
    sizes: Annotated[str, typer.Option(help="Tools, comma-separated.")] = "47000",
    engines: Annotated[str, typer.Option(help=f"Of {', '.join(ENGINES)}.")] = ",".join(ENGINES),
    file: Annotated[Path, typer.Option("--out", help="Where figures are kept, a line a measurement.")] = Path(
        "vector-engines.jsonl"
    ),
    folder: Annotated[Path, typer.Option(help="Where collections are made; each is deleted.")] = Path("/tmp/engines"),
    as_json: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False,
    child: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Measure engines of vectors."""
    if child:
        step, name, size = child.split(":")
        sys.stdout.write(json.dumps(_STEPS[step](name, int(size), folder)))
        return
    try:
        counts = [int(size) for size in sizes.split(",") if size]
    except ValueError:
        raise UsageError(f"--sizes takes numbers and commas, not {sizes!r}") from None
    if unknown := set(engines.split(",")) - set(ENGINES):
        raise UsageError(f"there is no engine {sorted(unknown)[0]!r}: there are {', '.join(ENGINES)}")
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    for count in counts:
        for engine in engines.split(","):
            if any((line["tools"], line["engine"]) == (count, engine) for line in lines):
                continue
            lines.append({"tools": count, "engine": engine} | _measured(engine, count, folder))
            with file.open("a") as written:
                written.write(json.dumps(lines[-1]) + "\n")
    if as_json:
        print_json(lines)
        return
    columns = list(dict.fromkeys(name for line in lines for name in line))
    table = Table(*columns, box=box.SIMPLE_HEAD)
    for line in sorted(lines, key=lambda line: (line["tools"], line["engine"])):
        shown = (line.get(name) for name in columns)
        table.add_row(*(f"{value:,.4g}" if isinstance(value, float) else str(value) for value in shown))
    out.print(table)


def _measured(engine: str, count: int, folder: Path) -> dict[str, Any]:
    place = folder / f"{engine}-{count}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        found = _in_a_process(f"build:{engine}:{count}", place)
        found["disk MB"] = sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) / 1e6
        return found | _in_a_process(f"ask:{engine}:{count}", place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _in_a_process(step: str, place: Path) -> dict[str, Any]:
    module = __spec__.name if __spec__ else __name__
    command = [sys.executable, "-m", module, "--child", step, "--folder", str(place)]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise EnvironmentProblem(f"{step} failed: {ran.stderr.strip()[-300:]}")
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def _build(engine: str, count: int, place: Path) -> dict[str, Any]:
    began, busy = time.perf_counter(), _processor_s()
    (_own_built if engine == "own" else _edge_built)(count, place)
    drawing = np.array(_DRAWING).sum(axis=0)
    used = (resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "build s": time.perf_counter() - began - drawing[0],
        "processor s": _processor_s() - busy - drawing[1],
        "peak MB": max(used),
    }


def _own_built(count: int, place: Path) -> None:
    values, scales = np.empty((count, DIMENSIONS), np.int8), np.empty(count, np.float32)
    for at, some in blocks(count):
        made = Vectors.of(some)
        values[at : at + len(some)], scales[at : at + len(some)] = made.values, made.scales
    np.save(place / "values.npy", values)
    np.save(place / "scales.npy", scales)
    if count > EXACT:
        Nearest.write(Vectors(values, scales), place / "graph")


def _edge_built(count: int, place: Path) -> None:
    engine = EdgeEngine(place)
    keys = np.arange(1, count + 1, dtype=np.uint64)
    digests = np.zeros((count, 16), np.uint8)
    facts = Facts("0" * 64, DIMENSIONS, tools_digest(keys, digests))
    engine.begin(Facts(facts.encoder, DIMENSIONS, "", facts.tools))
    for at, some in blocks(count):
        for part in range(0, len(some), 256):
            rows = slice(at + part, at + part + len(some[part : part + 256]))
            engine.put(keys[rows], digests[rows], some[part : part + 256])
    engine.finish(facts, lambda: None)


def _ask(engine: str, count: int, place: Path) -> dict[str, Any]:
    asked = queries(count)
    nearest = _own_asked(count, place) if engine == "own" else _edge_asked(place)
    began = time.perf_counter()
    nearest(asked[0])
    first = 1000 * (time.perf_counter() - began)
    for query in asked[:20]:
        nearest(query)
    taken, found = [], []
    for query in asked:
        began = time.perf_counter()
        found.append(nearest(query)[:BEST])
        taken.append(1000 * (time.perf_counter() - began))
    status = Path("/proc/self/status").read_text()
    resident = re.search(r"VmRSS:\s+(\d+)", status)
    return {
        "first ms": first,
        "p50 ms": float(np.quantile(taken, 0.5)),
        "p95 ms": float(np.quantile(taken, 0.95)),
        "resident MB": int(resident[1]) / 1024 if resident else None,
        "recall@10": _recall(asked, found, count),
    }


def _own_asked(count: int, place: Path) -> Callable[[Floats], NDArray[np.int64]]:
    vectors = Vectors(np.load(place / "values.npy", mmap_mode="r"), np.load(place / "scales.npy"))
    graph = Nearest.open(place / "graph") if count > EXACT else None

    def asked(query: Floats) -> NDArray[np.int64]:
        if graph is None:
            scores = vectors.scores(query)
            rows = np.argpartition(scores, -PROPOSED)[-PROPOSED:]
            return rows[np.argsort(-scores[rows])]
        rows = graph.rows(query, PROPOSED)
        return rows[np.argsort(-vectors.take(rows).scores(query))]

    return asked


def _edge_asked(place: Path) -> Callable[[Floats], NDArray[np.int64]]:
    engine = EdgeEngine(place)
    return lambda query: engine.nearest(query, PROPOSED)[0].astype(np.int64) - 1


def _recall(asked: Floats, found: list[NDArray[np.int64]], count: int) -> float:
    """The share of the ten nearest by 32-bit floats, all of them compared, that were found."""
    best = np.full((len(asked), BEST), -2.0, np.float32)
    rows = np.zeros((len(asked), BEST), np.int64)
    for at, some in blocks(count):
        scores = np.concatenate([best, asked @ some.T], axis=1)
        places = np.concatenate([rows, np.broadcast_to(np.arange(at, at + len(some)), (len(asked), len(some)))], axis=1)
        order = np.argpartition(scores, -BEST, axis=1)[:, -BEST:]
        best, rows = np.take_along_axis(scores, order, 1), np.take_along_axis(places, order, 1)
    return float(
        np.mean([len(set(got.tolist()) & set(true.tolist())) / BEST for got, true in zip(found, rows, strict=True)])
    )


def _processor_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


_STEPS: dict[str, Callable[[str, int, Path], dict[str, Any]]] = {"build": _build, "ask": _ask}


if __name__ == "__main__":
    typer.run(main)
