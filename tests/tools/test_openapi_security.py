"""Credentials reach the service, and nobody else: no protocol, message, log line or repr ever shows one."""

from __future__ import annotations

import base64
import json
import logging
from typing import Any

import pytest

from atc.errors import ToolError, UsageError
from atc.tools.openapi.importer import import_openapi
from atc.tools.tool import Toolset
from tests.support.openapi import Answer, Server, call, document, one_tool, operation

SECRET = "s3cr3t/Key+42=="
SCHEMES: dict[str, Any] = {
    "in-header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "in-query": {"type": "apiKey", "in": "query", "name": "api_key"},
    "in-cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "basic": {"type": "http", "scheme": "basic"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "oauth": {"type": "oauth2", "flows": {}},
    "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://id.example.org"},
    "mtls": {"type": "mutualTLS"},
}
ROOT = {"components": {"securitySchemes": SCHEMES}}


def secured(server: Server, scheme: str, *parameters: dict[str, Any], **options: Any) -> Toolset:
    node = operation(*parameters, security=[{scheme: []}])
    return one_tool("/a", "get", node, server.url, root=ROOT, **options)


@pytest.mark.parametrize(
    ("scheme", "header", "value"),
    [
        ("in-header", "x-key", "tok3n"),
        ("in-cookie", "cookie", "sid=tok3n"),
        ("bearer", "authorization", "Bearer tok3n"),
        ("oauth", "authorization", "Bearer tok3n"),
        ("oidc", "authorization", "Bearer tok3n"),
        ("basic", "authorization", "Basic " + base64.b64encode(b"tok3n").decode()),
    ],
)
def test_each_scheme_puts_the_credential_in_its_place(server: Server, scheme: str, header: str, value: str) -> None:
    call(secured(server, scheme, auth={scheme: "tok3n"}))
    assert server.last.headers[header] == value


def test_a_key_in_the_query_is_encoded(server: Server) -> None:
    call(secured(server, "in-query", auth={"in-query": SECRET}))
    assert server.last.query == "api_key=s3cr3t%2FKey%2B42%3D%3D"


def test_credentials_may_come_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATC_AUTH_IN_HEADER", "from-env")
    call(secured(server, "in-header"))
    assert server.last.headers["x-key"] == "from-env"


def test_a_credential_is_sent_only_where_the_operation_asks_for_it(server: Server) -> None:
    call(one_tool("/a", "get", operation(security=[]), server.url, root=ROOT, auth={"bearer": SECRET}))
    assert "authorization" not in server.last.headers


def test_the_first_alternative_that_can_be_met_is_used(server: Server) -> None:
    node = operation(security=[{"bearer": [], "in-header": []}, {"in-cookie": []}])
    call(one_tool("/a", "get", node, server.url, root=ROOT, auth={"bearer": "abcd", "in-cookie": "efgh"}))
    assert server.last.headers["cookie"] == "sid=efgh"
    assert "authorization" not in server.last.headers


def test_parameters_that_carry_a_credential_are_no_arguments(server: Server) -> None:
    parameters: list[dict[str, Any]] = [
        {"name": "api_key", "in": "query", "required": True, "schema": {"type": "string"}},
        {"name": "Authorization", "in": "header", "required": True, "schema": {"type": "string"}},
        {"name": "q", "in": "query", "schema": {"type": "string"}},
    ]
    tools = one_tool("/a", "get", operation(*parameters), server.url, root=ROOT, auth={"in-query": "abcdef"})
    assert list(tools["op"].protocol.parameters["properties"]) == ["q"]
    call(tools, q="x")
    assert server.last.query == "q=x&api_key=abcdef"


def test_a_refused_call_says_which_credential_is_missing(server: Server) -> None:
    server.answer = Answer(b"{}", 401)
    with pytest.raises(ToolError, match=r"no credential is set for 'in-header'.*ATC_AUTH_IN_HEADER"):
        call(secured(server, "in-header"))


@pytest.mark.parametrize(
    ("security", "given"),
    [
        ([{"in-cookie": [], "in-header": []}], "in-cookie"),
        ([{"basic": [], "bearer": []}, {"in-cookie": [], "in-header": []}], "in-cookie"),
        ([{"in-header": []}, {"basic": [], "bearer": []}], ""),
    ],
    ids="abc",
)
def test_what_the_nearest_alternative_lacks_is_named(server: Server, security: Any, given: str) -> None:
    auth = {given: "abcd"} if given else {}
    tools = one_tool("/a", "get", operation(security=security), server.url, root=ROOT, auth=auth)
    assert [each.scheme for each in tools.missing_credentials()] == ["in-header"]


