"""The import as a whole: servers → a toolset, whose tools have protocols and names."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from atc._host.blocking import wait_for
from atc._host.extras import install_command
from atc.errors import EnvironmentProblem, ToolImportError, UsageError
from atc.result import Effect
from atc.schemas.names import MAX_NAME, UniqueNames, tool_name
from atc.schemas.protocol import MAX_DESCRIPTION, JsonSchema, Protocol, Provenance, without_bytes
from atc.schemas.protocol import Source as ToolSource
from atc.schemas.reading import whole
from atc.schemas.validate import ensure_valid_schema
from atc.tools.mcp.spec import ServerSpec, Source, read_specs
from atc.tools.openapi.load import Document, Resolver
from atc.tools.openapi.schema import Direction, SchemaConverter
from atc.tools.openapi.text import clean
from atc.tools.parse import json_copy
from atc.tools.tool import Tool, Toolset

if TYPE_CHECKING:
    from atc.tools.mcp.connection import McpServer
    from atc.tools.mcp.lists import Listed

_LOG = logging.getLogger(__name__)


def import_mcp(
    source: Source,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    headers: Mapping[str, str] | None = None,
    only: list[str] | None = None,
    trust_hints: bool = True,
    timeout_s: float = 30.0,
    start_timeout_s: float = 60.0,
    max_bytes: int = 5_000_000,
) -> Toolset:
    """Make a tool of each tool that one or several MCP servers list.

    The list is read over a short conversation of its own. A run holds another one, from the first call to its end. A
    tool that cannot be used is left out with a warning in the log, which names it and says why.

    Args:
        source: an ``http(s)://`` address (streamable HTTP); a command, as words or as one string, which no shell sees;
            one server as a mapping; a mapping or a ``.json`` file with ``mcpServers``. In a mapping ``${NAME}`` stands
            for an environment variable.
        env: variables for the command; it gets few others. Kept as secret as credentials.
        cwd: the folder in which the command starts.
        headers: headers for every request to an address; kept as secret as credentials.
        only: keep the tools that one of these shell patterns names, by tool name or by the name at the server.
        trust_hints: believe the servers' hints about effects (``readOnlyHint``). They are a stranger's word: without
            them every effect is unknown.
        timeout_s: seconds that one call may take in all.
        start_timeout_s: seconds until a server must be ready, and again until its list must be read.
        max_bytes: bytes of one answer.

    Returns:
        The tools in the servers' order. Where two servers have a tool of one name, both are called after their server.

    Raises:
        EnvironmentProblem: the extra ``mcp`` is not installed.
        ToolImportError: a server cannot be started or reached, speaks no MCP, or lists nothing that can become a tool.
        UsageError: an option that does not fit the source.
    """
    if not (timeout_s > 0 and start_timeout_s > 0 and max_bytes > 0):
        raise UsageError("timeout_s, start_timeout_s and max_bytes must be more than 0")
    specs = read_specs(source, env=env, cwd=cwd, headers=headers)
    need_sdk()
    from atc.tools.mcp.connection import McpServer
    from atc.tools.mcp.lists import all_listed

    servers = [
        McpServer(spec, timeout_s=timeout_s, start_timeout_s=start_timeout_s, max_bytes=max_bytes) for spec in specs
    ]
    listed = wait_for(all_listed(specs, start_timeout_s, max_bytes))
    return _toolset(servers, listed, only, trust_hints)


def need_sdk() -> None:
    """Raise EnvironmentProblem without the extra ``mcp``."""
    try:
        import httpx2  # noqa: F401
        from mcp import Client  # noqa: F401
    except ImportError as error:
        raise EnvironmentProblem(
            f"MCP servers are spoken to by the package `mcp` of version 2 ({error}): {install_command('mcp')}"
        ) from None


def _toolset(servers: list[McpServer], listed: list[Listed], only: list[str] | None, trust_hints: bool) -> Toolset:
    from atc.tools.mcp.transport import McpTransport

    shared = Counter(name for each in listed for name in {tool_name(tool.name) for tool in each.tools})
    names = UniqueNames()
    made, unmatched = [], dict.fromkeys(only or [])
    skipped: list[str] = []
    for server, each in zip(servers, listed, strict=True):
        skipped += [f"{server.spec.location}: {note}" for note in each.notes]
        for tool in each.tools:
            name = names.take(_name(tool.name, server.spec, shared))
            fitting = [pattern for pattern in only or [] if _fits(pattern, name, tool.name)]
            if only is not None and not fitting:
                continue
            try:
                about: dict[str, str] = {"title": label_of(server.spec), "server": server.spec.identity}
                protocol = protocol_of(tool, name, server.spec.location, trust_hints=trust_hints, **about)
            except ToolImportError as error:
                skipped.append(f"{server.spec.location}: the tool {tool.name[:100]!r} is left out: {error}")
                continue
            for pattern in fitting:
                unmatched.pop(pattern, None)
            reads, typed = protocol.effect is Effect.READ, protocol.returns is not None
            made.append(Tool(protocol, McpTransport(tool.name, reads, server, typed=typed)))
    if unmatched or not made:
        where = ", ".join(server.spec.location for server in servers)
        problem = f"only= names {', '.join(map(repr, unmatched))}, which fits no tool" if unmatched else "lists no tool"
        raise ToolImportError(
            f"the MCP server {where}: {problem}{' (' + '; '.join(skipped[:5]) + ')' if skipped else ''}"
        )
    for reason in skipped:
        _LOG.warning("%s", reason)
    return Toolset(made)


def _name(original: str, spec: ServerSpec, shared: Counter[str]) -> str:
    """Two servers' tools of one name are both called after their server, whichever comes first."""
    name = tool_name(original)
    return tool_name(f"{spec.name} {original}") if shared[name] > 1 and spec.name else name


