"""How quick finding is and how it grows: synthetic catalogues, each measured in a process of its own.

``python -m benchmarks.retrieval_speed --sizes 47000,190000``. Beside it on the same machine, in the same process:
``rank-bm25`` (where it is installed: ``pip install rank-bm25``) and a scan of all vectors in 32-bit floats by NumPy.
Names and words are drawn by Zipf's law, and a text's vector is the sum of its words', so that texts have neighbours as
real ones do. ``--building`` measures building alone, also of catalogues that are too large for the rest. What the
encoder itself takes is measured in ``--encoder``, with the real one.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.table import Table

from atc.cli.console import guarded, out, print_json
from atc.errors import EnvironmentProblem, UsageError
from atc.retrieval.index import Mode, ToolIndex
from atc.retrieval.minilm import MiniLM
from atc.retrieval.vectors import Floats, normalised
from atc.tools.protocol import Protocol

DIMENSIONS, DIFFERENT, QUERIES, PEER_LIMIT = 384, 9_973, 200, 100_000
"""Of a vector; words that are told apart; queries asked; documents up to which the slow peer is tried."""


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
    sizes: Annotated[str, typer.Option(help="Documents, comma-separated.")] = "4700,47000",
    encoder: Annotated[bool, typer.Option("--encoder", help="Measure the encoder too, over 500 tools.")] = False,
    building: Annotated[
        bool, typer.Option("--building", help="Building alone: processor seconds by stage, and memory.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False,
    child: Annotated[int, typer.Option(hidden=True)] = 0,
) -> None:
    """Measure how quick tools are found, and how that grows with the catalogue."""
    if child:
        sys.stdout.write(json.dumps(_built(child) if building else _measured(child, encoder)))
        return
    try:
        counts = [int(size) for size in sizes.split(",")]
    except ValueError:
        raise UsageError(f"--sizes takes numbers and commas, not {sizes!r}") from None
    options = [*(["--encoder"] if encoder else []), *(["--building"] if building else [])]
    lines = [_in_a_process(count, options) for count in counts]
    if as_json:
        print_json(lines)
        return
    table = Table("", *(f"{count:,}" for count in counts), box=box.SIMPLE_HEAD)
    for name in lines[0]:
        table.add_row(name, *(f"{line[name]:,.2f}" if line.get(name) is not None else "-" for line in lines))
    out.print(table)


def _in_a_process(count: int, options: Sequence[str]) -> dict[str, float | None]:
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "--child", str(count)]
    ran = subprocess.run([*command, *options], capture_output=True, text=True)
    if ran.returncode:
        raise EnvironmentProblem(f"the measurement of {count} documents failed: {ran.stderr.strip()[-300:]}")
    found: dict[str, float | None] = json.loads(ran.stdout)
    return found


def _built(count: int) -> dict[str, float | None]:
    """A catalogue that comes as a stream, built by words and then with vectors too, in one process."""
    figures: dict[str, float | None] = {}
    began = time.process_time()
    for _ in catalogue(count):
        pass
    drawing = time.process_time() - began
    for name, coder in (("words", None), ("both", Drawn())):
        stages: dict[str, float] = {}

        def told(stage: str, done: int, total: int, stages: dict[str, float] = stages) -> None:
            stages.setdefault(stage, time.process_time())

        with tempfile.TemporaryDirectory() as folder:
            began = time.process_time()
            ToolIndex.build(catalogue(count), coder, folder, told)
            ended = time.process_time()
        figures[f"{name}, processor s"] = ended - began - drawing
        starts = [began, *list(stages.values())[1:], ended]
        for stage, start, end in zip(stages, starts, starts[1:], strict=False):
            figures[f"{name}: {stage}"] = end - start - (drawing if stage == "reading" else 0.0)
        figures[f"{name}, MB at most"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def _measured(count: int, encoder: bool) -> dict[str, float | None]:
    tools = list(catalogue(count))
    queries = [tools[n * 7919 % count][1].description.rpartition(" ")[0] for n in range(QUERIES)]
    figures: dict[str, float | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        figures["build, words, s"] = _seconds(lambda: ToolIndex.build(tools, folder=Path(folder) / "words"))
        ToolIndex.build(tools, Drawn(), Path(folder) / "both")
        figures |= _searched(Path(folder) / "words", "lexical", queries)
        both = _searched(Path(folder) / "both", "hybrid", queries)
        figures |= {name: value for name, value in both.items() if "hybrid" in name or "resident" in name}
    figures |= _scanned(count) | (_rank_bm25(tools, queries) if count <= PEER_LIMIT else {"rank-bm25, p95 ms": None})
    if encoder:
        some = [protocol.description for _, protocol in tools[:500]]
        real = MiniLM()
        real.encode(some[:5])
        figures["encoder, texts a second"] = len(some) / _seconds(lambda: real.encode(some))
    return figures


def _searched(folder: Path, mode: Mode, queries: Sequence[str]) -> dict[str, float | None]:
    """Opened and asked in a process that holds nothing else, for its memory."""
    script = (
        "import json, re, sys, time\n"
        "from benchmarks.retrieval_speed import Drawn, timed\n"
        "from atc.retrieval.index import ToolIndex\n"
        "folder, mode, queries = json.load(sys.stdin)\n"
        "began = time.perf_counter()\n"
        "index = ToolIndex.load(folder, Drawn() if mode == 'hybrid' else None)\n"
        "loaded = time.perf_counter() - began\n"
        "p50, p95 = timed(lambda query: index.search(query, 10, mode), queries)\n"
        # the most that this process itself ever had: ru_maxrss would be that of the one that forked it
        "resident = int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) / 1024\n"
        "json.dump([loaded, p50, p95, resident], sys.stdout)\n"
    )
    given = json.dumps([str(folder), mode, list(queries)])
    ran = subprocess.run([sys.executable, "-c", script], input=given, capture_output=True, text=True)
    if ran.returncode:
        raise EnvironmentProblem(f"searching {folder} failed: {ran.stderr.strip()[-300:]}")
    loaded, p50, p95, resident = json.loads(ran.stdout)
    return {
        "load, s": loaded,
        f"{mode}, p50 ms": p50,
        f"{mode}, p95 ms": p95,
        "resident, MB": resident,
    }


def timed(search: Callable[[str], Any], queries: Sequence[str]) -> tuple[float, float]:
    """Milliseconds of a query: the median, and what 95 of 100 stay below; the first ten warm up."""
    for query in queries[:10]:
        search(query)
    taken = sorted(1000 * _seconds(lambda query=query: search(query)) for query in queries)  # type: ignore[misc]
    return taken[len(taken) // 2], taken[int(0.95 * len(taken))]


def _scanned(count: int) -> dict[str, float | None]:
    """The plain way: all vectors in 32-bit floats, one product, the ten best."""
    vectors = normalised(np.random.default_rng(0).standard_normal((count, DIMENSIONS)).astype(np.float32))
    asked = [str(number) for number in range(50)]
    encoder = Drawn()

    def scan(query: str) -> None:
        scores = vectors @ encoder.encode([query])[0]
        np.argpartition(scores, -10)[-10:]

    return {"float32 scan, p95 ms": timed(scan, asked)[1]}


def _rank_bm25(tools: Sequence[tuple[str, Protocol]], queries: Sequence[str]) -> dict[str, float | None]:
    try:
        from rank_bm25 import BM25Okapi
    except ModuleNotFoundError:
        return {"rank-bm25, p95 ms": None}
    index = BM25Okapi([f"{protocol.name} {protocol.description}".split() for _, protocol in tools])
    return {
        "rank-bm25, p95 ms": timed(lambda query: index.get_top_n(query.split(), range(len(tools)), 10), queries[:20])[1]
    }


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    typer.run(main)
