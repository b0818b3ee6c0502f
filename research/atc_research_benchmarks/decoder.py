"""A small decoder that says tools by codes, trained for real: on its own or over search.

``python -m atc_research_benchmarks.decoder --data DIR --gguf FILE --out DIR`` teaches the model of a GGUF file
(SmolLM2-135M) stage 1 of ToolWeaver §3.3 on a pool's queries, then asks it those that were held out, beside the cosine
and the hybrid ranking of the same ones. What was trained is kept: the same command goes on where it stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from atc.catalogue.index.metrics import ndcg
from atc.cli.console import INTERRUPTED, err, guarded
from atc.errors import UsageError
from atc_research.toolweaver.code_beam import perplexity, say
from atc_research.toolweaver.code_decoder import CodeDecoder, Opened, opened, torch
from atc_research.toolweaver.code_tokens import CodeMask, Writer, codes_by_tool, words_of_codes
from atc_research.toolweaver.code_trie import Trie
from atc_research.toolweaver.decoder_training import Options, Progress, train
from atc_research.toolweaver.tokenizer import tokenize
from atc_research_benchmarks.search_data import RESULTS, CodesData, Pool, split
from benchmarks.common import AsJson, median, percentile, print_json, show
from benchmarks.retrieval.data import Query


@dataclass(frozen=True)
class Task:
    """What is learnt, and what is asked.

    Attributes:
        data: where the vectors of queries are.
        texts: of each tool, in the order of the pool's rows, what it is called and does.
        pairs: queries with the id of a tool, in the order of a hash.
        described: descriptions with the id of their tool.
        asked: queries by the name of their set.
    """

    data: CodesData
    pool: Pool
    texts: list[str]
    pairs: list[tuple[str, str]]
    described: list[tuple[str, str]]
    asked: dict[str, list[Query]]


def task_of(data: CodesData, name: str, count: int) -> Task:
    """The task of a pool.

    Args:
        name: of the pool, a source with queries.
        count: held-out queries of a set.

    Raises:
        UsageError: there are no queries to learn from.
        EnvironmentProblem: a file is not there.
    """
    pool = data.pool(name)
    ids = list(pool.snapshot.ids)
    protocols = [pool.index.protocol(id) for id in ids]
    texts = [f"{each.name.replace('_', ' ')}: {each.description}" for each in protocols]
    described = [(each.description, id) for each, id in zip(protocols, ids, strict=True) if each.description.strip()]
    learnt, held = split(data.queries(name))
    pairs = [(query.text, tool) for query in learnt for tool in sorted(query.gold & set(ids))]
    if not pairs:
        raise UsageError(f"--pool {name} has no queries to learn from: take metatool")
    return Task(data, pool, texts, pairs, described, {name: held[:count]})


AT = (1, 3, 5)
"""Places of nDCG."""
TEXT = ("docs/how-it-works.md", "docs/many-tools.md")
"""The plain text of the perplexity, of which so many tokens are read:"""
TEXT_TOKENS = 5_000
SPEED_TOOLS, SPEED_SIZE, SPEED_ASKED = 32_000, 1_024, 40
"""Tools, codes of a level and queries of the latency; one level has as many codes as there are tools."""
_WIDTH, _LAST = 10, 50  # beams; steps whose mean loss is told
_ROOT = Path(__file__).parents[2]


class Run:
    """One decoder: a model, a pool, a start of the new tokens.

    Args:
        model: a GGUF file, or a folder of transformers.
        folder: of its checkpoint.
        start: ``random`` or ``words``.
        rank: of the low-rank changes.
    """

    def __init__(self, model: Path, task: Task, folder: Path, start: str, rank: int, seed: int) -> None:
        torch.set_num_threads(1)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._model, self._task, self._start, self._rank, self._seed = model, task, start, rank, seed
        self._codes = tokenize(task.pool.vectors, None, seed=seed)
        self._size = max(len(book) for book in self._codes.books)
        self._by_tool = codes_by_tool(task.pool.snapshot.ids, self._codes.values)

    def facts(self) -> dict[str, int]:
        """The codes."""
        levels = self._codes.levels
        return {"tools": len(self._by_tool), "levels": levels, "size": self._size, "new_tokens": levels * self._size}

    # -- what is measured before anything is trained -----------------------------------------------------------------

    def text_before(self) -> dict[str, float]:
        """The perplexity of the model as it was given, and with new tokens that nothing has trained."""
        model, text = self._opened.model, self._text
        return {
            "as given": perplexity(lambda ids: model(input_ids=ids).logits[0], text),
            "new tokens": self._perplexity(CodeDecoder(model, self._writer.tokens, 0, self._seed)),
        }

    def speed(self) -> list[dict[str, Any]]:
        """Latency and memory of the constrained beam for one to four levels, with random codes and tokens."""
        queries = [query.text for some in self._task.asked.values() for query in some][:SPEED_ASKED]
        return [_speed(self._opened, levels, queries, self._seed) for levels in (1, 2, 3, 4)]

    # -- stage 1 -----------------------------------------------------------------------------------------------------

    def train(self, count: int, epochs: int, rate: float, minutes: float) -> dict[str, Any]:
        """Train, or take what was trained.

        Args:
            count: pairs; 0: all. The tools' descriptions come on top.
            minutes: that it may take.
        """
        pairs = [*(self._task.pairs[:count] if count else self._task.pairs), *self._task.described]
        examples = [self._writer.pair(text, self._by_tool[tool]) for text, tool in pairs]
        options = Options(rank=self._rank, rate=rate, epochs=epochs, seed=self._seed)
        decoder, until = self._decoder, time.monotonic() + 60 * minutes
        progress = train(decoder, examples, options, self.folder, until=until, report=_report)
        losses = progress.losses
        return {
            "examples": len(examples),
            "epochs": epochs,
            "seen": min(progress.step * options.batch, len(examples) * epochs),
            "steps": progress.step,
            "of": progress.steps,
            "minutes": progress.seconds / 60,
            "first loss": float(np.mean(losses[:_LAST])) if losses else 0.0,
            "last loss": float(np.mean(losses[-_LAST:])) if losses else 0.0,
        }

    def ask(self) -> dict[str, Any]:
        """nDCG of the held-out queries: the decoder's beam, the cosine, and the hybrid ranking."""
        found = {}
        for name, queries in self._task.asked.items():
            if queries:
                ways = {"decoder": self._said(queries), "cosine": self._near(queries), "hybrid": self._hybrid(queries)}
                rows = {way: _figures(queries, ranked) for way, ranked in ways.items()}
                found[name] = {"queries": len(queries), "ways": rows}
        return found

    def text_after(self) -> dict[str, float]:
        """The perplexity with what was trained, and without the chances that new tokens are given."""
        decoder, first = self._decoder, self._writer.tokens.first
        own = perplexity(lambda ids: decoder.logits(decoder.hidden(ids)[0])[:, :first], self._text)
        return {"trained": self._perplexity(decoder), "trained, own words alone": own}

    def _said(self, queries: Sequence[Query]) -> list[list[str]]:
        tools = {codes: tool for tool, codes in self._by_tool.items()}
        mask = CodeMask(self._writer.tokens, Trie(self._codes.values))
        said = [say(self._decoder, mask, self._writer.prompt(query.text), _WIDTH) for query in queries]
        return [[tools[each.codes] for each in some] for some in said]

    def _near(self, queries: Sequence[Query]) -> list[list[str]]:
        vectors, ids = self._task.pool.vectors, self._task.pool.snapshot.ids
        asked = self._task.data.encoder.encode([query.text for query in queries])
        return [[ids[row] for row in np.argsort(-(vectors @ one), kind="stable")[: max(AT)]] for one in asked]

    def _hybrid(self, queries: Sequence[Query]) -> list[list[str]]:
        hits = self._task.pool.index.search_many([query.text for query in queries], max(AT))
        return [[hit.id for hit in some] for some in hits]

    # -- the model ---------------------------------------------------------------------------------------------------

    @cached_property
    def _opened(self) -> Opened:
        return opened(self._model, short=True)

    @cached_property
    def _writer(self) -> Writer:
        return self._opened.writer(self._codes.levels, self._size)

    @cached_property
    def _decoder(self) -> CodeDecoder:
        decoder = CodeDecoder(self._opened.model, self._writer.tokens, self._rank, self._seed)
        decoder.eval()
        if self._start == "words":
            decoder.start_from(
                words_of_codes(self._opened.read, self._writer.tokens, self._task.texts, self._codes.values)
            )
        return decoder

    @cached_property
    def _text(self) -> list[int]:
        return self._opened.read("\n".join((_ROOT / name).read_text("utf-8") for name in TEXT))[:TEXT_TOKENS]

    def _perplexity(self, decoder: CodeDecoder) -> float:
        return perplexity(lambda ids: decoder.logits(decoder.hidden(ids)[0]), self._text)


