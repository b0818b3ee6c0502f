"""The door of the page's server: what a request must be before it is answered, and what every answer says.

Other pages of the same browser are strangers: they may send requests here, by a name that they let lead to this machine
too. So the host must be this server's own, a page that calls must be this server's own, and no other origin may read
anything.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Literal, get_args
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Right = Literal["read", "approve", "run"]
RIGHTS: tuple[Right, ...] = get_args(Right)
"""Each is had with those before it."""


def with_those_before(right: Right) -> tuple[Right, ...]:
    """A right, and those that go with it."""
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
        self._of_token = {right: _digest(token) for right, token in self.tokens.items()}
        self._of_cookie = {right: _digest(self.cookie(right)) for right in self.tokens}

    def cookie(self, right: Right) -> str:
        """What a browser shows in place of a token; no token can be made of it."""
        return hmac.new(self._secret, right.encode(), hashlib.sha256).hexdigest()

    def right_of_token(self, token: str) -> Right | None:
        """The right that a token gives; ``None`` where it is none. All are compared, in constant time."""
        return _found(self._of_token, token)

    def right_of_cookie(self, value: str) -> Right | None:
        """The right that a cookie gives, likewise."""
        return _found(self._of_cookie, value)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def _found(digests: Mapping[Right, bytes], shown: str) -> Right | None:
    digest, found = _digest(shown), None
    for right, known in digests.items():
        if hmac.compare_digest(known, digest):
            found = right
    return found


MAX_BODY = 256 * 1024
"""Bytes of a request's body."""
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


def refusal(status: int, kind: str, message: str, **headers: str) -> Response:
    """An error as pages and scripts read it."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    content = json.dumps({"error": {"kind": kind, "message": message}})
    return Response(content, status, named, media_type="application/json")


class Door:
    """Lets through who is known, with ``rights`` in the scope, and holds every answer to its headers.

    Args:
        app: gets what is let through, without the path of the keys.
        keys: of this server.
        port: at which it listens.
    """

    def __init__(self, app: ASGIApp, keys: Keys, port: int) -> None:
        self._app, self._keys = app, keys
        self._hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
        if port == 80:
            self._hosts += ["127.0.0.1", "localhost", "[::1]"]
        self.cookie = f"atc-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # websockets are not served

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_ALWAYS)
                is_page = headers.get("content-type", "").startswith("text/html")
                headers["content-security-policy"] = _POLICY if is_page else _NO_PAGE
            await send(message)

        answer = self._refused(scope) or self._entered(scope)
        if answer is not None:
            await answer(scope, receive, guarded)
            return
        scope = dict(scope) | {"path": scope["path"][len(self._keys.path) :] or "/"}
        await self._app(scope, receive, guarded)

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if twice := [name for name in _ONCE if len(headers.getlist(name)) > 1]:
            return refusal(400, "UsageError", f"the header {twice[0]} is there twice")
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            return refusal(421, "UsageError", f"this server does not answer to the host {host[:100]!r}")
        if scope["method"] not in ("GET", "POST"):
            return refusal(405, "UsageError", "only GET and POST are served", allow="GET, POST")
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return refusal(403, "UsageError", f"pages of {origin[:100]!r} may not call")
        path = scope["path"]
        if path != self._keys.path and not path.startswith(f"{self._keys.path}/"):
            return refusal(404, "UsageError", "there is nothing here: open the address that `atc ui` printed")
        if headers.get("sec-fetch-site", "none") not in _OWN and not self._is_visit(scope, headers):
            return refusal(403, "UsageError", "other pages may not call")
        return None

    def _is_visit(self, scope: Scope, headers: Headers) -> bool:
        """Whether a reader came here by a link: the page is shown, in a window of its own."""
        return (
            scope["method"] == "GET"
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest") == "document"
            and not scope["path"].startswith(f"{self._keys.path}/api")
        )

    def _entered(self, scope: Scope) -> Response | None:
        """Find out who it is. An answer where it ends here: a refusal, or the way to the address without the token."""
        headers, scope_path = Headers(scope=scope), scope["path"]
        is_api = scope_path.startswith(f"{self._keys.path}/api/")
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in query if name == "token"]
        if tokens and scope["method"] == "GET" and not is_api:
            return self._taken(scope, headers, tokens, urlencode([pair for pair in query if pair[0] != "token"]))
        said = headers.get("authorization")
        by_cookie = said is None
        right = self._by_cookie(headers) if by_cookie else self._by_header(said or "")
        if right is None:
            message = "who is this? Open the address that `atc ui` printed, or send `Authorization: Bearer TOKEN`"
            return refusal(401, "UsageError", message, www_authenticate="Bearer")
        if scope["method"] == "POST":
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return refusal(415, "UsageError", "send JSON: Content-Type: application/json")
            own = headers.get("origin") is not None or headers.get("sec-fetch-site") == "same-origin"
            if by_cookie and not own:
                return refusal(403, "UsageError", "nothing says that this server's own page sent it")
            if not _is_length(headers.get("content-length", "")):
                return refusal(413, "UsageError", f"a body has its length, at most {MAX_BODY:,} bytes")
        scope["rights"] = with_those_before(right)
        return None

    def _taken(self, scope: Scope, headers: Headers, tokens: Sequence[str], rest: str) -> Response:
        right = self._keys.right_of_token(tokens[0]) if len(tokens) == 1 else None
        if right is None:
            message = "this token is of another server, or of one that has ended: `atc ui` printed a new address"
            return refusal(401, "UsageError", message)
        here = f"{scope['path']}{'?' if rest else ''}{rest}"
        here = f"{here}/" if here == self._keys.path else here
        answer: Response
        if headers.get("sec-fetch-site", "none") in _OWN:
            answer = RedirectResponse(here, 303)
        else:  # a browser that came from elsewhere would not show the cookie after a redirect
            answer = HTMLResponse(f'<!doctype html><meta http-equiv="refresh" content="0;url={_escaped(here)}">')
        answer.set_cookie(
            self.cookie, self._keys.cookie(right), path=f"{self._keys.path}/", httponly=True, samesite="strict"
        )
        return answer

    def _by_header(self, said: str) -> Right | None:
        scheme, _, token = said.partition(" ")
        return self._keys.right_of_token(token) if scheme.lower() == "bearer" else None

    def _by_cookie(self, headers: Headers) -> Right | None:
        """Of several cookies of the name, the first that is ours: a server at another port may have set one, too."""
        pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
        rights = (self._keys.right_of_cookie(value) for name, _, value in pairs if name == self.cookie)
        return next(filter(None, rights), None)


def _is_length(length: str) -> bool:
    return length.isascii() and length.isdigit() and len(length) < 10 and int(length) <= MAX_BODY


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
