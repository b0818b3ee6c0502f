"""Answers of services: content type, charset, body, headers, in success and in error; and answers of MCP tools."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate

import httpx
from mcp_types import CallToolResult
from pydantic import ValidationError

from atc._records.packing import as_text
from atc.calls.json_values import to_json_value
from atc.errors import ToolError
from atc.tools.mcp.spec import Secrets, ServerSpec
from atc.tools.mcp.transport import value_of as mcp_value_of
from atc.tools.openapi import answers
from atc.tools.openapi.plan import ContentKind, Operation, Parameter
from atc.tools.openapi.security import Credentials
from benchmarks.fuzzing.target import Broken, Target

SECRET = "s3cr3t/T0ken+42=="
"""The credential of every request: no answer may show it as it is."""
_credentials = Credentials({}, None, {"X-Key": SECRET})
_spec = ServerSpec("stdio", Secrets([SECRET]))
_page = Parameter("page", "page", "query", "form", True)
_ACCEPTS = (
    (), ("application/json",), ("text/csv",), ("application/xml", "text/plain"), ("*/*",), ("image/png",),
    ("application/yaml", "application/x-ndjson"), ("text/html",),
)  # fmt: skip
_KINDS: tuple[ContentKind | None, ...] = (None, "json", "text", "binary", "csv", "xml", "yaml", "ndjson")


def run(data: bytes) -> None:
    """Take an input for an answer: two lines, then the body. First the content type; then a digit each for the
    operation's kinds and the status, and a ``Link`` header."""
    head, _, rest = data.partition(b"\n")
    line, _, body = rest.partition(b"\n")
    link = line[4:].decode("latin-1")
    accepts, kind, status = (digit % 8 for digit in (line[:3] or b"000").ljust(3, b"0"))
    headers = {"content-type": head.decode("latin-1"), "link": link, "retry-after": link or formatdate(0)}
    try:
        response = httpx.Response((200, 201, 204, 400, 401, 429, 503, 206)[status], headers=headers)
    except (ValueError, UnicodeError):
        return  # no HTTP client gives such headers
    operation = Operation("GET", "/a", (_page,), accepts=_ACCEPTS[accepts], returns=_KINDS[kind], reads=True)
    answers.next_page(operation, response)
    if response.is_success:
        _held(lambda: answers.value_of(operation, response, body, _credentials))
    else:
        error = answers.error_of(operation, response, body, _credentials)
        _check(str(error) + (error.service_message or ""))
    if body.startswith(b"{"):
        _of_mcp(body)


def _of_mcp(body: bytes) -> None:
    try:
        result = CallToolResult.model_validate_json(body)
    except ValidationError:
        return
    _held(lambda: mcp_value_of("a tool", result, _spec))


def _held(read: Callable[[], object]) -> None:
    try:
        value = read()
    except ToolError as error:
        _check(str(error))
        return
    if isinstance(value, bytes):
        if SECRET.encode() in value:
            raise Broken("answers: a credential is in the bytes of an answer")
        return
    try:
        _check(as_text(to_json_value(value)))
    except ValueError:  # what the broker refuses, too
        return


def _check(text: str) -> None:
    if SECRET in text:
        raise Broken("answers: a credential is in an answer")


TARGET = Target(
    "answers",
    run,
    head_lines=2,
    words=(
        "application/json", "text/csv", "text/tab-separated-values", "application/xml", "application/yaml",
        "text/html", "application/x-ndjson", "application/problem+json", "; charset=utf-16", "; charset=iso-8859-1",
        "charset=punycode", "image/png", SECRET, "s3cr3t", "message", "error", "errors", "detail", "title", "code",
        "id", "items", "<a x='1'>", "<?xml version='1.0' encoding='utf-16'?>", "<!DOCTYPE a [<!ENTITY b 'c'>]>",
        "&b;", "<![CDATA[", "- a: &x 1", "*x", "!!python/object", "content", "structuredContent", "isError", "type",
        "text", "resource", "blob", "data", "000", "113", "224", "335", "446", "550",
        '<https://h/?page=2>; rel="next"', "rel=next",
    ),
)  # fmt: skip
