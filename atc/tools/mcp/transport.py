"""Calls of one tool of a server, and what its answers mean."""

from __future__ import annotations

import asyncio
import functools
import json
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import mcp_types as types
from mcp import Client, MCPError
from mcp_types import CallToolResult, InputRequiredResult

from atc.errors import ToolError, ToolImportError
from atc.tools.keys import KeyedTransport, KeyPlace
from atc.tools.lenient_json import Oddities, Path
from atc.tools.mcp.connection import Connection, McpServer
from atc.tools.mcp.exchange import NOT_SENT, Exchange
from atc.tools.mcp.failures import (
    UNAUTHORIZED,
    SessionGone,
    Unreachable,
    failed,
    is_closed,
    reason_of,
    server_text,
    too_slow,
    unreachable,
)
from atc.tools.mcp.logins import Logins
from atc.tools.mcp.spec import ServerSpec
from atc.tools.openapi.text import clean
from atc.tools.outcome import Report, outcome_of
from atc.tools.parse import json_copy
from atc.tools.tool import AnnouncingTransport, Answered, GradedTransport, Sending, ServiceTransport

_NO_READ = "its server says now that it does more than read: look it up again, and write the program anew"


@dataclass(frozen=True, eq=False)
class McpTransport(AnnouncingTransport, GradedTransport, KeyedTransport, ServiceTransport):
    """Calls one tool over the server's conversation. It never retries: that is the broker's business.

    Attributes:
        name: the tool's name at the server.
        reads: whether the tool is taken for a read.
        server: the conversation, which all tools of the server share.
        meta: what a call bears in ``_meta``: an idempotency key.
        typed: whether it has a schema of its results, by which its server may refuse one.
    """

    key_kind = "meta"
    name: str
    reads: bool
    server: McpServer = field(repr=False)
    meta: tuple[tuple[str, str], ...] = ()
    typed: bool = True

    def keyed(self, place: KeyPlace, key: str) -> McpTransport:
        return replace(self, meta=((place.name, key),))

    @functools.cached_property
    def label(self) -> str:
        """The name for messages: a server may call its tools what it likes."""
        return clean(self.name, 100).replace("\n", " ")

    @property
    def account(self) -> dict[str, str]:
        """The server, and what its calls are sent with: headers, variables, the login's client and subject."""
        found, oauth = self.server.spec.place(), self.server.spec.oauth
        if oauth is not None:
            found["client"] = json.dumps([oauth.client_id, oauth.issuer, oauth.scope, oauth.by_itself])
        if self.server.spec.url and "header authorization" not in found and not (oauth is not None and oauth.by_itself):
            login = Logins.of_user().read(self.server.spec.url)
            found |= {} if login is None else {"login": login.account}
        return found

    def graded(self, *, reads: bool) -> McpTransport:
        return replace(self, reads=reads)

    def opened(self) -> AbstractAsyncContextManager[Any]:
        return self.server

    async def announced(self, arguments: dict[str, Any], sending: Sending) -> Answered:
        """Make one call; ``sending`` is awaited once the server is ready.

        Raises:
            ToolError: the server cannot be reached, refuses, dies, takes too long, or says that the tool failed.
        """
        _ensure_sendable(self.label, arguments)
        spec, timeout_s = self.server.spec, self.server.timeout_s
        report = Report(typed=self.typed, reads=self.reads)
        try:
            async with asyncio.timeout(timeout_s):
                try:
                    return await self._answered(arguments, sending, report)
                except SessionGone:
                    if not self.reads and outcome_of(report) != "refused":
                        raise
                report = Report(typed=self.typed, reads=self.reads)
                return await self._answered(arguments, sending, report)
        except Unreachable as error:
            failure = unreachable(self.label, error, spec)
        except ToolError as error:
            failure = error
        except TimeoutError:
            late = Unreachable(f"is not ready after {timeout_s:g} s")
            failure = too_slow(self.label, timeout_s) if report.sent else unreachable(self.label, late, spec)
        failure.outcome = outcome_of(report)
        raise failure from None

    async def _answered(self, arguments: dict[str, Any], sending: Sending, report: Report) -> Answered:
        server = self.server
        async with server.connected() as (connection, client):
            if self.reads and not server.reads_still(self.name):
                raise ToolError(f"{self.label}: {_NO_READ}", status="changed")
            await sending()
            report.sent, odd = True, Oddities()
            result = await self._made(connection, client, arguments, report)
            report.answered = True
            value = value_of(self.label, result, server.spec, odd)
            return Answered(value, notes=odd.notes(server.spec.secrets.value))

    async def _made(self, connection: Connection, client: Client, arguments: dict[str, Any], report: Report) -> Any:
        server, exchange = self.server, Exchange()
        spec = server.spec
        try:
            result = await connection.call(client, self.name, arguments, exchange, dict(self.meta))
            if exchange.strange is not None:
                raise MCPError(types.INVALID_REQUEST, exchange.strange)
        except TimeoutError:
            raise
        except Exception as error:  # whatever the SDK raises, the run goes on
            if is_closed(error):
                connection.lost = True
                await connection.settled()
            elif isinstance(exchange.problem, NOT_SENT) or exchange.status == UNAUTHORIZED:
                server.unreached(Unreachable(reason_of(error, exchange, spec), exchange))
            if connection.log.too_large:
                report.answered = True
                raise self._too_large() from None
            failure = failed(self.label, error, exchange, connection.log.summary(spec), spec, report)
            connection.lost = connection.lost or isinstance(failure, SessionGone)
            raise failure from None
        server.answered()
        return result

    def _too_large(self) -> ToolError:
        limit = self.server.max_bytes
        words = f"{self.label} answered with more than {limit:,} bytes: ask for less"
        return ToolError(words, status="too_large", received=limit)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def _ensure_sendable(label: str, arguments: dict[str, Any]) -> None:
    try:
        _ENCODER.encode(arguments).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise ToolError(
            f"{label} cannot be sent these arguments: {str(error)[:200]}", status="invalid_arguments"
        ) from None


