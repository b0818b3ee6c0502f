"""The import as a whole: a document → a toolset."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import httpx

from atc.errors import ToolImportError, UsageError
from atc.tools.names import UniqueNames, tool_name
from atc.tools.openapi import swagger2
from atc.tools.openapi.load import Document, load_document
from atc.tools.openapi.operations import MAX_OPERATIONS, Found, OperationReader, find_operations
from atc.tools.openapi.plan import Operation
from atc.tools.openapi.refs import Resolver
from atc.tools.openapi.security import Credentials, Scheme, read_schemes
from atc.tools.openapi.servers import checked_base_url, variables_of
from atc.tools.openapi.transport import HttpService, OperationTransport
from atc.tools.protocol import Protocol
from atc.tools.tool import Tool, Toolset

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Import:
    """What came of a document.

    Attributes:
        toolset: the tools, in the document's order.
        skipped: each operation that is no tool (``"GET /path"``) and the reason.
        version: the document's ``openapi`` or ``swagger`` version.
    """

    toolset: Toolset
    skipped: list[tuple[str, str]]
    version: str


def import_openapi(
    source: str | Path | dict[str, Any],
    *,
    base_url: str | None = None,
    auth: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
    server_variables: dict[str, str] | None = None,
    allow_remote_refs: bool = False,
    only: list[str] | None = None,
    undeclared: bool = False,
    timeout_s: float = 30.0,
    max_bytes: int = 5_000_000,
    client_factory: Callable[..., httpx.AsyncClient] = httpx.AsyncClient,
) -> Toolset:
    """Make a tool of each operation of an OpenAPI 3.0, 3.1 or Swagger 2.0 document.

    Operations that cannot become tools are left out with a warning in the log; :func:`read_openapi` returns them.

    Args:
        source: a path, an ``http(s)://`` URL, or the parsed document.
        base_url: where the service is; replaces the document's servers.
        auth: a credential for each security scheme, by the scheme's name; ``"user:password"`` for HTTP basic. A scheme
            that is not named here takes the environment variable ``ATC_AUTH_<SCHEME>``.
        headers: headers for every request, kept as secret as credentials.
        server_variables: values for the variables of server URLs.
        allow_remote_refs: download other documents that this one refers to.
        only: keep the operations that one of these shell patterns names by tool name, operation id or ``"GET /path"``.
        undeclared: a ``GET`` of which the document declares no argument takes any, in its query: what probing finds
            out about can be sent.
        timeout_s: seconds that one call may take in all.
        max_bytes: bytes of an answer's body, after decompression.
        client_factory: called with keyword settings to make each HTTP client.

    Returns:
        The tools, in the document's order.

    Raises:
        ToolImportError: the document cannot be read, or nothing in it (or in ``only``) can become a tool.
        UsageError: an option that does not fit the document.
    """
    result = read_openapi(
        source,
        base_url=base_url,
        auth=auth,
        headers=headers,
        server_variables=server_variables,
        allow_remote_refs=allow_remote_refs,
        only=only,
        undeclared=undeclared,
        timeout_s=timeout_s,
        max_bytes=max_bytes,
        client_factory=client_factory,
    )
    if not result.toolset:
        reasons = "; ".join(f"{label}: {reason}" for label, reason in result.skipped[:5])
        raise ToolImportError(f"no operation could become a tool: {reasons or 'the document has none'}")
    for label, reason in result.skipped:
        _LOG.warning("%s is no tool: %s", label, reason)
    return result.toolset


def read_openapi(
    source: str | Path | dict[str, Any],
    *,
    base_url: str | None = None,
    auth: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
    server_variables: dict[str, str] | None = None,
    allow_remote_refs: bool = False,
    only: list[str] | None = None,
    undeclared: bool = False,
    timeout_s: float = 30.0,
    max_bytes: int = 5_000_000,
    client_factory: Callable[..., httpx.AsyncClient] = httpx.AsyncClient,
) -> Import:
    """Like :func:`import_openapi`, and tells what was left out and why. An empty result is no error here.

    Raises:
        ToolImportError: the document cannot be read, or a pattern of ``only`` names nothing that can become a tool.
        UsageError: an option that does not fit the document.
    """
    document = load_document(source, timeout_s=timeout_s)
    resolver = Resolver(document, allow_remote=allow_remote_refs, timeout_s=timeout_s)
    schemes = _schemes(document, resolver)
    service = HttpService(
        Credentials(schemes, auth, headers), timeout_s=timeout_s, max_bytes=max_bytes, client_factory=client_factory
    )
    operations = list(find_operations(document, resolver))
    if len(operations) > MAX_OPERATIONS:
        raise ToolImportError(f"{document.location} has more than {MAX_OPERATIONS:,} operations: cut the document down")
    variables = server_variables or {}
    _check_variables(variables, document, operations)
    checked = checked_base_url(base_url) if base_url is not None else None
    reader = OperationReader(document, resolver, schemes, checked, variables, undeclared)
    read, skipped = _read_all(reader, operations, only)
    tools = [Tool(protocol, OperationTransport(plan, service)) for protocol, plan in read]
    version = str(document.root.get("openapi", document.root.get("swagger")))
    return Import(Toolset(tools), skipped, version)


def _read_all(
    reader: OperationReader, operations: list[Found], only: list[str] | None
) -> tuple[list[tuple[Protocol, Operation]], list[tuple[str, str]]]:
    read: list[tuple[Protocol, Operation]] = []
    skipped: list[tuple[str, str]] = []
    unmatched = dict.fromkeys(only or [])
    names = UniqueNames()
    seen: set[str] = set()
    for found in operations:
        name = names.take(tool_name(found.original))  # also for those left out: `only` never changes a name
        fitting = [pattern for pattern in only or [] if _fits(pattern, name, found)]
        if only is not None and not fitting:
            continue
        try:
            protocol, plan = reader.read(found)
        except ToolImportError as error:
            skipped.append((found.label, str(error)))
            continue
        for pattern in fitting:
            unmatched.pop(pattern, None)
        operation = found.label if found.original in seen else found.original
        seen.add(found.original)
        source = protocol.source.model_copy(update={"operation": operation})
        read.append((protocol.model_copy(update={"name": name, "source": source}), plan))
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
    return any(pattern == text or fnmatchcase(text, pattern) for text in (name, found.original, found.label))


def _schemes(document: Document, resolver: Resolver) -> dict[str, Scheme]:
    if document.is_swagger2:
        return read_schemes(swagger2.security_schemes(document.root), resolver)
    components = document.root.get("components")
    raw = components.get("securitySchemes") if isinstance(components, dict) else None
    return read_schemes(raw if isinstance(raw, dict) else {}, resolver)


def _check_variables(given: dict[str, str], document: Document, operations: list[Found]) -> None:
    known = variables_of(document.root.get("servers"))
    for found in operations:
        known |= variables_of(found.servers)
    unknown = [name for name in given if name not in known]
    if unknown:
        listed = ", ".join(map(repr, sorted(known))) or "none"
        raise UsageError(f"server_variables names {unknown[0]!r}; the document's servers have {listed}")