def _speed(model: Opened, levels: int, queries: Sequence[str], seed: int) -> dict[str, Any]:
    size = SPEED_TOOLS if levels == 1 else SPEED_SIZE
    writer = model.writer(levels, size)
    decoder = CodeDecoder(model.model, writer.tokens, 0, seed).eval()
    mask = CodeMask(writer.tokens, Trie(_random(levels, size, seed)))
    sizes: list[int] = []
    say(decoder, mask, writer.prompt(queries[0]), _WIDTH, lambda cache: sizes.append(_bytes(cache)))
    _forget_peak()
    before = _memory("VmRSS")
    took = [_seconds(lambda text: say(decoder, mask, writer.prompt(text), _WIDTH), text) for text in queries]
    wall, processor = ([each[which] for each in took] for which in (0, 1))
    return {
        "levels": levels,
        "new tokens": len(writer.tokens),
        "median ms": round(1_000 * median(wall)),
        "p95 ms": round(1_000 * percentile(wall, 95)),
        "processor ms": round(1_000 * median(processor)),
        "vectors of new tokens MB": round(decoder.rows.nbytes / 1e6, 2),
        "kept keys and values MB": round(sizes[0] / 1e6, 2),
        "peak above rest MB": round(_memory("VmHWM") - before, 1),
    }


