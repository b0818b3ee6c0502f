"""The gateway of the ruler: it counts, caps and keeps the model's replies, and passes the tools' answers on."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from benchmarks.tasks.gateway import Caps, Gateway, Session, Upstream
from tests.support.fake_openai_server import Handler, answers, fails, serving, whole
from tests.support.gateway import World, a_try, replies, weather_episode

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's

QUESTION: dict[str, Any] = {"model": "mine", "messages": [{"role": "user", "content": "hello"}]}


def trying(*steps: Any, **options: Any) -> Callable[[Callable[[World], Awaitable[Any]]], Any]:
    """Run what is given in a try, and return what it returns."""

    def run(act: Callable[[World], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            async with a_try(*steps, **options) as world:
                return await act(world)

        return asyncio.run(main())

    return run


async def post(world: World, path: str, body: Any) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        return await client.post(f"{world.address}/{path}", json=body)


async def ask(world: World, **more: Any) -> httpx.Response:
    return await post(world, "v1/chat/completions", QUESTION | more)


def client(world: World) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{world.address}/v1", api_key="none", max_retries=0)


# Counts and caps ------------------------------------------------------------------------------------------------------


def test_a_reply_is_passed_on_and_counted() -> None:
    async def act(world: World) -> None:
        assert (await ask(world)).json()["choices"][0]["message"]["content"] == "hi"
        spent = world.spent
        assert (spent.model_calls, spent.prompt_tokens, spent.completion_tokens) == (1, 11, 7)
        assert spent.model_s > 0
        assert (spent.kept_calls, spent.over, spent.failure) == (0, "", "")

    trying(replies("hi"))(act)


def test_after_the_last_call_the_model_answers_no_more() -> None:
    async def act(world: World) -> None:
        assert [(await ask(world)).status_code for _ in range(3)] == [200, 200, 400]
        with pytest.raises(openai.BadRequestError, match="its 2 model calls are used up"):
            await client(world).chat.completions.create(**QUESTION)
        assert len(world.requests) == world.spent.model_calls == 2
        assert world.spent.over == "its 2 model calls are used up"

    trying(replies("hi"), caps=Caps(model_calls=2))(act)


def test_calls_at_the_same_time_do_not_pass_the_cap() -> None:
    async def act(world: World) -> None:
        statuses = await asyncio.gather(*(ask(world) for _ in range(5)))
        assert sorted(status.status_code for status in statuses) == [200, 200, 200, 400, 400]
        assert len({request["seed"] for request in world.requests}) == 3, "each is sampled by itself"

    trying(replies("hi"), caps=Caps(model_calls=3))(act)


def test_the_reply_that_goes_over_the_tokens_is_given_and_none_after_it() -> None:
    async def act(world: World) -> None:
        assert [(await ask(world)).status_code for _ in range(2)] == [200, 400]
        assert world.spent.over == "its 15 tokens are used up"

    trying(replies("hi", usage=(9, 7)), caps=Caps(tokens=15))(act)


def test_after_its_seconds_a_try_asks_no_more() -> None:
    async def act(world: World) -> None:
        assert (await ask(world)).status_code == 200
        world.session.began -= 5
        assert (await ask(world)).status_code == 400
        assert world.spent.over == "its 5 seconds are used up"

    trying(replies("hi"), caps=Caps(seconds=5))(act)


def test_model_and_sampling_are_the_benchmarks() -> None:
    async def act(world: World) -> None:
        await ask(world, temperature=2, top_p=0.1, n=4, seed=99, max_tokens=17)
        await ask(world, temperature=2)
        first, second = world.requests
        assert (first["model"], first["temperature"]) == ("tiny", 0.3)
        assert not {"top_p", "n", "stream"} & first.keys()
        assert first["max_tokens"] == 17, "how long a reply may be is the system's own"
        assert (first["seed"], second["seed"]) == (3000, 3001), "the same question again is sampled anew"

    trying(replies("hi"), seed=3)(act)


def test_where_an_endpoint_counts_nothing_the_schemas_of_the_tools_count_as_the_words_do() -> None:
    async def act(world: World) -> None:
        function = {"name": "weather", "description": "d" * 400, "parameters": {"type": "object"}}
        await ask(world)
        bare = world.spent.prompt_tokens
        await ask(world, tools=[{"type": "function", "function": function}])
        assert 0 < bare < 30
        assert 100 < world.spent.prompt_tokens - 2 * bare < 150
        assert 100 <= world.spent.completion_tokens / 2 < 150, "what a call is written with counts, too"

    trying(whole(tool_calls=[{"id": "1", "function": {"name": "weather", "arguments": "a" * 400}}]))(act)


def test_what_an_endpoint_takes_from_nobody_is_left_out_for_all() -> None:
    async def act(world: World) -> None:
        assert [(await ask(world)).status_code for _ in range(2)] == [200, 200]
        first, second, third, *later = world.requests
        assert {"max_tokens", "temperature"} <= first.keys()
        assert second["max_completion_tokens"] == first["max_tokens"]
        assert "max_tokens" not in second
        assert all("temperature" not in request for request in (third, *later))
        assert (len(world.requests), world.spent.model_calls) == (4, 2), "a refusal is no call"

    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    warm = "Unsupported value: 'temperature' does not support 0.3 with this model. Only the default (1) is supported."
    trying(fails(400, words), fails(400, warm), replies("hi"))(act)


# Kept replies ---------------------------------------------------------------------------------------------------------


def test_the_same_request_in_a_later_try_is_answered_from_disk_at_its_first_cost(tmp_path: Path) -> None:
    def slow(handler: Handler) -> None:
        time.sleep(0.2)
        replies("first")(handler)

    async def act(world: World) -> Any:
        texts = [(await ask(world)).json()["choices"][0]["message"]["content"] for _ in range(2)]
        return texts, world.spent, len(world.requests)

    texts, first, asked = trying(slow, replies("second"), kept=tmp_path)(act)
    assert (texts, asked) == (["first", "second"], 2)
    again, spent, asked = trying(replies("another"), kept=tmp_path)(act)
    assert (again, asked) == (texts, 0)
    assert (spent.model_calls, spent.kept_calls) == (2, 2)
    assert (spent.prompt_tokens, spent.completion_tokens, spent.shared_tokens) == (22, 14, 11)
    assert spent.model_s == spent.kept_s == pytest.approx(first.model_s)
    assert spent.kept_s > 0.2
    other, _, asked = trying(replies("another"), kept=tmp_path, seed=2)(act)
    assert (other, asked) == (["another"] * 2, 2)


def test_what_kept_replies_took_counts_for_the_seconds(tmp_path: Path) -> None:
    def slow(handler: Handler) -> None:
        time.sleep(2.1)
        replies("hi")(handler)

    async def act(world: World) -> list[int]:
        return [(await ask(world)).status_code for _ in range(2)]

    caps = Caps(seconds=2.0)
    assert trying(slow, kept=tmp_path, caps=caps)(act) == [200, 400]
    assert trying(slow, kept=tmp_path, caps=caps)(act) == [200, 400]


def test_a_broken_kept_reply_is_asked_for_again(tmp_path: Path) -> None:
    async def act(world: World) -> int:
        assert (await ask(world)).status_code == 200
        return len(world.requests)

    assert trying(replies("hi"), kept=tmp_path)(act) == 1
    for path in tmp_path.iterdir():
        path.write_text("{")
    assert trying(replies("hi"), kept=tmp_path)(act) == 1
    assert trying(replies("hi"), kept=tmp_path)(act) == 0


# Streams and failures -------------------------------------------------------------------------------------------------


def test_a_stream_is_one_that_the_openai_client_reads() -> None:
    async def act(world: World) -> None:
        options = {"stream": True, "stream_options": {"include_usage": True}}
        text, calls, usage, finish = "", [], None, ""
        stream: Any = await client(world).chat.completions.create(**QUESTION, **options)
        async for piece in stream:
            usage = piece.usage or usage
            for choice in piece.choices:
                text += choice.delta.content or ""
                calls += choice.delta.tool_calls or []
                finish = choice.finish_reason
        assert (text, finish) == ("so: ", "tool_calls")
        assert [(call.index, call.function.name) for call in calls] == [(0, "weather"), (1, "route")]
        assert json.loads(calls[0].function.arguments) == {"city": "Rome"}
        assert (usage.prompt_tokens, usage.completion_tokens) == (11, 7)

    trying(replies("so: ", [("weather", {"city": "Rome"}), ("route", {})]))(act)


def test_an_endpoint_that_fails_is_told_apart_from_one_that_turns_a_request_down() -> None:
    async def act(world: World) -> None:
        refused = await ask(world)
        assert (refused.status_code, refused.json()["error"]["message"]) == (400, "too long")
        assert world.spent.failure == ""
        assert (await ask(world)).status_code == 500
        assert "500" in world.spent.failure
        assert (await ask(world)).status_code == 504
        assert world.spent.model_calls == 0

    trying(fails(400, "too long"), fails(500), answers(200, b"<html>"))(act)


def test_what_fails_is_not_kept(tmp_path: Path) -> None:
    async def act(world: World) -> list[int]:
        return [(await ask(world)).status_code for _ in range(2)]

    assert trying(fails(500), replies("hi"), kept=tmp_path)(act) == [500, 200]


def test_the_key_of_the_endpoint_is_the_gateways() -> None:
    async def main() -> None:
        with serving(replies("hi")) as server:
            upstream = Upstream(server.url, "tiny", "tiny", 8_000, api_key="secret", direct=True)
            async with (
                Gateway(upstream, None).opened() as gateway,
                gateway.session(Session(weather_episode(), Caps(), 0.3, 1)) as address,
                openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none") as asking,
            ):
                assert [model.id async for model in asking.models.list()] == ["tiny"]
                await asking.chat.completions.create(**QUESTION)
            assert server.keys == ["Bearer secret"]

    asyncio.run(main())


# Tools ----------------------------------------------------------------------------------------------------------------


def test_a_tool_answers_and_its_call_is_noted() -> None:
    async def act(world: World) -> None:
        reply = await post(world, "tools/weather", {"city": "Rome"})
        assert reply.json() == {"value": {"city": "Rome", "degrees": 21}}
        assert world.calls == [("weather", {"city": "Rome"})]
        assert world.spent.tool_s > 0

    trying(replies("hi"))(act)


def test_a_tools_argument_may_go_by_the_name_that_python_can_write() -> None:
    async def act(world: World) -> None:
        for body in ({"from": "a", "to": "b"}, {"from_": "a", "to": "b"}):
            assert (await post(world, "tools/route", body)).json() == {"value": ["a", "b"]}
        assert world.calls == [("route", {"from": "a", "to": "b"})] * 2

    trying(replies("hi"))(act)


def test_a_tools_error_passes_as_an_error() -> None:
    async def act(world: World) -> None:
        reply = await post(world, "tools/weather", {"city": "Nowhere"})
        assert reply.json() == {"error": {"message": "there is no city Nowhere", "status": "not_found"}}
        reply = await post(world, "tools/trains", {})
        assert reply.json() == {"error": {"message": "there is no tool 'trains'", "status": "not_found"}}
        assert not world.session.episode.calls[0].done

    trying(replies("hi"))(act)


# The end of a try -----------------------------------------------------------------------------------------------------


async def a_gateway(url: str, use: Callable[[Gateway, Session], Awaitable[None]]) -> None:
    async with Gateway(Upstream(url, "tiny", "tiny", 8_000, direct=True), None).opened() as gateway:
        await use(gateway, Session(weather_episode(), Caps(), 0.3, 1))


def test_after_a_try_its_address_is_dead() -> None:
    async def use(gateway: Gateway, session: Session) -> None:
        async with gateway.session(session) as address:
            world = World(session, address, [])
            assert (await ask(world)).status_code == 200
        assert (await ask(world)).status_code == 404
        assert (await post(world, "tools/route", {"from": "a", "to": "b"})).status_code == 404
        assert session.episode.writes == 0
        assert session.spent.model_calls == 1

    with serving(replies("hi")) as server:
        asyncio.run(a_gateway(server.url, use))


def test_a_question_that_outlives_its_try_is_given_up() -> None:
    gone, reached = [], threading.Event()

    def never(handler: Handler) -> None:
        reached.set()
        handler.connection.settimeout(60)
        gone.append(handler.connection.recv(1) == b"")  # that is what the end of a connection looks like

    async def use(gateway: Gateway, session: Session) -> None:
        async with gateway.session(session) as address:
            asked = asyncio.create_task(ask(World(session, address, [])))
            assert await asyncio.to_thread(reached.wait, 60)
        assert (await asked).status_code == 404
        assert session.spent.failure == ""

    with serving(never) as server:
        began = time.monotonic()
        asyncio.run(a_gateway(server.url, use))
        while not gone and time.monotonic() < began + 60:
            time.sleep(0.01)
    assert gone == [True]
    assert time.monotonic() - began < 50
