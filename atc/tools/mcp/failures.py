"""Failures between us and a server as errors, and whether a call may have acted."""

from __future__ import annotations

import re

import mcp_types as types
from mcp import MCPError
from pydantic import ValidationError

from atc.errors import TRANSIENT_STATUSES, Cause, ToolError
from atc.tools.mcp.exchange import NOT_SENT, Exchange, TooLarge
from atc.tools.mcp.spec import ServerSpec
from atc.tools.openapi.answers import retry_after
from atc.tools.openapi.text import clean
from atc.tools.outcome import Report, outcome_of

MAX_WORDS = 500
"""Characters of a server's own words in an error."""

MORE = "let it say less, or allow more with `max_bytes`"
CLOSED = "Connection closed"
_CODES = {
    types.INVALID_PARAMS: "invalid_params",
    types.METHOD_NOT_FOUND: "method_not_found",
    types.INVALID_REQUEST: "invalid_request",
    types.INTERNAL_ERROR: "internal_error",
    types.URL_ELICITATION_REQUIRED: "url_elicitation_required",
}
UNAUTHORIZED = 401
_BAD_REQUEST, _NOT_FOUND = 400, 404
_SESSION = re.compile("session|not initialized", re.IGNORECASE)
_DOWN = frozenset({502, 503, 504})
_CREDENTIAL = frozenset({401, 403})
_ADVICE = {
    401: "it wants a credential: run `atc mcp login {}`, or give it in headers",
    403: "the credential is not allowed to: check the headers",
    404: "there is no MCP server at this address: check its path, which often ends in /mcp",
    405: "it does not speak streamable HTTP there: check the path, and that it is no server of the older SSE kind",
}


class Unreachable(Exception):
    """A server cannot be used; no call reached it. The message continues a sentence that names the server.

    Args:
        message: why.
        exchange: how the HTTP request for it ended, if there was one: a refused credential is another cause.
        soon: whether it may be reachable in a moment, so that a read is worth another try.
    """

    def __init__(self, message: str, exchange: Exchange | None = None, *, soon: bool = True) -> None:
        super().__init__(message)
        self.soon = soon
        wants = exchange is not None and exchange.status in _CREDENTIAL
        self.cause: Cause = "credential" if wants else "unreachable"


def server_text(text: object, spec: ServerSpec) -> str:
    """A text of the server, without credentials and bounded."""
    found = clean(spec.secrets.text(str(text)), 4 * MAX_WORDS)
    return found if len(found) <= MAX_WORDS else found[:MAX_WORDS] + " …"


def is_closed(error: BaseException) -> bool:
    """Whether the conversation as a whole has ended."""
    return isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED and error.message == CLOSED