def _figures(queries: Sequence[Query], ranked: Sequence[Sequence[str]]) -> dict[str, float]:
    pairs = list(zip(queries, ranked, strict=True))
    return {f"ndcg@{k}": float(np.mean([ndcg(some, query.gold, k) for query, some in pairs])) for k in AT}


def _report(progress: Progress) -> None:
    if progress.step % 10 == 0 or progress.done:
        loss, minutes = float(np.mean(progress.losses[-_LAST:])), progress.seconds / 60
        err.print(f"step {progress.step} of {progress.steps}: loss {loss:.3f}, {minutes:.1f} minutes", markup=False)


def _random(levels: int, size: int, seed: int) -> np.ndarray:
    if levels == 1:
        return np.arange(size, dtype=np.int16)[:, None]
    drawn = np.random.default_rng(seed).integers(0, size, (2 * SPEED_TOOLS, levels)).astype(np.int16)
    return np.unique(drawn, axis=0)[::2][:SPEED_TOOLS]


def _seconds(work: Callable[[str], object], text: str) -> tuple[float, float]:
    """By the clock and by the processor, which a busy machine does not change: there is one thread."""
    begun, used = time.monotonic(), time.process_time()
    work(text)
    return time.monotonic() - begun, time.process_time() - used


def _bytes(cache: Any) -> int:
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)


