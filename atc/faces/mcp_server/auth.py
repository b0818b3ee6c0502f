"""Who calls: ``local`` over pipes, the owner of a verified token over HTTP; never what a client says of itself."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from mcp.server import ServerRequestContext
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, principal_components

from atc.errors import UsageError

LOCAL = "local"
TOKEN = "token:"
"""Begins the principal of a token that this server's owner gave out; OAuth's begin with ``oauth:``."""


def principal_of(context: ServerRequestContext[Any]) -> str:
    """The proved owner of a request.

    Raises:
        UsageError: it came over HTTP without a verified token. The door lets none through; this is the second lock.
    """
    token = get_access_token()
    if token is not None:
        return principal_named(token)
    if context.request is not None:
        raise UsageError("the request came over HTTP without a verified token")
    return LOCAL


def principal_named(token: AccessToken) -> str:
    """The principal of a verified token: ``token:NAME``, or ``oauth:issuer|client|subject``, each quoted."""
    client, issuer, subject = principal_components(token)
    if issuer is None:
        return client
    return "oauth:" + "|".join(quote(part or "", safe="") for part in (issuer, client, subject))
