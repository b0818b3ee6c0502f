"""The part of the graph store that is about some tools, weighted by age (NaviAgent Eq. 12)."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from atc.catalogue.graph import weights
from atc.catalogue.graph.database import Identity, name_of, place_of
from atc.catalogue.graph.edges import Counts, Learnt, Path, Place
from atc.catalogue.graph.suppliers import has_place
from atc.catalogue.graph.weights import CHANGED, weight_now
from atc.schemas.observed import is_documented
from atc.schemas.protocol import JsonSchema, Protocol, parameters_of

MANY = 400
"""Tools from which on the whole file is read, not the part of each."""
_Key = tuple[str, str, Path, str, str]
"""Kind, tool, path, other tool, parameter."""
_Feed = tuple[str, Path, str, str]


class _Row(NamedTuple):
    """A version of a tool: the keys that it has, what its evidence is worth, and whether it is this one."""

    keys: Sequence[str]
    worth: float
    current: bool


class _Corrections(NamedTuple):
    """What the user said: of feeds, of substitutes, and of parameters that mean the same."""

    feeds: dict[_Feed, bool]
    substitutes: dict[tuple[str, str], bool]
    same: dict[tuple[Place, Place], bool]


class _Sums:
    """Counts of one thing: within the window and before it."""

    __slots__ = ("before", "failed_before", "failed_recent", "last", "recent")

    def __init__(self) -> None:
        self.before = self.recent = self.failed_before = self.failed_recent = self.last = 0.0

    def counts(self) -> Counts:
        """Successes and failures, whose shares are those of now."""
        before, recent = self.before + self.failed_before, self.recent + self.failed_recent
        ok = weight_now(self.before, before, self.recent, recent) * (before + recent)
        return Counts(ok, before + recent - ok, self.last)

    def share_of(self, whole: _Sums | None) -> Counts:
        """Successes, as the share of now of those of a tool (Eq. 4 and 12)."""
        if whole is None:
            return self.counts()
        weight = weight_now(self.before, whole.before, self.recent, whole.recent)
        return Counts(weight * whole.counts().ok, 0.0, self.last)


def learnt_of(
    file: sqlite3.Connection, tools: Mapping[str, Protocol], identity: Callable[[Protocol], Identity], today: int
) -> Learnt:
    """What a file knows of some tools.

    Args:
        tools: the protocols by key.
        identity: of a protocol.
        today: days since the epoch.
    """
    keys_at: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for key in _named(file, tools):
        keys_at[place_of(tools[key])].append(key)
    rows = _rows(file, tools, keys_at, identity)
    sums = _sums(file, rows, today)
    kept = {key: each for key, each in sums.items() if _fits(tools, key, each, rows)}
    calls = {key[3]: each for key, each in kept.items() if key[0] == "call"}
    learnt: dict[str, dict[Any, Counts]] = {"follow": {}, "feed": {}, "replace": {}, "level": {}}
    for (kind, a, path, b, parameter), each in kept.items():
        name: Any = (a, path, b, parameter) if kind in ("feed", "level") else (a, b)
        if kind == "replace":
            learnt[kind][name] = each.counts()
        elif kind in learnt:
            learnt[kind][name] = each.share_of(sums.get(("call", b, (), b, "")))
    said = _corrections(file, keys_at)
    return Learnt(
        calls={tool: each.counts() for tool, each in calls.items()},
        follows=learnt["follow"],
        feeds=learnt["feed"],
        replaced=learnt["replace"],
        shapes=_shapes(file, tools, rows),
        corrected_feeds=said.feeds,
        corrected_substitutes=said.substitutes,
        corrected_same=said.same,
        predicted=_predictions(file, rows),
        habits=_habits(learnt["level"]),
        key_aliases=_key_aliases(kept, tools),
    )


def _named(file: sqlite3.Connection, tools: Mapping[str, Protocol]) -> Iterable[str]:
    """The tools that may be in a file: of very many those alone whose names are."""
    if len(tools) <= MANY:
        return tools
    known = "SELECT name FROM tool UNION SELECT a_name FROM correction UNION SELECT b_name FROM correction"
    names = {name for (name,) in file.execute(known)}
    return [key for key, each in tools.items() if name_of(each) in names]


def _rows(
    file: sqlite3.Connection,
    tools: Mapping[str, Protocol],
    keys_at: Mapping[tuple[str, str], Sequence[str]],
    identity: Callable[[Protocol], Identity],
) -> dict[int, _Row]:
    """The versions of the tools in a file. Each change of a tool's schemas halves what the ones before are worth."""
    query = "SELECT service, name, id, digest FROM tool"
    order = " ORDER BY last DESC, id DESC"
    if len(keys_at) > MANY:
        found: Iterable[tuple[str, str, int, str]] = file.execute(query + order)
    else:
        each = query + " WHERE service = ? AND name = ?" + order
        found = (row for place in keys_at for row in file.execute(each, place))
    versions: defaultdict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for service, name, id, digest in found:
        if (service, name) in keys_at:
            versions[service, name].append((id, digest))
    made: dict[int, _Row] = {}
    for place, some in versions.items():
        by_digest: defaultdict[str, list[str]] = defaultdict(list)
        for key in keys_at[place]:
            by_digest[identity(tools[key]).digest].append(key)
        for digest, keys in by_digest.items():
            older = 0
            for id, its_digest in some:
                if its_digest == digest:
                    made[id] = _Row(keys, 1.0, True)
                elif its_digest not in by_digest:
                    older += 1
                    made.setdefault(id, _Row(keys, CHANGED**older, False))
    return made


