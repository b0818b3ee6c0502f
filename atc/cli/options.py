"""Options that several commands take, in one place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atc import wording
from atc.errors import AtcError, UsageError
from atc.settings import MAX_INSTRUCTIONS, Settings
from atc.tools.sources import FORMS, is_openapi, mcp_source, open_tools
from atc.tools.tool import Toolset

if TYPE_CHECKING:
    from atc.tools.mcp.live import LiveTools

Tools = Annotated[
    list[str], typer.Option("--tools", "-t", help=f"Where the tools are: {FORMS}. May be given several times.")
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only", help="Use only tools whose name fits this pattern, such as `get_*`. May be given several times."
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option("--service-url", help="Address of the OpenAPI service, in place of what its document names."),
]
Auth = Annotated[
    list[str] | None,
    typer.Option(
        "--auth",
        help="SCHEME=CREDENTIAL for the OpenAPI service (JSON for OAuth 2 and AWS); better: ATC_AUTH_<SCHEME>.",
    ),
]
OpenApi = Annotated[
    list[str] | None,
    typer.Option(
        "--openapi",
        help="How OpenAPI documents are read: max_mb=100, effect=PATTERN:read, server.NAME=VALUE, allow_remote_refs, "
        "allow_http_credentials. May be given several times.",
    ),
]
Documents = Annotated[
    str | None, typer.Option("--documents", help="Folder of protocol documents for these tools (`atc probe -o`).")
]
Instructions = Annotated[
    str | None,
    typer.Option(
        "--instructions",
        metavar="<text|@file>",
        help="Standing wishes beside the task, such as `answer in German`; @FILE reads them from a file.",
    ),
]
Permissions = Annotated[
    Path | None,
    typer.Option(
        "--permissions",
        metavar="<file>",
        help="File of rules: which calls are made unasked, need a yes or are denied (`atc permissions check`). "
        "Default: permissions.toml in your configuration folder, if it is there.",
    ),
]
ReadOnly = Annotated[bool | None, typer.Option("--read-only", help="Make only reads, and offer only tools that read.")]
Audit = Annotated[
    Path | None, typer.Option("--audit", metavar="<file>", help="File where decisions about calls are recorded.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]


def source_of(
    tools: Sequence[str],
    *,
    only: Sequence[str] | None,
    service_url: str | None,
    documents: str | None,
    openapi: Sequence[str] | None,
) -> str:
    """Where the tools of a run are, as its trace has it: `atc resume` opens them again by it. It has no credentials."""
    return json.dumps(
        {"tools": tools, "only": only, "service_url": service_url, "documents": documents, "openapi": openapi}
    )


def source_from(text: Any) -> dict[str, Any]:
    """What :func:`source_of` made, read back from a trace; nothing where it is something else."""
    try:
        source = json.loads(text or "{}")
    except (TypeError, ValueError, RecursionError):
        return {}  # a run that a program of the user's began: its note is its own
    if not isinstance(source, dict):
        return {}
    lists = (source.get(name) for name in ("tools", "only", "openapi"))
    texts = (source.get(name) for name in ("service_url", "documents"))
    is_lists = all(each is None or (isinstance(each, list) and all(isinstance(e, str) for e in each)) for each in lists)
    return source if is_lists and all(each is None or isinstance(each, str) for each in texts) else {}


def opened(
    sources: Sequence[str],
    *,
    only: Sequence[str] | None = None,
    service_url: str | None = None,
    auth: list[str] | None = None,
    documents: str | None = None,
    openapi: list[str] | None = None,
    undeclared: bool = False,
) -> Toolset:
    """The tools that a command line names.

    Raises:
        UsageError: as :func:`atc.tools.sources.open_tools`, :meth:`Toolset.documented` and :meth:`Toolset.select`; or
            an option is not known.
    """
    given = _of_openapi(only, service_url, auth, undeclared or bool(documents), openapi)
    tools = open_tools(sources, **given)
    tools = tools.documented(documents) if documents else tools
    return _selected(tools, sources, only, given) if only else tools


def _selected(tools: Toolset, sources: Sequence[str], only: Sequence[str], given: dict[str, Any]) -> Toolset:
    """The tools that patterns name. Where one names none, the message knows the operations that were not read, too."""
    try:
        return tools.select(*only)
    except UsageError as error:
        narrowed = [word for word in sources if is_openapi(word)]
        with suppress(AtcError):  # a document that is too large as a whole: the first message has to do
            unread = open_tools(narrowed, **{k: v for k, v in given.items() if k not in ("only", "strict")})
            others = Toolset(tool for tool in tools.values() if tool.protocol.source.kind != "openapi")
            error = (others + unread).problem_of(only) or error
        raise error


def opened_live(
    sources: Sequence[str],
    *,
    settings: Settings,
    only: Sequence[str] | None = None,
    service_url: str | None = None,
    auth: list[str] | None = None,
    documents: str | None = None,
    openapi: list[str] | None = None,
) -> LiveTools:
    """The tools that a command line names; those of MCP servers come and go.

    Raises:
        UsageError: as :func:`opened`; but that a server is down, or that a pattern fits no tool now, is no error.
    """
    from atc.tools.mcp.lists import FOLDER
    from atc.tools.mcp.live import live_tools
    from atc.tools.mcp.live_server import Limits

    limits, given = Limits(), _of_openapi(only, service_url, auth, bool(documents), openapi)
    live = live_tools(
        sources,
        folder=settings.catalogue / FOLDER,
        only=only,
        documents=documents,
        limits=replace(limits, timeout_s=max(limits.timeout_s, settings.call_timeout_s)),
        openapi=given,
    )
    if only and not any(map(mcp_source, sources)):
        _selected(live.others, sources, only, given)
    return live


def _of_openapi(
    only: Sequence[str] | None,
    service_url: str | None,
    auth: list[str] | None,
    undeclared: bool,
    openapi: Sequence[str] | None,
) -> dict[str, Any]:
    """Options of the OpenAPI importer. What ``only`` leaves out is not read; that it fits nothing is told later."""
    given: dict[str, Any] = {
        "base_url": service_url,
        "auth": auth_of(auth),
        "undeclared": undeclared,
        **openapi_of(openapi),
    }
    given = {name: value for name, value in given.items() if value}
    return given | ({"only": list(only), "strict": False} if only else {})


def instructions_of(given: str | None) -> str | None:
    """The text of ``--instructions``: itself, or what the file behind an ``@`` holds.

    Raises:
        UsageError: the file cannot be read, is no text, or is too long.
    """
    if given is None or not given.startswith("@"):
        return given
    try:
        with open(given[1:], encoding="utf-8") as file:
            text = file.read(MAX_INSTRUCTIONS + 1)
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise UsageError(f"--instructions cannot read {given[1:]!r}: {what}") from None
    if len(text) > MAX_INSTRUCTIONS:
        raise UsageError(f"--instructions: {given[1:]!r} has more than {MAX_INSTRUCTIONS:,} characters: shorten it")
    return text


def openapi_of(pairs: Sequence[str] | None) -> dict[str, Any]:
    """``["max_mb=100", "effect=get_*:read"]`` → options of :func:`atc.tools.openapi.read_openapi`.

    Raises:
        UsageError: an option that is not known, or a value that it does not take.
    """
    made: dict[str, Any] = {}
    for pair in pairs or ():
        name, _, value = pair.partition("=")
        pattern, _, effect = value.rpartition(":")
        if name in ("allow_remote_refs", "allow_http_credentials") and not value:
            made[name] = True
        elif name == "max_mb" and value.isascii() and value.isdigit() and 0 < int(value) <= 10_000:
            made["max_document_bytes"] = int(value) * 1_000_000
        elif name == "effect" and pattern:
            made.setdefault("effects", {})[pattern] = effect
        elif name.startswith("server.") and name != "server." and value:
            made.setdefault("server_variables", {})[name.removeprefix("server.")] = value
        else:
            raise UsageError(
                f"--openapi does not take {pair!r}, but max_mb=NUMBER (1 to 10000), effect=PATTERN:read (or write, "
                "unknown), server.NAME=VALUE, allow_remote_refs or allow_http_credentials"
            )
    return made


def auth_of(pairs: list[str] | None) -> dict[str, str]:
    """``["key=secret"]`` → ``{"key": "secret"}``.

    Raises:
        UsageError: a pair has no ``=``.
    """
    for pair in pairs or ():
        if "=" not in pair:
            raise UsageError("--auth takes SCHEME=CREDENTIAL; SCHEME is the name of a security scheme of the document")
    return dict(pair.split("=", 1) for pair in pairs or ())


def notes_on(tools: Toolset) -> list[str]:
    """Say what the documents of tools ask for and is not set, and which of them name another address than their own."""
    missing = tools.missing_credentials()
    notes = [wording.no_credential(each.scheme, each.variable, each.tools) for each in missing]
    return notes + [wording.other_address(each.named, each.found) for each in tools.other_addresses()]