def _fits(pattern: str, *texts: str) -> bool:
    return any(pattern == text or fnmatchcase(text, pattern) for text in texts)


# -- a tool as a server describes it → a protocol ----------------------------------------------------------------------

_MAX_TITLE = 200

MAX_ORIGINAL = 200
"""Characters of a tool's name at its server."""


def protocol_of(
    tool: Any, name: str, location: str, *, trust_hints: bool, title: str = "", server: str = ""
) -> Protocol:
    """The protocol of one tool of a server's list.

    Raises:
        ToolImportError: the schema of its arguments, or its name, cannot be used.
    """
    if len(tool.name) > MAX_ORIGINAL:
        raise ToolImportError(f"its name has more than {MAX_ORIGINAL} characters")
    parameters = converted(tool.input_schema, "request", "its inputSchema")
    if parameters.get("type", "object") != "object":
        raise ToolImportError("its inputSchema is not of an object")
    fields = whole(parameters, parameters)  # those of its alternatives, too: each is an argument
    parameters |= {key: fields[key] for key in ("properties", "required") if key in fields}
    return Protocol(
        name=name,
        description=_description(tool),
        parameters=parameters,
        returns=_returns(tool),
        effect=effect_of(tool.annotations) if trust_hints else Effect.UNKNOWN,
        untrusted=None if tool.annotations is None else tool.annotations.open_world_hint,
        source=ToolSource(kind="mcp", location=location, operation=tool.name, title=title, server=server),
        provenance=Provenance.IMPORTED,
    )


def effect_of(hints: Any) -> Effect:
    """The effect by a tool's annotations. They are claims of the server, and nothing enforces them.

    The other hints mean something for tools that do more than read, so one that has them is a write; where nothing is
    said, nothing is known.
    """
    if hints is None:
        return Effect.UNKNOWN
    if hints.read_only_hint is not None:
        return Effect.READ if hints.read_only_hint else Effect.WRITE
    declared = hints.destructive_hint is not None or hints.idempotent_hint is not None
    return Effect.WRITE if declared else Effect.UNKNOWN


def _description(tool: Any) -> str:
    title = clean(tool.title or (tool.annotations.title if tool.annotations else None), _MAX_TITLE)
    detail = clean(tool.description, MAX_DESCRIPTION - _MAX_TITLE - 2)
    return detail if title in detail else "\n\n".join(filter(None, (title, detail)))


def _returns(tool: Any) -> JsonSchema | None:
    if tool.output_schema is None:
        return None
    try:
        return converted(tool.output_schema, "response", "its outputSchema")
    except ToolImportError as error:
        _LOG.warning("%s: nothing is known about its response: %s", tool.name[:100], error)
        return {}


def converted(schema: dict[str, Any], direction: Direction, what: str) -> JsonSchema:
    """A schema that stands alone, with the keywords that we know; references lead into its own ``$defs`` only.

    Raises:
        ToolImportError: it is no usable JSON Schema.
    """
    root = without_bytes(json_copy(schema, what))
    converter = SchemaConverter(Resolver(Document(root, what)))
    made = converter.closed(converter.convert(root, direction), direction)
    ensure_valid_schema(made, what)
    return made


# -- what programs call the tools of several servers, whichever of them are up -----------------------------------------

_RUNNERS = frozenset({"python", "python3", "uvx", "uv", "npx", "node", "bunx", "deno", "pipx", "docker", "env", "sh"})
_DIGEST = 6


def labels_of(specs: Sequence[ServerSpec]) -> list[str]:
    """A name for each server: that of its configuration, else its host or its program."""
    names = UniqueNames()
    return [names.take(label_of(spec)) for spec in specs]


def label_of(spec: ServerSpec) -> str:
    """What one server is called: by its configuration, else by its host or its program."""
    if spec.name:
        return spec.name
    if spec.url:
        return tool_name(urlsplit(spec.url).hostname or "server")
    words = [spec.secrets.text(word) for word in spec.command if not word.startswith("-")]
    telling = [word for word in words if PurePath(word).name not in _RUNNERS] or words
    return tool_name(PurePath(telling[0]).stem)


def told_apart(servers: Sequence[tuple[str, Collection[str]]], taken: Collection[str]) -> list[Mapping[str, str]]:
    """The names that programs use, by the names at the servers.

    A tool has its short name where no other server has, or ever had, a tool of that name, and no tool of another
    source has it; else it is called after its server. What is still equal then ends in a digest.

    Args:
        servers: the label of each, and the names of the tools that it has or ever had. Their order does not count.
        taken: names of tools from elsewhere; they stay as they are.
    """
    bases = [{original: tool_name(original) for original in originals} for _, originals in servers]
    claims = Counter(name for names in bases for name in set(names.values()))
    made = [
        {
            original: base if claims[base] == 1 and base not in taken else tool_name(f"{label} {original}")
            for original, base in names.items()
        }
        for (label, _), names in zip(servers, bases, strict=True)
    ]
    uses = Counter(name for names in made for name in names.values())
    return [
        {
            original: name
            if name == original or (uses[name] == 1 and name not in taken)
            else _with_digest(name, f"{label}\0{original}")
            for original, name in names.items()
        }
        for (label, _), names in zip(servers, made, strict=True)
    ]


def _with_digest(name: str, whole: str) -> str:
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{name[: MAX_NAME - 1 - _DIGEST].rstrip('_')}_{digest}"
