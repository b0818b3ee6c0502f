"""AWS Signature 4: what botocore signs is what is sent, and documents that want it say so at import."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import httpx
import pytest

from atc._host.extras import install_command
from atc.errors import EnvironmentProblem, ToolError, UsageError
from atc.tools.openapi import aws
from atc.tools.openapi.importer import import_openapi
from atc.tools.tool import Toolset
from tests.support.openapi import Answer, Server, call, document, operation

KEYS = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
SCHEME = {"type": "apiKey", "name": "Authorization", "in": "header", "x-amazon-apigateway-authtype": "awsSigv4"}


def tools_for(url: str, auth: Any = None, method: str = "get", **node: Any) -> Toolset:
    own, target = ({"name": n, "in": "header", "schema": {"type": "string"}} for n in ("X-Amz-Date", "X-Amz-Target"))
    root = document(
        {"/a": {method: operation(own, target, security=[{"hmac": []}], **node)}},
        components={"securitySchemes": {"hmac": SCHEME}},
    )
    root["info"]["x-serviceName"] = "ec2"
    return import_openapi(root, base_url=url, auth={"hmac": auth} if auth else None)


def test_a_request_is_signed_for_service_and_region(server: Server) -> None:
    tools = tools_for(server.url, {**KEYS, "region": "eu-west-1", "session_token": "token-of-a-session"})
    assert list(tools["op"].protocol.parameters["properties"]) == ["x_amz_target"]  # the signer writes the other
    call(tools, x_amz_target="Do")
    headers = server.last.headers
    scope = re.compile(
        r"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/\d{8}/eu-west-1/ec2/aws4_request, "
        r"SignedHeaders=host;x-amz-date;x-amz-security-token;x-amz-target, Signature=[0-9a-f]{64}"
    )
    assert scope.fullmatch(headers["authorization"])
    assert headers["x-amz-security-token"] == "token-of-a-session"


def test_the_signature_is_that_of_the_published_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """`get-vanilla-query-order-key-case` of AWS's signature test suite."""
    import datetime

    import botocore.auth

    moment = datetime.datetime(2015, 8, 30, 12, 36, 0)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *_, **__: moment, raising=False)

    class Clock(datetime.datetime):
        @classmethod
        def utcnow(cls) -> datetime.datetime:
            return moment

    monkeypatch.setattr(botocore.auth.datetime, "datetime", Clock, raising=False)
    signer = aws.AwsSigner("hmac", {**KEYS, "region": "us-east-1", "service": "service"}, "", lambda *_: None)
    request = httpx.Request("GET", "https://example.amazonaws.com/?Param2=value2&Param1=value1")

    async def go() -> None:
        async with httpx.AsyncClient() as client:
            await signer.put_on(request, client)

    asyncio.run(go())
    assert request.headers["x-amz-date"] == "20150830T123600Z", "this botocore takes its time elsewhere"
    assert request.headers["authorization"].endswith("b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500")


def test_a_body_is_signed_with_what_is_sent(server: Server) -> None:
    body = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = tools_for(server.url, {**KEYS, "region": "eu-west-1"}, "post", body=body)
    call(tools, n=1)
    assert server.last.body == b'{"n":1}'
    assert "SignedHeaders=content-type;host;x-amz-date," in server.last.headers["authorization"]


@pytest.mark.parametrize(
    ("host", "service", "scope"),
    [
        ("ec2.eu-west-1.amazonaws.com", "ec2", ("ec2", "eu-west-1")),
        ("abc.execute-api.us-gov-east-1.amazonaws.com", "", ("execute-api", "us-gov-east-1")),
        ("translate.cn-north-1.amazonaws.com.cn", "no such service", ("translate", "cn-north-1")),
        ("sts.amazonaws.com", "sts", ("sts", "us-east-1")),
        ("airflow.eu-west-1.amazonaws.com", "mwaa", ("airflow", "eu-west-1")),
    ],
)
def test_service_and_region_come_from_the_address(host: str, service: str, scope: tuple[str, str]) -> None:
    assert aws.AwsSigner("hmac", KEYS, service, lambda *_: None)._scope(host) == scope


def test_an_address_that_tells_no_region_needs_one(server: Server) -> None:
    with pytest.raises(ToolError, match="does not tell its AWS service and region"):
        call(tools_for(server.url, KEYS))
    assert server.seen == []


def test_a_key_is_never_shown_and_a_refusal_not_tried_again(server: Server) -> None:
    server.answer = Answer(f'{{"message": "bad key {KEYS["secret_access_key"]}"}}'.encode(), 401)
    with pytest.raises(ToolError) as caught:
        call(tools_for(server.url, {**KEYS, "region": "eu-west-1"}))
    assert "wJalr" not in caught.value.message
    assert len(server.seen) == 1


def test_keys_may_be_those_that_aws_tools_find(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDOTHER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret-key")
    call(tools_for(server.url, '{"region": "eu-west-1"}'))
    assert "Credential=AKIDOTHER/" in server.last.headers["authorization"]
    call(tools_for(server.url))
    assert "authorization" not in server.last.headers  # keys of the environment are used where they were asked for


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ("AKIA…", "the word 'aws'"),
        ({"access_key_id": "x"}, "together"),
        ({**KEYS, "secret": "x"}, "secret_access_key, session_token"),
    ],
)
def test_wrong_keys_are_refused_at_import(auth: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        tools_for("https://x.example", auth)


def test_a_document_that_wants_signatures_says_so_at_import(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.WARNING):
        tools_for("https://x.example")
    assert "its calls are not signed: give auth={'hmac': 'aws'}" in caplog.text
    monkeypatch.setattr(aws, "is_installed", lambda: False)
    with caplog.at_level(logging.WARNING):
        tools_for("https://x.example")
    assert install_command("aws") in caplog.text
    with pytest.raises(EnvironmentProblem, match=r"pip install .*\[aws\]'"):
        tools_for("https://x.example", "aws")
