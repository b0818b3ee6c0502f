"""An OpenAI-compatible endpoint may do anything; the user gets a reply, or an error that says what to mend."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import traceback
from email.utils import formatdate
from typing import Any

import pytest

from atc.errors import AtcError, ModelError, ModelUnavailable, SettingsError
from atc.models.messages import Message, Reply
from atc.models.openai_compatible import OpenAICompatible
from tests.support import fake_openai_server as fake
from tests.support.fake_openai_server import serving

KEY = "sk-very-secret-0123456789"
PROMPT = [Message("system", "You write Python."), Message("user", "Say hello.")]


def model(server: fake.Server | str, **options: Any) -> OpenAICompatible:
    url = server if isinstance(server, str) else server.url
    return OpenAICompatible("tiny", url, KEY, **{"timeout_s": 60, "backoff_s": 0.001, **options})


def ask(endpoint: OpenAICompatible, prompt: list[Message] = PROMPT, **options: Any) -> Reply:
    return asyncio.run(endpoint.complete(prompt, **options))


def failure(endpoint: OpenAICompatible, kind: type[AtcError] = ModelError) -> str:
    """The message of the error that asking ends in; the key is nowhere in it, nor in what a log would show of it."""
    with pytest.raises(kind) as caught:
        ask(endpoint)
    everything = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(endpoint)
    error: BaseException | None = caught.value
    while error is not None:
        everything += str(error) + repr(vars(error))
        error = error.__cause__ or error.__context__
    assert KEY not in everything
    return str(caught.value)


def test_a_reply_is_streamed_and_counted() -> None:
    pieces: list[str] = []
    with serving(fake.says("print(", "'hello')")) as server:
        reply = ask(model(server), seed=3, stop=["END"], max_tokens=50, temperature=0.2, on_text=pieces.append)
    assert reply.text == "print('hello')"
    assert pieces == ["print(", "'hello')"]
    assert (reply.finish_reason, reply.prompt_tokens, reply.completion_tokens) == ("stop", 11, 7)
    assert reply.model == "tiny"
    assert not reply.cached
    (sent,) = server.requests
    assert sent["messages"] == [{"role": m.role, "content": m.content} for m in PROMPT]
    assert (sent["seed"], sent["stop"], sent["max_tokens"], sent["temperature"]) == (3, ["END"], 50, 0.2)
    assert server.keys == [f"Bearer {KEY}"]


def test_texts_that_end_a_reply_end_it_here_where_the_endpoint_takes_fewer() -> None:
    stops = ["A(", "B(", "C(", "D(", "def e("]
    with serving(fake.says("x = 1\nde", "f e(", "n):\n", "    pass")) as server:
        reply = ask(model(server), stop=stops)
    assert (reply.text, reply.finish_reason) == ("x = 1\n", "stop")
    assert server.requests[0]["stop"] == stops[:4]


@pytest.mark.parametrize("way", ["beside", "within"])
def test_texts_that_end_a_reply_end_nothing_in_its_thoughts(way: str) -> None:
    thoughts = "def e(n): def e(m):"
    step = fake.thinks(thoughts, "y = 2") if way == "beside" else fake.says(f"<think>{thoughts}</think>", "y = 2")
    with serving(step, step) as server:
        thinking = model(server)
        assert [ask(thinking, stop=["def e("]).text for _ in range(2)] == ["y = 2", "y = 2"]
    assert ["stop" in sent for sent in server.requests] == [True, False]


def test_one_model_serves_several_event_loops_one_after_the_other() -> None:
    with serving(fake.says("a")) as server:
        endpoint = model(server)
        assert [ask(endpoint).text for _ in range(3)] == ["a", "a", "a"]


def test_missing_usage_is_estimated_from_the_characters() -> None:
    with serving(fake.says("x" * 40, usage=None)) as server:
        reply = ask(model(server))
    assert reply.completion_tokens == 10
    assert reply.prompt_tokens > 0


@pytest.mark.parametrize(
    ("said", "means"), [("stop", "stop"), ("length", "length"), ("tool_calls", "other"), (None, "other")]
)
def test_the_reason_for_the_end_is_told(said: str | None, means: str) -> None:
    with serving(fake.says("x", finish=said)) as server:
        assert ask(model(server)).finish_reason == means


def test_an_answer_in_one_piece_is_taken_where_a_stream_was_asked_for() -> None:
    answer = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2},
    }
    with serving(fake.answers(200, json.dumps(answer).encode())) as server:
        reply = ask(model(server))
    assert (reply.text, reply.finish_reason, reply.prompt_tokens) == ("whole", "stop", 5)


@pytest.mark.parametrize(
    "step",
    [
        fake.answers(200, b"<html>welcome</html>", "text/html"),
        fake.answers(200, b"not json {", "application/json"),
        fake.answers(200, b'{"choices": null}', "application/json"),
        fake.answers(200, b"[1, 2]", "application/json"),
        fake.streams(b"data: not json\n\n"),
        fake.streams(b"data: [1, 2]\n\n"),
        fake.streams(b"data: 5\n\n"),
        fake.streams(b'data: {"choices": []}\n\n', b"data: [DONE]\n\n"),
        fake.streams(b'data: {"choices": {"a": 1}}\n\n', b"data: [DONE]\n\n"),
        fake.streams(b'data: {"error": {"message": "the model crashed"}}\n\n'),
        fake.streams(b""),
    ],
)
def test_junk_is_an_error_of_the_endpoint(step: fake.Step) -> None:
    with serving(step) as server:
        message = failure(model(server, max_attempts=2), ModelError)
    assert server.url in message


def test_pieces_of_the_wrong_type_are_no_text() -> None:
    odd = b'data: {"choices": [{"index": 0, "delta": {"content": 5}}, {"index": 0, "delta": null}, 3]}\n\n'
    good = b'data: {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}\n\n'
    with serving(fake.streams(odd, good)) as server:
        assert ask(model(server)).text == "ok"


def test_a_refused_key_names_the_setting_and_is_not_shown_even_if_the_endpoint_repeats_it() -> None:
    with serving(fake.fails(401, f"Incorrect API key provided: {KEY}")) as server:
        message = failure(model(server), ModelUnavailable)
    assert "OPENAI_API_KEY" in message
    assert "Incorrect API key provided: [key]" in message
    assert len(server.requests) == 1


def test_a_key_that_may_not_use_the_model_names_both_settings() -> None:
    with serving(fake.fails(403)) as server:
        message = failure(model(server), ModelUnavailable)
    assert "OPENAI_API_KEY" in message
    assert "ATC_MODEL" in message


def test_nothing_at_the_address_names_the_address() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"  # bound, not listening: refused
        message = failure(model(url, max_attempts=2), ModelUnavailable)
    assert url in message
    assert "OPENAI_BASE_URL" in message


def test_too_many_requests_are_waited_for_as_long_as_the_endpoint_asks() -> None:
    with serving(fake.fails(429, headers={"Retry-After": "0.1"}), fake.says("at last")) as server:
        started = time.monotonic()
        assert ask(model(server)).text == "at last"
        assert time.monotonic() - started >= 0.1


@pytest.mark.parametrize("asked", ["3600", formatdate(time.time() + 7200, usegmt=True)], ids=["seconds", "date"])
def test_an_endpoint_that_asks_for_an_hour_is_not_waited_for(asked: str) -> None:
    with serving(fake.fails(429, "slow down", headers={"Retry-After": asked})) as server:
        message = failure(model(server), ModelError)
    assert "slow down" in message
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_an_overloaded_endpoint_is_asked_a_bounded_number_of_times(status: int) -> None:
    with serving(fake.fails(status)) as server:
        assert str(status) in failure(model(server, max_attempts=3), ModelError)
    assert len(server.requests) == 3


def test_a_wrong_request_is_not_repeated() -> None:
    with serving(fake.fails(400, "the prompt is too long")) as server:
        assert "too long" in failure(model(server), ModelError)
    assert len(server.requests) == 1


def test_parameters_that_the_endpoint_does_not_know_are_left_out_from_then_on() -> None:
    script = [fake.fails(400, "unknown parameter: 'seed'"), fake.fails(422, "extra field", param="stream_options")]
    with serving(*script, fake.says("fine")) as server:
        endpoint = model(server)
        assert ask(endpoint, seed=1).text == "fine"
        assert ask(endpoint, seed=1).text == "fine"
    assert [("seed" in sent, "stream_options" in sent) for sent in server.requests] == [
        (True, True),
        (False, True),
        (False, False),
        (False, False),
    ]


def test_an_endpoint_that_turns_a_parameter_down_for_ever_is_an_error() -> None:
    with serving(fake.fails(400, "unknown parameter: stream_options")) as server:
        assert "stream_options" in failure(model(server), ModelError)
    assert len(server.requests) == 2


def test_a_dropped_connection_is_tried_again() -> None:
    with serving(fake.breaks_off("half a rep"), fake.says("a whole reply")) as server:
        assert ask(model(server)).text == "a whole reply"


@pytest.mark.parametrize(
    ("step", "options", "words"),
    [
        (fake.breaks_off("half"), {"max_attempts": 2}, "lost"),
        (fake.hangs("half"), {"max_attempts": 1, "stall_s": 0.1}, "middle"),
        (fake.hangs(), {"max_attempts": 1, "timeout_s": 0.15}, "0.15 s"),
    ],
    ids=["dropped", "silent in the middle", "silent from the start"],
)
def test_a_reply_that_never_comes_to_its_end_is_an_error(step: fake.Step, options: Any, words: str) -> None:
    with serving(step) as server:
        assert words in failure(model(server, **options))


def test_silence_after_the_end_of_a_reply_does_no_harm() -> None:
    with serving(fake.hangs("done", finish="stop")) as server:
        assert ask(model(server, stall_s=0.5)).text == "done"


def test_a_model_that_never_stops_is_cut() -> None:
    with serving(fake.never_stops) as server:
        reply = ask(model(server), max_tokens=10)
    assert reply.finish_reason == "length"
    assert len(reply.text) <= 2_200


LOOP = "def get_temperature(city: str) -> float:\n    return weather(city=city)['temperature']\n\n"


@pytest.mark.parametrize("size", [1, 7, 300])
def test_a_reply_that_goes_round_in_circles_is_cut_long_before_its_limit(size: int) -> None:
    said = "```python\nimport json\n" + 60 * LOOP
    with serving(fake.says(*(said[at : at + size] for at in range(0, len(said), size)))) as server:
        reply = ask(model(server), max_tokens=2000)
    assert reply.finish_reason == "length"
    assert said.startswith(reply.text)
    assert len(reply.text) < len(said) / 3


@pytest.mark.parametrize(
    "text",
    [
        "rows = [" + "0, " * 400 + "]",
        "\n".join(f"city_{n} = get_temperature(city=names[{n}])" for n in range(60)),
        5 * LOOP + "answer = 1",
        "x = 1\n" + "\n" * 800,
    ],
)
def test_what_only_looks_alike_is_not_cut(text: str) -> None:
    with serving(fake.says(*(text[at : at + 5] for at in range(0, len(text), 5)))) as server:
        reply = ask(model(server), max_tokens=2000)
    assert (reply.text, reply.finish_reason) == (text, "stop")


THOUGHTS = {
    "beside the reply": lambda *said, finish="stop": fake.thinks("let me see", *said, finish=finish),
    "under another name": lambda *said, finish="stop": fake.thinks(
        "let me see", *said, under="reasoning", finish=finish
    ),
    "only counted": lambda *said, finish="stop": fake.thinks("", *said, finish=finish, counted=93),
    "within the reply": lambda *said, finish="stop": fake.says(
        "<think>let me", " see", "</think>\n\n" if said else "", *said, finish=finish
    ),
}


@pytest.mark.parametrize("way", [way for way in THOUGHTS if way != "only counted"])
def test_thoughts_are_no_part_of_a_reply(way: str) -> None:
    with serving(THOUGHTS[way]("Hello ", "there")) as server:
        reply = ask(model(server))
    assert (reply.text, reply.finish_reason) == ("Hello there", "stop")


@pytest.mark.parametrize("way", THOUGHTS)
def test_a_model_that_thought_too_long_is_asked_again_with_room_for_it_and_from_then_on(way: str) -> None:
    cut, whole = THOUGHTS[way](finish="length"), THOUGHTS[way]("Hello")
    with serving(cut, whole) as server:
        endpoint = model(server, thinking_tokens=500)
        first, second = ask(endpoint, max_tokens=40), ask(endpoint, max_tokens=60)
    assert (first.text, second.text) == ("Hello", "Hello")
    assert [request["max_tokens"] for request in server.requests] == [40, 540, 560]
    assert first.completion_tokens == 2 * second.completion_tokens  # both tries were paid for


def test_a_reply_that_is_cut_without_a_thought_is_not_asked_for_again() -> None:
    with serving(fake.says("def f(): pass", finish="length")) as server:
        assert ask(model(server), max_tokens=40).finish_reason == "length"
    assert len(server.requests) == 1


def test_thoughts_without_end_are_asked_for_once_more_and_no_more() -> None:
    with serving(fake.thinks("hmm", finish="length")) as server:
        reply = ask(model(server), max_tokens=40)
    assert (reply.text, reply.finish_reason) == ("", "length")
    assert len(server.requests) == 2


def test_room_to_think_keeps_to_the_context_and_to_what_the_user_sets() -> None:
    for options, most in (({"context_tokens": 1_000}, 1_000), ({"thinking_tokens": 0}, 40)):
        with serving(fake.thinks("hmm", "x")) as server:
            endpoint = model(server, **options)
            ask(endpoint)
            ask(endpoint, max_tokens=40)
        assert server.requests[1]["max_tokens"] <= most


def test_a_flood_of_thoughts_is_cut() -> None:
    def floods(handler: fake.Handler) -> None:
        handler.begin_stream()
        while not handler.server.released.is_set():
            handler.send_event({"choices": [{"index": 0, "delta": {"reasoning_content": "hm " * 100}}]})

    with serving(floods) as server:
        reply = ask(model(server), max_tokens=10)
    assert (reply.text, reply.finish_reason, len(server.requests)) == ("", "length", 1)


def test_empty_tags_are_no_thoughts() -> None:
    with serving(fake.says("<think>\n\n</think>\n\nHello")) as server:
        endpoint = model(server)
        assert [ask(endpoint, max_tokens=40).text for _ in range(2)] == ["Hello", "Hello"]
    assert [request["max_tokens"] for request in server.requests] == [40, 40]


def test_an_endpoint_that_allows_no_more_tokens_is_asked_for_no_more() -> None:
    refuses = fake.fails(400, "max_tokens is too large: 8232 > 4096", param="max_tokens")
    with serving(fake.thinks("hm", "def f(): pass", finish="length"), refuses, fake.thinks("hm", "x")) as server:
        endpoint = model(server)
        assert [ask(endpoint, max_tokens=40).text for _ in range(2)] == ["x", "x"]
    assert [request["max_tokens"] for request in server.requests] == [40, 8232, 40, 40]


def test_a_second_try_takes_the_place_of_what_was_cut_only_if_it_says_something() -> None:
    with serving(fake.thinks("hm", "half of it", finish="length"), fake.thinks("hm hm", finish="length")) as server:
        assert ask(model(server), max_tokens=40).text == "half of it"


def test_thoughts_that_an_endpoint_does_not_count_leave_the_reply_its_room() -> None:
    with serving(fake.thinks(" ".join(f"step{n}" for n in range(1500)), "Hello")) as server:
        assert ask(model(server, thinking_tokens=0), max_tokens=60).text == "Hello"


def test_thoughts_that_go_round_in_circles_are_cut() -> None:
    with serving(fake.thinks(" ".join(40 * ["but-wait-I-should-look-at-the-weather-of-Lyon-once-more"]))) as server:
        reply = ask(model(server), max_tokens=2000)
    assert (reply.text, reply.finish_reason, len(server.requests)) == ("", "length", 1)


def test_an_error_of_the_display_is_not_blamed_on_the_endpoint() -> None:
    def broken(_: str) -> None:
        raise ZeroDivisionError

    with serving(fake.says("a")) as server, pytest.raises(ZeroDivisionError):
        ask(model(server), on_text=broken)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host/v1", "", "http://"])
def test_an_address_that_is_none_is_turned_down_at_once(url: str) -> None:
    with pytest.raises(SettingsError, match="base_url"):
        OpenAICompatible("tiny", url, KEY)


def test_a_key_with_a_line_end_is_turned_down_without_showing_it() -> None:
    with pytest.raises(SettingsError, match="OPENAI_API_KEY") as caught:
        OpenAICompatible("tiny", "http://h/v1", KEY + "\n")
    assert KEY not in str(caught.value)


def test_credentials_in_the_address_are_not_shown() -> None:
    endpoint = OpenAICompatible("tiny", "http://user:hunter2@localhost:1/v1?token=hunter2")
    assert "hunter2" not in repr(endpoint) + endpoint.url


def test_openais_own_endpoint_needs_a_key() -> None:
    with pytest.raises(ModelUnavailable, match="OPENAI_API_KEY"):
        asyncio.run(OpenAICompatible("gpt").complete(PROMPT))
