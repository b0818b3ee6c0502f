"""The import as a whole: a recording → its hosts → a document for each → a toolset."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from atc.errors import ToolImportError, UsageError
from atc.schemas.names import tool_name
from atc.schemas.protocol import Provenance
from atc.tools.har.document import Recorded, recorded
from atc.tools.har.entries import MAX_BYTES, Entry, read_entries
from atc.tools.har.hosts import Origin, kept_hosts, origin_of, shown_hosts
from atc.tools.har.session import SessionChoice, session_of, warn_of_readers
from atc.tools.openapi.importer import read_openapi
from atc.tools.openapi.plan import is_json
from atc.tools.tool import Tool, Toolset

_LOG = logging.getLogger(__name__)
KIND = "har"
"""The kind of source of these tools."""
_EMPTY = (204, 205)
"""Statuses of answers without a body."""
_BESIDE_LOGIN = re.compile(r"csrf|xsrf", re.IGNORECASE)
"""Headers that are no login by themselves."""


def read_har(path: str | Path, *, hosts: Sequence[str] | None = None, max_bytes: int = MAX_BYTES) -> list[Recorded]:
    """Read a recording and say of each kept host what was called there. Nothing is sent.

    What is left out is said in one warning in the log: kinds of entries and other hosts, with their numbers.

    Args:
        path: a HAR 1.2 file.
        hosts: the hosts to keep, ``NAME`` or ``NAME:PORT``; by default those of the recording's own pages and others of
            the same site.
        max_bytes: bytes that the file may have.

    Raises:
        ToolImportError: the file cannot be read, is no HAR, or records no call that could become a tool.
        UsageError: the recording has no call to a host that is named.
    """
    path = Path(path)
    entries = list(read_entries(path, max_bytes=max_bytes))
    origins = kept_hosts(entries, hosts)
    kept: dict[Origin, list[Entry]] = {origin: [] for origin in origins}
    others: Counter[Origin] = Counter()
    for entry in entries:
        if (origin := origin_of(entry)) in kept:
            kept[origin].append(entry)
        elif entry.kind == "call":
            others[origin] += 1
    left = _left_out(entries, others)
    if not kept:
        seen = Counter(origin_of(entry) for entry in entries if entry.host)
        told = f"; it was on {shown_hosts(seen)}" if seen else ""
        way = (
            f"choose hosts with hosts= (har:{path}@HOST)" if others else "pages without JSON calls cannot become tools"
        )
        raise ToolImportError(
            f"{path} records no call with an answer in JSON to a host of its own ({left or 'it is empty'}){told}"
            + (f": {way}" if entries else "")
        )
    if left:
        _LOG.warning("%s: left out %s", path, left)
    if _has_no_contents(entry for each in kept.values() for entry in each):
        _LOG.warning(
            "%s: the recording holds no contents of answers, so nothing is documented from it, and `atc probe` calls "
            "the reads of the service instead: save it as HAR with content",
            path,
        )
    several = len(origins) > 1
    return [recorded(each, prefix=f"{tool_name(origin[1])}_" if several else "") for origin, each in kept.items()]


def from_har(
    path: str | Path,
    *,
    hosts: Sequence[str] | None = None,
    session: SessionChoice = "ask",
    allow_session_writes: bool = False,
    **options: Any,
) -> Toolset:
    """Make tools of the calls that a recording of a browser holds. Nothing is sent.

    Args:
        path: a HAR 1.2 file: browsers save one from their network tab; ``mitmdump --set hardump=FILE`` writes one.
        hosts: the hosts to keep; see :func:`read_har`.
        session: whether the login of the recording is used (:mod:`atc.tools.har.session`). It goes to the origin that
            it was recorded for alone, and a credential of ``auth`` stands above it.
        allow_session_writes: it may go with writes that nobody is asked about, where ``approve`` allows them.
        **options: as :func:`atc.tools.openapi.read_openapi` takes them.

    Raises:
        ToolImportError: the file cannot be read, is no HAR, or records no call that could become a tool.
        UsageError: an option that does not fit the recording.
    """
    found = read_har(path, hosts=hosts, max_bytes=options.get("max_document_bytes", MAX_BYTES))
    if options.get("base_url") is not None and len(found) > 1:
        raise UsageError(
            f"base_url (service_url=…) is one address, and {path} has calls to {len(found)} hosts: "
            f"choose one with hosts= (har:{path}@{found[0].host})"
        )
    warn_of_readers(Path(path))
    given = options.pop("auth", None) or {}
    _check_names(given, found)
    tools: list[Tool] = []
    skipped: list[tuple[str, str]] = []
    strict = options.pop("strict", True)
    allow_http = bool(options.get("allow_http_credentials"))
    for each in found:
        auth = {name: value for name, value in given.items() if name in each.secrets}
        login = session_of(each, session, path=Path(path), allow_writes=allow_session_writes, allow_http=allow_http)
        result = read_openapi(each.document, auth=auth, session=login, strict=strict and len(found) == 1, **options)
        location = f"{path}@{each.origin.partition('//')[2]}"  # as a source names it; it tells equal tools apart
        tools += (_inferred(tool, location) for tool in result.toolset.values())
        skipped += result.skipped
    if not options.get("headers"):
        _say_if_no_login(Path(path), found, chosen=session in ("keep", "memory"))
    for label, reason in skipped:
        _LOG.warning("%s is no tool: %s", label, reason)
    if not tools and strict:
        raise ToolImportError(
            f"{path}: no recorded call {'fits only=' if options.get('only') else 'can become a tool'}"
        )
    return Toolset(tools)


def _has_no_contents(entries: Iterable[Entry]) -> bool:
    answers = [
        bool(entry.answer)
        for entry in entries
        if entry.kind == "call" and 200 <= entry.status < 300 and entry.status not in _EMPTY
        if is_json(entry.media_type)
    ]
    return bool(answers) and not any(answers)


def _say_if_no_login(path: Path, found: Sequence[Recorded], *, chosen: bool) -> None:
    secrets = [secret for each in found for secret in each.secrets.values()]
    left = [secret.wire for secret in secrets if secret.location == "header" and _BESIDE_LOGIN.search(secret.wire)]
    if len(left) < len(secrets) or not (secrets or chosen):
        return
    but = f" but the header {left[0][:60]}" if left else ""
    way = "export it with sensitive data, which browsers leave out otherwise"
    _LOG.warning("%s: the recording holds no cookie or credential%s: %s", path, but, way)


def _check_names(given: Mapping[str, Any], found: Sequence[Recorded]) -> None:
    known = [name for each in found for name in each.secrets]
    for name in given:
        if name not in known:
            raise UsageError(
                f"auth names {name!r}, which is no credential of the recording (it has: {', '.join(known) or 'none'})"
            )


def _inferred(tool: Tool, location: str) -> Tool:
    source = tool.protocol.source.model_copy(update={"kind": KIND, "location": location})
    return replace(
        tool, protocol=tool.protocol.model_copy(update={"source": source, "provenance": Provenance.INFERRED})
    )


_PLURALS = {
    "call without an answer": "calls without an answer",
    "answer that is no JSON": "answers that are no JSON",
    "odd address": "odd addresses",
    "broken entry": "broken entries",
    "entry beyond the first 200,000": "entries beyond the first 200,000",
}


def _left_out(entries: Sequence[Entry], others: Counter[Origin]) -> str:
    counts = Counter(entry.kind for entry in entries if entry.kind != "call")
    parts = [
        f"{count:,} {kind if count == 1 else _PLURALS.get(kind, f'{kind}s')}" for kind, count in counts.most_common()
    ]
    if others:
        parts.append(f"calls to other hosts: {shown_hosts(others)}; har:FILE@HOST keeps one")
    return ", ".join(parts)
