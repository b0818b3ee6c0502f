"""Logins at servers that want one (OAuth): a file each, which its owner alone reads, bound to the server's address."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from atc._host.files import lock, make_private, write_whole

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
        access_token: sent with every request to the address's origin, and nowhere else.
        expires_at: when it ends, in seconds since 1970; ``None`` where nobody said.
        refresh_token: renews it; empty where there is none.
        token_endpoint: the address that renews it; the one that gave it.
        client_id: what we are called there. ``client_secret``, ``client_auth``: how we prove it.
        resource: named in requests for tokens, where the server wants that.
        grant: how it was got. One by ``client_credentials`` is got anew when it ends.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    form: Literal[1] = 1
    url: str
    access_token: str = Field(repr=False)
    expires_at: float | None = None
    refresh_token: str = Field("", repr=False)
    scope: str = ""
    token_endpoint: str
    client_id: str = ""
    client_secret: str = Field("", repr=False)
    client_auth: str = ""
    resource: str = ""
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"

    @property
    def ended(self) -> bool:
        """Whether the access token has ended, or is about to."""
        return self.expires_at is not None and time.time() > self.expires_at - EARLY_S

    @property
    def renewable(self) -> bool:
        """Whether it can be renewed without the user."""
        return bool(self.refresh_token) or self.grant == "client_credentials"

    @property
    def secrets(self) -> list[str]:
        """What must not be shown."""
        return [each for each in (self.access_token, self.refresh_token, self.client_secret) if each]


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
            if path.stat().st_size > MAX_FILE_BYTES:
                raise ValueError("too large")
            found = Login.model_validate_json(path.read_bytes())
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
