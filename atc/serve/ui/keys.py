"""Who may do what at the page's server: its keys, what a request must be, and what every answer says.

Other pages of the same browser are strangers: they may send requests here, by a name that they let lead to this machine
too. So the host must be this server's own, a page that calls must be this server's own, and no other origin may read
anything.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import secrets
from collections.abc import Mapping, Sequence
from typing import Literal, get_args
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from atc.serve.request_guard import Refusal, RequestGuard, Rules
from atc.serve.tokens import digest_of, matching

Right = Literal["read", "approve", "run"]
RIGHTS: tuple[Right, ...] = get_args(Right)
"""Each is had with those before it."""


def with_those_before(right: Right) -> tuple[Right, ...]:
    """Return a right, and those that go with it."""
    return RIGHTS[: RIGHTS.index(right) + 1]


class Keys:
    """The keys of one server. They end with it.

    Args:
        most: the most that anybody may do here.

    Attributes:
        tokens: of each right that somebody may have, the token that gives it with those before it.
        path: under which all is served: no address outside it gets the cookie, though cookies know no ports.
    """

    def __init__(self, most: Right) -> None:
        self.tokens: Mapping[Right, str] = {right: secrets.token_urlsafe(32) for right in with_those_before(most)}
        self.path = f"/{secrets.token_urlsafe(12)}"
        self._secret = secrets.token_bytes(32)
        self._of_token = {right: digest_of(token) for right, token in self.tokens.items()}
        self._of_cookie = {right: digest_of(self.cookie(right)) for right in self.tokens}

    def cookie(self, right: Right) -> str:
        """Return what a browser shows in place of a token; no token can be made of it."""
        return hmac.new(self._secret, right.encode(), hashlib.sha256).hexdigest()

    def right_of_token(self, token: str) -> Right | None:
        """Return the right that a token gives; ``None`` where it is none."""
        return matching(self._of_token, token)

    def right_of_cookie(self, value: str) -> Right | None:
        """Return the right that a cookie gives, likewise."""
        return matching(self._of_cookie, value)


_ONCE = ("authorization", "content-type", "content-length", "cookie", "host", "origin", "sec-fetch-site")
_OWN = ("same-origin", "none")
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""Of pages; each has a stricter one of its own in itself, with the hashes of its script and style. Both hold."""
_NO_PAGE = "default-src 'none'; frame-ancestors 'none'; sandbox"
_ALWAYS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


def refused(refusal: Refusal) -> Response:
    """Word a refusal as pages and scripts read it. Whatever it is for, the one who asked was wrong."""
    return error_response(refusal.status, "UsageError", refusal.message, refusal.headers)


