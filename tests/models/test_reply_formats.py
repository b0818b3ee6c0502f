"""Replies that must fit a schema, choices or a grammar: at every kind of model, within bounds."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.errors import ContextExceeded, ModelError, UsageError
from atc.models.base import Model, WrappedModel
from atc.models.budget import Budget, BudgetedModel
from atc.models.cache import CachedModel
from atc.models.endpoint_facts import EndpointFormats
from atc.models.fake import FakeModel
from atc.models.messages import Message, ModelRequest, Reply
from atc.models.openai_compatible import OpenAICompatible
from atc.models.reply_format import MAX_ENFORCED, ReplyFormat, enforced
from tests.support.fake_openai_server import Handler, Server, fails, says, serving, status_error, takes_formats

PROMPT = [Message("system", "Be brief."), Message("user", "Where?")]
CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}
LYON = '{"name": "Lyon", "people": 522250}'
NAMES = ["find", "find_all", "get"]


def ask(model: Model, **options: Any) -> Reply:
    return asyncio.run(model.complete(PROMPT, **options))


def endpoint(server: Server, **options: Any) -> OpenAICompatible:
    return OpenAICompatible("tiny", server.url, "key", backoff_s=0.01, context_tokens=8_000, **options)


# Reading what models say.


@pytest.mark.parametrize(
    "text",
    [
        LYON,
        f"```json\n{LYON}\n```",
        f"```\n{LYON}\n```",
        f"Here [1] it is:\n{LYON}\nI hope that {{helps}}!",
        f'{{"value": {LYON}}}',
        f"```json {LYON}```",
    ],
)
def test_json_is_found_where_models_put_it(text: str) -> None:
    reply = ask(FakeModel([text]), schema=CITY)
    assert (reply.value, reply.problem, reply.text) == (json.loads(LYON), "", text)


@pytest.mark.parametrize(
    "text",
    ['{"name": "\\ud800", "people": 1}', '{"name": "x", "people": 1, "more": 1e999}', '{"name": NaN}', "{name: 1}"],
)
def test_what_is_no_sound_json_is_no_value(text: str) -> None:
    assert ask(FakeModel([text, text]), schema=CITY).problem.endswith("it holds no JSON")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("find", "find"),
        (" `find_all`. ", "find_all"),
        ('"get"', "get"),
        ('{"choice": "get"}', "get"),
        ('```json\n{"choice": "get"}\n```', "get"),
        ("The tool is find_all, not find.", "find_all"),
        ("get() fails", "get"),
    ],
)
def test_a_choice_is_found_in_what_models_say(text: str, value: str) -> None:
    assert ask(FakeModel([text]), choices=NAMES).value == value


@pytest.mark.parametrize("text", ["finder", "to_get", "Find", "", "none"])
def test_a_choice_that_is_not_named_is_none(text: str) -> None:
    reply = ask(FakeModel([text, text]), choices=NAMES)
    assert reply.value is None
    assert "choices" in reply.problem


@given(st.text(alphabet='{}[]",:a1`\n \\ud', max_size=80))
def test_no_reply_breaks_the_reading(text: str) -> None:
    for made in ({"schema": CITY}, {"choices": NAMES}, {"schema": {}}):
        wanted = ReplyFormat.of(**made)  # type: ignore[arg-type]
        assert wanted is not None
        read = wanted.read(text)
        assert read.problem or read.value is not None or "null" in text


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{" * 100_000, '{"a":' * 50_000, "```a\n" * 90_000, "9" * 100_000, "[1" * 90_000, "NaN"]
)
def test_a_hostile_reply_is_read_in_no_time(text: str) -> None:
    for made in ({"schema": CITY}, {"choices": [f"name_{n}" for n in range(2_000)]}):
        wanted = ReplyFormat.of(**made)  # type: ignore[arg-type]
        assert wanted is not None
        began = time.process_time()
        assert wanted.read(text).problem
        assert time.process_time() - began < 2


# Asking once more.


def test_a_reply_that_does_not_fit_is_asked_for_once_more_with_what_is_wrong() -> None:
    fake = FakeModel([Reply('{"name": 5}', "stop", 10, 3, 1.0), Reply(LYON, "stop", 20, 9, 2.0)])
    reply = ask(fake, schema=CITY)
    assert reply.value == json.loads(LYON)
    assert (reply.prompt_tokens, reply.completion_tokens, reply.seconds) == (30, 12, 3.0)
    shown, told = fake.prompts[1][-2:]
    assert (shown.role, shown.content, told.role) == ("assistant", '{"name": 5}', "user")
    assert '"people" is a required property' in told.content
    assert json.dumps(CITY) in told.content


def test_a_second_reply_that_does_not_fit_is_a_problem() -> None:
    reply = ask(FakeModel(["no", "nor this"]), schema=CITY)
    assert (reply.value, reply.text, reply.problem) == (None, "nor this", "the reply does not fit: it holds no JSON")


def test_a_reply_that_was_cut_is_not_asked_for_again() -> None:
    reply = ask(FakeModel([Reply('{"name": "Ly', "length", 1, 1, 0.0)]), schema=CITY)
    assert reply.value is None
    assert "cut at its limit" in reply.problem


def test_null_is_a_value() -> None:
    reply = ask(FakeModel(["null"]), schema={"type": "null"})
    assert (reply.value, reply.problem) == (None, "")


# Models of others.


class Spoken(Model):
    """A model as its author writes it, without a thought for formats."""

    name, context_tokens = "spoken", 1_000

    def __init__(self, *replies: str) -> None:
        self.replies, self.asked = list(replies), list[ModelRequest]()

    async def generate(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        return Reply(self.replies.pop(0), "stop", 1, 1, 0.0)


def test_a_model_that_knows_no_format_is_told_in_words() -> None:
    model = Spoken(LYON, "get", "free")
    assert ask(model, schema=CITY).value == json.loads(LYON)
    assert ask(model, choices=NAMES).value == "get"
    assert ask(model).value is None
    schema, choices, free = (request.messages[-1].content for request in model.asked)
    assert schema.startswith("Where?\n\nReply with one JSON value")
    assert json.dumps(CITY) in schema
    assert choices.endswith("```\nfind\nfind_all\nget\n```")
    assert free == "Where?"


def test_a_model_that_knows_no_format_is_told_of_it_once() -> None:
    model = Spoken("no", LYON)
    assert ask(model, schema=CITY).value == json.loads(LYON)
    assert [str(request.messages[1].content).count("JSON Schema") for request in model.asked] == [1, 1]


def test_an_override_that_passes_all_on_needs_nothing() -> None:
    class Passing(FakeModel):
        async def complete(self, messages: Sequence[Message], **options: Any) -> Reply:
            return await super().complete(messages, **options)

    assert ask(WrappedModel(Passing(["get"])), choices=NAMES).value == "get"


# Around a model.


def test_formats_go_through_budget_and_cache(tmp_path: Path) -> None:
    budget = Budget(model_calls=2)
    fake = FakeModel(["no", LYON, "other"])
    model = BudgetedModel(CachedModel(fake, tmp_path), budget)
    assert ask(model, schema=CITY).value == json.loads(LYON)
    again = ask(model, schema=CITY)
    assert (again.cached, again.value, len(fake.prompts)) == (True, json.loads(LYON), 2)
    assert budget.calls_used == 2
    assert budget.prompt_tokens > 0


def test_a_format_is_part_of_the_question(tmp_path: Path) -> None:
    cached = CachedModel(FakeModel(['"a"', '"a"', "find", "find"]), tmp_path)
    asked: list[dict[str, Any]] = [
        {"schema": {"type": "string"}},
        {"schema": {"type": "string", "maxLength": 9}},
        {"choices": NAMES},
        {"choices": ["find"]},
    ]
    assert not any(ask(cached, **each).cached for each in asked)
    assert all(ask(cached, **each).cached for each in asked)


def test_a_reply_that_does_not_fit_is_not_kept(tmp_path: Path) -> None:
    cached = CachedModel(FakeModel(["no", "no", LYON]), tmp_path)
    assert ask(cached, schema=CITY).problem
    assert ask(cached, schema=CITY).value == json.loads(LYON)


# Endpoints.


def test_an_endpoint_gets_the_schema_as_a_response_format() -> None:
    with serving(says(LYON)) as server:
        assert ask(endpoint(server), schema=CITY).value == json.loads(LYON)
    (request,) = server.requests
    sent = request["response_format"]["json_schema"]
    assert sent["schema"] == CITY | {"additionalProperties": False}
    assert sent["strict"] is True
    assert request["messages"][-1]["content"] == "Where?"


def test_choices_and_lists_stand_in_an_object_at_an_endpoint() -> None:
    with serving(says('{"choice": "get"}'), says('{"value": [1, 2]}')) as server:
        model = endpoint(server)
        assert ask(model, choices=NAMES).value == "get"
        assert ask(model, schema={"type": "array", "items": {"type": "integer"}}).value == [1, 2]
    first, second = (request["response_format"]["json_schema"]["schema"] for request in server.requests)
    assert first["properties"]["choice"]["enum"] == NAMES
    assert second["properties"]["value"] == {"type": "array", "items": {"type": "integer"}}


def test_an_endpoint_with_the_older_format_is_found_out_once() -> None:
    with serving(takes_formats("json_object", held=LYON, free="get")) as server:
        model = endpoint(server)
        assert ask(model, schema=CITY).value == json.loads(LYON)
        assert ask(model, schema=CITY).value == json.loads(LYON)
        assert ask(model, choices=NAMES).value == "get"  # there is no object to ask for
    sent = [request.get("response_format", {}).get("type") for request in server.requests]
    assert sent == ["json_schema", "json_object", "json_object", None]
    assert "JSON Schema" in server.requests[1]["messages"][-1]["content"]


NO_SCHEMA = "'response_format' of type 'json_schema' is not supported"
REFUSALS = [
    (400, "Invalid parameter: " + NO_SCHEMA + " with this model. Learn more about supported models."),
    (400, "This response_format type is unavailable now"),
    (400, "This model does not support response format `json_schema`. See supported models."),
    (400, "Unsupported response format"),
    (422, "JSON mode is not supported for this model"),
    (400, "[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text'\"}]"),
    (422, "{'loc': ['body', 'response_format'], 'msg': 'Extra inputs are not permitted'}"),
    (400, "guided_decoding is not enabled"),
    (400, "Structured output is not supported"),
    (400, "structured outputs are not enabled"),
    (501, "json_schema: not implemented"),
    (404, "No endpoints found that can use response_format"),
    (400, "Bad Request"),
    (400, "400 Bad Request."),
    (400, ""),
    (422, "Unprocessable Entity"),
    (400, "invalid_request_error"),
]


@pytest.mark.parametrize(("status", "words"), REFUSALS)
def test_a_format_is_refused_in_many_words(status: int, words: str) -> None:
    formats, request = EndpointFormats(), ModelRequest(tuple(PROMPT), format=ReplyFormat.of(CITY))
    for way in ("json_schema", "json_object"):
        assert formats.way == way
        assert formats.refused(request, {"response_format": {"type": way}}, status_error(status, words))
    assert formats.way == "words"
    assert not formats.refused(request, {}, status_error(status, words))


@pytest.mark.parametrize(
    ("status", "words"), [(400, "the model is asleep"), (400, "temperature is too high"), (429, "response_format")]
)
def test_another_error_is_none_about_the_format(status: int, words: str) -> None:
    formats, request = EndpointFormats(), ModelRequest(tuple(PROMPT), format=ReplyFormat.of(CITY))
    sent = {"response_format": {"type": "json_schema"}}
    assert not formats.refused(request, sent, status_error(status, words))


@pytest.mark.parametrize("kinds", [(), ("json_object",)])
@pytest.mark.parametrize(("status", "refusal"), [REFUSALS[0], (400, "")])
def test_a_format_that_is_refused_is_not_sent_again_and_that_is_reported_once(
    status: int, refusal: str, kinds: tuple[str, ...]
) -> None:
    def step(handler: Handler) -> None:
        sent = handler.server.requests[-1].get("response_format", {}).get("type", "")
        text = LYON if sent else f"```json\n{LYON}\n```"
        (fails(status, refusal) if sent and sent not in kinds else says(text))(handler)

    with serving(step) as server:
        model = endpoint(server)
        replies = [ask(model, schema=CITY) for _ in range(3)]
    assert [reply.value for reply in replies] == [json.loads(LYON)] * 3
    sent = [request.get("response_format", {}).get("type") for request in server.requests]
    assert sent == ["json_schema", "json_object", *([kinds[0]] * 2 if kinds else [None] * 3)]
    assert all(json.dumps(CITY) in request["messages"][-1]["content"] for request in server.requests[1:])
    first, *later = [reply.notice for reply in replies]
    refused, instead = ("schema", "as a JSON object") if kinds else ("object", "in the prompt alone")
    assert first.startswith(f"'tiny' at {server.url} refuses response_format (json_{refused}): ")
    assert instead in first
    assert later == ["", ""]


def test_an_error_that_names_nothing_is_not_about_the_format_where_it_comes_without_one_too() -> None:
    with serving(fails(400, "Bad Request")) as server:
        model = endpoint(server)
        with pytest.raises(ModelError, match="answered 400"):
            ask(model, schema=CITY)
        server.steps[:] = [says(LYON)]
        reply = ask(model, schema=CITY)
    assert (reply.value, reply.notice) == (json.loads(LYON), "")
    sent = [request.get("response_format", {}).get("type") for request in server.requests]
    assert sent == ["json_schema", "json_object", None, "json_schema"]


def test_a_prompt_that_is_too_long_is_not_taken_for_a_refusal_though_the_format_is_named() -> None:
    words = "maximum context length is 1000 tokens, however you requested 9000 tokens. Received: {'response_format': 1}"
    with serving(fails(400, words)) as server, pytest.raises(ContextExceeded):
        ask(endpoint(server), schema=CITY)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "ignoring", [f"```json\n{LYON}\n```", "Lyon has 522250 people.", '{"city": "Lyon"}', "{'name': 'Lyon'}", "{Lyon}"]
)
def test_a_format_that_is_ignored_is_not_sent_again_and_that_is_reported_once(ignoring: str) -> None:
    with serving(says(ignoring), says(LYON)) as server:
        model = endpoint(server)
        replies = [ask(model, schema=CITY) for _ in range(3)]
    assert [reply.value for reply in replies] == [json.loads(LYON)] * 3
    assert "response_format" in server.requests[0]
    assert not any("response_format" in request for request in server.requests[1:])
    assert "does not keep to response_format (json_schema)" in replies[0].notice
    assert [reply.notice for reply in replies[1:]] == ["", ""]


def test_a_schema_that_no_endpoint_need_keep_says_nothing_of_the_others() -> None:
    loose = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}
    with serving(says('{"b": 1}'), says('{"a": 1}'), says('{"a": 1}'), says(LYON)) as server:
        model = endpoint(server)
        assert [ask(model, schema=loose).value for _ in range(2)] == [{"a": 1}] * 2
        assert ask(model, schema=CITY).notice == ""
    assert ["response_format" in request for request in server.requests] == [True, False, False, True]


def test_values_beyond_their_bounds_are_no_sign_that_a_format_is_ignored() -> None:
    bounded = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}, "required": ["n"]}
    with serving(says('{"n": 9}'), says('{"n": 3}')) as server:
        assert ask(endpoint(server), schema=bounded).value == {"n": 3}
    assert ["response_format" in request for request in server.requests] == [True, True]


def test_requests_at_the_same_time_find_out_together() -> None:
    both = threading.Barrier(2)

    def step(handler: Handler) -> None:
        sent = handler.server.requests[-1].get("response_format", {}).get("type", "")
        if sent == "json_schema":
            both.wait(30)
            fails(400, NO_SCHEMA)(handler)
        else:
            says(LYON)(handler)

    async def twice(model: Model) -> list[Reply]:
        return list(await asyncio.gather(*(model.complete(PROMPT, schema=CITY) for _ in range(2))))

    with serving(step) as server:
        replies = asyncio.run(twice(endpoint(server)))
    sent = sorted(request["response_format"]["type"] for request in server.requests)
    assert sent == ["json_object"] * 2 + ["json_schema"] * 2
    assert sum(bool(reply.notice) for reply in replies) == 1


def test_a_notice_is_not_kept_with_a_reply(tmp_path: Path) -> None:
    with serving(fails(400, NO_SCHEMA), says(LYON)) as server:
        model = CachedModel(endpoint(server), tmp_path)
        assert ask(model, schema=CITY).notice
        again = ask(model, schema=CITY)
    assert (again.cached, again.notice) == (True, "")


def test_one_schema_that_is_refused_says_nothing_of_others() -> None:
    refusal = "Invalid schema for response_format 'reply': 'minItems' is not permitted."
    with serving(fails(400, refusal), says(LYON), says(LYON)) as server:
        model = endpoint(server)
        assert ask(model, schema=CITY).value == json.loads(LYON)
        assert ask(model, schema=CITY).value == json.loads(LYON)
        assert ask(model, schema={"type": "object", **CITY, "title": "other"}).value == json.loads(LYON)
    assert ["response_format" in request for request in server.requests] == [True, False, False, True]


def test_a_server_that_takes_grammars_gets_choices_as_one() -> None:
    with serving(takes_formats("grammar", held='say "hi"', free="")) as server:
        model = endpoint(server, takes_grammars=True)
        assert ask(model, choices=['say "hi"', "back\\slash"]).value == 'say "hi"'
    assert server.requests[0]["grammar"] == r'root ::= "say \"hi\"" | "back\\slash"'


def test_a_choice_whose_grammar_is_refused_goes_by_words() -> None:
    refusal = "Failed to initialize samplers: failed to parse grammar"
    with serving(takes_formats(held="", free="get", refusal=refusal)) as server:
        model = endpoint(server, takes_grammars=True)
        assert ask(model, choices=NAMES).value == "get"


# Bounds.


def bomb(levels: int, keyword: str = "allOf") -> dict[str, Any]:
    """A short schema whose references double at each level."""
    definitions: dict[str, Any] = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**definitions, f"d{levels}": {"type": "integer"}}, "$ref": "#/$defs/d0"}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    ("given", "says_why"),
    [
        ({"schema": bomb(20)}, "20,000 parts"),
        ({"schema": bomb(20, "anyOf")}, "20,000 parts"),
        ({"schema": nested(100)}, "64 levels"),
        ({"schema": nested(5_000)}, "64 levels"),
        ({"schema": {"enum": ["x" * 70_000]}}, "70,.* characters"),
        ({"schema": {"$ref": "https://example.org/schema.json"}}, "does not hold"),
        ({"schema": {"$ref": "#/$defs/none"}}, "does not hold"),
        ({"schema": {"$anchor": "a", "items": {"$ref": "#a"}}}, "does not hold"),
        ({"schema": {"items": {"$id": "x", "$ref": "#/a"}}}, "id"),
        ({"schema": {"$dynamicRef": "#a"}}, "dynamicRef"),
        ({"schema": {"type": 5}}, "schema"),
        ({"schema": {"const": float("nan")}}, "JSON"),
        ({"choices": []}, "no choices"),
        ({"choices": ["a\nb"]}, "one line"),
        ({"choices": ["x" * 300]}, "200 characters"),
        ({"choices": [f"choice number {n}" for n in range(5_000)]}, "characters"),
        ({"choices": ["a"], "schema": {}}, "not both"),
    ],
)
def test_what_is_too_large_or_no_format_is_turned_down(given: dict[str, Any], says_why: str) -> None:
    began = time.process_time()
    with pytest.raises(UsageError, match=says_why):
        ask(FakeModel([]), **given)
    assert time.process_time() - began < 2


RECURSIVE = {
    "$defs": {
        "node": {"type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}
    },
    "$ref": "#/$defs/node",
}


@pytest.mark.parametrize(
    "schema",
    [RECURSIVE, bomb(10, "anyOf"), nested(30), {"type": "object", "properties": {f"k{n}": {} for n in range(500)}}],
)
def test_what_no_grammar_can_say_is_told_in_words(schema: dict[str, Any]) -> None:
    assert enforced(schema) is None
    with serving(says("1")) as server:
        ask(endpoint(server), schema=schema)
    assert "response_format" not in server.requests[0]


def test_a_recursive_schema_holds_replies_all_the_same() -> None:
    whole = {"$id": "https://example.org/a", "type": "object", "additionalProperties": {"$ref": "#"}}
    assert ask(FakeModel(['{"a": {"b": {}}}']), schema=whole).value == {"a": {"b": {}}}
    assert ask(FakeModel(['{"below": [{"below": []}]}']), schema=RECURSIVE).value == {"below": [{"below": []}]}
    assert ask(FakeModel(['{"below": [{"below": 1}]}'] * 2), schema=RECURSIVE).problem


def test_what_a_grammar_would_spell_out_is_left_to_the_check() -> None:
    made = enforced(
        {
            "type": "object",
            "properties": {
                "list": {"type": "array", "minItems": 1, "maxItems": 10**9, "items": {"type": "string"}},
                "text": {"type": "string", "maxLength": 10**9, "pattern": "(a+)+$"},
                "number": {"type": "integer", "minimum": 0, "maximum": 10**30},
                "one": {"const": "x"},
                "many": {"enum": list(range(1_000))},
            },
        }
    )
    assert made is not None
    assert not made.strict
    assert made.schema["properties"] == {
        "list": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "text": {"type": "string"},
        "number": {"type": "integer", "minimum": 0},
        "one": {"type": "string", "enum": ["x"]},
        "many": {},
    }


SCHEMAS = st.recursive(
    st.one_of(
        st.just({}),
        st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "number", "boolean", "null"])}),
        st.lists(st.integers(-3, 3) | st.text(max_size=3) | st.none(), min_size=1, max_size=3).map(
            lambda values: {"enum": values}
        ),
    ),
    lambda inner: st.one_of(
        st.tuples(st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3), st.booleans()).map(
            lambda made: {"type": "object", "properties": made[0], "required": list(made[0]) if made[1] else []}
        ),
        inner.map(lambda items: {"type": ["array", "null"], "items": items, "maxItems": 2}),
        st.lists(inner, min_size=1, max_size=3).map(lambda members: {"anyOf": members}),
        inner.map(lambda only: {"allOf": [only]}),
    ),
    max_leaves=8,
)


@given(SCHEMAS)
def test_what_is_sent_is_a_small_schema_of_an_object(schema: dict[str, Any]) -> None:
    made = enforced(schema)
    assert made is not None
    jsonschema_rs.validator_for(made.schema)
    assert made.schema["type"] == "object"
    text = json.dumps(made.schema)
    assert text.count("{") <= 4 * MAX_ENFORCED
    assert "$ref" not in text
