"""The document side of Re-Invoke: queries that a model imagines for each tool (D2Q; ToolQP App. B, Tab. 5, Fig. 12).

A tool's vector is the mean of those of its document beside each of its queries. The queries are made once for a pool,
one call of the model a tool, and its replies are kept: an interrupted pool goes on. In the paper each of the ten
queries is a call of its own; here one reply lists all, which reads a document once.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import numpy as np

from atc.errors import UsageError
from atc.models.base import Message, Model
from atc.prompting import fenced
from atc.retrieval.documents import document_fields, text_for_encoder
from atc.retrieval.index import ToolIndex
from atc.retrieval.vectors import Encoder, Floats, normalised
from benchmarks.codes_queries import requests_in

COUNT = 10
"""Queries of a tool (N of Tab. 5)."""
LARGEST = 500
"""Tools of a pool that a model is asked about, when nothing else is said."""
_TOKENS = 40 * COUNT
_TEMPERATURE = 0.7
_MAX_DOCUMENT = 1_200
_PROMPT = Path(__file__).with_name("prompts") / "tool_queries.jinja"


@dataclass(frozen=True)
class Made:
    """The queries of a pool's tools, and what they took.

    Attributes:
        queries: by the text that the encoder reads of a tool; empty where the model wrote none of use.
        calls, tokens, seconds: of the model; kept replies count as they did when they were made.
    """

    queries: Mapping[str, tuple[str, ...]]
    calls: int
    tokens: int
    seconds: float

    def __str__(self) -> str:
        written = sum(map(len, self.queries.values()))
        return (
            f"{written} queries of {len(self.queries)} tools: {self.calls} calls, {self.tokens:,} tokens, "
            f"{self.seconds:,.0f} s"
        )


class QueriesEncoder:
    """An encoder in front of another that gives a tool's text the mean vector of the text beside each of its queries.

    Args:
        inner: embeds.
        queries: of tools, by the text that is embedded for each. Any other text is embedded as it is.
    """

    def __init__(self, inner: Encoder, queries: Mapping[str, Sequence[str]]) -> None:
        self._inner = inner
        self._queries = {text: tuple(written) for text, written in queries.items() if written}
        listed = json.dumps(sorted((text, *written) for text, written in self._queries.items()))
        self.name, self.dimensions = f"{inner.name} with queries", inner.dimensions
        self.digest = hashlib.sha256(f"{inner.digest} {listed}".encode()).hexdigest()

    def check(self) -> None:
        self._inner.check()

    def encode(self, texts: Sequence[str]) -> Floats:
        parts = [[f"{text}\n{query}" for query in self._queries.get(text, ())] or [text] for text in texts]
        if not parts:
            return np.zeros((0, self.dimensions), np.float32)
        vectors = self._inner.encode([part for each in parts for part in each])
        begins = np.cumsum([0, *map(len, parts[:-1])])
        return normalised(np.add.reduceat(vectors, begins, axis=0).astype(np.float32))


async def queries_of(
    index: ToolIndex,
    model: Model,
    on_tool: Callable[[int, int], None] = lambda done, total: None,
    *,
    count: int = COUNT,
    largest: int = LARGEST,
) -> Made:
    """Have queries imagined for each tool of an index.

    Args:
        index: of the tools.
        model: writes them; it should keep its replies, so that an interrupted pool goes on.
        on_tool: called with the tools that are done, and all.
        count: queries of a tool.
        largest: tools of an index that a model is asked about.

    Raises:
        UsageError: the index has more tools.
        ModelError, ModelUnavailable, BudgetExceeded: from the model.
    """
    if len(index) > largest:
        raise UsageError(
            f"the document side asks the model once for each of {len(index):,} tools, and at most {largest:,} were "
            "allowed: take sources with smaller pools, or a larger --documents"
        )
    template = jinja2.Template(_PROMPT.read_text("utf-8"))
    found: dict[str, tuple[str, ...]] = {}
    tokens, seconds, began = 0, 0.0, time.perf_counter()
    for done, id in enumerate(index.ids):
        on_tool(done, len(index))
        text = text_for_encoder(document_fields(id, index.protocol(id)))
        prompt = template.render(document=fenced(text[:_MAX_DOCUMENT]), count=count)
        reply = await model.complete([Message("user", prompt)], max_tokens=_TOKENS, temperature=_TEMPERATURE, seed=0)
        found[text] = tuple(requests_in(reply.text, count))
        tokens += reply.prompt_tokens + reply.completion_tokens
        seconds += reply.seconds if reply.cached else 0.0
    return Made(found, len(index), tokens, seconds + time.perf_counter() - began)
