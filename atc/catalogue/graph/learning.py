"""One transaction that adds to the graph store: what a run teaches, counted by day."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from atc.catalogue.graph import weights
from atc.catalogue.graph.database import Identity
from atc.catalogue.graph.edges import Path
from atc.catalogue.graph.lessons import Lessons
from atc.catalogue.graph.weights import DAY_S, score_after
from atc.schemas.protocol import Protocol

if TYPE_CHECKING:
    from atc.schemas.infer.outline import Outline

# ----------------------------------------------------------------------------------------------------------------------
# The bounds of the graph store: what is worth least goes first (NaviAgent Eq. 11), never what the user said.


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
        "SELECT id FROM tool WHERE service = ? AND name = ? ORDER BY last DESC LIMIT -1 OFFSET ?",
        (service, name, MAX_VERSIONS),
    ).fetchall()
    for (id,) in rows:
        _drop_tools(file, "id = ?", (id,))


def _drop_tools(file: sqlite3.Connection, where: str, values: tuple[Any, ...]) -> int:
    """Return how many facts were dropped."""
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


# ----------------------------------------------------------------------------------------------------------------------
# One transaction that adds to the graph store: what a run teaches, counted by day.


MAX_OUTLINE = 16_000
"""Characters of the outline of a response; one that grew larger stays as it was."""
IdentityOf = Callable[[Protocol], Identity]


class Learning:
    """Adds to a file, within a transaction of the caller's.

    Args:
        tools: the protocols by the names that lessons use.
        identity: of a protocol.
        moment: seconds since the epoch.
    """

    def __init__(
        self, file: sqlite3.Connection, tools: Mapping[str, Protocol], identity: IdentityOf, moment: float
    ) -> None:
        self._file, self._tools, self._identity = file, tools, identity
        self._moment, self._today = moment, int(moment // DAY_S)
        self._ids: dict[str, int] = {}
        self._grown: set[int] = set()
        """Tools into which there is a new edge."""

    def add(self, lessons: Lessons) -> None:
        """Count what a run teaches, as far as it was not learnt before."""
        new = self._new(lessons)
        for tool, count in new.calls.items():
            self._count("call", tool, tool, ok=count)
        for _, tool in new.failed:
            self._count("call", tool, tool, failed=1)
        for (a, b), count in new.follows.items():
            self._count("follow", a, b, ok=count)
        for (a, path, b, parameter), count in new.feeds.items():
            self._count("feed", a, b, path, parameter, ok=count)
        for (tool, level), count in new.levels.items():
            self._count("level", tool, tool, parameter=str(level), ok=count)
        for (a, b), worked in new.replaced.items():
            self._count("replace", a, b, ok=int(worked), failed=int(not worked))
        for (tool, key), parameter in new.respelt.items():
            self._count("respelt", tool, tool, (key,), parameter, ok=1)
        for tool, outline in new.shapes.items():
            self._observe(tool, outline)
        if self._grown:
            prune_edges(self._file, self._grown, self._today)

    def _new(self, lessons: Lessons) -> Lessons:
        """What was not learnt of this request before: it may have been interrupted, and gone on."""
        if not lessons.id:
            return lessons
        shapes = lessons.shapes if lessons.shapes and self._observes_anew(lessons) else {}
        return replace(self._new_of_run(lessons), shapes=shapes)

    def _observes_anew(self, lessons: Lessons) -> bool:
        """Whether no answer that shapes rest on was counted before. A run's next program goes on with its numbers."""
        first, last = lessons.observed
        of_shapes = f"{lessons.id}+"
        held = self._file.execute("SELECT failed_to FROM run WHERE id = ?", (of_shapes,)).fetchone()
        if held is not None and first <= held[0]:
            return False
        self._file.execute(
            "INSERT INTO run (id, answered, failed_to) VALUES (?, 0, ?)"
            " ON CONFLICT (id) DO UPDATE SET failed_to = excluded.failed_to",
            (of_shapes, last),
        )
        return True

    def _new_of_run(self, lessons: Lessons) -> Lessons:
        held = self._file.execute("SELECT answered, failed_to FROM run WHERE id = ?", (lessons.id,)).fetchone()
        answered, failed_to = held or (0, 0)
        failed = tuple((number, tool) for number, tool in lessons.failed if number > failed_to)
        self._file.execute(
            "INSERT INTO run (id, answered, failed_to) VALUES (?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET answered = excluded.answered, failed_to = excluded.failed_to",
            (lessons.id, int(bool(answered) or lessons.answered), max([failed_to, *(number for number, _ in failed)])),
        )
        self._file.execute("DELETE FROM run WHERE number <= (SELECT MAX(number) FROM run) - ?", (MAX_RUNS,))
        if answered:
            return Lessons(lessons.id, failed=failed)
        if lessons.answered or held is None:
            return replace(lessons, failed=failed)
        return Lessons(lessons.id, failed=failed)

    def _count(
        self, kind: str, a: str, b: str, path: Path = (), parameter: str = "", *, ok: int = 0, failed: int = 0
    ) -> None:
        if a not in self._tools or b not in self._tools:
            return
        key = (self.id_of(b), kind, self.id_of(a), json.dumps(path), parameter)
        found = self._file.execute(
            "SELECT id FROM edge WHERE (b, kind, a, path, parameter) = (?, ?, ?, ?, ?)", key
        ).fetchone()
        if found is None:
            made = self._file.execute(
                "INSERT INTO edge (b, kind, a, path, parameter, last) VALUES (?, ?, ?, ?, ?, ?)", (*key, self._moment)
            )
            edge = made.lastrowid
            self._grown.add(key[0])
        else:
            (edge,) = found
            self._file.execute("UPDATE edge SET last = MAX(last, ?) WHERE id = ?", (self._moment, edge))
            self._fold(edge)
        self._file.execute(
            "INSERT INTO uses VALUES (?, ?, ?, ?)"
            " ON CONFLICT (edge, day) DO UPDATE SET ok = ok + excluded.ok, failed = failed + excluded.failed",
            (edge, self._today, ok, failed),
        )

    def _fold(self, edge: int) -> None:
        """Add the days that left the window to the long term, day 0."""
        left = (edge, self._today - weights.WINDOW_DAYS)
        ok, failed = self._file.execute(
            "SELECT SUM(ok), SUM(failed) FROM uses WHERE edge = ? AND day BETWEEN 1 AND ?", left
        ).fetchone()
        if ok is not None:
            self._file.execute("DELETE FROM uses WHERE edge = ? AND day BETWEEN 1 AND ?", left)
            self._file.execute(
                "INSERT INTO uses VALUES (?, 0, ?, ?)"
                " ON CONFLICT (edge, day) DO UPDATE SET ok = ok + excluded.ok, failed = failed + excluded.failed",
                (edge, ok, failed),
            )

    def _observe(self, tool: str, outline: Outline) -> None:
        if tool not in self._tools:
            return
        id = self.id_of(tool)
        held = self._file.execute("SELECT outline FROM shape WHERE tool = ?", (id,)).fetchone()
        if held is not None:
            from atc.schemas.infer.outline import Outline, merged  # only here: most tools document their responses

            outline = merged(Outline.model_validate_json(held[0]), outline)
        text = outline.model_dump_json(exclude_defaults=True)
        if len(text) <= MAX_OUTLINE:
            self._file.execute("INSERT OR REPLACE INTO shape VALUES (?, ?)", (id, text))
        if held is None:
            prune_shapes(self._file)

    def id_of(self, key: str) -> int:
        """The row of a tool, made where there is none."""
        if key not in self._ids:
            identity = self._identity(self._tools[key])
            found = self._file.execute(
                "SELECT id FROM tool WHERE (service, name, digest) = (?, ?, ?)", identity
            ).fetchone()
            if found is None:
                made = self._file.execute(
                    "INSERT INTO tool (service, name, digest, last) VALUES (?, ?, ?, ?)",
                    (*identity, self._moment),
                )
                found = (made.lastrowid,)
                prune_versions(self._file, identity.service, identity.name)
            else:
                self._file.execute("UPDATE tool SET last = MAX(last, ?) WHERE id = ?", (self._moment, found[0]))
            self._ids[key] = int(found[0])
        return self._ids[key]