def reason_of(error: BaseException, exchange: Exchange, spec: ServerSpec) -> str:
    """Why a server cannot be used, to stand after its name."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return f"cannot be started: there is no command {_command_name(spec)!r} (install it, or give its whole path)"
    if isinstance(error, OSError):
        return f"cannot be started: {error.strerror or type(error).__name__}"
    if isinstance(exchange.problem, TooLarge):
        return f"sent what is too large, {exchange.problem}: {MORE}"
    if exchange.problem is not None:
        return f"cannot be reached ({type(exchange.problem).__name__}): check its address, and that it runs"
    if exchange.status is not None and exchange.status >= 300:
        return f"answered with status {exchange.status}: {_advice(exchange.status, spec, 'check the address')}"
    if is_closed(error):
        return "ended before it answered"
    if isinstance(error, ValidationError):
        return f"does not speak MCP: {_wrong(error, spec)}"
    if spec.url and isinstance(error, MCPError) and "content type" in error.message:
        return f"does not speak MCP: it answered with {server_text(exchange.kind, spec) or 'no content type'}"
    return f"could not be spoken to: {server_text(error, spec) or type(error).__name__}"


def unreachable(label: str, error: Unreachable, spec: ServerSpec) -> ToolError:
    """The ToolError of a call that was never made."""
    words = f"{label}: the MCP server {spec.location} {error}"
    return ToolError(words, status="unreachable", transient=error.soon, cause=error.cause)


def too_slow(label: str, timeout_s: float) -> ToolError:
    """The ToolError of a call without an answer in time."""
    message = f"{label} did not answer within {timeout_s:g} s"
    return ToolError(message, status="timeout", transient=True, cause="unreachable")


class SessionGone(ToolError):
    """A server does not know the session that a call named: another one may take it."""


def _is_of_session(error: MCPError, exchange: Exchange) -> bool:
    """By 404, as the specification says, which the SDK takes for an unknown method where there is none; or in words."""
    if exchange.status == _NOT_FOUND:
        return error.code != types.METHOD_NOT_FOUND
    words = error.message if exchange.strange is None else exchange.strange
    return (exchange.status == _BAD_REQUEST or exchange.strange is not None) and _SESSION.search(words) is not None


def failed(label: str, error: Exception, exchange: Exchange, log: str, spec: ServerSpec, report: Report) -> ToolError:
    """The ToolError of a call that ended without a result: by what the SDK raised, and how its HTTP requests ended.
    Both are added to the report.
    """
    report.status = exchange.status
    report.code = exchange.code if spec.url else error.code if isinstance(error, MCPError) else None
    report.sent = not isinstance(exchange.problem, NOT_SENT)
    report.answered = isinstance(error, ValidationError | MCPError) and not is_closed(error)
    if not report.sent:
        return unreachable(label, Unreachable(reason_of(error, exchange, spec), exchange), spec)
    if isinstance(exchange.problem, TooLarge):
        return ToolError(f"{label}: the answer is too large, {exchange.problem}: ask for less", status="too_large")
    if exchange.problem is not None:
        report.answered = False
        message = f"{label}: the connection broke ({type(exchange.problem).__name__})"
        return ToolError(message, status="broken", transient=True, cause="unreachable")
    if isinstance(error, ValidationError):
        message = f"{label} sent what is no answer: {_wrong(error, spec)}"
        return ToolError(message, status="bad_response", cause="bad_response")
    if not isinstance(error, MCPError):
        return ToolError(f"{label} failed: {server_text(error, spec)}", status=type(error).__name__)
    if is_closed(error):
        message = f"{label}: the MCP server {spec.location} ended during the call{log}"
        return ToolError(message, status="broken", transient=True, cause="broken")
    if exchange.status is not None and exchange.status >= 300:
        return _http(label, error, exchange, spec)
    said = server_text(error.message, spec)
    if exchange.strange is not None:
        kind = SessionGone if _is_of_session(error, exchange) else ToolError
        words = f"{label} was answered under the id of another message: {server_text(exchange.strange, spec)}"
        return kind(words, status="bad_response")
    return ToolError(
        f"{label} was refused: {said}" if outcome_of(report) == "refused" else f"{label} failed: {said}",
        status=_CODES.get(error.code, error.code),
        cause="credential" if error.code == types.URL_ELICITATION_REQUIRED else None,
        service_message=said,
    )


def _http(label: str, error: MCPError, exchange: Exchange, spec: ServerSpec) -> ToolError:
    status = exchange.status or 0
    gone = _is_of_session(error, exchange)
    advice = "the server has ended the session" if gone else _advice(status, spec, server_text(error.message, spec))
    return (SessionGone if gone else ToolError)(
        f"{label} was answered with status {status}: {advice}",
        status=status,
        retry_after=retry_after(exchange.retry_after),
        transient=status in TRANSIENT_STATUSES,
        cause="credential" if status in _CREDENTIAL else "unreachable" if status in _DOWN else None,
    )


def _advice(status: int, spec: ServerSpec, otherwise: str) -> str:
    if status == UNAUTHORIZED and any(name.lower() == "authorization" for name in spec.headers):
        return "it wants a credential, and refuses the one in headers: give another one"
    return _ADVICE.get(status, otherwise).replace("{}", spec.login_name)


def _command_name(spec: ServerSpec) -> str:
    return server_text(spec.command[0] if spec.command else "", spec)


def _wrong(error: ValidationError, spec: ServerSpec) -> str:
    """Where a message is damaged: without its content, which may be anything."""
    found = [f"{'.'.join(map(str, item['loc'][-6:])) or 'message'}: {item['msg']}" for item in error.errors()[:3]]
    return server_text("; ".join(found), spec)
