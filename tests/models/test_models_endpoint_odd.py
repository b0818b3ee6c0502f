"""Endpoints that know only a part of what is asked of them, or answer otherwise than with a text: handled, or named."""

from __future__ import annotations

import asyncio
import json

import pytest

from atc.errors import ContextExceeded
from atc.models.messages import Message
from tests.models.test_models_endpoint import KEY, PROMPT, ask, failure, model
from tests.support import fake_openai_server as fake
from tests.support.fake_openai_server import serving

# What an endpoint does not know.


@pytest.mark.parametrize(
    ("status", "said", "param"),
    [
        (400, "Your organization must be verified to stream this model.", "stream"),
        (400, "stream=true is not supported by this deployment", None),
        (422, "Extra inputs are not permitted", "stream"),
        (405, "Streaming is not enabled", None),
        (501, "streaming not implemented", None),
    ],
)
def test_an_endpoint_that_does_not_stream_is_asked_for_the_whole(status: int, said: str, param: str | None) -> None:
    seen: list[str] = []
    with serving(fake.fails(status, said, param=param), fake.whole(content="all of it")) as server:
        endpoint = model(server)
        assert ask(endpoint, on_text=seen.append).text == "all of it"
        assert ask(endpoint).text == "all of it"
    assert seen == ["all of it"]
    assert [("stream" in sent, "stream_options" in sent) for sent in server.requests] == [
        (True, True),
        (False, False),
        (False, False),
    ]


def test_stream_options_alone_are_left_out_where_only_they_are_refused() -> None:
    with serving(fake.fails(400, "stream_options is only allowed when stream is set"), fake.says("a")) as server:
        assert ask(model(server)).text == "a"
    assert server.requests[1]["stream"] is True


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "System role not supported"),
        (400, "Unsupported value: 'messages[0].role' does not support 'system' with this model."),
        (400, "Conversation roles must alternate user/assistant/user/assistant/..."),
        (400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
        (424, "Request failed during generation: Only user and assistant roles are supported!"),
        (500, "Only user, assistant and tool roles are supported, got system. at row 189, column 164"),
    ],
)
def test_a_model_without_the_role_system_has_its_text_in_the_first_message(status: int, said: str) -> None:
    prompt = [*PROMPT, Message("assistant", "print(1)"), Message("user", "Again."), Message("user", "Better.")]
    with serving(fake.fails(status, said), fake.says("hello")) as server:
        endpoint = model(server)
        assert ask(endpoint, prompt).text == "hello"
        assert ask(endpoint, prompt).text == "hello"
    assert [sent["messages"][0]["role"] for sent in server.requests] == ["system", "user", "user"]
    assert server.requests[1]["messages"] == [
        {"role": "user", "content": "You write Python.\n\nSay hello."},
        {"role": "assistant", "content": "print(1)"},
        {"role": "user", "content": "Again.\n\nBetter."},
    ]


def test_a_refusal_of_the_role_that_stays_is_an_error() -> None:
    with serving(fake.fails(400, "roles must alternate")) as server:
        assert "roles must alternate" in failure(model(server))
    assert len(server.requests) == 2


# Replies that are no text.

CALL = {"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Lyon"}'}}


@pytest.mark.parametrize(
    "step",
    [
        fake.whole("tool_calls", content=None, tool_calls=[CALL]),
        fake.whole("function_call", content=None, function_call=CALL["function"]),
        fake.deltas(
            {"tool_calls": [{"index": 0, "id": "1", "function": {"name": "get_weather", "arguments": ""}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '"Lyon"}'}}]},
            finish="tool_calls",
        ),
    ],
)
def test_calls_in_the_place_of_a_text_are_named_and_shown(step: fake.Step) -> None:
    with serving(step) as server:
        reply = ask(model(server))
    assert (reply.text, reply.finish_reason) == ("", "other")
    assert "calls of tools" in reply.problem
    assert 'get_weather {"city": "Lyon"}' in reply.problem


def test_calls_beside_a_text_are_no_problem() -> None:
    with serving(fake.whole("tool_calls", content="answer = 1", tool_calls=[CALL])) as server:
        reply = ask(model(server))
    assert (reply.text, reply.problem) == ("answer = 1", "")


def test_a_flood_of_calls_is_cut() -> None:
    def floods(handler: fake.Handler) -> None:
        handler.begin_stream()
        while not handler.server.released.is_set():
            call = {"index": 0, "function": {"arguments": "x" * 500}}
            handler.send_event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})

    with serving(floods) as server:
        assert ask(model(server), max_tokens=10).finish_reason == "length"


PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "let me see"}]},
    {"type": "text", "text": "answer "},
    {"type": "text", "text": "= 1"},
    {"type": "image", "image": 5},
    7,
]


@pytest.mark.parametrize("step", [fake.whole(content=PARTS), fake.deltas(*({"content": [part]} for part in PARTS))])
def test_a_list_of_parts_is_read_as_text_and_thoughts(step: fake.Step) -> None:
    with serving(step) as server:
        reply = ask(model(server, thinking_tokens=0))
    assert (reply.text, reply.problem) == ("answer = 1", "")
    assert reply.completion_tokens > 3  # the thoughts count


@pytest.mark.parametrize(
    "step",
    [
        fake.whole(content=None, refusal="I cannot help with that."),
        fake.whole(content=[{"type": "refusal", "refusal": "I cannot help with that."}]),
        fake.deltas({"refusal": "I cannot "}, {"refusal": "help with that."}),
    ],
)
def test_a_refusal_ends_it_and_is_shown(step: fake.Step) -> None:
    with serving(step) as server:
        message = failure(model(server))
    assert "refused" in message
    assert "I cannot help with that." in message
    assert len(server.requests) == 1


