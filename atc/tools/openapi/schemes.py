"""The security schemes that a document declares."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urljoin

from atc.errors import ToolImportError
from atc.tools.openapi import aws
from atc.tools.openapi.refs import Resolver

AWS_MARK = "x-amazon-apigateway-authtype"
"""The extension by which a document says how AWS requests are signed."""

_FLOWS = ("clientCredentials", "authorizationCode", "password")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}\Z")


@dataclass(frozen=True)
class Scheme:
    """How one credential travels: in a header, query or cookie; ``prefix`` stands before a header's value.

    Attributes:
        kind: ``"oauth2"`` takes a mapping as well, with which tokens are fetched; ``"sigv4"`` signs every request.
        token_url: where the document says that tokens are had.
        service: what the document calls an AWS service.
    """

    name: str
    location: str
    wire: str
    prefix: str = ""
    kind: Literal["static", "oauth2", "sigv4"] = "static"
    token_url: str = ""
    service: str = ""


def read_schemes(raw: Mapping[str, Any], resolver: Resolver, document_url: str | None = None) -> dict[str, Scheme]:
    """The schemes of a document that a credential can be given for; others (mutual TLS, digest) are left out.

    Args:
        raw: the schemes by name, as OpenAPI 3 has them.
        resolver: follows references.
        document_url: against which the URLs of tokens count.
    """
    schemes: dict[str, Scheme] = {}
    for name, node in raw.items():
        try:
            scheme = _scheme(name, resolver.mapping(node, f"the security scheme {name!r}"), document_url)
        except ToolImportError:
            continue  # an operation that needs it is called without a credential, and its 401 says so
        if scheme is not None:
            schemes[name] = scheme
    return schemes


def _scheme(name: str, node: dict[str, Any], document_url: str | None) -> Scheme | None:
    kind, wire = node.get("type"), node.get("name")
    if node.get(AWS_MARK) in aws.SIGNED:
        return Scheme(name, "header", "Authorization", kind="sigv4")
    if kind == "apiKey" and node.get("in") in ("header", "query", "cookie") and isinstance(wire, str) and wire:
        return None if node["in"] != "query" and not is_token(wire) else Scheme(name, node["in"], wire)
    if kind == "http" and isinstance(node.get("scheme"), str):
        prefix = {"basic": "Basic ", "bearer": "Bearer "}.get(node["scheme"].lower())
        return Scheme(name, "header", "Authorization", prefix) if prefix else None
    if kind in ("oauth2", "openIdConnect"):
        return Scheme(name, "header", "Authorization", "Bearer ", "oauth2", _token_url(node, document_url))
    return None


def _token_url(node: dict[str, Any], document_url: str | None) -> str:
    """The token URL: that of the flow for programs first. Swagger 2 has one flow, beside the scheme's type."""
    flows = node.get("flows")
    listed = [flows.get(flow) for flow in _FLOWS] if isinstance(flows, dict) else [node]
    urls = [flow.get("tokenUrl") for flow in listed if isinstance(flow, dict)]
    url = next((url.strip() for url in urls if isinstance(url, str) and url.strip()), "")
    try:
        return urljoin(document_url or "", url)
    except ValueError:
        return ""


def is_token(text: str) -> bool:
    """Whether ``text`` may be the name of a header or a cookie."""
    return _TOKEN.match(text) is not None
