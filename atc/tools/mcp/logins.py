"""Logins at servers that want one (OAuth): a file each, which its owner alone reads, bound to the server's address."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import platformdirs
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken, ProtectedResourceMetadata
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from atc._host.files import lock, make_private, open_plain, write_whole

FOLDER = "mcp-logins"
MAX_FILE_BYTES = 200_000
EARLY_S = 30.0
"""Seconds before its end in which a token counts as ended: it must last for the call, too."""

_PATIENCE_S = 10.0
_LOG = logging.getLogger(__name__)


class Login(BaseModel):
    """What is needed to speak to a server, and to renew it.

    Attributes:
        url: the server's address. A login is used for no other.
        token: its access token is sent with every request to the address's origin, and nowhere else.
        expires_at: when it ends, in seconds since 1970; ``None`` where nobody said.
        client: what we are called where the token came from, and how we prove it.
        issuer: that authorization server; ``None`` where it says nothing of itself.
        subject: a name that it got when somebody logged in, and keeps however often it is renewed.
        resource: what the server says of itself, where it does.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    form: Literal[2] = 2
    url: str
    token: OAuthToken = Field(repr=False)
    expires_at: float | None = None
    client: OAuthClientInformationFull | None = Field(None, repr=False)
    issuer: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None
    subject: str = ""

    @property
    def account(self) -> str:
        """Whose it is: its client, who gives the token, and its subject; never the token, which changes."""
        client = "" if self.client is None else self.client.client_id
        issuer = "" if self.issuer is None else str(self.issuer.issuer)
        return json.dumps([client, issuer, self.subject, *_claims_of(self.token.access_token)])

    @property
    def ended(self) -> bool:
        """Whether the access token has ended, or is about to."""
        return self.expires_at is not None and time.time() > self.expires_at - EARLY_S

    @property
    def renewable(self) -> bool:
        """Whether it can be renewed where it came from, without the user."""
        return bool(self.token.refresh_token) and self.client is not None

    @property
    def secrets(self) -> list[str]:
        """What must not be shown."""
        given = (self.token.access_token, self.token.refresh_token, self.client and self.client.client_secret)
        return [each for each in given if each]


class LoginStorage:
    """What the SDK knows of a login before it begins (its ``TokenStorage``): what it gets is kept when it is whole."""

    def __init__(self, client: OAuthClientInformationFull | None = None, token: OAuthToken | None = None) -> None:
        self._client, self._token = client, token

    async def get_tokens(self) -> OAuthToken | None:
        return self._token

    async def set_tokens(self, tokens: OAuthToken) -> None:
        pass

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        pass


def _claims_of(token: str) -> list[str]:
    """Whom a token that can be read (a JWT) is for; nothing of any other."""
    try:
        part = token.split(".")[1]
        said = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return [str(said.get(name)) for name in ("iss", "sub")]
    except (ValueError, IndexError, AttributeError, RecursionError):
        return []


def login_of(url: str, context: OAuthContext, subject: str) -> Login | None:
    """The login that the SDK has come to, if it has."""
    if context.current_tokens is None:
        return None
    return Login(
        url=url,
        token=context.current_tokens,
        expires_at=context.token_expiry_time,
        client=context.client_info,
        issuer=context.oauth_metadata,
        resource=context.protected_resource_metadata,
        subject=subject,
    )


def origin_of(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of an address."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").lower(), parts.port or (443 if scheme == "https" else 80)


class Logins:
    """The logins of a folder, which is made with the first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def of_user(cls) -> Logins:
        """The user's own. No setting moves them: a project's ``atc.toml`` must not say where tokens are written."""
        return cls(Path(platformdirs.user_config_dir("atc")) / FOLDER)

    def stamp(self, url: str) -> int:
        """Changes whenever the login of an address does; 0 where there is none."""
        try:
            return self._path(url).stat().st_mtime_ns
        except OSError:
            return 0

    def read(self, url: str) -> Login | None:
        """The login for an address; ``None`` where there is none. A damaged one is dropped, with a line."""
        path = self._path(url)
        try:
            with open_plain(path) as file:  # what is longer is no login
                found = Login.model_validate_json(file.read(MAX_FILE_BYTES))
            if found.url != url:
                raise ValueError("of another address")
            return found
        except FileNotFoundError:
            return None
        except (OSError, ValidationError, ValueError):
            _LOG.warning("the login in %s is damaged and is dropped: log in again", path)
            with suppress(OSError):
                path.unlink()
            return None

    def write(self, login: Login) -> None:
        """Keep a login, in place of what was kept for its address.

        Raises:
            OSError: the disk takes none.
        """
        make_private(self._folder)
        write_whole(self._path(login.url), login.model_dump_json())

    def forget(self, url: str) -> bool:
        """Delete the login for an address. Returns whether there was one."""
        path = self._path(url)
        there = path.exists()
        path.unlink(missing_ok=True)
        return there

    @asynccontextmanager
    async def held(self, url: str) -> AsyncIterator[None]:
        """Keep other processes from renewing the same login: a refresh token often works once only."""
        make_private(self._folder)
        with self._path(url).with_suffix(".lock").open("a") as file:
            deadline = time.monotonic() + _PATIENCE_S
            while time.monotonic() < deadline:
                try:
                    lock(file)
                    break
                except BlockingIOError:
                    await asyncio.sleep(0.05)
                except OSError:  # a file system without locks
                    break
            yield

    def _path(self, url: str) -> Path:
        return self._folder / f"{hashlib.sha256(url.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"
