"""What was recorded of one host → an OpenAPI 3.1 document, and the credentials that were seen beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal


@dataclass(frozen=True)
class RecordedSecret:
    """A credential that a recording holds. Its value is in no document and no ``repr``.

    Attributes:
        scheme: the security scheme of the document that it is for, by which ``auth`` and ``ATC_AUTH_<SCHEME>`` name it.
        location: where it travels.
        wire: the name of the header, cookie or query parameter.
        value: as it was sent last, or set by an answer after that; without ``Bearer`` or ``Basic`` where the scheme is
            of that kind. Empty where the last answer cleared it.
        expires: until when it lasts (its cookie or its token says so); ``None`` where nothing says that.
        recorded_at: when it was seen last; ``None`` where the recording does not say.
    """

    scheme: str
    location: Literal["header", "cookie", "query"]
    wire: str
    value: str = field(repr=False)
    expires: datetime | None = None
    recorded_at: datetime | None = None


@dataclass(frozen=True)
class Recorded:
    """What a recording tells of one host.

    Attributes:
        host: in lower case, without a port; an IPv6 address without brackets.
        scheme: ``http`` or ``https``.
        port: also where it is the usual one of the scheme.
        document: an OpenAPI 3.1 document of what was called there. It has no value of the recording.
        secrets: the credentials that calls were sent with, by security scheme of the document.
    """

    host: str
    scheme: str
    port: int
    document: dict[str, Any] = field(repr=False)
    secrets: Mapping[str, RecordedSecret] = field(default_factory=dict, repr=False)

    @property
    def origin(self) -> str:
        """``https://shop.example.com``, with the port where it is not the usual one."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return f"{self.scheme}://{name}" + ("" if self.port == usual else f":{self.port}")
