"""How good the names of a menu are: whether they cover their groups, tell them apart, and lead from words to a tool."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from atc.retrieval.menu import WIDTH, Entry, Menu
from atc.retrieval.snapshot import Snapshot
from atc.retrieval.words import words
from benchmarks.codes_data import CodesData, Pool
from benchmarks.common import print_json, show
from benchmarks.retrieval_data import Query

KINDS = ("words", "vectors")
"""What the menu is made of: the words of the tools alone, or their vectors."""


def measured(snapshot: Snapshot, width: int) -> dict[str, Any]:
    """The whole menu of a snapshot, and how good its names are."""
    began = time.process_time()
    menu = Menu(snapshot, width)
    menu.children()
    first = time.process_time() - began
    pages = dict(_pages(menu))
    seconds = time.process_time() - began
    counts = snapshot.counts
    position = {word: place for place, word in enumerate(counts.vocabulary)}
    groups = covered = owned = named = unique = 0.0
    right = steps = 0.0
    for page in pages.values():
        has = [_having(snapshot, menu, entry, page, position) for entry in page if not entry.id]
        if not has:
            continue
        for entry, (own, others) in zip([entry for entry in page if not entry.id], has, strict=True):
            groups += 1
            unique += not entry.name.endswith(")")
            covered += own / entry.count
            owned += own / max(1.0, own + others)
        hits, asked = _led(snapshot, menu, page, position)
        right, steps, named = right + hits, steps + asked, named + 1
    walks = [len(entry.path) for page in pages.values() for entry in page if entry.id]
    return {
        "tools": len(menu),
        "pages": len(pages),
        "entries_mean": round(float(np.mean([len(page) for page in pages.values()])), 1),
        "steps_mean": round(float(np.mean(walks)), 2),
        "steps_max": max(walks),
        "unique": round(100 * unique / max(1.0, groups), 1),
        "covered": round(100 * covered / max(1.0, groups), 1),
        "own": round(100 * owned / max(1.0, groups), 1),
        "led": round(100 * right / max(1.0, steps), 1),
        "first_page_s": round(first, 2),
        "seconds": round(seconds, 1),
    }


def _pages(menu: Menu) -> Iterator[tuple[tuple[int, ...], tuple[Entry, ...]]]:
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        path = waiting.pop()
        page = menu.children(path)
        yield path, page
        waiting += [entry.path for entry in page if not entry.id]


def _table(snapshot: Snapshot, rows: np.ndarray, named: Sequence[int]) -> np.ndarray:
    """Which of some rows have which of some words, of shape ``(rows, words)``."""
    counts = snapshot.counts
    found = np.zeros((len(rows), len(named)), np.bool_)
    for place, row in enumerate(rows):
        found[place] = np.isin(named, counts.words[counts.pointers[row] : counts.pointers[row + 1]])
    return found


def _named(entry: Entry, position: dict[str, int]) -> list[int]:
    return [position[word] for word in dict.fromkeys(words(entry.name)) if word in position]


def _some(rows: np.ndarray, most: int) -> np.ndarray:
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(int)]


def _having(
    snapshot: Snapshot, menu: Menu, entry: Entry, page: Sequence[Entry], position: dict[str, int]
) -> tuple[float, float]:
    """About how many tools of a group have a word of its name, and how many of those beside it."""
    named = _named(entry, position)
    inside = outside = 0.0
    for other in page:
        rows = _some(menu.rows(other.path), 60)
        share = float(_table(snapshot, rows, named).any(axis=1).mean()) * other.count if named else 0.0
        inside, outside = (inside + share, outside) if other is entry else (inside, outside + share)
    return inside, outside


def _led(snapshot: Snapshot, menu: Menu, page: Sequence[Entry], position: dict[str, int]) -> tuple[float, int]:
    """Of how many tools, of some, the words point to their own group: most words of its name are theirs."""
    groups = [entry for entry in page if not entry.id]
    named = [_named(entry, position) for entry in groups]
    flat = [word for each in named for word in each]
    right, asked = 0.0, 0
    for place, entry in enumerate(groups):
        rows = _some(menu.rows(entry.path), 20)
        table = _table(snapshot, rows, flat)
        begins = np.cumsum([0, *map(len, named)])
        score = np.stack([table[:, a:b].sum(axis=1) for a, b in pairwise(begins)], axis=1)
        best = score == score.max(axis=1, keepdims=True)
        right += float((best[:, place] / best.sum(axis=1)).sum())
        asked += len(rows)
    return right, asked


def asked(data: CodesData, pool: Pool, menu: Menu, queries: Sequence[Query]) -> dict[str, Any]:
    """Whether a query is nearest to the name of the entry that leads to its tool, page by page on the way there.

    ``centre``: the same for the middle of each entry's vectors, which a choice by names cannot much exceed.
    """
    ways = [(query, menu.path_of(id)) for query in queries for id in sorted(query.gold) if id in pool.snapshot.rows]
    steps = [(query.text, path[:at], path[at]) for query, path in ways for at in range(len(path) - 1)]
    pages = sorted({page for _, page, _ in steps})
    if not pages or sum(len(menu.children(page)) for page in pages) > _MOST_NAMES:
        pages, steps = [()], [(query.text, (), path[0]) for query, path in ways]
    texts = sorted({text for text, _, _ in steps})
    vectors = dict(zip(texts, data.encoder.encode(texts), strict=True))
    found: dict[str, list[bool]] = {"named@1": [], "named@3": [], "centre@1": []}
    for page in pages:
        entries = menu.children(page)
        names = data.encoder.encode([entry.name for entry in entries])
        centres = np.stack([pool.vectors[menu.rows(entry.path)].mean(axis=0) for entry in entries])
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        for text, place, right in steps:
            if place == page:
                best = np.argsort(-(names @ vectors[text]), kind="stable")
                found["named@1"].append(right == best[0])
                found["named@3"].append(right in best[:3])
                found["centre@1"].append(right == int(np.argmax(centres @ vectors[text])))
    return {"queries": len(ways)} | {name: round(100 * float(np.mean(each)), 1) for name, each in found.items()}


def made(pool: Pool, kind: str) -> Snapshot:
    """A snapshot that a menu of this kind is made of."""
    return replace(pool.snapshot, vectors=None) if kind == "words" else pool.snapshot


def browse(
    data: Annotated[Path | None, typer.Option(help="Directory of the data.", envvar="ATC_DATA")] = None,
    kept: Annotated[Path | None, typer.Option(help="Where vectors of texts are kept.")] = None,
    pools: Annotated[str, typer.Option(help="Pools, with commas between.")] = "metatool,toolbench_g3,toolbench",
    kinds: Annotated[str, typer.Option(help="words, vectors; with commas between.")] = ",".join(KINDS),
    width: Annotated[int, typer.Option(help="Entries of a page.")] = WIDTH,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the names of the menu that people browse."""
    found = CodesData(data, kept)
    lines = []
    for name in pools.split(","):
        pool = found.pool(name)
        queries = found.queries(*_SOURCES.get(name, (name,)))
        for kind in kinds.split(","):
            snapshot = made(pool, kind)
            line = {"pool": name, "menu": kind, **measured(snapshot, width)}
            lines.append(line | (asked(found, pool, Menu(snapshot, width), queries[:500]) if queries else {}))
        if not as_json:
            show(
                f"The menu of {name}", list(lines[-1]), [list(line.values()) for line in lines if line["pool"] == name]
            )
    if as_json:
        print_json({"width": width, "menus": lines})


_SOURCES = {"toolbench_g3": ("toolbench",)}
_MOST_NAMES = 2_500