def test_an_alternative_that_is_met_lacks_nothing_where_a_larger_one_stands_before_it(server: Server) -> None:
    node = operation(security=[{"bearer": [], "in-cookie": []}, {"in-cookie": []}])
    assert not one_tool("/a", "get", node, server.url, root=ROOT, auth={"in-cookie": "abcd"}).missing_credentials()


@pytest.mark.parametrize("scheme", ["in-header", "in-query", "in-cookie", "basic", "bearer"])
def test_a_credential_is_never_shown(server: Server, scheme: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    value = f"user:{SECRET}" if scheme == "basic" else SECRET
    tools = secured(server, scheme, auth={scheme: value}, headers={"X-Extra": "ext" + SECRET})
    (tool,) = tools.values()
    call(tools)
    echoed = json.dumps({"target": server.last.target, "headers": server.last.headers, "plain": SECRET})
    shown = [repr(tools), repr(tool), repr(tool.transport), repr(tool.transport.opened())]  # type: ignore[union-attr]
    shown += [tool.protocol.model_dump_json(), str(vars(tool.transport)["operation"])]
    server.answer = Answer(echoed.encode())
    shown.append(json.dumps(call(tools)))
    for kind, status in (("application/json", 400), ("text/plain", 500), ("text/html", 200)):
        server.answer = Answer(
            echoed.encode() if kind == "application/json" else b"You sent " + echoed.encode(), status, kind
        )
        with pytest.raises(ToolError) as caught:
            call(tools)
        shown.append(str(caught.value))
    shown += [record.getMessage() for record in caplog.records]
    everything = "\n".join(shown)
    encoded = base64.b64encode(value.encode()).decode()
    for secret in (SECRET, "s3cr3t%2FKey", "s3cr3t", encoded):
        assert secret not in everything
    assert "[redacted]" in everything


def test_headers_for_every_request(server: Server) -> None:
    tools = one_tool("/a", "get", operation(), server.url, headers={"accept": "x/y", "Authorization": "Token abcdef"})
    call(tools)
    assert server.last.headers["accept"] == "x/y"
    assert server.last.headers["authorization"] == "Token abcdef"


def test_a_key_in_the_query_survives_a_redirect_on_the_same_server(server: Server) -> None:
    server.answers = {"/a": Answer(b"", 302, None, {"Location": "/b?x=1"})}
    call(secured(server, "in-query", auth={"in-query": SECRET}))
    assert server.last.target == "/b?x=1&api_key=s3cr3t%2FKey%2B42%3D%3D"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"auth": {"nope": "x"}}, "'nope', which is no security scheme"),
        ({"auth": {"bearer": "a\r\nX: y"}}, "'bearer' has characters"),
        ({"auth": {"in-cookie": "a; b=c"}}, "'in-cookie' has characters"),
        ({"headers": {"X": "a\nb"}}, "headers['X']"),
        ({"headers": {"a b": "c"}}, "headers['a b']"),
        ({"base_url": "https://u:p@example.org"}, "credentials belong in auth="),
        ({"base_url": "example.org"}, "relative"),
        ({"base_url": "file:///etc"}, "not http or https"),
        ({"base_url": "https://example.org/?q=1"}, "query or fragment"),
        ({"server_variables": {"nope": "x"}}, "'nope'"),
    ],
)
def test_wrong_options_are_refused_without_repeating_a_secret(options: dict[str, Any], said: str) -> None:
    root = {**ROOT, "servers": [{"url": "https://{region}.example.org"}]}
    with pytest.raises(UsageError) as caught:
        import_openapi(document({"/a": {"get": operation()}}, **root), **options)
    assert said in str(caught.value)
    assert "X: y" not in str(caught.value)
    assert "u:p" not in str(caught.value)


def test_what_a_document_declares_as_a_header_cannot_replace_the_transports_own(server: Server) -> None:
    names = ["Host", "Content-Length", "Transfer-Encoding", "Cookie", "content-type", "X-Fine"]
    parameters = [{"name": name, "in": "header", "schema": {"type": "string"}} for name in names]
    tools = one_tool("/a", "get", operation(*parameters), server.url)
    assert list(tools["op"].protocol.parameters["properties"]) == ["x_fine"]
