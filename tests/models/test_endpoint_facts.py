"""What an endpoint tells of its context and its tokens is used; what it does not tell, or tells oddly, is unknown."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from atc.models.base import bounded_tokens
from atc.models.openai_compatible import CONTEXT_TOKENS, OpenAICompatible
from tests.support import fake_openai_server as fake
from tests.support.fake_openai_server import serving

KEY = "sk-very-secret-0123456789"


def model(server: fake.Server, **options: Any) -> OpenAICompatible:
    return OpenAICompatible("tiny", server.url, KEY, **options)


def size(endpoint: OpenAICompatible) -> int:
    return asyncio.run(endpoint.context_size())


def listed(**entry: Any) -> dict[str, Any]:
    return {"/v1/models": {"object": "list", "data": [{"id": "other", "context_length": 999}, {"id": "tiny", **entry}]}}


PS = {"models": [{"name": "other", "context_length": 700}, {"name": "tiny:latest", "context_length": 4096}]}
OLLAMA = {**listed(owned_by="library"), "/api/version": {"version": "0.9.6"}}


@pytest.mark.parametrize(
    ("tells", "tokens"),
    [
        (listed(owned_by="vllm", max_model_len=8192), 8192),  # vLLM, SGLang
        (listed(owned_by="llamacpp", meta={"n_ctx": 4096, "n_ctx_train": 32768}), 4096),  # llama.cpp
        (
            {  # llama.cpp, older
                **listed(owned_by="llamacpp", meta={"n_ctx_train": 32768}),
                "/props": {"default_generation_settings": {"n_ctx": 2048}, "total_slots": 4},
            },
            2048,
        ),
        (listed(context_length=131072, top_provider={"context_length": 32768}), 32768),  # OpenRouter
        ({"/v1/models": [{"id": "tiny", "context_length": 16384}]}, 16384),  # Together
        (listed(owned_by="Meta", context_window=131072), 131072),  # Groq
        (listed(owned_by="mistralai", max_context_length=32768), 32768),  # Mistral
        (listed(max_input_tokens=200000), 200000),  # Anthropic
        (listed(metadata={"context_length": 40960}), 40960),  # DeepInfra
        (listed(capabilities={"limits": {"max_context_window_tokens": 64000}}), 64000),  # GitHub Copilot
        (
            {  # LM Studio
                **listed(owned_by="organization_owner"),
                "/api/v0/models": {
                    "data": [{"id": "tiny", "max_context_length": 32768, "loaded_context_length": 4096}]
                },
            },
            4096,
        ),
        ({**OLLAMA, "/api/ps": PS}, 4096),  # Ollama, loaded
        ({**OLLAMA, "/api/show": {"parameters": 'stop "x"\nnum_ctx                        8192\n'}}, 8192),
        ({**OLLAMA, "/api/show": {"model_info": {"qwen2.context_length": 32768}}}, 4096),
        ({**OLLAMA}, None),
        (listed(), None),
        ({}, None),
        (listed(context_length="many", max_model_len=True, context_window=-1, n_ctx=10**12), None),
        ({"/v1/models": {"data": {"tiny": 5}}}, None),
        ({"/v1/models": [5, None, "tiny"]}, None),
        ({"/v1/models": fake.answers(200, b"<html>", "text/html")}, None),
        ({"/v1/models": fake.answers(200, b"[" * 100_000)}, None),
        ({"/v1/models": fake.answers(302, b"", headers={"Location": "/elsewhere"}), "/elsewhere": {}}, None),
        ({**OLLAMA, "/api/ps": {"models": 5}, "/api/show": {"parameters": 5}}, 4096),
    ],
)
def test_the_context_is_read_where_a_server_tells_it(tells: dict[str, Any], tokens: int | None) -> None:
    with serving(fake.says("x")) as server:
        server.tells = tells
        endpoint = model(server)
        assert size(endpoint) == tokens or (tokens is None and endpoint.context_tokens == CONTEXT_TOKENS)
        asked = len(server.asked)
        assert size(endpoint) == endpoint.context_tokens
    assert len(server.asked) == asked  # once
    assert "/elsewhere" not in [path for path, _ in server.asked]
    assert set(server.keys) == {f"Bearer {KEY}"}


def test_a_context_that_was_given_is_not_asked_for() -> None:
    with serving(fake.says("x")) as server:
        server.tells = listed(max_model_len=8192)
        assert size(model(server, context_tokens=1000)) == 1000
    assert server.asked == []


def test_an_endpoint_that_is_not_there_tells_nothing() -> None:
    assert size(OpenAICompatible("tiny", "http://127.0.0.1:9/v1", KEY)) == CONTEXT_TOKENS
    assert size(OpenAICompatible("tiny", None, KEY)) == CONTEXT_TOKENS  # OpenAI's own is not even asked


def test_what_an_endpoint_tells_is_waited_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.models.endpoint_facts._WAIT_S", 0.1)

    def silent(handler: fake.Handler) -> None:
        handler.server.released.wait(60)

    with serving(fake.says("x")) as server:
        server.tells = {"/v1/models": silent, "/tokenize": silent}
        endpoint = model(server)
        assert size(endpoint) == CONTEXT_TOKENS
        assert asyncio.run(endpoint.count_tokens("some text")) == bounded_tokens("some text")


def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.models.endpoint_facts._MOST_BYTES", 1000)
    with serving(fake.says("x")) as server:
        server.tells = listed(max_model_len=8192, description="x" * 2000)
        assert size(model(server)) == CONTEXT_TOKENS


# Tokens.


@pytest.mark.parametrize(
    "shape",
    [
        lambda body: {"tokens": [ord(letter) for letter in body["content"]]},  # llama.cpp
        lambda body: {"count": len(body["prompt"]), "max_model_len": 9, "tokens": [ord(x) for x in body["prompt"]]},
    ],
)
def test_tokens_are_counted_by_the_models_own_tokenizer(shape: Any) -> None:
    with serving(fake.says("x")) as server:
        server.tells = {"/tokenize": shape}
        endpoint = model(server)
        assert [asyncio.run(endpoint.count_tokens(text)) for text in ("letters", "", "more")] == [7, 0, 4]
    assert server.asked[0][1]["model"] == "tiny"
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    "told",
    [None, {"tokens": []}, {"tokens": 5}, {"tokens": list(range(5000))}, [1, 2], fake.answers(200, b"no JSON")],
)
def test_where_that_fails_once_characters_are_counted_from_then_on(told: Any) -> None:
    with serving(fake.says("x")) as server:
        server.tells = {"/tokenize": told}
        endpoint = model(server)
        assert asyncio.run(endpoint.count_tokens("a" * 30)) == 10
        assert asyncio.run(endpoint.count_tokens("a" * 60)) == 20
    assert len(server.asked) == 1


def test_a_text_that_is_far_too_long_is_not_sent() -> None:
    with serving(fake.says("x")) as server:
        assert asyncio.run(model(server).count_tokens("a" * 600_000)) == 200_000
    assert server.asked == []
