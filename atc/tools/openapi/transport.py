"""Calls over HTTP: one service that all tools of an import share, and one transport for each operation."""

from __future__ import annotations

import asyncio
import functools
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, NoReturn
from urllib.parse import quote

import httpx

from atc import wording
from atc._host.http_body import ENCODINGS, TooLarge, read_body
from atc._host.trace_context import carried
from atc._records.records import RecordedSession
from atc.errors import ToolError
from atc.tools.held_per_loop import HeldPerLoop
from atc.tools.keys import KeyedTransport, KeyPlace
from atc.tools.lenient_json import Oddities
from atc.tools.openapi.answers import error_of, next_page, value_of
from atc.tools.openapi.encode import Request, encode
from atc.tools.openapi.plan import Operation, accept_header
from atc.tools.openapi.security import Credentials
from atc.tools.outcome import Report, outcome_of
from atc.tools.tool import (
    AnnouncingTransport,
    Answered,
    GradedTransport,
    MissingCredential,
    OtherAddress,
    Sending,
    ServiceTransport,
)

MAX_REDIRECTS = 5
_ERROR_BYTES = 65_536
_LONGEST_ADDRESS = 2_000
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)


MAX_CLIENTS = 20
"""Clients of one service in one event loop. A pool of connections looks at all that are idle with every request, so
calls that are under way at once have a client each."""

MAX_CONNECTIONS = 100
"""Connections of all of them."""


class HttpService(HeldPerLoop[dict[httpx.AsyncClient, int]]):
    """The HTTP clients that all operations of one import share.

    Args:
        credentials: what is put on the requests.
        timeout_s: seconds that one call may take in all.
        max_bytes: bytes of an answer's body.
        client_factory: called with keyword settings to make the client of an event loop, whose limits are its own;
            without it, there are up to :data:`MAX_CLIENTS`.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        timeout_s: float = 30.0,
        max_bytes: int = 5_000_000,
        client_factory: Callable[..., httpx.AsyncClient] | None = None,
    ) -> None:
        super().__init__()
        self.credentials = credentials
        self.timeout_s = timeout_s
        self.max_bytes = max_bytes
        self._client_factory = client_factory or _new_client
        self._max_clients = MAX_CLIENTS if client_factory is None else 1

    def __repr__(self) -> str:
        return f"HttpService({self.credentials!r})"

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        """One of the loop's clients, for one call; a new one for the length of the block when the service is not
        entered.
        """
        users = self._current()  # how many calls of each are under way
        if users is None:
            async with self._new_client() as client:
                yield client
            return
        if len(users) < self._max_clients and all(users.values()):
            users[self._new_client()] = 0
        client = min(users, key=users.__getitem__)
        users[client] += 1
        try:
            yield client
        finally:
            users[client] -= 1

    def _make(self) -> dict[httpx.AsyncClient, int]:
        return {}

    async def _close(self, resource: dict[httpx.AsyncClient, int]) -> None:
        async with AsyncExitStack() as stack:
            for client in resource:
                stack.push_async_callback(client.aclose)

    def _new_client(self) -> httpx.AsyncClient:
        # No cookie is kept: what one run did must not change what the next one sees.
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        client = self._client_factory(follow_redirects=False, timeout=self.timeout_s, cookies=no_cookies)
        hooks = client.event_hooks
        client.event_hooks = {**hooks, "response": [*hooks.get("response", ()), _check_target]}
        return client


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Return the certificates that services are trusted by, read once: a tool that is called alone makes a client."""
    return httpx.create_ssl_context()


@functools.lru_cache
def _parsed(server: str) -> httpx.URL:
    return httpx.URL(server)


def _new_client(**options: Any) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=MAX_CONNECTIONS // MAX_CLIENTS)
    return httpx.AsyncClient(verify=_trusted(), limits=limits, **options)


