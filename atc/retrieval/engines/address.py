"""The address of a collection of a server: ``https://HOST:6333/COLLECTION``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from atc.errors import UsageError

_COLLECTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,126}")


@dataclass(frozen=True)
class Address:
    """A collection of a server.

    Attributes:
        server: the address of the server, with a path where it stands behind a proxy.
        collection: the name of the collection.
    """

    server: str
    collection: str

    @property
    def text(self) -> str:
        """As it is given, and as an index names it."""
        return f"{self.server}/{self.collection}"

    @property
    def private(self) -> bool:
        """Whether nobody on the way can read what is sent."""
        from atc.serving import is_loopback

        parts = urlsplit(self.server)
        return parts.scheme == "https" or is_loopback(parts.hostname or "")

    @classmethod
    def of(cls, text: str) -> Address:
        """Read an address.

        Raises:
            UsageError: it is none; nothing of a password that it may have is shown.
        """
        how = "give one like https://HOST:6333/COLLECTION"
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            raise UsageError(f"the address of the vectors cannot be read: {how}") from None
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise UsageError(f"the address of the vectors holds more than a place (the key is `vectors_key`): {how}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{text!r:.200} is no address of vectors: {how}")
        path, _, collection = parts.path.rstrip("/").rpartition("/")
        if not _COLLECTION.fullmatch(collection):
            raise UsageError(f"{text!r:.200} names no collection of letters, digits, dots and dashes: {how}")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        port_text = f":{port}" if port is not None else ""
        return cls(f"{parts.scheme}://{host}{port_text}{path}", collection)
