"""One ranking of several by a cross-encoder behind an endpoint (ToolQP §4.4, Tab. 4: "cross-encoder fusion").

A server reads the task beside each tool and gives a score: ``POST /rerank`` with ``query`` and ``documents``, as the
servers of Cohere, Jina, vLLM and llama.cpp (``--reranking``) take it, or with ``texts``, as that of Text Embeddings
Inference does. What goes wrong there costs no search: the ranking stays as it was, with a notice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from atc.errors import EncoderUnavailable, SettingsError
from atc.retrieval.dialogue import MAX_TASK
from atc.retrieval.rank_fusion import Fusion, anchored_similarity
from atc.tools.protocol import Protocol

if TYPE_CHECKING:
    from atc.retrieval.planner import Trajectory
    from atc.settings import Settings

CANDIDATES = 50
"""Tools that are read; the rest of a ranking stays behind them."""
MAX_DOCUMENT = 1_200
"""Characters of a tool that are sent."""
MAX_ANSWER = 1_000_000
"""Bytes of an answer; of a candidate some fifty."""
_LARGEST = 1e300
TIMEOUT_S, CONNECT_S = 20.0, 5.0
"""Seconds that an answer and a connection may take."""


class Reranker:
    """A cross-encoder behind an endpoint.

    Args:
        base_url: the address up to and without ``/rerank``, such as ``http://localhost:8080/v1``.
        model: its name there; many servers need none.
        key: the key. It is sent to this address alone: no redirect is followed, no proxy of the environment used.
        timeout_s: seconds that an answer may take.
        transport: in place of the network, for tests.

    Raises:
        SettingsError: ``base_url`` is no HTTP address, or the key would be sent where others can read it.
    """

    def __init__(
        self,
        base_url: str,
        model: str = "",
        key: str = "",
        *,
        timeout_s: float = TIMEOUT_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url, self._model, self._key = _address(base_url, key), model, key
        self._timeout_s, self._transport = timeout_s, transport
        self._field = "documents"

    @classmethod
    def of(cls, settings: Settings) -> Reranker | None:
        """As the settings have it; ``None`` where they name none.

        Raises:
            SettingsError: as the class.
        """
        if settings.rerank_base_url is None:
            return None
        key = settings.rerank_key.get_secret_value() if settings.rerank_key else ""
        return cls(settings.rerank_base_url, settings.rerank_model or "", key)

    def __repr__(self) -> str:
        return f"Reranker({self._url!r}, {self._model!r})"

    async def scores(self, query: str, documents: Sequence[str]) -> list[float]:
        """How well each document fits a query; only their order has a meaning.

        Raises:
            EncoderUnavailable: the server cannot be reached, is late, refuses, or sends something else than scores.
        """
        answer = await self._asked(query, documents)
        if answer is None:  # a server that knows the texts by the other name
            self._field = "texts" if self._field == "documents" else "documents"
            answer = await self._asked(query, documents)
        found = _scores(answer, len(documents))
        if found is None:
            raise self._problem(f"did not send a score for each of {len(documents)} tools")
        return found

    async def _asked(self, query: str, documents: Sequence[str]) -> Any:
        """The answer as JSON; ``None`` where the server finds the request malformed."""
        body: dict[str, Any] = {"query": query, self._field: list(documents)}
        if self._field == "documents":
            body |= {"top_n": len(documents)} | ({"model": self._model} if self._model else {})
        else:
            body |= {"truncate": True}
        headers = {"accept-encoding": "identity"} | ({"authorization": f"Bearer {self._key}"} if self._key else {})
        timeout = httpx.Timeout(self._timeout_s, connect=CONNECT_S)
        content = bytearray()
        try:
            async with (
                asyncio.timeout(self._timeout_s),  # of the whole: the client's own begin again with each byte
                httpx.AsyncClient(timeout=timeout, trust_env=False, transport=self._transport) as client,
                client.stream("POST", self._url, json=body, headers=headers) as answer,
            ):
                async for part in answer.aiter_bytes():
                    content += part
                    if len(content) > MAX_ANSWER:
                        raise self._problem(f"sent too much, over {MAX_ANSWER:,} bytes")
                status = answer.status_code
        except (httpx.TimeoutException, TimeoutError):
            raise self._problem(f"did not answer within {self._timeout_s:g} s") from None
        except httpx.HTTPError as error:
            reason = self._clean(str(error) or type(error).__name__)
            raise self._problem(f"cannot be reached ({reason}): start it, or correct rerank_base_url") from None
        if status in (400, 422):
            return None
        if status in (401, 403):
            raise self._problem(f"does not take the key ({status}): set rerank_key (ATC_RERANK_KEY)")
        if status != 200:
            raise self._problem(f"answered {status}: {self._clean(content[:300].decode(errors='replace'))}")
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            return []

    def _problem(self, what: str) -> EncoderUnavailable:
        return EncoderUnavailable(f"the reranker at {self._url} {what}")

    def _clean(self, text: str) -> str:
        """A stranger's words, short, on one line, without the key."""
        line = " ".join("".join(each if each.isprintable() else " " for each in text[:300]).split())
        return line.replace(self._key, "[key]") if self._key else line