@dataclass(frozen=True, eq=False)
class OperationTransport(AnnouncingTransport, GradedTransport, KeyedTransport, ServiceTransport):
    """Calls one operation over HTTP. It never retries: that is the broker's business.

    Attributes:
        operation: how arguments become a request.
        service: the client and the credentials.
        key_headers: headers that bear an idempotency key, for one call.
    """

    key_kind = "header"
    operation: Operation
    service: HttpService = field(repr=False)
    key_headers: tuple[tuple[str, str], ...] = ()

    @property
    def key_place(self) -> KeyPlace | None:
        name = self.operation.key_header
        return KeyPlace("header", name) if name else None

    def keyed(self, place: KeyPlace, key: str) -> OperationTransport:
        """The same, for one call that bears this key, also in the header that the operation declares itself."""
        names = {name.lower(): name for name in (self.operation.key_header, place.name) if name}
        return replace(self, key_headers=tuple((name, key) for name in names.values()))

    def argument_at(self, place: KeyPlace) -> str | None:
        headers = (each for each in self.operation.parameters if each.location == "header")
        return next((each.argument for each in headers if each.name.lower() == place.name.lower()), None)

    def graded(self, *, reads: bool) -> OperationTransport:
        return replace(self, operation=replace(self.operation, reads=reads))

    @property
    def missing(self) -> MissingCredential | None:
        return self.service.credentials.lacking(self.operation)

    @property
    def account(self) -> dict[str, str]:
        """Where the operation is, how arguments become its request, and the credentials that go with it."""
        plan = replace(self.operation, server=None, found_at="", security=(), reads=False, accepts=(), returns=None)
        return self.service.credentials.account(self.operation) | {"operation": repr(plan)}

    @property
    def session(self) -> RecordedSession | None:
        return self.service.credentials.session(self.operation)

    @property
    def sends_credential(self) -> bool:
        """Whether the operation asks for a credential that is there, or the user's own headers go with it."""
        return self.service.credentials.sent(self.operation)

    @property
    def other_address(self) -> OtherAddress | None:
        """The address that the document names and the one where it was found, if the former looks like a slip."""
        operation = self.operation
        return OtherAddress(operation.server or "", operation.found_at) if operation.found_at else None

    def opened(self) -> AbstractAsyncContextManager[Any]:
        return self.service

    async def announced(self, arguments: dict[str, Any], sending: Sending) -> Answered:
        """Make one call, and return with its value the next page by its ``Link`` header.

        ``sending`` is awaited once there is a token, before the request is sent.

        Raises:
            ToolError: the arguments do not fit in a request, the service cannot be reached or refuses, or its answer
                cannot be used.
        """
        operation = self.operation
        if operation.server is None:
            raise ToolError(f"{operation.label} cannot be called: {operation.server_problem}", cause="unreachable")
        request, report = encode(operation, arguments), Report(reads=operation.reads)
        try:
            async with asyncio.timeout(self.service.timeout_s), self.service.client() as client:
                return await self._exchange(client, self._built(client, operation.server, request), sending, report)
        except _NoTarget as nowhere:
            if report.status is None:
                report.status, report.answered = nowhere.status, True
            failure = ToolError(
                f"{operation.label} redirects to no valid URL: the Location header of its answer ({nowhere.status}) is "
                "broken, which only the service can mend",
                status=nowhere.status,
            )
        except ToolError as error:
            failure = error
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL) as error:
            report.sent = report.sent and not (isinstance(error, _NOT_SENT) and report.status is None)
            failure = self._broken(error)
        failure.outcome = outcome_of(report)
        raise failure from None

    def _built(self, client: httpx.AsyncClient, server: str, request: Request) -> httpx.Request:
        credentials = self.service.credentials
        headers = {
            "Accept": accept_header(self.operation.accepts),
            "Accept-Encoding": ENCODINGS,
            "User-Agent": "atc",
            **carried(),
            **request.headers,
        }
        query, cookies = list(request.query), list(request.cookies)
        for name, value in credentials.headers.items():
            _set(headers, name, value)
        for scheme, value in credentials.chosen(self.operation):
            if scheme.location == "query":
                query.append((quote(scheme.wire, safe=""), quote(value, safe="")))
            elif scheme.location == "cookie":
                cookies.append((scheme.wire, value))
            else:
                _set(headers, scheme.wire, value)
        if cookies:
            _set(headers, "Cookie", "; ".join(f"{name}={value}" for name, value in cookies))
        for name, value in self.key_headers:
            _set(headers, name, value)
        url = _parsed(server)
        target = url.raw_path.decode().rstrip("/") + request.path
        if query:
            target += "?" + "&".join(f"{name}={value}" for name, value in query)
        return client.build_request(
            self.operation.method,
            url.copy_with(raw_path=target.encode()),
            headers=headers,
            content=request.content,
            files=request.parts,
        )

    async def _exchange(
        self, client: httpx.AsyncClient, request: httpx.Request, sending: Sending, report: Report
    ) -> Answered:
        operation, credentials = self.operation, self.service.credentials
        live = credentials.live(operation)
        redirects, renewed = 0, False
        while redirects <= MAX_REDIRECTS:
            report.sent = report.answered = False  # the one before, if there was one, did nothing
            report.status = None
            for credential in live:
                await credential.put_on(request, client)
            await sending()
            report.sent = True
            response = await client.send(request, stream=True)
            report.status, report.answered = response.status_code, response.has_redirect_location
            try:
                credentials.note(operation, response.status_code)
                if response.has_redirect_location:
                    request = self._redirected(client, request, response, report)
                    if not operation.reads and response.status_code not in (307, 308):
                        report = Report()  # what this page answers says nothing of the request that led to it
                    redirects += 1
                    continue
                if response.status_code == 401 and not renewed and any(c.renew(request) for c in live):
                    renewed = True  # refused, so nothing has happened: one more try with a new token
                    continue
                if not response.is_success:
                    await self._raise_error(response)
                try:
                    body = await read_body(response, self.service.max_bytes)
                    report.answered = True
                except TooLarge:
                    report.answered = True
                    raise ToolError(
                        f"{operation.label} answered with more than {self.service.max_bytes:,} bytes: ask for less",
                        status=response.status_code,
                        received=self.service.max_bytes,
                    ) from None
                odd = Oddities()
                value = value_of(operation, response, body, credentials, odd)
                return Answered(value, next_page(operation, response), odd.notes(credentials.redacted_value))
            finally:
                await response.aclose()
        raise ToolError(f"{operation.label} redirects more than {MAX_REDIRECTS} times")

    async def _raise_error(self, response: httpx.Response) -> NoReturn:
        try:
            body = await read_body(response, _ERROR_BYTES)
        except (TooLarge, ToolError, httpx.HTTPError):
            body = b""  # the status alone says that the call failed
        raise error_of(self.operation, response, body, self.service.credentials)

    def _redirected(
        self, client: httpx.AsyncClient, request: httpx.Request, response: httpx.Response, report: Report
    ) -> httpx.Request:
        operation, status, target = self.operation, response.status_code, _target(response)
        if self.session is not None and _LOGIN.search(target.path) and not _LOGIN.search(operation.path):
            raise self._sent_to_login(request, status, target, report)
        if _origin(target) != _origin(request.url):
            to = self.service.credentials.redacted(
                f"{target.scheme}://{target.netloc.decode('ascii', 'replace')}"[:200]
            )
            raise ToolError(
                f"{operation.label} redirects to {to}, another server, which is not followed: if that is right, import "
                "the document with base_url set to it",
                status=status,
            )
        if not operation.is_safe and status in (301, 302):
            raise ToolError(
                f"{operation.label} redirects with status {status}, which does not say whether it acted",
                status=status,
            )
        return self._again(client, request, target, same_method=operation.is_safe or status in (307, 308))

    def _sent_to_login(self, request: httpx.Request, status: int, target: httpx.URL, report: Report) -> ToolError:
        """A service that will come back to this very address once there is a login has not acted: that is a 401 in
        another form. A log-out or a new password acts, and leads there too, so any other such answer leaves a write in
        doubt."""
        operation, credentials = self.operation, self.service.credentials
        credentials.note(operation, 401)
        page = target.raw_path.partition(b"?")[0].decode("ascii", "replace")[:100]
        said = f"{operation.label} was answered with status {status} to the login page {page}"
        again = status in (307, 308) or _comes_back(target, request.url)
        acts = request.method != operation.method or _ENDS_A_LOGIN.search(operation.path)
        if operation.is_safe or operation.reads or (again and not acts):
            message = credentials.redacted(f"{said}, so it was refused as by a 401{credentials.hint(operation)}")
            report.status = 401
            return ToolError(message, status=401, cause="credential")
        message = credentials.redacted(f"{said}, which does not say whether it acted{credentials.hint(operation)}")
        return ToolError(message, status=status, cause="in_doubt")

    def _again(
        self, client: httpx.AsyncClient, request: httpx.Request, target: httpx.URL, *, same_method: bool
    ) -> httpx.Request:
        dropped = {"host", "content-length", "transfer-encoding"} | (set() if same_method else {"content-type"})
        headers = [(name, value) for name, value in request.headers.raw if name.decode().lower() not in dropped]
        for scheme, value in self.service.credentials.chosen(self.operation):
            if scheme.location == "query" and scheme.wire not in target.params:
                target = target.copy_add_param(scheme.wire, value)
        content = request.content if same_method else None
        return client.build_request(request.method if same_method else "GET", target, headers=headers, content=content)

    def _broken(self, error: Exception) -> ToolError:
        label = self.operation.label
        if isinstance(error, httpx.InvalidURL):
            return ToolError(f"{label} cannot be called with these arguments: they make no valid URL (too long?)")
        if isinstance(error, _NOT_SENT):
            url = httpx.URL(self.operation.server or "")
            place = f"{url.scheme}://{url.netloc.decode()}"  # a server's URL holds no credential
            found = self.other_address
            more = f"; {wording.other_address(found.named, found.found)}" if found is not None else ""
            return ToolError(
                f"{label} cannot reach {place} ({type(error).__name__}){more}",
                status="unreachable",
                transient=True,
                cause="unreachable",
            )
        if isinstance(error, (TimeoutError, httpx.TimeoutException)):
            return ToolError(
                f"{label} did not answer within {self.service.timeout_s:g} s",
                status="timeout",
                transient=True,
                cause="unreachable",
            )
        return ToolError(
            f"{label}: the connection broke ({type(error).__name__})",
            status="broken",
            transient=True,
            cause="unreachable",
        )


