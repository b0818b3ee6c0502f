"""OAuth 2: tokens are fetched when they are needed, kept while they last, renewed once, and shown nowhere."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any
from urllib.parse import parse_qs

import pytest

from atc.errors import ToolError, UsageError
from atc.tools.openapi.importer import import_openapi
from atc.tools.tool import Toolset
from tests.support.openapi import Answer, Server, call, document, operation

CLIENT = {"client_id": "me", "client_secret": "s3cret/word"}


@pytest.fixture
def server(server: Server) -> Server:
    server.answers["/token"] = token("first-token-abc", expires_in=3600)
    return server


def token(access_token: str, **rest: Any) -> Answer:
    return Answer(json.dumps({"access_token": access_token, "token_type": "Bearer", **rest}).encode())


def tools_for(server: Server, auth: Any = None, flow: str = "clientCredentials", method: str = "get") -> Toolset:
    scheme = {"type": "oauth2", "flows": {flow: {"tokenUrl": f"{server.url}/token", "scopes": {}}}}
    node = operation(security=[{"oauth": []}])
    root = document({"/a": {method: node}}, components={"securitySchemes": {"oauth": scheme}})
    return import_openapi(root, base_url=server.url, auth={"oauth": CLIENT if auth is None else auth})


def asked(server: Server) -> list[dict[str, str]]:
    """The forms that the token endpoint got."""
    return [{k: v[0] for k, v in parse_qs(s.body.decode()).items()} for s in server.seen if s.path == "/token"]


def sent(server: Server) -> list[str | None]:
    """The credentials that the service itself got."""
    return [s.headers.get("authorization") for s in server.seen if s.path == "/a"]


def test_a_token_is_fetched_with_client_credentials_and_kept(server: Server) -> None:
    tools = tools_for(server, CLIENT | {"scope": "a b", "audience": "api"})
    call(tools)
    call(tools)
    assert asked(server) == [{"grant_type": "client_credentials", "scope": "a b", "audience": "api"}]
    assert server.seen[0].headers["authorization"] == "Basic " + base64.b64encode(b"me:s3cret%2Fword").decode()
    assert sent(server) == ["Bearer first-token-abc"] * 2


def test_the_secret_may_travel_in_the_form(server: Server) -> None:
    call(tools_for(server, CLIENT | {"client_auth": "body"}))
    assert asked(server) == [{"grant_type": "client_credentials", **CLIENT}]
    assert "authorization" not in server.seen[0].headers


def test_calls_at_once_share_one_token(server: Server) -> None:
    (tool,) = tools_for(server).values()
    assert tool.transport is not None
    transport = tool.transport

    async def go() -> None:
        await asyncio.gather(*(transport({}) for _ in range(5)))

    asyncio.run(go())
    assert len(asked(server)) == 1
    assert sent(server) == ["Bearer first-token-abc"] * 5


def test_a_refresh_token_is_changed_for_access_tokens_and_may_be_replaced(server: Server) -> None:
    tools = tools_for(server, {"client_id": "me", "refresh_token": "refresh-1"}, "authorizationCode")
    server.answers["/token"] = token("one-token-abc", refresh_token="refresh-2", expires_in=0.0001)
    call(tools)
    call(tools)
    form = {"grant_type": "refresh_token", "client_id": "me"}
    assert asked(server) == [form | {"refresh_token": "refresh-1"}, form | {"refresh_token": "refresh-2"}]


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_refused_token_is_renewed_once(server: Server, method: str) -> None:
    tools = tools_for(server, method=method)
    call(tools)
    server.answers["/token"] = token("second-token-abc")
    server.answers["/a"] = Answer(b"{}", 401, after=lambda: server.answers.update({"/a": Answer(b'{"ok": true}')}))
    assert call(tools) == {"ok": True}
    assert sent(server) == ["Bearer first-token-abc"] * 2 + ["Bearer second-token-abc"]
    server.answers["/a"] = Answer(b"no", 401)
    server.seen.clear()
    with pytest.raises(ToolError) as caught:
        call(tools)
    assert caught.value.status == 401
    assert (len(asked(server)), len(sent(server))) == (1, 2)


def test_no_token_is_an_error_that_says_why_and_no_secret(server: Server) -> None:
    body = {"error": "invalid_client", "error_description": "s3cret/word is wrong"}
    server.answers["/token"] = Answer(json.dumps(body).encode(), 400)
    with pytest.raises(ToolError) as caught:
        call(tools_for(server))
    assert (caught.value.status, caught.value.outcome) == (401, "refused")
    assert "invalid_client" in caught.value.message
    assert "s3cret" not in caught.value.message
    assert sent(server) == []


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"<html>"),
        Answer(b"[]"),
        Answer(b'{"access_token": "a\\r\\nX: y"}'),
        Answer(b"x" * 100_000),
        Answer(b"", 302),
    ],
)
def test_a_strange_answer_gives_no_token(server: Server, answer: Answer) -> None:
    server.answers["/token"] = answer
    with pytest.raises(ToolError, match="no token for 'oauth'"):
        call(tools_for(server))
    assert sent(server) == []


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (Answer(b'{"error": "invalid_client"}', 401), "credential"),
        (Answer(b"down for an hour", 503), "unreachable"),
        (Answer(b"no gzip", headers={"Content-Encoding": "gzip"}), "unreachable"),
    ],
)
def test_where_no_token_can_be_had_no_other_program_is_tried(server: Server, answer: Answer, cause: str) -> None:
    server.answers["/token"] = answer
    with pytest.raises(ToolError) as caught:
        call(tools_for(server))
    assert (caught.value.cause, caught.value.outcome, sent(server)) == (cause, "refused", [])


@pytest.mark.parametrize("lasts", ["9" * 400, '"²"', '"soon"', '"' + "9" * 5_000 + '"', "1e999", "NaN", "[1]", "null"])
def test_a_strange_time_to_live_hinders_nobody(server: Server, lasts: str) -> None:
    server.answers["/token"] = Answer(b'{"access_token": "first-token-abc", "expires_in": %s}' % lasts.encode())
    call(tools_for(server))
    assert sent(server) == ["Bearer first-token-abc"]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_with_a_token_is_not_blamed_on_a_missing_credential(server: Server, status: int) -> None:
    server.answers["/a"] = Answer(b"{}", status=status)
    with pytest.raises(ToolError) as caught:
        call(tools_for(server))
    assert caught.value.cause == "credential"
    assert "no credential is set" not in str(caught.value)


def test_a_token_that_is_echoed_is_not_shown(server: Server) -> None:
    server.answer = Answer(b'{"you": "Bearer first-token-abc"}')
    assert call(tools_for(server)) == {"you": "Bearer [redacted]"}
    server.answer = Answer(b"first-token-abc", 500)
    with pytest.raises(ToolError) as caught:
        call(tools_for(server))
    assert "first-token" not in caught.value.message
    assert "s3cret" not in repr(tools_for(server)["op"].transport)


def test_the_mapping_may_come_from_the_environment_as_json(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATC_AUTH_OAUTH", json.dumps(CLIENT))
    tools = tools_for(server, "")
    call(tools)
    assert sent(server) == ["Bearer first-token-abc"]


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ({"client_id": "me"}, "client_secret"),
        ({**CLIENT, "user": "x"}, "client_auth with strings"),
        ({**CLIENT, "scope": 1}, "with strings"),
        ({**CLIENT, "client_auth": "cookie"}, "'basic' or 'body'"),
        ({**CLIENT, "token_url": "ftp://x"}, "token_url"),
        ({**CLIENT, "token_url": "http://other.example/token"}, "plain http"),
        ('{"client_id": ', "no JSON object"),
        (7, "must be a string"),
    ],
)
def test_a_mapping_that_is_wrong_is_refused_at_import(server: Server, auth: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        tools_for(server, auth)
    assert "s3cret" not in str(caught.value)


def test_schemes_of_one_value_take_no_mapping() -> None:
    schemes = {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}
    root = document({"/a": {"get": operation()}}, components={"securitySchemes": schemes})
    with pytest.raises(UsageError, match="one value"):
        import_openapi(root, auth={"key": {"client_id": "me"}})


def test_the_place_of_tokens_is_found_in_swagger_2_and_beside_the_document(server: Server) -> None:
    root: dict[str, Any] = {
        "swagger": "2.0",
        "info": {"title": "T", "version": "1"},
        "securityDefinitions": {"o": {"type": "oauth2", "flow": "application", "tokenUrl": f"{server.url}/token"}},
        "security": [{"o": []}],
        "paths": {"/a": {"get": {"responses": {"200": {"description": ""}}}}},
    }
    call(import_openapi(root, base_url=server.url, auth={"o": CLIENT}))
    del root["securityDefinitions"]["o"]["tokenUrl"]
    with pytest.raises(UsageError, match="give token_url"):
        import_openapi(root, base_url=server.url, auth={"o": CLIENT})
    root["securityDefinitions"]["o"]["tokenUrl"] = "/token"
    server.answers["/docs/openapi.json"] = Answer(json.dumps(root).encode())
    server.seen.clear()
    call(import_openapi(f"{server.url}/docs/openapi.json", base_url=server.url, auth={"o": CLIENT}))
    assert len(asked(server)) == 1
    assert sent(server) == ["Bearer first-token-abc"]
