"""An OAuth authorization server without a socket: its documents, and the tokens that it signs."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from atc.serve.mcp.tokens import IssuerUnreachable

ISSUER, RESOURCE = "https://login.example.org/realm", "https://tools.example.org/mcp"


@cache
def rsa_key(bits: int = 2048, number: int = 0) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def public(key: Any, kid: str | None, **more: Any) -> dict[str, Any]:
    """The public half, as a JWKS has it."""
    algorithm = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    made = dict(algorithm.to_jwk(key.public_key(), as_dict=True))
    made.pop("key_ops", None)
    return made | ({"kid": kid} if kid is not None else {}) | more


class FakeIssuer:
    """Answers what a real one would; counts what it is asked."""

    def __init__(self, *keys: Mapping[str, Any]) -> None:
        self.keys = list(keys) or [public(rsa_key(), "one")]
        self.metadata: dict[str, Any] = {
            "issuer": ISSUER,
            "jwks_uri": "https://login.example.org/keys",
            "introspection_endpoint": "https://login.example.org/ask",
        }
        self.asked: list[str] = []
        self.down = False
        self.said: dict[str, Any] = {}
        self.document: Mapping[str, Any] = {"keys": self.keys}

    async def fetch(self, url: str) -> Mapping[str, Any]:
        self.asked.append(url)
        if self.down:
            raise IssuerUnreachable("down")
        if url == self.metadata["jwks_uri"]:
            return self.document
        if url == "https://login.example.org/.well-known/openid-configuration/realm":
            return self.metadata
        raise IssuerUnreachable("404")

    async def ask(self, url: str, form: Mapping[str, str], auth: tuple[str, str]) -> Mapping[str, Any]:
        self.asked.append(url)
        if self.down:
            raise IssuerUnreachable("down")
        assert form["token"]
        return self.said


def claims(**changed: Any) -> dict[str, Any]:
    """Claims of a good token; a value of None takes a claim out."""
    now = int(time.time())
    made = {"iss": ISSUER, "aud": RESOURCE, "sub": "ann", "client_id": "desk", "exp": now + 300, "iat": now}
    return {name: value for name, value in (made | changed).items() if value is not None}


def signed(key: Any = None, algorithm: str = "RS256", header: Mapping[str, Any] | None = None, **changed: Any) -> str:
    """A token with these claims changed."""
    given = {"kid": "one"} if header is None else header
    body = json.dumps(claims(**changed)).encode()  # jwt.encode refuses claims that a stranger may send
    return jwt.PyJWS().encode(body, rsa_key() if key is None else key, algorithm=algorithm, headers=dict(given))


def forged(header: Mapping[str, Any], signature: bytes = b"", **changed: Any) -> str:
    """A token whose parts are put together by hand."""
    parts = (json.dumps(header).encode(), json.dumps(claims(**changed)).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(each).rstrip(b"=").decode() for each in parts)
