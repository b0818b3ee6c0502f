"""The import as a whole: servers → a toolset."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from atc.blocking import wait_for
from atc.errors import EnvironmentProblem, ToolImportError, UsageError
from atc.extras import install_command
from atc.result import Effect
from atc.tools.mcp.live_names import label_of
from atc.tools.mcp.protocols import protocol_of
from atc.tools.mcp.spec import ServerSpec, Source, read_specs
from atc.tools.names import UniqueNames, tool_name
from atc.tools.tool import Tool, Toolset

if TYPE_CHECKING:
    from atc.tools.mcp.connection import McpServer
    from atc.tools.mcp.listing import Listed

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
    from atc.tools.mcp.listing import all_listed

    servers = [
        McpServer(spec, timeout_s=timeout_s, start_timeout_s=start_timeout_s, max_bytes=max_bytes) for spec in specs
    ]
    listed = wait_for(all_listed(servers, start_timeout_s))
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
            made.append(Tool(protocol, McpTransport(tool.name, protocol.effect is Effect.READ, server)))
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
