"""Tokens that the owner of the server gives out, each with a name."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from mcp.server.auth.provider import AccessToken

from atc.errors import EnvironmentProblem
from atc.faces.mcp_server.auth import TOKEN
from atc.files import make_private
from atc.sandboxes.service.tenants import Tenants, read_token


class TokenVerifier:
    """Verifies tokens of the owner (:class:`mcp.server.auth.provider.TokenVerifier`). Only digests are kept.

    Args:
        tenants: names and tokens.
        scopes: that every one of them has.
    """

    def __init__(self, tenants: Tenants, scopes: Sequence[str] = ()) -> None:
        self._tenants = tenants
        self._scopes = list(scopes)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Who showed it; None where nobody has this token. All are compared, in constant time each."""
        name = self._tenants.named_by(f"Bearer {token}")
        return None if name is None else AccessToken(token="", client_id=f"{TOKEN}{name}", scopes=self._scopes)


def kept_token(path: Path) -> str:
    """The token of a file that only its owner reads; it is made where there is none.

    Raises:
        EnvironmentProblem: it cannot be made.
        UsageError: it cannot be read.
    """
    try:
        make_private(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return read_token(path)
    except OSError as error:
        raise EnvironmentProblem(
            f"the token cannot be kept in {path}: {error.strerror}. Give one by --token-file or ATC_MCP_TOKEN"
        ) from None
    with os.fdopen(descriptor, "w") as file:
        token = secrets.token_urlsafe(32)
        file.write(f"{token}\n")
    return token
