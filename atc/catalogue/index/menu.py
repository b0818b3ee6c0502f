"""The tools of an index as a menu of a few words a page, made without a model.

Near tools become a group, which is a page of its own: by the vectors of the index, or by its words where it has none.
Every group has a name of telling words, unlike those beside it; a tool has its id.

Telling words tell a group from those beside it (class-based TF-IDF). A word counts for a group by how often it occurs
there, times log(1 + A / f): A is the mean number of words of a group, f how often the word occurs in all of them; and
times the part of f that is the group's own: where few groups stand beside each other, the logarithm alone leaves in
front what all of them have. Words are taken one after the other, each for the documents
that no earlier one is in, so that a name covers its group. The counts of an index hold words in a normal form that need
be no English; a name has them as documents have them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atc.catalogue.index.clustering import Places, grouped, telling
from atc.catalogue.index.lexical import entries_of
from atc.catalogue.index.vectors import Rows
from atc.catalogue.index.words import written

if TYPE_CHECKING:
    from atc.catalogue.index.snapshot import Snapshot

WORDS, MOST_WORDS = 4, 6
"""Words of a name, and with those that make it differ from others beside it."""
MAX_NAME = 60
"""Characters of a name."""
_CANDIDATES = 24
_FORMS, _MAX_READ = 6, 600
"""Documents that are read to see how a word is written, and characters of each of their texts."""
_COUNTED = 4_096
"""Documents of a group whose words are counted; of larger ones every so manieth."""
_COVERED = 0.25
"""The weight that a document still has if a word of the name is in it already."""
_ALONE = 0.2
"""The weight of a word that only one document of a larger group has: it names a tool, not the group."""
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
        id: of the tool; empty for a group.
        sample: ids of tools in the middle of the group.
    """

    path: Path
    name: str
    count: int
    id: str
    sample: tuple[str, ...]


class Menu:
    """The menu of a snapshot. Pages are made when they are asked for, the same ones in every order of asking.

    Args:
        snapshot: of the index.
        width: entries of a page, 2 or more.
    """

    def __init__(self, snapshot: Snapshot, width: int = WIDTH) -> None:
        self._snapshot, self._width = snapshot, max(2, width)
        self._names = TellingWords(snapshot)
        self._pages: dict[Path, tuple[tuple[Entry, ...], list[Rows]]] = {}

    def __len__(self) -> int:
        """Tools."""
        return len(self._snapshot)

    def children(self, path: Sequence[int] = ()) -> tuple[Entry, ...]:
        """Return the entries of a page, the largest groups first, then tools by their ids; none below a tool.

        Raises:
            KeyError: there is no such page.
        """
        return self._page(tuple(path))[0]

    def rows(self, path: Sequence[int] = ()) -> Rows:
        """Return the rows of the tools below a path, sorted.

        Raises:
            KeyError: there is no such path.
        """
        return self._part(tuple(path))

    def path_of(self, id: str) -> Path:
        """Return where a tool is.

        Raises:
            KeyError: there is no such tool.
        """
        row = self._snapshot.rows[id]
        path: Path = ()
        while len(self._part(path)) > 1 or not path:
            parts = self._page(path)[1]
            path = (*path, next(i for i, part in enumerate(parts) if row in part))
        return path

    def _page(self, path: Path) -> tuple[tuple[Entry, ...], list[Rows]]:
        if path not in self._pages:
            part = self._part(path)
            parts = [] if path and len(part) == 1 else self._parts(part, len(path))
            self._pages[path] = (tuple(self._entries(path, parts)), parts)
        return self._pages[path]

    def _part(self, path: Path) -> Rows:
        if not path:
            return np.arange(len(self._snapshot))
        parts = self._page(path[:-1])[1]
        if not 0 <= path[-1] < len(parts):
            raise KeyError(path)
        return parts[path[-1]]

    def _parts(self, rows: Rows, depth: int) -> list[Rows]:
        """Return what a page shows: each tool, or groups of them."""
        if len(rows) <= self._width:
            return _in_order(np.split(rows, len(rows)) if len(rows) else [])
        if depth >= _DEEPEST:
            return _in_order(np.array_split(rows, self._width))
        count = min(self._width, max(2, math.ceil(math.sqrt(len(rows)))))
        groups = grouped(lambda some: self._places.take(rows[some]), len(rows), count)
        return _in_order(rows[group] for group in groups)

    def _entries(self, path: Path, parts: Sequence[Rows]) -> Iterator[Entry]:
        for place, (part, name) in enumerate(zip(parts, self._named(parts), strict=True)):
            ids = [self._snapshot.ids[int(row)] for row in self._middle(part)]
            id = ids[0] if len(part) == 1 else ""
            yield Entry((*path, place), name, len(part), id, () if id else tuple(ids))

    def _named(self, parts: Sequence[Rows]) -> list[str]:
        """Return names unlike each other: of tools their ids, of groups telling words, more of them where some are the
        same, then a service or a tool, then a number.
        """
        groups = [part for part in parts if len(part) > 1]
        words = iter(self._names.of(groups) if groups else ())
        found: list[list[str]] = []
        for part in parts:
            if len(part) == 1:
                found.append([self._label(int(part[0]))])
                continue
            own, row = next(words), int(self._middle(part)[0])
            more = [_joined([*own[:WORDS], label]) for label in (self._service(row), self._label(row)) if label]
            found.append([_joined(own[:count]) for count in range(min(WORDS, len(own)), len(own) + 1) if count] + more)
        return _apart(found)

    def _middle(self, rows: Rows) -> Rows:
        """Return the rows nearest to the mean of all, up to :data:`_SAMPLE`; of large groups those of a part."""
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
    def _places(self) -> Places:
        return Places.of(self._snapshot)