_LOGIN = re.compile(r"(?:^|/)(?:log|sign)[_-]?(?:in|on)\b|(?:^|/)(?:sso|oauth2?|auth)(?:/|$)", re.IGNORECASE)
"""Where a service sends a browser whose login is over."""
_ENDS_A_LOGIN = re.compile(
    r"(?:log|sign)[_-]?(?:out|off)|passw|session|2fa|mfa|(?:^|/)(?:account|me|profile)/?$", re.IGNORECASE
)
"""Writes that may end the login themselves."""


def _comes_back(login: httpx.URL, asked: httpx.URL) -> bool:
    """Whether a login page is told to lead back to an address: an argument of its own (``next``) is that address."""
    for value in login.params.values():
        with suppress(httpx.InvalidURL, UnicodeError):
            back = asked.join(value[:_LONGEST_ADDRESS])
            if value and back.path == asked.path and _origin(back) == _origin(asked):
                return True
    return False


class _NoTarget(Exception):
    """A redirect whose Location header is no URL of a server."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


async def _check_target(response: httpx.Response) -> None:
    """Look at a redirect before httpx does, which takes a broken Location header for a broken connection."""
    if response.has_redirect_location:
        _target(response)


def _target(response: httpx.Response) -> httpx.URL:
    try:
        target = response.request.url.join(response.headers["location"])
        if target.host:
            return target
    except (httpx.InvalidURL, UnicodeError):  # the second of a host that cannot be a name
        pass
    raise _NoTarget(response.status_code)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    return url.scheme, url.host, port


def _set(headers: dict[str, str], name: str, value: str) -> None:
    for known in [key for key in headers if key.lower() == name.lower()]:
        del headers[known]
    headers[name] = value