def _sums(file: sqlite3.Connection, rows: Mapping[int, _Row], today: int) -> dict[_Key, _Sums]:
    found: dict[_Key, _Sums] = {}
    for kind, a, b, text, parameter, last, recent, failed_recent, before, failed_before in _edges(file, rows, today):
        path = _path(text)
        if a not in rows or b not in rows or path is None:
            continue
        worth = rows[a].worth * rows[b].worth if a != b else rows[a].worth
        current = rows[a].current and rows[b].current
        for key in ((kind, one, path, two, parameter) for one in rows[a].keys for two in rows[b].keys):
            if kind in ("call", "level", "respelt") and key[1] != key[3]:
                continue
            sums = found.setdefault(key, _Sums())
            sums.last = max(sums.last, last)
            if current:
                sums.before, sums.failed_before = sums.before + before, sums.failed_before + failed_before
                sums.recent, sums.failed_recent = sums.recent + recent, sums.failed_recent + failed_recent
            else:  # what was seen of another version is no news of this one
                sums.before += worth * (before + recent)
                sums.failed_before += worth * (failed_before + failed_recent)
    return found


def _edges(file: sqlite3.Connection, rows: Mapping[int, _Row], today: int) -> Iterator[tuple[Any, ...]]:
    query = (
        "SELECT kind, a, b, path, parameter, edge.last,"
        " SUM(IIF(day > :start, ok, 0)), SUM(IIF(day > :start, failed, 0)),"
        " SUM(IIF(day > :start, 0, ok)), SUM(IIF(day > :start, 0, failed))"
        " FROM edge JOIN uses ON uses.edge = edge.id {where} GROUP BY edge.id"
    )
    start = today - weights.WINDOW_DAYS
    if len(rows) > MANY:
        yield from file.execute(query.format(where=""), {"start": start})
        return
    each = query.format(where="WHERE b = :b")
    for b in rows:
        yield from file.execute(each, {"start": start, "b": b})


def _path(text: object) -> Path | None:
    try:
        steps = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return tuple(steps) if isinstance(steps, list) and all(isinstance(step, str) for step in steps) else None


def _fits(tools: Mapping[str, Protocol], key: _Key, sums: _Sums, rows: Mapping[int, _Row]) -> bool:
    kind, a, path, b, parameter = key
    if kind != "feed":
        return True
    if parameter not in (each.original for each in parameters_of(tools[b])):
        return False
    if has_place(tools[a].returns, path) or not is_documented(tools[a].returns):
        return True
    return sums.recent > 0  # the service answers otherwise than its document says


def _key_aliases(sums: Mapping[_Key, _Sums], tools: Mapping[str, Protocol]) -> dict[str, dict[str, str]]:
    found: defaultdict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    for (kind, tool, path, _, parameter), each in sums.items():
        if kind == "respelt" and len(path) == 1:
            found[tool, path[0]].append((each.before + each.recent, parameter))
    made: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for (tool, key), meant in found.items():
        parameters = parameters_of(tools[tool])
        names, known = {each.original for each in parameters}, {each.name for each in parameters}
        (most, parameter), *others = sorted(meant, reverse=True)
        if key not in names | known and parameter in names and all(other[0] < most for other in others):
            made[tool][key] = parameter
    return dict(made)


def _shapes(file: sqlite3.Connection, tools: Mapping[str, Protocol], rows: Mapping[int, _Row]) -> dict[str, JsonSchema]:
    found: dict[str, JsonSchema] = {}
    for id, row in rows.items():
        keys = [key for key in row.keys if row.current and key not in found and not is_documented(tools[key].returns)]
        held = file.execute("SELECT outline FROM shape WHERE tool = ?", (id,)).fetchone() if keys else None
        if held is not None:
            from atc.schemas.infer.outline import Outline  # only here: most tools document what they return

            try:
                schema = Outline.model_validate_json(held[0]).schema_seen()
            except ValueError:
                continue
            found |= {key: schema for key in keys if schema}
    return found


def _habits(levels: Mapping[_Feed, Counts]) -> dict[str, dict[int, float]]:
    found: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for (tool, _, _, level), counts in sorted(levels.items()):
        if level.isdecimal() and len(level) == 1 and counts.ok > 0:
            found[tool][int(level)] = counts.ok
    return dict(found)


def _corrections(file: sqlite3.Connection, keys_at: Mapping[tuple[str, str], Sequence[str]]) -> _Corrections:
    said = _Corrections({}, {}, {})
    for kind, a_service, a_name, text, b_service, b_name, parameter, there in file.execute("SELECT * FROM correction"):
        path = _path(text)
        for a in keys_at.get((a_service, a_name), ()):
            for b in keys_at.get((b_service, b_name), ()):
                if kind == "replace":
                    said.substitutes[a, b] = bool(there)
                elif kind == "same" and path:
                    said.same[Place(a, path, True), Place(b, (parameter,), True)] = bool(there)
                elif kind == "feed" and path is not None:
                    said.feeds[a, path, b, parameter] = bool(there)
    return said


def _predictions(file: sqlite3.Connection, rows: Mapping[int, _Row]) -> dict[_Feed, float]:
    current = {id: row for id, row in rows.items() if row.current}
    made: dict[_Feed, float] = {}
    query = "SELECT a, b, path, parameter, weight FROM prediction"
    if len(current) > MANY:
        found: Iterable[tuple[int, int, str, str, float]] = file.execute(query)
    else:
        found = (row for b in current for row in file.execute(query + " WHERE b = ?", (b,)))
    for a, b, text, parameter, weight in found:
        path = _path(text)
        if a in current and b in current and path is not None:
            made |= {(one, path, two, parameter): weight for one in current[a].keys for two in current[b].keys}
    return made
