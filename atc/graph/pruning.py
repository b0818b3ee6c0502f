"""The bounds of the graph store: what is worth least goes first (NaviAgent Eq. 11), never what the user said."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from typing import Any

from atc.graph.ageing import score_after

MAX_EDGES, MAX_INTO = 50_000, 64
"""Edges in all, and those of one kind into one tool."""
MAX_RUNS, MAX_SHAPES, MAX_VERSIONS, MAX_PREDICTIONS = 20_000, 5_000, 4, 100_000
"""Runs whose names are kept so that each is learnt once; shapes; versions of one tool; predicted edges."""
_KEPT = 0.9
"""What is left after a bound was met, so that it is not met again at once."""
_SUMS = (
    "SELECT edge.id, SUM(failed), SUM(ok) + SUM(failed), MAX(day) FROM edge JOIN uses ON uses.edge = edge.id"
    " WHERE {where} GROUP BY edge.id"
)


def prune_edges(file: sqlite3.Connection, grown: Iterable[int], today: int) -> None:
    """Keep the bounds on edges after new ones were made into the tools ``grown``."""
    for tool in grown:
        kinds = file.execute("SELECT kind, COUNT(*) FROM edge WHERE b = ? GROUP BY kind", (tool,)).fetchall()
        for kind in (kind for kind, count in kinds if count > MAX_INTO):
            rows = file.execute(_SUMS.format(where="b = ? AND kind = ?"), (tool, kind)).fetchall()
            _drop_worst(file, rows, int(MAX_INTO * _KEPT), today)
    if file.execute("SELECT COUNT(*) FROM edge").fetchone()[0] > MAX_EDGES:
        _drop_worst(file, file.execute(_SUMS.format(where="1")).fetchall(), int(MAX_EDGES * _KEPT), today)
        _drop_tools(file, "id NOT IN (SELECT a FROM edge UNION SELECT b FROM edge)"
                          " AND id NOT IN (SELECT a FROM prediction UNION SELECT b FROM prediction)", ())  # fmt: skip


def _drop_worst(file: sqlite3.Connection, rows: list[tuple[int, float, float, int]], keep: int, today: int) -> None:
    worth = sorted(rows, key=lambda row: (score_after(row[1], row[2], today - row[3]), -row[3], row[0]))
    _drop_edges(file, [row[0] for row in worth[keep:]])


def _drop_edges(file: sqlite3.Connection, edges: Iterable[int]) -> int:
    ids = [(edge,) for edge in edges]
    file.executemany("DELETE FROM uses WHERE edge = ?", ids)
    file.executemany("DELETE FROM edge WHERE id = ?", ids)
    return len(ids)


def prune_shapes(file: sqlite3.Connection) -> None:
    """Keep the bound on shapes: those of the tools that were used last stay."""
    if file.execute("SELECT COUNT(*) FROM shape").fetchone()[0] > MAX_SHAPES:
        file.execute(
            "DELETE FROM shape WHERE tool NOT IN"
            " (SELECT shape.tool FROM shape JOIN tool ON tool.id = shape.tool ORDER BY tool.last DESC LIMIT ?)",
            (int(MAX_SHAPES * _KEPT),),
        )


def prune_predictions(file: sqlite3.Connection) -> None:
    """Keep the bound on predictions: the greatest stay."""
    file.execute(
        "DELETE FROM prediction WHERE rowid IN (SELECT rowid FROM prediction ORDER BY weight DESC LIMIT -1 OFFSET ?)",
        (MAX_PREDICTIONS,),
    )


def prune_versions(file: sqlite3.Connection, service: str, name: str) -> None:
    """Keep the versions of one tool that were used last."""
    rows = file.execute(
        "SELECT id FROM tool WHERE service = ? AND name = ? AND NOT is_foreign ORDER BY last DESC LIMIT -1 OFFSET ?",
        (service, name, MAX_VERSIONS),
    ).fetchall()
    for (id,) in rows:
        _drop_tools(file, "id = ?", (id,))


def _drop_tools(file: sqlite3.Connection, where: str, values: tuple[Any, ...]) -> int:
    """Drop tools, and all that is about them; how many facts that were."""
    ids = [id for (id,) in file.execute(f"SELECT id FROM tool WHERE {where}", values)]
    count = 0
    for id in ids:
        count += _drop_edges(
            file, [edge for (edge,) in file.execute("SELECT id FROM edge WHERE a = ? OR b = ?", (id, id))]
        )
        count += file.execute("DELETE FROM shape WHERE tool = ?", (id,)).rowcount
        count += file.execute("DELETE FROM prediction WHERE a = ? OR b = ?", (id, id)).rowcount
        file.execute("DELETE FROM tool WHERE id = ?", (id,))
    return count


def forget(file: sqlite3.Connection, places: Collection[tuple[str, str]] | None, services: Collection[str] = ()) -> int:
    """Forget tools by service and name and whole services, or everything; how many facts that were."""
    if places is None:
        facts = ("edge", "shape", "prediction", "correction")
        count = sum(file.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in facts)
        for table in (*facts, "uses", "tool", "run"):
            file.execute(f"DELETE FROM {table}")
        return int(count)
    count = 0
    for place in places:
        count += _drop_tools(file, "service = ? AND name = ?", place)
        count += file.execute(
            "DELETE FROM correction WHERE (a_service, a_name) = (?, ?) OR (b_service, b_name) = (?, ?)", place * 2
        ).rowcount
    for service in services:
        count += _drop_tools(file, "service = ?", (service,))
        count += file.execute("DELETE FROM correction WHERE ? IN (a_service, b_service)", (service,)).rowcount
    return count


def drop_foreign(file: sqlite3.Connection, service: str, name: str) -> None:
    """Forget what was loaded about a tool."""
    _drop_tools(file, "service = ? AND name = ? AND is_foreign = 1", (service, name))
