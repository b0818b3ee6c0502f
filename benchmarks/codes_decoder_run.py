"""The parts of :mod:`benchmarks.codes_decoder` that need torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from atc.cli.console import err
from atc.retrieval.metrics import ndcg
from atc_research.toolweaver.code_beam import perplexity, say
from atc_research.toolweaver.code_decoder import CodeDecoder, Opened, opened, torch
from atc_research.toolweaver.code_tokens import CodeMask, Writer, codes_by_tool, words_of_codes
from atc_research.toolweaver.code_trie import Trie
from atc_research.toolweaver.decoder_training import Options, Progress, train
from atc_research.toolweaver.tokenizer import tokenize
from benchmarks.codes_decoder_data import Task
from benchmarks.common import median, percentile
from benchmarks.retrieval_data import Query

AT = (1, 3, 5)
"""Places of nDCG."""
TEXT = ("docs/how-it-works.md", "docs/retrieval.md")
"""The plain text of the perplexity, of which so many tokens are read:"""
TEXT_TOKENS = 5_000
SPEED_TOOLS, SPEED_SIZE, SPEED_ASKED = 32_000, 1_024, 40
"""Tools, codes of a level and queries of the latency; one level has as many codes as there are tools."""
_WIDTH, _LAST = 10, 50  # beams; steps whose mean loss is told
_ROOT = Path(__file__).parents[1]


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
            "dropped": self._task.dropped,
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
    """Codes of :data:`SPEED_TOOLS` tools, drawn; no two the same."""
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