# -- the answer of a tool → a plain JSON value, or the ToolError that it is --------------------------------------------

_WANTS = {
    "elicitation/create": "a word of its user",
    "roots/list": "the folders of its user",
    "sampling/createMessage": "a reply of a language model",
}
"""What servers ask back: they get none of it."""


def value_of(
    label: str,
    result: CallToolResult | InputRequiredResult,
    spec: ServerSpec,
    odd: Oddities | None = None,
) -> Any:
    """The value of a call; what JSON does not have in it becomes null, and is noted in ``odd``.

    ``structuredContent`` where there is some. Else each block of the content: a text that is a JSON object or list
    becomes that, any other stays text (``"007"`` and ``"12e3"`` are no numbers); what is no text is described, without
    its bytes. One block is the value, several are a list, none is ``None``; so is ``null`` where the structured content
    says so itself.

    Raises:
        ToolError: the tool says that it failed, or asks back, or its answer is no usable JSON.
    """
    if isinstance(result, InputRequiredResult):
        wants = " and ".join(sorted({_WANTS[each.method] for each in (result.input_requests or {}).values()}))
        raise ToolError(
            f"{label} asks for {wants or 'something'} before it goes on, which no program can give it",
            status="input_required",
        )
    if result.is_error:
        texts = [block.text for block in result.content if block.type == "text"]
        message = server_text("\n".join(texts), spec) or "without a word"
        # a tool's own error may come from before, amid or after what it did
        raise ToolError(f"{label} failed: {message}", status="error", service_message=message)
    value, odd = result.structured_content, Oddities() if odd is None else odd
    if value is None:
        several = len(result.content) > 1
        values = [_block(block, odd, (number,) if several else ()) for number, block in enumerate(result.content)]
        if values == ["null"] and "structured_content" in result.model_fields_set:
            values = []
        value = values[0] if len(values) == 1 else values or None
    try:
        value = spec.secrets.value(value)  # secrets first: what is wrong is told with its keys
        try:
            return json_copy(value, "the answer")
        except ToolImportError:
            return json_copy(odd.mended(value), "the answer")
    except (ToolImportError, RecursionError) as error:  # nested without end
        raise ToolError(f"{label}: {error}", status="bad_response", cause="bad_response") from None


def _block(block: Any, odd: Oddities, within: Path) -> Any:
    if block.type == "text":
        return _text(block.text, odd, within)
    if block.type == "resource":
        inner = block.resource
        made = {"type": "resource", "uri": inner.uri, "mime_type": inner.mime_type}
        return {**made, "text": inner.text} if hasattr(inner, "text") else {**made, "bytes": _size(inner.blob)}
    if block.type == "resource_link":
        made = {"type": "resource_link", "uri": block.uri, "name": block.name, "mime_type": block.mime_type}
        return {**made, "description": block.description, "bytes": block.size}
    return {"type": block.type, "mime_type": block.mime_type, "bytes": _size(block.data)}


def _text(text: str, odd: Oddities, within: Path) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return text
    found = Oddities()
    try:
        value = json_copy(found.read(text, within), "the text")
    except (ValueError, RecursionError):  # ToolImportError is one: what no value can be is a text still
        return text
    odd.add(found)
    return value


def _size(base64: str) -> int:
    return max(0, len(base64) * 3 // 4 - base64[-2:].count("="))
