"""Protocol documents: JSON and YAML files that hold what is known about tools.

A file holds one protocol or a list of them, as ``protocols/protocol.schema.json`` says. A document is data: it names no
code, so a tool that is read from one can be shown and chosen; it is called only where something else brings its
transport.

``python -m atc.tools.documents`` writes the published JSON Schema anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from atc._host.files import resource_dir
from atc.errors import ToolImportError
from atc.schemas.protocol import Protocol
from atc.schemas.validate import ensure_valid_schema
from atc.tools.kept import KIND
from atc.tools.parse import MAX_BYTES, parse_document
from atc.tools.tool import Tool, Toolset

SCHEMA_FILE = "protocol.schema.json"
DRIFTED = Path(".probe") / "drifted-tools.json"
"""In a folder of documents: the names of the tools that answer otherwise than these say (``atc probe --check``)."""
_SUFFIXES = (".json", ".yaml", ".yml")


def load_protocols(source: str | Path) -> Toolset:
    """Read the protocol documents of a folder (with its subfolders) or one file.

    Args:
        source: the folder or file. ``*.schema.json`` files and hidden ones are passed over.

    Returns:
        The tools in the order of their files, without transports.

    Raises:
        ToolImportError: a file that cannot be read or is no protocol document; file and field are named. Also two
            tools of one name, or a folder without documents.
    """
    path = Path(source)
    files = _files(path)
    if not files:
        raise ToolImportError(f"{path} holds no protocol document: put {', '.join(_SUFFIXES)} files there")
    origin: dict[str, Path] = {}
    tools = []
    for file in files:
        for protocol in _read(file):
            if protocol.name in origin:
                raise ToolImportError(
                    f"{file}: a tool {protocol.name!r} is already in {origin[protocol.name]}: rename one"
                )
            origin[protocol.name] = file
            tools.append(Tool(protocol))
    return Toolset(tools)


def drifted_tools(directory: str | Path) -> frozenset[str]:
    """The tools of a folder of documents that have moved since; none where nobody looked, or the list is damaged."""
    file = Path(directory) / DRIFTED
    try:
        names = json.loads(file.read_text(encoding="utf-8")) if file.stat().st_size <= MAX_BYTES else []
    except (OSError, ValueError, RecursionError):
        return frozenset()
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()


def documented(tools: Toolset, directory: str | Path) -> Toolset:
    """Return tools with the documents of a folder in place of their own: see :meth:`Toolset.documented`.

    Raises:
        ToolImportError: the folder cannot be read, or none of its documents is of one of these tools.
    """
    known = {tool.name: tool.protocol for tool in load_protocols(directory).values()}
    if not known.keys() & tools.keys():
        raise ToolImportError(f"{directory} documents none of these tools, but {', '.join(list(known)[:5])}")
    return tools.with_protocols(known, drifted_tools(directory))


def dump_protocols(protocols: Toolset | Iterable[Protocol], directory: str | Path) -> list[Path]:
    """Write each protocol as ``<name>.json`` into a folder, which is made if need be.

    Returns:
        The files that were written.

    Raises:
        OSError: the folder cannot be written.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    listed = protocols.protocols if isinstance(protocols, Toolset) else list(protocols)
    written = []
    for protocol in listed:
        file = folder / f"{protocol.name}.json"  # a tool's name is an identifier: it leads to no other folder
        file.write_text(_as_text(protocol.model_dump(mode="json", exclude_defaults=True)), encoding="utf-8")
        written.append(file)
    return written


def protocol_schema() -> dict[str, Any]:
    """The JSON Schema of a protocol document, made from :class:`~atc.schemas.protocol.Protocol`."""
    one = Protocol.model_json_schema()
    definitions = one.pop("$defs", {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Protocol document",
        "description": "What is known about one tool, or about each tool of a list.",
        "oneOf": [{"$ref": "#/$defs/Protocol"}, {"type": "array", "items": {"$ref": "#/$defs/Protocol"}}],
        "$defs": {**definitions, "Protocol": one},
    }


def write_schema() -> Path:
    """Write the published JSON Schema of a protocol document anew and return its path."""
    file = resource_dir("protocols") / SCHEMA_FILE
    file.write_text(_as_text(protocol_schema()), encoding="utf-8")
    return file


def _as_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ToolImportError(f"{path} is neither a folder nor a file: give the path of protocol documents")
    return sorted(
        file
        for file in path.rglob("*")
        if file.suffix in _SUFFIXES
        and file.is_file()
        and not file.name.endswith(".schema.json")
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )


def _read(file: Path) -> list[Protocol]:
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ToolImportError(f"{file} is larger than {MAX_BYTES:,} bytes: split it")
        content = parse_document(file.read_bytes(), str(file))
    except OSError as error:
        raise ToolImportError(f"{file} cannot be read: {error.strerror or type(error).__name__}") from None
    entries = content if isinstance(content, list) else [content]
    return [
        _protocol(entry, f"{file}[{i}]" if isinstance(content, list) else str(file)) for i, entry in enumerate(entries)
    ]


def _protocol(entry: Any, where: str) -> Protocol:
    if not isinstance(entry, dict):
        raise ToolImportError(f"{where} is a {type(entry).__name__}: a protocol document is a mapping with a 'name'")
    if "openapi" in entry or "swagger" in entry:
        raise ToolImportError(f"{where} is an OpenAPI document: import it with Toolset.from_openapi")
    try:
        protocol = Protocol.model_validate(entry)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'document'}: {item['msg']}" for item in error.errors()[:5]
        )
        raise ToolImportError(f"{where}: {problems} (see {SCHEMA_FILE})") from None
    if protocol.source.kind == KIND:
        raise ToolImportError(
            f"{where}: source.kind: {KIND!r} is for files NAME.atc, which have a program: leave it out"
        )
    ensure_valid_schema(protocol.parameters, f"{where}: parameters")
    if protocol.returns is not None:
        ensure_valid_schema(protocol.returns, f"{where}: returns")
    return protocol


if __name__ == "__main__":
    print(write_schema())
