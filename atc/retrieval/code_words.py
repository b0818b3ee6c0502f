"""Codes as words: the tools of an index as a menu of a few words a page, made without a model.

A page holds what goes on after the codes that were chosen. Where that is more than a page's worth (a first level has a
thousand codes) near ones become a group, which is a page of its own. Every group has a name of telling words, unlike
those beside it; a tool has its id. An index without codes is grouped by its vectors, one by words alone by its words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atc.retrieval.groups import Places, Rows, grouped
from atc.retrieval.telling_words import MAX_NAME, WORDS, TellingWords

if TYPE_CHECKING:
    from atc.retrieval.snapshot import Snapshot

WIDTH = 24
"""Entries of a page."""
_DEEPEST = 12
"""Pages above a tool: where vectors tell little apart, groups below are cut by ids, so that no walk is endless."""
_SAMPLE = 3
_MEANT = 2_048
_READ = 4 * MAX_NAME

Path = tuple[int, ...]
"""The positions of the entries that were chosen, page by page, from 0; none is the first page."""


@dataclass(frozen=True)
class Entry:
    """One line of a page: a group, or a tool.

    Attributes:
        path: of the page that it leads to; for a tool its own place.
        name: printable, at most :data:`MAX_NAME` characters, unlike those beside it.
        count: tools below it.
        codes: the codes that all tools below it share; of a tool all that it has.
        id: of the tool; empty for a group.
        sample: ids of tools in the middle of the group.
    """

    path: Path
    name: str
    count: int
    codes: tuple[int, ...]
    id: str
    sample: tuple[str, ...]


@dataclass(frozen=True)
class _Part:
    """Rows that share their first codes, sorted."""

    codes: tuple[int, ...]
    rows: Rows


class Menu:
    """The menu of a snapshot. Pages are made when they are asked for, the same ones in every order of asking.

    Args:
        snapshot: of the index.
        width: entries of a page, 2 or more.
    """

    def __init__(self, snapshot: Snapshot, width: int = WIDTH) -> None:
        self._snapshot, self._width = snapshot, max(2, width)
        self._names = TellingWords(snapshot)
        self._pages: dict[Path, tuple[tuple[Entry, ...], list[_Part]]] = {}

    def __len__(self) -> int:
        """Tools."""
        return len(self._snapshot)

    def children(self, path: Sequence[int] = ()) -> tuple[Entry, ...]:
        """The entries of a page, the largest groups first, then tools by their ids; none below a tool.

        Raises:
            KeyError: there is no such page.
        """
        return self._page(tuple(path))[0]

    def rows(self, path: Sequence[int] = ()) -> Rows:
        """The rows of the tools below a path, sorted.

        Raises:
            KeyError: there is no such path.
        """
        return self._part(tuple(path)).rows

    def path_of(self, id: str) -> Path:
        """Where a tool is.

        Raises:
            KeyError: there is no such tool.
        """
        row = self._snapshot.rows[id]
        path: Path = ()
        while len(self._part(path).rows) > 1 or not path:
            parts = self._page(path)[1]
            path = (*path, next(i for i, part in enumerate(parts) if row in part.rows))
        return path

    def _page(self, path: Path) -> tuple[tuple[Entry, ...], list[_Part]]:
        if path not in self._pages:
            part = self._part(path)
            parts = [] if path and len(part.rows) == 1 else self._parts(part, len(path))
            self._pages[path] = (tuple(self._entries(path, parts)), parts)
        return self._pages[path]

    def _part(self, path: Path) -> _Part:
        if not path:
            return _Part((), np.arange(len(self._snapshot)))
        parts = self._page(path[:-1])[1]
        if not 0 <= path[-1] < len(parts):
            raise KeyError(path)
        return parts[path[-1]]

    def _parts(self, part: _Part, depth: int) -> list[_Part]:
        """What a page shows: the codes that go on, or groups of them."""
        units = self._units(part)
        if len(units) <= self._width:
            return _in_order(units)
        units.sort(key=lambda unit: int(unit.rows[0]))
        count = min(self._width, max(2, math.ceil(math.sqrt(len(units)))))
        if depth >= _DEEPEST:
            groups = list(np.array_split(np.arange(len(units)), self._width))
        else:
            groups = grouped(
                lambda some: self._places.means([units[int(unit)].rows for unit in some]), len(units), count
            )
        found = [[units[int(unit)] for unit in group] for group in groups]
        return _in_order(
            one[0] if len(one) == 1 else _Part(part.codes, np.sort(np.concatenate([unit.rows for unit in one])))
            for one in found
        )

    def _units(self, part: _Part) -> list[_Part]:
        """What lies below a part: a unit for each code that goes on, below whole codes one for each tool."""
        codes, values = part.codes, self._codes
        while len(codes) < values.shape[1] and len(part.rows) > 1:
            order = np.argsort(values[part.rows, len(codes)], kind="stable")
            found, begins = np.unique(values[part.rows[order], len(codes)], return_index=True)
            if len(found) > 1:
                pieces = np.split(part.rows[order], begins[1:])
                return [_Part((*codes, int(code)), rows) for code, rows in zip(found, pieces, strict=True)]
            codes = (*codes, int(found[0]))
        return [_Part(tuple(values[row].tolist()), np.array([row])) for row in part.rows]

    def _entries(self, path: Path, parts: Sequence[_Part]) -> Iterator[Entry]:
        for place, (part, name) in enumerate(zip(parts, self._named(parts), strict=True)):
            ids = [self._snapshot.ids[int(row)] for row in self._middle(part.rows)]
            id = ids[0] if len(part.rows) == 1 else ""
            yield Entry((*path, place), name, len(part.rows), part.codes, id, () if id else tuple(ids))

    def _named(self, parts: Sequence[_Part]) -> list[str]:
        """Names unlike each other: of tools their ids, of groups telling words, more of them where some are the same,
        then a service or a tool, then a number."""
        groups = [part.rows for part in parts if len(part.rows) > 1]
        words = iter(self._names.of(groups) if groups else ())
        found: list[list[str]] = []
        for part in parts:
            if len(part.rows) == 1:
                found.append([self._label(int(part.rows[0]))])
                continue
            own, row = next(words), int(self._middle(part.rows)[0])
            more = [_joined([*own[:WORDS], label]) for label in (self._service(row), self._label(row)) if label]
            found.append([_joined(own[:count]) for count in range(min(WORDS, len(own)), len(own) + 1) if count] + more)
        return _apart(found)

    def _middle(self, rows: Rows) -> Rows:
        """The rows nearest to the mean of all, up to :data:`_SAMPLE`; of large groups those of a part."""
        if len(rows) == 1:
            return rows
        some = rows if len(rows) <= _MEANT else rows[np.linspace(0, len(rows) - 1, _MEANT).astype(np.int64)]
        vectors = self._places.take(some)
        return some[np.argsort(-(vectors @ vectors.mean(axis=0)), kind="stable")[:_SAMPLE]]

    def _label(self, row: int) -> str:
        return _plain(self._snapshot.ids[row])

    def _service(self, row: int) -> str:
        service = self._snapshot.ids[row].rpartition("/")[0].rpartition("/")[2]
        return _plain(service) if service else ""

    @cached_property
    def _codes(self) -> NDArray[np.int16]:
        codes = self._snapshot.codes
        return np.asarray(codes.values) if codes is not None else np.zeros((len(self._snapshot), 0), np.int16)

    @cached_property
    def _places(self) -> Places:
        return Places.of(self._snapshot)


def _in_order(parts: Iterable[_Part]) -> list[_Part]:
    """Groups before tools, the largest first; equal ones by the ids of their first tools."""
    return sorted(parts, key=lambda part: (-len(part.rows), int(part.rows[0])))


def _joined(words: Sequence[str]) -> str:
    """Words as one name, as many as it may be long."""
    while len(words) > 1 and len(", ".join(words)) > MAX_NAME:
        words = words[:-1]
    return ", ".join(words)[:MAX_NAME]


def _plain(text: str) -> str:
    """Text from outside as a name: one line, nothing that steers a terminal, and no longer than a name."""
    text = text[:_READ]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(text.split()) or "unnamed"
    return line if len(line) <= MAX_NAME else f"{line[: MAX_NAME // 2 - 1]}…{line[-MAX_NAME // 2 :]}"


def _apart(choices: Sequence[Sequence[str]]) -> list[str]:
    """One of the names of each, no two alike; where all of its names are others', the last of them with a number."""
    at = [0] * len(choices)
    while True:
        names = [_key(own[place]) for own, place in zip(choices, at, strict=True)]
        often = Counter(names)
        grown = [place for place, name in enumerate(names) if often[name] > 1 and at[place] + 1 < len(choices[place])]
        if not grown:
            break
        for place in grown:
            at[place] += 1
    taken: set[str] = set()
    found = []
    for own, place in zip(choices, at, strict=True):
        name, number = own[place], 1
        while _key(name) in taken:
            number += 1
            name = f"{own[place][: MAX_NAME - 8]} ({number})"
        taken.add(_key(name))
        found.append(name)
    return found


def _key(name: str) -> str:
    return name.casefold()