@dataclass(frozen=True)
class Reranked:
    """A ranking, and what to tell the user of it; empty when all went well."""

    ranking: list[str]
    notice: str = ""


async def reranked(
    found: Trajectory,
    protocol: Callable[[str], Protocol],
    reranker: Reranker,
    limit: int = 10,
    fusion: Fusion = anchored_similarity,
    candidates: int = CANDIDATES,
) -> Reranked:
    """The tools of all queries in the order of a cross-encoder, providers right behind those that need them.

    Args:
        found: the search.
        protocol: a tool by its id.
        reranker: scores the tools by the task's own words.
        limit: tools at most.
        fusion: chooses the candidates, and ranks where the server fails.
        candidates: tools that are scored, the first of that ranking.
    """
    from atc.retrieval.planner import with_providers

    before = found.ranked(max(limit, candidates) + len(found.prerequisites), fusion)
    said = [each.id for each in found.said]
    several = [tool for tool in before if tool not in said][:candidates]
    if len(several) < 2:
        return Reranked(before[:limit])
    try:
        scores = await reranker.scores(found.task[:MAX_TASK], [document(protocol(tool)) for tool in several])
    except EncoderUnavailable as problem:
        return Reranked(before[:limit], f"{problem}; tools are ranked without it")
    order = sorted(range(len(several)), key=lambda number: -scores[number])  # of equals the first stays the first
    ranking = [*said, *(several[number] for number in order)]
    rest = [tool for tool in before if tool not in {*ranking}]
    return Reranked(with_providers([*ranking, *rest], found.prerequisites)[:limit])


def document(protocol: Protocol) -> str:
    """A tool as a cross-encoder reads it: name, what it does, parameters; bounded."""
    names = ", ".join(map(str, protocol.parameters.get("properties", {})))
    described = f"{protocol.name}: {protocol.description[:MAX_DOCUMENT]}"
    return f"{described}\nParameters: {names}"[:MAX_DOCUMENT] if names else described[:MAX_DOCUMENT]


def _scores(answer: Any, wanted: int) -> list[float] | None:
    """The scores in the order of the documents; ``None`` where one is missing or no number."""
    rows = answer.get("results") if isinstance(answer, dict) else answer
    if not isinstance(rows, list) or len(rows) > wanted:
        return None
    found: dict[int, float] = {}
    for row in rows:
        if not isinstance(row, dict):
            return None
        place, score = row.get("index"), row.get("relevance_score", row.get("score"))
        if type(place) is not int or not isinstance(score, int | float) or isinstance(score, bool):
            return None
        if not abs(score) < _LARGEST:  # NaN, too
            return None
        found[place] = float(score)
    return [found[place] for place in range(wanted)] if found.keys() == {*range(wanted)} else None


def _address(base_url: str, key: str) -> str:
    """The address of the requests."""
    from atc.serving import is_loopback

    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError):
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host or url.userinfo or url.query or url.fragment:
        raise SettingsError("rerank_base_url is no address: give one like http://localhost:8080/v1, the key apart")
    if key and url.scheme == "http" and not is_loopback(url.host):
        raise SettingsError(
            f"the reranker's key would be sent to {url.host} by plain http, where others can read it: give an https "
            "address"
        )
    path = url.path.rstrip("/")
    return str(url.copy_with(path=path if path.endswith(("/rerank", "/reranking")) else f"{path}/rerank"))
