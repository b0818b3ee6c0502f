"""The import as a whole: a document → a toolset."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import httpx

from atc._host.extras import install_command
from atc.errors import ToolImportError, UsageError
from atc.result import Effect
from atc.schemas.names import operation_names, tool_name
from atc.schemas.protocol import Protocol, Source
from atc.tools.openapi import aws, swagger2
from atc.tools.openapi.load import Document, Resolver, load_document
from atc.tools.openapi.operations import MAX_OPERATIONS, Found, OperationReader, checked_effects, find_operations
from atc.tools.openapi.plan import Operation
from atc.tools.openapi.security import Credentials, Scheme, read_schemes
from atc.tools.openapi.servers import checked_base_url, variables_of
from atc.tools.openapi.session import Session
from atc.tools.openapi.transport import HttpService, OperationTransport
from atc.tools.parse import MAX_BYTES
from atc.tools.tool import Tool, Toolset

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Import:
    """What came of a document.

    Attributes:
        skipped: each operation that is no tool (``"GET /path"``) and the reason.
    """

    toolset: Toolset
    skipped: list[tuple[str, str]]
    version: str


def import_openapi(source: str | Path | dict[str, Any], *, strict: bool = True, **options: Any) -> Toolset:
    """Make a tool of each operation of an OpenAPI 3.0, 3.1 or Swagger 2.0 document.

    Operations that cannot become tools are left out with a warning in the log; :func:`read_openapi`, which has the same
    options, returns them.

    Raises:
        ToolImportError: the document cannot be read, or nothing in it (or in ``only``) can become a tool.
        UsageError: an option that does not fit the document.
    """
    result = read_openapi(source, strict=strict, **options)
    if not result.toolset and strict:
        reasons = "; ".join(f"{label}: {reason}" for label, reason in result.skipped[:5])
        raise ToolImportError(f"no operation could become a tool: {reasons or 'the document has none'}")
    for label, reason in result.skipped:
        _LOG.warning("%s is no tool: %s", label, reason)
    return result.toolset


def read_openapi(
    source: str | Path | dict[str, Any],
    *,
    base_url: str | None = None,
    auth: Mapping[str, str | Mapping[str, str]] | None = None,
    headers: dict[str, str] | None = None,
    server_variables: dict[str, str] | None = None,
    allow_remote_refs: bool = False,
    only: list[str] | None = None,
    strict: bool = True,
    effects: Mapping[str, str] | None = None,
    undeclared: bool = False,
    allow_http_credentials: bool = False,
    max_document_bytes: int = MAX_BYTES,
    timeout_s: float = 30.0,
    max_bytes: int = 5_000_000,
    client_factory: Callable[..., httpx.AsyncClient] | None = None,
    session: Session | None = None,
) -> Import:
    """Like :func:`import_openapi`, and returns what was left out and why, too. An empty result is no error here.

    Args:
        source: a path, an ``http(s)://`` URL (of the document, or of a service that publishes it in a usual place), or
            the parsed document.
        base_url: where the service is; replaces the document's servers.
        auth: a credential for each security scheme, by the scheme's name; ``"user:password"`` for HTTP basic; a mapping
            where more than one value is needed (see :mod:`atc.tools.openapi.security` and ``aws``). A scheme that is
            not named here takes the environment variable ``ATC_AUTH_<SCHEME>``, which holds such a mapping as JSON.
        headers: headers for every request, kept as secret as credentials.
        server_variables: values for the variables of server URLs.
        allow_remote_refs: download other documents that this one refers to.
        only: keep the operations that one of these shell patterns names by tool name, operation id or ``"GET /path"``.
            Only these are read, and only these count as operations.
        strict: a pattern of ``only`` that names nothing is an error.
        effects: ``"read"``, ``"write"`` or ``"unknown"`` for the operations that a pattern names, as ``only`` does.
            Your word stands above the document's; without both, a ``GET`` is a read unless its name tells otherwise.
        undeclared: a ``GET`` of which the document declares no argument takes any, in its query: what probing finds
            out about can be sent.
        allow_http_credentials: send credentials over plain http to other machines too, where others can read them.
        max_document_bytes: bytes that the document may have.
        timeout_s: seconds that one call may take in all.
        max_bytes: bytes of an answer's body, after decompression.
        client_factory: called with keyword settings to make each HTTP client.
        session: a recorded login (:mod:`atc.tools.har.session`).

    Raises:
        ToolImportError: the document cannot be read, or a pattern of ``only`` names nothing that can become a tool.
        UsageError: an option that does not fit the document.
    """
    document = load_document(source, timeout_s=timeout_s, max_bytes=max_document_bytes)
    resolver = Resolver(document, allow_remote=allow_remote_refs, timeout_s=timeout_s, max_bytes=max_document_bytes)
    schemes = _schemes(document, resolver)
    credentials = Credentials(schemes, auth, headers, session)
    _say_what_is_not_signed(schemes, credentials, document.location)
    service = HttpService(credentials, timeout_s=timeout_s, max_bytes=max_bytes, client_factory=client_factory)
    operations = _chosen(document, list(find_operations(document, resolver)), only)
    if len(operations) > MAX_OPERATIONS:
        raise ToolImportError(
            f"{document.location} has {len(operations):,} operations, and {MAX_OPERATIONS:,} can be imported: "
            "choose some with only= (on the command line: --only)"
        )
    variables = server_variables or {}
    _check_variables(variables, document, operations)
    checked = checked_base_url(base_url) if base_url is not None else None
    undeclared = undeclared or document.has_paths_alone
    reader = OperationReader(document, resolver, schemes, checked, variables, undeclared)
    read, skipped = _read_all(reader, operations, only if strict else None, checked_effects(effects))
    if not allow_http_credentials:
        for _, plan in read:
            credentials.check_place(plan)
    tools = [Tool(protocol, OperationTransport(plan, service)) for protocol, plan in read]
    version = str(document.root.get("openapi", document.root.get("swagger")))
    made = Toolset(tools)
    made.found = (document.found,) if document.found is not None else ()
    return Import(made, skipped, version)


@dataclass(frozen=True)
class _Chosen:
    found: Found
    name: str
    patterns: list[str]


def _chosen(document: Document, operations: list[Found], only: list[str] | None) -> list[_Chosen]:
    names = operation_names([(found.original, found.method, found.path) for found in operations])
    chosen = []
    for found, name in zip(operations, names, strict=True):
        full = Source(kind="openapi", location=document.location, title=document.title).full_name(name)
        patterns = [pattern for pattern in only or [] if pattern == full or _fits(pattern, name, found)]
        if only is None or patterns:
            chosen.append(_Chosen(found, name, patterns))
    return chosen


def _read_all(
    reader: OperationReader, operations: list[_Chosen], only: list[str] | None, effects: dict[str, Effect]
) -> tuple[list[tuple[Protocol, Operation]], list[tuple[str, str]]]:
    read: list[tuple[Protocol, Operation]] = []
    skipped: list[tuple[str, str]] = []
    unmatched, unused = dict.fromkeys(only or []), dict.fromkeys(effects)
    seen: set[str] = set()
    for chosen in operations:
        found = chosen.found
        try:
            protocol, plan = reader.read(found)
        except ToolImportError as error:
            skipped.append((found.label, str(error)))
            continue
        for pattern in chosen.patterns:
            unmatched.pop(pattern, None)
        operation = found.label if found.original in seen else found.original
        seen.add(found.original)
        given = next((pattern for pattern in effects if _fits(pattern, chosen.name, found)), None)
        effect = protocol.effect
        if given is not None:
            effect = effects[given]
            unused.pop(given, None)
        source = protocol.source.model_copy(update={"operation": operation})
        made = protocol.model_copy(update={"name": chosen.name, "source": source, "effect": effect})
        read.append((made, replace(plan, reads=effect is Effect.READ)))
    for pattern in unused:
        _LOG.warning("effects names %r, which fits no operation that was imported", pattern)
    if unmatched:
        _raise_unmatched(list(unmatched), skipped)
    return read, skipped


def _raise_unmatched(patterns: list[str], skipped: list[tuple[str, str]]) -> None:
    reasons = "; ".join(f"{label}: {reason}" for label, reason in skipped[:5])
    raise ToolImportError(
        f"only= names {', '.join(map(repr, patterns))}, which fits no operation that can become a tool"
        + (f" ({reasons})" if reasons else ": give a tool name, an operation id, 'GET /path', or a shell pattern")
    )


def _fits(pattern: str, name: str, found: Found) -> bool:
    """Literally first: the brackets of an operation id are no pattern."""
    known = (name, found.original, found.label, tool_name(found.original))
    return any(pattern == text or fnmatchcase(text, pattern) for text in known)


def _schemes(document: Document, resolver: Resolver) -> dict[str, Scheme]:
    if document.is_swagger2:
        raw: Any = swagger2.security_schemes(document.root)
    else:
        components = document.root.get("components")
        raw = components.get("securitySchemes") if isinstance(components, dict) else None
    info = document.root.get("info")
    service = info.get("x-serviceName") if isinstance(info, dict) else None
    found = read_schemes(raw if isinstance(raw, dict) else {}, resolver, document.url)
    named = service if isinstance(service, str) else ""
    return {name: replace(s, service=named) if s.kind == "sigv4" else s for name, s in found.items()}


def _say_what_is_not_signed(schemes: dict[str, Scheme], credentials: Credentials, location: str) -> None:
    """AWS answers nothing that is not signed: say so when the document is read, not when a run is under way."""
    for name in (name for name, scheme in schemes.items() if scheme.kind == "sigv4" and not credentials.has(name)):
        how = (
            f"give auth={{{name!r}: 'aws'}} or keys"
            if aws.is_installed()
            else f"`{install_command('aws')}`, then auth="
        )
        _LOG.warning("%s wants AWS signatures (%s), and its calls are not signed: %s", location, name, how)


def _check_variables(given: dict[str, str], document: Document, operations: list[_Chosen]) -> None:
    if not given:
        return
    known = variables_of(document.root.get("servers"))
    for servers in {id(chosen.found.servers): chosen.found.servers for chosen in operations}.values():
        known |= variables_of(servers)
    unknown = [name for name in given if name not in known]
    if unknown:
        listed = ", ".join(map(repr, sorted(known))) or "none"
        raise UsageError(f"server_variables names {unknown[0]!r}; the document's servers have {listed}")