def error_response(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as pages and scripts read it."""
    return JSONResponse({"error": {"kind": kind, "message": message}}, status, headers)


class OwnNames:
    """The names of a page's server: this machine's own, with its port; and the server's own pages alone may call."""

    def __init__(self, port: int) -> None:
        own = ("127.0.0.1", "localhost", "[::1]")
        self._hosts = [f"{name}:{port}" for name in own] + [*(own if port == 80 else ())]

    def host_allowed(self, host: str) -> bool:
        """Whether it is one of them."""
        return host.lower() in self._hosts

    def origin_allowed(self, origin: str, host: str) -> bool:
        """Whether a page was served under the name that it calls."""
        return origin == f"http://{host.lower()}"


def guarded(app: ASGIApp, keys: Keys, port: int) -> ASGIApp:
    """Return an application that only who is known reaches, and whose every answer is held to its headers."""
    return _HeldAnswers(
        RequestGuard(_Entrance(app, keys, port), Rules(_ONCE, ("GET", "POST"), OwnNames(port)), refused)
    )


class _HeldAnswers:
    """Gives every answer the headers that hold browsers to what they may do with it. WebSockets are not served."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return

        async def held(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_ALWAYS)
                is_page = headers.get("content-type", "").startswith("text/html")
                headers["content-security-policy"] = _POLICY if is_page else _NO_PAGE
            await send(message)

        await self._app(scope, receive, held)


class _Entrance:
    """Lets through who is known, with ``rights`` in the scope.

    Args:
        app: gets what is let through, without the path of the keys.
        keys: of this server.
        port: at which it listens: it names the cookie.
    """

    def __init__(self, app: ASGIApp, keys: Keys, port: int) -> None:
        self._app, self._keys = app, keys
        self._cookie = f"atc-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._check(scope)
            if (elsewhere := self._entered(scope)) is not None:
                await elsewhere(scope, receive, send)
                return
            scope = dict(scope) | {"path": scope["path"][len(self._keys.path) :] or "/"}
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        """Raise a :class:`Refusal` of what lies outside the path, or is asked by another page."""
        headers, path = Headers(scope=scope), scope["path"]
        if path != self._keys.path and not path.startswith(f"{self._keys.path}/"):
            raise Refusal(404, "path", "there is nothing here: open the address that `atc ui` printed")
        if headers.get("sec-fetch-site", "none") not in _OWN and not self._is_visit(scope, headers):
            raise Refusal(403, "origin", "other pages may not call")

    def _is_visit(self, scope: Scope, headers: Headers) -> bool:
        """Whether a reader came here by a link: the page is shown, in a window of its own."""
        return (
            scope["method"] == "GET"
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest") == "document"
            and not scope["path"].startswith(f"{self._keys.path}/api")
        )

    def _entered(self, scope: Scope) -> Response | None:
        """Raises Refusal: nobody that is known, or a change that this server's own page does not surely ask for."""
        headers, scope_path = Headers(scope=scope), scope["path"]
        is_api = scope_path.startswith(f"{self._keys.path}/api/")
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in query if name == "token"]
        if tokens and scope["method"] == "GET" and not is_api:
            return self._taken(scope, headers, tokens, urlencode([pair for pair in query if pair[0] != "token"]))
        shown = headers.get("authorization")
        by_cookie = shown is None
        right = self._by_cookie(headers) if by_cookie else self._by_header(shown or "")
        if right is None:
            message = "who is this? Open the address that `atc ui` printed, or send `Authorization: Bearer TOKEN`"
            raise Refusal(401, "token", message, www_authenticate="Bearer")
        if scope["method"] == "POST":
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                raise Refusal(415, "bad_request", "send JSON: Content-Type: application/json")
            own = headers.get("origin") is not None or headers.get("sec-fetch-site") == "same-origin"
            if by_cookie and not own:
                raise Refusal(403, "origin", "nothing says that this server's own page sent it")
        scope["rights"] = with_those_before(right)
        return None

    def _taken(self, scope: Scope, headers: Headers, tokens: Sequence[str], rest: str) -> Response:
        right = self._keys.right_of_token(tokens[0]) if len(tokens) == 1 else None
        if right is None:
            message = "this token is of another server, or of one that has ended: `atc ui` printed a new address"
            raise Refusal(401, "token", message)
        here = f"{scope['path']}{'?' if rest else ''}{rest}"
        here = f"{here}/" if here == self._keys.path else here
        answer: Response
        if headers.get("sec-fetch-site", "none") in _OWN:
            answer = RedirectResponse(here, 303)
        else:  # a browser that came from elsewhere would not show the cookie after a redirect
            answer = HTMLResponse(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(here)}">')
        answer.set_cookie(
            self._cookie, self._keys.cookie(right), path=f"{self._keys.path}/", httponly=True, samesite="strict"
        )
        return answer

    def _by_header(self, shown: str) -> Right | None:
        scheme, _, token = shown.partition(" ")
        return self._keys.right_of_token(token) if scheme.lower() == "bearer" else None

    def _by_cookie(self, headers: Headers) -> Right | None:
        """Of several cookies of the name, the first that is ours: a server at another port may have set one, too."""
        pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
        rights = (self._keys.right_of_cookie(value) for name, _, value in pairs if name == self._cookie)
        return next(filter(None, rights), None)
