"""A cross-encoder orders what was found; whatever its server does, a search has its ranking, and no key goes astray."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from atc.errors import EncoderUnavailable, SettingsError
from atc.models.base import Message, Reply
from atc.retrieval.index import Hit
from atc.retrieval.planner import Said, Trajectory, Turn
from atc.retrieval.prerequisites import Prerequisite
from atc.retrieval.rerank import CANDIDATES, MAX_ANSWER, MAX_DOCUMENT, Reranker, document, reranked
from atc.retrieval.retriever import IndexRetriever
from atc.settings import Settings
from atc.tools.protocol import Protocol
from atc.tools.tool import Tool, Toolset
from tests.support.retrieval import protocol

URL = "http://localhost:8080/v1"
Answer = Callable[[httpx.Request], httpx.Response]


def server(answer: Answer, **given: Any) -> tuple[Reranker, list[httpx.Request]]:
    asked: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return answer(request)

    return Reranker(given.pop("url", URL), transport=httpx.MockTransport(handle), **given), asked


def backwards(request: httpx.Request) -> httpx.Response:
    """The last document fits best; the rows come in no order."""
    count = len(json.loads(request.content)["documents"])
    rows = [{"index": place, "relevance_score": place / 10} for place in range(count)]
    return httpx.Response(200, json={"results": rows[1:] + rows[:1]})


def found(*ids: str, **given: Any) -> Trajectory:
    return Trajectory("a task", turns=[Turn("a task", tuple(Hit(id, 1.0, n) for n, id in enumerate(ids, 1)))], **given)


def order(reranker: Reranker, trajectory: Trajectory, limit: int = 10) -> tuple[list[str], str]:
    done = asyncio.run(reranked(trajectory, lambda id: protocol(id, f"Tool {id}."), reranker, limit))
    return done.ranking, done.notice


def test_tools_are_ordered_by_the_scores_of_the_server() -> None:
    reranker, asked = server(backwards, model="cross", key="k-1")
    assert order(reranker, found("a", "b", "c")) == (["c", "b", "a"], "")
    (request,) = asked
    assert str(request.url) == f"{URL}/rerank"
    assert request.headers["authorization"] == "Bearer k-1"
    body = json.loads(request.content)
    assert (body["model"], body["query"], body["top_n"]) == ("cross", "a task", 3)
    assert body["documents"][0].startswith("a: Tool a.")


def test_a_server_of_the_other_dialect_is_asked_in_it() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if "texts" not in body:
            return httpx.Response(422, json={"error": "missing field `texts`"})
        return httpx.Response(200, json=[{"index": 1, "score": 0.9}, {"index": 0, "score": 0.1}])

    reranker, asked = server(answer)
    assert order(reranker, found("a", "b")) == (["b", "a"], "")
    assert order(reranker, found("a", "b")) == (["b", "a"], "")
    assert len(asked) == 3  # what it takes is known from then on


def test_picks_stay_first_and_providers_behind_those_that_need_them() -> None:
    marks = {"a": 0.5, "c": 0.9, "p": 0.1}

    def answer(request: httpx.Request) -> httpx.Response:
        documents = json.loads(request.content)["documents"]
        rows = [{"index": n, "relevance_score": marks[text[0]]} for n, text in enumerate(documents)]
        return httpx.Response(200, json={"results": rows})

    reranker, _ = server(answer)
    need = Prerequisite("c", "id", "p")
    ranking, _ = order(reranker, found("a", "b", "c", said=(Said("b"),), prerequisites=[need]))
    assert ranking == ["b", "c", "p", "a"]


def test_only_so_many_tools_are_read_and_of_each_only_so_much() -> None:
    reranker, asked = server(backwards)
    ids = [f"t{number:03}" for number in range(CANDIDATES + 30)]
    ranking, notice = order(reranker, found(*ids), len(ids))
    assert len(json.loads(asked[0].content)["documents"]) == CANDIDATES
    assert (ranking[0], ranking[CANDIDATES], notice) == (ids[CANDIDATES - 1], ids[CANDIDATES], "")
    assert sorted(ranking) == ids
    assert len(document(Protocol(name="t", description="x" * 1_000_000))) == MAX_DOCUMENT


def test_one_tool_is_not_asked_about() -> None:
    reranker, asked = server(backwards)
    assert order(reranker, found("a")) == (["a"], "")
    assert asked == []


def down(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused k-secret")


def late(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (down, "start it"),
        (late, "did not answer within"),
        (lambda request: httpx.Response(500, text="broken k-secret"), "answered 500: broken [key]"),
        (lambda request: httpx.Response(302, headers={"location": "https://elsewhere.example/"}), "answered 302"),
        (lambda request: httpx.Response(401), "ATC_RERANK_KEY"),
        (lambda request: httpx.Response(422), "did not send a score"),
        (lambda request: httpx.Response(200, text="<html>"), "did not send a score"),
        (lambda request: httpx.Response(200, text="[" * 100_000), "did not send a score"),
        (lambda request: httpx.Response(200, text="x" * (MAX_ANSWER + 1)), "too much"),
        *(
            (lambda request, rows=rows: httpx.Response(200, json={"results": rows}), "did not send a score")
            for rows in (
                None,
                [],
                [{"index": 0, "relevance_score": 1}],
                [{"index": 0, "relevance_score": 1}, {"index": 0, "relevance_score": 1}],
                [{"index": 0, "relevance_score": 1}, {"index": 7, "relevance_score": 1}],
                [{"index": 0, "relevance_score": 1}, {"index": True, "relevance_score": 1}],
                [{"index": 0, "relevance_score": 1}, {"index": 1, "relevance_score": "2"}],
                [{"index": 0, "relevance_score": 1}, {"index": 1, "relevance_score": 10**400}],
                ["a", "b"],
            )
        ),
        (
            lambda request: httpx.Response(
                200, text='{"results": [{"index": 0, "score": NaN}, {"index": 1, "score": 1}]}'
            ),
            "did not send",
        ),
    ],
)
def test_whatever_the_server_does_the_ranking_stays_with_one_notice(answer: Answer, said: str) -> None:
    reranker, asked = server(answer, key="k-secret")
    ranking, notice = order(reranker, found("a", "b"))
    assert ranking == ["a", "b"]
    assert said in notice
    assert "k-secret" not in notice
    assert {request.url.host for request in asked} == {"localhost"}
    with pytest.raises(EncoderUnavailable):
        asyncio.run(reranker.scores("x", ["a", "b"]))


def test_the_time_is_of_the_whole_request_however_the_server_spends_it() -> None:
    async def silent(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    reranker = Reranker("http://localhost:1/v1", timeout_s=0.05, transport=httpx.MockTransport(silent))
    ranking, notice = order(reranker, found("a", "b"))
    assert ranking == ["a", "b"]
    assert "did not answer within 0.05 s" in notice


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("", ""),
        ("localhost:8080", ""),
        ("ftp://host/v1", ""),
        ("https://user:pass@host/v1", ""),
        ("https://host/v1?key=1", ""),
        ("http://host.example/v1", "k-secret"),
    ],
)
def test_an_address_that_is_none_or_would_show_the_key_is_refused(url: str, key: str) -> None:
    with pytest.raises(SettingsError) as no:
        Reranker(url, key=key)
    assert "k-secret" not in str(no.value)
    assert "pass" not in str(no.value)


def test_a_run_has_its_tools_in_that_order_and_is_told_where_it_failed() -> None:
    tools = Toolset(Tool(protocol(f"weather_{n}", f"Weather of day {n}.")) for n in range(4))

    async def ask(messages: list[Message], max_tokens: int) -> Reply:
        raise AssertionError

    def sketch(answer: Answer) -> Any:
        reranker, _ = server(answer)
        retriever = IndexRetriever(way="lexical", reranker=reranker)
        return asyncio.run(retriever.retrieve("weather of a day", tools, 2, ask))  # type: ignore[arg-type]

    assert [*sketch(backwards).tools] == ["weather_3", "weather_2"]
    refused = sketch(down)
    assert [*refused.tools] == ["weather_0", "weather_1"]
    assert "ranked without it" in "".join(refused.notices)


def test_the_settings_name_it() -> None:
    assert Reranker.of(Settings()) is None
    named = Reranker.of(Settings(rerank_base_url="https://host.example/v2/rerank", rerank_model="cross"))
    assert repr(named) == "Reranker('https://host.example/v2/rerank', 'cross')"