def test_a_filtered_reply_ends_it_and_what_came_is_shown() -> None:
    with serving(fake.says("answer = ", finish="content_filter")) as server:
        message = failure(model(server))
    assert "content filter" in message
    assert "It had written: answer =" in message
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (fake.says(), "the reply is empty"),
        (fake.says("  \n"), "the reply is empty"),
        (fake.whole(content=None), "the reply is empty"),
        (fake.thinks("hm " * 40), "tokens of thoughts and nothing after them"),
    ],
)
def test_an_empty_reply_says_so(step: fake.Step, words: str) -> None:
    with serving(step) as server:
        assert words in ask(model(server, thinking_tokens=0)).problem


# A prompt that is too long.


def test_a_prompt_that_is_too_long_tells_the_numbers_and_the_limit_is_kept() -> None:
    said = "request (3030 tokens) exceeds the available context size (1024 tokens), try increasing it"
    step = fake.fails(400, said, type="exceed_context_size_error", n_prompt_tokens=3030, n_ctx=1024)
    with serving(step) as server:
        endpoint = model(server)
        with pytest.raises(ContextExceeded) as caught:
            ask(endpoint)
        assert (caught.value.limit, caught.value.requested) == (1024, 3030)
        assert asyncio.run(endpoint.context_size()) == 1024
    assert "context_tokens" in str(caught.value)
    assert said in str(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "step",
    [
        fake.streams(b'data: {"error": "The number of tokens to keep (n_keep: 9000 >= n_ctx: 4096)"}\n\n'),
        fake.streams(b'data: {"error": {"message": "prompt is too long: 9000 tokens > 4096 maximum"}}\n\n'),
        fake.answers(
            200, json.dumps({"error": {"message": "prompt is too long: 9000 tokens > 4096 maximum"}}).encode()
        ),
        fake.answers(200, json.dumps({"error": "prompt is too long: 9000 tokens > 4096 maximum"}).encode()),
        fake.fails(
            413, "Request too large for m on tokens per minute (TPM): Limit 4096, Requested 9000, please reduce"
        ),
        fake.fails(429, "Request too large for m on tokens per min (TPM): Limit 4096, Requested 9000."),
        fake.fails(500, "the prompt: prompt is too long: 9000 tokens > 4096 maximum"),
    ],
)
def test_it_is_known_wherever_it_stands(step: fake.Step) -> None:
    with serving(step) as server, pytest.raises(ContextExceeded) as caught:
        ask(model(server))
    assert (caught.value.limit, caught.value.requested) == (4096, 9000)
    assert len(server.requests) == 1


def test_a_rate_limit_is_waited_for_and_not_taken_for_it() -> None:
    said = "Rate limit reached on tokens per min (TPM): Limit 30000, Used 28000, Requested 5000. Try again in 6s."
    with serving(fake.fails(429, said), fake.says("at last")) as server:
        assert ask(model(server)).text == "at last"


def test_room_to_think_is_given_up_before_a_prompt_is_called_too_long() -> None:
    said = "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens"
    with serving(fake.thinks("hm", "x"), fake.fails(400, said), fake.thinks("hm", "y")) as server:
        endpoint = model(server)
        assert [ask(endpoint, max_tokens=40).text for _ in range(2)] == ["x", "y"]


# Stalls and odd errors.


@pytest.mark.parametrize("step", [fake.hangs(), lambda handler: handler.server.released.wait(60)])
def test_an_endpoint_that_says_nothing_is_given_up_once(step: fake.Step) -> None:
    with serving(step) as server:
        message = failure(model(server, stall_s=0.1))
        assert len(server.requests) == 1
    assert "sent nothing for 0.1 s" in message
    assert "ATC_MODEL_STALL_S" in message


def test_an_error_with_status_200_is_shown() -> None:
    with serving(fake.answers(200, b'{"error": {"message": "no GPU is free"}}')) as server:
        assert "no GPU is free" in failure(model(server, max_attempts=1))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (f"<html>please log in {KEY}</html>", "text/html"),
        (f"please log in {KEY}", "application/json"),
        (json.dumps({"detail": f"please log in {KEY}"}), "application/json"),
        (json.dumps(["please log in", KEY]), "application/json"),
    ],
)
def test_an_answer_that_is_no_reply_is_shown_without_the_key(body: str, kind: str) -> None:
    with serving(fake.answers(200, body.encode(), kind)) as server:
        message = failure(model(server, max_attempts=1))
    assert "please log in" in message
    assert server.url in message


# Where it leads.


def redirects(to: str) -> fake.Step:
    def step(handler: fake.Handler) -> None:
        handler.send_response(307)
        handler.send_header("Location", to)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return step


def test_a_prompt_follows_no_redirect_to_another_server() -> None:
    with serving(fake.says("stolen")) as other, serving(redirects(f"{other.url}/chat/completions")) as server:
        assert "answered 307" in failure(model(server))
        assert other.requests == []


def test_a_redirect_within_the_server_is_followed() -> None:
    with serving(redirects("/elsewhere/chat/completions"), fake.says("hello")) as server:
        assert ask(model(server)).text == "hello"
        assert len(server.requests) == 2
        assert server.keys == [f"Bearer {KEY}"] * 2