def _in_order(parts: Iterable[Rows]) -> list[Rows]:
    """Groups before tools, the largest first; equal ones by the ids of their first tools."""
    return sorted(parts, key=lambda part: (-len(part), int(part[0])))


def _joined(words: Sequence[str]) -> str:
    """Words as one name, as many as it may be long."""
    while len(words) > 1 and len(", ".join(words)) > MAX_NAME:
        words = words[:-1]
    return ", ".join(words)[:MAX_NAME]


def _plain(text: str) -> str:
    """Return text from outside as a name: one line, nothing that steers a terminal, and no longer than a name."""
    text = text[:_READ]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(text.split()) or "unnamed"
    return line if len(line) <= MAX_NAME else f"{line[: MAX_NAME // 2 - 1]}…{line[-MAX_NAME // 2 :]}"


def _apart(choices: Sequence[Sequence[str]]) -> list[str]:
    """Return one name of each, no two alike; where all of its names are others', the last one with a number."""
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


# -- telling words -----------------------------------------------------------------------------------------------------


class TellingWords:
    """Finds the telling words of groups of documents of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._written: dict[int, str] = {}

    def of(self, groups: Sequence[Rows], most: int = MOST_WORDS) -> list[list[str]]:
        """Return the telling words of groups that stand beside each other, the most telling first; some have none.

        Args:
            groups: the rows of each.
            most: words of a group.
        """
        counts = self._snapshot.counts
        groups = [_some(group) for group in groups]
        entries = [self._entries(group) for group in groups]
        sizes = [len(found) for found, _ in entries]
        if not sum(sizes):
            return [[] for _ in groups]
        taken = np.concatenate([found for found, _ in entries])
        known, label = np.unique(counts.words[taken], return_inverse=True)
        group_of = np.repeat(np.arange(len(groups)), sizes)
        weights = counts.weights[taken].astype(np.float64)
        table = np.bincount(group_of * len(known) + label, weights, len(groups) * len(known))
        table = table.reshape(len(groups), len(known))
        everywhere = table.sum(axis=0)
        rarity = np.log1p(table.sum() / len(groups) / everywhere) * self._telling[known]
        begins = np.cumsum([0, *sizes])
        made = []
        for group, (_, owner) in enumerate(entries):
            here = slice(begins[group], begins[group + 1])
            score = table[group] * rarity * (table[group] / everywhere)
            made.append(self._chosen(score, known, label[here], owner, weights[here], len(groups[group]), most))
        return made

    def _chosen(
        self,
        score: NDArray[np.float64],
        known: NDArray[np.int32],
        label: Rows,
        owner: Rows,
        weights: NDArray[np.float64],
        documents: int,
        most: int,
    ) -> list[str]:
        """Words one after the other, each by what it gives for documents that the earlier ones are not in."""
        often = np.bincount(label, minlength=len(known))  # documents of the group that have the word
        shared = np.where(often > 1, score, score * _ALONE if documents > 2 else score)
        best = np.argsort(-shared, kind="stable")[:_CANDIDATES]
        best = best[score[best] > 0]
        place = np.full(len(known), -1, np.int64)
        place[best] = np.arange(len(best))
        kept = place[label] >= 0
        has = np.zeros((len(best), documents))
        has[place[label[kept]], owner[kept]] = weights[kept]
        value = shared[best] / np.maximum(has.sum(axis=1), 1e-9)
        left = np.ones(documents)
        chosen: list[int] = []
        found: list[str] = []
        while len(found) < most and len(chosen) < len(best):
            gain = (has @ left) * value
            gain[chosen] = -1.0
            one = int(np.argmax(gain))
            chosen.append(one)
            word = self._readable(int(known[best[one]]))
            if any(word in other or other in word for other in found):
                continue
            found.append(word)
            left[has[one] > 0] = _COVERED
        return found

    def _readable(self, word: int) -> str:
        """Return a word as most of some documents have it; of several forms the shortest."""
        if word not in self._written:
            normal = self._snapshot.counts.vocabulary[word]
            owners, begins = self._by_word
            rows = owners[np.unique(np.linspace(begins[word], begins[word + 1] - 1, _FORMS).astype(np.int64))]
            forms = Counter(form for row in rows for form in written(self._text(int(row)), normal))
            self._written[word] = min(forms, key=lambda form: (-forms[form], len(form), form), default=normal)
        return self._written[word]

    def _text(self, row: int) -> str:
        document = self._snapshot.documents[row]
        if isinstance(document, bytes):
            fields = json.loads(document)
            name, description = str(fields.get("name", "")), str(fields.get("description", ""))
        else:
            name, description = document.name, document.description
        return f"{self._snapshot.ids[row][:_MAX_READ]} {name[:_MAX_READ]} {description[:_MAX_READ]}"

    def _entries(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return where the words of rows lie in the counts, and to the how-manieth row each belongs."""
        taken, begins = entries_of(rows, self._snapshot.counts.pointers)
        return taken, np.repeat(np.arange(len(rows)), np.diff(np.append(begins, len(taken))))

    @cached_property
    def _telling(self) -> NDArray[np.bool_]:
        return telling(self._snapshot.counts)

    @cached_property
    def _by_word(self) -> tuple[Rows, Rows]:
        """Return the documents that have each word, word by word, and where those of each word begin."""
        counts = self._snapshot.counts
        owners = np.repeat(np.arange(len(counts)), np.diff(counts.pointers))[np.argsort(counts.words, kind="stable")]
        return owners, np.cumsum(np.bincount(counts.words + 1, minlength=len(counts.vocabulary) + 1))


def _some(rows: Rows) -> Rows:
    return rows if len(rows) <= _COUNTED else rows[np.linspace(0, len(rows) - 1, _COUNTED).astype(np.int64)]
