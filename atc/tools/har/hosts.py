"""The hosts of a recording: its own, those that the user names, and third parties."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from atc.errors import UsageError
from atc.tools.har.entries import Entry

Origin = tuple[str, str, int]
"""Scheme, host and port."""
MAX_HOSTS = 20
"""Hosts that are kept, those with the most calls first."""

_SECOND_LEVEL = frozenset("ac co com edu gob gouv gov govt id ltd me mil net nhs nom or org plc sch".split())
"""Second labels below a country's, under which names are sold: ``example.co.uk``."""
_SHARED = (
    "amazonaws.com appspot.com azurestaticapps.net azurewebsites.net cloudfront.net deno.dev firebaseapp.com "
    "fly.dev github.io gitlab.io glitch.me herokuapp.com netlify.app ngrok.io ngrok-free.app onrender.com pages.dev "
    "railway.app replit.app run.app surge.sh vercel.app web.app workers.dev"
).split()
"""Names under which each host is somebody else's."""


@lru_cache(maxsize=4096)
def site_of(host: str) -> str:
    """The part of a host's name that belongs to one owner: ``example.co.uk`` of ``api.example.co.uk``.

    Without the list of all public suffixes it may be too long, never too short for the usual ones: then a host counts
    as a third party, and can be named.
    """
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        labels = host.split(".")
    if any(host.endswith(f".{shared}") for shared in _SHARED):
        return host
    count = 3 if len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL else 2
    return ".".join(labels[-count:])


def kept_hosts(entries: Sequence[Entry], named: Sequence[str] | None) -> list[Origin]:
    """The origins whose calls are kept, in the order of their first call.

    Args:
        entries: of a recording.
        named: ``NAME``, ``NAME:PORT`` or an address, by the user's choice; ``None`` for the recording's own.

    Raises:
        UsageError: the recording has no call to a host that is named.
    """
    called = Counter(origin_of(entry) for entry in entries if entry.kind == "call")
    if named is None:
        sites = _own_sites(entries)
        found = [origin for origin in called if site_of(origin[1]) in sites]
    else:
        wanted = [_parsed(each) for each in named]
        for (host, port), text in zip(wanted, named, strict=True):
            if not any(origin[1] == host and port in (None, origin[2]) for origin in called):
                known = shown_hosts(called) or "none at all"
                raise UsageError(f"the recording has no call to {text[:100]!r}; it has calls to {known}")
        found = [o for o in called if any(o[1] == host and port in (None, o[2]) for host, port in wanted)]
    most = set(sorted(found, key=lambda origin: -called[origin])[:MAX_HOSTS])
    return [origin for origin in found if origin in most]


def shown_hosts(called: Counter[Origin]) -> str:
    """Hosts with the numbers of their calls, the busiest first: ``api.example.com (12), t.example.net (3)``."""
    hosts: Counter[str] = Counter()
    for (scheme, host, port), count in called.items():
        usual = port == (443 if scheme == "https" else 80)
        hosts[host if usual else f"{host}:{port}"] += count
    shown = ", ".join(f"{host} ({count})" for host, count in hosts.most_common(5))
    return f"{shown} and {len(hosts) - 5} more" if len(hosts) > 5 else shown


def _own_sites(entries: Iterable[Entry]) -> set[str]:
    """The sites of the pages that the user was on; without pages, of those that called; else of the busiest host."""
    pages: dict[str, str] = {}
    callers: Counter[str] = Counter()
    called: Counter[str] = Counter()
    for entry in entries:
        if entry.kind == "document" and entry.host:
            pages.setdefault(entry.page, site_of(entry.host))
        elif entry.kind == "call":
            called[site_of(entry.host)] += 1
            caller = entry.headers.get("origin") or entry.headers.get("referer") or ""
            if host := _host_of(caller):
                callers[site_of(host)] += 1
    if pages:
        return set(pages.values())
    return {site for counted in (callers or called,) for site, _ in counted.most_common(1)}


def _host_of(address: str) -> str:
    try:
        return (urlsplit(address[:2_000]).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _parsed(text: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(text if "//" in text else f"//{text}")
        return (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise UsageError(f"{text[:100]!r} is no host: write NAME or NAME:PORT") from None


def origin_of(entry: Entry) -> Origin:
    """Scheme, host and port that an entry was sent to."""
    return entry.scheme, entry.host, entry.port