def _memory(name: str) -> float:
    """What the kernel counts of this process, in MB."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1_000


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", "ascii")


PARTS = ("text", "speed", "train", "ask")
STARTS = ("random", "words")


@guarded
def main(
    gguf: Annotated[Path, typer.Option(help="The model: a GGUF file, or a folder of transformers.")],
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/.")] = None,
    out: Annotated[Path, typer.Option(help="Where checkpoints and figures are kept.")] = RESULTS / "decoder",
    kept: Annotated[Path | None, typer.Option("--vectors", help="Where vectors of texts are kept.")] = None,
    pool: Annotated[str, typer.Option(help="A source with queries.")] = "metatool",
    start: Annotated[str, typer.Option(help="New tokens begin at: random, or words of their tools.")] = "random",
    examples: Annotated[int, typer.Option(min=0, help="Pairs that are learnt from; 0: all.")] = 0,
    epochs: Annotated[int, typer.Option(min=1, help="Times that each is seen.")] = 1,
    rank: Annotated[int, typer.Option(min=0, help="Of the low-rank changes; 0: all weights are trained.")] = 16,
    rate: Annotated[float, typer.Option(help="The highest learning rate.")] = 1e-3,
    minutes: Annotated[float, typer.Option(min=0.0, help="Train so long at most; the next call goes on.")] = 600.0,
    asked: Annotated[int, typer.Option(min=1, help="Held-out queries of a set, drawn by a hash.")] = 200,
    only: Annotated[list[str] | None, typer.Option(help=f"Parts: {', '.join(PARTS)}; all when not given.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of all random choices.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train a small decoder to say tools by codes, and ask it."""
    if unknown := set(only or PARTS) - set(PARTS):
        raise UsageError(f"--only: {', '.join(sorted(unknown))}: take {', '.join(PARTS)}")
    if start not in STARTS:
        raise UsageError(f"--start {start}: take random or words")
    wanted = only or PARTS
    task = task_of(CodesData(data, kept), pool, asked)
    run = Run(gguf, task, out / f"{pool}-{start}", start, rank, seed)
    found: dict[str, Any] = {"pool": pool, "start": start, "rank": rank, "codes": run.facts()}
    try:
        if "text" in wanted:
            found["perplexity"] = run.text_before()
        if "speed" in wanted:
            found["speed"] = run.speed()
        if {"train", "ask", "text"} & set(wanted):
            found["training"] = run.train(examples, epochs, rate, minutes if "train" in wanted else 0.0)
    except KeyboardInterrupt:
        err.print(f"interrupted; the same command goes on from {out}, a minute before", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    if "text" in wanted:
        found["perplexity"] |= run.text_after()
    if "ask" in wanted:
        found["ranking"] = run.ask()
    (run.folder / "figures.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    if as_json:
        print_json(found)
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    codes = found["codes"]
    print(f"{found['pool']}: {codes['tools']} tools, {codes['levels']} levels × {codes['size']} codes")
    print(f"new tokens: {codes['new_tokens']}, one a tool: {codes['tools']}; they start from: {found['start']}")
    if training := found.get("training"):
        show("Stage 1", list(training), [[f"{v:.3f}" if isinstance(v, float) else v for v in training.values()]])
    for name, rows in found.get("ranking", {}).items():
        table = [[way, *(f"{100 * row[f'ndcg@{k}']:.1f}" for k in (1, 3, 5))] for way, row in rows["ways"].items()]
        show(f"{name}: {rows['queries']} held-out queries", ["ranking", *(f"nDCG@{k}" for k in (1, 3, 5))], table)
    if text := found.get("perplexity"):
        show("Perplexity of a plain text", list(text), [[f"{value:.2f}" for value in text.values()]])
    if speed := found.get("speed"):
        show("The constrained beam, by levels", list(speed[0]), [list(row.values()) for row in speed])


if __name__ == "__main__":
    typer.run(main)
