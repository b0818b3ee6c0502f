"""Who may do what on the page: three keys, each with its rights, and the cookie that a browser gets for one."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Literal, get_args

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
