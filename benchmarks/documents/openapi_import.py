"""Import real OpenAPI documents and say what came of each.

``python -m benchmarks.documents.openapi_import --data DIR [--json]`` reads ``DIR/openapi/specs.jsonl.gz`` (one document
a line, under ``spec``) and ``DIR/restbench/{tmdb,spotify}_oas.json.gz``. For every document it imports all operations,
compiles each ``parameters`` and ``returns`` as a validator in the linear-time engine, and renders and parses the typed
stubs.
"""

from __future__ import annotations

import ast
import gzip
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jsonschema_rs
import typer

from atc.cli.console import guarded
from atc.errors import UsageError
from atc.schemas.protocol import Protocol
from atc.tools.openapi.importer import read_openapi
from atc.tools.stubs import render_stubs
from benchmarks.common import AsJson, Data, print_json, show

_RESTBENCH = ("tmdb", "spotify")


@dataclass
class Row:
    """What came of one document. ``ms`` is the time of the import alone, in milliseconds."""

    document: str
    version: str = ""
    operations: int = 0
    tools: int = 0
    ms: float = 0.0
    with_returns: int = 0
    error: str = ""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    bad_schemas: list[str] = field(default_factory=list)
    stubs: str = ""


def documents(data: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The documents of the data folder, with their names."""
    with gzip.open(data / "openapi" / "specs.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            spec = entry["spec"]
            yield entry["file"].removesuffix(".json"), json.loads(spec) if isinstance(spec, str) else spec
    for name in _RESTBENCH:
        with gzip.open(data / "restbench" / f"{name}_oas.json.gz", "rt", encoding="utf-8") as file:
            yield f"restbench/{name}", json.load(file)


def measure(name: str, document: dict[str, Any]) -> Row:
    """Import one document and check what came of it."""
    row = Row(name)
    started = time.perf_counter()
    try:
        result = read_openapi(document)
    except UsageError as error:
        row.error = str(error)
        return row
    row.ms = (time.perf_counter() - started) * 1000
    row.version, row.skipped, row.tools = result.version, result.skipped, len(result.toolset)
    row.operations = row.tools + len(row.skipped)
    protocols = result.toolset.protocols
    row.with_returns = sum(protocol.returns is not None for protocol in protocols)
    row.bad_schemas = [problem for protocol in protocols for problem in _bad_schemas(protocol)]
    row.stubs = _stub_problem(protocols)
    return row


def _bad_schemas(protocol: Protocol) -> Iterator[str]:
    for what, schema in (("parameters", protocol.parameters), ("returns", protocol.returns)):
        if schema is None:
            continue
        try:
            jsonschema_rs.validator_for(schema, pattern_options=jsonschema_rs.RegexOptions(), offline=True)
        except (jsonschema_rs.ValidationError, ValueError) as error:
            yield f"{protocol.name}.{what}: {str(error)[:200]}"


def _stub_problem(protocols: list[Protocol]) -> str:
    """Why the stubs are no Python, or an empty string. They are parsed, never run."""
    try:
        ast.parse(render_stubs(protocols))
    except (SyntaxError, ValueError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _print(rows: list[Row]) -> None:
    table: list[list[object]] = []
    for row in rows:
        schemas, stubs = "ok" if not row.bad_schemas else f"{len(row.bad_schemas)} bad", "bad" if row.stubs else "ok"
        counts = (row.operations, row.tools, len(row.skipped), row.with_returns)
        table.append([row.document, row.version or "FAILED", *counts, schemas, stubs, f"{row.ms:.0f}"])
    total = (sum(row.operations for row in rows), sum(row.tools for row in rows), sum(len(row.skipped) for row in rows))
    returns, ms = sum(row.with_returns for row in rows), sum(row.ms for row in rows)
    table.append([f"{len(rows)} documents", "", *total, returns, "", "", f"{ms:.0f}"])
    columns = ("document", "version", "operations", "tools", "skipped", "returns", "schemas", "stubs", "ms")
    show("OpenAPI documents", columns, table)
    for row in rows:
        for label, reason in row.skipped:
            print(f"{row.document}: {label}: {reason}")
        for problem in [row.error, *row.bad_schemas, row.stubs]:
            if problem:
                print(f"{row.document}: PROBLEM: {problem}")


@guarded
def main(data: Data, as_json: AsJson = False) -> None:
    """Import real documents; exit with 1 where one fails."""
    rows = [measure(name, document) for name, document in documents(data)]
    print_json({"documents": [asdict(row) for row in rows]}) if as_json else _print(rows)
    raise typer.Exit(1 if any(row.error or row.bad_schemas or row.stubs for row in rows) else 0)


if __name__ == "__main__":
    typer.run(main)
