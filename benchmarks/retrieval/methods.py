"""The ways to rank a catalogue for a query that :mod:`benchmarks.retrieval.ranking` compares."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import bm25s
import numpy as np

from atc.catalogue.index.index import Hit, Mode, ToolIndex
from atc.catalogue.index.index_store import FILE
from atc.catalogue.index.sieve import sieved
from atc.catalogue.index.vectors import Encoder
from atc.cli.console import err
from atc.models.base import Message, Model, Reply, WrappedModel
from atc.models.resolve import open_model
from benchmarks.common import ROOT
from benchmarks.retrieval.data import Catalogues

Rank = Callable[["Bench", "Opened", str], Awaitable[list[str]]]
DEPTH = 20
_UNINFORMATIVE = frozenset(
    """
    a an the of to in for and or is are be on with at by from i me my you it this that can could please what which
    how
    """.split()
)
_OF_AN_INDEX = (
    "words",
    "document_fields",
    "counts",
    "lexical",
    "snapshot",
    "embedding",
    "vectors",
    "minilm",
    "index_store",
)
"""The modules that decide what an index holds."""


@dataclass(frozen=True)
class Method:
    """One way to rank.

    Attributes:
        asks: whether it asks a language model.
        ours: whether the code of ATC decides what it finds.
        based: whether it searches by whatever base retriever is asked for; others have one of their own.
    """

    name: str
    rank: Rank
    asks: bool = False
    ours: bool = True
    based: bool = True

    def label(self, base: Mode) -> str:
        """Its name in tables, with the base retriever where that is not the usual one."""
        return f"{self.name} {base}" if self.based and base != "hybrid" else self.name


@dataclass(frozen=True)
class Spent:
    """Of a language model: ``kept_s`` are seconds that kept replies took when they were made."""

    calls: int = 0
    tokens: int = 0
    kept_s: float = 0.0

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.calls - other.calls, self.tokens - other.tokens, self.kept_s - other.kept_s)


@dataclass(frozen=True)
class Opened:
    """The indexes over one pool, each had when a method first asks for it: embedding a large one takes minutes.

    Attributes:
        pool: its name.
        base: what the methods that search :attr:`tools` search by.
    """

    pool: str
    _tools: Callable[[], ToolIndex]
    _plain: Callable[[], Floor]
    base: Mode = "hybrid"

    @property
    def whole(self) -> ToolIndex:
        """With all that it can be searched by."""
        return self._tools()

    @cached_property
    def tools(self) -> ToolIndex:
        """Searched by the base retriever, where a search says nothing else."""
        return searched_by(self.whole, self.base)

    @property
    def plain(self) -> Floor:
        return self._plain()


def searched_by(index: ToolIndex, base: Mode) -> ToolIndex:
    """The same tools, searched by one base retriever where a search says nothing else."""
    if base == "hybrid":
        return index
    made = copy.copy(index)

    def search_many(queries: Sequence[str], limit: int = 10, mode: Mode | None = None) -> list[list[Hit]]:
        return index.search_many(queries, limit, mode or base)

    made.search_many = search_many  # type: ignore[method-assign]
    return made


class Floor:
    """BM25 over the whole text of each tool, no words that say nothing, no plural s: what the others must beat.

    Text, words and constants are those that give, within a point, what is known of BM25 on the queries of eleven
    sources.
    """

    def __init__(self, catalogues: Catalogues, pool: str) -> None:
        self._ids, texts = zip(*catalogues.texts(pool), strict=True)
        self._index = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
        self._index.index([_plain(text) for text in texts], show_progress=False)

    def search(self, query: str, limit: int) -> list[str]:
        scores = self._index.get_scores(_plain(query) or ["?"])
        return [self._ids[row] for row in np.argsort(-scores, kind="stable")[:limit]]  # equal ones in the pool's order


class Counted(WrappedModel):
    """Tells of each reply of a model."""

    def __init__(self, inner: Model, on_reply: Callable[[Reply], None]) -> None:
        super().__init__(inner)
        self._on_reply = on_reply

    async def complete(self, messages: Sequence[Message], **options: Any) -> Reply:
        reply = await self.inner.complete(messages, **options)
        self._on_reply(reply)
        return reply


class Bench:
    """What methods work with: one pool's indexes at a time, and a model that keeps its replies.

    Args:
        folder: where indexes and replies are kept.
        model: as ``atc run --model`` takes it.
        encoder: of the indexes.
    """

    def __init__(
        self,
        catalogues: Catalogues,
        folder: Path,
        model: str | Model | None,
        encoder: Encoder,
    ) -> None:
        self._catalogues, self._folder, self._spec, self._encoder = catalogues, folder, model, encoder
        self._opened: Opened | None = None
        self._model: Model | None = None
        self._index_code = _digest(*(f"atc/catalogue/index/{name}.py" for name in _OF_AN_INDEX))
        self._code = _digest(
            "atc/catalogue/index/*.py",
            "atc/tools/*.py",
            "atc/catalogue/graph/*.py",
        )
        self._progress = ("", 0)
        self.spent = Spent()

    def index(self, pool: str, base: Mode = "hybrid") -> Opened:
        """The indexes over a pool; one pool's at a time are held."""
        if self._opened is None or self._opened.pool != pool:
            plain = cache(partial(Floor, self._catalogues, pool))
            self._opened = Opened(pool, cache(partial(self._tools, pool)), plain)
        if self._opened.base != base:
            self._opened = replace(self._opened, base=base)
        return self._opened

    def _tools(self, pool: str) -> ToolIndex:
        folder = self._folder / f"{pool}-{self._index_code}"
        if (folder / FILE).exists():
            return ToolIndex.load(folder, self._encoder)
        return ToolIndex.build(self._catalogues.pool(pool), self._encoder, folder, self._on_reply)

    def _on_reply(self, stage: str, done: int, total: int) -> None:
        if total and (now := (stage, done * 20 // total)) != self._progress:
            self._progress = now
            err.print(f"{stage} {done:,} of {total:,} tools", style="dim")

    def version(self, method: Method) -> str:
        """Of the code and the prompts that decide what a method finds, and of the model that it asks."""
        code = self._code if method.ours else _digest("benchmarks/retrieval/methods.py", "benchmarks/retrieval/data.py")
        return f"{code} {self._asked().name}" if method.asks else code

    async def ask(
        self, messages: Sequence[Message], max_tokens: int, *, temperature: float = 0.0, seed: int = 0
    ) -> Reply:
        """One call of the model."""
        return await self.model().complete(messages, max_tokens=max_tokens, temperature=temperature, seed=seed)

    def model(self) -> Model:
        """The model; each of its replies is counted at its first cost, wherever it comes from now."""
        return Counted(self._asked(), self._count)

    def _count(self, reply: Reply) -> None:
        tokens, kept = reply.prompt_tokens + reply.completion_tokens, reply.seconds if reply.cached else 0.0
        self.spent = Spent(self.spent.calls + 1, self.spent.tokens + tokens, self.spent.kept_s + kept)

    def _asked(self) -> Model:
        if self._model is None:
            self._model = open_model(self._spec, cache_dir=self._folder / "replies")
        return self._model

    async def aclose(self) -> None:
        if self._model is not None:
            await self._model.aclose()


def _searched(mode: Mode) -> Rank:
    async def rank(bench: Bench, pool: Opened, query: str) -> list[str]:
        return [hit.id for hit in pool.whole.search(query, limit=DEPTH, mode=mode)]

    return rank


async def _floor(bench: Bench, pool: Opened, query: str) -> list[str]:
    return pool.plain.search(query, DEPTH)


async def _sieve(bench: Bench, pool: Opened, query: str) -> list[str]:
    return [hit.id for hit in sieved(pool.tools, query, DEPTH)]


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("bm25", _floor, ours=False, based=False),
        Method("lexical", _searched("lexical"), based=False),
        Method("dense", _searched("dense"), based=False),
        Method("hybrid", _searched("hybrid"), based=False),
        Method("sieve", _sieve),
    )
}


def _plain(text: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).lower()
    words = re.findall(r"[^\W_]+", spaced)
    return [word[:-1] if len(word) > 4 and word.endswith("s") else word for word in words if word not in _UNINFORMATIVE]


def _digest(*patterns: str) -> str:
    files = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
