"""Endpoints of providers differ: what one refuses is learnt by one request, and each failure says what to do where."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from atc.errors import ContextExceeded, ModelError, ModelUnavailable, SettingsError
from atc.models.endpoint_errors import body_words, page_words, refused_parameters
from atc.models.messages import Message
from atc.models.openai_compatible import OpenAICompatible
from atc.models.resolve import PRESETS, choose_model, open_model, opened
from tests.support import fake_openai_server as fake
from tests.support.dialects import ANSWER, DIALECTS, KEY, MODEL, Dialect, openai_error

PROMPT = [Message("system", "Write a program."), Message("user", "What is six times seven?")]


_QUICK = ("openai-reasoning", "anthropic", "gemini", "mistral")


@pytest.fixture(
    params=[
        pytest.param(each, id=each.name, marks=() if each.name in _QUICK else pytest.mark.slow) for each in DIALECTS
    ]
)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    made: Dialect = request.param
    return made


@pytest.fixture
def server(dialect: Dialect) -> Iterator[fake.Server]:
    with fake.serving(dialect) as server:
        yield server


def at(server: fake.Server, model: str = MODEL, key: str = KEY, attempts: int = 1) -> OpenAICompatible:
    return OpenAICompatible(
        model, server.url, key, max_attempts=attempts, backoff_s=0.001, context_tokens=9_000, key_name="THEIR_KEY"
    )


async def completed(model: OpenAICompatible, *, times: int = 1) -> list[str]:
    options = {"max_tokens": 100, "temperature": 0.0, "seed": 0, "stop": ["\nEND"]}
    return [(await model.complete(PROMPT, **options)).text for _ in range(times)]  # type: ignore[arg-type]


def test_a_dialect_is_learnt_once_and_spoken_then(dialect: Dialect, server: fake.Server) -> None:
    model = at(server)
    options = {"max_tokens": 100, "temperature": 0.0, "seed": 0, "stop": ["\nEND"]}
    reply = asyncio.run(model.complete(PROMPT, **options))  # type: ignore[arg-type]
    assert (reply.text, reply.finish_reason) == (ANSWER, "stop")
    assert (reply.prompt_tokens, reply.completion_tokens) == dialect.cost
    refused = len(server.requests)
    assert asyncio.run(completed(model, times=2)) == [ANSWER, ANSWER]
    assert len(server.requests) == refused + 2  # nothing is refused a second time
    last = server.requests[-1]
    assert last.get("max_tokens", last.get("max_completion_tokens", 0)) >= 100
    assert set(last) <= set(dialect.takes)


def test_each_failure_says_what_and_where(dialect: Dialect, server: fake.Server) -> None:
    with pytest.raises(ModelUnavailable, match=r"does not take the key \(4\d\d\): set THEIR_KEY") as wrong:
        asyncio.run(completed(at(server, key="a-wrong-key")))
    assert server.url in str(wrong.value)
    assert "a-wrong-key" not in str(wrong.value)
    with pytest.raises(ModelUnavailable, match=r"has no model 'model-9'.*set ATC_MODEL"):
        asyncio.run(completed(at(server, "model-9")))
    if dialect.no_credit is not None:
        before = len(server.requests)
        with pytest.raises(ModelUnavailable, match="no credit left at http"):
            asyncio.run(completed(at(server, "unpaid", attempts=3)))
        assert len(server.requests) == before + 1  # asking again would bring the same
    before = len(server.requests)
    with pytest.raises(ModelError, match=f"answered {dialect.overloaded[0]}") as late:
        asyncio.run(completed(at(server, "overloaded", attempts=2)))
    assert len(server.requests) == before + 2
    assert "<html" not in str(late.value)
    assert "{" not in str(late.value)  # words, not a body


def test_what_is_refused_is_left_out_only_where_it_is_refused_for_good() -> None:
    def refused(words: str, status: int = 400) -> set[str]:
        return refused_parameters(fake.status_error(status, words))

    assert refused("`temperature` is deprecated for this model.") == {"temperature"}
    assert refused("temperature: range: -1 is less than 0") == set()
    assert refused("Unsupported parameter: 'stop' is not supported with this model.") == {"stop"}
    assert refused("stop: each sequence must contain non-whitespace") == set()
    assert refused("please stop sending requests, they are not supported") == set()


def test_a_stop_that_is_refused_is_kept_here() -> None:
    def step(handler: fake.Handler) -> None:
        words = "Unsupported parameter: 'stop' is not supported with this model."
        asked = "stop" in handler.server.requests[-1]
        (fake.fails(400, words, param="stop") if asked else fake.says("one\nEND two", finish="length"))(handler)

    with fake.serving(step) as server:
        reply = asyncio.run(at(server).complete(PROMPT, max_tokens=9, stop=["\nEND"]))
    assert (reply.text, reply.finish_reason) == ("one", "stop")


def test_a_prompt_that_is_too_long_is_known_in_a_list_too() -> None:
    words = "The input token count (9000) exceeds the maximum number of tokens allowed (8000)."
    body = json.dumps([{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}]).encode()
    with fake.serving(fake.answers(400, body)) as server, pytest.raises(ContextExceeded) as long:
        asyncio.run(completed(at(server)))
    assert (long.value.limit, long.value.requested) == (8000, 9000)


def test_an_error_in_the_middle_of_a_stream_is_told_in_its_words() -> None:
    def step(handler: fake.Handler) -> None:
        handler.begin_stream()
        handler.send_event(fake.piece("answer = "))
        error = {"code": "server_error", "message": "Provider disconnected unexpectedly"}
        handler.send_event({"error": error, **fake.piece("", "error")})
        handler.end_stream()

    with fake.serving(step) as server, pytest.raises(ModelError, match=r"http.*Provider disconnected unexpectedly"):
        asyncio.run(completed(at(server)))


def test_a_filter_is_told_and_not_asked_again() -> None:
    words = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."
    with fake.serving(fake.fails(400, words, code="content_filter")) as server:
        with pytest.raises(ModelError, match=r"content filter of 'model-1' at http.*change the task's words") as told:
            asyncio.run(completed(at(server, attempts=3)))
        assert words in str(told.value)
        assert len(server.requests) == 1


def test_more_members_are_sent_and_none_in_the_place_of_ours() -> None:
    with fake.serving(fake.says(ANSWER)) as server:
        model = open_model(MODEL, base_url=server.url, extra_body={"reasoning_effort": "low"})
        asyncio.run(model.complete(PROMPT))
        assert server.requests[-1]["reasoning_effort"] == "low"
    with pytest.raises(SettingsError, match="extra_body has 'messages'"):
        OpenAICompatible(MODEL, "http://h/v1", extra_body={"messages": []})


def test_a_preset_is_an_address_and_a_key_of_its_own() -> None:
    environment = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": "of-openai"}
    choice = choose_model("anthropic:claude-x", environment=environment)
    assert (choice.model, choice.base_url, choice.api_key) == ("claude-x", "https://api.anthropic.com/v1", KEY)
    assert KEY not in repr(choice)
    model = open_model("gemini:gemini-x", api_key="given")
    assert isinstance(model, OpenAICompatible)
    assert model.url == "https://generativelanguage.googleapis.com/v1beta/openai"
    with pytest.raises(ModelUnavailable, match="no key for mistral: set MISTRAL_API_KEY"):
        choose_model("mistral:m", environment={"OPENAI_API_KEY": "of-openai"})  # which goes nowhere else
    with pytest.raises(ModelUnavailable, match="no address for azure: set AZURE_OPENAI_ENDPOINT"):
        choose_model("azure:m", environment={"AZURE_OPENAI_API_KEY": KEY})
    own = {"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com/"}
    assert choose_model("azure:m", environment=own).base_url == "https://mine.openai.azure.com/openai/v1"
    assert choose_model("ollama:llama3:8b", environment={}).base_url == "http://localhost:11434/v1"
    there = choose_model("ollama:m", environment={"OLLAMA_HOST": "0.0.0.0:9"})
    assert (there.base_url, there.api_key) == ("http://localhost:9/v1", None)
    with pytest.raises(ModelUnavailable, match="'groq:' names no model"):
        choose_model("groq:", environment={"GROQ_API_KEY": KEY})


def test_a_list_of_models_may_want_the_key_under_another_name() -> None:
    """Anthropic's does, and it states the context there."""
    with fake.serving(fake.says(ANSWER)) as server:
        server.tells["/v1/models"] = {"data": [{"id": MODEL, "max_input_tokens": 200_000}]}
        at = opened("anthropic", {"ANTHROPIC_API_KEY": KEY})
        model = OpenAICompatible(MODEL, server.url, KEY, facts_headers=at.facts_headers)
        assert asyncio.run(model.context_size()) == 200_000
        assert server.keys == [""]
    assert at.facts_headers["x-api-key"] == KEY


