"""Ways to widen a task's words before one search: what query planning is measured against (ToolQP App. B, Tab. 5).

Each asks the model once for several texts, searches the same index, and joins what the texts find:

- Q2E (Jagerman et al. 2023): the task as search queries.
- Q2D (Wang et al. 2023): the task beside tools as they might be.
- HyDE (Gao et al. 2023): tools as they might be and the task, as one vector.
- Re-Invoke (Chen et al. 2024): the task's single intents.

The first three may be shown what the task's own words find (pseudo-relevance feedback, PRF).
"""

from __future__ import annotations

import abc
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import jinja2

from atc.errors import EncoderUnavailable
from atc.models.base import Message, Model, Reply
from atc.prompting import fenced
from atc.retrieval.dialogue import MAX_TASK, TOP, parse_plan, parse_query, show_results, visible_reply
from atc.retrieval.index import Hit, Mode, ToolIndex
from benchmarks.rank_fusions import multi_view, reciprocal_rank

COUNT = 5
"""Texts that the model writes of one task (N of Tab. 5)."""
DEPTH = 100
"""Tools kept of each search, to rank by."""
TEMPERATURE = 0.7
_MAX_DOCUMENT = 800


class Expansion(abc.ABC):
    """Searches for a task by texts that a model makes of it.

    Args:
        model: writes them.
        index: is searched.
        feedback: the model sees the tools that the task's own words find.
        count: texts that are sampled.
        seed: of the sampling.
        base: what the index is searched by. By vectors alone the rankings of several texts are joined by the mean of
            their vectors (the "dense fusion" of Tab. 5), else by their places.
    """

    def __init__(
        self,
        model: Model,
        index: ToolIndex,
        *,
        feedback: bool = False,
        count: int = COUNT,
        seed: int = 0,
        base: Mode = "hybrid",
    ) -> None:
        self._model, self._index, self._base = model, index, base
        self._feedback, self._count, self._seed = feedback, count, seed

    @abc.abstractmethod
    async def queries(self, task: str) -> list[str]:
        """The texts to search by; the task itself where the model said nothing of use.

        Raises:
            ModelError, ModelUnavailable, BudgetExceeded: from the model.
        """

    async def rank(self, task: str, limit: int = 10) -> list[str]:
        """Ids of the tools for a task, the likeliest first.

        Raises:
            ModelError, ModelUnavailable, BudgetExceeded: from the model.
            UsageError: a limit below 1.
        """
        return self._joined(await self.queries(task), max(limit, DEPTH))[:limit]

    def _joined(self, texts: Sequence[str], depth: int) -> list[str]:
        if self._base == "dense":
            return by_mean_vector(self._index.search_many(texts, depth, "dense"), depth)
        return reciprocal_rank(self._index.search_many(texts, depth))

    async def _sampled(self, template: str, task: str, tokens: int) -> list[Reply]:
        text = filled(template, task=fenced(task[:MAX_TASK]), results=self._first_pass(task))
        return await self._model.sample(
            [Message("user", text)], self._count, max_tokens=tokens, temperature=TEMPERATURE, seed=self._seed
        )

    def _first_pass(self, task: str) -> str:
        found = self._index.search(task, limit=TOP) if self._feedback else []
        return show_results([self._index.protocol(hit.id) for hit in found]) if found else ""


class QueryToExpansion(Expansion):
    """Q2E: each rewritten query beside the task (Fig. 8, with ``feedback`` Fig. 9)."""

    async def queries(self, task: str) -> list[str]:
        replies = await self._sampled("expand_query", task, 80)
        written = _different(parse_query(reply.text) for reply in replies)
        return [f"{task}\n{query}" for query in written] or [task]


class QueryToDocument(Expansion):
    """Q2D: each imagined tool beside the task (Fig. 10, with ``feedback`` Fig. 11)."""

    async def queries(self, task: str) -> list[str]:
        return [f"{task}\n{document}" for document in await self._documents(task)] or [task]

    async def _documents(self, task: str) -> list[str]:
        replies = await self._sampled("expand_document", task, 120)
        return _different(_document(reply.text) for reply in replies)


class HyDE(QueryToDocument):
    """HyDE: the mean vector of the imagined tools and the task; without an encoder their words, all together."""

    async def queries(self, task: str) -> list[str]:
        return [task, *await self._documents(task)]

    def _joined(self, texts: Sequence[str], depth: int) -> list[str]:
        if self._index.encoder is not None and self._base != "lexical":
            try:
                return by_mean_vector(self._index.search_many(texts, depth, "dense"), depth)
            except EncoderUnavailable:
                pass  # the search below says so
        return [hit.id for hit in self._index.search("\n".join(texts), depth)]


class Intents(Expansion):
    """Re-Invoke's intents, each searched alone, joined by best place and then score (Fig. 13)."""

    async def queries(self, task: str) -> list[str]:
        text = filled("expand_intents", task=fenced(task[:MAX_TASK]))
        reply = await self._model.complete([Message("user", text)], max_tokens=200, temperature=0.0, seed=self._seed)
        return list(parse_plan(reply.text).goals) or [task]

    def _joined(self, texts: Sequence[str], depth: int) -> list[str]:
        return multi_view(self._index.search_many(texts, depth))


EXPANSIONS: Mapping[str, Callable[..., Expansion]] = {
    "q2e": QueryToExpansion,
    "q2e-prf": partial(QueryToExpansion, feedback=True),
    "q2d": QueryToDocument,
    "q2d-prf": partial(QueryToDocument, feedback=True),
    "hyde": HyDE,
    "hyde-prf": partial(HyDE, feedback=True),
    "re-invoke": Intents,
}
"""By the names that tables give them."""


def by_mean_vector(rankings: Sequence[Sequence[Hit]], depth: int) -> list[str]:
    """The order by the mean of several queries' vectors.

    All vectors have length one, so a tool's product with the mean vector is the mean of its cosines. A tool that is
    not among the ``depth`` kept of a query counts with the least cosine of these: it has at most that.
    """
    sums: dict[str, float] = defaultdict(float)
    for ranking in rankings:
        cosines = {hit.id: hit.score for hit in ranking}
        least = min(cosines.values(), default=0.0) if len(cosines) >= depth else 0.0
        for tool in {hit.id for each in rankings for hit in each}:
            sums[tool] += cosines.get(tool, least)
    return sorted(sums, key=lambda tool: (-sums[tool], tool))


@cache
def _templates() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(Path(__file__).with_name("prompts"))
    return jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, autoescape=False)


def filled(name: str, **values: Any) -> str:
    """The template, filled in: ``benchmarks/prompts/<name>.jinja``."""
    return _templates().get_template(f"{name}.jinja").render(**values)


def _different(texts: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(text for text in texts if text))


def _document(reply: str) -> str:
    """An imagined tool as one text; from JSON its name, description and parameters."""
    visible = visible_reply(reply).strip()
    try:
        value = json.loads(visible) if visible.startswith("{") else None
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        parameters = value.get("parameters")
        listed = parameters if isinstance(parameters, dict | list) else ()
        taken = (value.get("name"), value.get("description"), *listed)
        visible = " ".join(part for part in taken if isinstance(part, str))
    return " ".join(visible.split())[:_MAX_DOCUMENT] if any(c.isalnum() for c in visible) else ""
