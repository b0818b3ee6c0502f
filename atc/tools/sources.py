"""A word on the command line → a toolset: ``atlas``, a file, folder or URL, an MCP server, ``module:attribute``."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from atc.errors import ToolImportError, UsageError
from atc.loading import load_file, load_module
from atc.tools.functions import tool_from_function
from atc.tools.tool import Tool, Toolset

FORMS = (
    "`atlas`, an OpenAPI file or URL (of a service too), mcp:URL or 'mcp:COMMAND …' for an MCP server, a .json file "
    "with mcpServers, a folder of protocol documents, FILE.py, FILE.py:NAME or MODULE:NAME"
)
_MCP = "mcp:"


def open_tools(sources: Sequence[str], **openapi_options: Any) -> Toolset:
    """Join the toolsets that the words name.

    Args:
        sources: words in one of the :data:`FORMS`.
        **openapi_options: passed on to the OpenAPI importer (``base_url``, ``auth`` …).

    Raises:
        ToolImportError: a word names nothing, or what it names holds no tools.
    """
    if not sources:
        raise ToolImportError(f"no tools are named: give {FORMS}")
    made = Toolset()
    for source in sources:
        made = made + _open(source, openapi_options)
    return made


def _open(source: str, options: dict[str, Any]) -> Toolset:
    if source == "atlas":
        from atc.atlas import atlas_toolset

        return atlas_toolset()
    if source.startswith(_MCP):
        return Toolset.from_mcp(source.removeprefix(_MCP))
    if source.startswith(("http://", "https://")):
        return Toolset.from_openapi(source, **options)
    path = Path(source)
    if source and path.is_dir():
        return Toolset.from_protocols(path)
    if path.suffix.lower() in (".json", ".yaml", ".yml"):
        return _from_document(path, options)
    name, _, attribute = source.rpartition(":") if ":" in source else (source, "", "")
    if name.endswith(".py"):
        return _from_module(_loaded(lambda: load_file(Path(name))), attribute, source)
    if attribute:
        return _from_module(_loaded(lambda: load_module(name), f"{source!r}: "), attribute, source)
    raise ToolImportError(f"{source!r} names no tools: there is no such file or folder. Give {FORMS}")


def _from_document(path: Path, options: dict[str, Any]) -> Toolset:
    if not path.is_file():
        raise ToolImportError(f"there is no file {path}")
    head = path.read_bytes()[:200_000]
    if b'"mcpServers"' in head and _names_servers(path):
        return Toolset.from_mcp(path)
    if b"openapi" in head or b"swagger" in head:
        return Toolset.from_openapi(path, **options)
    return Toolset.from_protocols(path)


def _names_servers(path: Path) -> bool:
    """Whether a file is a configuration of MCP servers; one that only speaks of them is not."""
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and "mcpServers" in content


def _loaded(load: Callable[[], ModuleType], about: str = "") -> ModuleType:
    try:
        return load()
    except UsageError as error:
        raise ToolImportError(f"{about}{error}") from error


def _from_module(module: ModuleType, attribute: str, source: str) -> Toolset:
    if not attribute:
        functions = [
            f
            for n, f in vars(module).items()
            if inspect.isfunction(f) and f.__module__ == module.__name__ and not n.startswith("_")
        ]
        if not functions:
            raise ToolImportError(f"{source} defines no public function")
        return Toolset.from_functions(*functions)
    if not hasattr(module, attribute):
        raise ToolImportError(f"{source!r}: {module.__name__} has no {attribute}")
    found = getattr(module, attribute)
    if isinstance(found, Toolset):
        return found
    if isinstance(found, Tool):
        return Toolset([found])
    if isinstance(found, Iterable) and not isinstance(found, str | bytes | dict):
        return _from_items(list(found), source)
    if callable(found):
        return _from_callable(found, source)
    raise ToolImportError(f"{source!r} is a {type(found).__name__}: give a Toolset, a function, or a list of functions")


def _from_items(items: list[Any], source: str) -> Toolset:
    if not items or not all(isinstance(item, Tool) or callable(item) for item in items):
        raise ToolImportError(f"{source!r} must be a list of functions or tools, and not empty")
    return Toolset(item if isinstance(item, Tool) else tool_from_function(item) for item in items)


def _from_callable(found: Callable[..., Any], source: str) -> Toolset:
    """A function is a tool, unless it says that it returns a toolset."""
    annotation = getattr(found, "__annotations__", {}).get("return")
    if annotation in (Toolset, "Toolset"):
        try:
            made = found()
        except Exception as error:
            raise ToolImportError(f"{source!r} failed: {type(error).__name__}: {error}") from error
        if isinstance(made, Toolset):
            return made
        raise ToolImportError(f"{source!r} did not return the Toolset that it promised")
    return Toolset.from_functions(found)