def test_at_an_address_of_ones_own_a_name_may_begin_like_a_preset() -> None:
    choice = choose_model("mistral:7b", environment={"OPENAI_BASE_URL": "http://h/v1", "MISTRAL_API_KEY": KEY})
    assert (choice.model, choice.base_url, choice.api_key) == ("mistral:7b", "http://h/v1", None)


def test_every_preset_has_a_dialect_and_an_address() -> None:
    assert set(PRESETS) == {dialect.name for dialect in DIALECTS} - {"openai-reasoning"}
    assert all(each.url.startswith("http") or each.host for each in PRESETS.values())
    env = {key: "k" for preset in PRESETS.values() for key in preset.keys} | {"AZURE_OPENAI_ENDPOINT": "x"}
    names = {name: choose_model(f"{name}:m", environment=env).url_name for name in PRESETS}
    assert names["anthropic"] == "your network or proxy"  # and no variable that has no effect there
    assert [names[each] for each in ("azure", "vllm")] == ["AZURE_OPENAI_ENDPOINT", "OPENAI_BASE_URL"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (openai_error("no"), "no"),
        ([{"error": {"message": "no", "status": "X"}}], "no"),
        (
            {"detail": [{"loc": ["body", "seed"], "msg": "not permitted"}, {"loc": [], "msg": "b"}]},
            "seed: not permitted; b",
        ),
        ({"error": "no"}, "no"),
        ({"message": "Provider returned error", "metadata": {"raw": "too hot"}}, "Provider returned error (too hot)"),
        ({"code": 3}, ""),
        ([[[[[[[["deep"]]]]]]]], ""),
        (None, ""),
    ],
)
def test_the_words_of_a_body_are_found_in_whatever_form(body: object, words: str) -> None:
    assert body_words(body) == words


def test_a_page_of_html_is_told_by_its_title() -> None:
    assert "a page of HTML (502 Bad & Gateway)" in page_words(
        "<html><title>502 Bad &amp; Gateway</title>" + "x" * 9_000
    )
    assert page_words("<3") == "<3"
