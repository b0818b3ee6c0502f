"""A login that was found in a recording of a browser: its credentials, the one origin they go to, and when they end.

A service may tell that it is over only by a refusal, so what it answers is noted here. What is over is ``missing`` with
its reason, and a call is still tried: the service may have meant something else.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from atc._records.records import MissingReason, RecordedSession

_PORTS = {"http": 80, "https": 443}


def origin_of(url: str) -> str:
    """Scheme, host and port of an address as one text: ``https://shop.example:443``; empty where it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme.lower())
    except ValueError:
        return ""
    host = (parts.hostname or "").lower().rstrip(".")
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme.lower()}://{host}:{port}" if host and port else ""


@dataclass
class Session:
    """The credentials of one recorded login, by security scheme.

    Attributes:
        about: what may be said of it.
        carriers: what carries the credential of each scheme: ``cookie sid``.
        values: by scheme.
        ends_at: when one ends, in seconds since 1970, where that is known.
        changing: schemes whose credential was another one again and again: the last is sent, and may be refused.
        lacking: schemes that the recording had a credential for which is not used, and why.
    """

    about: RecordedSession
    carriers: Mapping[str, str]
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    ends_at: Mapping[str, float] = field(default_factory=dict)
    changing: frozenset[str] = frozenset()
    lacking: Mapping[str, MissingReason] = field(default_factory=dict)
    _refused: set[str] = field(default_factory=set, repr=False)

    @property
    def is_over(self) -> bool:
        """Whether every credential of it has ended."""
        return all(time.time() >= self.ends_at.get(scheme, float("inf")) for scheme in self.values)

    def why_missing(self, scheme: str, server: str | None) -> MissingReason:
        """Why a scheme has no credential, or a call with it will likely be refused; empty where neither is so."""
        known: MissingReason = "refused" if scheme in self._refused else "changes" if scheme in self.changing else ""
        return self.why_not(scheme, server) or known

    def why_not(self, scheme: str, server: str | None) -> MissingReason:
        """Why no credential of a scheme goes with a call to a server; empty where one does, or none was recorded."""
        if scheme in self.lacking:
            return self.lacking[scheme]
        if scheme not in self.values:
            return ""
        if not server or origin_of(server) != origin_of(self.about.origin):
            return "elsewhere"
        return "expired" if time.time() >= self.ends_at.get(scheme, float("inf")) else ""

    def going_with(self, schemes: Iterable[str]) -> RecordedSession | None:
        """What may be said of it where these schemes go with a call; ``None`` where none is of it."""
        carriers = tuple(self.carriers[name] for name in schemes if name in self.values)
        return self.about.model_copy(update={"carriers": carriers}) if carriers else None

    def note(self, schemes: Iterable[str], status: int) -> None:
        """Note how the service answered a call that went with these schemes: a 401 ends them, a success does not."""
        ours = {*schemes} & self.values.keys()
        if status == 401:
            self._refused |= ours
        elif 200 <= status < 300:
            self._refused -= ours
