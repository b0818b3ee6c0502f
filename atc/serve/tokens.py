"""Tokens that name who shows them. Of each only the digest is kept, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from atc.errors import UsageError

MIN_TOKEN = 20
"""Characters of a token."""
HOW_TO_MAKE_ONE = 'python3 -c "import secrets; print(secrets.token_urlsafe(32))"'
Name = TypeVar("Name")
_TENANT = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Tenants:
    """The tenants and their tokens.

    Args:
        tokens: tenant → token.

    Raises:
        UsageError: no token is given, one is too short, two are equal, or a tenant's name is not valid.
    """

    def __init__(self, tokens: Mapping[str, str]) -> None:
        if not tokens:
            raise UsageError(
                f"the service needs a token that its callers show: make one with `{HOW_TO_MAKE_ONE}` and give it in "
                "ATC_SERVE_TOKEN, by --token-file FILE, or several by --tenants FILE (lines: tenant token)"
            )
        self._digests: dict[str, bytes] = {}
        for tenant, token in tokens.items():
            if not _TENANT.fullmatch(tenant):
                raise UsageError(f"{tenant[:80]!r} is no tenant's name: use 1 to 64 letters, digits, '.', '_' and '-'")
            if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
                raise UsageError(
                    f"the token of {tenant} must be at least {MIN_TOKEN} ASCII characters without spaces: make one "
                    f"with `{HOW_TO_MAKE_ONE}`"
                )
            digest = digest_of(token)
            if digest in self._digests.values():
                raise UsageError(f"the token of {tenant} is another tenant's too: give each its own")
            self._digests[tenant] = digest

    def __len__(self) -> int:
        return len(self._digests)

    def __iter__(self) -> Iterator[str]:
        return iter(self._digests)

    def named_by(self, authorization: str) -> str | None:
        """Return the tenant whose token an ``Authorization`` header shows."""
        return self.of_token(bearer(authorization))

    def of_token(self, token: str) -> str | None:
        """Return the tenant whose token this is."""
        return matching(self._digests, token)


def matching(digests: Mapping[Name, bytes], token: str) -> Name | None:
    """Return whose digest is a token's. All are compared, whichever fits: the time says nothing of them."""
    shown, found = digest_of(token), None
    for name, digest in digests.items():
        if hmac.compare_digest(shown, digest):
            found = name
    return found


def bearer(authorization: str) -> str:
    """Return the token in ``Bearer TOKEN``; empty for anything else."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def digest_of(token: str) -> bytes:
    """Return the SHA-256 digest of a token: a server keeps nothing else of it."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def read_token(path: Path) -> str:
    """Return the token that a file consists of.

    Raises:
        UsageError: it cannot be read, or is empty.
    """
    token = _text(path).strip()
    if not token:
        raise UsageError(f"the token file {path} is empty: make one with `{HOW_TO_MAKE_ONE} > {path}`")
    return token


def read_tenants(path: Path) -> dict[str, str]:
    """Return tenants and tokens from a file of lines ``tenant token``; ``#`` begins a comment line.

    Raises:
        UsageError: it cannot be read, or a line has the wrong form; the message gives the line's number alone.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(_text(path).splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise UsageError(f"{path}, line {number}: write `tenant token`, two words")
        if words[0] in found:
            raise UsageError(f"{path}, line {number}: the tenant {words[0][:64]!r} stands there twice")
        found[words[0]] = words[1]
    return found


def tokens_given(listed: Path | None, file: Path | None, variable: str, owner: str) -> dict[str, str]:
    """Return the tokens that an operator gave: those of a list, and one in a file or else in the environment.

    Args:
        listed: lines ``tenant token``.
        file: holds the one token alone.
        variable: of the environment, in place of the file.
        owner: the tenant whom the one token names.

    Raises:
        UsageError: a file cannot be read, or the list names the owner, too.
    """
    tokens = read_tenants(listed) if listed else {}
    own = read_token(file) if file else os.environ.get(variable, "").strip()
    if own:
        if owner in tokens:
            raise UsageError(f"{listed}: `{owner}` is who shows the token of --token-file or {variable}: rename it")
        tokens[owner] = own
    return tokens


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}") from None
