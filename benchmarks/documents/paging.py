"""How many operations of real OpenAPI documents are recognised as paged.

``python -m benchmarks.documents.paging --documents DIR [--named NAME,…] [--draw 50] [--skip N] [--show 60] [--missed
60]``: ``DIR`` holds documents (``*.json``), also in folders below it. ``--named`` takes those whose path ends so,
``--draw`` takes others by the hash of their path (after ``--skip`` of them), one of each provider: the folder or file
at the top. ``--show`` prints recognised operations of the drawn ones, ``--missed`` others with a parameter that speaks
of pages, by hash, three a document at most, to be judged by hand.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from atc.cli.console import guarded
from atc.errors import UsageError
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.tools.openapi.importer import read_openapi
from atc.tools.paging import Paging, is_positional, paging_of
from benchmarks.common import Documents, show

PER_DOCUMENT = 3
KINDS = ("page", "offset", "cursor", "last", "link")


@dataclass
class Row:
    """One document. ``lists``: reads that answer a list, or an object with a list; ``ms``: of recognition."""

    document: str
    reads: int = 0
    lists: int = 0
    speaking: int = 0
    ms: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    recognised: list[tuple[Protocol, Paging]] = field(default_factory=list)
    missed: list[Protocol] = field(default_factory=list)


def measured(path: Path) -> Row | None:
    """One document; ``None`` if it cannot be imported."""
    try:
        protocols = read_openapi(json.loads(path.read_text(encoding="utf-8"))).toolset.protocols
    except (UsageError, ValueError) as error:
        print(f"{path.name}: {str(error)[:150]}")
        return None
    row = Row(path.name.removesuffix(".json"))
    for protocol in protocols:
        if protocol.effect is not Effect.READ:
            continue
        began = time.perf_counter()
        paging = paging_of(protocol)
        row.ms += (time.perf_counter() - began) * 1000
        speaks = any(is_positional(name) for name in protocol.parameters["properties"])
        row.reads += 1
        row.lists += (listed := _lists(protocol.returns))
        row.speaking += listed and speaks
        if paging is not None:
            row.kinds[paging.by] += 1
            row.recognised.append((protocol, paging))
        elif listed and speaks:
            row.missed.append(protocol)
    return row


def _lists(returns: dict[str, Any] | None) -> bool:
    returns = returns or {}
    inner = returns.get("properties") if isinstance(returns.get("properties"), dict) else {}
    return returns.get("type") == "array" or any(
        isinstance(part, dict) and part.get("type") == "array" for part in (inner or {}).values()
    )


def _print(named: list[Row], others: list[Row]) -> None:
    whole = Row(f"{len(others)} drawn by hash")
    for row in others:
        for name in ("reads", "lists", "speaking", "ms"):
            setattr(whole, name, getattr(whole, name) + getattr(row, name))
        whole.kinds += row.kinds
        whole.recognised += row.recognised
    lines = []
    for row in [*named, whole]:
        counts = (row.reads, row.lists, row.speaking, len(row.recognised), *(row.kinds[kind] for kind in KINDS))
        lines.append([row.document, *counts, f"{row.ms:.0f}"])
    columns = ("document", "reads", "with a list", "and a word of pages", "recognised", *KINDS, "ms")
    show("Operations that are recognised as paged", columns, lines)


def _drawn(documents: Iterable[Sequence[tuple[Protocol, Any]]], count: int) -> list[tuple[Protocol, Any]]:
    few = [pair for each in documents for pair in sorted(each, key=_order)[:PER_DOCUMENT]]
    return sorted(few, key=_order)[:count]


def _order(pair: tuple[Protocol, Any]) -> str:
    return _hash(f"{pair[0].name} {pair[0].description}")


def _provider(path: Path, folder: Path) -> str:
    return path.relative_to(folder).parts[0].removesuffix(".json")


def _summary(protocol: Protocol) -> str:
    arguments = {
        name: f"{schema.get('type', '?')} {str(schema.get('description', ''))[:90]!r}"
        for name, schema in protocol.parameters["properties"].items()
        if isinstance(schema, dict) and is_positional(name)
    }
    returns = protocol.returns or {}
    keys = list(returns.get("properties") or {})[:15] or returns.get("type")
    text = " ".join(protocol.description.split())[:160]
    return f"{protocol.name}: {text}\n    {arguments}\n    returns {keys}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@guarded
def main(
    documents: Documents,
    named: Annotated[str, typer.Option(help="Ends of paths of documents to take, with commas between.")] = "",
    draw: Annotated[int, typer.Option(help="Other documents, drawn by hash.")] = 50,
    skip: Annotated[int, typer.Option(help="Of these leave out the first.")] = 0,
    examples: Annotated[int, typer.Option("--show", help="Recognised operations to print, drawn by hash.")] = 0,
    missed: Annotated[int, typer.Option(help="Operations to print that are not recognised.")] = 0,
) -> None:
    """Count the operations that are recognised as paged."""
    ends = tuple(name for name in named.split(",") if name)
    paths = sorted(documents.rglob("*.json"), key=lambda path: _hash(str(path.relative_to(documents))))
    chosen = [path for path in paths if str(path).endswith(ends)] if ends else []
    providers = {_provider(path, documents): path for path in reversed(paths)}
    taken = {_provider(path, documents) for path in chosen}
    drawn = [path for path in paths if providers.get(_provider(path, documents)) == path]
    drawn = [path for path in drawn if _provider(path, documents) not in taken][skip : skip + draw]
    if not chosen and not drawn:
        raise UsageError(f"{documents} holds no *.json document")
    own = [row for path in chosen if (row := measured(path)) is not None]
    others = [row for path in drawn if (row := measured(path)) is not None]
    _print(own, others)
    for protocol, paging in _drawn([row.recognised for row in others], examples):
        print(f"{_summary(protocol)}\n    {paging}")
    for protocol, _ in _drawn([[(protocol, None) for protocol in row.missed] for row in others], missed):
        print(f"MISSED {_summary(protocol)}")


if __name__ == "__main__":
    typer.run(main)
